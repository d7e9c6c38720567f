"""Rows of the first article, A0: C01-C49."""

from __future__ import annotations

from typing import Any

from minires.claims import flow, play, printed, scalars, streams, trained
from minires.claims.ledger import COND, CONTRADICTS, HOLDS, UNCHECKABLE, Claim, Rule, add

EXACT = 1e-9  # two ways to compute the same number in float64
HE = "He et al. 2015, arXiv:1512.03385"
VASWANI = "Vaswani et al. 2017, arXiv:1706.03762"
XIONG = "Xiong et al. 2020, arXiv:2002.04745"
CAIT = "Touvron et al. 2021, arXiv:2103.17239"
VEIT = "Veit et al. 2016, arXiv:1605.06431"
ELHAGE = "Elhage et al. 2021, A Mathematical Framework for Transformer Circuits"


def row(
    id: str, section: str, expected: str, claim: str, claim_zh: str, finding: str, finding_zh: str, source: str = "",
    **measured: Any,
):  # fmt: skip
    add(Claim(id, "A0", section, claim, claim_zh, expected, finding, finding_zh, source, **measured))


# ------------------------------------------------------------------------------------ 1: depth, and what ResNet does

row("C01", "1.1", HOLDS,
    "Gradients that shrink to 0.9 per layer are about 0.005 after 50 layers.",
    "每层梯度为 0.9，50 层后约为 0.005。",
    "True as arithmetic. A layer is a matrix, not a number: see C19b for what a product of matrices can do.",
    "作为算术成立。但一层是矩阵，不是一个数：矩阵连乘会怎样，见 C19b。",
    measure=scalars.powers,
    tell="0.9^50 = {p09:.6f}",
    tell_zh="0.9^50 = {p09:.6f}",
    rule=Rule(lambda m: round(m.p09, 3) == 0.005))

row("C02", "1.1", HOLDS,
    "Gradients that grow to 1.1 per layer are about 117 after 50 layers.",
    "每层梯度为 1.1，50 层后约为 117。",
    "True as arithmetic; the same toy as C01.",
    "作为算术成立；与 C01 是同一个玩具模型。",
    measure=scalars.powers,
    tell="1.1^50 = {p11:.2f}",
    tell_zh="1.1^50 = {p11:.2f}",
    rule=Rule(lambda m: round(m.p11) == 117))

row("C03", "1.1", COND,
    "Beyond 20 layers gradients vanish or explode.",
    "超过 20 层，梯度就会消失或爆炸。",
    "It depends on the initialisation. With LeCun's (variance 1/d) a ReLU net halves the gradient's square at every "
    "layer; with He's (2/d), made for ReLU, the gradient keeps its size at 56 layers.",
    "取决于初始化。用 LeCun 初始化（方差 1/d）时，ReLU 网络每过一层，梯度平方减半；He 初始化（2/d）专为 ReLU 设计，"
    "到 56 层梯度大小仍基本不变。",
    "He et al. 2015, arXiv:1502.01852",
    measure=flow.plain_gradients,
    tell="‖∂L/∂x_0‖ / ‖∂L/∂x_K‖ of a plain net: LeCun {lecun_20:.1e} at 20 layers, {lecun_56:.1e} at 56; He "
    "{he_20:.2f} and {he_56:.2f}",
    tell_zh="普通网络的 ‖∂L/∂x_0‖ / ‖∂L/∂x_K‖：LeCun 初始化 20 层 {lecun_20:.1e}，56 层 {lecun_56:.1e}；He 初始化 "
    "{he_20:.2f} 与 {he_56:.2f}",
    rule=Rule(lambda m: m.lecun_20 < 0.01, lambda m: m.he_56 > 0.1))

row("C04a", "1.1", HOLDS,
    "Plain nets get worse with depth, in training and in test error.",
    "普通网络越深，训练误差和测试误差都越大。",
    "The degradation problem is real and shows on handwritten digits within minutes.",
    "退化现象真实存在，在手写数字上几分钟就能看到。",
    HE,
    measure=trained.degradation,
    tell="plain nets on the digits, train / test error: {depths[0]} layers {train[0]:.1%} / {test[0]:.1%}, "
    "{depths[1]} layers {train[1]:.1%} / {test[1]:.1%}, {deepest} layers {deep_train:.1%} / {deep_test:.1%}",
    tell_zh="手写数字上的普通网络，训练/测试误差：{depths[0]} 层 {train[0]:.1%} / {test[0]:.1%}，{depths[1]} 层 "
    "{train[1]:.1%} / {test[1]:.1%}，{deepest} 层 {deep_train:.1%} / {deep_test:.1%}",
    rule=Rule(lambda m: m.deep_train > m.shallow_train + 0.05 and m.deep_test > m.shallow_test + 0.05))

row("C04b", "1.1", CONTRADICTS,
    "Errors by depth: 20 layers 2.3 % train and 3.5 % test, 32: 2.8 and 4.2, 56: 3.5 and 5.1.",
    "误差表：20 层 2.3%/3.5%，32 层 2.8%/4.2%，56 层 3.5%/5.1%。",
    "No such table is in the ResNet paper. A plain net with 3.5 to 5.1 % test error would beat every net there: its "
    "ResNet-56 has 6.97 % on CIFAR-10, its best net 6.43 %. Use the measured table of C04a.",
    "ResNet 论文里没有这张表。普通网络若有 3.5 到 5.1 % 的测试误差，就胜过该文所有网络：文中 ResNet-56 在 CIFAR-10 上"
    "为 6.97 %，最好的网络为 6.43 %。请改用 C04a 的实测表。",
    HE + ", table 6")

row("C05", "1.1", HOLDS,
    "Deep nets are worse not because they over-fit but because they are hard to optimise.",
    "深层网络更差不是过拟合，而是优化困难。",
    "The training error is high too, and the same net with identity-like weights trains well (C06b): a good solution "
    "exists and is not found.",
    "训练误差同样很高；而同一网络从接近恒等的权重出发就能训练好（C06b）：好的解存在，只是没有被找到。",
    HE,
    measure=trained.degradation,
    tell="{deepest} plain layers: train error {deep_train:.1%}; same net from identity layers {identity_train:.1%}",
    tell_zh="{deepest} 层普通网络：训练误差 {deep_train:.1%}；同一网络从恒等层出发 {identity_train:.1%}",
    rule=Rule(lambda m: m.deep_train > m.shallow_train + 0.05 and m.identity_train < m.deep_train / 3))

row("C06a", "1.1", HOLDS,
    "A deeper net could copy a shallow one: its extra layers only need to be identities.",
    "更深的网络至少可以复制浅层网络：多余的层学成恒等映射即可。",
    "Exactly so behind a ReLU: with W = I and b = 0 an extra layer changes nothing.",
    "在 ReLU 之后严格成立：W = I、b = 0 的额外层不改变任何东西。",
    HE,
    measure=trained.copied_layers,
    tell="{depth} layers against {shallow}: outputs differ by {difference:.0e}",
    tell_zh="{depth} 层与 {shallow} 层：输出相差 {difference:.0e}",
    rule=Rule(lambda m: m.difference == 0))

