"""Rows of the third article, A2: C64-C109."""

from __future__ import annotations

from minires.claims import flow, scalars, streams, trained
from minires.claims.a0 import ELHAGE, EXACT, HE, XIONG
from minires.claims.ledger import COND, CONTRADICTS, HOLDS, INTERNAL, OPEN, Claim, Rule, add

DEEPNET = "Wang et al. 2022, arXiv:2203.00555"
HYPER = "Zhu et al. 2024, arXiv:2409.19606"
GPT2 = "Radford et al. 2019, Language Models are Unsupervised Multitask Learners"
ADMIN = "Liu et al. 2020, arXiv:2004.08249"


def row(id: str, section: str, expected: str, claim: str, claim_zh: str, finding: str, source: str = "", **measured):
    add(Claim(id, "A2", section, claim, claim_zh, expected, finding, source, **measured))


# -------------------------------------------------------------------------------------------------- three difficulties

row("C64", "opening", HOLDS,
    "152 layers, eight times deeper than usual, and a lower training error.",
    "152 层，8 倍深，训练误差更低。",
    "“8× deeper than VGG nets”, says the abstract; with residuals deeper nets have lower training error.",
    HE)

row("C65", "three difficulties", HOLDS,
    "0.95^100 is about 0.006.",
    "每层衰减到 0.95，100 层后约为 0.006。",
    "As arithmetic; see C19b for matrices.",
    measure=scalars.powers,
    tell="0.95^100 = {p095:.5f}",
    rule=Rule(lambda m: round(m.p095, 3) == 0.006))

row("C66", "three difficulties", HOLDS,
    "A factor of 1.05 per layer explodes.",
    "每层 1.05 倍会指数级爆炸。",
    "As arithmetic.",
    measure=scalars.powers,
    tell="1.05^100 = {p105:.1f}",
    rule=Rule(lambda m: m.p105 > 100))

row("C67", "three difficulties", COND,
    "Explosion is easy to relieve by clipping gradients.",
    "梯度爆炸较易用梯度裁剪缓解。",
    "Clipping bounds the total norm. It changes neither the ratio between the layers nor the forward pass, which may "
    "have exploded too.",
    measure=flow.clipping,
    tell="12 blocks without norms: total norm {total:.1e} → {clipped:.2f}, but first/last stays {before:.1f} → "
    "{after:.1f}, the stream has rms {rms:.0f} and the loss is {loss:.0f} (chance {chance:.1f})",
    rule=Rule(lambda m: m.clipped < 1.001,
              lambda m: abs(m.before - m.after) < 1e-6 * m.before and m.loss > 2 * m.chance))

row("C68a", "three difficulties", HOLDS,
    "56 layers are worse than 20 on training and test data.",
    "56 层在训练集和测试集上都不如 20 层。",
    "Measured on the digits.",
    HE,
    measure=trained.degradation,
    tell="{shallow} layers {shallow_train:.1%} / {shallow_test:.1%}, {deepest} layers {deep_train:.1%} / "
    "{deep_test:.1%}",
    rule=Rule(lambda m: m.deep_train > m.shallow_train and m.deep_test > m.shallow_test))

row("C68b", "three difficulties", CONTRADICTS,
    "This is not an optimisation problem: the nets were trained fully.",
    "这不是优化问题（训练充分），而是更难学习。",
    "The same architecture reaches a low training error from another start, so the optimiser fails and not the "
    "model. He et al. call it an optimisation difficulty.",
    HE,
    measure=trained.degradation,
    tell="{deepest} plain layers: train error {deep_train:.1%} from He's weights, {identity_train:.1%} from "
    "identity-like ones",
    rule=Rule(lambda m: m.identity_train > m.deep_train / 2))

row("C68c", "three difficulties", INTERNAL,
    "A0 blames optimisation, A2 says that it is not optimisation, and both blame vanishing gradients.",
    "A0 归因于优化困难，A2 说不是优化问题；二者又都提梯度消失。",
    "A0 is right about optimisation (C05); neither is right about vanishing gradients (C20, C51b).",
    "A0, section 1.1; A2, third difficulty")

