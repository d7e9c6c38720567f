"""The plain residual connection."""

from __future__ import annotations

import numpy as np

from minires.residual.connection import Connection, register


@register("residual")
class Residual(Connection):
    """x_{l+1} = x_l + F(x_l), no norm at all.

    ∂x_{l+1}/∂x_l = I + J_F. The +I is the derivative of the first x.
    Initialisation: without a norm the variance grows with every sublayer (doubling where a branch keeps the size of
    its input), so the branches must start small.
    Source: He et al. 2015, arXiv:1512.03385, eq. 1.
    Discrepancy: theirs has batch normalisation inside F and a ReLU behind the sum; here the stream passes nothing.
    """

    equation = "x ← x + F(x)"

    def step(self, stream, site, F):
        x = stream
        return x + F(x)

    def jacobian(self, stream, site, J_F, f):
        return np.eye(stream.size) + J_F