row("C06b", "1.1", COND,
    "So a deep plain net should not be worse than a shallow one.",
    "因此深层网络不应比浅层网络差。",
    "Started near identity layers it is not worse; started as usual (He) it is. The solution is there, the way to it "
    "is not.",
    "从接近恒等的层出发，确实不更差；按通常方式（He）出发，就更差。解在那里，路不在那里。",
    measure=trained.degradation,
    tell="{deepest} plain layers: train error {identity_train:.1%} from identity layers, {deep_train:.1%} from He's "
    "weights; {shallow} layers {shallow_train:.1%}",
    tell_zh="{deepest} 层普通网络的训练误差：从恒等层出发 {identity_train:.1%}，从 He 权重出发 {deep_train:.1%}；"
    "{shallow} 层 {shallow_train:.1%}",
    rule=Rule(lambda m: m.identity_train < m.shallow_train + 0.02, lambda m: m.deep_train > m.shallow_train + 0.05))

row("C07", "1.2", HOLDS,
    "A residual block outputs F(x) + x, so it learns F = H - x.",
    "残差块输出 F(x)+x，学习的是 F=H−x。",
    "By definition, and so in the code.",
    "由定义成立，代码里也如此。",
    HE,
    measure=streams.block_identities,
    tell="H(x) - x against F(x): relative difference {residual:.0e}",
    tell_zh="H(x) - x 与 F(x)：相对误差 {residual:.0e}",
    rule=Rule(lambda m: m.residual < EXACT))

row("C08", "1.2, 1.3", COND,
    "Learning zero is much easier than learning the identity.",
    "学习“零”比学习“恒等映射”容易得多。",
    "With small weights the residual block is there before the first step. With He's weights its branch is larger "
    "than its input and has to be unlearned. And plain layers that start near the identity have nothing to learn "
    "either (C06b). He et al. state this as a hypothesis.",
    "权重小时，残差块在第一步之前就已到位。用 He 权重时，分支比输入还大，必须先“忘掉”。而从恒等附近出发的普通层也没有"
    "什么要学（C06b）。He 等人只把它当作假设。",
    HE,
    measure=trained.identity_fit,
    tell="error of fitting H(x) = x before training: residual with small weights {small_before:.0e}, residual with "
    "He's {he_before:.2f}; after {steps} steps at {deepest} layers: plain {deep_plain:.2g}, residual with He's "
    "{deep_residual:.2g}",
    tell_zh="拟合 H(x) = x，训练前的误差：小权重残差 {small_before:.0e}，He 权重残差 {he_before:.2f}；{deepest} 层训"
    "练 {steps} 步后：普通网络 {deep_plain:.2g}，He 权重残差 {deep_residual:.2g}",
    rule=Rule(lambda m: m.small_before < 1e-3 and m.deep_residual < m.deep_plain, lambda m: m.he_before > 0.3))

row("C09a", "1.2", HOLDS,
    "ResNet trained 152 layers.",
    "ResNet 成功训练了 152 层网络。",
    "Stated in the abstract.",
    "摘要中写明。",
    HE)

row("C09b", "1.2", COND,
    "With 152 layers the ImageNet error fell to 3.57 %.",
    "152 层网络使 ImageNet 错误率降至 3.57%。",
    "3.57 % is the top-5 test error of an ensemble of several residual nets, not of one net.",
    "3.57 % 是多个残差网络集成的 top-5 测试误差，不是单个网络的。",
    HE)

row("C10", "1.3", COND,
    "After training most residual functions are small corrections.",
    "训练后大多数残差函数只是小幅修正。",
    "Most are, in a net whose branches are scaled by 1/√K. But there they are as small before training: it is the "
    "scale that makes them so, not the training.",
    "在分支乘 1/√K 的网络里，大多数确实小。但训练前就一样小：是缩放使它们小，不是训练。",
    measure=trained.lesions,
    tell="trained {depth}-layer residual net: ‖F‖/‖x‖ has median {median_ratio:.2f} ({start_ratio:.2f} before "
    "training) and maximum {largest_ratio:.2f}",
    tell_zh="训练后的 {depth} 层残差网络：‖F‖/‖x‖ 的中位数 {median_ratio:.2f}（训练前 {start_ratio:.2f}），最大 "
    "{largest_ratio:.2f}",
    rule=Rule(lambda m: m.median_ratio < 0.35, lambda m: m.largest_ratio > 1 or m.median_ratio > 0.8 * m.start_ratio))

# ------------------------------------------------------------------------------- 2: attention and its residual branch

row("C11", "2.1", HOLDS,
    "Attention is softmax(QKᵀ/√d_k)V; √d_k keeps the products from growing.",
    "Attention=softmax(QKᵀ/√d_k)V，√d_k 防止点积过大。",
    "For independent unit entries q·k has variance d_k. Without the division the softmax is nearly one-hot.",
    "各分量独立且方差为 1 时，q·k 的方差是 d_k。不除以 √d_k，softmax 几乎是 one-hot。",
    VASWANI,
    measure=streams.attention_pieces,
    tell="variance of q·k {variance:.1f} for d_k = {d_k}; entropy of the softmax {scaled:.2f} of the maximum, "
    "without √d_k {unscaled:.2f}",
    tell_zh="q·k 的方差 {variance:.1f}（d_k = {d_k}）；softmax 的熵为最大值的 {scaled:.2f}，不除以 √d_k 时 "
    "{unscaled:.2f}",
    rule=Rule(lambda m: abs(m.variance / m.d_k - 1) < 0.1 and m.unscaled < 0.5 < m.scaled))

row("C12", "2.1", HOLDS,
    "Several heads are computed apart and put together by W^O.",
    "多头注意力：各头独立计算后拼接并乘 W^O。",
    "The same as adding up A_i x W_V W_O head by head, which is how one attributes an output to heads.",
    "等于把各头的 A_i x W_V W_O 相加，这也是把输出归因到各头的方法。",
    VASWANI,
    measure=streams.attention_pieces,
    tell="our attention against the sum over heads: {heads_error:.0e}",
    tell_zh="我们的注意力与各头之和：{heads_error:.0e}",
    rule=Rule(lambda m: m.heads_error < EXACT))

row("C13", "2.2", HOLDS,
    "The original attention sublayer is LayerNorm(x + Dropout(sublayer(x))).",
    "原始子层：LayerNorm(x+Dropout(sublayer(x)))。",
    "This is Post-Norm.",
    "这就是 Post-Norm。",
    VASWANI,
    measure=streams.printed_blocks,
    tell="our Post-Norm block against the formula (no dropout): {post:.0e}",
    tell_zh="我们的 Post-Norm 块与公式（无 dropout）：{post:.0e}",
    rule=Rule(lambda m: m.post < EXACT))