row("C69", "three difficulties", COND,
    "Non-linear layers are bad at approximating the identity.",
    "非线性层难以逼近恒等映射。",
    "Two ReLU layers come near it soon, if they have the 2d hidden units that it takes; eight are far slower. He et "
    "al. offer it as a hypothesis.",
    HE,
    measure=trained.identity_fit,
    tell="error of fitting H(x) = x after {steps} steps: 2 layers {shallow_plain:.2g}, {deepest} layers "
    "{deep_plain:.2g}",
    rule=Rule(lambda m: m.deep_plain > 2.5 * m.shallow_plain, lambda m: m.shallow_plain < 0.2))

row("C70", "core idea", COND,
    "Zero is easy, because weights start close to zero.",
    "权重初始化接近零，所以学零更容易。",
    "True of GPT-2's small weights. With Xavier's or He's the branch is about as large as the stream.",
    measure=streams.branch_sizes,
    tell="size of a branch relative to the stream: gpt2 {gpt2:.3f}, Xavier {xavier:.2f}, He {he:.2f}",
    rule=Rule(lambda m: m.gpt2 < 0.1, lambda m: m.he > 0.5))

row("C71a", "core idea", HOLDS,
    "∂L/∂x = ∂L/∂y (∂F/∂x + 1).",
    "梯度公式：∂L/∂x=∂L/∂y·(∂F/∂x+1)。",
    "With the identity matrix in the place of 1.",
    measure=flow.backward_formulas,
    tell="back-propagation against the formula: {residual:.0e}",
    rule=Rule(lambda m: m.residual < EXACT))

row("C71b", "core idea", COND,
    "The gradient passes without loss even if ∂F/∂x is small.",
    "即使 ∂F/∂x 很小，梯度也能无损传递。",
    "Without loss only if it is 0. Small branches add up over many layers (C19b).",
    measure=flow.products,
    tell="100 layers with ‖J‖ = 0.1: gain {lowest:.1e} to {highest:.1e}",
    rule=Rule(lambda m: 0.5 < m.independent < 2, lambda m: m.lowest < 0.5 or m.highest > 2))

row("C72", "core idea", HOLDS,
    "Without residuals the gradient is a product of all layers' Jacobians.",
    "无残差时梯度是各层雅可比的连乘。",
    "True, and the order of the factors matters.",
    measure=flow.backward_formulas,
    tell="product in order {plain:.0e}, in the other order {reversed:.2f}",
    rule=Rule(lambda m: m.plain < EXACT and m.reversed > 0.01))

# ----------------------------------------------------------------------------------------------- Post-Norm, Pre-Norm

row("C73", "in Transformers", HOLDS,
    "Post-Norm: g_t = g_(t+1) J_Norm (J_F + I).",
    "Post-Norm 的梯度：g_t=g_{t+1}·J_Norm·(J_F+I)。",
    "With row vectors, and J_Norm taken at x + F(x).",
    XIONG,
    measure=flow.backward_formulas,
    tell="back-propagation against the formula: {post:.0e}",
    rule=Rule(lambda m: m.post < EXACT))

row("C74", "in Transformers", COND,
    "J_Norm's eigenvalues are close to 1, but many layers make the gradient decay.",
    "J_Norm 特征值接近 1，但多层累积导致梯度衰减。",
    "They are 0 (twice) and 1/s, s the size of x + F(x): close to 1 for small branches, 0.7 for a branch as large as "
    "the stream. Along the skip alone they do accumulate. In all they do not: J_F makes up for it.",
    measure=streams.norm_spectrum,
    tell="1/s = {small_value:.3f} for a small branch, {unit_value:.2f} for a unit one, and two zeros each; over "
    "{layers} sublayers with unit branches: skip alone {unit_skip:.1e}, in all {unit_total:.2f}",
    rule=Rule(lambda m: abs(m.small_value - 1) < 0.05, lambda m: m.unit_value < 0.8 and m.unit_total > 0.5))

