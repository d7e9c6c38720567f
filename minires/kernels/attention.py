"""Attention for many heads: scores, softmax and mixing on blocks of queries that stay in the cache.

One head after the other: its rows lie far apart in memory, so they are first gathered side by side (many independent
reads, which the machine does at the same time). Then one block of queries after the other:

    forward     S = Q Kᵀ                        tiles of the micro-kernel, only where a query may look
                P = softmax(scale S)            row by row
                Y = P V
    backward    dP = dY Vᵀ
                dS = P (dP - Σ dP P) scale      row by row
                dQ = dS K, dK += dSᵀ Q, dV += Pᵀ dY

With `causal` the tiles above the diagonal are never computed, which is half of the work. P is stored for the backward
pass while it is small. Otherwise only log Σ e^S of each row is, and the backward pass computes its block of P again:
then memory grows with T, not with T². Blocks have fewer rows where rows are longer, so that they always fit the cache.

Sources of the second way: Rabe & Staats 2021, arXiv:2112.05682; Dao et al. 2022, arXiv:2205.14135.
"""

from __future__ import annotations

import functools
import math
from typing import Any, cast

import numpy as np
from numba import config, types

from minires.kernels.exp import decay
from minires.kernels.fits import fits
from minires.kernels.gemm import make_pack, make_shape
from minires.kernels.jit import njit
from minires.kernels.softmax import largest
from minires.kernels.vector import address, host_unit, make_panel, make_words

BLOCK = 1 << 17  # bytes of a block of scores: a quarter of a common L2 cache
KEEP = 1 << 22  # bytes of P up to which it is kept for the backward pass
JIT_IS_OFF = getattr(config, "DISABLE_JIT", False)  # the micro-kernel exists for the compiler only

# ------------------------------------------------------------------------------------------------------- rows


# A loop over a row runs in vectors while a whole stride of four registers is left, and number by number after that.
# Under a causal mask rows have any length, so loops run on to the end of a stride, over -inf or 0 that was put there.
# These functions get an array and the number of a row: to cut the row out would count references, row after row.


@njit(forceinline=True)
def end_of(i, keys, causal):
    """Query i may look at the keys before this one."""
    return min(keys, i + 1) if causal else keys


