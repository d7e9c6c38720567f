"""Softmax and log-softmax over one axis."""

from __future__ import annotations

import numpy as np

from minires.tensor import differentiable


def _shift(x, axis):
    """x minus its largest entry along `axis`; a row that is all -inf is left as it is.

    Softmax does not change when a constant is added to a row. Subtracting the maximum makes the largest
    exponent 0, so that nothing overflows.
    """
    if x.shape[axis] == 0:
        return x
    top = np.max(x.real, axis=axis, keepdims=True)
    return x - np.where(np.isneginf(top), 0, top).astype(x.real.dtype)


def softmax_forward(x, axis=-1):
    """p_i = e^{x_i} / Σ_j e^{x_j} along `axis`. saved = (p, axis).

    x: any shape. An entry of -inf gives exactly 0; a row of only -inf gives a row of zeros.
    """
    e = np.exp(_shift(x, axis))
    total = e.sum(axis=axis, keepdims=True)
    p = e / np.where(total == 0, 1, total)
    return p, (p, axis)


def softmax_backward(dy, saved):
    """∂p_i/∂x_j = p_i (δ_ij - p_j), so dx_j = Σ_i dy_i p_i (δ_ij - p_j) = p_j (dy_j - Σ_i dy_i p_i).

    The sum is one number per row. Where p = 0 the gradient is exactly 0.
    """
    p, axis = saved
    return p * (dy - (dy * p).sum(axis=axis, keepdims=True))


def softmax_composed(x, axis=-1):
    from minires.ops import exp

    e = exp(x - _shift_constant(x, axis))
    return e / e.sum(axis=axis, keepdims=True)


def _shift_constant(x, axis):
    return np.max(x.data, axis=axis, keepdims=True)


softmax = differentiable(
    "softmax", softmax_forward, softmax_backward, composed=softmax_composed, parts=("exp",), saves_inputs=False
)


def log_softmax_forward(x, axis=-1):
    """y_i = x_i - log Σ_j e^{x_j} along `axis`. saved = (y, axis).

    Computed from shifted x, so that a probability that would round to 0 still has a finite logarithm.
    """
    z = _shift(x, axis)
    with np.errstate(divide="ignore"):
        y = z - np.log(np.exp(z).sum(axis=axis, keepdims=True))
    return y, (y, axis)


def log_softmax_backward(dy, saved):
    """∂y_i/∂x_j = δ_ij - p_j with p = e^y, so dx = dy - p · Σ_i dy_i."""
    y, axis = saved
    return dy - np.exp(y) * dy.sum(axis=axis, keepdims=True)


def log_softmax_composed(x, axis=-1):
    from minires.ops import exp, log

    z = x - _shift_constant(x, axis)
    return z - log(exp(z).sum(axis=axis, keepdims=True))


log_softmax = differentiable(
    "log_softmax",
    log_softmax_forward,
    log_softmax_backward,
    composed=log_softmax_composed,
    parts=("exp", "log"),
    saves_inputs=False,
)
