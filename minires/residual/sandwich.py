"""Sandwich-Norm and Peri-LN: a norm before the sublayer and one after it."""

from __future__ import annotations

import numpy as np

from minires.residual.connection import Connection, block_diagonal, register


@register("sandwich")
class Sandwich(Connection):
    """x_{l+1} = x_l + LN_2(F(LN_1(x_l))); y = LN_f(x_K).

    ∂x_{l+1}/∂x_l = I + J_LN2·J_F·J_LN1: the +I stands alone, and J_LN2 takes the branch's own scale away, so
    that every sublayer adds a variance of about 1: multiplying F's output projection changes nothing (up to eps).
    Initialisation: any scale of the branch, for the same reason; both norms start with gain 1.
    Source: CogView, arXiv:2105.13290, section 2.4.
    Discrepancy: none known.
    """

    equation = "x ← x + LN(F(LN(x))), y = LN_f(x)"

    def __init__(self, sites, d, norm, make):
        super().__init__(sites, d, norm, make)
        self.norms = [norm(d, make) for _ in sites]
        self.out_norms = [norm(d, make) for _ in sites]
        self.final_norm = norm(d, make)

    def step(self, stream, site, F):
        x = stream
        return x + self.out_norms[site.k](F(self.norms[site.k](x)))

    def close(self, stream):
        return self.final_norm(stream)

    def jacobian(self, stream, site, J_F, f):
        J_1 = block_diagonal(self.norms[site.k].jacobian(stream))
        J_2 = block_diagonal(self.out_norms[site.k].jacobian(f))
        return np.eye(stream.size) + J_2 @ J_F @ J_1


@register("peri_ln")
class PeriLN(Sandwich):
    """Sandwich-Norm, and the embedding is normalised as well: x_0 = LN_e(embedding).

    ∂x_{l+1}/∂x_l = I + J_LN2·J_F·J_LN1 as in Sandwich-Norm, with the same +I.
    Initialisation: all gains 1.
    Source: Peri-LN, arXiv:2502.02732.
    Discrepancy: models that are counted among its users differ: Gemma 2 is built like it, OLMo 2 keeps only the norm
    after F.
    """

    equation = "x_0 = LN(e), x ← x + LN(F(LN(x))), y = LN_f(x)"

    def __init__(self, sites, d, norm, make):
        super().__init__(sites, d, norm, make)
        self.embedding_norm = norm(d, make)

    def open(self, x):
        return self.embedding_norm(x)
