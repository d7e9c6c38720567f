"""Rows of the third article, A2: C64-C109."""

from __future__ import annotations

from typing import Any

from minires.claims import flow, play, scalars, streams, trained
from minires.claims.a0 import ELHAGE, EXACT, HE, XIONG
from minires.claims.ledger import COND, CONTRADICTS, HOLDS, INTERNAL, OPEN, Claim, Rule, add

DEEPNET = "Wang et al. 2022, arXiv:2203.00555"
HYPER = "Zhu et al. 2024, arXiv:2409.19606"
GPT2 = "Radford et al. 2019, Language Models are Unsupervised Multitask Learners"
ADMIN = "Liu et al. 2020, arXiv:2004.08249"


def row(
    id: str, section: str, expected: str, claim: str, claim_zh: str, finding: str, finding_zh: str, source: str = "",
    **measured: Any,
):  # fmt: skip
    add(Claim(id, "A2", section, claim, claim_zh, expected, finding, finding_zh, source, **measured))


# -------------------------------------------------------------------------------------------------- three difficulties

row("C64", "opening", HOLDS,
    "152 layers, eight times deeper than usual, and a lower training error.",
    "152 层，8 倍深，训练误差更低。",
    "“8× deeper than VGG nets”, says the abstract; with residuals deeper nets have lower training error.",
    "摘要中写的是“比 VGG 深 8 倍”（8×）；有残差时，更深的网络训练误差更低。",
    HE)

row("C65", "three difficulties", HOLDS,
    "0.95^100 is about 0.006.",
    "每层衰减到 0.95，100 层后约为 0.006。",
    "As arithmetic; see C19b for matrices.",
    "作为算术成立；矩阵的情形见 C19b。",
    measure=scalars.powers,
    tell="0.95^100 = {p095:.5f}",
    tell_zh="0.95^100 = {p095:.5f}",
    rule=Rule(lambda m: round(m.p095, 3) == 0.006))

row("C66", "three difficulties", HOLDS,
    "A factor of 1.05 per layer explodes.",
    "每层 1.05 倍会指数级爆炸。",
    "As arithmetic.",
    "作为算术成立。",
    measure=scalars.powers,
    tell="1.05^100 = {p105:.1f}",
    tell_zh="1.05^100 = {p105:.1f}",
    rule=Rule(lambda m: m.p105 > 100))

row("C67", "three difficulties", COND,
    "Explosion is easy to relieve by clipping gradients.",
    "梯度爆炸较易用梯度裁剪缓解。",
    "Clipping bounds the total norm. It changes neither the ratio between the layers nor the forward pass, which may "
    "have exploded too.",
    "裁剪限制的是总范数。它既不改变各层之间的比例，也不改变前向传播，而前向可能也已爆炸。",
    measure=flow.clipping,
    tell="12 blocks without norms: total norm {total:.1e} → {clipped:.2f}, but first/last stays {before:.1f} → "
    "{after:.1f}, the stream has rms {rms:.0f} and the loss is {loss:.0f} (chance {chance:.1f})",
    tell_zh="12 个无归一化的块：总范数 {total:.1e} → {clipped:.2f}，但首/末之比不变，{before:.1f} → {after:.1f}；残差"
    "流均方根 {rms:.0f}，损失 {loss:.0f}（随机猜测 {chance:.1f}）",
    rule=Rule(lambda m: m.clipped < 1.001,
              lambda m: abs(m.before - m.after) < 1e-6 * m.before and m.loss > 2 * m.chance))

row("C68a", "three difficulties", HOLDS,
    "56 layers are worse than 20 on training and test data.",
    "56 层在训练集和测试集上都不如 20 层。",
    "Measured on the digits, at just these depths.",
    "在手写数字上测得，正是这两个深度。",
    HE,
    measure=trained.degradation,
    tell="train / test error: {depths[1]} layers {train[1]:.1%} / {test[1]:.1%}, {deepest} layers {deep_train:.1%} / "
    "{deep_test:.1%}",
    tell_zh="训练/测试误差：{depths[1]} 层 {train[1]:.1%} / {test[1]:.1%}，{deepest} 层 {deep_train:.1%} / "
    "{deep_test:.1%}",
    rule=Rule(lambda m: m.deep_train > m.train[1] + 0.05 and m.deep_test > m.test[1] + 0.05))

row("C68b", "three difficulties", CONTRADICTS,
    "This is not an optimisation problem: the nets were trained fully.",
    "这不是优化问题（训练充分），而是更难学习。",
    "The same architecture reaches a low training error from another start, so the optimiser fails and not the "
    "model. He et al. call it an optimisation difficulty.",
    "同一架构从另一个起点出发就能达到很低的训练误差，所以失败的是优化而不是模型。He 等人称之为优化困难。",
    HE,
    measure=trained.degradation,
    tell="{deepest} plain layers: train error {deep_train:.1%} from He's weights, {identity_train:.1%} from "
    "identity-like ones",
    tell_zh="{deepest} 层普通网络的训练误差：从 He 权重出发 {deep_train:.1%}，从近似恒等的权重出发 "
    "{identity_train:.1%}",
    rule=Rule(lambda m: m.identity_train > m.deep_train / 2))

row("C68c", "three difficulties", INTERNAL,
    "A0 blames optimisation, A2 says that it is not optimisation, and both blame vanishing gradients.",
    "A0 归因于优化困难，A2 说不是优化问题；二者又都提梯度消失。",
    "A0 is right about optimisation (C05); neither is right about vanishing gradients (C20, C51b).",
    "关于优化，A0 说得对（C05）；关于梯度消失，两篇都不对（C20、C51b）。",
    "A0, section 1.1; A2, third difficulty")

row("C69", "three difficulties", COND,
    "Non-linear layers are bad at approximating the identity.",
    "非线性层难以逼近恒等映射。",
    "Two ReLU layers come near it soon, if they have the 2d hidden units that it takes; eight are far slower. He et "
    "al. offer it as a hypothesis.",
    "两层 ReLU 很快就能接近恒等，只要有所需的 2d 个隐藏单元；八层要慢得多。He 等人把它作为假设提出。",
    HE,
    measure=trained.identity_fit,
    tell="error of fitting H(x) = x after {steps} steps: 2 layers {shallow_plain:.2g}, {deepest} layers "
    "{deep_plain:.2g} (geometric mean of {seeds} seeds)",
    tell_zh="拟合 H(x) = x，{steps} 步后的误差：2 层 {shallow_plain:.2g}，{deepest} 层 {deep_plain:.2g}（{seeds} 个种"
    "子的几何平均）",
    rule=Rule(lambda m: m.deep_plain > 2.5 * m.shallow_plain, lambda m: m.shallow_plain < 0.2))

