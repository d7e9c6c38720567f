"""Attention for many heads: scores, softmax and mixing on blocks of queries that stay in the cache.

One head after the other, and in it one block of queries after the other:

    forward     S = Q Kᵀ                        tiles of the micro-kernel, only where a query may look
                P = softmax(scale S)            row by row
                Y = P V
    backward    dP = dY Vᵀ
                dS = P (dP - Σ dP P) scale      row by row
                dQ = dS K, dK += dSᵀ Q, dV += Pᵀ dY

With `causal` the tiles above the diagonal are never computed, which is half of the work. P is stored for the backward
pass while it is small. Otherwise only log Σ e^S of each row is, and the backward pass computes its block of P again: then
memory grows with T, not with T². Blocks have fewer rows where rows are longer, so that they always fit the cache.

Source of the second way: Dao et al. 2022, arXiv:2205.14135; of the row sums alone: Rabe & Staats 2021, arXiv:2112.05682.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numba import config, types

from minires.kernels.exp import exp
from minires.kernels.fits import fits
from minires.kernels.gemm import address, make_pack, make_shape
from minires.kernels.jit import njit
from minires.kernels.softmax import shift
from minires.kernels.vector import host_unit, make_panel

BLOCK = 1 << 17  # bytes of a block of scores: a quarter of a common L2 cache
KEEP = 1 << 22  # bytes of P up to which it is kept for the backward pass

# ------------------------------------------------------------------------------------------------------- rows


@njit(forceinline=True)
def end_of(i, keys, causal):
    """Query i may look at the keys before this one."""
    return min(keys, i + 1) if causal else keys


@njit
def mask_row(scores, allowed):
    for j in range(scores.size):
        if not allowed[j]:
            scores[j] = -np.inf


@njit
def exp_row(scores, scale):
    """scores ← e^(scale (scores - top)). Returns 1 / their sum (1 for a row of zeros) and log Σ e^(scale scores)."""
    top, total = shift(scores), scores.dtype.type(0)
    for j in range(scores.size):
        e = exp((scores[j] - top) * scale)
        scores[j] = e
        total += e
    return scores.dtype.type(1) / (total if total != 0 else scores.dtype.type(1)), top * scale + np.log(total)


@njit
def keep_row(weights, factor, p):
    """p ← factor weights, and zeros behind them (NaN where the row is NaN)."""
    for j in range(weights.size):
        p[j] = weights[j] * factor
    for j in range(weights.size, p.size):
        p[j] = weights.dtype.type(0) * factor


@njit
def again_row(scores, scale, lse):
    """scores ← softmax(scale scores), from the stored log Σ e^(scale scores); -inf stands for a row that looks nowhere."""
    lse = lse if lse != -np.inf else scores.dtype.type(np.inf)
    for j in range(scores.size):
        scores[j] = exp(scores[j] * scale - lse)


@njit
def softmax_backward_row(dp, p, scale):
    """dp ← ds = p (dp - Σ dp p) scale."""
    along = dp.dtype.type(0)
    for j in range(p.size):
        along += dp[j] * p[j]
    for j in range(p.size):
        dp[j] = p[j] * (dp[j] - along) * scale


# --------------------------------------------------------------------------------------------------- products


def make_products(unit, real):
    """The two kinds of products that attention needs, on addresses and byte strides."""
    shape, panel = make_shape(unit, real), make_panel(unit, real)
    rows, cols, lanes, size, vectors = shape.rows, shape.cols, shape.lanes, shape.size, shape.vectors

    @njit
    def outer(m, n, d, first, causal, a, rsa, packed, c, rsc):
        """c (m, n) = a (m, d) · packed (d, n) for queries first … first + m, without the tiles above the diagonal."""
        for j in range(0, n, cols):
            skip = max(0, j - first) // rows * rows if causal else 0
            at_a, at_c = a + skip * rsa, c + skip * rsc + j * size
            panel(vectors, m - skip, d, at_a, rsa, rsa, size, packed + j * d * size, cols * size, at_c, rsc, False)

    @njit
    def mix(m, k, d, a, rsa, csa, b, rsb, c, rsc, add):
        """c (m, d) = a (m, k) · b (k, d), plus the old c where `add`; d is a multiple of a register."""
        for j in range(0, d, cols):
            width = min(cols, d - j) // lanes
            panel(width, m, k, a, rsa, rsa, csa, b + j * size, rsb, c + j * size, rsc, add)

    return outer, mix


def make_forward(unit, real):
    """`forward(q, k, v, allowed, causal, scale, y, p, lse)`; all arrays (B, H, …), rows of q, k, v and y contiguous."""
    shape, (outer, mix) = make_shape(unit, real), make_products(unit, real)
    pack, rows, cols, size = make_pack(unit, real, shape.cols), shape.rows, shape.cols, shape.size

    @njit
    def weigh(first, m, scores, keys, allowed, causal, scale, p, lse, factors):
        """The scores of m queries become e^…; p, where it is kept, their normalised form; factors are 1 / Σ."""
        for i in range(m):
            weights = scores[i, : end_of(first + i, keys, causal)]
            if allowed.size:
                mask_row(weights, allowed[first + i])
            factors[i], lse[first + i] = exp_row(weights, scale)
            if p.size:
                keep_row(weights, factors[i], p[first + i])

    @njit
    def mix_values(first, m, weights, row, v, causal, y):
        """y = weights · v for m queries, each tile with the keys that it may see. `row` leads from row to row of weights."""
        for i in range(0, m, rows):
            few, at = min(rows, m - i), address(y) + (first + i) * y.strides[0]
            end = end_of(first + i + few - 1, v.shape[0], causal)
            mix(few, end, v.shape[1], weights + i * row, row, size, address(v), v.strides[0], at, y.strides[0], False)

    @njit
    def head(q, k, v, allowed, causal, scale, y, p, lse, packed, scores, factors):
        keys, d = k.shape
        pack(address(packed), keys, d, address(k), k.strides[0], size)
        for first in range(0, q.shape[0], scores.shape[0]):
            m = min(scores.shape[0], q.shape[0] - first)
            at, n = address(q) + first * q.strides[0], end_of(first + m - 1, keys, causal)
            outer(m, n, d, first, causal, at, q.strides[0], address(packed), address(scores), scores.strides[0])
            weigh(first, m, scores, keys, allowed, causal, scale, p, lse, factors)
            if p.size:
                mix_values(first, m, address(p) + first * p.strides[0], p.strides[0], v, causal, y)
            else:
                mix_values(first, m, address(scores), scores.strides[0], v, causal, y)
                for i in range(m):
                    y[first + i] *= factors[i]

    @njit
    def forward(q, k, v, allowed, causal, scale, y, p, lse):
        scores, packed = block_for(q, k, rows, cols), panels_for(k, cols)
        factors = np.empty(scores.shape[0], q.dtype)
        for b in range(q.shape[0]):
            for h in range(q.shape[1]):
                mine = q[b, h], k[b, h], v[b, h], allowed[b, h]
                head(*mine, causal, scale, y[b, h], p[b, h], lse[b, h], packed, scores, factors)

    return forward


@njit
def block_for(q, k, rows, cols):
    """Space for the scores of a block of queries. The odd row length spreads a column over all sets of the cache."""
    keys = (k.shape[2] + cols - 1) // cols * cols
    block = max(rows, BLOCK // (keys * q.itemsize) // rows * rows)
    return np.empty((min(block, (q.shape[2] + rows - 1) // rows * rows), keys + cols), q.dtype)


@njit
def panels_for(k, cols):
    """Space for the rows of one head of k, turned into panels of columns."""
    return np.empty((k.shape[2] + cols - 1) // cols * cols * k.shape[3], k.dtype)


def make_backward(unit, real):
    """`backward(q, k, v, allowed, causal, scale, p, lse, dy, dq, dk, dv)`, arrays as in the forward pass."""
    shape, (outer, mix) = make_shape(unit, real), make_products(unit, real)
    pack, rows, cols, size = make_pack(unit, real, shape.cols), shape.rows, shape.cols, shape.size

    @njit
    def weigh_again(first, m, scores, keys, allowed, causal, scale, lse):
        for i in range(m):
            weights = scores[i, : end_of(first + i, keys, causal)]
            if allowed.size:
                mask_row(weights, allowed[first + i])
            again_row(weights, scale, lse[first + i])
            scores[i, weights.size : end_of(first + i // rows * rows + rows - 1, keys, causal)] = 0

    @njit
    def differentiate(first, m, dp, weights, keys, causal, scale):
        """dp becomes dS, with zeros behind the diagonal up to the end of the tile."""
        for i in range(m):
            end = end_of(first + i, keys, causal)
            softmax_backward_row(dp[i, :end], weights[i, :end], scale)
            dp[i, end : end_of(first + i // rows * rows + rows - 1, keys, causal)] = 0

    @njit
    def to_queries(first, m, ds, k, causal, dq):
        for i in range(0, m, rows):
            few, row = min(rows, m - i), ds.strides[0]
            end = end_of(first + i + few - 1, k.shape[0], causal)
            at = address(dq) + (first + i) * dq.strides[0]
            mix(few, end, k.shape[1], address(ds) + i * row, row, size, address(k), k.strides[0], at, dq.strides[0], False)

    @njit
    def to_keys(first, m, n, before, weights, x, causal, dx):
        """dx += weightsᵀ · x from m queries, for keys up to n; keys from `before` on have nothing yet."""
        row, x_row, dx_row = weights.strides[0], x.strides[0], dx.strides[0]
        for j in range(0, n, rows):
            start = min(m, max(0, j - first) // rows * rows) if causal else 0
            at, at_x = address(weights) + start * row + j * size, address(x) + (first + start) * x_row
            few, at_dx = min(rows, n - j), address(dx) + j * dx_row
            mix(few, m - start, x.shape[1], at, size, row, at_x, x_row, at_dx, dx_row, j < before)

    @njit
    def head(q, k, v, allowed, causal, scale, p, lse, dy, dq, dk, dv, packed, packed_v, scores, dp):
        keys, d, dim = k.shape[0], k.shape[1], v.shape[1]
        before = 0
        pack(address(packed_v), keys, dim, address(v), v.strides[0], size)
        if not p.size:
            pack(address(packed), keys, d, address(k), k.strides[0], size)
        for first in range(0, q.shape[0], dp.shape[0]):
            m = min(dp.shape[0], q.shape[0] - first)
            n = end_of(first + m - 1, keys, causal)
            at = address(dy) + first * dy.strides[0]
            outer(m, n, dim, first, causal, at, dy.strides[0], address(packed_v), address(dp), dp.strides[0])
            if not p.size:
                at = address(q) + first * q.strides[0]
                outer(m, n, d, first, causal, at, q.strides[0], address(packed), address(scores), scores.strides[0])
                weigh_again(first, m, scores, keys, allowed, causal, scale, lse)
            weights = p[first : first + m] if p.size else scores
            differentiate(first, m, dp, weights, keys, causal, scale)
            to_queries(first, m, dp, k, causal, dq)
            to_keys(first, m, n, before, dp, q, causal, dk)
            to_keys(first, m, n, before, weights, dy, causal, dv)
            before = n
        to_keys(0, 0, keys - before, 0, dp, q, causal, dk[before:])  # keys that no query may see
        to_keys(0, 0, keys - before, 0, dp, dy, causal, dv[before:])

    @njit
    def backward(q, k, v, allowed, causal, scale, p, lse, dy, dq, dk, dv):
        packed, packed_v = panels_for(k, cols), panels_for(v, cols)
        scores, dp = block_for(q, k, rows, cols), block_for(q, k, rows, cols)
        for b in range(q.shape[0]):
            for h in range(q.shape[1]):
                mine = q[b, h], k[b, h], v[b, h], allowed[b, h]
                out = dy[b, h], dq[b, h], dk[b, h], dv[b, h]
                head(*mine, causal, scale, p[b, h], lse[b, h], *out, packed, packed_v, scores, dp)

    return backward


# -------------------------------------------------------------------------------------------------- the twins


class Kernels:
    """The compiled forward and backward pass for 'float32' or 'float64', one function for all strides."""

    def __init__(self, name: str):
        unit, real = host_unit(), getattr(types, name)
        given, mine = types.Array(real, 4, "A", readonly=True), types.Array(real, 4, "A")
        kept, rows = types.Array(real, 4, "C"), types.Array(real, 3, "C")
        allowed = types.Array(types.boolean, 4, "A", readonly=True)
        head = (given, given, given, allowed, types.boolean, real)
        self.forward, self.backward = make_forward(unit, real), make_backward(unit, real)
        self.forward.compile((*head, mine, kept, rows))
        self.backward.compile((*head, kept, rows, given, mine, mine, mine))
        self.register = unit.bytes // (real.bitwidth // 8)
        for kernel in (self.forward, self.backward):
            kernel.disable_compile()  # otherwise numba compiles again for each mixture of layouts


kernels = functools.cache(Kernels)
NOWHERE = np.empty((0, 0), bool)


def attend(q, k, v, y, mask, causal, scale):
    """Attention on arrays (B, H, T, dh) into y. Returns what stands in `saved` for P, and the scale."""
    b, h, t, s = *q.shape[:3], k.shape[2]
    name, real = q.dtype.name, q.dtype.type
    keep = b * h * t * s * q.itemsize <= KEEP
    p, lse = np.empty((b, h, t, s) if keep else (b, h, 0, 0), q.dtype), np.empty((b, h, t), q.dtype)
    allowed = _everywhere(mask, q, k)
    kernels(name).forward(q, k, v, allowed, causal, real(scale), y, p, lse)
    return p if keep else (lse, causal, mask)


def _everywhere(mask, q, k):
    """The mask as (B, H, T, S), or an array without entries where there is none."""
    b, h, t, s = *q.shape[:3], k.shape[2]
    return np.broadcast_to(NOWHERE, (b, h, 0, 0)) if mask is None else np.broadcast_to(mask, (b, h, t, s))
