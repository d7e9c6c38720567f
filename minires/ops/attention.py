"""Scaled dot-product attention, for one head or many, with masks and dropout."""

from __future__ import annotations

import math

import numpy as np

from minires.messages import DtypeError, ShapeError, shown
from minires.ops.broadcast import unbroadcast
from minires.ops.dropout import keep_mask
from minires.ops.softmax import softmax_backward, softmax_forward
from minires.tensor import Tensor, differentiable


def _check_heads(q, k, v):
    if q.ndim < 2 or k.ndim < 2 or v.ndim < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ShapeError(
            "attention needs q (…, T, dh), k (…, S, dh) and v (…, S, dv)",
            f"q {q.shape}, k {k.shape}, v {v.shape}",
            "Keys and values come in pairs (same S); queries and keys are compared (same dh). Were the heads split?",
        )


def _allowed(scores_shape, mask, causal):
    """Where a query may look, as a boolean array that broadcasts to the scores (…, T, S); None means everywhere."""
    allowed = None
    if causal:
        allowed = np.tri(*scores_shape[-2:], dtype=bool)  # (T, S): key j at or before query i
    if mask is None:
        return allowed
    mask = mask.data if isinstance(mask, Tensor) else np.asarray(mask)
    if mask.dtype != bool:
        raise DtypeError(
            "an attention mask is boolean, True where a query may look at a key",
            shown(mask),
            "Write mask = ids != padding, or mask > 0. A bias added to the scores goes in as bias=….",
        )
    try:
        np.broadcast_shapes(mask.shape, scores_shape)
    except ValueError:
        raise ShapeError(
            f"an attention mask must broadcast to the scores (…, T, S) = {scores_shape}",
            f"a mask of shape {mask.shape}",
            "A padding mask (B, S) needs two more axes: mask[:, None, None, :].",
        ) from None
    return mask if allowed is None else allowed & mask


@np.errstate(over="ignore", invalid="ignore")
def attention_forward(q, k, v, mask=None, causal=False, scale=None, bias=None, dropout_p=0.0, rng=None):
    """y = P v with P = softmax(scale · q kᵀ + bias) over the keys.

    q: (…, T, dh), k: (…, S, dh), v: (…, S, dv); leading axes are usually (B, heads). y: (…, T, dv).
    mask: booleans that broadcast to (…, T, S), True where a query may look. causal: key j only for queries i >= j.
    scale: 1/√dh unless given, so that scores of independent unit entries have variance 1. bias: added to the scores.
    A query that may look nowhere gets y = 0. saved = (q, k, v, P, dropout mask or None, scale). The numba backend puts
    (log Σ e^scores per row, causal, mask) in the place of a P that is larger than 4 MB.
    Raises ShapeError or DtypeError for operands or masks that do not fit.
    Source: Vaswani et al. 2017, arXiv:1706.03762, eq. 1.
    """
    _check_heads(q, k, v)
    scale = 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else float(scale)
    scores = (q @ np.swapaxes(k, -1, -2)) * scale  # (…, T, S)
    if bias is not None:
        scores = scores + np.asarray(bias, scores.real.dtype)
    allowed = _allowed(scores.shape, mask, causal)
    if allowed is not None:
        scores = np.where(allowed, scores, scores.dtype.type(-np.inf))
    p, _ = softmax_forward(scores)  # (…, T, S)
    keep = keep_mask(p.shape, dropout_p, rng, p.dtype) if dropout_p else None
    return (p if keep is None else p * keep) @ v, (q, k, v, p, keep, scale)  # (…, T, dv)


def attention_backward(dy, saved):
    """Three products and one softmax, in reverse:

    dv = Pᵀ dy                 (…, S, dv)
    dP = dy vᵀ                 (…, T, S)
    dS = P (dP - Σ_j dP P)     softmax backward; exactly 0 where P = 0, so masked places need no mask here
    dq = scale · dS k          (…, T, dh)
    dk = scale · dSᵀ q         (…, S, dh)
    """
    q, k, v, p, keep, scale = saved
    if isinstance(p, tuple):
        p = _probabilities(q, k, scale, *p)
    weights = p if keep is None else p * keep
    dv = np.swapaxes(weights, -1, -2) @ dy  # (…, S, dv)
    dp = dy @ np.swapaxes(v, -1, -2)  # (…, T, S)
    if keep is not None:
        dp *= keep
    ds = softmax_backward(dp, (p, -1)) * scale  # (…, T, S)
    dq = ds @ k  # (…, T, dh)
    dk = np.swapaxes(ds, -1, -2) @ q  # (…, S, dh)
    return unbroadcast(dq, q.shape), unbroadcast(dk, k.shape), unbroadcast(dv, v.shape)


