"""Rules that look back at all earlier outputs: Attention Residuals (full and by blocks) and DenseFormer."""

from __future__ import annotations

import numpy as np

from minires import ops
from minires.nn.module import Parameter
from minires.residual.connection import Connection, block_diagonal, register

EPS = 1e-5


@register("attention_residuals")
class AttentionResiduals(Connection):
    """The stream is the list of sources v_0 = embedding, v_i = output of sublayer i. Site k reads

        h = Σ_i a_i v_i,  a = softmax_i(w_k · RMSNorm_k(v_i)),   and appends v_{k+1} = F(LN(h));

    y = LN_f of one more such sum.
    ∂h/∂v_i = a_i [I + (v_i - h)(w·J_RMS(v_i))] per token: the +I has weight a_i ≤ 1, and Σ a_i = 1, so
    ‖h‖ ≤ max ‖v_i‖. The state grows, so the Jacobian of a step is rectangular.
    Initialisation: w_k = 0, so h is the mean of all sources, and since the norm takes the factor away, this is Pre-Norm
    up to eps.
    Source: Kimi Team 2026, arXiv:2603.15031, the full rule.
    Discrepancy: lucidrains/x-transformers' version has several heads, rotary positions and queries computed from the
    stream; the paper has one fixed vector w per sublayer.
    """

    equation = "h = Σ_i softmax_i(w·RMS(v_i)) v_i, v_new = F(LN(h)), y = LN_f(h_K)"

    def __init__(self, sites, d, norm, make):
        super().__init__(sites, d, norm, make)
        self.norms = [norm(d, make) for _ in sites]
        self.final_norm = norm(d, make)
        self.queries = [Parameter(np.zeros(d, make.dtype), "gate") for _ in range(len(sites) + 1)]
        self.key_gains = [make.ones(d) for _ in range(len(sites) + 1)]

    def attend(self, k, sources):
        return ops.depth_attention(self.queries[k], self.key_gains[k], *sources, eps=EPS)

    def open(self, x):
        return (x,)

    def step(self, stream, site, F):
        h = self.attend(site.k, stream)
        return self.joined(stream, site, F(self.norms[site.k](h)))

    def joined(self, sources, site, f):
        """The next state, once the sublayer's output f is there."""
        return (*sources, f)

    def close(self, stream):
        return self.final_norm(self.attend(len(self.norms), stream))

    def read(self, stream):
        return sum(stream[1:], start=stream[0])

    def joined_jacobian(self, sources, site, J_f):
        """∂(next state)/∂(sources) from J_f = ∂f/∂(sources)."""
        return np.vstack([np.eye(J_f.shape[1]), J_f])

    def jacobian(self, stream, site, J_F, f):
        sources, k = [np.asarray(v) for v in stream], site.k
        w, gamma = self.queries[k].data, self.key_gains[k].data
        h, (_, _, a, _, r, _) = ops.depth_attention.op.reference[0](w, gamma, *sources, eps=EPS)
        d, blocks = self.d, []
        for j, v in enumerate(sources):
            xhat = v * r[j][..., None]
            J_rms = r[j][..., None, None] * (np.eye(d) - xhat[..., :, None] * xhat[..., None, :] / d) * gamma[:, None]
            pull = (v - h)[..., :, None] * (w @ J_rms)[..., None, :]  # (…, d, d)
            blocks.append(block_diagonal(a[j][..., None, None] * (np.eye(d) + pull)))
        J_read = J_F @ block_diagonal(self.norms[k].jacobian(h))
        return self.joined_jacobian(sources, site, J_read @ np.hstack(blocks))


