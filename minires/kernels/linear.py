"""Linear layers and the feed-forward network: matrix products that finish each block of rows while it is in the cache.

A product y = x W goes over x in blocks of rows. When a block of y is complete, it is still in the nearest caches:
that is the cheapest moment to add the bias, or to apply the activation or its derivative and sum up the bias's
gradient. The panels of W are packed once, before the first block.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import numpy as np
from numba import config, types

from minires.kernels.activations import ACTIVATIONS
from minires.kernels.fits import as_rows, fits
from minires.kernels.gemm import ALIGN, KC_BYTES, MC, PACK_A_FROM, make_block, make_pack, make_shape
from minires.kernels.jit import njit
from minires.kernels.matmul import matmul_simd
from minires.kernels.vector import address, host_unit, make_panel, make_words

JIT_IS_OFF = getattr(config, "DISABLE_JIT", False)  # the micro-kernel exists for the compiler only

# --------------------------------------------------------------------------- what is done to a finished block of rows


@njit
def nothing(first, last, y, extra):
    pass


@njit
def add_bias(first, last, y, extra):
    (bias,) = extra
    for i in range(first, last):
        for j in range(y.shape[1]):
            y[i, j] += bias[j]


def make_activate(value, keeps: bool):
    @njit
    def activate(first, last, y, extra):
        """y ← y + bias, active ← act(y), and what the backward pass wants again."""
        bias, active, inner = extra
        for i in range(first, last):
            for j in range(y.shape[1]):
                x = y[i, j] + bias[j]
                y[i, j] = x
                active[i, j], more = value(x)
                if keeps:
                    inner[i, j] = more

    return activate


def make_deactivate(back, keeps: bool):
    @njit
    def deactivate(first, last, y, extra):
        """y holds dL/d(active): y ← dL/d(hidden), and its sum over the rows into dbias."""
        hidden, inner, dbias = extra
        for i in range(first, last):
            for j in range(y.shape[1]):
                y[i, j] = back(y[i, j], hidden[i, j], inner[i, j] if keeps else hidden[i, j])
            for j in range(y.shape[1]):
                dbias[j] += y[i, j]

    return deactivate


# ---------------------------------------------------------------------------------------------------- the product


def make_product(unit, real, finish):
    """`product(x, w, y, extra, work)`: y = x · w, and `finish(first, last, y, extra)` after each block of rows."""
    shape, words = make_shape(unit, real), make_words(unit, real, 1)
    pack_x, pack_w = make_pack(unit, real, shape.rows), make_pack(unit, real, shape.cols)
    block = make_block(make_panel(unit, real), pack_w, words, shape)
    size, rows, cols, depth = shape.size, shape.rows, shape.cols, shape.depth

    @njit
    def pack_all(w, kc, room):
        """All of w as panels, slice of k by slice of k."""
        k, n = w.shape
        for p in range(0, k, kc):
            at = address(w) + p * w.strides[0]
            pack_w(room + p * panels(n, cols) * size, n, min(kc, k - p), at, w.strides[1], w.strides[0])

    @njit
    def rows_of(x, first, m, n, kc, y, room, room_x, spare, tile):
        """A block of m rows of y."""
        k, row, to = x.shape[1], y.strides[0], address(y) + first * y.strides[0]
        for p in range(0, k, kc):
            few, at, step = min(kc, k - p), address(x) + first * x.strides[0] + p * size, x.strides[0]
            w, row_x, col_x = room + p * panels(n, cols) * size, step, size
            if n >= PACK_A_FROM:
                pack_x(room_x, m, few, at, step, size)
                at, step, row_x, col_x = room_x, few * size, size, rows * size
            block(m, n, few, at, step, row_x, col_x, w, few * size, cols * size, to, row, p > 0, spare, tile)

    @njit
    def product(x, w, y, extra, work):
        (m, k), n = x.shape, w.shape[1]
        slices = (k + depth - 1) // depth
        kc = (k + slices - 1) // slices
        spare = (address(work) + ALIGN - 1) // ALIGN * ALIGN
        tile = spare + cols * KC_BYTES
        room_x = tile + MC * cols * size
        room = room_x + (MC + rows) * KC_BYTES
        pack_all(w, kc, room)
        for first in range(0, m, MC):
            few = min(MC, m - first)
            rows_of(x, first, few, n, kc, y, room, room_x, spare, tile)
            finish(first, first + few, y, extra)

    return product


@njit(inline="always")
def panels(n, cols):
    """n rounded up to whole panels."""
    return (n + cols - 1) // cols * cols


FINISHES = {"nothing": nothing, "bias": add_bias}
FINISHES |= {name: make_activate(a.value, a.keeps) for name, a in ACTIVATIONS.items()}
FINISHES |= {f"d_{name}": make_deactivate(a.back, a.keeps) for name, a in ACTIVATIONS.items()}


@functools.cache
def compiled(finish: str, dtype: np.dtype) -> Any:
    """The product with one kind of finish for float32 or float64, one function for all strides of w."""
    real = getattr(types, dtype.name)
    product: Any = make_product(host_unit(), real, FINISHES[finish])
    given, weight = types.Array(real, 2, "C", readonly=True), types.Array(real, 2, "A", readonly=True)
    vector, matrix = types.Array(real, 1, "C"), types.Array(real, 2, "C")
    extra = (given, given, vector) if finish[:2] == "d_" else (vector, matrix, matrix)
    extra = types.Tuple({"nothing": (), "bias": (vector,)}.get(finish, extra))
    product.compile((given, weight, matrix, extra, types.Array(types.uint8, 1, "C")))
    product.disable_compile()  # otherwise numba compiles again for each mixture of layouts
    return product


class Local(threading.local):
    """Each thread's room for packed panels, kept between calls because fresh memory costs a page fault per 4 KB."""

    def __init__(self):
        self.room = np.empty(0, np.uint8)

    def work(self, k: int, n: int, size: int) -> np.ndarray:
        needed = size * (k * (n + 64) + 64 * MC) + KC_BYTES * (MC + 128) + ALIGN
        if self.room.size < needed:
            self.room = np.empty(needed, np.uint8)
        return self.room


