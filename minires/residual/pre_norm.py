"""Pre-Norm: GPT-2 and nearly everything after it."""

from __future__ import annotations

import numpy as np

from minires.residual.connection import Connection, block_diagonal, register


@register("pre_norm")
class PreNorm(Connection):
    """x_{l+1} = x_l + F(LN(x_l)); after the last sublayer y = LN_f(x_K).

    ∂x_{l+1}/∂x_l = I + J_F·J_LN(x_l). The +I stands alone: the skip path passes no norm.
    Initialisation: Xavier; the stream grows (its variance about linearly in l), so it needs the final norm, and
    ‖J_F·J_LN‖ falls like 1/√l: later sublayers say less and less.
    Source: Xiong et al. 2020, arXiv:2002.04745, section 3; Radford et al. 2019 (GPT-2), section 2.3.
    Discrepancy: none known in the rule; for GPT-2's initialisation see `pre_norm_gpt2`.
    """

    equation = "x ← x + F(LN(x)), y = LN_f(x)"

    def __init__(self, sites, d, norm, make):
        super().__init__(sites, d, norm, make)
        self.norms = [norm(d, make) for _ in sites]
        self.final_norm = norm(d, make)

    def step(self, stream, site, F):
        x = stream
        return x + F(self.norms[site.k](x))

    def close(self, stream):
        return self.final_norm(stream)

    def jacobian(self, stream, site, J_F, f):
        J_LN = block_diagonal(self.norms[site.k].jacobian(stream))
        return np.eye(stream.size) + J_F @ J_LN