row("C70", "core idea", COND,
    "Zero is easy, because weights start close to zero.",
    "权重初始化接近零，所以学零更容易。",
    "True of GPT-2's small weights. With Xavier's or He's the branch is half to one and a half times as large as the "
    "stream.",
    "对 GPT-2 的小权重成立。用 Xavier 或 He 的权重时，分支是残差流的一半到一倍半大小。",
    measure=streams.branch_sizes,
    tell="size of a branch relative to the stream: gpt2 {gpt2:.3f}, Xavier {xavier:.2f}, He {he:.2f}",
    tell_zh="分支相对残差流的大小：gpt2 {gpt2:.3f}，Xavier {xavier:.2f}，He {he:.2f}",
    rule=Rule(lambda m: m.gpt2 < 0.1, lambda m: m.he > 0.5))

row("C71a", "core idea", HOLDS,
    "∂L/∂x = ∂L/∂y (∂F/∂x + 1).",
    "梯度公式：∂L/∂x=∂L/∂y·(∂F/∂x+1)。",
    "With the identity matrix in the place of 1.",
    "1 的位置应是单位矩阵。",
    measure=flow.backward_formulas,
    tell="back-propagation against the formula: {residual:.0e}",
    tell_zh="反向传播与公式：{residual:.0e}",
    rule=Rule(lambda m: m.residual < EXACT))

row("C71b", "core idea", COND,
    "The gradient passes without loss even if ∂F/∂x is small.",
    "即使 ∂F/∂x 很小，梯度也能无损传递。",
    "Without loss only if it is 0. Small branches add up over many layers (C19b).",
    "只有 ∂F/∂x 为 0 时才无损。很小的分支在许多层上会累积起来（C19b）。",
    measure=flow.products,
    tell="100 layers with ‖J‖ = 0.1: gain {lowest:.1e} to {highest:.1e}",
    tell_zh="100 层、‖J‖ = 0.1：增益 {lowest:.1e} 到 {highest:.1e}",
    rule=Rule(lambda m: 0.5 < m.independent < 2, lambda m: m.lowest < 0.5 or m.highest > 2))

row("C72", "core idea", HOLDS,
    "Without residuals the gradient is a product of all layers' Jacobians.",
    "无残差时梯度是各层雅可比的连乘。",
    "True, and the order of the factors matters.",
    "成立，而且因子的顺序不能交换。",
    measure=flow.backward_formulas,
    tell="product in order {plain:.0e}, in the other order {reversed:.2f}",
    tell_zh="按顺序相乘 {plain:.0e}，顺序颠倒 {reversed:.2f}",
    rule=Rule(lambda m: m.plain < EXACT and m.reversed > 0.01))

# ----------------------------------------------------------------------------------------------- Post-Norm, Pre-Norm

row("C73", "in Transformers", HOLDS,
    "Post-Norm: g_t = g_(t+1) J_Norm (J_F + I).",
    "Post-Norm 的梯度：g_t=g_{t+1}·J_Norm·(J_F+I)。",
    "With row vectors, and J_Norm taken at x + F(x).",
    "按行向量书写，J_Norm 取在 x + F(x) 处。",
    XIONG,
    measure=flow.backward_formulas,
    tell="back-propagation against the formula: {post:.0e}",
    tell_zh="反向传播与公式：{post:.0e}",
    rule=Rule(lambda m: m.post < EXACT))

row("C74", "in Transformers", COND,
    "J_Norm's eigenvalues are close to 1, but many layers make the gradient decay.",
    "J_Norm 特征值接近 1，但多层累积导致梯度衰减。",
    "They are 0 (twice) and 1/s, s the size of x + F(x): close to 1 for small branches, 0.7 on average for a branch "
    "as large as the stream. Along the skip alone they do accumulate. In all they do not: J_F makes up for it.",
    "特征值是 0（两个）和 1/s，s 是 x + F(x) 的大小：分支小时接近 1，分支与残差流一样大时平均为 0.7。只沿跳跃路径，它"
    "们确实累积成衰减；整体并不衰减，因为 J_F 补了回来。",
    measure=streams.norm_spectrum,
    tell="1/s of {rows} random vectors: {small_value:.3f} ± {small_spread:.3f} for a small branch, {unit_value:.2f} "
    "± {unit_spread:.2f} for a unit one (theory {small_law:.3f} and {unit_law:.2f}), and {unit_zeros[0]} zeros for "
    "each; over {layers} sublayers with unit branches, mean of {stacks} stacks: skip alone {unit_skip:.1e}, in all "
    "{unit_total:.2f} ± {unit_total_spread:.2f}",
    tell_zh="{rows} 个随机向量上的 1/s：小分支 {small_value:.3f} ± {small_spread:.3f}，单位分支 {unit_value:.2f} ± "
    "{unit_spread:.2f}（理论 {small_law:.3f} 与 {unit_law:.2f}），每个都恰有 {unit_zeros[0]} 个零特征值；单位分支的 "
    "{layers} 个子层，{stacks} 个堆叠的平均：只走跳跃路径 {unit_skip:.1e}，整体 {unit_total:.2f} ± "
    "{unit_total_spread:.2f}",
    rule=Rule(lambda m: abs(m.small_value - 1) < 0.05 and m.unit_zeros == [2, 2],
              lambda m: m.unit_value < 0.8 and m.unit_total > 0.5))

row("C75", "in Transformers", HOLDS,
    "Pre-Norm: g_t = g_(t+1) (J_F J_Norm + I); the residual path bypasses the norm.",
    "Pre-Norm：g_t=g_{t+1}·(J_F·J_Norm+I)，残差路径绕过 LayerNorm。",
    "With row vectors.",
    "按行向量书写。",
    XIONG,
    measure=flow.backward_formulas,
    tell="back-propagation against the formula: {pre:.0e}",
    tell_zh="反向传播与公式：{pre:.0e}",
    rule=Rule(lambda m: m.pre < EXACT))

row("C76a", "in Transformers", CONTRADICTS,
    "12 layers, Post-Norm: gradient norms 0.0012 at layer 1, 0.0876 at layer 6, 1 at layer 12.",
    "12 层 Post-Norm 梯度范数：0.0012、0.0876、1。",
    "At initialisation no standard setting gives this, and the two numbers do not even fit one rate of decay: the "
    "skip path alone would need two different branch sizes. What decays is the skip path; the branches make up for "
    "it.",
    "初始化时没有任何常规设置给出这些数，而且两个数甚至不符合同一个衰减率：只走跳跃路径的话，就需要两种不同的分支大"
    "小。衰减的是跳跃路径，分支把它补了回来。",
    XIONG + ", appendix F",
    measure=flow.twelve_layers,
    tell="{post_fit} of {cells} settings within 10 % (decoder and encoder, 5 initialisations, widths from "
    "{widths[0]} on, {seeds} seeds each); totals at layer 1 {post_decoder_low:.2f} to {post_decoder_high:.2f} "
    "(decoders), {post_encoder_low:.2f} to {post_encoder_high:.2f} (encoders); the skip path alone would need "
    "branches of size {needed_1:.2f} for layer 1 and {needed_6:.2f} for layer 6",
    tell_zh="解码器与编码器，5 种初始化，宽度 {widths[0]} 起，各 {seeds} 个种子：{cells} 种设置中 {post_fit} 种在 "
    "10 % 以内；第 1 层的总梯度，解码器 {post_decoder_low:.2f} 到 {post_decoder_high:.2f}，编码器 "
    "{post_encoder_low:.2f} 到 {post_encoder_high:.2f}；只走跳跃路径的话，第 1 层需要分支大小 {needed_1:.2f}，第 6 层"
    "需要 {needed_6:.2f}",
    rule=Rule(lambda m: m.post_fit > 0))

