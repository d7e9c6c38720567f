"""How Python's syntax reaches the operations: `+`, `@`, `x[i]`, `x.sum()` and the comparisons."""

from __future__ import annotations

import operator

import numpy as np

from minires.ops import elementwise, matmul, reduce, shape, softmax
from minires.ops.residual import residual_add
from minires.tensor import Tensor


def plus(x: Tensor, other) -> Tensor:
    """x + other. Two tensors of equal shape: the residual add. Otherwise: a sum with broadcasting."""
    if isinstance(other, Tensor) and x.data.shape == other.data.shape:
        return residual_add(x, other)
    return elementwise.add(x, other)


def _reflected(op):
    return lambda x, other: op(other, x)


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
    e = elementwise
    Tensor.__add__ = plus
    Tensor.__radd__ = lambda x, other: e.add(other, x)
    operators = {"sub": e.sub, "mul": e.mul, "truediv": e.div, "pow": e.power, "matmul": matmul.matmul}
    for name, op in operators.items():
        setattr(Tensor, f"__{name}__", lambda x, other, op=op: op(x, other))
        setattr(Tensor, f"__r{name}__", lambda x, other, op=op: op(other, x))
    Tensor.__neg__ = lambda x: e.neg(x)
    Tensor.__abs__ = lambda x: e.abs(x)
    Tensor.__getitem__ = shape.getitem
    Tensor.__hash__ = object.__hash__
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(Tensor, f"__{name}__", _compare(getattr(operator, name)))
    for module, names in _METHODS.items():
        for name in names:
            setattr(Tensor, name, getattr(module, name))
    Tensor.T = property(lambda x: shape.transpose(x))
    for name in ("argmax", "argmin", "argsort"):
        setattr(Tensor, name, _number_only(name))


_METHODS = {
    elementwise: ("exp", "log", "sqrt", "tanh", "sigmoid", "clip", "abs"),
    reduce: ("sum", "mean", "max", "min", "var", "logsumexp"),
    shape: ("reshape", "transpose", "swapaxes", "expand_dims", "squeeze", "broadcast_to", "flip"),
    softmax: ("softmax", "log_softmax"),
}
