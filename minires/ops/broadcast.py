"""The one rule of broadcasting, backwards: what was copied on the way forward is summed on the way back."""

from __future__ import annotations

import numpy as np


def shape_of(x: np.ndarray | float) -> tuple[int, ...]:
    """The shape of an array; () of a number. (np.shape does more, and takes three times as long.)"""
    return getattr(x, "shape", ())


def unbroadcast(dy: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sum `dy` over the axes along which an input of `shape` was stretched, so that the result has `shape`."""
    if dy.shape == shape:
        return dy
    new_axes = tuple(range(dy.ndim - len(shape)))
    stretched = tuple(i for i, n in enumerate(shape, start=len(new_axes)) if n == 1 and dy.shape[i] != 1)
    return dy.sum(axis=new_axes + stretched, keepdims=True).reshape(shape)