row("C76b", "in Transformers", COND,
    "12 layers, Pre-Norm: gradient norms 0.9845 at layer 1, 0.9912 at layer 6, 1 at layer 12.",
    "12 层 Pre-Norm 梯度范数：0.9845、0.9912、1。",
    "Near 1 only where the branches are tiny beside the stream. In the usual decoder the gradient *grows* towards "
    "layer 1.",
    "只有当分支相对残差流很小时才接近 1。在通常的解码器里，梯度朝第 1 层*增大*。",
    "Shleifer et al. 2021, arXiv:2110.09456",
    measure=flow.twelve_layers,
    tell="{pre_fit} of {cells} settings within 10 % (the settings of C76a), all with branches of at most "
    "{pre_fit_size:.2f} of the stream; totals at layer 1 {pre_decoder_low:.3f} to {pre_decoder_high:.2f} (decoders), "
    "{pre_encoder_low:.3f} to {pre_encoder_high:.2f} (encoders)",
    tell_zh="{cells} 种设置中 {pre_fit} 种在 10 % 以内（设置同 C76a），这些设置的分支至多为残差流的 "
    "{pre_fit_size:.2f}；第 1 层的总梯度，解码器 {pre_decoder_low:.3f} 到 {pre_decoder_high:.2f}，编码器 "
    "{pre_encoder_low:.3f} 到 {pre_encoder_high:.2f}",
    rule=Rule(lambda m: m.pre_fit > 0, lambda m: m.pre_fit < m.cells))

row("C76c", "in Transformers", COND,
    "Post-Norm's first layer gets less than a hundredth of the last layer's gradient.",
    "Post-Norm 首层梯度不足末层的百分之一。",
    "Not at the start (C76a). In training it falls that far with warm-up and without. The difference comes later: "
    "without warm-up it stays there, and the loss at the level of letter frequencies; with warm-up some runs recover.",
    "一开始不是（C76a）；训练中，有无 warm-up 都会降到那里。区别在后面：无 warm-up 时一直塌着，损失停在字母频率的水"
    "平；有 warm-up 时，一部分运行又恢复过来。",
    measure=trained.collapse,
    tell="{blocks} layers, {seeds} seeds, lr {lr:g}, layer 1 relative to the last layer within {steps} steps: "
    "without warm-up lowest {cold_lowest_low:.1e} to {cold_lowest_high:.1e}, at the end {cold_last_low:.1e} to "
    "{cold_last_high:.1e}; with {warmup} steps of warm-up lowest {warm_lowest_low:.1e} to {warm_lowest_high:.1e}, at "
    "the end {warm_last_low:.1e} to {warm_last_high:.2f}; final validation losses {cold_loss_low:.2f} to "
    "{cold_loss_high:.2f} and {warm_loss_low:.2f} to {warm_loss_high:.2f} (letter frequencies {unigram:.2f})",
    tell_zh="{blocks} 层，{seeds} 个种子，lr {lr:g}，{steps} 步内第 1 层与最后一层之比：无 warm-up 最低 "
    "{cold_lowest_low:.1e} 到 {cold_lowest_high:.1e}，结束时 {cold_last_low:.1e} 到 {cold_last_high:.1e}；warm-up "
    "{warmup} 步最低 {warm_lowest_low:.1e} 到 {warm_lowest_high:.1e}，结束时 {warm_last_low:.1e} 到 "
    "{warm_last_high:.2f}；最终验证损失 {cold_loss_low:.2f} 到 {cold_loss_high:.2f} 与 {warm_loss_low:.2f} 到 "
    "{warm_loss_high:.2f}（字母频率基线 {unigram:.2f}）",
    rule=Rule(lambda m: m.cold_lowest_high < 0.01, lambda m: m.warm_last_high > 0.1))

row("C77a", "in Transformers", COND,
    "Post-Norm's gradient decays exponentially towards the front.",
    "Post-Norm 梯度从后向前指数衰减。",
    "Its skip path does, the faster the larger the branches are. Its whole gradient at initialisation does not.",
    "跳跃路径确实衰减，分支越大衰减越快。初始化时的整体梯度并不衰减。",
    XIONG + ", appendix F",
    measure=flow.twelve_layers,
    tell="layer 1 relative to layer 12: skip path {post_skip_low:.1e} to {post_skip_high:.2f}, whole "
    "{post_1_low:.2f} to {post_1_high:.2f}",
    tell_zh="第 1 层相对第 12 层：跳跃路径 {post_skip_low:.1e} 到 {post_skip_high:.2f}，整体 {post_1_low:.2f} 到 "
    "{post_1_high:.2f}",
    rule=Rule(lambda m: m.post_skip_low < 0.05, lambda m: m.post_1_low > 0.1))

row("C77b", "in Transformers", COND,
    "Pre-Norm keeps nearly the same gradient in all layers.",
    "Pre-Norm 各层梯度强度几乎一致。",
    "Its skip path carries exactly 1. The whole gradient is larger in front, by a factor of a few, unless the "
    "branches are tiny. Later papers found just that mismatch.",
    "跳跃路径恰好传递 1。整体梯度在前面的层大几倍，除非分支很小。后来的论文发现的正是这种不均。",
    "Shleifer et al. 2021, arXiv:2110.09456",
    measure=flow.twelve_layers,
    tell="layer 1 relative to layer 12: skip path {pre_skip_low:.2f}, whole {pre_1_low:.3f} to {pre_1_high:.2f}",
    tell_zh="第 1 层相对第 12 层：跳跃路径 {pre_skip_low:.2f}，整体 {pre_1_low:.3f} 到 {pre_1_high:.2f}",
    rule=Rule(lambda m: m.pre_1_low < 1.1, lambda m: m.pre_1_high > 1.5))

row("C77c", "in Transformers", INTERNAL,
    "A0 says that Post-Norm explodes, A2 that it vanishes.",
    "A0 说 Post-Norm 梯度爆炸，A2 说消失。",
    "Both, of different things: the last layer's weight gradient is large (C25), the skip path's gradient decays "
    "(C77a).",
    "都对，但说的是不同的量：最后一层的权重梯度大（C25），跳跃路径的梯度衰减（C77a）。",
    "A0, table in section 4.1; A2, Pre-Norm vs Post-Norm")

# ------------------------------------------------------------------------------------------------------ the trade-off

