"""Measurements of code and formulas as one article prints them: a PyTorch block, and a mixture of experts."""

from __future__ import annotations

from typing import Any

import numpy as np

from minires import ops
from minires.claims.flow import tokens
from minires.claims.ledger import Numbers, measurement
from minires.claims.streams import relative
from minires.models import DecoderLM, Encoder
from minires.nn import Context, Extras
from minires.probes.gradient import record
from minires.tensor import Tensor


@measurement()
def torch_block(d: int = 32, seed: int = 0) -> Numbers:
    """The printed TransformerBlock, whose attention runs along the first axis of x, as PyTorch's does by default.

    code: its equations against our Pre-Norm block with the same weights and no mask, dropout 0. samples: how much the
    first sample of a batch changes, relative to what the second is changed by, if x is (batch, time, d); samples_right
    if it is (time, batch, d). future: how much the first token changes with the last one.
    """
    model = Encoder(
        32, d, 4, 1, 16, connection="pre_norm", init="xavier", activation="relu", rng=seed, dtype=np.float64
    )
    A, M = model.stack.sublayers
    x, trace = np.random.default_rng(seed).standard_normal((4, 8, d)), []
    model.stack(Tensor(x), Context(trace=trace))
    return {
        "code": relative(_along_first(A, M, x.swapaxes(0, 1)).swapaxes(0, 1), trace[-1].data),
        "samples": _reach(A, M, x, at=np.s_[1], seen=np.s_[0], seed=seed),
        "samples_right": _reach(A, M, x, at=np.s_[:, 1], seen=np.s_[:, 0], seed=seed),
        "future": _reach(A, M, x, at=np.s_[-1], seen=np.s_[0], seed=seed),
    }


def _along_first(A: Any, M: Any, x: np.ndarray) -> np.ndarray:
    """x + A(LN x), then x + M(LN x), attention along axis 0: shape kept."""
    h = Tensor(x)
    h = h + Tensor(A(Tensor(ops.layernorm(h).data.swapaxes(0, 1).copy())).data.swapaxes(0, 1))
    return (h + M(ops.layernorm(h))).data


def _reach(A: Any, M: Any, x: np.ndarray, at: Any, seen: Any, seed: int) -> float:
    """‖change of the output at `seen`‖ / ‖change of the input at `at`‖ for a random change."""
    other = x.copy()
    other[at] += np.random.default_rng([seed, 1]).standard_normal(x[at].shape)
    moved = _along_first(A, M, other)[seen] - _along_first(A, M, x)[seen]
    return float(np.linalg.norm(moved) / np.linalg.norm(other[at] - x[at]))


@measurement()
def mixture(experts: int = 4, seed: int = 0) -> Numbers:
    """One step of a Pre-Norm model with a mixture of experts, top 2, against x + Σ expert_i(x) · gate_i.

    exact: experts read LN(x), gates are a softmax over the two chosen experts. unnormed: the same with experts that
    read x, as printed. all: every expert, gates a softmax over all of them. Relative differences of Σ.
    """
    extras = Extras(experts=experts, top_k=2)
    model = DecoderLM(32, 32, 4, 1, 16, connection="pre_norm", extras=extras, init="xavier", rng=seed, dtype=np.float64)
    states, _ = record(model, tokens(32, 4, 16, seed)[0])
    layer: Any = model.stack.sublayers[1]
    x = Tensor(states[1])
    normed = ops.layernorm(x)
    found = {
        "exact": _gated(layer, normed, 2), "unnormed": _gated(layer, x, 2), "all": _gated(layer, normed, experts)
    }  # fmt: skip
    added = states[2] - states[1]
    return {name: relative(value, added) for name, value in found.items()} | {"experts": experts}


def _gated(layer: Any, h: Tensor, chosen: int) -> np.ndarray:
    """Σ_i gate_i E_i(h) with a softmax over the `chosen` largest router logits: (B, T, d)."""
    logits = (h @ layer.router).data  # (B, T, experts)
    kept = logits >= np.sort(logits, axis=-1)[..., [-chosen]]
    gates = ops.softmax(Tensor(np.where(kept, logits, -np.inf))).data
    return np.sum([gates[..., [i]] * E(h).data for i, E in enumerate(layer.experts)], axis=0)
