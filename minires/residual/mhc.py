"""mHC: Hyper-Connections whose mixing matrix is kept (nearly) doubly stochastic."""

from __future__ import annotations

import itertools

import numpy as np

from minires import ops
from minires.nn.module import Parameter
from minires.ops.sinkhorn import sinkhorn_backward, sinkhorn_forward
from minires.residual.connection import Connection, block_diagonal, register
from minires.tensor import Tensor

EPS = 1e-20  # of the RMSNorm over all copies, from the paper's appendix


@register("mhc")
class MHC(Connection):
    """Manifold-constrained Hyper-Connections. The stream is X: (B, T, n, d). With x' = RMSNorm(vec X) in ℝ^{nd}:

        H_pre  = σ(a_pre x'φ_pre + b_pre)                     (n)     read
        H_post = 2σ(a_post x'φ_post + b_post)                 (n)     write
        H_res  = Sinkhorn₂₀(a_res mat(x'φ_res) + b_res)       (n, n)  mix
        X ← H_res X + H_postᵀ F(LN(H_pre X)),                 y = LN_f(Σ_n X_n)

    Here H_res multiplies from the left without a transpose (it plays the part of A_rᵀ).
    ∂X'/∂X = H_res ⊗ I + H_postᵀ H_pre ⊗ J_F·J_LN for fixed weights, plus the terms in which the weights move. The +I
    became H_res: no expansion (‖H_res‖₂ ≤ 1), and a product of many tends to 11ᵀ/n, not to I.
    Initialisation: the paper prints none. Ours: b_pre = logit(1/n), b_post = 0, b_res = 0 on the diagonal and -8 off
    it, gates a = 0.01, φ random: Pre-Norm up to what the gates add. φ must not be 0, or equal copies stay equal for
    ever.
    Source: Xie et al. 2025, arXiv:2512.24880, eq. 7-9.
    Discrepancy: lucidrains/x-transformers applies Sinkhorn to an axis of length 1; lucidrains/hyper-connections
    projects every copy alone; ports of the released kernel start from a row softmax.
    """

    equation = "X ← H_res X + H_postᵀ F(LN(H_pre X)), H_res = Sinkhorn₂₀, y = LN_f(Σ X_n)"

    def __init__(self, sites, d, norm, make, n=4, steps=20, gate=0.01):
        super().__init__(sites, d, norm, make)
        self.n, self.steps = n, steps
        self.norms = [norm(d, make) for _ in sites]
        self.final_norm = norm(d, make)
        width = 2 * n + len(self.mixing_bias())  # columns [pre | post | res]
        self.phis = [
            Parameter(make.rng.standard_normal((n * d, width)).astype(make.dtype) * 0.02, "gate") for _ in sites
        ]
        bias = np.concatenate([np.full(n, -np.log(n - 1) if n > 1 else 8.0), np.zeros(n), self.mixing_bias()])
        self.biases = [Parameter(bias.astype(make.dtype), "gate") for _ in sites]
        self.gates = [Parameter(np.full(3, gate, make.dtype), "gate") for _ in sites]  # a_pre, a_post, a_res

    def mixing_bias(self) -> np.ndarray:
        """b_res, flattened."""
        return np.where(np.eye(self.n), 0.0, -8.0).ravel()

    def mixing(self, logits: Tensor) -> Tensor:
        """Logits (…, n·n) → H_res (…, n, n)."""
        return ops.sinkhorn(logits.reshape(*logits.shape[:-1], self.n, self.n), steps=self.steps)

    def mixing_slope(self, logits: np.ndarray) -> np.ndarray:
        """∂H_res[m, n]/∂logit: (R, n, n, number of logits), by one Sinkhorn backward per entry of H_res."""
        R, n = len(logits), self.n
        _, saved = sinkhorn_forward(logits.reshape(R, n, n), steps=self.steps)
        basis = np.eye(n * n).reshape(n, n, n, n)
        rows = [[sinkhorn_backward(np.broadcast_to(basis[m, k], (R, n, n)), saved) for k in range(n)] for m in range(n)]
        return np.moveaxis(np.array(rows), 2, 0).reshape(R, n, n, n * n)

    def open(self, x):
        *rows, d = x.shape
        return ops.broadcast_to(ops.expand_dims(x, -2), (*rows, self.n, d))  # (B, T, n, d)

    def weights(self, X, site):
        """H_pre (…, n), H_post (…, n), H_res (…, n, n) for every token."""
        k, n = site.k, self.n
        flat = ops.rmsnorm(X.reshape(*X.shape[:-2], n * self.d), eps=EPS)  # (B, T, n·d)
        raw, gate, bias = flat @ self.phis[k], self.gates[k], self.biases[k]  # (B, T, 2n + …)
        pre = ops.sigmoid(raw[..., :n] * gate[0] + bias[:n])
        post = ops.sigmoid(raw[..., n : 2 * n] * gate[1] + bias[n : 2 * n]) * 2
        return pre, post, self.mixing(raw[..., 2 * n :] * gate[2] + bias[2 * n :])

    def step(self, stream, site, F):
        X = stream
        H_pre, H_post, H_res = self.weights(X, site)
        h = (ops.expand_dims(H_pre, -2) @ X).squeeze(-2)  # (B, T, d)
        f = F(self.norms[site.k](h))  # (B, T, d)
        return H_res @ X + ops.expand_dims(H_post, -1) * ops.expand_dims(f, -2)  # (B, T, n, d)

    def close(self, stream):
        return self.final_norm(stream.sum(axis=-2))

    def read(self, stream):
        return stream.mean(axis=-2)

    def _slopes(self, X, site):
        """∂H_pre, ∂H_post, ∂H_res with respect to X: (R, n, n, d), (R, n, n, d), (R, n, n, n, d)."""
        (R, n, d), k = X.shape, site.k
        v = X.reshape(R, n * d)
        r = 1 / np.sqrt((v * v).mean(axis=-1, keepdims=True) + EPS)
        xhat = v * r
        J = r[..., None] * (np.eye(n * d) - xhat[:, :, None] * xhat[:, None, :] / (n * d))  # (R, nd, nd)
        raw, gate, bias = xhat @ self.phis[k].data, self.gates[k].data, self.biases[k].data
        scale = np.concatenate([np.repeat(gate[:2], n), np.full(raw.shape[-1] - 2 * n, gate[2])])
        logits, dlogits = raw * scale + bias, np.einsum("rki,kc->rci", J, self.phis[k].data) * scale[:, None]
        s = 1 / (1 + np.exp(-logits[:, : 2 * n]))
        squash = (s * (1 - s))[..., None] * dlogits[:, : 2 * n]  # (R, 2n, nd)
        res = np.einsum("rmnc,rci->rmni", self.mixing_slope(logits[:, 2 * n :]), dlogits[:, 2 * n :])
        return squash[:, :n].reshape(R, n, n, d), 2 * squash[:, n:].reshape(R, n, n, d), res.reshape(R, n, n, n, d)

    def jacobian(self, stream, site, J_F, f):
        X = stream.reshape(-1, self.n, self.d)
        R, n, d = X.shape
        pre, post, res = (w.data for w in self.weights(Tensor(X), site))
        dpre, dpost, dres = self._slopes(X, site)
        h = np.einsum("rn,rnd->rd", pre, X)
        read = np.einsum("rn,ji->rjni", pre, np.eye(d)) + np.einsum("rmni,rmj->rjni", dpre, X)  # ∂h/∂X
        J_T = (J_F @ block_diagonal(self.norms[site.k].jacobian(h))).reshape(R, d, R, d)
        out = np.einsum("rm,rjsk,skni->rmjsni", post, J_T, read)
        same = np.einsum("rmn,ji->rmjni", res, np.eye(d)) + np.einsum("rmqni,rqj->rmjni", dres, X)
        same += np.einsum("rmni,rj->rmjni", dpost, f.reshape(R, d))
        out[np.arange(R), :, :, np.arange(R)] += same
        return out.reshape(R * n * d, R * n * d)


