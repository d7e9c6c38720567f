"""Softmax and log-softmax along the last axis, one row after the other."""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

from minires.kernels.exp import decay
from minires.kernels.fits import as_rows, fits, last_axis
from minires.kernels.jit import njit


def sortable(x):
    """A whole number that sorts as the float32 or float64 x does, so that the search for a maximum can use vectors.

    Floats of equal sign sort as their bits do, negative ones backwards. LLVM vectorises the maximum of whole numbers,
    but not that of floats, because of NaN (here a positive NaN is above +inf, a negative one below −inf).
    Without a compiler the number stands for itself.
    """
    return x


def from_sortable(n):
    """The number that `sortable` turned into n."""
    return n


@overload(sortable, jit_options={"forceinline": True})
def _sortable(x):
    if x == types.float32:
        return lambda x: _flip32(np.float32(x).view(np.int32))
    return lambda x: _flip64(np.float64(x).view(np.int64))


@overload(from_sortable, jit_options={"forceinline": True})
def _from_sortable(n):
    if n == types.int32:
        return lambda n: np.int32(_flip32(n)).view(np.float32)
    return lambda n: np.int64(_flip64(n)).view(np.float64)


@njit(forceinline=True)
def _flip32(n):
    return np.int32(n ^ ((n >> np.int32(31)) & np.int32(0x7FFFFFFF)))


@njit(forceinline=True)
def _flip64(n):
    return n ^ ((n >> 63) & 0x7FFFFFFFFFFFFFFF)


@njit(forceinline=True)
def largest(x, i, stop):
    """The largest of the first `stop` entries of row i; 0 for a row of only -inf. NaN may be skipped: sums find it."""
    top = sortable(x[i, 0])
    for j in range(stop):  # from 0, so that rows of whole registers have no rest
        top = max(top, sortable(x[i, j]))
    number = from_sortable(top)
    return number if number != -np.inf else x.dtype.type(0)


@njit
def softmax_rows(x, p):
    for i in range(x.shape[0]):
        top, total = largest(x, i, x.shape[1]), x.dtype.type(0)
        for j in range(x.shape[1]):
            e = decay(x[i, j] - top)
            p[i, j] = e
            total += e
        factor = x.dtype.type(1) / (total if total != 0 else x.dtype.type(1))
        for j in range(x.shape[1]):
            p[i, j] *= factor


@njit
def softmax_rows_backward(dy, p, dx):
    for i in range(p.shape[0]):
        along = p.dtype.type(0)
        for j in range(p.shape[1]):
            along += dy[i, j] * p[i, j]
        for j in range(p.shape[1]):
            dx[i, j] = p[i, j] * (dy[i, j] - along)


def softmax_forward(x, axis=-1):
    if not fits(x) or not last_axis(x, axis):
        return NotImplemented
    p = np.empty(x.shape, x.dtype)
    softmax_rows(as_rows(x), as_rows(p))
    return p, (p, axis)


def softmax_backward(dy, saved):
    p, axis = saved
    if not fits(dy, p) or not last_axis(p, axis) or dy.shape != p.shape:
        return NotImplemented
    dx = np.empty(dy.shape, dy.dtype)
    softmax_rows_backward(as_rows(dy), as_rows(p), as_rows(dx))
    return dx


@njit
def log_softmax_rows(x, y):
    for i in range(x.shape[0]):
        top, total = largest(x, i, x.shape[1]), x.dtype.type(0)
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] - top  # stored: in one expression `reassoc` would add the logarithm to a large top first
            total += decay(y[i, j])
        lost = np.log(total if total != 0 else x.dtype.type(1))  # a row of only -inf stays so
        for j in range(x.shape[1]):
            y[i, j] -= lost


@njit
def log_softmax_rows_backward(dy, y, dx):
    for i in range(y.shape[0]):
        total = y.dtype.type(0)
        for j in range(y.shape[1]):
            total += dy[i, j]
        for j in range(y.shape[1]):
            dx[i, j] = dy[i, j] - decay(y[i, j]) * total


def log_softmax_forward(x, axis=-1):
    if not fits(x) or not last_axis(x, axis):
        return NotImplemented
    y = np.empty(x.shape, x.dtype)
    log_softmax_rows(as_rows(x), as_rows(y))
    return y, (y, axis)


def log_softmax_backward(dy, saved):
    y, axis = saved
    if not fits(dy, y) or not last_axis(y, axis) or dy.shape != y.shape:
        return NotImplemented
    dx = np.empty(dy.shape, dy.dtype)
    log_softmax_rows_backward(as_rows(dy), as_rows(y), as_rows(dx))
    return dx