row("C14", "2.2", HOLDS,
    "The FFN sublayer is LayerNorm(x + Dropout(Linear(ReLU(Linear(x))))).",
    "FFN 子层：LayerNorm(x+Dropout(Linear(ReLU(Linear(x)))))。",
    "The same rule around a two-layer MLP.",
    "同一规则，套在两层 MLP 外面。",
    VASWANI,
    measure=streams.printed_blocks,
    tell="our Post-Norm block against the formula with the FFN written out (no dropout): {ffn:.0e}",
    tell_zh="我们的 Post-Norm 块与按此公式写出的 FFN（无 dropout）：{ffn:.0e}",
    rule=Rule(lambda m: m.ffn < EXACT))

row("C15", "2.2", CONTRADICTS,
    "One full layer turns x into x + Attention(x) + FFN(x).",
    "完整一层得到 x+Attention(x)+FFN(x)。",
    "The FFN reads x + Attention(LN x), not x, and both read a norm. What is printed is the parallel block of C36. "
    "The diagram also changes from Post-Norm to Pre-Norm without a word.",
    "FFN 读的是 x + Attention(LN x)，不是 x；而且两者读的都是归一化后的值。文中写的其实是 C36 的并行块。那张图还不声"
    "不响地从 Post-Norm 换成了 Pre-Norm。",
    measure=streams.printed_blocks,
    tell="the printed sum against a sequential Pre-Norm block: relative difference {diagram:.2f}; without norms "
    "{parallel:.2f}",
    tell_zh="文中的和与顺序的 Pre-Norm 块：相对差 {diagram:.2f}；不带归一化 {parallel:.2f}",
    rule=Rule(lambda m: m.diagram < 0.01))

row("C16", "2.3", HOLDS,
    "h_L is x plus the sum of all branch outputs.",
    "h_L 等于 x 加上所有分支输出之和。",
    "Exact without a norm on the skip path, so for Pre-Norm and for no norm. In Post-Norm every term is rescaled. So "
    "a logit is a sum over its parts too, up to the rounding of the precision in use.",
    "只要跳跃路径上没有归一化，就严格成立：Pre-Norm 与无归一化都如此。Post-Norm 中每一项都被重新缩放。于是一个 logit "
    "也是各部分之和，误差只有所用精度的舍入。",
    measure=streams.unrolled_sum,
    tell="x_0 + Σ F_k against x_K: no norm {residual:.0e}, Pre-Norm {pre_norm:.0e}, Post-Norm {post_norm:.2f}; a "
    "logit against the sum of its parts, relative to the largest logit: {logit_64:.0e} in float64, {logit_32:.0e} in "
    "float32",
    tell_zh="x_0 + Σ F_k 与 x_K：无归一化 {residual:.0e}，Pre-Norm {pre_norm:.0e}，Post-Norm {post_norm:.2f}；logit "
    "与其各部分之和相差最大 logit 的 {logit_64:.0e}（float64）、{logit_32:.0e}（float32）",
    rule=Rule(lambda m: m.residual < EXACT and m.pre_norm < EXACT and m.logit_32 < 1e-6))

row("C17a", "2.3", COND,
    "Token embeddings reach any depth without loss.",
    "原始 token 嵌入可以无损传到任意深层。",
    "Their coefficient in the sum stays exactly 1 (Pre-Norm). Their share falls, because everything else is added to "
    "them, and later layers may write the negative.",
    "它在和式里的系数始终恰好是 1（Pre-Norm）。但占比会下降，因为其他一切都加在上面，而且后面的层可能写入它的负值。",
    ELHAGE,
    measure=streams.unrolled_sum,
    tell="{blocks} blocks: coefficient exact to {pre_norm:.0e}, but cos(x_0, x_K) = {cos_input:.2f}",
    tell_zh="{blocks} 个块：系数误差 {pre_norm:.0e}，但 cos(x_0, x_K) = {cos_input:.2f}",
    rule=Rule(lambda m: m.pre_norm < EXACT, lambda m: m.cos_input < 0.9))

row("C17b", "2.3", HOLDS,
    "Deep layers can use shallow features directly.",
    "浅层特征可以被深层直接使用。",
    "A later layer reads an earlier write through the fixed matrix W_out W_in (see C85a).",
    "后面的层通过固定矩阵 W_out W_in 读到前面写入的内容（见 C85a）。",
    ELHAGE,
    measure=streams.virtual_weights,
    tell="along the skip alone, effect against W_out W_in: {direct:.0e}",
    tell_zh="只沿跳跃路径，实际影响与 W_out W_in：{direct:.0e}",
    rule=Rule(lambda m: m.direct < EXACT))

# -------------------------------------------------------------------------------------------------- 3: the mathematics

row("C18", "3.1", HOLDS,
    "∂L/∂h_{l-1} = ∂L/∂h_l (∂F/∂h + I).",
    "梯度公式：∂L/∂h_{l−1}=∂L/∂h_l·(∂F/∂h+I)。",
    "With row vectors. I is the identity matrix, not the number 1.",
    "按行向量书写。I 是单位矩阵，不是数 1。",
    measure=flow.backward_formulas,
    tell="back-propagation against the formula: {residual:.0e}",
    tell_zh="反向传播与公式：{residual:.0e}",
    rule=Rule(lambda m: m.residual < EXACT))

row("C19a", "3.1", HOLDS,
    "100 layers with ‖∂F/∂x‖ = 0.1 and no residual pass 0.1^100, about nothing.",
    "100 层、每层范数 0.1、无残差：梯度约为 0.1^100≈0。",
    "Even less, because a norm bounds the worst direction only.",
    "实际更小，因为范数只约束最坏的方向。",
    measure=flow.products,
    tell="gain of ∏ J: {without:.0e}, and {norms:.0e} from the norms alone",
    tell_zh="∏ J 的增益：{without:.0e}；只按范数算为 {norms:.0e}",
    rule=Rule(lambda m: m.without <= m.norms))

row("C19b", "3.1", COND,
    "With residuals the same layers pass 1^100 = 1.",
    "有残差时梯度约为 1^100=1。",
    "∏ (I + J) with ‖J‖ = 0.1 can be anything from 0.9^100 to 1.1^100. Independent zero-mean branches stay near 1 as "
    "long as L τ² is small, which is why branches are scaled by 1/√L; branches that agree add up exponentially.",
    "‖J‖ = 0.1 时，∏ (I + J) 可以是 0.9^100 到 1.1^100 之间的任何值。分支独立且零均值时，只要 L τ² 小就接近 1，这正是"
    "分支要乘 1/√L 的原因；方向一致的分支则指数累积。",
    measure=flow.products,
    tell="gain of ∏ (I + J) by kind of J: {lowest:.1e} to {highest:.1e}; independent {independent:.2f}, shared by "
    "all layers {shared:.0f}",
    tell_zh="各类 J 的 ∏ (I + J) 增益：{lowest:.1e} 到 {highest:.1e}；独立时 {independent:.2f}，各层共享时 "
    "{shared:.0f}",
    rule=Rule(lambda m: 0.5 < m.independent < 2, lambda m: m.lowest < 0.01 and m.highest > 100))

