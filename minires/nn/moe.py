"""A mixture of experts in the place of the feed-forward sublayer."""

from __future__ import annotations

import numpy as np

from minires import ops
from minires.messages import ValueProblem
from minires.nn.layers import Maker, check_positive
from minires.nn.module import Module
from minires.nn.sublayers import Context
from minires.tensor import Tensor


class SwiGLU(Module):
    """(silu(x W1) * (x W3)) W2; W1, W3: (d, hidden), W2: (hidden, d). Source: Shazeer 2020, arXiv:2002.05202."""

    describes_own = True

    def __init__(self, d: int, hidden: int, make: Maker):
        self.gate_weight, self.in_weight = make.weight(d, hidden, "ffn_in"), make.weight(d, hidden, "ffn_in")
        self.out_weight = make.weight(hidden, d, "ffn_out")

    def forward(self, x: Tensor) -> Tensor:
        return (ops.silu(x @ self.gate_weight) * (x @ self.in_weight)) @ self.out_weight

    def describe(self) -> str:
        return "{} → {}".format(*self.gate_weight.shape)


class MixtureOfExperts(Module):
    """f(h) = Σ_{i in S} p_i E_i(h): each token goes to its top-k experts, p = softmax of their router logits.

    The router: l = h W_g (d, experts), no bias; S: the k largest; the softmax runs over S only. Backward, per token:
    dp_i = ⟨dy, E_i⟩, dl_S = p (dp - Σ p dp), exactly 0 for experts that were not chosen, which also get no
    weight gradient from this token. The choice itself has no gradient (it jumps at ties).
    J_f = Σ_S p_i J_{E_i} + Σ_S E_i (∂p_i/∂h); under Pre-Norm ∂x_{l+1}/∂x_l = I + J_f·J_norm.
    balance: weight of the load-balance loss experts · Σ_i f_i P_i (f: share of the choices, P: mean router
    probability; 1 when all are equal), left in `ctx.memo["balance_loss"]` while training; `DecoderLM.loss` adds it.
    Source: Mixtral, arXiv:2401.04088; the balance loss is that of arXiv:2101.03961.
    """

    def __init__(self, d: int, hidden: int, make: Maker, experts: int = 4, top_k: int = 2, balance: float = 0.0):
        check_positive(d=d, hidden=hidden, experts=experts, top_k=top_k)
        if top_k > experts:
            raise ValueProblem(
                "top_k must be at most the number of experts", f"top_k = {top_k}, {experts} experts", "Often 2 of 8."
            )
        self.top_k, self.balance = top_k, balance
        self.router = make.weight(d, experts, "router")
        self.experts = [SwiGLU(d, hidden, make) for _ in range(experts)]

    def forward(self, h: Tensor, ctx: Context | None = None) -> Tensor:
        x = h.reshape(-1, h.shape[-1])  # (M, d)
        logits = x @ self.router  # (M, experts)
        chosen = np.argsort(-logits.data, axis=-1, kind="stable")[:, : self.top_k]  # (M, k)
        rows = np.arange(len(chosen))[:, None]
        p = ops.softmax(logits[rows, chosen])  # (M, k)
        if self.balance and self.training and ctx is not None:
            ctx.memo["balance_loss"] = ctx.memo.get("balance_loss", 0.0) + self._balance_loss(logits, chosen)
        y = ops.expand_dims(p, -1) * self._outputs(x, chosen)  # (M, k, d)
        return y.sum(axis=1).reshape(h.shape)

    def _outputs(self, x: Tensor, chosen: np.ndarray) -> Tensor:
        """E_i(x_m) for every token m and each of its experts: (M, k, d). Each expert sees its tokens only."""
        order = np.argsort(chosen.ravel(), kind="stable")  # slots sorted by expert
        counts = np.bincount(chosen.ravel(), minlength=len(self.experts))
        pieces = np.split(order // self.top_k, np.cumsum(counts)[:-1])  # the tokens of each expert
        outputs = [expert(x[tokens]) for expert, tokens in zip(self.experts, pieces, strict=True) if len(tokens)]
        return ops.concatenate(outputs)[np.argsort(order)].reshape(len(chosen), self.top_k, x.shape[-1])

    def _balance_loss(self, logits: Tensor, chosen: np.ndarray) -> Tensor:
        share = np.bincount(chosen.ravel(), minlength=len(self.experts)) / chosen.size  # f: (experts,)
        mean = ops.softmax(logits).mean(axis=0)  # P: (experts,)
        return (mean * share.astype(mean.dtype)).sum() * (self.balance * len(self.experts))

    def describe(self) -> str:
        return f"{len(self.experts)} experts, top {self.top_k}"