row("C78", "trade-off", HOLDS,
    "Pre-Norm's activations grow layer by layer.",
    "Pre-Norm 激活值逐层累积增长。",
    "At the start the variance grows linearly and the rms like √l; Xiong et al. bound the growth per block by 1/2 "
    "and 3/2.",
    "初始化时方差线性增长，均方根像 √l；Xiong 等人给出的每块增长界限是 1/2 到 3/2。",
    XIONG,
    measure=streams.activation_growth,
    tell="variance grows by {slope:.2f} per block; the rms by a factor of {growth:.1f} in all",
    tell_zh="方差每块增长 {slope:.2f}；均方根总共增长 {growth:.1f} 倍",
    rule=Rule(lambda m: 0.5 < m.slope < 1.5 and m.growth > 2))

row("C79", "trade-off", COND,
    "Unrolled, Pre-Norm is x_L = x_0 + F_0(x_0) + F_1(x_1/√2) + F_2(x_2/√3) and so on.",
    "Pre-Norm 展开式：x_L=x_0+F_0(x_0)+F_1(x_1/√2)+F_2(x_2/√3)+…",
    "If x_0 and all branches are independent with unit variance, LN(x_l) is x_l/√(l+1) up to a few per cent. In a "
    "decoder they are neither.",
    "若 x_0 与所有分支相互独立、方差为 1，则 LN(x_l) 等于 x_l/√(l+1)，误差只有百分之几。在解码器里这些条件都不成立。",
    "Su Jianlin, spaces.ac.cn/archives/9009",
    measure=streams.activation_growth,
    tell="error of LN(x_l) ≈ x_l/√(l+1): independent unit branches {error_iid:.1%}, a decoder {error_real:.0%}",
    tell_zh="LN(x_l) ≈ x_l/√(l+1) 的误差：独立单位分支 {error_iid:.1%}，解码器 {error_real:.0%}",
    rule=Rule(lambda m: m.error_iid < 0.1, lambda m: m.error_real > 0.2))

row("C80a", "trade-off", HOLDS,
    "In deep Pre-Norm nets neighbouring layers read almost the same.",
    "Pre-Norm 很深时相邻层输入差异很小。",
    "Independent branches would give cos = √((l+1)/(l+2)). Measured at initialisation.",
    "若分支独立，则 cos = √((l+1)/(l+2))。在初始化时测得。",
    "Sun et al. 2025, arXiv:2502.05795",
    measure=streams.activation_growth,
    tell="cos(x_l, x_(l+1)): {cos_first:.3f} at first, {cos_last:.3f} after {sublayers} sublayers (model "
    "{cos_model:.3f})",
    tell_zh="cos(x_l, x_(l+1))：开始 {cos_first:.3f}，{sublayers} 个子层后 {cos_last:.3f}（独立模型 {cos_model:.3f}）",
    rule=Rule(lambda m: m.cos_last > 0.97 and m.cos_last > m.cos_first))

row("C80b", "trade-off", COND,
    "So many layers act more like width than like depth.",
    "叠多层更像增加宽度而非深度。",
    "In the deep half of a small trained model, yes: to swap neighbouring blocks, or to run them side by side, costs "
    "far less than to lose one. At the front the order still matters.",
    "在训练好的小模型的深半部，确实如此：交换相邻的块或让它们并排运行，代价远小于去掉一个块。在最前面则不然：那里顺序"
    "仍然重要。",
    "Sun et al. 2025, arXiv:2502.05795",
    measure=play.neighbours,
    tell="{blocks} blocks after {steps} steps, rise of the loss: in the deep half neighbours swapped "
    "{swapped_deep:.3f}, side by side {together_deep:.3f}, one block gone {gone_deep:.3f}; the first pair "
    "{swapped_first:.3f}, {together_first:.3f} and {gone_first:.3f}",
    tell_zh="{blocks} 个块，{steps} 步，损失的上升：深半部交换相邻块 {swapped_deep:.3f}，并排运行 "
    "{together_deep:.3f}，去掉一个块 {gone_deep:.3f}；最前面的一对分别为 {swapped_first:.3f}、{together_first:.3f}、"
    "{gone_first:.3f}",
    rule=Rule(lambda m: max(m.swapped_deep, m.together_deep) < 0.3 * m.gone_deep,
              lambda m: m.swapped_first > 0.2 * m.gone_first))

row("C81", "trade-off", OPEN,
    "Once it trains, Post-Norm ends up better.",
    "Post-Norm 一旦训练成功，最终性能更好。",
    "Reported for machine translation. To settle it here takes tuned learning rates and several seeds, about half an "
    "hour on such a machine.",
    "机器翻译上有这样的报告。在这里要有定论，需要调过的学习率和多个种子，在这样的机器上约要半小时。",
    ADMIN + "; " + DEEPNET,
    plan="`minires sweep --recipes post_norm pre_norm --depth 6 --width 32 --seeds 0,1,2,3,4 --steps 3000 --warmup 300 "
    "--lr 0.001 --out c81_1.jsonl`, and the same with 0.0005 and 0.002, each into a file of its own; then compare the "
    "loss on validation text and its spread, each rule at its best learning rate.",
    plan_zh="运行 `minires sweep --recipes post_norm pre_norm --depth 6 --width 32 --seeds 0,1,2,3,4 --steps 3000 "
    "--warmup 300 --lr 0.001 --out c81_1.jsonl`，再用 0.0005 和 0.002 各运行一次，各写入自己的文件；然后在各自最好的"
    "学习率下比较验证文本上的损失及其离散程度。")

row("C82", "trade-off", CONTRADICTS,
    "GPT-2 uses a scale factor on residual outputs against the accumulation.",
    "GPT-2 用残差输出缩放因子缓解激活累积。",
    "It scales the *weights* of residual layers at *initialisation* by 1/√N. At run time there is no factor.",
    "它在*初始化*时把残差层的*权重*乘以 1/√N。运行时没有任何因子。",
    GPT2 + ", section 2.3",
    measure=scalars.gpt2_factor,
    tell="12 blocks: fresh output weights × {init_ratio:.3f}; the step differs from x + F(LN(x)) by "
    "{runtime_difference:.0e}",
    tell_zh="12 个块：初始输出权重 × {init_ratio:.3f}；每步与 x + F(LN(x)) 相差 {runtime_difference:.0e}",
    rule=Rule(lambda m: m.runtime_difference > 1e-6))

# -------------------------------------------------------------------------------------------------- the residual stream

row("C83a", "residual stream", HOLDS,
    "2021: the residual stream is a channel that every layer reads from and writes to.",
    "2021 年提出“残差流”：每层读出并写回。",
    "So the paper puts it.",
    "论文就是这样表述的。",
    ELHAGE)

row("C83b", "residual stream", COND,
    "x^(l+1) = x^l + Attention(x^l) + FFN(x^l).",
    "残差流公式：x^(l+1)=x^l+Attention(x^l)+FFN(x^l)。",
    "True of parallel blocks. In the usual block the FFN reads what attention has written.",
    "对并行块成立。在通常的块里，FFN 读的是注意力写完之后的内容。",
    ELHAGE,
    measure=streams.printed_blocks,
    tell="against a sequential block without norms: relative difference {parallel:.2f}; our block against the two "
    "sublayers one after the other {pre:.0e}",
    tell_zh="与无归一化的顺序块相比：相对差 {parallel:.2f}；我们的块与两个子层先后执行相比 {pre:.0e}",
    rule=Rule(lambda m: m.pre < EXACT, lambda m: m.parallel > 0.01))