row("C20", "3.1", CONTRADICTS,
    "That is why ResNet trains 152 layers and a plain CNN's gradient vanishes at 20.",
    "因此 ResNet 能训练 152 层，而普通 CNN 在 20 层就梯度消失。",
    "The ResNet paper says the opposite of its plain nets: with batch normalisation their gradients have healthy "
    "norms, and vanishing gradients are unlikely to be the cause. Here too: He-initialised plain nets pass gradients "
    "well. They vanish only from weights that are too small (C03).",
    "ResNet 论文对它的普通网络说的恰好相反：有批归一化时梯度范数正常，梯度消失不太可能是原因。这里也一样：He 初始化的"
    "普通网络能很好地传递梯度。只有初始化太小时才消失（C03）。",
    HE + ", section 4.1",
    measure=flow.plain_gradients,
    tell="plain He-initialised nets: gradient ratio {he_20:.2f} at 20 layers, {he_56:.2f} at 56",
    tell_zh="He 初始化的普通网络：梯度比 20 层 {he_20:.2f}，56 层 {he_56:.2f}",
    rule=Rule(lambda m: m.he_20 < 0.01))

row("C21", "3.2", HOLDS,
    "x + F(x) is a weighted combination of [x, F(x)].",
    "h=x+F(x) 是 [x,F(x)] 的加权组合。",
    "With the fixed weights 1 and 1. Highway networks and Hyper-Connections learn them.",
    "权重固定为 1 和 1。Highway 网络和 Hyper-Connections 则学习这些权重。",
    measure=streams.block_identities,
    tell="[x, F(x)] times [I; I] against x + F(x): {combination:.0e}",
    tell_zh="[x, F(x)] 乘 [I; I] 与 x + F(x)：{combination:.0e}",
    rule=Rule(lambda m: m.combination < EXACT))

row("C22a", "3.3", COND,
    "L residual blocks have 2^L paths.",
    "L 个残差块有 2^L 条路径。",
    "As a sum of path outputs it is exact for linear branches only; with a ReLU the parts do not add up. As paths of "
    "a gradient it is always exact: ∏ (I + J) has 2^L terms.",
    "作为路径输出之和，只对线性分支严格成立；有 ReLU 时各部分相加不等于整体。作为梯度的路径则总是严格成立：∏ (I + J) "
    "有 2^L 项。",
    VEIT,
    measure=streams.path_count,
    tell="{blocks} blocks, sum over {paths} paths against the output: linear {linear:.0e}, ReLU {relu:.2f}",
    tell_zh="{blocks} 个块，{paths} 条路径之和与输出：线性 {linear:.0e}，ReLU {relu:.2f}",
    rule=Rule(lambda m: m.linear < EXACT, lambda m: m.relu > 0.01))

row("C22b", "3.3", COND,
    "So a residual net is an ensemble of exponentially many shallow nets.",
    "残差网络是指数级数量浅层网络的集成。",
    "The paper says that they behave *like* ensembles. The paths share all weights. Its main finding is missing "
    "here: almost all gradient comes through short paths.",
    "论文说的是“行为类似”集成。各路径共享全部权重。这里还漏掉了论文的主要发现：几乎所有梯度都来自短路径。",
    VEIT)

row("C23", "3.3", HOLDS,
    "If some layers fail, the other paths still work.",
    "即使某些层失效，其他路径仍可工作。",
    "True of residual nets. A plain net does not survive the loss of a single layer.",
    "对残差网络成立。普通网络连失去一层都承受不住。",
    VEIT,
    measure=trained.lesions,
    tell="test error {residual_error:.1%}, with one block left out {residual_one:.1%} (worst {residual_worst:.1%}); "
    "plain net {plain_error:.1%}, then {plain_one:.1%} (worst {plain_worst:.1%})",
    tell_zh="测试误差 {residual_error:.1%}，去掉一个块后 {residual_one:.1%}（最差 {residual_worst:.1%}）；普通网络 "
    "{plain_error:.1%}，去掉一层后 {plain_one:.1%}（最差 {plain_worst:.1%}）",
    rule=Rule(lambda m: m.residual_one < m.residual_error + 0.05 and m.plain_one > m.plain_error + 0.3))

# ------------------------------------------------------------------------------------------- 4: norms, scaling, experts

row("C24a", "4.1", HOLDS,
    "Post-Norm is LayerNorm(x + A(x)), Pre-Norm x + A(LayerNorm(x)).",
    "Post-Norm 为 LN(x+A(x))，Pre-Norm 为 x+A(LN(x))，二者即如此定义。",
    "So defined.",
    "定义如此。",
    XIONG,
    measure=streams.printed_blocks,
    tell="our blocks against the formulas: Post {post:.0e}, Pre {pre:.0e}",
    tell_zh="我们的块与公式：Post {post:.0e}，Pre {pre:.0e}",
    rule=Rule(lambda m: max(m.post, m.pre) < EXACT))

row("C24b", "4.1", COND,
    "Post-Norm needs warm-up, Pre-Norm does not.",
    "Post-Norm 需要 warm-up，Pre-Norm 不需要。",
    "So it is with Xavier's weights at this learning rate. With weights that are small for the width Post-Norm "
    "trains without warm-up too: the size of the branches decides. Large Pre-Norm models are still trained with "
    "warm-up.",
    "用 Xavier 权重和这个学习率时如此。权重相对宽度较小时，Post-Norm 不用 warm-up 也能训练：起决定作用的是分支大小。"
    "大型 Pre-Norm 模型在实践中仍使用 warm-up。",
    XIONG,
    measure=trained.warm_up,
    tell="{blocks} blocks, lr {lr:g}, {steps} steps, validation loss without / with warm-up: Post {post_cold:.2f} / "
    "{post_warm:.2f}, Pre {pre_cold:.2f} / {pre_warm:.2f}; Post with small weights and no warm-up {small_cold:.2f}; "
    "letter frequencies {unigram:.2f}",
    tell_zh="{blocks} 个块，lr {lr:g}，{steps} 步，验证损失（无 / 有 warm-up）：Post {post_cold:.2f} / "
    "{post_warm:.2f}，Pre {pre_cold:.2f} / {pre_warm:.2f}；Post 用小权重、无 warm-up {small_cold:.2f}；字母频率基线 "
    "{unigram:.2f}",
    rule=Rule(lambda m: m.post_cold > m.post_warm + 0.2 and m.pre_cold < m.unigram - 0.3,
              lambda m: m.small_cold < m.unigram - 0.3))

