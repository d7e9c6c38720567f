"""What several commands do before they begin: a user's own file, the backend, the number of threads."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from minires.messages import FileProblem, ValueProblem


def run_file(path: str | None) -> None:
    """Run a Python file of the user's, which registers what it defines. Raises FileProblem if there is none."""
    if path is None:
        return
    if not Path(path).is_file():
        raise FileProblem("--load takes a Python file", f"{path!r}, which is not there", "Is the path right?")
    runpy.run_path(path)


@contextmanager
def machine(backend: str | None, threads: int) -> Iterator[None]:
    """The chosen backend and at most `threads` threads for matrix products."""
    if threads < 1:
        raise ValueProblem("threads must be at least 1", str(threads), "Leave it out for one.")
    import numpy  # noqa: F401  (first: only a library that is loaded can be limited)
    from threadpoolctl import threadpool_limits

    import minires

    with ExitStack() as stack:
        if backend is not None:
            stack.enter_context(minires.backend(backend))
        stack.enter_context(threadpool_limits(threads))
        yield
