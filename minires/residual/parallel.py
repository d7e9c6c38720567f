"""The parallel block: attention and feed-forward read the same normed stream and are added together."""

from __future__ import annotations

import numpy as np

from minires.residual.connection import Connection, block_diagonal, register


@register("parallel")
class Parallel(Connection):
    """x_{l+1} = x_l + A(LN(x_l)) + M(LN(x_l)), one norm for both; y = LN_f(x_K).

    ∂x_{l+1}/∂x_l = I + (J_A + J_M)·J_LN: one +I per block, half as many factors as in sequence, and without the
    cross term J_M·J_LN·J_A of the sequential block.
    Initialisation: as in Pre-Norm.
    Source: GPT-J, and PaLM, arXiv:2204.02311, section 2.
    Discrepancy: GPT-NeoX-20B has a norm for each sublayer, by an oversight that its paper reports.
    """

    arity = 2
    equation = "x ← x + A(LN(x)) + M(LN(x)), y = LN_f(x)"

    def __init__(self, sites, d, norm, make):
        super().__init__(sites, d, norm, make)
        self.norms = [norm(d, make) for _ in range(sites[0].N)]
        self.final_norm = norm(d, make)

    def step(self, stream, site, A, M):
        x = stream
        h = self.norms[site.block](x)
        return x + A(h) + M(h)

    def close(self, stream):
        return self.final_norm(stream)

    def jacobian(self, stream, site, J_F, f):
        J_LN = block_diagonal(self.norms[site.block].jacobian(stream))
        return np.eye(stream.size) + (J_F[0] + J_F[1]) @ J_LN