row("C25", "4.1", COND,
    "Deep Post-Norm tends to exploding gradients, Pre-Norm is more stable.",
    "深层 Post-Norm 容易梯度爆炸，Pre-Norm 更稳定。",
    "Two different objects. The gradient of the last layer's *weights* is larger in Post-Norm and does not fall with "
    "depth; in Pre-Norm it falls (like 1/√L in theory, somewhat more slowly at these depths). The gradient of the "
    "*hidden states* does not explode downwards. See C77a for the other half: A0 says explode, A2 says vanish.",
    "说的是两种不同的量。最后一层的*权重*梯度，Post-Norm 更大，且不随深度下降；Pre-Norm 的随深度下降（理论上像 1/√L；"
    "在这些深度上稍慢）。*隐藏状态*的梯度向下并不爆炸。另一半见 C77a：A0 说爆炸，A2 说消失。",
    XIONG,
    measure=flow.norm_placement,
    tell="gradient of the last FFN weight at {deepest} blocks: Post {deep_post:.2f}, Pre {deep_pre:.2f}, exponents "
    "in depth {post_slope:+.2f} and {pre_slope:+.2f}; hidden gradient first/last: Post {deep_hidden:.2f}",
    tell_zh="{deepest} 个块时最后一个 FFN 权重的梯度：Post {deep_post:.2f}，Pre {deep_pre:.2f}，随深度的指数 "
    "{post_slope:+.2f} 与 {pre_slope:+.2f}；隐藏状态梯度 首/末：Post {deep_hidden:.2f}",
    rule=Rule(lambda m: m.deep_post > 2 * m.deep_pre, lambda m: m.deep_hidden < 10))

row("C26a", "4.1", CONTRADICTS,
    "Post-Norm needs an additional norm at the end.",
    "Post-Norm 需要最后额外归一化。",
    "It is the other way round: Post-Norm's last operation is a norm.",
    "正好相反：Post-Norm 的最后一步就是归一化。",
    XIONG + "; GPT-2's released code has `ln_f`",
    measure=flow.norm_placement,
    tell="rms of Post-Norm's last state at {deepest} blocks: {post_size:.3f}",
    tell_zh="{deepest} 个块时 Post-Norm 最后状态的均方根：{post_size:.3f}",
    rule=Rule(lambda m: abs(m.post_size - 1) > 0.05))

row("C26b", "4.1", CONTRADICTS,
    "Pre-Norm needs nothing extra.",
    "Pre-Norm 无需额外处理。",
    "Its stream grows with depth, and a final norm is added before the head. A2 says so (C108a).",
    "它的残差流随深度增长，因此在输出头之前要加一个最终归一化。A2 就是这么说的（C108a）。",
    XIONG + "; GPT-2's released code has `ln_f`",
    measure=flow.norm_placement,
    tell="rms of Pre-Norm's last state at {deepest} blocks: {pre_size:.2f}",
    tell_zh="{deepest} 个块时 Pre-Norm 最后状态的均方根：{pre_size:.2f}",
    rule=Rule(lambda m: m.pre_size < 1.5))

row("C27a", "4.1", HOLDS,
    "GPT-2, GPT-3, Llama and PaLM use Pre-Norm.",
    "GPT-2/3、Llama、PaLM 采用 Pre-Norm。",
    "Their papers say so.",
    "各自的论文写明。",
    "Radford et al. 2019, section 2.3; arXiv:2005.14165; arXiv:2302.13971; arXiv:2204.02311")

row("C27b", "4.1", UNCHECKABLE,
    "GPT-4 uses Pre-Norm.",
    "GPT-4 采用 Pre-Norm。",
    "Its architecture has not been published.",
    "其架构没有公开。",
    "arXiv:2303.08774, which gives no architecture")

row("C28a", "4.2", CONTRADICTS,
    "LayerScale is x + γ₁ Attention(x) + γ₂ FFN(x).",
    "LayerScale 的公式：x+γ₁·Attention(x)+γ₂·FFN(x)。",
    "The paper's block is sequential and normed: x + γ A(LN x), then x + γ' F(LN x). The article's own code is right "
    "(C43).",
    "论文中的块是顺序的、带归一化的：先 x + γ A(LN x)，再 x + γ' F(LN x)。文章自己的代码是对的（C43）。",
    CAIT,
    measure=streams.printed_blocks,
    tell="the printed sum against LayerScale with γ = {gain:g}: relative difference {layerscale:.2f}",
    tell_zh="文中的和与 LayerScale（γ = {gain:g}）：相对差 {layerscale:.2f}",
    rule=Rule(lambda m: m.layerscale < 0.01))

row("C28b", "4.2", COND,
    "γ starts at a small value such as 0.1.",
    "γ 初始化为小值（如 0.1）。",
    "0.1 is the value for up to 18 layers; the paper takes 1e-5 for 24 and 1e-6 beyond.",
    "0.1 用于不超过 18 层；论文对 24 层用 1e-5，更深用 1e-6。",
    CAIT)

row("C28c", "4.2", UNCHECKABLE,
    "LayerScale is common in models above 10 billion parameters.",
    "LayerScale 常用于 >10B 的模型。",
    "No public source says so. It was made for image Transformers of up to 48 layers.",
    "没有公开来源这样说。它是为至多 48 层的图像 Transformer 设计的。",
    CAIT)

row("C29", "4.2", HOLDS,
    "ReZero, x + αF(x) with α = 0, starts as the identity.",
    "ReZero：α 初始化为 0，初期完全等于恒等映射。",
    "Exactly. A consequence: at step 0 only α has a gradient, the weights have none.",
    "严格成立。推论：第 0 步只有 α 有梯度，权重没有。",
    "Bachlechner et al. 2020, arXiv:2003.04887",
    measure=streams.rezero_start,
    tell="the stack moves its input by {moved:.0f}; largest gradient of a weight {weights:.0f}, smallest of an α "
    "{alpha:.1e}",
    tell_zh="整个堆叠使输入改变 {moved:.0f}；权重的最大梯度 {weights:.0f}，α 的最小梯度 {alpha:.1e}",
    rule=Rule(lambda m: m.moved == 0 and m.weights == 0 and m.alpha > 0))

row("C30", "4.3", COND,
    "A mixture of experts adds Σ expert_i(x) · gate_i to x.",
    "MoE 的残差：x+Σ expert_i(x)·gate_i。",
    "Exact with two things added: the experts read a normed x, and the gates are a softmax over the chosen experts "
    "only. Taken literally it is another function.",
    "补上两点就严格成立：专家读的是归一化后的 x，门控是只在被选中的专家上做的 softmax。照字面写则不成立。",
    "Jiang et al. 2024, arXiv:2401.04088",
    measure=printed.mixture,
    tell="what the block adds against the formula, relative difference: with both {exact:.0e}; experts that read x "
    "itself {unnormed:.2f}; all {experts} experts, softmax over all {all:.2f}",
    tell_zh="块所加上的量与公式相对差：补上两点后 {exact:.0e}；专家直接读 x {unnormed:.2f}；{experts} 个专家全部参"
    "与、softmax 取遍全部 {all:.2f}",
    rule=Rule(lambda m: m.exact < EXACT, lambda m: m.unnormed > 0.01 and m.all > 0.01))