local = Local()


def product(x, w, y, finish="nothing", extra=()):
    """y = x · w on matrices, then the named finish. Returns y."""
    work = local.work(w.shape[0], w.shape[1], x.itemsize)
    compiled(finish, x.dtype)(x, w, y, extra, work)
    return y


@njit
def add_rows(x, total):
    """total += Σ x over the rows."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            total[j] += x[i, j]


# ------------------------------------------------------------------------------------------------------- the twins


def _joins(x, w, b) -> bool:
    """True if x (…, in), w (in, out) and b (out,) or None fit each other and the kernels."""
    if JIT_IS_OFF or not fits(x, w, b) or x.ndim == 0 or w.ndim != 2 or not w.size or x.shape[-1] != w.shape[0]:
        return False
    return b is None or b.shape == w.shape[1:]


def linear_forward(x, w, b=None):
    if not _joins(x, w, b):
        return NotImplemented
    y = np.empty(x.shape[:-1] + w.shape[1:], x.dtype)  # (…, out)
    if b is None:
        product(as_rows(x), w, as_rows(y))
    else:
        product(as_rows(x), w, as_rows(y), "bias", (_writable(b),))
    return y, (x, w, b is not None)


def linear_backward(dy, saved):
    x, w, has_bias = saved
    if not _joins(x, w, None) or not fits(dy, x) or dy.shape != x.shape[:-1] + w.shape[1:]:
        return NotImplemented
    dx = np.empty(x.shape, x.dtype)
    rows = as_rows(dy)  # (n, out)
    product(rows, w.T, as_rows(dx))
    return dx, *_weight_gradients(x, rows, has_bias)


def _weight_gradients(x, dy, has_bias):
    """dW = xᵀ dy and db = Σ dy over the rows."""
    db = np.zeros(dy.shape[1], dy.dtype) if has_bias else None
    if has_bias:
        add_rows(dy, db)
    return matmul_simd(as_rows(x).T, dy), db


def ffn_forward(x, w1, b1, w2, b2, activation="gelu_tanh"):
    if activation not in ACTIVATIONS or b1 is None or not _joins(x, w1, b1) or not fits(x, w2, b2):
        return NotImplemented
    if w2.ndim != 2 or not w2.size or w2.shape[0] != w1.shape[1] or (b2 is not None and b2.shape != w2.shape[1:]):
        return NotImplemented
    keeps = ACTIVATIONS[activation].keeps
    wide = x.shape[:-1] + w1.shape[1:]  # (…, hidden)
    hidden, active = np.empty(wide, x.dtype), np.empty(wide, x.dtype)
    inner = np.empty(wide if keeps else (0, wide[-1]), x.dtype)
    extra = _writable(b1), as_rows(active), inner.reshape(-1, wide[-1])
    product(as_rows(x), w1, as_rows(hidden), activation, extra)
    y, saved_2 = linear_forward(active, w2, b2)  # (…, d)
    return y, ((x, w1, True), (hidden, inner) if keeps else hidden, saved_2, activation)


def ffn_backward(dy, saved):
    (x, w1, has_b1), saved_a, (active, w2, has_b2), activation = saved
    if activation not in ACTIVATIONS or not _joins(x, w1, None) or not fits(dy, active, w2):
        return NotImplemented
    hidden, inner = saved_a if ACTIVATIONS[activation].keeps else (saved_a, saved_a[:0])
    rows, db1 = as_rows(dy), np.zeros(w1.shape[1], x.dtype)  # (n, d), (hidden,)
    dhidden = np.empty((len(rows), w1.shape[1]), x.dtype)
    product(rows, w2.T, dhidden, f"d_{activation}", (as_rows(hidden), inner.reshape(-1, hidden.shape[-1]), db1))
    dx = np.empty(x.shape, x.dtype)
    product(dhidden, w1.T, as_rows(dx))
    dw1, _ = _weight_gradients(x, dhidden, False)
    dw2, db2 = _weight_gradients(active, rows, has_b2)
    return dx, dw1, db1 if has_b1 else None, dw2, db2


def _writable(vector):
    """The vector as the compiled functions were promised it: contiguous and not read-only."""
    return vector if vector.flags.carray else np.require(vector, requirements=("C", "W"))
