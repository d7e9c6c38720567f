"""`minires.backend`: which of two implementations runs, the NumPy functions or their numba twins.

The functions in `minires/ops` are the reference: short, readable, in NumPy. Some have a twin in `minires/kernels` with
the same arguments, the same result and the same `saved` tuple, so that a forward pass on one backend can be followed by
a backward pass on the other. A twin is asked first while the numba backend is on, and may decline a call that it was
not written for; then the reference answers.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

from minires.memory import keep_freed_memory
from minires.messages import UnknownName, ValueProblem
from minires.tensor import OPS

NAMES = ("numba", "numpy")

# Where the twin of each operation lives: `minires/kernels/FILE.py` holds NAME_forward, NAME_backward or both.
TWINS = {
    "softmax": "softmax",
    "log_softmax": "softmax",
    "cross_entropy": "loss",
    "layernorm": "norms",
    "rmsnorm": "norms",
    "relu": "activations",
    "gelu": "activations",
    "gelu_tanh": "activations",
    "silu": "activations",
    "embedding": "embedding",
    "attention": "attention",
    "self_attention": "attention",
    "linear": "linear",
    "ffn": "linear",
}
# Twins whose `saved` is shorter where that saves much memory: both sides run as twins, or neither.
PAIRED = ("attention", "self_attention")


class Switch:
    """What `minires.backend(name)` returns: the switch is made; as a context manager it is undone at the end."""

    def __init__(self, backend: Backend, name: str):
        self.backend, self.before, backend.name = backend, backend.name, name

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: Any) -> None:
        self.backend.name = self.before


class Backend:
    """`minires.backend("numpy")` from here on, or inside `with minires.backend("numpy"):`; `.name` says what is on.

    It holds for all threads, and works together with `minires.use` in either order: what you put in stays in.
    Raises UnknownName for another name, and ValueProblem for "numba" where numba cannot be imported.
    """

    def __init__(self) -> None:
        self.name = NAMES[0] if importlib.util.find_spec("numba") else NAMES[1]

    def __call__(self, name: str) -> Switch:
        if name not in NAMES:
            raise UnknownName("backend", name, NAMES)
        if name == "numba" and (problem := numba_problem()):
            raise ValueProblem(
                "the numba backend needs numba", problem, "Write `pip install numba`, or stay with NumPy."
            )
        return Switch(self, name)

    def __repr__(self) -> str:
        return f"minires.backend({self.name!r})"


@functools.cache
def numba_problem() -> str:
    """Why numba cannot be used here; empty if it can."""
    try:
        importlib.import_module("numba")
    except Exception as error:  # numba raises several kinds: not installed, NumPy too new, no writable folder …
        return f"{type(error).__name__}: {error}"
    return ""


backend = Backend()


class Twin:
    """One function in both implementations; `minires/kernels/FILE.py` has the fast one. Called like a function."""

    __slots__ = ("fast", "file", "name", "reference")

    def __init__(self, file: str, name: str, reference: Any):
        self.file, self.name, self.reference = file, name, reference
        self.fast: Any = self.load

    def __call__(self, *args: Any, **options: Any) -> Any:
        if backend.name == "numba":
            result = self.fast(*args, **options)
            if result is not NotImplemented:
                return result
        return self.reference(*args, **options)

    def load(self, *args: Any, **options: Any) -> Any:
        """Stands for the kernel until the first call, so that numba is imported only when it is needed."""
        if problem := numba_problem():
            print(f"minires: numba cannot be used ({problem}), so NumPy does the work", file=sys.stderr)
            backend.name = "numpy"
            return NotImplemented
        keep_freed_memory()
        module = importlib.import_module(f"minires.kernels.{self.file}")
        self.fast = getattr(module, self.name, None) or _decline
        return self.fast(*args, **options)


def _decline(*args: Any, **options: Any) -> Any:
    return NotImplemented


class Paired(Twin):
    """A twin that runs only while the other side of its operation has not been replaced."""

    __slots__ = ()

    def __call__(self, *args: Any, **options: Any) -> Any:
        op = OPS[self.name.rpartition("_")[0]]
        if isinstance(op.forward, Paired) and isinstance(op.backward, Paired):
            return super().__call__(*args, **options)
        return self.reference(*args, **options)


def install() -> None:
    """Put both implementations of every operation in `TWINS` into the engine."""
    for name, file in TWINS.items():
        op, kind = OPS[name], Paired if name in PAIRED else Twin
        op.forward = kind(file, f"{name}_forward", op.reference[0])
        op.backward = kind(file, f"{name}_backward", op.reference[1])


def has_twin(file: str) -> Callable[[Callable], Callable]:
    """Decorator for a NumPy function outside the engine: `minires/kernels/FILE.py` holds its twin of the same name."""

    def both(reference: Callable) -> Callable:
        chosen = Twin(file, reference.__name__, reference)

        @functools.wraps(reference)
        def call(*args: Any, **options: Any) -> Any:
            return chosen(*args, **options)

        return call

    return both
