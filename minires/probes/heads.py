"""Where attention heads look, and what each head writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minires.messages import ValueProblem
from minires.nn import MultiHeadAttention
from minires.ops.attention import split_heads
from minires.probes.picture import heat
from minires.probes.running import enter, forward, stack_of


@dataclass(frozen=True)
class HeadPatterns:
    """Mean attention, (attention sublayers, heads): to the previous token, the current, the first, and (on sequences

    with a period) to the one after the last occurrence of the current symbol; None without a period.
    """

    previous: np.ndarray
    current: np.ndarray
    first: np.ndarray
    induction: np.ndarray | None

    def draw(self) -> Any:
        shown, name = (self.previous, "previous token") if self.induction is None else (self.induction, "induction")
        title = f"Attention to the {name}" if self.induction is None else "Attention that continues a repetition"
        return heat(shown, xlabel="head", ylabel="attention sublayer", label="mean attention", title=title)


def attention_maps(model: Any, inputs: Any) -> list[np.ndarray]:
    """A of every attention sublayer, each (B, heads, T, T): row j holds where token j looks.

    Raises ValueProblem for a model without attention.
    """
    mask = enter(model, inputs)[1].mask
    pairs = list(zip(stack_of(model).sublayers, forward(model, inputs).read))
    maps = [head_weights(F, h, mask)[0] for F, h in pairs if isinstance(F, MultiHeadAttention)]
    if not maps:
        raise ValueProblem(
            "attention maps need attention sublayers", f"{type(model).__name__} without", "Use a DecoderLM."
        )
    return maps


def head_weights(F: MultiHeadAttention, h: np.ndarray, mask: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """(A, V): (B, heads, T, T) and (B, heads, T, d_head), in float64, from what the sublayer read."""
    bias = 0.0 if F.qkv_bias is None else F.qkv_bias.data
    q, k, v = split_heads(h.astype(np.float64) @ F.qkv_weight.data + bias, F.heads)  # each (B, H, T, dh)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])  # (B, H, T, T)
    allowed = np.ones(scores.shape, bool) if mask is None else np.broadcast_to(mask, scores.shape)
    if F.causal:
        allowed = allowed & np.tri(scores.shape[-1], dtype=bool)
    scores = np.where(allowed, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    return weights / np.maximum(weights.sum(-1, keepdims=True), 1e-300), v


def head_outputs(F: MultiHeadAttention, h: np.ndarray, mask: Any = None) -> np.ndarray:
    """A_i V_i W_O^i of every head, (heads, B, T, d); with the output bias they add up to the sublayer's output.

    Raises ValueProblem where they do not: with a norm across the heads, or values mixed in from another sublayer.
    """
    if F.head_norm is not None or F.output_norm is not None or F.value_weights is not None:
        raise ValueProblem(
            "what heads write can be told apart if they are only added",
            "attention with a norm behind its heads, or with another sublayer's values",
            "Look at the whole sublayer instead.",
        )
    A, V = head_weights(F, h, mask)
    gains = 1.0 if F.head_gains is None else F.head_gains.data[:, None, None]
    per_head = F.out_weight.data.reshape(F.heads, -1, F.out_weight.shape[1])  # (H, dh, d)
    return np.moveaxis((A @ V * gains) @ per_head, 1, 0)  # (H, B, T, d)


def head_patterns(model: Any, inputs: Any, period: int | None = None) -> HeadPatterns:
    """Four well-known patterns. inputs: token ids (B, T); period: p if every sequence repeats itself after p tokens.

    previous = mean_j A[j, j-1]; induction = mean over j ≥ p of A[j, j-p+1] (Olsson et al. 2022, arXiv:2209.11895).
    Raises ValueProblem if the inputs do not have that period.
    """
    maps = attention_maps(model, inputs)
    if period is not None:
        _check_period(np.asarray(inputs), period)
    return HeadPatterns(
        np.array([_diagonal(A, 1) for A in maps]),
        np.array([_diagonal(A, 0) for A in maps]),
        np.array([A[..., 1:, 0].mean((0, 2)) for A in maps]),
        None if period is None else np.array([_diagonal(A, period - 1, period) for A in maps]),
    )


def _diagonal(A: np.ndarray, back: int, start: int = 0) -> np.ndarray:
    """Mean of A[j, j - back] over samples and j ≥ start: (heads,)."""
    j = np.arange(max(start, back), A.shape[-1])
    return A[:, :, j, j - back].mean((0, 2))


def _check_period(ids: np.ndarray, period: int) -> None:
    if not 1 <= period < ids.shape[-1] or not np.array_equal(ids[:, period:], ids[:, :-period]):
        raise ValueProblem(
            "the induction score is defined on sequences that repeat themselves after `period` tokens",
            f"period={period} and ids of shape {ids.shape} that do not",
            "Make them: np.tile(rng.integers(0, vocab, (batch, period)), 3).",
        )
