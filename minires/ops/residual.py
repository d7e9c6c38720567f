"""The residual add: the one line this project is about."""

from __future__ import annotations

import numpy as np

from minires.messages import ShapeError, shown
from minires.ops.broadcast import shape_of
from minires.tensor import differentiable


def residual_add_forward(x: np.ndarray, f: np.ndarray) -> tuple[np.ndarray, None]:
    """y = x + f for two arrays of the same shape: the stream x and what a sublayer adds to it.

    Nothing is saved. Python's `+` on two tensors of equal shape is this operation.
    Raises ShapeError when the shapes differ (a plain `+` broadcasts then).
    Source: He et al. 2015, arXiv:1512.03385, eq. 1.
    """
    if shape_of(x) != shape_of(f):
        raise ShapeError(
            f"a residual add needs two arrays of the same shape, here x of shape {shape_of(x)}",
            shown(f),
            "The branch must return the stream's width d: check the output projection.",
        )
    return x + f, None


def residual_add_backward(dy: np.ndarray, saved: None) -> tuple[np.ndarray, np.ndarray]:
    """dx = dy, df = dy: both sides receive the whole gradient, unchanged.

    With f = F(x), the two meet again at x: dx = dy + dy·J_F = dy·(I + J_F). This is where the +I comes from.
    """
    return dy, dy


residual_add = differentiable("residual_add", residual_add_forward, residual_add_backward, saves_inputs=False)
