"""What is to be known of the recipes that are more than their connection: the same five parts as a rule's docstring.

Equation; ∂x_{l+1}/∂x_l and where the +I went; initialisation; source; discrepancy from public code.
"""

NOTES: dict[str, str] = {
    "none_identity": """
        x_{l+1} = LN(F(x_l)), with weights that make F nearly the identity.

        ∂x_{l+1}/∂x_l = J_LN·J_F: there is no +I in the wiring. At first J_F is about I in the feed-forward sublayers,
        and in attention about A ⊗ I, A the attention matrix: weights stand in for the skip, and training may move them.
        Initialisation: W_V W_O = I, so that attention averages what it looks at; in the feed-forward
        act(x) - act(-x) = x, which is exact for GELU, plus a tenth of the usual weights. Needs hidden ≥ 2d.
        Source: a control of ours: what a Transformer can do whose skip is only in its weights.
        Discrepancy: none known; no public code is meant.
    """,
    "pre_norm_rms": """
        x_{l+1} = x_l + F(RMS(x_l)), RMS(x) = γ x/√(mean x² + eps); y = RMS_f(x_K).

        ∂x_{l+1}/∂x_l = I + J_F·J_RMS, J_RMS = diag(γ) r (I - x̂x̂ᵀ/d): the +I stands alone. J_RMS loses one direction,
        x̂; LayerNorm's loses the direction of ones as well.
        Initialisation: γ = 1; the rest as in Pre-Norm.
        Source: Zhang & Sennrich 2019, arXiv:1910.07467, eq. 4, in the place of Pre-Norm's LayerNorm.
        Discrepancy: the paper's formula has no eps. Ours is 1e-5; LlamaRMSNorm in Hugging Face's transformers has 1e-6.
    """,
    "pre_norm_dyt": """
        x_{l+1} = x_l + F(DyT(x_l)), DyT(x) = γ tanh(α x) + β with one trained number α; y = DyT_f(x_K).

        ∂x_{l+1}/∂x_l = I + J_F·diag(α γ (1 - tanh²(α x_l))): the +I stands alone. The factor is diagonal: no direction
        is lost, and nothing divides by the size of a token.
        Initialisation: α = 0.5, γ = 1, β = 0; the rest as in Pre-Norm.
        Source: Zhu et al. 2025, arXiv:2503.10622, section 4.
        Discrepancy: lucidrains/x-transformers starts at α = 1 (`dynamic_tanh_init_alpha`).
    """,
    "pre_norm_gpt2": """
        x_{l+1} = x_l + F(LN(x_l)); y = LN_f(x_K); the weights that write to the stream start small.

        ∂x_{l+1}/∂x_l = I + J_F·J_LN as in Pre-Norm: the +I stands alone, and J_F starts 1/√K as large, so that what K
        sublayers add has the variance of one.
        Initialisation: N(0, 0.02²) for weights and tables, biases 0; W_O and W_2 × 1/√K, K = 2N.
        Source: Radford et al. 2019 (GPT-2), section 2.3.
        Discrepancy: openai/gpt-2 (src/model.py) draws every weight with 0.02 and the positions with 0.01, without the
        factor that the paper describes; karpathy/nanoGPT has it, with K = 2 n_layer, as here.
    """,
    "t_fixup": """
        x_{l+1} = x_l + F(x_l), without any norm; the first weights are small enough to do without.

        ∂x_{l+1}/∂x_l = I + J_F: the +I stands alone. Two scaled matrices in a row make J_F start 0.45/√N as large.
        Initialisation: Xavier; W_V, W_O, W_1, W_2 × 0.67 N^-¼; embeddings N(0, 1/d) × (9N)^-¼. These are the encoder's
        constants, derived for blocks of two sublayers, which ours are.
        Source: Huang et al. 2020 (ICML), sections 3.2-3.3.
        Discrepancy: layer6ai-labs/T-Fixup multiplies W_V by √2 more, to undo the gain 1/√2 with which fairseq draws it,
        and scales the decoder's embedding only if it is not shared.
    """,
    "depth_mup": """
        x_{l+1} = x_l + F(LN(x_l))/√K for K sublayers; y = LN_f(x_K); Adam's learning rate in the stack × 1/√K.

        ∂x_{l+1}/∂x_l = I + J_F·J_LN/√K: the +I stands alone, and the product over all sublayers stays O(1).
        Initialisation: as in Pre-Norm. Weights of the sublayers learn at lr/√K, norms and embeddings at lr.
        Source: Yang et al. 2023, arXiv:2310.02244. The authors show it optimal for blocks of one layer and name limits
        for deeper ones like a Transformer's.
        Discrepancy: none known.
    """,
    "normformer": """
        x ← x + LN(Concat_i(γ_i head_i) W_O), heads reading LN(x);  x ← x + LN(act(LN(x) W_1)) W_2;  y = LN_f(x_K).

        ∂x_{l+1}/∂x_l = I + J_LN·J_A·J_LN for attention, I + W_2ᵀ·J_LN·diag(act')·W_1ᵀ·J_LN for the feed-forward: the +I
        stands alone, and all that is new acts on the branch.
        Initialisation: γ_i = 1, all norms' gains 1; the rest as in Pre-Norm.
        Source: Shleifer et al. 2021, arXiv:2110.09456, section 2.
        Discrepancy: fairseq multiplies by the head gains behind W_O, where the heads are mixed already, d/heads entries
        at a time, and only in its decoder; here they stand before W_O, as in the paper. Its commands for small models
        add a gain per entry on the feed-forward's skip (`--scale-resids`), which is left out here.
    """,
    "sub_ln": """
        x ← x + LN(heads(LN(x))) W_O;  x ← x + LN(act(LN(x) W_1)) W_2;  y = LN_f(x_K): a norm before every projection.

        ∂x_{l+1}/∂x_l = I + W_Oᵀ·J_LN·J_heads·J_LN for attention, I + W_2ᵀ·J_LN·diag(act')·W_1ᵀ·J_LN for the
        feed-forward: the +I stands alone.
        Initialisation: Xavier; W_V, W_O, W_1, W_2 × √(ln 2N); `sub_ln_gain_constants` has the factors of encoder and
        decoder together.
        Source: Wang et al. 2022 (Magneto), arXiv:2210.06423, section 3.
        Discrepancy: microsoft/torchscale draws q, k, v with Xavier gain 1/√2 (`reset_parameters`), so its effective
        value gain is √(ln 2N)/√2; it multiplies the biases of the four layers as well, because it goes by their names.
    """,
    "moe": """
        x ← x + Attn(RMS(x));  x ← x + Σ_{i in S} p_i E_i(RMS(x)), S the two best of four experts, p the softmax of
        their router logits, E_i(h) = (silu(h W_1) * (h W_3)) W_2;  y = RMS_f(x_K).

        ∂x_{l+1}/∂x_l = I + [Σ_S p_i J_{E_i} + Σ_S E_i (∂p_i/∂h)]·J_RMS at a mixture: the +I stands alone. An expert
        that was not chosen is in neither sum, and the choice itself has no derivative.
        Initialisation: Xavier for router and experts; no load-balance loss (`Extras(balance=…)` adds one).
        Source: Jiang et al. 2024 (Mixtral), arXiv:2401.04088, section 2.1; the balance loss: arXiv:2101.03961.
        Discrepancy: none in mistralai/mistral-inference. Code that follows Hugging Face's takes the softmax over all
        experts and divides by the sum of the chosen: the same numbers.
    """,
    "value_residual": """
        x ← x + Attn(LN(x)) with the values V_l ← λ₁ V_first + λ₂ V_l from the second attention on;
        x ← x + FFN(LN(x));  y = LN_f(x_K).

        ∂x_{l+1}/∂x_l = I + J_F·J_LN: the +I stands alone. Beside it every later attention reads V_first, made of x_0:
        ∂x_{l+1}/∂x_0 gains λ₁ J_V W_Vᵀ J_LN(x_0), a short way back to the first values, past all the norms between.
        Initialisation: λ₁ = λ₂ = ½, trained; the rest as in Pre-Norm.
        Source: Zhou et al. 2024, arXiv:2410.17897 (ResFormer, learned variant).
        Discrepancy: the authors' released code (Zcchill/Value-Residual-Learning) keeps both at ½;
        lucidrains/x-transformers mixes with a trained weight per token. The gradient through V_first is kept, as there.
    """,
}