row("C84", "residual stream", HOLDS,
    "What is written stays until it is deleted explicitly.",
    "信息一旦写入就持续存在，除非被显式删除。",
    "Subtract all later writes and the earlier state is back.",
    "减去后来的全部写入，先前的状态就回来了。",
    ELHAGE,
    measure=streams.unrolled_sum,
    tell="x_K minus the second half of the writes against the middle state: {middle:.0e}",
    tell_zh="x_K 减去后一半写入，与中间状态：{middle:.0e}",
    rule=Rule(lambda m: m.middle < EXACT))

row("C85a", "residual stream", HOLDS,
    "Any two layers are connected by virtual weights, because the stream is linear.",
    "虚拟权重：残差流线性，任意两层间有隐式直接连接。",
    "The product of one layer's output weights with another's input weights.",
    "一层的输出权重与另一层的输入权重之积。",
    ELHAGE,
    measure=streams.virtual_weights,
    tell="effect along the skip against W_out W_in: {direct:.0e}",
    tell_zh="沿跳跃路径的影响与 W_out W_in：{direct:.0e}",
    rule=Rule(lambda m: m.direct < EXACT))

row("C85b", "residual stream", CONTRADICTS,
    "All layers in between fold into one equivalent transformation.",
    "可将所有中间层变换折叠成一个等价变换。",
    "Only the skip folds. The layers in between are not linear and answer to the change.",
    "能折叠的只有跳跃路径。中间的层不是线性的，会对变化作出反应。",
    ELHAGE,
    measure=streams.virtual_weights,
    tell="with one layer in between the effect differs from W_out W_in by {total:.0%}",
    tell_zh="中间隔一层时，影响与 W_out W_in 相差 {total:.0%}",
    rule=Rule(lambda m: m.total < 0.01))

row("C86", "residual stream", HOLDS,
    "The stream is a bottleneck: a layer has four times as many neurons as the stream has dimensions.",
    "带宽瓶颈：前馈网络通常是残差流维度的 4 倍。",
    "And all layers share the one stream.",
    "而且所有层共用同一条残差流。",
    ELHAGE,
    measure=scalars.bandwidth,
    tell="{ratio:.0f} neurons per dimension and layer; {before:.0f} before layer {layer} of {blocks}",
    tell_zh="每层每维 {ratio:.0f} 个神经元；{blocks} 层中第 {layer} 层之前每维已有 {before:.0f} 个",
    rule=Rule(lambda m: m.ratio == 4))

row("C87", "residual stream", COND,
    "Research found neurons that manage memory: they write the negative of what they read.",
    "某些神经元执行“内存管理”：写入负值清理信息。",
    "The source is more careful: it has *seen hints* that some neurons and heads *may* do so. In our small trained "
    "model no neuron does, but heads do: after training the W_V W_O of many mainly writes the negative of what it "
    "reads, before training of none.",
    "原文更谨慎：只说*看到迹象*，某些神经元和注意力头*可能*如此。在我们训练的小模型里，神经元没有这样做，但注意力头"
    "有：训练后许多头的 W_V W_O 主要写入所读内容的负值，训练前没有。",
    ELHAGE,
    measure=play.trained_stream,
    tell="{blocks} blocks after {steps} steps: neurons with cos(w_in, w_out) < -0.5 {neurons_after:.0%} (before "
    "training {neurons_before:.0%}); heads that mainly erase, Σλ/Σ|λ| < -0.25, {heads_after:.0%} (before "
    "{heads_before:.0%}), mean score {head_after:.2f} (before {head_before:.2f})",
    tell_zh="{blocks} 个块，{steps} 步：cos(w_in, w_out) < -0.5 的神经元占 {neurons_after:.0%}（训练前 "
    "{neurons_before:.0%}）；以擦除为主的头（Σλ/Σ|λ| < -0.25）占 {heads_after:.0%}（训练前 {heads_before:.0%}），该分"
    "数平均 {head_after:.2f}（训练前 {head_before:.2f}）",
    rule=Rule(lambda m: m.heads_after > m.heads_before + 0.1, lambda m: m.neurons_after <= m.neurons_before))

row("C88", "residual stream", COND,
    "Each layer's top token often equals the final one, and more so with depth.",
    "每层残差的最高概率词与最终预测重合率高且递增。",
    "It does rise from block to block. But behind the first blocks it is below one half: only late layers are "
    "“high”. The logit lens is also known to be unreliable in early layers.",
    "确实逐块上升。但前几个块之后还低于一半：只有后面的层才算“高”。而且 logit 透镜在前面的层本来就不可靠。",
    "Belrose et al. 2023, arXiv:2303.08112",
    measure=play.trained_stream,
    tell="{blocks} blocks after {steps} steps; share with the final first choice behind 0 to {blocks} blocks: "
    "{agreement[0]:.0%}, {agreement[1]:.0%}, {agreement[2]:.0%}, {agreement[3]:.0%}, {agreement[4]:.0%}, "
    "{agreement[5]:.0%}, {agreement[6]:.0%}; at {keeps:.0%} of the positions it stays once it is there",
    tell_zh="{blocks} 个块，{steps} 步；0 到 {blocks} 个块之后，首选与最终相同的比例：{agreement[0]:.0%}、"
    "{agreement[1]:.0%}、{agreement[2]:.0%}、{agreement[3]:.0%}、{agreement[4]:.0%}、{agreement[5]:.0%}、"
    "{agreement[6]:.0%}；{keeps:.0%} 的位置一旦相同就不再改变",
    rule=Rule(lambda m: m.agreement_step > 0, lambda m: m.agreement[1] < 0.5))

row("C89", "residual stream", COND,
    "The probability of the final token rises layer by layer.",
    "最终 token 的概率逐层提高。",
    "On average it does. At a single position it rarely does: at most positions it falls behind one block or another.",
    "平均而言成立。单个位置上很少如此：大多数位置上，它至少在某个块之后下降过。",
    "Belrose et al. 2023, arXiv:2303.08112",
    measure=play.trained_stream,
    tell="{blocks} blocks after {steps} steps; mean probability of the final first choice behind 0 to {blocks} "
    "blocks: {probability[0]:.2f}, {probability[1]:.2f}, {probability[2]:.2f}, {probability[3]:.2f}, "
    "{probability[4]:.2f}, {probability[5]:.2f}, {probability[6]:.2f}; it never falls at {never_falls:.0%} of the "
    "positions",
    tell_zh="{blocks} 个块，{steps} 步；0 到 {blocks} 个块之后，最终首选的平均概率：{probability[0]:.2f}、"
    "{probability[1]:.2f}、{probability[2]:.2f}、{probability[3]:.2f}、{probability[4]:.2f}、{probability[5]:.2f}、"
    "{probability[6]:.2f}；从不下降的位置只占 {never_falls:.0%}",
    rule=Rule(lambda m: m.probability_step > -0.01, lambda m: m.never_falls < 0.5))

