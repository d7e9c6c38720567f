"""Sinkhorn-Knopp: a square matrix of logits becomes (nearly) doubly stochastic."""

from __future__ import annotations

import numpy as np

from minires.messages import ShapeError, shown
from minires.tensor import differentiable


def sinkhorn_forward(a, steps=20):
    """M = e^a, then `steps` times: divide each column by its sum, then each row by its sum.

    a: (…, n, n) logits; M: (…, n, n). Rows sum to 1 exactly, columns nearly (they come first in every step).
    The largest logit of each matrix is subtracted before the exponential: a common factor cancels.
    saved = (e^a, [(y, s), …]) with the result y and the divisor s of every normalisation.
    Raises ShapeError unless the last two axes are equal. Source: mHC, arXiv:2512.24880, section 4.2 (t_max = 20).
    """
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ShapeError("sinkhorn needs square matrices (…, n, n)", shown(a), "One row and one column per stream.")
    y = e = np.exp(a - a.real.max(axis=(-2, -1), keepdims=True))
    trail = []
    for _ in range(steps):
        for axis in (-2, -1):  # column sums run down axis -2, row sums along axis -1
            s = y.sum(axis=axis, keepdims=True)
            y = y / s
            trail.append((y, s))
    return y, (e, trail)


def sinkhorn_backward(dy, saved):
    """One normalisation y = x/s, s = Σx, has dx = (dy - Σ dy y)/s along the same axis. Undo them last to first;

    at the start M = e^a gives da = dM e^a.
    """
    e, trail = saved
    for i, (y, s) in reversed(list(enumerate(trail))):
        axis = -1 if i % 2 else -2
        dy = (dy - (dy * y).sum(axis=axis, keepdims=True)) / s
    return dy * e


def sinkhorn_composed(a, steps=20):
    from minires.ops import exp

    y = exp(a - a.data.max(axis=(-2, -1), keepdims=True))
    for _ in range(steps):
        y = y / y.sum(axis=-2, keepdims=True)
        y = y / y.sum(axis=-1, keepdims=True)
    return y


sinkhorn = differentiable(
    "sinkhorn",
    sinkhorn_forward,
    sinkhorn_backward,
    composed=sinkhorn_composed,
    parts=("sub", "exp", "sum", "div"),
    saves_inputs=False,
    saves_output=True,
)
