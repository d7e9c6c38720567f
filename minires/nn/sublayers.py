"""The two sublayers of a Transformer block: multi-head self-attention and the feed-forward network.

A sublayer is a function F(h, ctx) of what it reads. It knows nothing about residuals or about the norm in
front of it: how its output joins the stream is the connection's business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minires import ops
from minires.messages import UnknownName, ValueProblem
from minires.nn.layers import Dropout, LayerNorm, Maker, check_positive
from minires.nn.module import Module, Parameter
from minires.ops.activations import ACTIVATIONS
from minires.tensor import Tensor


@dataclass
class Context:
    """What one forward pass carries besides the stream.

    mask: booleans that broadcast to (B, heads, T, T), True where a query may look. rng: for dropout, instead of
    the model's own generator. wrap(site, F): replaces a sublayer for this pass (instruments use it). trace:
    a list that receives the stream's states x_0 … x_K. memo: a place for what sublayers tell each other.
    """

    mask: np.ndarray | None = None
    rng: np.random.Generator | None = None
    wrap: Callable[[Any, Callable], Callable] | None = None
    trace: list[Tensor] | None = None
    memo: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Extras:
    """Optional pieces inside the sublayers, which some recipes need; all off by default.

    head_scale: a gain per head before attention's output projection (fairseq's NormFormer has it behind). head_norm: a
    LayerNorm at the same place. attention_norm: a LayerNorm after that projection. inner_norm: a LayerNorm between the
    FFN's activation and its second projection. value_residual: later attention sublayers mix in the first one's values.
    experts, top_k, balance: a mixture of experts as the FFN.
    """

    head_scale: bool = False
    head_norm: bool = False
    attention_norm: bool = False
    inner_norm: bool = False
    value_residual: bool = False
    experts: int = 0
    top_k: int = 2
    balance: float = 0.0


NO_EXTRAS = Extras()


class MultiHeadAttention(Module):
    """Self-attention with several heads: one packed projection to q, k, v, attention, one projection out.

    qkv_weight: (d, 3d), columns [q | k | v]; out_weight: (d, d), the only one that writes to the stream.
    first: with `extras.value_residual`, the sublayer whose values the later ones read.
    Raises ValueProblem if heads does not divide d.
    """

    describes_own = True

    def __init__(
        self, d: int, heads: int, make: Maker, causal: bool = True, dropout: float = 0.0, bias: bool = True,
        extras: Extras = NO_EXTRAS, first: bool = True,
    ):  # fmt: skip
        check_positive(d=d, heads=heads)
        if d % heads:
            divisors = [h for h in range(1, d + 1) if d % h == 0]
            raise ValueProblem("heads must divide d", f"d = {d} and {heads} heads", f"Choose one of {divisors}.")
        self.heads, self.causal = heads, causal
        parts = [make.weight(d, d, role).data for role in ("query", "key", "value")]
        self.qkv_weight = Parameter(np.concatenate(parts, axis=1))  # (d, 3d)
        self.qkv_bias = make.zeros(3 * d) if bias else None
        self.out_weight = make.weight(d, d, "attn_out")
        self.out_bias = make.zeros(d) if bias else None
        self.dropout = Dropout(dropout, make.rng)
        self.head_gains = make.ones(heads, kind="gate") if extras.head_scale else None
        self.head_norm = LayerNorm(d, make) if extras.head_norm else None
        self.output_norm = LayerNorm(d, make) if extras.attention_norm else None
        self.lends_value = extras.value_residual and first
        half = np.full(2, 0.5, make.dtype)  # λ of the first sublayer's values and of this one's
        self.value_weights = Parameter(half, "gate") if extras.value_residual and not first else None

    def forward(self, h: Tensor, ctx: Context | None = None) -> Tensor:
        ctx = ctx or Context()
        qkv = ops.linear(h, self.qkv_weight, self.qkv_bias)  # (B, T, 3d)
        qkv = self._with_first_value(qkv, ctx)
        p = self.dropout.p if self.training else 0.0
        rng = ctx.rng or self.dropout.rng
        mixed = ops.self_attention(
            qkv, heads=self.heads, mask=ctx.mask, causal=self.causal, dropout_p=p, rng=rng
        )  # (B, T, d)
        mixed = self._before_projection(mixed)
        y = ops.linear(mixed, self.out_weight, self.out_bias)
        return self.dropout(y if self.output_norm is None else self.output_norm(y), ctx.rng)

    def _with_first_value(self, qkv: Tensor, ctx: Context) -> Tensor:
        """V ← λ_1 V_first + λ_2 V from the second attention sublayer on, λ = ½ at first.

        Backward: dV_first += λ_1 dV, dV = λ_2 dV, dλ_1 = ⟨V_first, dV⟩. Source: arXiv:2410.17897. (The authors'
        released code keeps both at ½; the gradient through V_first is not cut there, nor here.)
        """
        d = self.out_weight.shape[0]
        if self.lends_value:
            ctx.memo["first_value"] = qkv[..., 2 * d :]
        if self.value_weights is None:
            return qkv
        value = qkv[..., 2 * d :]
        mixed = self.value_weights[0] * ctx.memo["first_value"] + self.value_weights[1] * value
        return ops.concatenate([qkv[..., : 2 * d], mixed], axis=-1)

    def _before_projection(self, mixed: Tensor) -> Tensor:
        """The optional head gains and norm between the heads and the output projection: (B, T, d) → (B, T, d)."""
        if self.head_gains is not None:
            split = mixed.reshape(*mixed.shape[:-1], self.heads, -1)  # (B, T, heads, dh)
            mixed = (split * ops.expand_dims(self.head_gains, -1)).reshape(mixed.shape)
        return mixed if self.head_norm is None else self.head_norm(mixed)

    def describe(self) -> str:
        d = self.out_weight.shape[0]
        return f"d = {d}, {self.heads} heads of {d // self.heads}{', causal' if self.causal else ''}"


class FeedForward(Module):
    """act(h W1 + b1) W2 + b2 at every position; W1: (d, hidden), W2: (hidden, d), which writes to the stream."""

    describes_own = True

    def __init__(
        self,
        d: int,
        hidden: int,
        make: Maker,
        activation: str = "gelu_tanh",
        dropout: float = 0.0,
        extras: Extras = NO_EXTRAS,
    ):
        check_positive(d=d, hidden=hidden)
        if activation not in ACTIVATIONS:
            raise UnknownName("activation", activation, ACTIVATIONS)
        self.activation = activation
        self.in_weight, self.in_bias = make.weight(d, hidden, "ffn_in"), make.zeros(hidden)
        self.out_weight, self.out_bias = make.weight(hidden, d, "ffn_out"), make.zeros(d)
        self.dropout = Dropout(dropout, make.rng)
        self.inner_norm = LayerNorm(hidden, make) if extras.inner_norm else None

    def forward(self, h: Tensor, ctx: Context | None = None) -> Tensor:
        if self.inner_norm is None:
            f = ops.ffn(h, self.in_weight, self.in_bias, self.out_weight, self.out_bias, activation=self.activation)
        else:
            active = ACTIVATIONS[self.activation](ops.linear(h, self.in_weight, self.in_bias))  # (B, T, hidden)
            f = ops.linear(self.inner_norm(active), self.out_weight, self.out_bias)
        return self.dropout(f, ctx.rng if ctx else None)

    def describe(self) -> str:
        return "{} → {} → {}, {}".format(*self.in_weight.shape, self.out_weight.shape[1], self.activation)