# -------------------------------------------------------------------------------------------------------------- DeepNet

row("C90", "DeepNet", HOLDS,
    "2022: DeepNet reaches 1000 layers, an order of magnitude more than before.",
    "2022 年 DeepNet 达到 1000 层。",
    "500 encoder and 500 decoder layers, 2500 sublayers.",
    "编码器 500 层、解码器 500 层，共 2500 个子层。",
    DEEPNET)

row("C91", "DeepNet", HOLDS,
    "DeepNorm is x ← LN(αx + F(x)).",
    "DeepNorm 的公式：x←LN(αx+F(x))。",
    "Half of it: the initialisation of four weights by β belongs to it.",
    "只是一半：用 β 初始化四个权重也属于 DeepNorm。",
    DEEPNET,
    measure=streams.deepnorm_step,
    tell="our step against the formula ({blocks} blocks, α = {deepnorm_alpha:.2f}): {deepnorm_formula:.0e}",
    tell_zh="我们的一步与公式（{blocks} 个块，α = {deepnorm_alpha:.2f}）：{deepnorm_formula:.0e}",
    rule=Rule(lambda m: m.deepnorm_formula < EXACT and m.deepnorm_alpha > 1))

row("C92", "DeepNet", CONTRADICTS,
    "For 1000 layers α = √(41 · L), about 202.",
    "1000 层时 α=√(41×L)≈202。",
    "α = (2N)^¼ for one stack of N layers. The real network's halves have their own formulas. No 41 is in the paper "
    "or its code.",
    "N 层的单个堆叠，α = (2N)^¼。真实网络的编码器和解码器各有自己的公式。论文和代码里都没有 41。",
    DEEPNET + ", figure 2",
    measure=scalars.deepnorm_alpha,
    tell="α = {alpha:.2f} for a stack of 1000; encoder {encoder:.2f} and decoder {decoder:.2f} of the real network; "
    "the article {article:.0f}",
    tell_zh="1000 层的堆叠 α = {alpha:.2f}；真实网络的编码器 {encoder:.2f}，解码器 {decoder:.2f}；文章 {article:.0f}",
    rule=Rule(lambda m: abs(m.alpha / m.article - 1) < 0.1))

row("C93a", "DeepNet", CONTRADICTS,
    "α amplifies the residual branch.",
    "放大残差分支的权重。",
    "It amplifies the skip, and the branch becomes smaller beside it.",
    "放大的是跳跃路径，分支相对变小。",
    DEEPNET,
    measure=streams.deepnorm_step,
    tell="branch relative to skip, {blocks} blocks: DeepNorm {deepnorm_ratio:.3f}, Post-Norm {post_norm_ratio:.2f}",
    tell_zh="分支相对跳跃路径，{blocks} 个块：DeepNorm {deepnorm_ratio:.3f}，Post-Norm {post_norm_ratio:.2f}",
    rule=Rule(lambda m: m.deepnorm_ratio > m.post_norm_ratio))

row("C93b", "DeepNet", HOLDS,
    "So the model is closer to the identity.",
    "使模型更接近恒等映射。",
    "At every layer.",
    "每一层都如此。",
    DEEPNET,
    measure=streams.deepnorm_step,
    tell="mean and smallest cos(x_k, x_(k+1)): DeepNorm {deepnorm_cos:.4f} and {deepnorm_lowest:.3f}, Post-Norm "
    "{post_norm_cos:.2f} and {post_norm_lowest:.2f}",
    tell_zh="cos(x_k, x_(k+1)) 的平均与最小值：DeepNorm {deepnorm_cos:.4f} 与 {deepnorm_lowest:.3f}，Post-Norm "
    "{post_norm_cos:.2f} 与 {post_norm_lowest:.2f}",
    rule=Rule(lambda m: m.deepnorm_lowest > m.post_norm_cos and m.deepnorm_cos > 0.99))

row("C94a", "DeepNet", COND,
    "DeepNet proves ‖Δθ‖ ≤ O(√L).",
    "DeepNet 证明 ‖Δθ‖≤O(√L)。",
    "Not as a quotation: theorem 4.2 bounds the update of the *function*, ‖ΔF‖. As an inequality it is true, but "
    "says nothing about DeepNorm: Adam's steps have a fixed size, so that ‖Δθ‖ grows like √L in every network, in "
    "ordinary Post-Norm too.",
    "作为引文不对：定理 4.2 约束的是*函数*的更新 ‖ΔF‖。作为不等式成立，但与 DeepNorm 无关：Adam 的步长是固定的，任何"
    "网络的 ‖Δθ‖ 都按 √L 增长，普通 Post-Norm 也一样。",
    DEEPNET + ", theorem 4.2",
    measure=flow.updates,
    tell="one step of the matrices, {first} to {last} blocks, exponent of ‖Δθ‖ in depth: DeepNorm "
    "{deepnorm_sgd_theta_slope:.2f} (SGD) and {deepnorm_adam_theta_slope:.2f} (Adam), Post-Norm "
    "{post_norm_sgd_theta_slope:.2f} and {post_norm_adam_theta_slope:.2f}",
    tell_zh="矩阵走一步，{first} 到 {last} 个块，‖Δθ‖ 随深度的指数：DeepNorm，SGD {deepnorm_sgd_theta_slope:.2f}，"
    "Adam {deepnorm_adam_theta_slope:.2f}；Post-Norm，SGD {post_norm_sgd_theta_slope:.2f}，Adam "
    "{post_norm_adam_theta_slope:.2f}",
    rule=Rule(lambda m: max(m.deepnorm_sgd_theta_slope, m.deepnorm_adam_theta_slope) < 0.55,
              lambda m: abs(m.post_norm_adam_theta_slope - m.deepnorm_adam_theta_slope) < 0.05))

row("C94b", "DeepNet", COND,
    "DeepNorm's updates grow at most like √L.",
    "使用 DeepNorm 后更新有界（至多 √L）。",
    "True of the weight matrices: ‖ΔF‖ does not depend on the depth for SGD, and grows like √L for Adam, whose steps "
    "have a fixed size per parameter. The theorem's bound is written in the scales v, w of the matrices alone. Biases "
    "and the norms' gains and shifts do not appear in it, no β scales them, and their updates grow faster.",
    "对权重矩阵成立：SGD 下 ‖ΔF‖ 不随深度变化，Adam 下像 √L，因为 Adam 每个参数的步长固定。定理的界只用矩阵的尺度 v、w"
    "写成；偏置和归一化的增益、平移不在其中，也不乘 β，它们的更新增长更快。",
    DEEPNET + ", theorem 4.2",
    measure=flow.updates,
    tell="one step, {first} to {last} blocks, exponent of ‖ΔF‖ in depth (SGD / Adam): matrices "
    "{deepnorm_sgd_matrices_slope:.2f} / {deepnorm_adam_matrices_slope:.2f}, biases {deepnorm_sgd_biases_slope:.2f} "
    "/ {deepnorm_adam_biases_slope:.2f}, norms {deepnorm_sgd_norms_slope:.2f} / {deepnorm_adam_norms_slope:.2f}",
    tell_zh="走一步，{first} 到 {last} 个块，‖ΔF‖ 随深度的指数（SGD / Adam）：矩阵 {deepnorm_sgd_matrices_slope:.2f} "
    "/ {deepnorm_adam_matrices_slope:.2f}，偏置 {deepnorm_sgd_biases_slope:.2f} / {deepnorm_adam_biases_slope:.2f}，"
    "归一化 {deepnorm_sgd_norms_slope:.2f} / {deepnorm_adam_norms_slope:.2f}",
    rule=Rule(lambda m: max(m.deepnorm_sgd_matrices_slope, m.deepnorm_adam_matrices_slope) < 0.6,
              lambda m: m.deepnorm_sgd_norms_slope > 0.6))

