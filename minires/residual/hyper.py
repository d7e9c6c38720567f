"""Hyper-Connections: n copies of the stream, read, mixed and written with learned weights."""

from __future__ import annotations

import numpy as np

from minires import ops
from minires.nn.module import Parameter
from minires.residual.connection import Connection, block_diagonal, register


@register("hyper_connections")
class HyperConnections(Connection):
    """Static Hyper-Connections. The stream is H: (B, T, n, d), n copies of the embedding at first. At site k:

        h = A_mᵀ H            read: one weight per copy                   A_m = one-hot at copy k mod n
        o = F(LN(h))          the sublayer, with its own norm
        H ← A_rᵀ H + Bᵀ o     mix the copies, write to each               A_r = I, B = 1

    and at the end y = LN_f(Σ_n H_n). Mind the transpose of A_r.
    ∂H'/∂H = A_rᵀ ⊗ I + Bᵀ A_mᵀ ⊗ J_F·J_LN on the state, per token: the +I became A_rᵀ, which nothing keeps near the
    identity: through depth the product of the A_rᵀ may grow or shrink.
    Initialisation: the values on the right; with them all copies stay equal and the model *is* Pre-Norm (up to eps in
    LN_f, which sees n times the stream).
    Source: Zhu et al. 2024, arXiv:2409.19606, eq. 1-5.
    Discrepancy: lucidrains/hyper-connections uses RMSNorm and draws the layer index at random if it is not given.
    """

    equation = "H ← A_rᵀH + Bᵀ F(LN(A_mᵀH)), y = LN_f(Σ H_n)"

    def __init__(self, sites, d, norm, make, n=4):
        super().__init__(sites, d, norm, make)
        self.n = n
        self.norms = [norm(d, make) for _ in sites]
        self.final_norm = norm(d, make)
        one_hot = np.eye(n, dtype=make.dtype)
        self.read_weights = [Parameter(one_hot[s.k % n].copy(), "gate") for s in sites]  # A_m: (n,)
        self.mix_weights = [Parameter(one_hot.copy(), "gate") for _ in sites]  # A_r: (n, n)
        self.write_weights = [make.ones(n, kind="gate") for _ in sites]  # B: (n,)

    def open(self, x):
        *rows, d = x.shape
        return ops.broadcast_to(ops.expand_dims(x, -2), (*rows, self.n, d))  # (B, T, n, d)

    def weights(self, H, site):
        """A_m (…, n), A_r (…, n, n), B (…, n) at this site; the dynamic variant computes them from H."""
        return self.read_weights[site.k], self.mix_weights[site.k], self.write_weights[site.k]

    def step(self, stream, site, F):
        H = stream
        A_m, A_r, B = self.weights(H, site)
        h = (ops.expand_dims(A_m, -2) @ H).squeeze(-2)  # (B, T, d)
        o = F(self.norms[site.k](h))  # (B, T, d)
        return A_r.swapaxes(-1, -2) @ H + ops.expand_dims(B, -1) * ops.expand_dims(o, -2)  # (B, T, n, d)

    def close(self, stream):
        return self.final_norm(stream.sum(axis=-2))

    def read(self, stream):
        return stream.mean(axis=-2)

    def slopes(self, H, site):
        """∂A[r, i, c]/∂H[r, i, :] and ∂B[r, i]/∂H[r, i, :] with A = [A_m | A_r]; zero for static weights."""
        rows, n, d = H.shape
        return np.zeros((rows, n, n + 1, d)), np.zeros((rows, n, d))

    def jacobian(self, stream, site, J_F, f):
        H = stream.reshape(-1, self.n, self.d)  # (R, n, d)
        R, n, d = H.shape
        A_m, A_r, B = (np.broadcast_to(w.data, (*stream.shape[:-2], *w.shape[-k:])) for w, k in
                       zip(self.weights(_constant(stream), site), (1, 2, 1), strict=True))  # fmt: skip
        A_m, A_r, B = A_m.reshape(R, n), A_r.reshape(R, n, n), B.reshape(R, n)
        dA, dB = self.slopes(H, site)
        h = np.einsum("rn,rnd->rd", A_m, H)
        read = np.einsum("rn,ji->rjni", A_m, np.eye(d)) + np.einsum("rni,rnj->rjni", dA[:, :, 0], H)  # ∂h/∂H
        J_T = (J_F @ block_diagonal(self.norms[site.k].jacobian(h))).reshape(R, d, R, d)
        out = np.einsum("rm,rjsk,skni->rmjsni", B, J_T, read)
        same = np.einsum("rnm,ji->rmjni", A_r, np.eye(d)) + np.einsum("rnmi,rnj->rmjni", dA[:, :, 1:], H)
        same += np.einsum("rmi,rj,mn->rmjni", dB, f.reshape(R, d), np.eye(n))
        out[np.arange(R), :, :, np.arange(R)] += same
        return out.reshape(R * n * d, R * n * d)


