"""`minires.use`: put your own forward or backward pass into the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from minires.messages import DtypeError, GraphError, UnknownName, shown
from minires.tensor import OPS, Op


class _Counted:
    """A learner's function that counts its calls. A backward gets a dy that cannot be written to, and what it returns
    is copied, so that it may return what it likes.
    """

    def __init__(self, function: Callable, copies: bool):
        self.function, self.copies, self.calls = function, copies, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        if not self.copies:
            return self.function(*args, **kwargs)
        dy, *rest = args
        locked = dy.view()
        locked.flags.writeable = False
        try:
            return self._private(self.function(locked, *rest, **kwargs))
        except ValueError as error:
            if "read-only" not in str(error):
                raise
            raise GraphError(
                "a backward pass must leave dy as it was, because others still need it",
                f"{getattr(self.function, '__name__', 'a function')}, which writes into it",
                "Write dx = dy * 2 instead of dy *= 2.",
            ) from error

    @staticmethod
    def _private(result):
        """Gradients as arrays of their own: the engine may add into what it receives."""
        if isinstance(result, tuple | list):
            return tuple(None if g is None else np.array(g) for g in result)
        return np.array(result)


def _callable(key: str, function: object) -> Callable:
    if not callable(function):
        raise DtypeError(
            f"{key} must be a function", shown(function), "Pass the function itself: no () behind its name."
        )
    return function


def _target(key: str) -> tuple[Op, str]:
    name, _, side = key.rpartition("_")
    if side not in ("forward", "backward") or name not in OPS:
        raise UnknownName("function to replace", key, [f"{n}_{s}" for n in OPS for s in ("forward", "backward")])
    return OPS[name], side


def _containers(names: set[str]) -> list[Op]:
    """The fused operations that contain one of `names`, directly or through another part."""
    found, inside = [], set(names)
    while new := [op for op in OPS.values() if op.name not in inside and inside.intersection(op.parts)]:
        found += new
        inside.update(op.name for op in new)
    return found


@contextmanager
def use(**replacements: Callable) -> Iterator[None]:
    """Inside the block, the engine calls your functions instead of its own, in every thread.

    use(layernorm_backward=mine): keys are an operation's name followed by _forward or _backward; your function
    gets the same arguments and returns the same values as the one it replaces (a backward returns a gradient or
    a tuple of gradients). Fused operations that contain the replaced one run from their parts instead.

    Raises UnknownName for a key that names no function, DtypeError for something that cannot be called, and
    GraphError when the block ends although one of your functions was never called.
    """
    targets = [
        (*_target(key), _Counted(_callable(key, f), key.endswith("_backward"))) for key, f in replacements.items()
    ]
    before = [(getattr(op, side), op.detours) for op, side, _ in targets]
    containers = _containers({op.name for op, _, _ in targets})
    for op, side, mine in targets:
        setattr(op, side, mine)
        op.detours = 0  # an outer block may have sent this operation to its parts
    for fused in containers:
        fused.detours += 1
    try:
        yield
    finally:
        for (op, side, _), (original, detours) in zip(reversed(targets), reversed(before), strict=True):
            setattr(op, side, original)
            op.detours = detours
        for fused in containers:
            fused.detours -= 1
    unused = [f"{op.name}_{side}" for op, side, mine in targets if not mine.calls]
    if unused:
        raise GraphError(
            "a replacement must be called inside its `with minires.use(...)` block",
            f"{', '.join(unused)}, which was never called",
            "Both the forward pass and backward() belong inside the block. Does the model contain this operation?",
        )