row("C75", "in Transformers", HOLDS,
    "Pre-Norm: g_t = g_(t+1) (J_F J_Norm + I); the residual path bypasses the norm.",
    "Pre-Norm：g_t=g_{t+1}·(J_F·J_Norm+I)，残差路径绕过 LayerNorm。",
    "With row vectors.",
    XIONG,
    measure=flow.backward_formulas,
    tell="back-propagation against the formula: {pre:.0e}",
    rule=Rule(lambda m: m.pre < EXACT))

row("C76a", "in Transformers", CONTRADICTS,
    "12 layers, Post-Norm: gradient norms 0.0012 at layer 1, 0.0876 at layer 6, 1 at layer 12.",
    "12 层 Post-Norm 梯度范数：0.0012、0.0876、1。",
    "At initialisation no standard setting gives this, and the two numbers do not even fit one rate of decay: the "
    "skip path alone would need two different branch sizes. What decays is the skip path; the branches make up for "
    "it.",
    XIONG + ", appendix F",
    measure=flow.twelve_layers,
    tell="{post_fit} of {cells} settings within 10 %; totals at layer 1 {post_1_low:.2f} to {post_1_high:.2f}; the "
    "skip path alone would need branches of size {needed_1:.2f} for layer 1 and {needed_6:.2f} for layer 6",
    rule=Rule(lambda m: m.post_fit > 0))

row("C76b", "in Transformers", COND,
    "12 layers, Pre-Norm: gradient norms 0.9845 at layer 1, 0.9912 at layer 6, 1 at layer 12.",
    "12 层 Pre-Norm 梯度范数：0.9845、0.9912、1。",
    "Near 1 only where the branches are tiny beside the stream. In the usual decoder the gradient *grows* towards "
    "layer 1.",
    "Shleifer et al. 2021, arXiv:2110.09456",
    measure=flow.twelve_layers,
    tell="{pre_fit} of {cells} settings within 10 %; totals at layer 1 {pre_1_low:.3f} to {pre_1_high:.2f}",
    rule=Rule(lambda m: m.pre_fit > 0, lambda m: m.pre_fit < m.cells))

row("C76c", "in Transformers", COND,
    "Post-Norm's first layer gets less than a hundredth of the last layer's gradient.",
    "Post-Norm 首层梯度不足末层的百分之一。",
    "Not at the start (C76a), but within the first steps of training without warm-up, when it collapses. With "
    "warm-up the ratio falls later: it was still falling when this short run ended.",
    measure=trained.collapse,
    tell="lowest ratio of layer 1 to layer {blocks} in the first {steps} steps at lr {lr:g}: {cold_lowest:.1e} (step "
    "{cold_at}) without warm-up, {warm_lowest:.1e} with",
    rule=Rule(lambda m: m.cold_lowest < 0.01, lambda m: m.warm_lowest > 2 * m.cold_lowest))

row("C77a", "in Transformers", COND,
    "Post-Norm's gradient decays exponentially towards the front.",
    "Post-Norm 梯度从后向前指数衰减。",
    "Its skip path does. Its whole gradient at initialisation does not.",
    XIONG + ", appendix F",
    measure=flow.twelve_layers,
    tell="layer 1 relative to layer 12: skip path {post_skip_low:.1e} to {post_skip_high:.2f}, whole "
    "{post_1_low:.2f} to {post_1_high:.2f}",
    rule=Rule(lambda m: m.post_skip_low < 0.05, lambda m: m.post_1_low > 0.1))

row("C77b", "in Transformers", COND,
    "Pre-Norm keeps nearly the same gradient in all layers.",
    "Pre-Norm 各层梯度强度几乎一致。",
    "Its skip path carries exactly 1. The whole gradient is larger in front, by a factor of a few, unless the "
    "branches are tiny. Later papers found just that mismatch.",
    "Shleifer et al. 2021, arXiv:2110.09456",
    measure=flow.twelve_layers,
    tell="layer 1 relative to layer 12: skip path {pre_skip_low:.2f}, whole {pre_1_low:.3f} to {pre_1_high:.2f}",
    rule=Rule(lambda m: m.pre_1_low < 1.1, lambda m: m.pre_1_high > 1.5))