@register("mhc_permutations")
class MHCPermutations(MHC):
    """mHC with an exactly doubly stochastic mix: H_res = Σ_p softmax(logits)_p P_p over all n! permutations.

    By Birkhoff's theorem these are all doubly stochastic matrices; nothing is iterated. 24 logits for n = 4.
    ∂X'/∂X = H_res ⊗ I + … as in mHC, with ∂H_res/∂logits from one softmax: H_res stands for the +I.
    Initialisation: logit 0 for the identity, -8 for the others; the rest as in mHC.
    Source: mHC-lite, arXiv:2601.05732.
    Discrepancy: its code starts H_pre at σ(∓1), which is not Pre-Norm; ours is.
    """

    equation = "X ← H_res X + H_postᵀ F(LN(H_pre X)), H_res = Σ_p softmax_p P_p, y = LN_f(Σ X_n)"

    @property
    def permutations(self) -> np.ndarray:
        """(n!, n, n), the identity first."""
        return np.array([np.eye(self.n)[list(p)] for p in itertools.permutations(range(self.n))])

    def mixing_bias(self):
        return np.where(np.arange(len(self.permutations)) == 0, 0.0, -8.0)

    def mixing(self, logits):
        n, perms = self.n, self.permutations
        flat = ops.softmax(logits) @ perms.reshape(len(perms), n * n).astype(logits.dtype)
        return flat.reshape(*logits.shape[:-1], n, n)

    def mixing_slope(self, logits):
        p = ops.softmax(Tensor(logits)).data
        slope = np.einsum("rp,pq->rpq", p, np.eye(p.shape[-1])) - p[:, :, None] * p[:, None, :]
        return np.einsum("pmn,rpq->rmnq", self.permutations, slope)
