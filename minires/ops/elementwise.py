"""Elementwise operations. Each backward multiplies dy by the derivative; binary ones undo the broadcasting."""

from __future__ import annotations

import numpy as np

from minires.messages import DtypeError, shown
from minires.ops.broadcast import shape_of, unbroadcast
from minires.tensor import differentiable

# ------------------------------------------------------------------------------------------------- binary


def add_forward(a, b):
    """y = a + b, with broadcasting. saved = the two shapes."""
    return a + b, (shape_of(a), shape_of(b))


def add_backward(dy, saved):
    """da = dy, db = dy, each summed over the axes along which it was stretched."""
    a_shape, b_shape = saved
    return unbroadcast(dy, a_shape), unbroadcast(dy, b_shape)


def sub_forward(a, b):
    """y = a - b, with broadcasting. saved = the two shapes."""
    return a - b, (shape_of(a), shape_of(b))


def sub_backward(dy, saved):
    """da = dy, db = -dy."""
    a_shape, b_shape = saved
    return unbroadcast(dy, a_shape), unbroadcast(-dy, b_shape)


def mul_forward(a, b):
    """y = a * b, with broadcasting. saved = (a, b)."""
    return a * b, (a, b)


_ARRAYS = (np.ndarray, np.generic)  # a Python number, the other kind of operand, has no gradient


def mul_backward(dy, saved):
    """da = dy * b, db = dy * a. A Python number gets no gradient."""
    a, b = saved
    da = unbroadcast(dy * b, a.shape) if isinstance(a, _ARRAYS) else None
    db = unbroadcast(dy * a, b.shape) if isinstance(b, _ARRAYS) else None
    return da, db


def div_forward(a, b):
    """y = a / b, with broadcasting. saved = (a, b). Dividing by 0 gives inf or NaN, as in NumPy."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return a / b, (a, b)


def div_backward(dy, saved):
    """da = dy / b, db = -dy * a / b²."""
    a, b = saved
    with np.errstate(divide="ignore", invalid="ignore"):
        da = unbroadcast(dy / b, a.shape) if isinstance(a, _ARRAYS) else None
        db = unbroadcast(-dy * a / np.square(b), b.shape) if isinstance(b, _ARRAYS) else None
    return da, db


def _zero(like):
    """A zero that does not turn float32 into float64."""
    return like.dtype.type(0)


def power_forward(a, b):
    """y = a ** b, with broadcasting. saved = (a, b, y)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        y = np.power(a, b)
    return y, (a, b, y)


def power_backward(dy, saved):
    """da = dy * b * a^(b-1), db = dy * y * log a. At a = 0: da = 0 for b = 0, and db = 0 (the limit)."""
    a, b, y = saved
    with np.errstate(divide="ignore", invalid="ignore"):
        da = np.where(np.equal(b, 0), _zero(dy), dy * b * a ** (b - 1)) if isinstance(a, _ARRAYS) else None
        db = np.where(np.equal(a, 0), _zero(dy), dy * y * np.log(a)) if isinstance(b, _ARRAYS) else None
    return da if da is None else unbroadcast(da, a.shape), db if db is None else unbroadcast(db, b.shape)


def maximum_forward(a, b):
    """y = max(a, b) entry by entry, with broadcasting; NaN if either is NaN. saved = (a, b)."""
    return np.maximum(a, b), (a, b)


def maximum_backward(dy, saved):
    """The larger one gets dy; a tie is shared half and half, so that swapping a and b changes nothing."""
    a, b = saved
    share = _share(np.greater(a, b), a, b).astype(dy.dtype)
    return unbroadcast(dy * share, shape_of(a)), unbroadcast(dy * (1 - share), shape_of(b))


def _share(a_wins, a, b):
    """a's share of the gradient: 1 or 0, half in a tie, NaN where either is NaN."""
    return np.where(np.isnan(a) | np.isnan(b), np.nan, np.where(np.equal(a, b), 0.5, a_wins))


def minimum_forward(a, b):
    """y = min(a, b) entry by entry, with broadcasting; NaN if either is NaN. saved = (a, b)."""
    return np.minimum(a, b), (a, b)


def minimum_backward(dy, saved):
    """The smaller one gets dy; a tie is shared half and half."""
    a, b = saved
    share = _share(np.less(a, b), a, b).astype(dy.dtype)
    return unbroadcast(dy * share, shape_of(a)), unbroadcast(dy * (1 - share), shape_of(b))