@register("block_attention_residuals")
class BlockAttentionResiduals(AttentionResiduals):
    """Attention Residuals over block sums: inside a block of S sublayers the outputs are added up plainly, b ← b + F.

    Sources: the embedding, the sums of the finished blocks, and the running sum: at most 9 instead of K + 1, with
    S = ⌈K/8⌉. Up to 8 sublayers (4 Transformer blocks) S is 1 and this *is* the full rule.
    ∂h/∂s_b = a_b [I + (s_b - h)(w·J_RMS(s_b))] as in the full rule, a +I of weight a_b; the running sum has one of its
    own, ∂s'/∂s = I + ∂F/∂s.
    Initialisation: w = 0: the mean of the sums, Pre-Norm up to eps.
    Source: Kimi Team 2026, arXiv:2603.15031, the block variant.
    Discrepancy: the published pseudocode starts the first partial sum with the embedding, which is also the first
    finished block; here the embedding is a source of its own and is counted once.
    """

    equation = "h = Σ_b softmax_b(w·RMS(s_b)) s_b, s_last ← s_last + F(LN(h)), y = LN_f(h_K)"

    def __init__(self, sites, d, norm, make, blocks=8):
        super().__init__(sites, d, norm, make)
        self.size = max(1, -(-len(sites) // blocks))  # S, sublayers per block

    def joined(self, sources, site, f):
        if site.k % self.size == 0:
            return (*sources, f)  # the first sublayer of a block starts a new sum
        *finished, running = sources
        return (*finished, running + f)

    def joined_jacobian(self, sources, site, J_f):
        if site.k % self.size == 0:
            return super().joined_jacobian(sources, site, J_f)
        J = np.eye(J_f.shape[1])
        J[-sources[-1].size :] += J_f
        return J


@register("denseformer")
class DenseFormer(Connection):
    """Pre-Norm blocks, and after block i the stream becomes a weighted sum of all block outputs X_0 … X_{i+1}:

        x ← Σ_j α_ij X_j,   X_0 = embedding, X_{i+1} = what block i returned;   α_i = (0, …, 0, 1) at first.

    The state is (x, X_0, X_1, …).
    ∂x'/∂x = I + J_F·J_LN inside a block; at its end ∂x'/∂X_j = α_ij I, and the fresh output enters with
    α_{i,i+1}(I + J_F·J_LN): the +I has a trained factor, and every earlier block has one of its own.
    Initialisation: α_i = (0, …, 0, 1): Pre-Norm exactly.
    Source: Pagliardini et al. 2024, arXiv:2402.02622, eq. 2; without its options of dilation and period.
    Discrepancy: none known.
    """

    equation = "x ← x + F(LN(x)); after each block x ← Σ_j α_ij X_j, y = LN_f(x)"

    def __init__(self, sites, d, norm, make):
        super().__init__(sites, d, norm, make)
        self.norms = [norm(d, make) for _ in sites]
        self.final_norm = norm(d, make)
        last = [np.eye(i + 2, dtype=make.dtype)[-1] for i in range(sites[0].N)]
        self.alphas = [Parameter(row.copy(), "gate") for row in last]

    def open(self, x):
        return x, x

    def step(self, stream, site, F):
        x, *outputs = stream
        x = x + F(self.norms[site.k](x))
        if not site.last_in_block:
            return (x, *outputs)
        outputs = [*outputs, x]
        return (ops.depth_sum(self.alphas[site.block], *outputs), *outputs)

    def close(self, stream):
        return self.final_norm(stream[0])

    def read(self, stream):
        return stream[0]

    def jacobian(self, stream, site, J_F, f):
        x, *outputs = stream
        n, eye = x.size, np.eye(x.size)
        J_x = np.hstack([eye + J_F @ block_diagonal(self.norms[site.k].jacobian(x)), np.zeros((n, n * len(outputs)))])
        kept = np.hstack([np.zeros((n * len(outputs), n)), np.eye(n * len(outputs))])
        if not site.last_in_block:
            return np.vstack([J_x, kept])
        alpha = self.alphas[site.block].data
        mixed = alpha[-1] * J_x + np.hstack([np.zeros((n, n)), *[a * eye for a in alpha[:-1]]])
        return np.vstack([mixed, kept, J_x])
