"""Post-Norm: the original Transformer."""

from __future__ import annotations

import numpy as np

from minires.residual.connection import Connection, block_diagonal, register


@register("post_norm")
class PostNorm(Connection):
    """x_{l+1} = LN(x_l + F(x_l)).

    ∂x_{l+1}/∂x_l = J_LN(x_l + F(x_l))·(I + J_F). The +I is there, but behind J_LN: even the skip path passes
    every norm, and each one divides by the size of the sum.
    Initialisation: Xavier. Needs warm-up when it is deep.
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.1.
    Discrepancy: fairseq's own notes say that the authors' later code (tensor2tensor) puts the norm in front of the
    sublayer, which is Pre-Norm.
    """

    equation = "x ← LN(x + F(x))"

    def __init__(self, sites, d, norm, make):
        super().__init__(sites, d, norm, make)
        self.norms = [norm(d, make) for _ in sites]

    def step(self, stream, site, F):
        x = stream
        return self.norms[site.k](x + F(x))

    def jacobian(self, stream, site, J_F, f):
        J_LN = block_diagonal(self.norms[site.k].jacobian(stream + f))
        return J_LN @ (np.eye(stream.size) + J_F)
