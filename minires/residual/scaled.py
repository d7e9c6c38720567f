"""Rules that put a number on the branch: x + s·F(n(x)). They differ in what s is, where it starts, and in n."""

from __future__ import annotations

import math

import numpy as np

from minires.nn.module import Parameter
from minires.residual.connection import Connection, block_diagonal, register
from minires.residual.pre_norm import PreNorm


@register("layerscale")
class LayerScale(PreNorm):
    """x_{l+1} = x_l + γ_l F(LN(x_l)) with a trained vector γ_l of d small entries; y = LN_f(x_K).

    ∂x_{l+1}/∂x_l = I + diag(γ_l)·J_F·J_LN: the +I stands alone.
    Initialisation: γ by depth, 0.1 up to 18 blocks, 1e-5 up to 24, 1e-6 beyond.
    Source: CaiT, arXiv:2103.17239, section 2.
    Discrepancy: none in facebookresearch/deit (cait_models.py, 24 to 48 blocks). timm starts at 1e-5 for every depth,
    and lucidrains/x-transformers at 0, where F hears nothing in the first step.
    """

    equation = "x ← x + γ F(LN(x)), γ ∈ ℝᵈ small, y = LN_f(x)"

    def __init__(self, sites, d, norm, make, start=None):
        super().__init__(sites, d, norm, make)
        blocks = sites[0].N
        start = (0.1 if blocks <= 18 else 1e-5 if blocks <= 24 else 1e-6) if start is None else start
        self.gammas = [Parameter(np.full(d, start, make.dtype), "gate") for _ in sites]

    def step(self, stream, site, F):
        x = stream
        return x + self.gammas[site.k] * F(self.norms[site.k](x))

    def jacobian(self, stream, site, J_F, f):
        J_LN = block_diagonal(self.norms[site.k].jacobian(stream))
        gamma = np.broadcast_to(self.gammas[site.k].data, stream.shape).ravel()
        return np.eye(stream.size) + gamma[:, None] * (J_F @ J_LN)


class _Gated(Connection):
    """x + α_g F(x) without a norm; `share` says which sites have the same α."""

    start = 0.0

    def __init__(self, sites, d, norm, make, start=None):
        super().__init__(sites, d, norm, make)
        start = self.start if start is None else start
        self.alphas = [Parameter(np.full((), start, make.dtype), "gate") for _ in {self.share(s) for s in sites}]

    def share(self, site) -> int:
        return site.k

    def step(self, stream, site, F):
        x = stream
        return x + self.alphas[self.share(site)] * F(x)

    def jacobian(self, stream, site, J_F, f):
        return np.eye(stream.size) + float(self.alphas[self.share(site)].data) * J_F


@register("rezero")
class ReZero(_Gated):
    """x_{l+1} = x_l + α F(x_l), one trained α per block, 0 at first; no norm.

    ∂x_{l+1}/∂x_l = I + α J_F: exactly I at the start.
    Initialisation: α = 0, so in the first step only α has a gradient inside the stack, because every other one is
    multiplied by it.
    Source: Bachlechner et al. 2020, arXiv:2003.04887, eq. 1.
    Discrepancy: none: as in majumderb/rezero, attention and feed-forward of a block share one α.
    """

    equation = "x ← x + α F(x), α = 0 at first"

    def share(self, site):
        return site.block


@register("skipinit")
class SkipInit(_Gated):
    """x_{l+1} = x_l + α_l F(x_l), one trained α per sublayer, 0 at first; no norm.

    ∂x_{l+1}/∂x_l = I + α_l J_F: exactly I at the start. It replaces batch normalisation in residual networks.
    Initialisation: α_l = 0 (the paper also allows up to 1/√L: `start=`).
    Source: De & Smith 2020, arXiv:2002.10444, section 4.
    Discrepancy: none known.
    """

    equation = "x ← x + α_l F(x), α_l = 0 at first"


@register("inverse_sqrt_depth")
class InverseSqrtDepth(PreNorm):
    """x_{l+1} = x_l + F(LN(x_l))/√K for K sublayers, a fixed number; y = LN_f(x_K).

    ∂x_{l+1}/∂x_l = I + J_F·J_LN/√K: the +I stands alone, and the product over all sublayers stays O(1).
    Initialisation: as in Pre-Norm.
    Source: the branch multiplier of depth-μP, arXiv:2310.02244; the `depth_mup` recipe adds Adam's learning rate
    × 1/√K. The authors show it optimal for blocks of one layer and name limits for deeper ones like a Transformer's.
    Discrepancy: none known.
    """

    equation = "x ← x + F(LN(x))/√K, y = LN_f(x)"

    def step(self, stream, site, F):
        x = stream
        return x + F(self.norms[site.k](x)) * (1 / math.sqrt(site.K))

    def jacobian(self, stream, site, J_F, f):
        J_LN = block_diagonal(self.norms[site.k].jacobian(stream))
        return np.eye(stream.size) + J_F @ J_LN / math.sqrt(site.K)


@register("residual_inverse_sqrt_depth")
class ResidualInverseSqrtDepth(Connection):
    """x_{l+1} = x_l + F(x_l)/√K without a norm: the plain residual that stays finite at any depth.

    ∂x_{l+1}/∂x_l = I + J_F/√K: the +I stands alone, and with J_F of size O(1) the product stays O(1).
    Initialisation: any that keeps variance.
    Source: the branch multiplier of depth-μP, arXiv:2310.02244, without a norm.
    Discrepancy: none known.
    """

    equation = "x ← x + F(x)/√K"

    def step(self, stream, site, F):
        x = stream
        return x + F(x) * (1 / math.sqrt(site.K))

    def jacobian(self, stream, site, J_F, f):
        return np.eye(stream.size) + J_F / math.sqrt(site.K)


@register("layernorm_scaling")
class LayerNormScaling(PreNorm):
    """x_{l+1} = x_l + F(LN(x_l)/√b), b = 1, 2, … the block's number, the same for both sublayers; y = LN_f(x_K).

    ∂x_{l+1}/∂x_l = I + b^-½ J_F·J_LN: the +I stands alone. The deeper the block, the quieter what it reads.
    Initialisation: as in Pre-Norm, without GPT-2's 1/√K, which the authors advise against here.
    Source: "The Curse of Depth", arXiv:2502.05795, eq. 8.
    Discrepancy: none in the factor (lmsdss/LayerNorm-Scaling counts blocks from 0 and adds 1). There the norm is an
    RMSNorm, here either; and at commit 33c3899 the name "LNS" is put into lower case before it is compared with "LNS",
    so that the branch with the factor is never taken.
    """

    equation = "x ← x + F(LN(x)/√block), y = LN_f(x)"

    def step(self, stream, site, F):
        x = stream
        return x + F(self.norms[site.k](x) * (1 / math.sqrt(site.block + 1)))

    def jacobian(self, stream, site, J_F, f):
        J_LN = block_diagonal(self.norms[site.k].jacobian(stream))
        return np.eye(stream.size) + J_F @ J_LN / math.sqrt(site.block + 1)