row("C31a", "4.3", HOLDS,
    "Experts that are not chosen contribute zero.",
    "未被选中的专家相当于残差为 0。",
    "Exactly zero, in the output and in their gradients.",
    "输出和梯度都恰好为 0。",
    measure=streams.expert_mixture,
    tell="largest gradient of an unchosen expert {unselected:.0f}, smallest of a chosen one {selected:.1e}",
    tell_zh="未选中专家的最大梯度 {unselected:.0f}，选中专家的最小梯度 {selected:.1e}",
    rule=Rule(lambda m: m.unselected == 0 and m.selected > 0))

row("C31b", "4.3", HOLDS,
    "Gradients pass directly along the residual.",
    "梯度可以直接通过残差分支传递。",
    "The +I is there, whatever the router chose.",
    "无论路由器选了谁，+I 都在。",
    measure=streams.expert_mixture,
    tell="gradient with the skip minus gradient without, against the gradient above: {passed:.0e}",
    tell_zh="有跳跃的梯度减去无跳跃的梯度，与上方梯度之差：{passed:.0e}",
    rule=Rule(lambda m: m.passed < EXACT))

# --------------------------------------------------------------------------------------------- 5: reading the stream

row("C32", "5.1", COND,
    "Every layer adds to the stream without changing what is there.",
    "每层只向残差流添加信息，不改变已有内容。",
    "Addition is all that happens (Pre-Norm). But a write may point against what is there: the stream is one vector, "
    "and adding the negative deletes.",
    "发生的确实只有加法（Pre-Norm）。但写入的方向可以与已有内容相反：残差流是一个向量，加上负值就是删除。",
    ELHAGE,
    measure=streams.additive_writes,
    tell="x_(k+1) - x_k - F_k = {additive:.0f}; at initialisation {negative:.0%} of the writes have a part against "
    "the stream",
    tell_zh="x_(k+1) - x_k - F_k = {additive:.0f}；初始化时 {negative:.0%} 的写入含有与残差流相反的分量",
    rule=Rule(lambda m: m.additive < EXACT, lambda m: m.negative > 0.05))

row("C33", "5.2", UNCHECKABLE,
    "Heads of layers 1-4 do syntax, 5-12 meaning, 13 and up reasoning.",
    "注意力头：1–4 层句法，5–12 层语义，13 层以上推理。",
    "Needs large pretrained models. Probing of BERT shows a trend; fixed ranges cannot hold for every model, since a "
    "two-layer one already divides its work.",
    "需要大型预训练模型。对 BERT 的探测显示出这种趋势；但固定的层号范围不可能适用于所有模型，两层的模型就已经在分工"
    "了。",
    "Tenney et al. 2019, arXiv:1905.05950, for BERT")

row("C34", "5.3", CONTRADICTS,
    "Leaving out layer k gives x + Σ F_i(x) - F_k(x).",
    "消融第 k 层：x+ΣF_i(x)−F_k(x)。",
    "F_i reads x_i and not x. And subtracting the kept F_k is only the *direct* effect: the layers above would have "
    "read something else. Run the model again without layer k.",
    "F_i 读的是 x_i，不是 x。而且减去当时的 F_k 只是*直接*效应：上面的层本会读到别的东西。应当去掉第 k 层重新运行模"
    "型。",
    measure=streams.ablation,
    tell="direct against total effect, at initialisation: they differ by {smallest:.0%} to {largest:.0%}, and not at "
    "all for the last sublayer ({last:.0e})",
    tell_zh="直接效应与总效应（初始化时）：相差 {smallest:.0%} 到 {largest:.0%}；只有最后一个子层没有差别（"
    "{last:.0e}）",
    rule=Rule(lambda m: m.smallest < 0.01))

row("C35a", "5.3", UNCHECKABLE,
    "Leaving out shallow layers hurts syntax, middle ones meaning, deep ones reasoning.",
    "浅层消融影响语法，中层影响语义，深层影响推理。",
    "Needs large models and such tasks; no source is given.",
    "需要大模型和这类任务；文章没有给出来源。",
    "no source in the article")

row("C35b", "5.3", COND,
    "This proves that the layers' contributions can be separated.",
    "这证明各层贡献可分离。",
    "In a small trained model the effects of most pairs nearly add up, but not of every pair: some hurt far more "
    "together than one by one.",
    "在训练好的小模型里，多数成对去掉的效应大致相加，但不是每一对：有的一对比两者之和严重得多。",
    measure=play.trained_stream,
    tell="{blocks} blocks after {steps} steps, {pairs:.0f} pairs of sublayers: the effect of leaving out both "
    "differs from the sum of the two by {pair_gap:.0%} (median); within 10 % for {pair_close:.0%} of the pairs; the "
    "worst pair costs {pair_most:.1f} times its sum",
    tell_zh="{blocks} 个块的模型，{steps} 步，{pairs:.0f} 对子层：去掉两个的效应与单独效应之和相差 {pair_gap:.0%}（中"
    "位数）；{pair_close:.0%} 的对在 10 % 以内；最差的一对是和的 {pair_most:.1f} 倍",
    rule=Rule(lambda m: m.pair_gap < 0.25, lambda m: m.pair_most > 1.25))

# ------------------------------------------------------------------------------------ 6: frontier and compression

row("C36a", "6.1", HOLDS,
    "A parallel block has fewer residual additions.",
    "并行 Transformer 减少了残差分支数量。",
    "One per block and not two.",
    "每块一次，而不是两次。",
    "Chowdhery et al. 2022, arXiv:2204.02311",
    measure=scalars.additions,
    tell="additions per block: sequential {sequential:.0f}, parallel {parallel:.0f}",
    tell_zh="每块的加法次数：顺序 {sequential:.0f}，并行 {parallel:.0f}",
    rule=Rule(lambda m: m.parallel < m.sequential))

row("C36b", "6.1", COND,
    "It is slightly worse but trains faster.",
    "性能略有下降但训练更快。",
    "PaLM reports about 15 % faster training at scale, a small loss of quality at 8B parameters and none at 62B.",
    "PaLM 报告：大规模时训练快约 15 %，8B 参数时质量略降，62B 时不降。",
    "Chowdhery et al. 2022, arXiv:2204.02311, section 2")

row("C37", "6.1", HOLDS,
    "Training without residuals is possible with special initialisation and norms.",
    "用特殊的初始化和归一化可以去掉残差。",
    "56 plain layers that start near the identity train well. At scale this has not become usual.",
    "56 层普通网络从接近恒等处出发，可以训练好。在大规模上这没有成为惯例。",
    "He et al. 2023, arXiv:2302.10322",
    measure=trained.degradation,
    tell="{deepest} plain layers from identity-like weights: train error {identity_train:.1%}",
    tell_zh="{deepest} 层普通网络从近似恒等的权重出发：训练误差 {identity_train:.1%}",
    rule=Rule(lambda m: m.identity_train < 0.05))