@np.errstate(over="ignore", invalid="ignore")
def _probabilities(q, k, scale, kept, causal, mask):
    """P from what a kernel kept: P with anything where the mask forbids, or lse = log Σ e^scores of each row.

    P = e^(scores - lse), and a row that looks nowhere, whose lse is -inf, is 0.
    """
    p = kept  # (…, T, S)
    if kept.ndim < q.ndim:
        scores = (q @ np.swapaxes(k, -1, -2)) * scale
        p = np.exp(scores - np.where(np.isneginf(kept), np.inf, kept)[..., None].astype(scores.dtype))
    allowed = _allowed(p.shape, mask, causal)
    return p if allowed is None else np.where(allowed, p, p.dtype.type(0))


def attention_composed(q, k, v, mask=None, causal=False, scale=None, bias=None, dropout_p=0.0, rng=None):
    from minires.ops import dropout, matmul, softmax, swapaxes, where

    scale = 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else float(scale)
    scores = matmul(q, swapaxes(k, -1, -2)) * scale
    if bias is not None:
        scores = scores + np.asarray(bias, scores.dtype)
    allowed = _allowed(scores.shape, mask, causal)
    if allowed is not None:
        scores = where(allowed, scores, np.full((), -np.inf, scores.dtype))
    return matmul(dropout(softmax(scores), p=dropout_p, rng=rng), v)


attention = differentiable(
    "attention",
    attention_forward,
    attention_backward,
    composed=attention_composed,
    parts=("matmul", "swapaxes", "mul", "add", "where", "softmax", "dropout"),
)


# --------------------------------------------------------------------- many heads from one packed projection


def split_heads(packed, heads):
    """(B, T, 3d) → q, k, v, each (B, heads, T, d/heads), as views. The packed axis is [q | k | v]."""
    if packed.ndim != 3:
        raise ShapeError("the packed projection must be (B, T, 3d)", shown(packed), "Add a batch axis: x[None].")
    b, t, three_d = packed.shape
    if three_d % (3 * heads):
        raise ShapeError(
            f"the number of heads ({heads}) must divide the width d",
            f"d = {three_d / 3:g}",
            "Choose heads from the divisors of d: 64 = 4 heads of 16.",
        )
    parts = packed.reshape(b, t, 3, heads, three_d // (3 * heads)).transpose(2, 0, 3, 1, 4)  # (3, B, H, T, dh)
    return parts[0], parts[1], parts[2]


def self_attention_forward(qkv, heads=1, mask=None, causal=False, dropout_p=0.0, rng=None):
    """Multi-head self-attention on one packed projection: split into heads, attend, put the heads side by side.

    qkv: (B, T, 3d), along the last axis [q | k | v], each d = heads · dh. y: (B, T, d).
    mask: booleans that broadcast to (B, heads, T, T). saved as in `attention`, with q, k, v (B, heads, T, dh).
    Raises ShapeError if heads does not divide d.
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2.
    """
    q, k, v = split_heads(qkv, heads)
    y, saved = attention_forward(q, k, v, mask=mask, causal=causal, dropout_p=dropout_p, rng=rng)  # (B, H, T, dh)
    b, _, t, _ = y.shape
    return y.swapaxes(1, 2).reshape(b, t, qkv.shape[-1] // 3), saved  # (B, T, d)


def self_attention_backward(dy, saved):
    """Heads move back next to each other: dy (B, T, d) → (B, H, T, dh), attention backward, then [dq | dk | dv]."""
    b, heads, t, dh = saved[0].shape
    dy = dy.reshape(b, t, heads, dh).swapaxes(1, 2)  # (B, H, T, dh)
    dqkv = np.empty((b, t, 3, heads, dh), dy.dtype)
    for i, part in enumerate(attention_backward(dy, saved)):
        dqkv[:, :, i] = part.swapaxes(1, 2)  # (B, T, H, dh)
    return dqkv.reshape(b, t, 3 * heads * dh)  # (B, T, 3d)


def self_attention_composed(qkv, heads=1, mask=None, causal=False, dropout_p=0.0, rng=None):
    b, t, three_d = qkv.shape
    parts = qkv.reshape(b, t, 3, heads, three_d // (3 * heads)).transpose(2, 0, 3, 1, 4)  # (3, B, H, T, dh)
    y = attention(parts[0], parts[1], parts[2], mask=mask, causal=causal, dropout_p=dropout_p, rng=rng)
    return y.swapaxes(1, 2).reshape(b, t, three_d // 3)  # (B, T, d)


self_attention = differentiable(
    "self_attention",
    self_attention_forward,
    self_attention_backward,
    composed=self_attention_composed,
    parts=("attention", "reshape", "transpose", "getitem", "swapaxes"),
)