row("C95", "DeepNet", CONTRADICTS,
    "Post-Norm's updates grow exponentially.",
    "普通 Post-Norm 更新范数呈指数级增长。",
    "They grow like a power of the depth, far more slowly than an exponential that begins alike. A step so large that "
    "the output changes altogether would hide this: its ‖ΔF‖ cannot exceed √2.",
    "像深度的幂那样增长，远慢于起点相同的指数函数。步长过大时看不出来：输出已面目全非，‖ΔF‖ 最多到 √2。",
    DEEPNET,
    measure=flow.updates,
    tell="a small SGD step of Post-Norm's matrices: ‖ΔF‖ grows {post_growth:.0f} times from {first} to {last} blocks, "
    "exponent {post_norm_sgd_matrices_slope:.1f} (DeepNorm: {deep_growth:.1f} times); log of the growth in the last "
    "quadrupling of depth over that in the first {bend:.1f} (a power: {of_power:.0f}, an exponential: "
    "{of_exponential:.0f})",
    tell_zh="Post-Norm 的矩阵走一小步 SGD：从 {first} 到 {last} 个块，‖ΔF‖ 增长 {post_growth:.0f} 倍，指数 "
    "{post_norm_sgd_matrices_slope:.1f}（DeepNorm {deep_growth:.1f} 倍）；深度最后一次与第一次乘四，增长的对数之比 "
    "{bend:.1f}（幂函数 {of_power:.0f}，指数函数 {of_exponential:.0f}）",
    rule=Rule(lambda m: m.bend > (m.of_power * m.of_exponential) ** 0.5))

row("C96", "DeepNet", HOLDS,
    "200 layers with 3.2B parameters beat 48 layers with 12B by 5 BLEU, over 7482 directions.",
    "200 层 3.2B 比 48 层 12B 高 5 BLEU（7482 个方向）。",
    "Stated in the abstract. The data had grown too.",
    "摘要中写明。不过数据也增加了。",
    DEEPNET)

# ---------------------------------------------------------------------------------------------------- Hyper-Connections

row("C97", "Hyper-Connections", HOLDS,
    "Hyper-Connections are an ICLR 2025 paper.",
    "《Hyper-Connections》为 ICLR 2025 论文。",
    "Yes.",
    "是的。",
    HYPER)

row("C98", "Hyper-Connections", HOLDS,
    "A seesaw: Pre-Norm's representations collapse, Post-Norm's gradients vanish.",
    "跷跷板：Pre-Norm 表示坍塌，Post-Norm 梯度消失。",
    "It is the paper's framing. For the second half see C77a.",
    "这是该论文的表述方式。后一半见 C77a。",
    HYPER)

row("C99", "Hyper-Connections", HOLDS,
    "There are depth connections and width connections.",
    "有深度连接和宽度连接。",
    "B and the diagonal of A_r carry through depth; A_m and A_r mix the n copies at one layer.",
    "B 和 A_r 的对角线沿深度传递；A_m 与 A_r 在同一层混合 n 份副本。",
    HYPER,
    measure=scalars.connection_counts,
    tell="shapes of A_m, A_r, B at a sublayer: {shapes}",
    tell_zh="一个子层处 A_m、A_r、B 的形状：{shapes}",
    rule=Rule(lambda m: [list(s) for s in m.shapes] == [[m.n], [m.n, m.n], [m.n]]))

row("C100", "Hyper-Connections", CONTRADICTS,
    "They are H̃ = M [H⁽⁰⁾, …, H⁽ᴸ⁾]ᵀ, one matrix over all earlier layers.",
    "公式 H̃=M·[H^(0),…,H^(L)]^T，即一个矩阵作用于所有先前各层。",
    "That is DenseFormer. Hyper-Connections carry n copies of the stream and mix only those: H ← A_rᵀH + Bᵀ F(A_mᵀH).",
    "那是 DenseFormer。Hyper-Connections 携带 n 份残差流副本，只混合这些副本：H ← A_rᵀH + Bᵀ F(A_mᵀH)。",
    HYPER + "; arXiv:2402.02622",
    measure=scalars.connection_counts,
    tell="weights at a sublayer with {depths[0]} and with {depths[1]} blocks: Hyper-Connections {per_site[0]:.0f} "
    "and {per_site[1]:.0f}; at DenseFormer's last block {dense[0]} and {dense[1]}",
    tell_zh="{depths[0]} 与 {depths[1]} 个块，一个子层的权重数：Hyper-Connections {per_site[0]:.0f} 与 "
    "{per_site[1]:.0f}；DenseFormer 最后一个块 {dense[0]} 与 {dense[1]}",
    rule=Rule(lambda m: m.per_site[1] > m.per_site[0]))

row("C101", "Hyper-Connections", HOLDS,
    "The dynamic version adapts the weights to the input.",
    "动态版本根据输入自适应调整。",
    "Per token.",
    "逐 token 变化。",
    HYPER,
    measure=streams.dynamic_weights,
    tell="change of A_r from one token to another: static {static:.0f}, dynamic {dynamic:.2f}",
    tell_zh="A_r 从一个 token 到另一个的变化：静态 {static:.0f}，动态 {dynamic:.2f}",
    rule=Rule(lambda m: m.static == 0 and m.dynamic > 0.01))

row("C102a", "Hyper-Connections", HOLDS,
    "OLMo: training converges 1.8 times faster, ARC-Challenge rises by 6 points.",
    "OLMo：收敛快 1.8 倍，ARC-C 提升 6 分。",
    "OLMoE-1B-7B with dynamic connections, four copies: 41.8 → 47.8.",
    "指 OLMoE-1B-7B，动态连接，四份副本：41.8 → 47.8。",
    HYPER)

row("C102b", "Hyper-Connections", HOLDS,
    "There were no loss spikes.",
    "训练无损失尖峰。",
    "Shown for another model, OLMo-7B.",
    "展示的是另一个模型 OLMo-7B。",
    HYPER)

row("C103", "Hyper-Connections", HOLDS,
    "The learned pattern mixes Pre-Norm's access to low layers with Post-Norm's decay.",
    "学到的模式兼有 Pre-Norm 与 Post-Norm 特性。",
    "Shown for their trained model (a Λ-shaped pattern).",
    "展示的是他们训练出的模型（Λ 形图案）。",
    HYPER)

