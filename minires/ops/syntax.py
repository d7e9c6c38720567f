"""How Python's syntax reaches the operations: `+`, `@`, `x[i]`, `x.sum()` and the comparisons."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from minires.ops import elementwise, matmul, reduce, shape, softmax
from minires.ops.residual import residual_add
from minires.tensor import OPS, Tensor, apply

_RESIDUAL_ADD = OPS[residual_add.__name__]


def plus(x: Tensor, other) -> Tensor:
    """x + other. Two tensors of equal shape: the residual add. Otherwise: a sum with broadcasting."""
    if isinstance(other, Tensor) and x.data.shape == other.data.shape:
        return apply(_RESIDUAL_ADD, (x, other), {})
    return elementwise.add(x, other)


def _operators(function) -> tuple[Any, Any]:
    """x ∘ other and other ∘ x, without a detour over the arguments' names."""
    op = OPS[function.__name__]
    return lambda x, other: apply(op, (x, other), {}), lambda x, other: apply(op, (other, x), {})


def _compare(relation):
    """Comparisons give booleans, without a gradient: they are for masks."""

    def compare(x: Tensor, other):
        return Tensor(relation(x.data, other.data if isinstance(other, Tensor) else other))

    return compare


def _number_only(name):
    """argmax and its kin return indices, which have no gradient."""

    def method(x: Tensor, axis=None):
        return Tensor(getattr(np, name)(x.data, axis=axis))

    return method


def bind() -> None:
    """Give Tensor its operators and methods."""
    names: dict[str, Any] = {"__neg__": elementwise.neg, "__abs__": elementwise.abs}
    names |= {"__getitem__": shape.getitem, "__hash__": object.__hash__, "T": property(shape.transpose)}
    for name, function in _OPERATORS.items():
        forward, reflected = _operators(function)
        names |= {f"__{name}__": plus if name == "add" else forward, f"__r{name}__": reflected}
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        names[f"__{name}__"] = _compare(getattr(operator, name))
    for name in ("argmax", "argmin", "argsort"):
        names[name] = _number_only(name)
    for module, methods in _METHODS.items():
        names |= {name: getattr(module, name) for name in methods}
    for name, value in names.items():
        setattr(Tensor, name, value)


_OPERATORS = {
    "add": elementwise.add,
    "sub": elementwise.sub,
    "mul": elementwise.mul,
    "truediv": elementwise.div,
    "pow": elementwise.power,
    "matmul": matmul.matmul,
}
_METHODS = {
    elementwise: ("exp", "log", "sqrt", "tanh", "sigmoid", "clip", "abs"),
    reduce: ("sum", "mean", "max", "min", "var", "logsumexp"),
    shape: ("reshape", "transpose", "swapaxes", "expand_dims", "squeeze", "broadcast_to", "flip"),
    softmax: ("softmax", "log_softmax"),
}
