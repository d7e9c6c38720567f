"""DeepNorm: Post-Norm with a louder skip path."""

from __future__ import annotations

import numpy as np

from minires.messages import UnknownName
from minires.nn.init import Gain
from minires.residual.connection import Connection, block_diagonal, register


def deepnorm_constants(encoder: int = 0, decoder: int = 0) -> dict[str, tuple[float, float]]:
    """(α, β) for "encoder" and/or "decoder" with that many blocks each.

    encoder only, N: α = (2N)^¼, β = (8N)^-¼. decoder only, M: the same with M. Both: the encoder has
    α = 0.81 (N⁴M)^(1/16), β = 0.87 (N⁴M)^(-1/16), the decoder α = (3M)^¼, β = (12M)^-¼.
    Raises UnknownName if both counts are 0. Source: DeepNet, arXiv:2203.00555, figure 2.
    """
    if not encoder and not decoder:
        raise UnknownName("architecture", "no blocks", ("encoder", "decoder", "encoder and decoder"))
    if encoder and decoder:
        size = (encoder**4 * decoder) ** (1 / 16)
        return {"encoder": (0.81 * size, 0.87 / size), "decoder": ((3 * decoder) ** 0.25, (12 * decoder) ** -0.25)}
    blocks = encoder or decoder
    return {"encoder" if encoder else "decoder": ((2 * blocks) ** 0.25, (8 * blocks) ** -0.25)}


def deepnorm_gain(blocks: int) -> Gain:
    """β for the weights that DeepNorm shrinks: value, attention output and both of the FFN; not query and key."""
    beta = deepnorm_constants(decoder=blocks)["decoder"][1]
    return lambda role, sublayers: beta if role in ("value", "attn_out", "ffn_in", "ffn_out") else 1.0


@register("deepnorm")
class DeepNorm(Connection):
    """x_{l+1} = LN(α x_l + F(x_l)), α = (2N)^¼ for N blocks.

    ∂x_{l+1}/∂x_l = J_LN(αx + F)·(α I + J_F): the I is amplified before the norm divides by about √(α² + s_F²).
    Initialisation: Xavier, and β = (8N)^-¼ on W_V, W_O, W_1, W_2 (the `deepnorm` recipe does this).
    Source: Wang et al. 2022, arXiv:2203.00555, eq. 1 and figure 2. The paper has no √(41 L).
    Discrepancy: microsoft/torchscale draws q, k, v with Xavier gain 1/√2 (`reset_parameters`), so its effective value
    gain is β/√2; it multiplies the biases of the four layers by β as well, because it goes by their names.
    """

    equation = "x ← LN(α x + F(x)), α = (2N)^¼"

    def __init__(self, sites, d, norm, make, alpha=None):
        super().__init__(sites, d, norm, make)
        self.alpha = deepnorm_constants(decoder=sites[0].N)["decoder"][0] if alpha is None else alpha
        self.norms = [norm(d, make) for _ in sites]

    def step(self, stream, site, F):
        x = stream
        return self.norms[site.k](self.alpha * x + F(x))

    def jacobian(self, stream, site, J_F, f):
        J_LN = block_diagonal(self.norms[site.k].jacobian(self.alpha * stream + f))
        return J_LN @ (self.alpha * np.eye(stream.size) + J_F)