row("C77c", "in Transformers", INTERNAL,
    "A0 says that Post-Norm explodes, A2 that it vanishes.",
    "A0 说 Post-Norm 梯度爆炸，A2 说消失。",
    "Both, of different things: the last layer's weight gradient is large (C25), the skip path's gradient decays "
    "(C77a).",
    "A0, table in section 4.1; A2, Pre-Norm vs Post-Norm")

# ------------------------------------------------------------------------------------------------------ the trade-off

row("C78", "trade-off", HOLDS,
    "Pre-Norm's activations grow layer by layer.",
    "Pre-Norm 激活值逐层累积增长。",
    "At the start the variance grows linearly and the rms like √l; Xiong et al. bound the growth per block by 1/2 "
    "and 3/2.",
    XIONG,
    measure=streams.activation_growth,
    tell="variance grows by {slope:.2f} per block; the rms by a factor of {growth:.1f} in all",
    rule=Rule(lambda m: 0.5 < m.slope < 1.5 and m.growth > 2))

row("C79", "trade-off", COND,
    "Unrolled, Pre-Norm is x_L = x_0 + F_0(x_0) + F_1(x_1/√2) + F_2(x_2/√3) and so on.",
    "Pre-Norm 展开式：x_L=x_0+F_0(x_0)+F_1(x_1/√2)+F_2(x_2/√3)+…",
    "If x_0 and all branches are independent with unit variance, LN(x_l) is x_l/√(l+1) up to a few per cent. In a "
    "decoder they are neither.",
    "Su Jianlin, spaces.ac.cn/archives/9009",
    measure=streams.activation_growth,
    tell="error of LN(x_l) ≈ x_l/√(l+1): independent unit branches {error_iid:.1%}, a decoder {error_real:.0%}",
    rule=Rule(lambda m: m.error_iid < 0.1, lambda m: m.error_real > 0.2))

row("C80a", "trade-off", HOLDS,
    "In deep Pre-Norm nets neighbouring layers read almost the same.",
    "Pre-Norm 很深时相邻层输入差异很小。",
    "Independent branches would give cos = √((l+1)/(l+2)).",
    "Sun et al. 2025, arXiv:2502.05795",
    measure=streams.activation_growth,
    tell="cos(x_l, x_(l+1)): {cos_first:.3f} at first, {cos_last:.3f} after {sublayers} sublayers (model "
    "{cos_model:.3f})",
    rule=Rule(lambda m: m.cos_last > 0.97 and m.cos_last > m.cos_first))

row("C80b", "trade-off", OPEN,
    "So many layers act more like width than like depth.",
    "叠多层更像增加宽度而非深度。",
    "If so, neighbouring layers could be swapped or run side by side at little cost.",
    "Sun et al. 2025, arXiv:2502.05795",
    plan="Train 12 Pre-Norm layers on the play; swap neighbours, or let both read the same state; compare the loss "
    "by depth.")

row("C81", "trade-off", OPEN,
    "Once it trains, Post-Norm ends up better.",
    "Post-Norm 一旦训练成功，最终性能更好。",
    "Reported for machine translation.",
    ADMIN + "; " + DEEPNET,
    plan="6 layers on the play, 3000 steps, tuned learning rates and warm-up, 5 seeds; compare final validation "
    "losses.")

row("C82", "trade-off", CONTRADICTS,
    "GPT-2 uses a scale factor on residual outputs against the accumulation.",
    "GPT-2 用残差输出缩放因子缓解激活累积。",
    "It scales the *weights* of residual layers at *initialisation* by 1/√N. At run time there is no factor.",
    GPT2 + ", section 2.3",
    measure=scalars.gpt2_factor,
    tell="12 blocks: fresh output weights × {init_ratio:.3f}; the step differs from x + F(LN(x)) by "
    "{runtime_difference:.0e}",
    rule=Rule(lambda m: m.runtime_difference > 1e-6))