# ------------------------------------------------------------------------------------------------------- practice

row("C104", "practice", COND,
    "Pre-Norm for more than 12 layers, Post-Norm for up to 12.",
    "超过 12 层选 Pre-Norm，12 层及以下可用 Post-Norm。",
    "A rule of thumb. BERT-large is Post-Norm with 24 layers.",
    "经验法则。BERT-large 就是 24 层的 Post-Norm。",
    "Devlin et al. 2018, arXiv:1810.04805")

row("C105a", "practice", HOLDS,
    "Multiply the sublayer outputs of deep Pre-Norm nets by about 1/√L.",
    "深层 Pre-Norm 子层输出乘约 1/√L。",
    "Then independent branches together have the size of one, and L layers stay stable (C19b).",
    "这样，独立的分支合起来只有一个分支的大小，L 层保持稳定（C19b）。",
    "Yang et al. 2023, arXiv:2310.02244",
    measure=flow.products,
    tell="100 layers with independent branches of norm 0.1 = 1/√100: gain {independent:.2f}",
    tell_zh="100 层，独立分支，范数 0.1 = 1/√100：增益 {independent:.2f}",
    rule=Rule(lambda m: 0.5 < m.independent < 2))

row("C105b", "practice", COND,
    "GPT-2 uses a factor of about 0.14.",
    "GPT-2 使用约 0.14 的缩放因子。",
    "1/√N for N residual layers is 0.144 for GPT-2 medium only (48), or for XL if its 48 blocks are counted once. It "
    "is a factor on fresh weights (C82).",
    "N 个残差层时的 1/√N，只有 GPT-2 medium（48）才是 0.144；若把 XL 的 48 个块各算一次，也得此数。它是初始权重上的因"
    "子（C82）。",
    GPT2 + ", section 2.3",
    measure=scalars.gpt2_factor,
    tell="1/√N: small {small:.3f}, medium {medium:.3f}, large {large:.3f}, XL {XL:.3f}",
    tell_zh="1/√N：small {small:.3f}，medium {medium:.3f}，large {large:.3f}，XL {XL:.3f}",
    rule=Rule(lambda m: bool(m.near), lambda m: len(m.near) < 4))

row("C106", "practice", HOLDS,
    "Post-Norm is more sensitive to initialisation.",
    "Post-Norm 对初始化更敏感。",
    "Three papers agree, and so does a small model: from one initialisation to another Pre-Norm's loss hardly "
    "changes, and Post-Norm does not train from large weights. From small ones it is no worse than Pre-Norm.",
    "三篇论文一致，这里也一样：换初始化时，Pre-Norm 的损失几乎不变；Post-Norm 用大权重就训不动。Post-Norm 用小权重时"
    "不比 Pre-Norm 差。",
    XIONG + "; " + ADMIN + "; " + DEEPNET,
    measure=trained.init_grid,
    tell="{blocks} blocks, {steps} steps, lr {lr:g}, no warm-up, validation loss from gpt2_scaled / gpt2 / Xavier / "
    "He: Post-Norm {post_gpt2_scaled:.2f} / {post_gpt2:.2f} / {post_xavier:.2f} / {post_he:.2f}, Pre-Norm "
    "{pre_gpt2_scaled:.2f} / {pre_gpt2:.2f} / {pre_xavier:.2f} / {pre_he:.2f}; letter frequencies {unigram:.2f}",
    tell_zh="{blocks} 个块，{steps} 步，lr {lr:g}，无 warm-up，验证损失（gpt2_scaled / gpt2 / Xavier / He）："
    "Post-Norm {post_gpt2_scaled:.2f} / {post_gpt2:.2f} / {post_xavier:.2f} / {post_he:.2f}，Pre-Norm "
    "{pre_gpt2_scaled:.2f} / {pre_gpt2:.2f} / {pre_xavier:.2f} / {pre_he:.2f}；字母频率基线 {unigram:.2f}",
    rule=Rule(lambda m: m.post_range > 3 * m.pre_range))

row("C107", "practice", COND,
    "Post-Norm almost must have warm-up, Pre-Norm may leave it out.",
    "Post-Norm 几乎必须 warmup，Pre-Norm 可省略。",
    "The same measurement as C24b: true with Xavier's weights, not with small ones.",
    "与 C24b 是同一次测量：用 Xavier 权重时成立，用小权重时不成立。",
    XIONG,
    measure=trained.warm_up,
    tell="without / with warm-up at lr {lr:g}: Post-Norm {post_cold:.2f} / {post_warm:.2f}, Pre-Norm {pre_cold:.2f} "
    "/ {pre_warm:.2f}; Post-Norm with small weights, without {small_cold:.2f}",
    tell_zh="lr {lr:g}，无 / 有 warm-up：Post-Norm {post_cold:.2f} / {post_warm:.2f}，Pre-Norm {pre_cold:.2f} / "
    "{pre_warm:.2f}；Post-Norm 用小权重、无 warm-up {small_cold:.2f}",
    rule=Rule(lambda m: m.post_cold > m.post_warm + 0.2 and m.pre_cold < m.unigram - 0.3,
              lambda m: m.small_cold < m.unigram - 0.3))

row("C108a", "practice", HOLDS,
    "Pre-Norm needs a final LayerNorm before the head.",
    "Pre-Norm 通常需要最终 LayerNorm。",
    "Standard practice, and the reason why the last layer's gradient falls with depth: without it, it rises. Small "
    "models train without it too.",
    "这是通行做法，也是最后一层梯度随深度下降的原因：没有它，梯度随深度上升。小模型没有它也能训练。",
    XIONG,
    measure=flow.norm_placement,
    tell="last state's rms at {deepest} blocks {pre_size:.1f}; exponent of the last weight's gradient with the norm "
    "{pre_slope:+.2f}, without {bare_slope:+.2f}",
    tell_zh="{deepest} 个块时最后状态的均方根 {pre_size:.1f}；最后权重梯度随深度的指数：有归一化 {pre_slope:+.2f}，"
    "无 {bare_slope:+.2f}",
    rule=Rule(lambda m: m.pre_size > 1.5 and m.pre_slope < 0 < m.bare_slope))

row("C108b", "practice", INTERNAL,
    "A0 gives the final norm to Post-Norm, A2 to Pre-Norm.",
    "A0 说 Post-Norm 需要最终归一化，A2 说 Pre-Norm 需要。",
    "A2 is right (C26a, C26b, C108a).",
    "A2 是对的（C26a、C26b、C108a）。",
    "A0, table in section 4.1; A2, key configuration parameters")

row("C109", "references", HOLDS,
    "The list of eight references.",
    "八篇参考文献。",
    "The six identifiers lead to the papers named; the other two have none.",
    "六个编号都指向所列论文；另外两篇没有编号。",
    "arXiv:1512.03385, 1603.05027, 1706.03762, 2002.04745, 2203.00555, 2409.19606")