@njit(forceinline=True)
def stop_of(first, i, rows, stride, keys, causal):
    """Where the filled row of query first + i stops: behind all that the queries of its tile may look at."""
    last = end_of(first + i // rows * rows + rows - 1, keys, causal)
    return (last + stride - 1) // stride * stride


@njit(forceinline=True)
def fill(array, i, start, count, number):
    """`count` times the number. Where `count` is known to the compiler, this is a few stores."""
    for j in range(count):
        array[i, start + j] = number


@njit(forceinline=True)
def forbid_row(scores, i, end, allowed, query):
    """-inf where the mask forbids."""
    for j in range(end):
        if not allowed[query, j]:
            scores[i, j] = -np.inf


@njit(forceinline=True)
def exp_row(scores, i, stop, scale, top):
    """scores ← e^(scale (scores - top)). Returns the sum, which is 0 for a row that looks nowhere."""
    total = scores.dtype.type(0)
    for j in range(stop):
        e = decay((scores[i, j] - top) * scale)
        scores[i, j] = e
        total += e
    return total


@njit(forceinline=True)
def keep_row(weights, i, stop, factor, p, query):
    """p ← factor weights. What stands behind `stop`, where no query of the tile may look, is never read."""
    for j in range(min(stop, p.shape[1])):
        p[query, j] = weights[i, j] * factor


@njit(forceinline=True)
def again_row(scores, i, stop, scale, lse):
    """scores ← softmax(scale scores), from the stored log Σ e^(scale scores); -inf is a row that looks nowhere."""
    lse = lse if lse != -np.inf else scores.dtype.type(np.inf)
    for j in range(stop):
        scores[i, j] = decay(scores[i, j] * scale - lse)


@njit(forceinline=True)
def softmax_backward_row(dp, i, stop, p, row, scale):
    """dp ← ds = p (dp - Σ dp p) scale."""
    along, stop = dp.dtype.type(0), min(stop, p.shape[1])
    for j in range(stop):
        along += dp[i, j] * p[row, j]
    for j in range(stop):
        dp[i, j] = p[row, j] * (dp[i, j] - along) * scale


# --------------------------------------------------------------------------------------------------- products


def make_products(unit, real):
    """The two kinds of products that attention needs, on addresses and byte strides."""
    shape, panel = make_shape(unit, real), cast(Any, make_panel(unit, real))
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


def make_moves(unit, real):
    """Between rows that lie far apart and rows side by side, which are whole registers long."""
    shape = make_shape(unit, real)
    lanes, size, move = shape.lanes, shape.size, cast(Any, make_words(unit, real, shape.lanes).lines)

    @njit
    def gather(x, rows):
        """rows (T, d rounded up) ← x (T, d), with zeros behind."""
        whole = x.shape[1] // lanes * lanes
        for t in range(x.shape[0]):
            for c in range(0, whole, lanes):
                move(address(x) + t * x.strides[0] + c * size, address(rows) + t * rows.strides[0] + c * size)
            for c in range(whole, rows.shape[1]):
                rows[t, c] = x[t, c] if c < x.shape[1] else 0

    @njit
    def scatter(rows, x):
        """x (T, d) ← the first d columns of rows."""
        whole = x.shape[1] // lanes * lanes
        for t in range(x.shape[0]):
            for c in range(0, whole, lanes):
                move(address(rows) + t * rows.strides[0] + c * size, address(x) + t * x.strides[0] + c * size)
            for c in range(whole, x.shape[1]):
                x[t, c] = rows[t, c]

    return gather, scatter


def make_forward(unit, real):
    """`forward(q, k, v, allowed, causal, scale, y, p, lse)`; arrays (B, H, …), rows of q, k, v and y contiguous."""
    shape, (outer, mix), (gather, scatter) = make_shape(unit, real), make_products(unit, real), make_moves(unit, real)
    pack, rows, stride, size = make_pack(unit, real, shape.cols), shape.rows, 4 * shape.lanes, shape.size
    one, nothing, spill = np.dtype(real.name).type(1), np.dtype(real.name).type(-np.inf), stride + shape.lanes

    @njit
    def weigh(first, m, scores, keys, allowed, causal, scale, p, lse, tops, factors):
        """The scores of m queries become e^…; p, where it is kept, their normalised form; factors are 1 / Σ.

        One step for all rows before the next step: a row's steps wait for each other, different rows do not.
        """
        for i in range(m):
            end, stop = end_of(first + i, keys, causal), stop_of(first, i, rows, stride, keys, causal)
            fill(scores, i, end, spill, nothing)
            if allowed.size:
                forbid_row(scores, i, end, allowed, first + i)
            tops[i] = largest(scores, i, stop)
        for i in range(m):
            factors[i] = exp_row(scores, i, stop_of(first, i, rows, stride, keys, causal), scale, tops[i])
        for i in range(m):
            if not p.size:
                lse[first + i] = tops[i] * scale + np.log(factors[i])
            factors[i] = one / (factors[i] if factors[i] != 0 else one)
            if p.size:
                keep_row(scores, i, stop_of(first, i, rows, stride, keys, causal), factors[i], p, first + i)

    @njit
    def mix_values(first, m, weights, row, v, causal, y):
        """y = weights · v for m queries, each tile with the keys that it may see; `row` is the stride of weights."""
        for i in range(0, m, rows):
            few, at = min(rows, m - i), address(y) + (first + i) * y.strides[0]
            end = end_of(first + i + few - 1, v.shape[0], causal)
            mix(few, end, v.shape[1], weights + i * row, row, size, address(v), v.strides[0], at, y.strides[0], False)

    @njit
    def head(q, k, v, allowed, causal, scale, y, p, lse, packed, scores, tops, factors):
        keys, d = k.shape
        pack(address(packed), keys, d, address(k), k.strides[0], size)
        for first in range(0, q.shape[0], scores.shape[0]):
            m = min(scores.shape[0], q.shape[0] - first)
            at, n = address(q) + first * q.strides[0], end_of(first + m - 1, keys, causal)
            outer(m, n, d, first, causal, at, q.strides[0], address(packed), address(scores), scores.strides[0])
            weigh(first, m, scores, keys, allowed, causal, scale, p, lse, tops, factors)
            if p.size:
                mix_values(first, m, address(p) + first * p.strides[0], p.strides[0], v, causal, y)
            else:
                mix_values(first, m, address(scores), scores.strides[0], v, causal, y)
                for i in range(m):
                    for c in range(y.shape[1]):
                        y[first + i, c] *= factors[i]

    @njit
    def forward(q, k, v, allowed, causal, scale, y, p, lse):
        my_q, my_k = side_by_side(q, stride), side_by_side(k, stride)
        my_v, my_y = side_by_side(v, stride), side_by_side(y, stride)
        scores, packed = block_for(q, k, rows, stride), panels_for(my_k, stride)
        tops, factors = np.empty(scores.shape[0], q.dtype), np.empty(scores.shape[0], q.dtype)
        for b in range(q.shape[0]):
            for h in range(q.shape[1]):
                gather(q[b, h], my_q)
                gather(k[b, h], my_k)
                gather(v[b, h], my_v)
                out = my_y, p[b, h], lse[b, h], packed, scores, tops, factors
                head(my_q, my_k, my_v, allowed[b, h], causal, scale, *out)
                scatter(my_y, y[b, h])

    return forward


@njit
def side_by_side(x, stride):
    """Space for the rows of one head of x, which become whole registers."""
    lanes = stride // 4
    return np.empty((x.shape[2], (x.shape[3] + lanes - 1) // lanes * lanes), x.dtype)


@njit
def block_for(q, k, rows, stride):
    """Space for the scores of a block of queries.

    Rows are longer by 1.5 strides: room for what is filled in behind them (at most a stride and a tile's rows), and an
    odd number of cache lines, which spreads a column over all sets of the cache.
    """
    keys = (k.shape[2] + stride - 1) // stride * stride
    block = max(rows, BLOCK // (keys * q.itemsize) // rows * rows)
    return np.empty((min(block, (q.shape[2] + rows - 1) // rows * rows), keys + stride + stride // 2), q.dtype)


@njit
def panels_for(k, stride):
    """Space for the rows of one head, turned into panels of columns."""
    return np.empty((k.shape[0] + stride - 1) // stride * stride * k.shape[1], k.dtype)


def make_backward(unit, real):
    """`backward(q, k, v, allowed, causal, scale, p, lse, dy, dq, dk, dv)`, arrays as in the forward pass."""
    shape, (outer, mix), (gather, scatter) = make_shape(unit, real), make_products(unit, real), make_moves(unit, real)
    pack, rows, stride, size = make_pack(unit, real, shape.cols), shape.rows, 4 * shape.lanes, shape.size
    zero, nothing, spill = np.dtype(real.name).type(0), np.dtype(real.name).type(-np.inf), stride + shape.lanes

    @njit
    def weigh_again(first, m, scores, keys, allowed, causal, scale, lse):
        for i in range(m):
            end, stop = end_of(first + i, keys, causal), stop_of(first, i, rows, stride, keys, causal)
            fill(scores, i, end, spill, nothing)
            if allowed.size:
                forbid_row(scores, i, end, allowed, first + i)
            again_row(scores, i, stop, scale, lse[first + i])

    @njit
    def differentiate(first, m, dp, weights, start, keys, causal, scale):
        """dp becomes dS, with zeros behind what a query may look at. The weights of query i are in row start + i."""
        for i in range(m):
            end, stop = end_of(first + i, keys, causal), stop_of(first, i, rows, stride, keys, causal)
            fill(dp, i, end, spill, zero)
            softmax_backward_row(dp, i, stop, weights, start + i, scale)

    @njit
    def to_queries(first, m, ds, k, causal, dq):
        for i in range(0, m, rows):
            few, row = min(rows, m - i), ds.strides[0]
            end, at = end_of(first + i + few - 1, k.shape[0], causal), address(ds) + i * row
            to = address(dq) + (first + i) * dq.strides[0]
            mix(few, end, k.shape[1], at, row, size, address(k), k.strides[0], to, dq.strides[0], False)

    @njit
    def to_keys(first, m, n, before, weights, row, x, causal, dx):
        """dx += weightsᵀ · x from m queries, for keys up to n; keys from `before` on have nothing yet."""
        x_row, dx_row = x.strides[0], dx.strides[0]
        for j in range(0, n, rows):
            start = min(m, max(0, j - first) // rows * rows) if causal else 0
            at, at_x = weights + start * row + j * size, address(x) + (first + start) * x_row
            few, at_dx = min(rows, n - j), address(dx) + j * dx_row
            mix(few, m - start, x.shape[1], at, size, row, at_x, x_row, at_dx, dx_row, j < before)

    @njit
    def head(q, k, v, allowed, causal, scale, p, lse, dy, dq, dk, dv, packed, packed_v, scores, dp):
        (keys, d), dim, before = k.shape, v.shape[1], 0
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
            weights, start = (p, first) if p.size else (scores, 0)
            differentiate(first, m, dp, weights, start, keys, causal, scale)
            to_queries(first, m, dp, k, causal, dq)
            to_keys(first, m, n, before, address(dp), dp.strides[0], q, causal, dk)
            at, row = address(weights) + start * weights.strides[0], weights.strides[0]
            to_keys(first, m, n, before, at, row, dy, causal, dv)
            before = n
        dk[before:] = 0  # keys that no query may see
        dv[before:] = 0

    @njit
    def backward(q, k, v, allowed, causal, scale, p, lse, dy, dq, dk, dv):
        my_q, my_k = side_by_side(q, stride), side_by_side(k, stride)
        my_v, my_dy = side_by_side(v, stride), side_by_side(dy, stride)
        my_dq, my_dk, my_dv = np.empty_like(my_q), np.empty_like(my_k), np.empty_like(my_v)
        packed = panels_for(my_k, stride), panels_for(my_v, stride)
        blocks = block_for(q, k, rows, stride), block_for(q, k, rows, stride)
        for b in range(q.shape[0]):
            for h in range(q.shape[1]):
                gather(q[b, h], my_q)
                gather(k[b, h], my_k)
                gather(v[b, h], my_v)
                gather(dy[b, h], my_dy)
                more = p[b, h], lse[b, h], my_dy, my_dq, my_dk, my_dv
                head(my_q, my_k, my_v, allowed[b, h], causal, scale, *more, *packed, *blocks)
                scatter(my_dq, dq[b, h])
                scatter(my_dk, dk[b, h])
                scatter(my_dv, dv[b, h])

    return backward


# -------------------------------------------------------------------------------------------------- the twins


class Kernels:
    """The compiled forward and backward pass for float32 or float64, one function for all strides."""

    def __init__(self, dtype: np.dtype):
        unit, real = host_unit(), getattr(types, dtype.name)
        given, mine = types.Array(real, 4, "A", readonly=True), types.Array(real, 4, "A")
        kept, rows = types.Array(real, 4, "C"), types.Array(real, 3, "C")
        allowed = types.Array(types.boolean, 4, "A", readonly=True)
        head = (given, given, given, allowed, types.boolean, real)
        self.forward: Any = make_forward(unit, real)
        self.backward: Any = make_backward(unit, real)
        self.forward.compile((*head, mine, kept, rows))
        self.backward.compile((*head, kept, rows, given, mine, mine, mine))
        for kernel in (self.forward, self.backward):
            kernel.disable_compile()  # otherwise numba compiles again for each mixture of layouts


kernels = functools.cache(Kernels)


def attention_forward(q, k, v, mask=None, causal=False, scale=None, bias=None, dropout_p=0.0, rng=None):
    scale, mask, causal = _scale(q, scale), _as_mask(mask), bool(causal)
    if bias is not None or dropout_p or not _can(q, k, v, mask, scale):
        return NotImplemented
    y = np.empty(v.shape[:-2] + (q.shape[-2], v.shape[-1]), q.dtype)
    return y, (q, k, v, _attend(q, k, v, y, mask, causal, scale), None, scale)


def attention_backward(dy, saved):
    q, k, v, p, keep, scale = saved
    if keep is not None or not _can(q, k, v, None, scale) or not fits(dy, q) or dy.shape[:-1] != q.shape[:-1]:
        return NotImplemented
    dq, dk, dv = [np.empty(x.shape, x.dtype) for x in (q, k, v)]
    _attend_backward(q, k, v, p, scale, dy, dq, dk, dv)
    return dq, dk, dv


def self_attention_forward(qkv, heads=1, mask=None, causal=False, dropout_p=0.0, rng=None):
    if not fits(qkv) or qkv.ndim != 3 or qkv.shape[-1] % (3 * heads) or dropout_p:
        return NotImplemented
    b, t, _ = qkv.shape
    q, k, v = np.ascontiguousarray(qkv).reshape(b, t, 3, heads, -1).transpose(2, 0, 3, 1, 4)  # (3, B, H, T, dh)
    scale, mask, causal = _scale(q, None), _as_mask(mask), bool(causal)
    if not _can(q, k, v, mask, scale):
        return NotImplemented
    y = np.empty((b, t, heads, q.shape[-1]), qkv.dtype)  # the heads' results side by side
    p = _attend(q, k, v, y.swapaxes(1, 2), mask, causal, scale)
    return y.reshape(b, t, -1), (q, k, v, p, None, scale)  # (B, T, d)


def self_attention_backward(dy, saved):
    q, k, v, p, keep, scale = saved
    b, heads, t, dh = q.shape
    if keep is not None or not _can(q, k, v, None, scale) or not fits(dy, q):
        return NotImplemented
    dqkv = np.empty((b, t, 3, heads, dh), dy.dtype)
    dy = dy.reshape(b, t, heads, dh).swapaxes(1, 2)  # (B, H, T, dh)
    _attend_backward(q, k, v, p, scale, dy, *dqkv.transpose(2, 0, 3, 1, 4))
    return dqkv.reshape(b, t, -1)  # (B, T, 3d)


def _as_mask(mask):
    return mask if mask is None else np.asarray(mask)


def _scale(q, scale):
    return 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else float(scale)


def _can(q, k, v, mask, scale) -> bool:
    """True for what the kernels were written for: up to four axes, equal numbers of heads, a positive scale."""
    if JIT_IS_OFF or not fits(q, k, v) or not (k.size and v.size and 2 <= q.ndim <= 4) or not scale > 0:
        return False
    if q.shape[:-2] != k.shape[:-2] or k.shape[:-1] != v.shape[:-1] or q.shape[-1] != k.shape[-1]:
        return False
    return mask is None or (mask.dtype == bool and _broadcasts(mask.shape, q.shape[:-1] + k.shape[-2:-1]))


def _broadcasts(shape, to) -> bool:
    """True if an array of this shape broadcasts to `to` without adding anything to it."""
    return len(shape) <= len(to) and all(n in (1, m) for n, m in zip(reversed(shape), reversed(to)))


def _attend(q, k, v, y, mask, causal, scale):
    """Writes y; returns what the backward pass wants of P.

    That is P itself, or (P with anything above the diagonal, True, None) under a causal mask, or where P would be large
    (log Σ e^scores per row, causal, mask).
    """
    shape, real = q.shape[:-1] + k.shape[-2:-1], q.dtype  # (…, T, S)
    keep = math.prod(shape) * real.itemsize <= KEEP
    p, lse = np.empty(shape if keep else shape[:-2] + (0, 0), real), np.empty(shape[:-1], real)
    given = [_four(x) for x in (q, k, v)]
    kernels(real).forward(*given, _allowed(mask, shape), causal, real.type(scale), _four(y), _four(p), _rows(lse))
    return (p if not causal else (p, True, None)) if keep else (lse, causal, mask)


def _attend_backward(q, k, v, p, scale, dy, *gradients):
    """Writes the gradients of q, k and v."""
    shape, real = q.shape[:-1] + k.shape[-2:-1], q.dtype  # (…, T, S)
    kept, causal, mask = p if isinstance(p, tuple) else (p, False, None)
    if kept.ndim == q.ndim:
        p, lse = np.ascontiguousarray(kept), np.empty(shape[:-1], real)
    else:
        p, lse = np.empty(shape[:-2] + (0, 0), real), kept
    given = *[_four(x) for x in (q, k, v)], _allowed(mask, shape), causal, real.type(scale), _four(p), _rows(lse)
    kernels(real).backward(*given, _four(dy), *[_four(x) for x in gradients])


def _allowed(mask, shape):
    """The mask as (B, H, T, S), or an array without entries where there is none."""
    given = np.empty(shape[:-2] + (0, 0), bool) if mask is None else np.broadcast_to(mask, shape)
    return given[(None,) * (4 - given.ndim)]  # any strides will do: a copy could be as large as all scores


def _four(x):
    """x with axes of size 1 in front, (B, H, T, d), and contiguous rows."""
    x = x if x.strides[-1] == x.itemsize else np.ascontiguousarray(x)
    return x.reshape((1,) * (4 - x.ndim) + x.shape) if x.ndim < 4 else x


def _rows(x):
    """x (…, T) as (B, H, T)."""
    return x.reshape((1,) * (3 - x.ndim) + x.shape) if x.ndim < 3 else x