# -------------------------------------------------------------------------------------------------- the residual stream

row("C83a", "residual stream", HOLDS,
    "2021: the residual stream is a channel that every layer reads from and writes to.",
    "2021 年提出“残差流”：每层读出并写回。",
    "So the paper puts it.",
    ELHAGE)

row("C83b", "residual stream", COND,
    "x^(l+1) = x^l + Attention(x^l) + FFN(x^l).",
    "残差流公式：x^(l+1)=x^l+Attention(x^l)+FFN(x^l)。",
    "True of parallel blocks. In the usual block the FFN reads what attention has written.",
    ELHAGE,
    measure=streams.printed_blocks,
    tell="against a sequential block without norms: relative difference {parallel:.2f}; against the two sublayers "
    "one after the other {pre:.0e}",
    rule=Rule(lambda m: m.pre < EXACT, lambda m: m.parallel > 0.01))

row("C84", "residual stream", HOLDS,
    "What is written stays until it is deleted explicitly.",
    "信息一旦写入就持续存在，除非被显式删除。",
    "Subtract all later writes and the earlier state is back.",
    ELHAGE,
    measure=streams.unrolled_sum,
    tell="x_K minus the second half of the writes against the middle state: {middle:.0e}",
    rule=Rule(lambda m: m.middle < EXACT))

row("C85a", "residual stream", HOLDS,
    "Any two layers are connected by virtual weights, because the stream is linear.",
    "虚拟权重：残差流线性，任意两层间有隐式直接连接。",
    "The product of one layer's output weights with another's input weights.",
    ELHAGE,
    measure=streams.virtual_weights,
    tell="effect along the skip against W_out W_in: {direct:.0e}",
    rule=Rule(lambda m: m.direct < EXACT))

row("C85b", "residual stream", CONTRADICTS,
    "All layers in between fold into one equivalent transformation.",
    "可将所有中间层变换折叠成一个等价变换。",
    "Only the skip folds. The layers in between are not linear and answer to the change.",
    ELHAGE,
    measure=streams.virtual_weights,
    tell="with one layer in between the effect differs from W_out W_in by {total:.0%}",
    rule=Rule(lambda m: m.total < 0.01))

row("C86", "residual stream", HOLDS,
    "The stream is a bottleneck: a layer has four times as many neurons as the stream has dimensions.",
    "带宽瓶颈：前馈网络通常是残差流维度的 4 倍。",
    "And all layers share the one stream.",
    ELHAGE,
    measure=scalars.bandwidth,
    tell="{ratio:.0f} neurons per dimension and layer; {before:.0f} before layer {layer} of {blocks}",
    rule=Rule(lambda m: m.ratio == 4))

row("C87", "residual stream", COND,
    "Research found neurons that manage memory: they write the negative of what they read.",
    "某些神经元执行“内存管理”：写入负值清理信息。",
    "The source is more careful: it has *seen hints* that some neurons and heads *may* do so.",
    ELHAGE,
    plan="In a trained model of the play, count neurons with cos(w_in, w_out) < -0.5 beside the count at random.")

row("C88", "residual stream", OPEN,
    "Each layer's top token often equals the final one, and more so with depth.",
    "每层残差的最高概率词与最终预测重合率高且递增。",
    "The logit lens. It is known to be unreliable in early layers.",
    "Belrose et al. 2023, arXiv:2303.08112",
    plan="6 Pre-Norm layers, 900 steps on the play; top-1 agreement with the last layer, by layer.")

row("C89", "residual stream", OPEN,
    "The probability of the final token rises layer by layer.",
    "最终 token 的概率逐层提高。",
    "On average or at every position: that has to be told apart.",
    "Belrose et al. 2023, arXiv:2303.08112",
    plan="The model of C88; mean probability by layer, and the share of positions where it never falls.")