def _constant(array):
    from minires.tensor import Tensor

    return Tensor(array)


@register("dynamic_hyper_connections")
class DynamicHyperConnections(HyperConnections):
    """Dynamic Hyper-Connections: each token computes its own weights from its normed copies H̄ = LN(H),

        [A_m | A_r] = static + s_a tanh(H̄ W_a),   B = static + s_b tanh(H̄ w_b),   W_a: (d, n+1), w_b: (d,).

    ∂H'/∂H = A_rᵀ ⊗ I + Bᵀ A_mᵀ ⊗ J_F·J_LN as in the static rule, where A_rᵀ stands for the +I, and the terms in which
    the weights move: H_n ∂A[n, m]/∂H_n and ∂B_m/∂H_m o.
    Initialisation: W_a = w_b = 0 and s_a = s_b = 0.01, so it starts as Pre-Norm too.
    Source: Zhu et al. 2024, arXiv:2409.19606, eq. 10-13.
    Discrepancy: as in the static rule.
    """

    equation = "H ← A_r(H)ᵀH + B(H)ᵀ F(LN(A_m(H)ᵀH)), y = LN_f(Σ H_n)"

    def __init__(self, sites, d, norm, make, n=4):
        super().__init__(sites, d, norm, make, n)
        self.weight_norms = [norm(d, make) for _ in sites]
        self.dynamic_mix = [make.zeros(d, n + 1, kind="gate") for _ in sites]  # W_a
        self.dynamic_write = [make.zeros(d, 1, kind="gate") for _ in sites]  # w_b
        small = np.full((), 0.01, make.dtype)
        self.mix_scales = [Parameter(small.copy(), "gate") for _ in sites]  # s_a
        self.write_scales = [Parameter(small.copy(), "gate") for _ in sites]  # s_b

    def weights(self, H, site):
        k = site.k
        A_m, A_r, B = super().weights(H, site)
        normed = self.weight_norms[k](H)  # (B, T, n, d)
        A = ops.tanh(normed @ self.dynamic_mix[k]) * self.mix_scales[k]  # (B, T, n, n+1)
        B_extra = ops.tanh(normed @ self.dynamic_write[k]) * self.write_scales[k]  # (B, T, n, 1)
        return A[..., 0] + A_m, A[..., 1:] + A_r, B_extra.squeeze(-1) + B

    def slopes(self, H, site):
        k = site.k
        J = self.weight_norms[k].jacobian(H)  # (R, n, d, d)
        normed = self.weight_norms[k](_constant(H)).data

        def slope(weight, scale):
            t = np.tanh(normed @ weight.data)
            return float(scale.data) * (1 - t * t)[..., None] * np.einsum("kc,rnki->rnci", weight.data, J)

        return slope(self.dynamic_mix[k], self.mix_scales[k]), slope(self.dynamic_write[k], self.write_scales[k])[
            :, :, 0
        ]
