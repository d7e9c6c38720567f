"""ResiDual: a Post-Norm stream and a plain sum of all branches beside it."""

from __future__ import annotations

import numpy as np

from minires.residual.connection import Connection, block_diagonal, register


@register("residual_dual")
class ResiDual(Connection):
    """u = F(x_l), x_{l+1} = LN(x_l + u), d_{l+1} = d_l + u; y = x_K + LN_f(d_K), with x_0 = d_0 = embedding.

    ∂(x', d')/∂(x, d) = [[J_LN(I + J_F), 0], [J_F, I]] on the carried state (x, d): the +I of d stands alone.
    Backward: the gradient of d is the same at every depth, and each branch hears it as well as its own norm's.
    Initialisation: Xavier.
    Source: Xie et al. 2023, arXiv:2304.14802, eq. 7-8.
    Discrepancy: microsoft/ResiDual can scale d at the start and x at the end (`res_input_norm_scale` and `alpha`, 1 by
    default) and has eps = 1e-7 in LN_f; the paper's main equation, followed here, has no scales.
    """

    equation = "u = F(x), x ← LN(x + u), d ← d + u, y = x + LN_f(d)"

    def __init__(self, sites, d, norm, make):
        super().__init__(sites, d, norm, make)
        self.norms = [norm(d, make) for _ in sites]
        self.final_norm = norm(d, make)

    def open(self, x):
        return x, x

    def step(self, stream, site, F):
        x, dual = stream
        u = F(x)
        return self.norms[site.k](x + u), dual + u

    def close(self, stream):
        x, dual = stream
        return x + self.final_norm(dual)

    def read(self, stream):
        return stream[0]

    def jacobian(self, stream, site, J_F, f):
        x, dual = stream
        eye = np.eye(x.size)
        J_LN = block_diagonal(self.norms[site.k].jacobian(x + f))
        return np.block([[J_LN @ (eye + J_F), np.zeros((x.size, dual.size))], [J_F, eye]])