# -------------------------------------------------------------------------------------------------------------- DeepNet

row("C90", "DeepNet", HOLDS,
    "2022: DeepNet reaches 1000 layers, an order of magnitude more than before.",
    "2022 年 DeepNet 达到 1000 层。",
    "500 encoder and 500 decoder layers, 2500 sublayers.",
    DEEPNET)

row("C91", "DeepNet", HOLDS,
    "DeepNorm is x ← LN(αx + F(x)).",
    "DeepNorm 的公式：x←LN(αx+F(x))。",
    "Half of it: the initialisation of four weights by β belongs to it.",
    DEEPNET,
    measure=scalars.deepnorm_alpha,
    tell="for 1000 layers α = {alpha:.2f} and β = {beta:.3f}",
    rule=Rule(lambda m: m.alpha > 1 > m.beta))

row("C92", "DeepNet", CONTRADICTS,
    "For 1000 layers α = √(41 · L), about 202.",
    "1000 层时 α=√(41×L)≈202。",
    "α = (2N)^¼ for one stack of N layers. The real network's halves have their own formulas. No 41 is in the paper "
    "or its code.",
    DEEPNET + ", figure 2",
    measure=scalars.deepnorm_alpha,
    tell="α = {alpha:.2f} for a stack of 1000; encoder {encoder:.2f} and decoder {decoder:.2f} of the real network; "
    "the article {article:.0f}",
    rule=Rule(lambda m: abs(m.alpha / m.article - 1) < 0.1))

row("C93a", "DeepNet", CONTRADICTS,
    "α amplifies the residual branch.",
    "放大残差分支的权重。",
    "It amplifies the skip, and the branch becomes smaller beside it.",
    DEEPNET,
    measure=streams.deepnorm_step,
    tell="branch relative to skip, {blocks} blocks: DeepNorm {deepnorm_ratio:.3f}, Post-Norm {post_norm_ratio:.2f}",
    rule=Rule(lambda m: m.deepnorm_ratio > m.post_norm_ratio))

row("C93b", "DeepNet", HOLDS,
    "So the model is closer to the identity.",
    "使模型更接近恒等映射。",
    "At every layer.",
    DEEPNET,
    measure=streams.deepnorm_step,
    tell="cos(x_k, x_(k+1)): DeepNorm {deepnorm_cos:.4f}, Post-Norm {post_norm_cos:.2f}",
    rule=Rule(lambda m: m.deepnorm_cos > m.post_norm_cos and m.deepnorm_cos > 0.99))

row("C94a", "DeepNet", CONTRADICTS,
    "DeepNet proves ‖Δθ‖ ≤ O(√L).",
    "DeepNet 证明 ‖Δθ‖≤O(√L)。",
    "It bounds the update of the *function*, ‖ΔF‖, and makes it constant in depth, for SGD.",
    DEEPNET + ", theorem 4.2",
    measure=flow.updates,
    tell="one SGD step on DeepNorm models from {first} to {last} blocks: ‖ΔF‖ grows {deep_growth:.1f} times (√L "
    "would be more), exponents {deepnorm_sgd_slope:.2f} for ‖ΔF‖, {deepnorm_sgd_theta_slope:.2f} for ‖Δθ‖",
    rule=Rule(lambda m: abs(m.deepnorm_sgd_theta_slope - 0.5) < 0.15))

row("C94b", "DeepNet", HOLDS,
    "DeepNorm's updates grow at most like √L.",
    "使用 DeepNorm 后更新有界（至多 √L）。",
    "The function's update: about constant for SGD, √L for Adam, whose steps have a fixed size per parameter.",
    DEEPNET,
    measure=flow.updates,
    tell="exponent of ‖ΔF‖ in depth: SGD {deepnorm_sgd_slope:.2f}, Adam {deepnorm_adam_slope:.2f}",
    rule=Rule(lambda m: max(m.deepnorm_sgd_slope, m.deepnorm_adam_slope) < 0.65))

