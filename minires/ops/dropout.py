"""Dropout: random zeros while training."""

from __future__ import annotations

import numpy as np

from minires.messages import ValueProblem, shown
from minires.tensor import differentiable


def keep_mask(shape, p, rng, dtype):
    """1/(1-p) where an entry stays and 0 where it is dropped, so that the mean does not change.

    Raises ValueProblem unless 0 <= p <= 1 and rng is a numpy Generator.
    """
    if not 0 <= p <= 1:
        raise ValueProblem("the dropout probability must be between 0 and 1", shown(p), "Write 0.1 for ten percent.")
    if not isinstance(rng, np.random.Generator):
        raise ValueProblem(
            "dropout needs a numpy random Generator", shown(rng), "Pass rng=np.random.default_rng(seed), made once."
        )
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return ((rng.random(shape) >= p) * scale).astype(dtype)


def dropout_forward(x, p=0.1, rng=None):
    """y = x m with m = 1/(1-p) at random places (probability 1-p) and 0 elsewhere. saved = m (None for p = 0)."""
    if p == 0:
        return x, None
    mask = keep_mask(x.shape, p, rng, x.dtype)
    return x * mask, mask


def dropout_backward(dy, mask):
    """dx = dy m: a dropped entry gets no gradient."""
    return dy if mask is None else dy * mask


dropout = differentiable("dropout", dropout_forward, dropout_backward, saves_inputs=False, view=True)
