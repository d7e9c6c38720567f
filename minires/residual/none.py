"""No residual: the control experiment."""

from __future__ import annotations

from minires.residual.connection import Connection, block_diagonal, register


@register("none")
class NoResidual(Connection):
    """x_{l+1} = LN(F(x_l)): every sublayer replaces the stream.

    ∂x_{l+1}/∂x_l = J_LN·J_F. There is no +I: the gradient is a product of all the branches' Jacobians.
    The norm keeps the forward pass in range, so that only the missing skip is tested.
    Initialisation: any; `none_identity` starts near the identity, which is the known route without a residual.
    Source: a control of ours; compare He et al. 2015, arXiv:1512.03385, section 4.1.
    Discrepancy: none known; no public code is meant.
    """

    equation = "x ← LN(F(x))"

    def __init__(self, sites, d, norm, make):
        super().__init__(sites, d, norm, make)
        self.norms = [norm(d, make) for _ in sites]

    def step(self, stream, site, F):
        return self.norms[site.k](F(stream))

    def jacobian(self, stream, site, J_F, f):
        return block_diagonal(self.norms[site.k].jacobian(f)) @ J_F


@register("plain")
class Plain(Connection):
    """x_{l+1} = F(x_l), without a norm: the plain network of the degradation problem.

    ∂x_{l+1}/∂x_l = J_F. There is no +I.
    Initialisation: He, which keeps the forward variance through ReLU.
    Source: the plain networks of He et al. 2015, arXiv:1512.03385, section 3.3.
    Discrepancy: theirs have batch normalisation behind every layer, which is how they keep the forward variance.
    """

    equation = "x ← F(x)"

    def step(self, stream, site, F):
        return F(stream)

    def jacobian(self, stream, site, J_F, f):
        return J_F