def where_forward(condition, a, b):
    """y = a where condition else b, with broadcasting. saved = (condition, shapes)."""
    if np.asarray(condition).dtype != bool:
        raise DtypeError("the condition of where must be boolean", shown(condition), "Write where(mask > 0, a, b).")
    return np.where(condition, a, b), (condition, shape_of(a), shape_of(b))


def where_backward(dy, saved):
    """da = dy where condition, else 0; db the other way round."""
    condition, a_shape, b_shape = saved
    da, db = np.where(condition, dy, _zero(dy)), np.where(condition, _zero(dy), dy)
    return None, unbroadcast(da, a_shape), unbroadcast(db, b_shape)


# -------------------------------------------------------------------------------------------------- unary


def neg_forward(x):
    """y = -x."""
    return -x, None


def neg_backward(dy, saved):
    """dx = -dy."""
    return -dy


def exp_forward(x):
    """y = e^x. saved = y."""
    with np.errstate(over="ignore"):
        y = np.exp(x)
    return y, y


def exp_backward(dy, y):
    """dx = dy * y."""
    return dy * y


def log_forward(x):
    """y = ln x; log 0 = -inf and log of a negative number NaN, without a warning. saved = x."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(x), x


def log_backward(dy, x):
    """dx = dy / x."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return dy / x


def sqrt_forward(x):
    """y = √x. saved = y."""
    with np.errstate(invalid="ignore"):
        y = np.sqrt(x)
    return y, y


def sqrt_backward(dy, y):
    """dx = dy / (2y): infinite at 0, as the derivative is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return dy / (2 * y)


def tanh_forward(x):
    """y = tanh x. saved = y."""
    y = np.tanh(x)
    return y, y


def tanh_backward(dy, y):
    """dx = dy * (1 - y²)."""
    return dy * (1 - y * y)


def sigmoid_forward(x):
    """y = 1 / (1 + e^-x), accurate for both signs: where e^-x overflows, y is 0. saved = y."""
    with np.errstate(over="ignore"):
        y = 1 / (1 + np.exp(-x))
    return y, y


def sigmoid_backward(dy, y):
    """dx = dy * y * (1 - y)."""
    return dy * y * (1 - y)


@np.errstate(invalid="ignore")
def sin_forward(x):
    """y = sin x (radians). saved = x."""
    return np.sin(x), x


def sin_backward(dy, x):
    """dx = dy * cos x."""
    return dy * np.cos(x)


@np.errstate(invalid="ignore")
def cos_forward(x):
    """y = cos x (radians). saved = x."""
    return np.cos(x), x


def cos_backward(dy, x):
    """dx = -dy * sin x."""
    return -dy * np.sin(x)


def abs_forward(x):
    """y = |x|. saved = x."""
    return np.abs(x), x


def abs_backward(dy, x):
    """dx = dy * sign x; 0 at 0."""
    return dy * np.sign(x)


def clip_forward(x, low=None, high=None):
    """y = x limited to [low, high]; either bound may be None; NaN stays NaN. saved = where x was inside (or NaN)."""
    inside = np.ones(np.shape(x), bool)
    if low is not None:
        inside &= ~(x < low)
    if high is not None:
        inside &= ~(x > high)
    return np.clip(x, low, high), inside


def clip_backward(dy, inside):
    """dx = dy inside the bounds (edges included), 0 outside."""
    return np.where(inside, dy, _zero(dy))


add = differentiable("add", add_forward, add_backward, saves_inputs=False)
sub = differentiable("sub", sub_forward, sub_backward, saves_inputs=False)
mul = differentiable("mul", mul_forward, mul_backward)
div = differentiable("div", div_forward, div_backward)
power = differentiable("power", power_forward, power_backward, saves_output=True)
maximum = differentiable("maximum", maximum_forward, maximum_backward)
minimum = differentiable("minimum", minimum_forward, minimum_backward)
where = differentiable("where", where_forward, where_backward)
neg = differentiable("neg", neg_forward, neg_backward, saves_inputs=False)
exp = differentiable("exp", exp_forward, exp_backward, saves_inputs=False, saves_output=True)
log = differentiable("log", log_forward, log_backward)
sqrt = differentiable("sqrt", sqrt_forward, sqrt_backward, saves_inputs=False, saves_output=True)
tanh = differentiable("tanh", tanh_forward, tanh_backward, saves_inputs=False, saves_output=True)
sigmoid = differentiable("sigmoid", sigmoid_forward, sigmoid_backward, saves_inputs=False, saves_output=True)
sin = differentiable("sin", sin_forward, sin_backward)
cos = differentiable("cos", cos_forward, cos_backward)
abs = differentiable("abs", abs_forward, abs_backward)
clip = differentiable("clip", clip_forward, clip_backward, saves_inputs=False)