row("C38", "6.2", UNCHECKABLE,
    "GPT-4 has more than 100 layers and is stable because of Pre-Norm, ensembles, μP and AdamW.",
    "GPT-4 有 100+ 层，其稳定性来自 Pre-Norm、集成效应、μP、AdamW。",
    "Nothing about its depth or training is public.",
    "其深度和训练方法都没有公开。",
    "arXiv:2303.08774, which gives no architecture")

row("C39", "6.3", COND,
    "A distilled student may have fewer layers but must keep the residuals.",
    "知识蒸馏：学生模型层数可少，但需保留残差结构。",
    "At half the depth a student with residuals nearly reaches its teacher, one without is far off. But “must” is "
    "too strong: a student of one block without residuals does well. What fails is a *deep* student without them.",
    "层数同样减半时，有残差的学生几乎追上老师，没有残差的差得多。但“必须”说得太强：只有一个块、没有残差的学生反而学得"
    "不错。不行的是没有残差的*深*学生。",
    "Sanh et al. 2019, arXiv:1910.01108",
    measure=play.distillation,
    tell="validation losses: teacher of {blocks} blocks {teacher:.2f}; students of {half} blocks with residuals "
    "{student:.2f}, without {skipless:.2f}; one block without {one:.2f}; letter frequencies {unigram:.2f}",
    tell_zh="{blocks} 个块的老师 {teacher:.2f}；{half} 个块的学生：有残差 {student:.2f}，无残差 {skipless:.2f}；一个"
    "块、无残差 {one:.2f}；字母频率基线 {unigram:.2f}（验证损失）",
    rule=Rule(lambda m: m.skipless > m.student + 0.2, lambda m: m.one < m.skipless - 0.2))

row("C40", "6.3", HOLDS,
    "Residual branches can be pruned if one straight path remains.",
    "剪枝可去掉部分残差分支，但要保留直通路径。",
    "A trained residual net loses little when a few branches are gone, and degrades smoothly with more. Cut the "
    "straight path of a single block instead, and the net is ruined: that half is true too.",
    "去掉少数分支，训练好的残差网络损失很小，去掉越多越差，是渐变的。反过来，只要有一个块失去直通路径，网络就毁了：这"
    "一半论断同样成立。",
    VEIT,
    measure=trained.lesions,
    tell="{blocks} blocks, test error {residual_error:.1%}; without {counts[0]} / {counts[1]} / {counts[2]} / "
    "{counts[3]} / {counts[4]} / {counts[5]} random branches {several[0]:.1%} / {several[1]:.1%} / {several[2]:.1%} "
    "/ {several[3]:.1%} / {several[4]:.1%} / {several[5]:.1%}; with the straight path of one block cut {cut:.1%} (at "
    "best {cut_best:.1%})",
    tell_zh="{blocks} 个块，测试误差 {residual_error:.1%}；随机去掉 {counts[0]} / {counts[1]} / {counts[2]} / "
    "{counts[3]} / {counts[4]} / {counts[5]} 个分支：{several[0]:.1%} / {several[1]:.1%} / {several[2]:.1%} / "
    "{several[3]:.1%} / {several[4]:.1%} / {several[5]:.1%}；只剪断一个块的直通路径：{cut:.1%}（最好 {cut_best:.1%}）",
    rule=Rule(lambda m: m.several[2] < m.residual_error + 0.05 and m.cut > m.several[3] + 0.2))

row("C41", "6.3", COND,
    "Residual connections are sensitive to quantisation.",
    "残差连接对量化误差敏感。",
    "In a small trained model rounding the stream costs several times as much as rounding the branches or the "
    "weights: so far true. At 8 bits none of them costs anything that can be seen. Large models also have large "
    "outliers in the stream; this one has not been looked at for them.",
    "在训练好的小模型里，舍入残差流的代价比舍入分支或权重大几倍，这一点成立。但 8 位时三者都没有可见的代价。大模型里"
    "残差流还有很大的离群值，这里没有。",
    "Xiao et al. 2023, arXiv:2211.10438",
    measure=play.trained_stream,
    tell="{blocks} blocks after {steps} steps, rise of the loss: at 4 bits stream {stream_4:.3f}, branches "
    "{branch_4:.3f}, weights {weights_4:.3f}; at 8 bits stream {stream_8:+.3f}",
    tell_zh="{blocks} 个块的模型，{steps} 步，损失的上升：4 位时残差流 {stream_4:.3f}，分支 {branch_4:.3f}，权重 "
    "{weights_4:.3f}；8 位时残差流 {stream_8:+.3f}",
    rule=Rule(lambda m: m.stream_4 > 2 * max(m.branch_4, m.weights_4), lambda m: abs(m.stream_8) < 0.01))

# --------------------------------------------------------------------------------------------------- 7: the code

row("C42", "7.1", COND,
    "The printed TransformerBlock is a correct Pre-Norm block.",
    "文中的 TransformerBlock 是正确的 Pre-Norm 实现。",
    "Its equations are right, and so is its result for (T, B, d). But torch's MultiheadAttention expects that order "
    "unless batch_first=True: with (B, T, d) it attends across the samples of a batch. There is no causal mask, so "
    "it is no language model yet, no final norm, and norm1(x) is computed three times.",
    "方程是对的，(T, B, d) 输入时也算得对。但 torch 的 MultiheadAttention 默认要 (T, B, d)，除非写 batch_first=True："
    "若给 (B, T, d)，注意力就跨越了批中的样本。另外没有因果掩码，所以不能直接用作语言模型；没有最终归一化；norm1(x) "
    "算了三遍。",
    "PyTorch documentation of nn.MultiheadAttention",
    measure=printed.torch_block,
    tell="the code's equations against our Pre-Norm block {code:.0e}; share of a sample's change that reaches "
    "another sample: {samples_right:.0f} for (T, B, d), {samples:.2f} for (B, T, d); of the last token's change that "
    "reaches the first: {future:.2f}",
    tell_zh="代码的方程与我们的 Pre-Norm 块：{code:.0e}；一个样本的改变传到另一个样本的份额：(T, B, d) 时 "
    "{samples_right:.0f}，(B, T, d) 时 {samples:.2f}；最后一个 token 的改变传到第一个：{future:.2f}",
    rule=Rule(lambda m: m.code < EXACT and m.samples_right == 0, lambda m: m.samples > 0.01))

