"""Fixup: a plain residual stream without norms, with scalars where a norm would have had vectors."""

from __future__ import annotations

import numpy as np

from minires.nn.module import Parameter
from minires.residual.connection import Connection, register


@register("fixup")
class Fixup(Connection):
    """x_{l+1} = x_l + s_l F(x_l + a_l) + b_l, three trained numbers per sublayer: biases a = b = 0, multiplier s = 1.

    ∂x_{l+1}/∂x_l = I + s_l J_F(x_l + a_l): exactly I at first, because the last weight of every branch starts at 0.
    Initialisation: the last layer of each of the K branches and the classifier 0, the other m - 1 layers of a branch
    He × K^(-1/(2m-2)); the `fixup` recipe does it. Mind the minus sign: it is often lost when this is quoted.
    Source: Zhang et al. 2019, arXiv:1901.09321, section 3. The paper also puts a scalar bias before the inner layers
    and activations; here the sublayers' own bias vectors, 0 at first too, contain those. Its promise of a first update
    that does not grow with depth holds for the weights; biases add up over depth.
    Discrepancy: hongyi-zhang/Fixup trains biases and multipliers at a tenth of the learning rate; here all learn alike.
    """

    equation = "x ← x + s F(x + a) + b, last weight of F = 0 at first"

    def __init__(self, sites, d, norm, make):
        super().__init__(sites, d, norm, make)
        zero, one = np.zeros((), make.dtype), np.ones((), make.dtype)
        self.biases_in = [Parameter(zero.copy(), "bias") for _ in sites]
        self.multipliers = [Parameter(one.copy(), "gate") for _ in sites]
        self.biases_out = [Parameter(zero.copy(), "bias") for _ in sites]

    def step(self, stream, site, F):
        x, k = stream, site.k
        return x + (self.multipliers[k] * F(x + self.biases_in[k]) + self.biases_out[k])

    def jacobian(self, stream, site, J_F, f):
        return np.eye(stream.size) + float(self.multipliers[site.k].data) * J_F
