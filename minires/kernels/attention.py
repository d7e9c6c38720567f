"""Attention for many heads: scores, softmax and mixing on blocks of queries that stay in the cache.

One head after the other, and in it one block of queries after the other:

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

from minires.kernels.exp import exp
from minires.kernels.fits import fits
from minires.kernels.gemm import address, make_pack, make_shape
from minires.kernels.jit import njit
from minires.kernels.softmax import shift
from minires.kernels.vector import host_unit, make_panel

BLOCK = 1 << 17  # bytes of a block of scores: a quarter of a common L2 cache
KEEP = 1 << 22  # bytes of P up to which it is kept for the backward pass
NO_ROW = np.empty(0, bool)  # where there is no mask
JIT_IS_OFF = getattr(config, "DISABLE_JIT", False)  # the micro-kernel exists for the compiler only

# ------------------------------------------------------------------------------------------------------- rows


# A loop over a row runs in vectors while a whole stride of four registers is left, and number by number after that.
# Under a causal mask rows have any length: they are filled up to whole strides with entries that do no harm.


@njit(forceinline=True)
def end_of(i, keys, causal):
    """Query i may look at the keys before this one."""
    return min(keys, i + 1) if causal else keys


@njit(forceinline=True)
def stop_of(first, i, rows, stride, keys, causal):
    """Where the filled row of query first + i stops: behind all that the queries of its tile may look at."""
    last = end_of(first + i // rows * rows + rows - 1, keys, causal)
    return (last + stride - 1) // stride * stride


@njit
def forbid_row(scores, end, allowed):
    """-inf behind `end`, and where the mask (if there is one) forbids."""
    scores[end:] = -np.inf
    for j in range(min(end, allowed.size)):
        if not allowed[j]:
            scores[j] = -np.inf


@njit
def exp_row(scores, scale):
    """scores ← e^(scale (scores - top)). Returns scale · top and the sum, which is 0 for a row that looks nowhere."""
    top, total = shift(scores), scores.dtype.type(0)
    for j in range(scores.size):
        e = exp((scores[j] - top) * scale)
        scores[j] = e
        total += e
    return top * scale, total


@njit
def keep_row(weights, factor, p):
    """p ← factor weights, and zeros behind them (NaN where the row is NaN)."""
    stop = min(weights.size, p.size)
    for j in range(stop):
        p[j] = weights[j] * factor
    for j in range(stop, p.size):
        p[j] = weights.dtype.type(0) * factor


@njit
def again_row(scores, scale, lse):
    """scores ← softmax(scale scores), from the stored log Σ e^(scale scores); -inf is a row that looks nowhere."""
    lse = lse if lse != -np.inf else scores.dtype.type(np.inf)
    for j in range(scores.size):
        scores[j] = exp(scores[j] * scale - lse)


@njit
def softmax_backward_row(dp, p, scale):
    """dp ← ds = p (dp - Σ dp p) scale."""
    along, stop = dp.dtype.type(0), min(dp.size, p.size)
    for j in range(stop):
        along += dp[j] * p[j]
    for j in range(stop):
        dp[j] = p[j] * (dp[j] - along) * scale


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


def make_forward(unit, real):
    """`forward(q, k, v, allowed, causal, scale, y, p, lse)`; arrays (B, H, …), rows of q, k, v and y contiguous."""
    shape, (outer, mix) = make_shape(unit, real), make_products(unit, real)
    pack, rows, stride, size = make_pack(unit, real, shape.cols), shape.rows, 4 * shape.lanes, shape.size
    one = np.dtype(real.name).type(1)

    @njit
    def weigh(first, m, scores, keys, allowed, causal, scale, p, lse, factors):
        """The scores of m queries become e^…; p, where it is kept, their normalised form; factors are 1 / Σ."""
        for i in range(m):
            weights = scores[i, : stop_of(first, i, rows, stride, keys, causal)]
            forbid_row(weights, end_of(first + i, keys, causal), allowed[first + i] if allowed.size else NO_ROW)
            top, total = exp_row(weights, scale)
            factors[i] = one / (total if total != 0 else one)
            if p.size:
                keep_row(weights, factors[i], p[first + i])
            else:
                lse[first + i] = top + np.log(total)

    @njit
    def mix_values(first, m, weights, row, v, causal, y):
        """y = weights · v for m queries, each tile with the keys that it may see; `row` is the stride of weights."""
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
        scores, packed = block_for(q, k, rows, stride), panels_for(k, stride)
        factors = np.empty(scores.shape[0], q.dtype)
        for b in range(q.shape[0]):
            for h in range(q.shape[1]):
                mine = q[b, h], k[b, h], v[b, h], allowed[b, h]
                head(*mine, causal, scale, y[b, h], p[b, h], lse[b, h], packed, scores, factors)

    return forward


@njit
def block_for(q, k, rows, stride):
    """Space for the scores of a block of queries. The odd row length spreads a column over all sets of the cache."""
    keys = (k.shape[2] + stride - 1) // stride * stride
    block = max(rows, BLOCK // (keys * q.itemsize) // rows * rows)
    return np.empty((min(block, (q.shape[2] + rows - 1) // rows * rows), keys + stride // 2), q.dtype)


@njit
def panels_for(k, stride):
    """Space for the rows of one head of k, turned into panels of columns."""
    return np.empty((k.shape[2] + stride - 1) // stride * stride * k.shape[3], k.dtype)


def make_backward(unit, real):
    """`backward(q, k, v, allowed, causal, scale, p, lse, dy, dq, dk, dv)`, arrays as in the forward pass."""
    shape, (outer, mix) = make_shape(unit, real), make_products(unit, real)
    pack, rows, stride, size = make_pack(unit, real, shape.cols), shape.rows, 4 * shape.lanes, shape.size

    @njit
    def weigh_again(first, m, scores, keys, allowed, causal, scale, lse):
        for i in range(m):
            weights = scores[i, : stop_of(first, i, rows, stride, keys, causal)]
            forbid_row(weights, end_of(first + i, keys, causal), allowed[first + i] if allowed.size else NO_ROW)
            again_row(weights, scale, lse[first + i])

    @njit
    def differentiate(first, m, dp, weights, keys, causal, scale):
        """dp becomes dS, with zeros behind what a query may look at."""
        for i in range(m):
            row = dp[i, : stop_of(first, i, rows, stride, keys, causal)]
            row[end_of(first + i, keys, causal) :] = 0
            softmax_backward_row(row, weights[i], scale)

    @njit
    def to_queries(first, m, ds, k, causal, dq):
        for i in range(0, m, rows):
            few, row = min(rows, m - i), ds.strides[0]
            end, at = end_of(first + i + few - 1, k.shape[0], causal), address(ds) + i * row
            to = address(dq) + (first + i) * dq.strides[0]
            mix(few, end, k.shape[1], at, row, size, address(k), k.strides[0], to, dq.strides[0], False)

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
        packed, packed_v = panels_for(k, stride), panels_for(v, stride)
        scores, dp = block_for(q, k, rows, stride), block_for(q, k, rows, stride)
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
        self.forward: Any = make_forward(unit, real)
        self.backward: Any = make_backward(unit, real)
        self.forward.compile((*head, mine, kept, rows))
        self.backward.compile((*head, kept, rows, given, mine, mine, mine))
        self.register = unit.bytes // (real.bitwidth // 8)
        for kernel in (self.forward, self.backward):
            kernel.disable_compile()  # otherwise numba compiles again for each mixture of layouts


kernels = functools.cache(Kernels)


@njit
def is_causal(p):
    """True if nothing of P stands above the diagonal. Stops at the first entry that does; P has no negative numbers."""
    for b in range(p.shape[0]):
        for h in range(p.shape[1]):
            for i in range(p.shape[2]):
                above = p.dtype.type(0)
                for j in range(i + 1, p.shape[3]):
                    above += p[b, h, i, j]
                if above != 0:
                    return False
    return True


def attention_forward(q, k, v, mask=None, causal=False, scale=None, bias=None, dropout_p=0.0, rng=None):
    scale = _scale(q, scale)
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
    scale = _scale(q, None)
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
    """Writes y; returns P, or where that would be large (log Σ e^scores per row, causal, mask)."""
    shape, real = q.shape[:-1] + k.shape[-2:-1], q.dtype  # (…, T, S)
    keep = math.prod(shape) * real.itemsize <= KEEP
    p, lse = np.empty(shape if keep else shape[:-2] + (0, 0), real), np.empty(shape[:-1], real)
    given, (room,) = [_whole_registers(x) for x in (q, k, v)], _room_for([y])
    allowed = _allowed(mask, shape)
    kernels(real.name).forward(*given, allowed, causal, real.type(scale), room, _four(p), _rows(lse))
    _bring_back([y], [room])
    return p if keep else (lse, causal, mask)


def _attend_backward(q, k, v, p, scale, dy, *gradients):
    """Writes the gradients of q, k and v."""
    shape, real = q.shape[:-1] + k.shape[-2:-1], q.dtype  # (…, T, S)
    if isinstance(p, tuple):
        (lse, causal, mask), p = p, _four(np.empty(shape[:-2] + (0, 0), real))
    else:
        p, lse, mask = _four(np.ascontiguousarray(p)), np.empty(shape[:-1], real), None
        causal = is_causal(p)
    q, k, v, dy = [_whole_registers(x) for x in (q, k, v, dy)]
    rooms, allowed = _room_for(gradients), _allowed(mask, shape)
    kernels(real.name).backward(q, k, v, allowed, causal, real.type(scale), p, _rows(lse), dy, *rooms)
    _bring_back(gradients, rooms)


def _room_for(arrays):
    """The arrays themselves with four axes, or wider ones where rows are no whole number of registers."""
    widths = [x.shape[-1] + _missing(x) for x in arrays]
    return [_four(x if w == x.shape[-1] else np.empty(x.shape[:-1] + (w,), x.dtype)) for x, w in zip(arrays, widths)]


def _bring_back(arrays, rooms):
    for x, room in zip(arrays, rooms):
        if room.shape[-1] != x.shape[-1]:
            x[...] = room[..., : x.shape[-1]].reshape(x.shape)


def _allowed(mask, shape):
    """The mask as (B, H, T, S), or an array without entries where there is none."""
    return _four(np.empty(shape[:-2] + (0, 0), bool) if mask is None else np.broadcast_to(mask, shape))


def _four(x):
    """x with axes of size 1 in front, (B, H, T, d)."""
    return x.reshape((1,) * (4 - x.ndim) + x.shape) if x.ndim < 4 else x


def _rows(x):
    """x (…, T) as (B, H, T)."""
    return x.reshape((1,) * (3 - x.ndim) + x.shape) if x.ndim < 3 else x


def _missing(x) -> int:
    """How many numbers the rows of x lack to be a whole number of registers."""
    return -x.shape[-1] % kernels(x.dtype.name).register


def _whole_registers(x):
    """x as (B, H, T, d) with contiguous rows of whole registers: x itself, or a copy with zeros behind each row."""
    if _missing(x):
        x = np.concatenate([x, np.zeros(x.shape[:-1] + (_missing(x),), x.dtype)], axis=-1)
    return _four(x if x.strides[-1] == x.itemsize else np.ascontiguousarray(x))
