"""What several commands do before they begin: a user's own file, the backend, the number of threads."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from minires.messages import Explained, FileProblem, UnknownName, ValueProblem


def run_file(path: str | None) -> None:
    """Import a Python file of the user's, which registers what it defines.

    Raises FileProblem if there is no such file, or if it stops with an error; the message names the line.
    """
    if path is None:
        return
    spec = importlib.util.spec_from_file_location(f"minires_user_{Path(path).stem}", path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise FileProblem("--load takes a Python file", repr(path), "Is the path right, and does it end with .py?")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Explained:
        raise
    except Exception as error:
        must = "the file given with --load must run without an error"
        raise FileProblem(
            must, f"{_place(path, error)}: {type(error).__name__}: {error}", "Run it with python first."
        ) from None


def _place(path: str, error: Exception) -> str:
    """The deepest line of the user's file that the error came through."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    return path if line is None else f"{path}, line {line}"


@contextmanager
def saved_names(checkpoint: str | None) -> Iterator[None]:
    """A name that a checkpoint knows and we do not is no typing error: it was registered by a file of the user's."""
    try:
        yield
    except UnknownName as unknown:
        if checkpoint is not None:
            unknown.hint = f"The model in {checkpoint!r} needs it. Add --load FILE, with the file that registers it."
        raise


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
