"""LAuReL: a learned weight on the skip, a low-rank correction of it, and one that reads all earlier states."""

from __future__ import annotations

import numpy as np

from minires import ops
from minires.nn.module import Parameter
from minires.residual.connection import Connection, block_diagonal, register


@register("laurel")
class LAuReL(Connection):
    """x_{l+1} = a F(LN(x_l)) + b x_l + (x_l A) B, A: (d, r), B: (r, d); y = LN_f(x_K). The RW and LR variants in one.

    ∂x_{l+1}/∂x_l = b I + (A B)ᵀ + a J_F·J_LN: the +I has a trained factor and a low-rank companion.
    Initialisation: a = b = 1, A random, B = 0: Pre-Norm at first.
    Source: Menghani et al. 2024, arXiv:2411.07501, section 2, variants RW and LR.
    Discrepancy: Gemma 3n in Hugging Face's transformers has neither a nor b. It adds h + RMSNorm((h A) B) of the normed
    input h to x + attention, divides the sum by √2, and leaves the feed-forward sublayer alone.
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


@register("laurel_pa")
class LAuReLPA(Connection):
    """x_{l+1} = F(LN(x_l)) + x_l + Σ_{j<l} γ_lj h_l(x_j), h_l(x) = (x A_l) B_l; A: (d, r), B: (r, d); y = LN_f(x_K).

    The PA variant, "previous activations": the state is (x_0, …, x_l), all earlier states of the stream. h_l is linear,
    so it is applied once, to the sum Σ_j γ_lj x_j, which is one operation.
    ∂x_{l+1}/∂x_l = I + J_F·J_LN: the +I stands alone, and beside it ∂x_{l+1}/∂x_j = γ_lj (A_l B_l)ᵀ for every j < l.
    The state grows, so the Jacobian of a step is rectangular.
    Initialisation: ours, chosen so that it is Pre-Norm at first and still learns: γ_lj = 1/l (the mean of what is
    there), A random, B = 0. γ = B = 0 together would be a saddle, where neither ever gets a gradient.
    Source: Menghani et al. 2024, arXiv:2411.07501, section 2, variant PA, with the low-rank h of the LR variant.
    Discrepancy: none known; Gemma 3n, the public model with LAuReL, has the LR variant only.
    """

    equation = "x ← x + F(LN(x)) + (Σ_j γ_j x_j A)B, x_j all earlier states, y = LN_f(x)"

    def __init__(self, sites, d, norm, make, rank=4):
        super().__init__(sites, d, norm, make)
        self.norms = [norm(d, make) for _ in sites]
        self.final_norm = norm(d, make)
        later = [site.k for site in sites[1:]]  # the first sublayer has no earlier state
        self.gammas = [Parameter(np.full(k, 1 / k, make.dtype), "gate") for k in later]
        self.down = [make.weight(d, rank, "low_rank") for _ in later]
        self.up = [make.zeros(rank, d, kind="weight") for _ in later]

    def open(self, x):
        return (x,)

    def step(self, stream, site, F):
        *earlier, x = stream
        new = x + F(self.norms[site.k](x))
        if earlier:
            k = site.k - 1
            memory = ops.depth_sum(self.gammas[k], *earlier)  # (B, T, d)
            new = new + ops.linear(ops.linear(memory, self.down[k]), self.up[k])
        return (*stream, new)

    def close(self, stream):
        return self.final_norm(stream[-1])

    def read(self, stream):
        return stream[-1]

    def jacobian(self, stream, site, J_F, f):
        *earlier, x = stream
        blocks = [np.eye(x.size) + J_F @ block_diagonal(self.norms[site.k].jacobian(x))]
        if earlier:
            k = site.k - 1
            h = np.kron(np.eye(x.size // self.d), (self.down[k].data @ self.up[k].data).T)
            blocks = [gamma * h for gamma in self.gammas[k].data] + blocks
        return np.vstack([np.eye(len(stream) * x.size), np.hstack(blocks)])