row("C43", "7.2", HOLDS,
    "The printed code computes LayerScale.",
    "文中的代码实现了 LayerScale。",
    "Sequential and normed, as in the paper, unlike the article's formula (C28a). Its dropout reaches only the "
    "attention weights. The trap of C42, the order of the axes, is here too.",
    "顺序的、带归一化的，与论文一致，不像文章的公式（C28a）。dropout 只作用于注意力权重。C42 的坐标轴陷阱这里也有。",
    CAIT,
    measure=streams.printed_blocks,
    tell="the code's equations against our LayerScale: {code:.0e}",
    tell_zh="代码的方程与我们的 LayerScale：{code:.0e}",
    rule=Rule(lambda m: m.code < EXACT))

row("C44", "7.3", COND,
    "loss = output.sum() and backward() shows the gradient norms of the layers.",
    "用 loss=output.sum() 反向传播即可监控各层梯度范数。",
    "Only if no norm comes last. The sum over a LayerNorm's output does not depend on its input, so with Post-Norm "
    "or a final norm all gradients are rounding errors, and their ratios noise. Use the cross-entropy, or ⟨R, "
    "output⟩ with a fixed random R.",
    "只有最后一步不是归一化时才行。LayerNorm 输出之和不依赖输入，所以有 Post-Norm 或最终归一化时，所有梯度都是舍入误"
    "差，比值只是噪声。请用交叉熵，或固定随机 R 的 ⟨R, output⟩。",
    measure=flow.summed_output,
    tell="first FFN's gradient, sum against random direction: without a final norm {bare:.1f}, with it {pre:.0e}, "
    "Post-Norm {post:.0e}",
    tell_zh="第一个 FFN 的梯度，求和损失与随机方向之比：无最终归一化 {bare:.1f}，有 {pre:.0e}，Post-Norm {post:.0e}",
    rule=Rule(lambda m: m.bare > 0.1, lambda m: max(m.pre, m.post) < 1e-6))

# ------------------------------------------------------------------------------------- 8 to 10: advice and history

row("C45a", "8.1", COND,
    "Deeper than 12 layers must have residuals.",
    "深度 >12 层必须使用残差连接。",
    "True but far too weak: without the addition a small Transformer is stuck long before (C62). And special starts "
    "can do without (C37).",
    "成立，但说得太弱：没有这个加法，小型 Transformer 早就训不动了（C62）。而特殊的初始化也可以不要残差（C37）。",
    measure=trained.without_addition,
    tell="validation loss without the addition: 1 layer {shallow_none:.2f}, {deepest} layers {deep_none:.2f}; letter "
    "frequencies {unigram:.2f}",
    tell_zh="无加法时的验证损失：1 层 {shallow_none:.2f}，{deepest} 层 {deep_none:.2f}；字母频率基线 {unigram:.2f}",
    rule=Rule(lambda m: m.deep_none > m.deep_pre + 0.2, lambda m: m.deepest < 12))

row("C45b", "8.1", UNCHECKABLE,
    "Above 1 billion parameters prefer Pre-Norm, above 10 billion consider LayerScale.",
    "大模型（>1B）优先 Pre-Norm，>10B 考虑 LayerScale。",
    "A convention without a source. The first half agrees with what is published (C27a), the second does not (C28c).",
    "没有来源的惯例。前一半与公开资料一致（C27a），后一半不一致（C28c）。",
    "no source in the article")

row("C46", "8.2", COND,
    "Pre-Norm: usually no warm-up and larger learning rates; Post-Norm: careful warm-up.",
    "Pre-Norm 通常无需 warm-up、可用更大学习率；Post-Norm 需谨慎 warm-up。",
    "Sound advice for Xavier's weights; from small weights Post-Norm trains without warm-up as well (C24b). Measured "
    "at one learning rate; “larger” rests on the source.",
    "对 Xavier 权重是好建议；从小权重出发，Post-Norm 没有 warm-up 也能训练（C24b）。这里只测了一个学习率；“更大学习率”"
    "依据来源。",
    XIONG,
    measure=trained.warm_up,
    tell="lr {lr:g}: without warm-up Post-Norm {post_cold:.2f}, Pre-Norm {pre_cold:.2f}; with it Post-Norm "
    "{post_warm:.2f}; without it from small weights Post-Norm {small_cold:.2f}; letter frequencies {unigram:.2f}",
    tell_zh="lr {lr:g}：无 warm-up 时 Post-Norm {post_cold:.2f}，Pre-Norm {pre_cold:.2f}；有 warm-up 时 Post-Norm "
    "{post_warm:.2f}；小权重、无 warm-up 时 Post-Norm {small_cold:.2f}；字母频率基线 {unigram:.2f}",
    rule=Rule(lambda m: m.post_cold > m.post_warm + 0.2 and m.pre_cold < m.unigram - 0.3,
              lambda m: m.small_cold < m.unigram - 0.3))

row("C47", "8.3", HOLDS,
    "Check gradient flow, the size of each contribution, and leave out layers one by one.",
    "调试：检查梯度流、残差贡献比例、逐层消融。",
    "Good methods, with two traps: the loss (C44) and direct against total effect (C34).",
    "好方法，但有两个陷阱：损失的选择（C44），以及直接效应与总效应之分（C34）。",
    measure=trained.lesions,
    tell="on a trained net: ‖F‖/‖x‖ has median {median_ratio:.2f} and maximum {largest_ratio:.2f}; test error "
    "{residual_error:.1%}, without one block {residual_one:.1%} on average and {residual_worst:.1%} at worst, so "
    "blocks are told apart",
    tell_zh="用在训练好的网络上：‖F‖/‖x‖ 为 {median_ratio:.2f}（中位数）到 {largest_ratio:.2f}（最大）；测试误差 "
    "{residual_error:.1%}，去掉一个块后平均 {residual_one:.1%}，最差 {residual_worst:.1%}，可见各块并不同等重要",
    rule=Rule(lambda m: m.largest_ratio > m.median_ratio and m.residual_worst > m.residual_one > m.residual_error))

row("C48a", "9", HOLDS,
    "2018-2019: GPT-2 shows the advantages of Pre-Norm.",
    "2018–2019：GPT-2 验证 Pre-Norm 优势。",
    "GPT-2 moved the norm to the input of each sub-block.",
    "GPT-2 把归一化移到了每个子块的输入处。",
    "Radford et al. 2019, section 2.3")

row("C48b", "9", CONTRADICTS,
    "2018-2019: BERT shows the advantages of Pre-Norm.",
    "2018–2019：BERT 验证 Pre-Norm 优势。",
    "BERT is Post-Norm, as Xiong et al. say and as A2 says too.",
    "BERT 是 Post-Norm，Xiong 等人这样说，A2 也这样说。",
    XIONG)

row("C49", "10", COND,
    "Vaswani et al. were the first to use residuals with attention.",
    "Vaswani 等首次在注意力中引入残差。",
    "First around self-attention sublayers. GNMT stacked residual LSTM layers with attention a year earlier.",
    "首次用在自注意力子层外。GNMT 早一年就把残差 LSTM 层与注意力叠在一起。",
    VASWANI + "; Wu et al. 2016, arXiv:1609.08144")
