"""Admin: Post-Norm whose skip weights are set by a profiling pass."""

from __future__ import annotations

import numpy as np

from minires.residual.connection import Connection, block_diagonal, register
from minires.tensor import Tensor, no_grad


@register("admin")
class Admin(Connection):
    """x_{l+1} = LN(ω_l x_l + F(x_l)) with a trained vector ω_l of d entries.

    ∂x_{l+1}/∂x_l = J_LN·(diag(ω_l) + J_F): the +I becomes diag(ω).
    Initialisation: `profile` runs one batch and sets ω_1 = 1, ω_l = √(Var x_0 + Σ_{j<l} Var F_j), so that every branch
    starts with the weight it would have in Pre-Norm.
    Source: Liu et al. 2020, arXiv:2004.08249, section 4.2.
    Discrepancy: the paper sums the branches only. LiyuanLucasLiu/Transformer-Clinic also counts the input, and sets
    each ω while the pass is under way, so that later branches are measured behind it; both are followed here.
    microsoft/admin-torch does not profile: it gives all K sublayers ω = √((K+1)/ln(K+1) - 1), by default not trained.
    """

    equation = "x ← LN(ω x + F(x)), ω from a profiling pass"

    def __init__(self, sites, d, norm, make):
        super().__init__(sites, d, norm, make)
        self.norms = [norm(d, make) for _ in sites]
        self.omegas = [make.ones(d, kind="gate") for _ in sites]
        self.profiled: list[float] | None = None  # while profiling: the variances found so far

    def step(self, stream, site, F):
        x = stream
        if self.profiled is not None:
            return self._profile_site(self.profiled, x, site, F)
        return self.norms[site.k](self.omegas[site.k] * x + F(x))

    def _profile_site(self, variances: list[float], x: Tensor, site, F) -> Tensor:
        if not variances:
            variances.append(float(x.data.var()))
        omega = self.omegas[site.k]
        omega.data[...] = 1.0 if site.k == 0 else np.sqrt(sum(variances))
        omega.changed()
        f = F(x)
        variances.append(float(f.data.var()))
        return self.norms[site.k](omega * x + f)

    def profile(self, run) -> list[float]:
        """Set every ω from one forward pass `run()`; returns [Var x_0, Var F_1, …, Var F_K] as measured."""
        variances = self.profiled = []
        try:
            with no_grad():
                run()
            return variances
        finally:
            self.profiled = None

    def jacobian(self, stream, site, J_F, f):
        omega = self.omegas[site.k].data
        J_LN = block_diagonal(self.norms[site.k].jacobian(omega * stream + f))
        return J_LN @ (np.diag(np.broadcast_to(omega, stream.shape).ravel()) + J_F)
