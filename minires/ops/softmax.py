"""Softmax and log-softmax over one axis."""

from __future__ import annotations

import numpy as np

from minires.tensor import differentiable


def _top(x, axis):
    """The largest entry along `axis`, or 0 in a row that is empty or all -inf.

    Softmax does not change when a constant is subtracted from a row. Taking the largest entry makes the largest
    exponent 0, so that nothing overflows.
    """
    x = x.real if x.dtype.kind in "fc" else x.astype(np.float64)
    top = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    return np.where(np.isneginf(top), x.dtype.type(0), top)


@np.errstate(invalid="ignore")  # inf - inf: a row with +inf is NaN
def softmax_forward(x, axis=-1):
    """p_i = e^{x_i} / Σ_j e^{x_j} along `axis`. saved = (p, axis).

    x: any shape. An entry of -inf gives exactly 0; a row of only -inf gives a row of zeros.
    """
    e = np.exp(x - _top(x, axis))
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
    from minires.ops import exp, where

    e = exp(x - _top(x.data, axis))
    total = e.sum(axis=axis, keepdims=True)
    return e / where(total.data == 0, np.ones_like(total.data), total)


softmax = differentiable(
    "softmax",
    softmax_forward,
    softmax_backward,
    composed=softmax_composed,
    parts=("sub", "exp", "sum", "where", "div"),
    saves_inputs=False,
    saves_output=True,
)


@np.errstate(invalid="ignore")
def log_softmax_forward(x, axis=-1):
    """y_i = x_i - log Σ_j e^{x_j} along `axis`. saved = (y, axis).

    Computed from shifted x, so that a probability that would round to 0 still has a finite logarithm.
    An entry of -inf gives -inf, also in a row of only -inf.
    """
    z = x - _top(x, axis)
    total = np.exp(z).sum(axis=axis, keepdims=True)
    y = z - np.log(np.where(total == 0, 1, total))
    return y, (y, axis)


def log_softmax_backward(dy, saved):
    """∂y_i/∂x_j = δ_ij - p_j with p = e^y, so dx = dy - p · Σ_i dy_i."""
    y, axis = saved
    return dy - np.exp(y) * dy.sum(axis=axis, keepdims=True)


def log_softmax_composed(x, axis=-1):
    from minires.ops import exp, log, where

    z = x - _top(x.data, axis)
    total = exp(z).sum(axis=axis, keepdims=True)
    return z - log(where(total.data == 0, np.ones_like(total.data), total))


log_softmax = differentiable(
    "log_softmax",
    log_softmax_forward,
    log_softmax_backward,
    composed=log_softmax_composed,
    parts=("sub", "exp", "sum", "where", "log"),
    saves_inputs=False,
    saves_output=True,
)