row("C95", "DeepNet", CONTRADICTS,
    "Post-Norm's updates grow exponentially.",
    "普通 Post-Norm 更新范数呈指数级增长。",
    "They grow like a power of the depth.",
    DEEPNET,
    measure=flow.updates,
    tell="one SGD step on Post-Norm: ‖ΔF‖ grows {post_growth:.0f} times from {first} to {last} blocks, exponent "
    "{post_norm_sgd_slope:.1f}; growth of the growth {jump:.2f} (1: a power, far more: an exponential)",
    rule=Rule(lambda m: m.jump > 3))

row("C96", "DeepNet", HOLDS,
    "200 layers with 3.2B parameters beat 48 layers with 12B by 5 BLEU, over 7482 directions.",
    "200 层 3.2B 比 48 层 12B 高 5 BLEU（7482 个方向）。",
    "Stated in the abstract. The data had grown too.",
    DEEPNET)

# ---------------------------------------------------------------------------------------------------- Hyper-Connections

row("C97", "Hyper-Connections", HOLDS,
    "Hyper-Connections are an ICLR 2025 paper.",
    "《Hyper-Connections》为 ICLR 2025 论文。",
    "Yes.",
    HYPER)

row("C98", "Hyper-Connections", HOLDS,
    "A seesaw: Pre-Norm's representations collapse, Post-Norm's gradients vanish.",
    "跷跷板：Pre-Norm 表示坍塌，Post-Norm 梯度消失。",
    "It is the paper's framing. For the second half see C77a.",
    HYPER)

row("C99", "Hyper-Connections", HOLDS,
    "There are depth connections and width connections.",
    "有深度连接和宽度连接。",
    "B and the diagonal of A_r carry through depth; A_m and A_r mix the n copies at one layer.",
    HYPER,
    measure=scalars.connection_counts,
    tell="shapes of A_m, A_r, B at a sublayer: {shapes}",
    rule=Rule(lambda m: [list(s) for s in m.shapes] == [[m.n], [m.n, m.n], [m.n]]))

row("C100", "Hyper-Connections", CONTRADICTS,
    "They are H̃ = M [H⁽⁰⁾, …, H⁽ᴸ⁾]ᵀ, one matrix over all earlier layers.",
    "公式 H̃=M·[H^(0),…,H^(L)]^T，即一个矩阵作用于所有先前各层。",
    "That is DenseFormer. Hyper-Connections carry n copies of the stream and mix only those: H ← A_rᵀH + Bᵀ F(A_mᵀH).",
    HYPER + "; arXiv:2402.02622",
    measure=scalars.connection_counts,
    tell="weights at a sublayer for {depths} blocks: Hyper-Connections {per_site}; weights of DenseFormer's last "
    "block {dense}",
    rule=Rule(lambda m: m.per_site[1] > m.per_site[0]))

row("C101", "Hyper-Connections", HOLDS,
    "The dynamic version adapts the weights to the input.",
    "动态版本根据输入自适应调整。",
    "Per token.",
    HYPER,
    measure=streams.dynamic_weights,
    tell="change of A_r from one token to another: static {static:.0f}, dynamic {dynamic:.2f}",
    rule=Rule(lambda m: m.static == 0 and m.dynamic > 0.01))

row("C102a", "Hyper-Connections", HOLDS,
    "OLMo: training converges 1.8 times faster, ARC-Challenge rises by 6 points.",
    "OLMo：收敛快 1.8 倍，ARC-C 提升 6 分。",
    "OLMoE-1B-7B with dynamic connections, four copies: 41.8 → 47.8.",
    HYPER)

row("C102b", "Hyper-Connections", HOLDS,
    "There were no loss spikes.",
    "训练无损失尖峰。",
    "Shown for another model, OLMo-7B.",
    HYPER)

row("C103", "Hyper-Connections", HOLDS,
    "The learned pattern mixes Pre-Norm's access to low layers with Post-Norm's decay.",
    "学到的模式兼有 Pre-Norm 与 Post-Norm 特性。",
    "Shown for their trained model (a Λ-shaped pattern).",
    HYPER)

