"""Reductions. A sum copies its gradient back to every entry; a mean divides it; a max gives it to the winners."""

from __future__ import annotations

import math

import numpy as np

from minires.tensor import differentiable


def _axes(axis, ndim):
    """`axis` (None, a number or a tuple) as a tuple of non-negative axes."""
    if axis is None:
        return tuple(range(ndim))
    return tuple(np.lib.array_utils.normalize_axis_tuple(axis, ndim))


def _keep(array, axes, keepdims):
    """Give a reduced array back its axes of length 1, so that it broadcasts against the input."""
    return array if keepdims else np.expand_dims(array, axes)


def sum_forward(x, axis=None, keepdims=False):
    """y = Σ x over `axis` (None: all). saved = (x's shape, axes, keepdims)."""
    return x.sum(axis=axis, keepdims=keepdims), (x.shape, _axes(axis, x.ndim), keepdims)


def sum_backward(dy, saved):
    """Every entry of a sum counts once: dx = dy, repeated along the summed axes."""
    shape, axes, keepdims = saved
    return np.broadcast_to(_keep(dy, axes, keepdims), shape)


def mean_forward(x, axis=None, keepdims=False):
    """y = Σ x / n over `axis` (None: all), n entries each. An empty mean is NaN. saved = (shape, axes, keepdims, n)."""
    axes = _axes(axis, x.ndim)
    n = math.prod(x.shape[a] for a in axes)
    with np.errstate(invalid="ignore", divide="ignore"):
        y = x.sum(axis=axis, keepdims=keepdims) / x.real.dtype.type(n)
    return y, (x.shape, axes, keepdims, n)


def mean_backward(dy, saved):
    """dx = dy / n, repeated along the averaged axes."""
    shape, axes, keepdims, n = saved
    return np.broadcast_to(_keep(dy / (n or 1), axes, keepdims), shape)


def max_forward(x, axis=None, keepdims=False):
    """y = max x over `axis` (None: all); NaN if an entry is NaN. saved = (x, y with its axes kept, axes, keepdims)."""
    axes = _axes(axis, x.ndim)
    y = x.max(axis=axes, keepdims=True)
    return y if keepdims else y.squeeze(axes), (x, y, axes, keepdims)


def extreme_backward(dy, saved):
    """dx = dy at the extreme entry; entries that tie for it share dy equally. NaN has no extreme entry: 0/0."""
    x, y, axes, keepdims = saved
    winners = (x == y).astype(dy.dtype)
    with np.errstate(invalid="ignore"):
        return _keep(dy, axes, keepdims) * winners / winners.sum(axis=axes, keepdims=True)


def min_forward(x, axis=None, keepdims=False):
    """y = min x over `axis` (None: all); NaN if an entry is NaN. saved = (x, y with its axes kept, axes, keepdims)."""
    axes = _axes(axis, x.ndim)
    y = x.min(axis=axes, keepdims=True)
    return y if keepdims else y.squeeze(axes), (x, y, axes, keepdims)


def var_forward(x, axis=None, keepdims=False):
    """y = mean (x - mean x)² over `axis` (None: all): the population variance.

    saved = (x - mean, axes, keepdims, n).
    """
    axes = _axes(axis, x.ndim)
    n = math.prod(x.shape[a] for a in axes)
    with np.errstate(invalid="ignore", divide="ignore"):
        centred = x - x.sum(axis=axes, keepdims=True) / x.real.dtype.type(n)
        y = (centred * centred).sum(axis=axes, keepdims=keepdims) / x.real.dtype.type(n)
    return y, (centred, axes, keepdims, n)


def var_backward(dy, saved):
    """dx = dy · 2 (x - mean) / n. The mean's own dependence on x drops out, because Σ (x - mean) = 0."""
    centred, axes, keepdims, n = saved
    return _keep(dy, axes, keepdims) * centred * (2 / (n or 1))


def logsumexp_forward(x, axis=None, keepdims=False):
    """y = log Σ e^x over `axis` (None: all), shifted by the maximum; all -inf gives -inf.

    saved = (x, y with its axes kept, axes, keepdims).
    """
    axes = _axes(axis, x.ndim)
    top = np.max(x.real, axis=axes, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0).astype(x.real.dtype)
    with np.errstate(divide="ignore", over="ignore"):
        y = top + np.log(np.exp(x - top).sum(axis=axes, keepdims=True))
    return y if keepdims else y.squeeze(axes), (x, y, axes, keepdims)


def logsumexp_backward(dy, saved):
    """dx = dy · softmax(x); 0 where x = -inf."""
    x, y, axes, keepdims = saved
    with np.errstate(invalid="ignore"):
        p = np.where(np.isneginf(x), 0, np.exp(x - y)).astype(dy.dtype)
    return _keep(dy, axes, keepdims) * p


sum = differentiable("sum", sum_forward, sum_backward, saves_inputs=False)
mean = differentiable("mean", mean_forward, mean_backward, saves_inputs=False)
max = differentiable("max", max_forward, extreme_backward, saves_output=True)
min = differentiable("min", min_forward, extreme_backward, saves_output=True)
var = differentiable("var", var_forward, var_backward, saves_inputs=False)
logsumexp = differentiable("logsumexp", logsumexp_forward, logsumexp_backward, saves_output=True)
