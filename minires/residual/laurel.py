"""LAuReL: a learned weight on the skip, and a low-rank correction of it."""

from __future__ import annotations

import numpy as np

from minires import ops
from minires.nn.module import Parameter
from minires.residual.connection import Connection, block_diagonal, register


@register("laurel")
class LAuReL(Connection):
    """x_{l+1} = a F(LN(x_l)) + b x_l + (x_l A) B, A: (d, r), B: (r, d); y = LN_f(x_K). The RW and LR variants in one.

    ∂x_{l+1}/∂x_l = b I + (A B)ᵀ + a J_F·J_LN. Initialisation: a = b = 1, A random, B = 0: Pre-Norm at first.
    Source: Menghani et al. 2024, arXiv:2411.07501.
    """

    equation = "x ← a F(LN(x)) + b x + (xA)B, y = LN_f(x)"

    def __init__(self, sites, d, norm, make, rank=4):
        super().__init__(sites, d, norm, make)
        self.norms = [norm(d, make) for _ in sites]
        self.final_norm = norm(d, make)
        one = np.ones((), make.dtype)
        self.branch_weights = [Parameter(one.copy(), "gate") for _ in sites]
        self.skip_weights = [Parameter(one.copy(), "gate") for _ in sites]
        self.down = [make.weight(d, rank, "low_rank") for _ in sites]
        self.up = [make.zeros(rank, d, kind="weight") for _ in sites]

    def step(self, stream, site, F):
        x, k = stream, site.k
        low_rank = ops.linear(ops.linear(x, self.down[k]), self.up[k])
        return self.branch_weights[k] * F(self.norms[k](x)) + self.skip_weights[k] * x + low_rank

    def close(self, stream):
        return self.final_norm(stream)

    def jacobian(self, stream, site, J_F, f):
        k, rows = site.k, stream.size // self.d
        J_LN = block_diagonal(self.norms[k].jacobian(stream))
        low_rank = np.kron(np.eye(rows), (self.down[k].data @ self.up[k].data).T)
        return (
            float(self.skip_weights[k].data) * np.eye(stream.size)
            + low_rank
            + float(self.branch_weights[k].data) * J_F @ J_LN
        )
