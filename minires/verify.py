"""The hand-written backward passes, judged one after the other by the numerical referee of `gradcheck.py`.

`minires tour` and `minires doctor` run this: a user sees on their own machine that the gradients are right.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from minires import ops
from minires.gradcheck import Checked, gradcheck
from minires.models.transformer import transformer_stack
from minires.nn import Maker


@dataclass(frozen=True)
class Verified:
    """One verified operation: how many gradient entries were compared, how, and the largest relative error."""

    operation: str
    entries: int
    method: str
    error: float
    seconds: float


def verify(seed: int = 0) -> list[Verified]:
    """Check every entry below against numerical derivatives in float64, with a random upstream gradient.

    Raises GradientError, with the worst entries, for a backward pass that is wrong.
    """
    return [_verified(name, *make(np.random.default_rng(seed))) for name, make in CHECKS.items()]


def _verified(name: str, function: Callable, *inputs: np.ndarray) -> Verified:
    began = time.perf_counter()
    checked: Checked = gradcheck(function, *inputs)
    entries = sum(x.size for x in inputs)
    methods = " and ".join(sorted(set(checked.methods.values())))
    return Verified(name, entries, methods, checked.worst, time.perf_counter() - began)


def _residual_add(rng):
    return lambda x, f: x + f, normal(rng, 2, 3, 4), normal(rng, 2, 3, 4)


def _layernorm(rng):
    return ops.layernorm, normal(rng, 2, 3, 8), normal(rng, 8), normal(rng, 8)


def _rmsnorm(rng):
    return ops.rmsnorm, normal(rng, 2, 3, 8), normal(rng, 8)


def _attention(rng):
    return lambda qkv: ops.self_attention(qkv, heads=2, causal=True), normal(rng, 2, 5, 24)


def _ffn(rng):
    return ops.ffn, normal(rng, 3, 4), normal(rng, 4, 8), normal(rng, 8), normal(rng, 8, 4), normal(rng, 4)


def _cross_entropy(rng):
    targets = rng.integers(0, 7, (2, 4))
    return lambda logits: ops.cross_entropy(logits, targets), normal(rng, 2, 4, 7)


def _block(connection: str):
    """A whole Transformer block, attention and feed-forward, under one connection."""

    def make(rng):
        maker = Maker.of(rng, "xavier", np.float64, 2)
        stack = transformer_stack(maker, d=8, heads=2, blocks=1, causal=True, connection=connection)
        return stack, normal(rng, 2, 4, 8)

    return make


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape)


CHECKS = {
    "residual add": _residual_add,
    "LayerNorm": _layernorm,
    "RMSNorm": _rmsnorm,
    "causal self-attention": _attention,
    "feed-forward": _ffn,
    "cross-entropy": _cross_entropy,
    "a Post-Norm block": _block("post_norm"),
    "a Pre-Norm block": _block("pre_norm"),
}