# ------------------------------------------------------------------------------------------------------- practice

row("C104", "practice", COND,
    "Pre-Norm for more than 12 layers, Post-Norm for up to 12.",
    "超过 12 层选 Pre-Norm，12 层及以下可用 Post-Norm。",
    "A rule of thumb. BERT-large is Post-Norm with 24 layers.",
    "Devlin et al. 2018, arXiv:1810.04805")

row("C105a", "practice", HOLDS,
    "Multiply the sublayer outputs of deep Pre-Norm nets by about 1/√L.",
    "深层 Pre-Norm 子层输出乘约 1/√L。",
    "Then independent branches together have the size of one, and L layers stay stable (C19b).",
    "Yang et al. 2023, arXiv:2310.02244",
    measure=flow.products,
    tell="100 layers with independent branches of norm 0.1 = 1/√100: gain {independent:.2f}",
    rule=Rule(lambda m: 0.5 < m.independent < 2))

row("C105b", "practice", COND,
    "GPT-2 uses a factor of about 0.14.",
    "GPT-2 使用约 0.14 的缩放因子。",
    "1/√N for N residual layers is 0.144 for GPT-2 medium only (48), or for XL if its 48 blocks are counted once. It "
    "is a factor on fresh weights (C82).",
    GPT2 + ", section 2.3",
    measure=scalars.gpt2_factor,
    tell="1/√N: small {small:.3f}, medium {medium:.3f}, large {large:.3f}, XL {XL:.3f}",
    rule=Rule(lambda m: bool(m.near), lambda m: len(m.near) < 4))

row("C106", "practice", HOLDS,
    "Post-Norm is more sensitive to initialisation.",
    "Post-Norm 对初始化更敏感。",
    "Three papers agree.",
    XIONG + "; " + ADMIN + "; " + DEEPNET,
    plan="A grid of initial scales and seeds for both norms at 12 layers.")

row("C107", "practice", COND,
    "Post-Norm almost must have warm-up, Pre-Norm may leave it out.",
    "Post-Norm 几乎必须 warmup，Pre-Norm 可省略。",
    "The same measurement as C24b: true with Xavier's weights, not with small ones.",
    XIONG,
    measure=trained.warm_up,
    tell="without / with warm-up at lr {lr:g}: Post-Norm {post_cold:.2f} / {post_warm:.2f}, Pre-Norm {pre_cold:.2f} "
    "/ {pre_warm:.2f}; Post-Norm with small weights, without {small_cold:.2f}",
    rule=Rule(lambda m: m.post_cold > m.post_warm + 0.2 and m.pre_cold < m.unigram - 0.3,
              lambda m: m.small_cold < m.unigram - 0.3))

row("C108a", "practice", HOLDS,
    "Pre-Norm needs a final LayerNorm before the head.",
    "Pre-Norm 通常需要最终 LayerNorm。",
    "Standard practice, and the reason why the last layer's gradient falls with depth: without it, it rises. Small "
    "models train without it too.",
    XIONG,
    measure=flow.norm_placement,
    tell="last state's rms at {deepest} blocks {pre_size:.1f}; exponent of the last weight's gradient with the norm "
    "{pre_slope:+.2f}, without {bare_slope:+.2f}",
    rule=Rule(lambda m: m.pre_size > 1.5 and m.pre_slope < 0 < m.bare_slope))

row("C108b", "practice", INTERNAL,
    "A0 gives the final norm to Post-Norm, A2 to Pre-Norm.",
    "A0 说 Post-Norm 需要最终归一化，A2 说 Pre-Norm 需要。",
    "A2 is right (C26a, C26b, C108a).",
    "A0, table in section 4.1; A2, key configuration parameters")

row("C109", "references", HOLDS,
    "The list of eight references.",
    "八篇参考文献。",
    "The identifiers lead to the papers named.",
    "arXiv:1512.03385, 1603.05027, 1706.03762, 2002.04745, 2203.00555, 2409.19606")
