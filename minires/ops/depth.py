"""Sums over depth: one operation that reads all earlier outputs at once, instead of a graph node per source."""

from __future__ import annotations

import numpy as np

from minires.messages import ShapeError
from minires.ops.softmax import softmax_backward, softmax_forward
from minires.tensor import differentiable


def _check_sources(count, sources):
    if not sources or any(s.shape != sources[0].shape for s in sources):
        raise ShapeError(
            "the sources must be at least one array, all of the same shape",
            f"{[s.shape for s in sources]}",
            "Every sublayer output and the embedding have the stream's shape (B, T, d).",
        )
    if count is not None and count != len(sources):
        raise ShapeError(
            "there must be one weight per source", f"{count} weights, {len(sources)} sources", "Which site is this?"
        )


def depth_sum_forward(weights, *sources):
    """y = Σ_j w_j v_j. weights: (J,); sources: J arrays of one shape. saved = (weights, sources).

    Source: DenseFormer's depth-weighted average, arXiv:2402.02622.
    """
    _check_sources(len(weights), sources)
    y = weights[0] * sources[0]
    for w, v in zip(weights[1:], sources[1:], strict=True):
        y = y + w * v
    return y, (weights, sources)


def depth_sum_backward(dy, saved):
    """dw_j = ⟨v_j, dy⟩, dv_j = w_j dy."""
    weights, sources = saved
    dw = np.array([np.vdot(v, dy) for v in sources], dy.dtype)
    return dw, *[w * dy for w in weights]


def depth_sum_composed(weights, *sources):
    y = weights[0] * sources[0]
    for j, v in enumerate(sources[1:], start=1):
        y = y + weights[j] * v
    return y


depth_sum = differentiable(
    "depth_sum", depth_sum_forward, depth_sum_backward, composed=depth_sum_composed,
    parts=("getitem", "mul", "residual_add"),
)  # fmt: skip


def depth_attention_forward(query, gamma, *sources, eps=1e-5):
    """h = Σ_j a_j v_j with a = softmax_j(l), l_j = w · RMSNorm(v_j), for every position alone: attention over depth.

    query w, gamma (the norm's gain): (d,). sources v_j: J arrays (…, d). a, l and r = (mean v² + eps)^-½: (J, …).
    The keys are never stored: with u = γ w, l_j = r_j (v_j · u). saved = (query, gamma, a, l, r, sources).
    Source: Attention Residuals, arXiv:2603.15031.
    """
    _check_sources(None, sources)
    V = np.stack(sources)  # (J, …, d), for this call only
    r = 1 / np.sqrt((V * V).sum(axis=-1) / max(gamma.size, 1) + eps)  # (J, …)
    logits = r * (V @ (gamma * query))  # (J, …)
    a, _ = softmax_forward(logits, axis=0)  # (J, …)
    h = np.einsum("j...,j...d->...d", a, V)  # (…, d)
    return h, (query, gamma, a, logits, r, sources)


def depth_attention_backward(dy, saved):
    """da_j = ⟨v_j, dy⟩, dl = softmax backward of da; with x̂_j = r_j v_j, the normed source, and u = γ w:

    dw = γ Σ_j dl_j x̂_j,  dγ = w Σ_j dl_j x̂_j                      (sums over j and all positions)
    dv_j = a_j dy + dl_j r_j (u - x̂_j l_j / d)                      the second part is RMSNorm backward of dl_j u
    """
    query, gamma, a, logits, r, sources = saved
    V, d = np.stack(sources), max(gamma.size, 1)  # (J, …, d)
    dl = softmax_backward((V * dy).sum(axis=-1), (a, 0))  # (J, …)
    push, pull = dl * r, dl * r * r * logits / d  # (J, …)
    dV = a[..., None] * dy + push[..., None] * (gamma * query) - pull[..., None] * V  # (J, …, d)
    total = (push[..., None] * V).sum(axis=tuple(range(V.ndim - 1)))  # (d,)
    return gamma * total, query * total, *dV


def depth_attention_composed(query, gamma, *sources, eps=1e-5):
    from minires.ops import rmsnorm, softmax, stack

    logits = stack([(rmsnorm(v, gamma, eps=eps) * query).sum(axis=-1) for v in sources], axis=-1)  # (…, J)
    a = softmax(logits)
    h = a[..., 0:1] * sources[0]
    for j, v in enumerate(sources[1:], start=1):
        h = h + a[..., j : j + 1] * v
    return h


depth_attention = differentiable(
    "depth_attention", depth_attention_forward, depth_attention_backward, composed=depth_attention_composed,
    parts=("softmax", "rmsnorm", "mul", "sum", "stack", "getitem", "residual_add"),
)  # fmt: skip
