"""Highway: a gate decides how much is transformed and how much is carried."""

from __future__ import annotations

import numpy as np

from minires import ops
from minires.nn.module import Parameter
from minires.residual.connection import Connection, block_diagonal, register


@register("highway")
class Highway(Connection):
    """x_{l+1} = t F(x_l) + (1 - t) x_l with the gate t = σ(x_l W_t + b_t), entry by entry.

    ∂x_{l+1}/∂x_l = diag(1 - t) + diag(t) J_F + diag((F - x) t (1 - t)) W_tᵀ. The +I is gated: diag(1 - t).
    Initialisation: b_t = -2, so that at first about 12 % is transformed and 88 % carried.
    Source: Srivastava et al. 2015, arXiv:1505.00387, eq. 3.
    Discrepancy: none known.
    """

    equation = "x ← t F(x) + (1-t) x, t = σ(x W_t + b_t)"

    def __init__(self, sites, d, norm, make, carry_bias=-2.0):
        super().__init__(sites, d, norm, make)
        self.gate_weights = [make.weight(d, d, "gate") for _ in sites]
        self.gate_biases = [Parameter(np.full(d, carry_bias, make.dtype), "gate") for _ in sites]

    def gate(self, x, site):
        return ops.sigmoid(ops.linear(x, self.gate_weights[site.k], self.gate_biases[site.k]))

    def step(self, stream, site, F):
        x = stream
        t = self.gate(x, site)
        return t * F(x) + (1 - t) * x

    def jacobian(self, stream, site, J_F, f):
        x, d = stream, self.d
        t = ops.sigmoid(ops.linear(x, self.gate_weights[site.k].data, self.gate_biases[site.k].data)).data
        slope = ((f - x) * t * (1 - t)).reshape(-1, d)  # (rows, d)
        gate = block_diagonal(slope[:, :, None] * self.gate_weights[site.k].data.T)
        return np.diag((1 - t).ravel()) + t.ravel()[:, None] * J_F + gate
