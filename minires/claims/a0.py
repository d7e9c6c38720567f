"""Rows of the first article, A0: C01-C49."""

from __future__ import annotations

from minires.claims import flow, scalars, streams, trained
from minires.claims.ledger import COND, CONTRADICTS, HOLDS, OPEN, UNCHECKABLE, Claim, Rule, add

EXACT = 1e-9  # two ways to compute the same number in float64
HE = "He et al. 2015, arXiv:1512.03385"
VASWANI = "Vaswani et al. 2017, arXiv:1706.03762"
XIONG = "Xiong et al. 2020, arXiv:2002.04745"
CAIT = "Touvron et al. 2021, arXiv:2103.17239"
VEIT = "Veit et al. 2016, arXiv:1605.06431"
ELHAGE = "Elhage et al. 2021, A Mathematical Framework for Transformer Circuits"


def row(id: str, section: str, expected: str, claim: str, claim_zh: str, finding: str, source: str = "", **measured):
    add(Claim(id, "A0", section, claim, claim_zh, expected, finding, source, **measured))


# ------------------------------------------------------------------------------------ 1: depth, and what ResNet does

row("C01", "1.1", HOLDS,
    "Gradients that shrink to 0.9 per layer are about 0.005 after 50 layers.",
    "每层梯度为 0.9，50 层后约为 0.005。",
    "True as arithmetic. A layer is a matrix, not a number: see C19b for what a product of matrices can do.",
    measure=scalars.powers,
    tell="0.9^50 = {p09:.6f}",
    rule=Rule(lambda m: round(m.p09, 3) == 0.005))

row("C02", "1.1", HOLDS,
    "Gradients that grow to 1.1 per layer are about 117 after 50 layers.",
    "每层梯度为 1.1，50 层后约为 117。",
    "True as arithmetic; the same toy as C01.",
    measure=scalars.powers,
    tell="1.1^50 = {p11:.2f}",
    rule=Rule(lambda m: round(m.p11) == 117))

row("C03", "1.1", COND,
    "Beyond 20 layers gradients vanish or explode.",
    "超过 20 层，梯度就会消失或爆炸。",
    "It depends on the initialisation. With LeCun's (variance 1/d) a ReLU net halves the gradient's square at every "
    "layer; with He's (2/d), made for ReLU, the gradient keeps its size at 56 layers.",
    "He et al. 2015, arXiv:1502.01852",
    measure=flow.plain_gradients,
    tell="‖∂L/∂x_0‖ / ‖∂L/∂x_K‖ of a plain net: LeCun {lecun_20:.1e} at 20 layers, {lecun_56:.1e} at 56; He "
    "{he_20:.2f} and {he_56:.2f}",
    rule=Rule(lambda m: m.lecun_20 < 0.01, lambda m: m.he_56 > 0.1))

row("C04a", "1.1", HOLDS,
    "Plain nets get worse with depth, in training and in test error.",
    "普通网络越深，训练误差和测试误差都越大。",
    "The degradation problem is real and shows on handwritten digits within seconds.",
    HE,
    measure=trained.degradation,
    tell="plain nets on the digits, train / test error: {shallow} layers {shallow_train:.1%} / {shallow_test:.1%}, "
    "{deepest} layers {deep_train:.1%} / {deep_test:.1%}",
    rule=Rule(lambda m: m.deep_train > m.shallow_train + 0.05 and m.deep_test > m.shallow_test + 0.05))

row("C04b", "1.1", CONTRADICTS,
    "Errors by depth: 20 layers 2.3 % train and 3.5 % test, 32: 2.8 and 4.2, 56: 3.5 and 5.1.",
    "误差表：20 层 2.3%/3.5%，32 层 2.8%/4.2%，56 层 3.5%/5.1%。",
    "No such table is in the ResNet paper. A plain net with 3.5 to 5.1 % test error would beat every net there: its "
    "ResNet-56 has 6.97 % on CIFAR-10, its best net 6.43 %. Use the measured table of C04a.",
    HE + ", table 6")

row("C05", "1.1", HOLDS,
    "Deep nets are worse not because they over-fit but because they are hard to optimise.",
    "深层网络更差不是过拟合，而是优化困难。",
    "The training error is high too, and the same net with identity-like weights trains well (C06b): a good solution "
    "exists and is not found.",
    HE,
    measure=trained.degradation,
    tell="{deepest} plain layers: train error {deep_train:.1%}; same net from identity layers {identity_train:.1%}",
    rule=Rule(lambda m: m.deep_train > m.shallow_train + 0.05 and m.identity_train < m.deep_train / 3))

row("C06a", "1.1", HOLDS,
    "A deeper net could copy a shallow one: its extra layers only need to be identities.",
    "更深的网络至少可以复制浅层网络：多余的层学成恒等映射即可。",
    "Exactly so behind a ReLU: with W = I and b = 0 an extra layer changes nothing.",
    HE,
    measure=trained.copied_layers,
    tell="{depth} layers against {shallow}: outputs differ by {difference:.0e}",
    rule=Rule(lambda m: m.difference == 0))

row("C06b", "1.1", COND,
    "So a deep plain net should not be worse than a shallow one.",
    "因此深层网络不应比浅层网络差。",
    "Started near identity layers it is not worse; started as usual (He) it is. The solution is there, the way to it "
    "is not.",
    measure=trained.degradation,
    tell="{deepest} plain layers: train error {identity_train:.1%} from identity layers, {deep_train:.1%} from He's "
    "weights; {shallow} layers {shallow_train:.1%}",
    rule=Rule(lambda m: m.identity_train < m.shallow_train + 0.02, lambda m: m.deep_train > m.shallow_train + 0.05))

row("C07", "1.2", HOLDS,
    "A residual block outputs F(x) + x, so it learns F = H - x.",
    "残差块输出 F(x)+x，学习的是 F=H−x。",
    "By definition, and so in the code.",
    HE,
    measure=streams.block_identities,
    tell="H(x) - x against F(x): relative difference {residual:.0e}",
    rule=Rule(lambda m: m.residual < EXACT))

row("C08", "1.2, 1.3", COND,
    "Learning zero is much easier than learning the identity.",
    "学习“零”比学习“恒等映射”容易得多。",
    "With small weights the residual block is there before the first step. With He's weights its branch is as large "
    "as its input and has to be unlearned. And linear layers that start at the identity have nothing to learn "
    "either. He et al. state this as a hypothesis.",
    HE,
    measure=trained.identity_fit,
    tell="error of fitting H(x) = x before training: residual with small weights {small_before:.0e}, residual with "
    "He's {he_before:.2f}, linear layers at the identity {linear:.0f}; after {steps} steps at {deepest} layers: "
    "plain {deep_plain:.2g}, residual with He's {deep_residual:.2g}",
    rule=Rule(lambda m: m.small_before < 1e-3 and m.deep_residual < m.deep_plain,
              lambda m: m.he_before > 0.3 or m.linear == 0))

row("C09a", "1.2", HOLDS,
    "ResNet trained 152 layers.",
    "ResNet 成功训练了 152 层网络。",
    "Stated in the abstract.",
    HE)

row("C09b", "1.2", COND,
    "With 152 layers the ImageNet error fell to 3.57 %.",
    "152 层网络使 ImageNet 错误率降至 3.57%。",
    "3.57 % is the top-5 test error of an ensemble of several residual nets, not of one net.",
    HE)

row("C10", "1.3", COND,
    "After training most residual functions are small corrections.",
    "训练后大多数残差函数只是小幅修正。",
    "Most are, in a net whose branches are scaled by 1/√K. But there they are as small before training: it is the "
    "scale that makes them so, not the training.",
    measure=trained.lesions,
    tell="trained {depth}-layer residual net: ‖F‖/‖x‖ has median {median_ratio:.2f} ({start_ratio:.2f} before "
    "training) and maximum {largest_ratio:.2f}",
    rule=Rule(lambda m: m.median_ratio < 0.35, lambda m: m.largest_ratio > 1 or m.median_ratio > 0.8 * m.start_ratio))

# ------------------------------------------------------------------------------- 2: attention and its residual branch

row("C11", "2.1", HOLDS,
    "Attention is softmax(QKᵀ/√d_k)V; √d_k keeps the products from growing.",
    "Attention=softmax(QKᵀ/√d_k)V，√d_k 防止点积过大。",
    "For independent unit entries q·k has variance d_k. Without the division the softmax is nearly one-hot.",
    VASWANI,
    measure=streams.attention_pieces,
    tell="variance of q·k {variance:.1f} for d_k = {d_k}; entropy of the softmax {scaled:.2f} of the maximum, "
    "without √d_k {unscaled:.2f}",
    rule=Rule(lambda m: abs(m.variance / m.d_k - 1) < 0.1 and m.unscaled < 0.5 < m.scaled))

row("C12", "2.1", HOLDS,
    "Several heads are computed apart and put together by W^O.",
    "多头注意力：各头独立计算后拼接并乘 W^O。",
    "The same as adding up A_i x W_V W_O head by head, which is how one attributes an output to heads.",
    VASWANI,
    measure=streams.attention_pieces,
    tell="our attention against the sum over heads: {heads_error:.0e}",
    rule=Rule(lambda m: m.heads_error < EXACT))

row("C13", "2.2", HOLDS,
    "The original attention sublayer is LayerNorm(x + Dropout(sublayer(x))).",
    "原始子层：LayerNorm(x+Dropout(sublayer(x)))。",
    "This is Post-Norm.",
    VASWANI,
    measure=streams.printed_blocks,
    tell="our Post-Norm block against the formula (no dropout): {post:.0e}",
    rule=Rule(lambda m: m.post < EXACT))

row("C14", "2.2", HOLDS,
    "The FFN sublayer is LayerNorm(x + Dropout(Linear(ReLU(Linear(x))))).",
    "FFN 子层：LayerNorm(x+Dropout(Linear(ReLU(Linear(x)))))。",
    "The same rule around a two-layer MLP.",
    VASWANI,
    measure=streams.printed_blocks,
    tell="our Post-Norm block against the formula (no dropout): {post:.0e}",
    rule=Rule(lambda m: m.post < EXACT))

row("C15", "2.2", CONTRADICTS,
    "One full layer turns x into x + Attention(x) + FFN(x).",
    "完整一层得到 x+Attention(x)+FFN(x)。",
    "The FFN reads x + Attention(LN x), not x, and both read a norm. What is printed is the parallel block of C36. "
    "The diagram also changes from Post-Norm to Pre-Norm without a word.",
    measure=streams.printed_blocks,
    tell="the printed sum against a sequential Pre-Norm block: relative difference {diagram:.2f}; without norms "
    "{parallel:.2f}",
    rule=Rule(lambda m: m.diagram < 0.01))

row("C16", "2.3", HOLDS,
    "h_L is x plus the sum of all branch outputs.",
    "h_L 等于 x 加上所有分支输出之和。",
    "Exact without a norm on the skip path, so for Pre-Norm and for no norm. In Post-Norm every term is rescaled.",
    measure=streams.unrolled_sum,
    tell="x_0 + Σ F_k against x_K: no norm {residual:.0e}, Pre-Norm {pre_norm:.0e}, Post-Norm {post_norm:.2f}",
    rule=Rule(lambda m: m.residual < EXACT and m.pre_norm < EXACT))

row("C17a", "2.3", COND,
    "Token embeddings reach any depth without loss.",
    "原始 token 嵌入可以无损传到任意深层。",
    "Their coefficient in the sum stays exactly 1 (Pre-Norm). Their share falls, because everything else is added to "
    "them, and later layers may write the negative.",
    ELHAGE,
    measure=streams.unrolled_sum,
    tell="{blocks} blocks: coefficient exact to {pre_norm:.0e}, but cos(x_0, x_K) = {cos_input:.2f}",
    rule=Rule(lambda m: m.pre_norm < EXACT, lambda m: m.cos_input < 0.9))

row("C17b", "2.3", HOLDS,
    "Deep layers can use shallow features directly.",
    "浅层特征可以被深层直接使用。",
    "A later layer reads an earlier write through the fixed matrix W_out W_in (see C85a).",
    ELHAGE,
    measure=streams.virtual_weights,
    tell="along the skip alone, effect against W_out W_in: {direct:.0e}",
    rule=Rule(lambda m: m.direct < EXACT))

# -------------------------------------------------------------------------------------------------- 3: the mathematics

row("C18", "3.1", HOLDS,
    "∂L/∂h_{l-1} = ∂L/∂h_l (∂F/∂h + I).",
    "梯度公式：∂L/∂h_{l−1}=∂L/∂h_l·(∂F/∂h+I)。",
    "With row vectors. I is the identity matrix, not the number 1.",
    measure=flow.backward_formulas,
    tell="back-propagation against the formula: {residual:.0e}",
    rule=Rule(lambda m: m.residual < EXACT))

row("C19a", "3.1", HOLDS,
    "100 layers with ‖∂F/∂x‖ = 0.1 and no residual pass 0.1^100, about nothing.",
    "100 层、每层范数 0.1、无残差：梯度约为 0.1^100≈0。",
    "Even less, because a norm bounds the worst direction only.",
    measure=flow.products,
    tell="gain of ∏ J: {without:.0e}, and {norms:.0e} from the norms alone",
    rule=Rule(lambda m: m.without <= m.norms))

row("C19b", "3.1", COND,
    "With residuals the same layers pass 1^100 = 1.",
    "有残差时梯度约为 1^100=1。",
    "∏ (I + J) with ‖J‖ = 0.1 can be anything from 0.9^100 to 1.1^100. Independent zero-mean branches stay near 1 as "
    "long as L τ² is small, which is why branches are scaled by 1/√L; branches that agree add up exponentially.",
    measure=flow.products,
    tell="gain of ∏ (I + J) by kind of J: {lowest:.1e} to {highest:.1e}; independent {independent:.2f}, shared by "
    "all layers {shared:.0f}",
    rule=Rule(lambda m: 0.5 < m.independent < 2, lambda m: m.lowest < 0.01 and m.highest > 100))

row("C20", "3.1", CONTRADICTS,
    "That is why ResNet trains 152 layers and a plain CNN's gradient vanishes at 20.",
    "因此 ResNet 能训练 152 层，而普通 CNN 在 20 层就梯度消失。",
    "The ResNet paper says the opposite of its plain nets: with batch normalisation their gradients have healthy "
    "norms, and vanishing gradients are unlikely to be the cause. Here too: He-initialised plain nets pass gradients "
    "well.",
    HE + ", section 4.1",
    measure=flow.plain_gradients,
    tell="plain He-initialised nets: gradient ratio {he_20:.2f} at 20 layers, {he_56:.2f} at 56",
    rule=Rule(lambda m: m.he_20 < 0.01))

row("C21", "3.2", HOLDS,
    "x + F(x) is a weighted combination of [x, F(x)].",
    "h=x+F(x) 是 [x,F(x)] 的加权组合。",
    "With the fixed weights 1 and 1. Highway networks and Hyper-Connections learn them.",
    measure=streams.block_identities,
    tell="[x, F(x)] times [I; I] against x + F(x): {combination:.0e}",
    rule=Rule(lambda m: m.combination < EXACT))

row("C22a", "3.3", COND,
    "L residual blocks have 2^L paths.",
    "L 个残差块有 2^L 条路径。",
    "As a sum of path outputs it is exact for linear branches only; with a ReLU the parts do not add up. As paths of "
    "a gradient it is always exact: ∏ (I + J) has 2^L terms.",
    VEIT,
    measure=streams.path_count,
    tell="{blocks} blocks, sum over {paths} paths against the output: linear {linear:.0e}, ReLU {relu:.2f}",
    rule=Rule(lambda m: m.linear < EXACT, lambda m: m.relu > 0.01))

row("C22b", "3.3", COND,
    "So a residual net is an ensemble of exponentially many shallow nets.",
    "残差网络是指数级数量浅层网络的集成。",
    "The paper says that they behave *like* ensembles. The paths share all weights. Its main finding is missing "
    "here: almost all gradient comes through short paths.",
    VEIT)

row("C23", "3.3", HOLDS,
    "If some layers fail, the other paths still work.",
    "即使某些层失效，其他路径仍可工作。",
    "True of residual nets, and a plain net does not survive the loss of one layer as well.",
    VEIT,
    measure=trained.lesions,
    tell="test error {residual_error:.1%}, with one block left out {residual_one:.1%} (worst {residual_worst:.1%}); "
    "plain net {plain_error:.1%}, then {plain_one:.1%} (worst {plain_worst:.1%})",
    rule=Rule(lambda m: m.residual_one < m.residual_error + 0.05))

# ------------------------------------------------------------------------------------------- 4: norms, scaling, experts

row("C24a", "4.1", HOLDS,
    "Post-Norm is LayerNorm(x + A(x)), Pre-Norm x + A(LayerNorm(x)).",
    "Post-Norm 为 LN(x+A(x))，Pre-Norm 为 x+A(LN(x))，二者即如此定义。",
    "So defined.",
    XIONG,
    measure=streams.printed_blocks,
    tell="our blocks against the formulas: Post {post:.0e}, Pre {pre:.0e}",
    rule=Rule(lambda m: max(m.post, m.pre) < EXACT))

row("C24b", "4.1", COND,
    "Post-Norm needs warm-up, Pre-Norm does not.",
    "Post-Norm 需要 warm-up，Pre-Norm 不需要。",
    "So it is with Xavier's weights and a learning rate that is not small. With weights that are small for the width "
    "Post-Norm trains without warm-up too: the size of the branches decides. Large Pre-Norm models are still trained "
    "with warm-up.",
    XIONG,
    measure=trained.warm_up,
    tell="{blocks} blocks, lr {lr:g}, {steps} steps, validation loss without / with warm-up: Post {post_cold:.2f} / "
    "{post_warm:.2f}, Pre {pre_cold:.2f} / {pre_warm:.2f}; Post with small weights and no warm-up {small_cold:.2f}; "
    "letter frequencies {unigram:.2f}",
    rule=Rule(lambda m: m.post_cold > m.post_warm + 0.2 and m.pre_cold < m.unigram - 0.3,
              lambda m: m.small_cold < m.unigram - 0.3))

row("C25", "4.1", COND,
    "Deep Post-Norm tends to exploding gradients, Pre-Norm is more stable.",
    "深层 Post-Norm 容易梯度爆炸，Pre-Norm 更稳定。",
    "Two different objects. The gradient of the last layer's *weights* is larger in Post-Norm and does not fall with "
    "depth, in Pre-Norm it falls like 1/√L. The gradient of the *hidden states* does not explode downwards. See C77a "
    "for the other half: A0 says explode, A2 says vanish.",
    XIONG,
    measure=flow.norm_placement,
    tell="gradient of the last FFN weight at {deepest} blocks: Post {deep_post:.2f}, Pre {deep_pre:.2f}, exponents "
    "in depth {post_slope:+.2f} and {pre_slope:+.2f}; hidden gradient first/last: Post {deep_hidden:.2f}",
    rule=Rule(lambda m: m.deep_post > 2 * m.deep_pre, lambda m: m.deep_hidden < 10))

row("C26a", "4.1", CONTRADICTS,
    "Post-Norm needs an additional norm at the end.",
    "Post-Norm 需要最后额外归一化。",
    "It is the other way round: Post-Norm's last operation is a norm.",
    XIONG + "; GPT-2's released code has `ln_f`",
    measure=flow.norm_placement,
    tell="rms of Post-Norm's last state at {deepest} blocks: {post_size:.3f}",
    rule=Rule(lambda m: abs(m.post_size - 1) > 0.05))

row("C26b", "4.1", CONTRADICTS,
    "Pre-Norm needs nothing extra.",
    "Pre-Norm 无需额外处理。",
    "Its stream grows with depth, and a final norm is added before the head. A2 says so (C108a).",
    XIONG + "; GPT-2's released code has `ln_f`",
    measure=flow.norm_placement,
    tell="rms of Pre-Norm's last state at {deepest} blocks: {pre_size:.2f}",
    rule=Rule(lambda m: m.pre_size < 1.5))

row("C27a", "4.1", HOLDS,
    "GPT-2, GPT-3, Llama and PaLM use Pre-Norm.",
    "GPT-2/3、Llama、PaLM 采用 Pre-Norm。",
    "Their papers say so.",
    "Radford et al. 2019, section 2.3; arXiv:2005.14165; arXiv:2302.13971; arXiv:2204.02311")

row("C27b", "4.1", UNCHECKABLE,
    "GPT-4 uses Pre-Norm.",
    "GPT-4 采用 Pre-Norm。",
    "Its architecture has not been published.",
    "arXiv:2303.08774, which gives no architecture")

row("C28a", "4.2", CONTRADICTS,
    "LayerScale is x + γ₁ Attention(x) + γ₂ FFN(x).",
    "LayerScale 的公式：x+γ₁·Attention(x)+γ₂·FFN(x)。",
    "The paper's block is sequential and normed: x + γ A(LN x), then x + γ' F(LN x). The article's own code is right "
    "(C43).",
    CAIT,
    measure=streams.printed_blocks,
    tell="the printed sum against LayerScale: relative difference {layerscale:.2f}",
    rule=Rule(lambda m: m.layerscale < 0.01))

row("C28b", "4.2", COND,
    "γ starts at a small value such as 0.1.",
    "γ 初始化为小值（如 0.1）。",
    "0.1 is the value for up to 18 layers; the paper takes 1e-5 for 24 and 1e-6 beyond.",
    CAIT)

row("C28c", "4.2", UNCHECKABLE,
    "LayerScale is common in models above 10 billion parameters.",
    "LayerScale 常用于 >10B 的模型。",
    "No public source says so. It was made for image Transformers of up to 48 layers.",
    CAIT)

row("C29", "4.2", HOLDS,
    "ReZero, x + αF(x) with α = 0, starts as the identity.",
    "ReZero：α 初始化为 0，初期完全等于恒等映射。",
    "Exactly. A consequence: at step 0 only α has a gradient, the weights have none.",
    "Bachlechner et al. 2020, arXiv:2003.04887",
    measure=streams.rezero_start,
    tell="the stack moves its input by {moved:.0f}; largest gradient of a weight {weights:.0f}, smallest of an α "
    "{alpha:.1e}",
    rule=Rule(lambda m: m.moved == 0 and m.weights == 0 and m.alpha > 0))

row("C30", "4.3", HOLDS,
    "A mixture of experts adds Σ expert_i(x) · gate_i to x.",
    "MoE 的残差：x+Σ expert_i(x)·gate_i。",
    "Up to two things left out: the experts read a normed x, and the gates are a softmax over the chosen experts "
    "only.",
    "Jiang et al. 2024, arXiv:2401.04088")

row("C31a", "4.3", HOLDS,
    "Experts that are not chosen contribute zero.",
    "未被选中的专家相当于残差为 0。",
    "Exactly zero, in the output and in their gradients.",
    measure=streams.expert_mixture,
    tell="largest gradient of an unchosen expert {unselected:.0f}, smallest of a chosen one {selected:.1e}",
    rule=Rule(lambda m: m.unselected == 0 and m.selected > 0))

row("C31b", "4.3", HOLDS,
    "Gradients pass directly along the residual.",
    "梯度可以直接通过残差分支传递。",
    "The +I is there, whatever the router chose.",
    measure=streams.expert_mixture,
    tell="gradient with the skip minus gradient without, against the gradient above: {passed:.0e}",
    rule=Rule(lambda m: m.passed < EXACT))

# --------------------------------------------------------------------------------------------- 5: reading the stream

row("C32", "5.1", COND,
    "Every layer adds to the stream without changing what is there.",
    "每层只向残差流添加信息，不改变已有内容。",
    "Addition is all that happens (Pre-Norm). But a write may point against what is there: the stream is one vector, "
    "and adding the negative deletes.",
    ELHAGE,
    measure=streams.additive_writes,
    tell="x_(k+1) - x_k - F_k = {additive:.0f}; {negative:.0%} of the writes have a part against the stream",
    rule=Rule(lambda m: m.additive < EXACT, lambda m: m.negative > 0.05))

row("C33", "5.2", UNCHECKABLE,
    "Heads of layers 1-4 do syntax, 5-12 meaning, 13 and up reasoning.",
    "注意力头：1–4 层句法，5–12 层语义，13 层以上推理。",
    "Needs large pretrained models. Probing of BERT shows a trend; fixed ranges cannot hold for every model, since a "
    "two-layer one already divides its work.",
    "Tenney et al. 2019, arXiv:1905.05950, for BERT")

row("C34", "5.3", CONTRADICTS,
    "Leaving out layer k gives x + Σ F_i(x) - F_k(x).",
    "消融第 k 层：x+ΣF_i(x)−F_k(x)。",
    "F_i reads x_i and not x. And subtracting the kept F_k is only the *direct* effect: the layers above would have "
    "read something else. Run the model again without layer k.",
    measure=streams.ablation,
    tell="direct against total effect: they differ by {smallest:.0%} to {largest:.0%}, and not at all for the last "
    "sublayer ({last:.0e})",
    rule=Rule(lambda m: m.smallest < 0.01))

row("C35a", "5.3", UNCHECKABLE,
    "Leaving out shallow layers hurts syntax, middle ones meaning, deep ones reasoning.",
    "浅层消融影响语法，中层影响语义，深层影响推理。",
    "Needs large models and such tasks; no source is given.",
    "no source in the article")

row("C35b", "5.3", OPEN,
    "This proves that the layers' contributions can be separated.",
    "这证明各层贡献可分离。",
    "Effects would have to add up. At initialisation they do not (C34).",
    plan="Train a 6-layer Pre-Norm model on the play; compare the loss without layers j and k with the sum of the "
    "two effects.")

# ------------------------------------------------------------------------------------ 6: frontier and compression

row("C36a", "6.1", HOLDS,
    "A parallel block has fewer residual additions.",
    "并行 Transformer 减少了残差分支数量。",
    "One per block and not two.",
    "Chowdhery et al. 2022, arXiv:2204.02311",
    measure=scalars.additions,
    tell="additions per block: sequential {sequential:.0f}, parallel {parallel:.0f}",
    rule=Rule(lambda m: m.parallel < m.sequential))

row("C36b", "6.1", COND,
    "It is slightly worse but trains faster.",
    "性能略有下降但训练更快。",
    "PaLM reports about 15 % faster training at scale, a small loss of quality at 8 billion parameters and none at "
    "62 billion.",
    "Chowdhery et al. 2022, arXiv:2204.02311, section 2")

row("C37", "6.1", HOLDS,
    "Training without residuals is possible with special initialisation and norms.",
    "用特殊的初始化和归一化可以去掉残差。",
    "56 plain layers that start near the identity train well. At scale this has not become usual.",
    "He et al. 2023, arXiv:2302.10322",
    measure=trained.degradation,
    tell="{deepest} plain layers from identity-like weights: train error {identity_train:.1%}",
    rule=Rule(lambda m: m.identity_train < 0.05))

row("C38", "6.2", UNCHECKABLE,
    "GPT-4 has more than 100 layers and is stable because of Pre-Norm, ensembles, μP and AdamW.",
    "GPT-4 有 100+ 层，其稳定性来自 Pre-Norm、集成效应、μP、AdamW。",
    "Nothing about its depth or training is public.",
    "arXiv:2303.08774, which gives no architecture")

row("C39", "6.3", OPEN,
    "A distilled student may have fewer layers but must keep the residuals.",
    "知识蒸馏：学生模型层数可少，但需保留残差结构。",
    "“Must” needs a test. DistilBERT starts from every second layer of its teacher, which relies on the skips.",
    "Sanh et al. 2019, arXiv:1910.01108",
    plan="Distil a 6-layer model of the play into 3 layers with and without skips.")

row("C40", "6.3", HOLDS,
    "Residual branches can be pruned if one straight path remains.",
    "剪枝可去掉部分残差分支，但要保留直通路径。",
    "A trained residual net loses little when a few blocks write nothing, and degrades smoothly.",
    VEIT,
    measure=trained.lesions,
    tell="test error {residual_error:.1%}; without 8 blocks of {depth} layers {eighth:.1%}",
    rule=Rule(lambda m: m.eighth < 0.3))

row("C41", "6.3", OPEN,
    "Residual connections are sensitive to quantisation.",
    "残差连接对量化误差敏感。",
    "Plausible: large outliers live in the stream.",
    "Xiao et al. 2023, arXiv:2211.10438",
    plan="Train a small model of the play; round the stream, the branches or the weights to 8 and 4 bits; compare "
    "the losses.")

# --------------------------------------------------------------------------------------------------- 7: the code

row("C42", "7.1", COND,
    "The printed TransformerBlock is a correct Pre-Norm block.",
    "文中的 TransformerBlock 是正确的 Pre-Norm 实现。",
    "It runs. But torch's MultiheadAttention expects (T, B, d) unless batch_first=True: with (B, T, d), as the text "
    "suggests, it attends across the samples of a batch. There is no causal mask, no final norm, and norm1(x) is "
    "computed three times.",
    "PyTorch documentation of nn.MultiheadAttention")

row("C43", "7.2", HOLDS,
    "The printed LayerScale code is right.",
    "文中的 LayerScale 代码正确。",
    "Sequential and normed, as in the paper, unlike the article's formula (C28a). Its dropout reaches only the "
    "attention weights.",
    CAIT,
    measure=streams.printed_blocks,
    tell="the code's equations against our LayerScale: {code:.0e}",
    rule=Rule(lambda m: m.code < EXACT))

row("C44", "7.3", COND,
    "loss = output.sum() and backward() shows the gradient norms of the layers.",
    "用 loss=output.sum() 反向传播即可监控各层梯度范数。",
    "Only if no norm comes last. The sum over a LayerNorm's output does not depend on its input, so with Post-Norm "
    "or a final norm all gradients are rounding errors, and their ratios noise. Use the cross-entropy, or ⟨R, "
    "output⟩ with a fixed random R.",
    measure=flow.summed_output,
    tell="first FFN's gradient, sum against random direction: without a final norm {bare:.1f}, with it {pre:.0e}, "
    "Post-Norm {post:.0e}",
    rule=Rule(lambda m: m.bare > 0.1, lambda m: max(m.pre, m.post) < 1e-6))

# ------------------------------------------------------------------------------------- 8 to 10: advice and history

row("C45a", "8.1", COND,
    "Deeper than 12 layers must have residuals.",
    "深度 >12 层必须使用残差连接。",
    "True but far too weak: without the addition a small Transformer is stuck long before (C62). And special starts "
    "can do without (C37).",
    measure=trained.without_addition,
    tell="validation loss without the addition: 1 layer {shallow_none:.2f}, {deepest} layers {deep_none:.2f}; letter "
    "frequencies {unigram:.2f}",
    rule=Rule(lambda m: m.deep_none > m.deep_pre + 0.2, lambda m: m.deepest < 12))

row("C45b", "8.1", UNCHECKABLE,
    "Above 1 billion parameters prefer Pre-Norm, above 10 billion consider LayerScale.",
    "大模型（>1B）优先 Pre-Norm，>10B 考虑 LayerScale。",
    "A convention without a source. The first half agrees with what is published (C27a), the second does not (C28c).",
    "no source in the article")

row("C46", "8.2", HOLDS,
    "Pre-Norm: usually no warm-up and larger learning rates; Post-Norm: careful warm-up.",
    "Pre-Norm 通常无需 warm-up、可用更大学习率；Post-Norm 需谨慎 warm-up。",
    "Sound advice for Xavier's weights. See C24b for when Post-Norm needs none.",
    XIONG,
    measure=trained.warm_up,
    tell="lr {lr:g}: without warm-up Post-Norm {post_cold:.2f}, Pre-Norm {pre_cold:.2f}; with it Post-Norm "
    "{post_warm:.2f}; letter frequencies {unigram:.2f}",
    rule=Rule(lambda m: m.post_cold > m.post_warm + 0.2 and m.pre_cold < m.unigram - 0.3))

row("C47", "8.3", HOLDS,
    "Check gradient flow, the size of each contribution, and leave out layers one by one.",
    "调试：检查梯度流、残差贡献比例、逐层消融。",
    "Good methods, with two traps: the loss (C44) and direct against total effect (C34).",
    measure=trained.lesions,
    tell="on a trained net they work: contributions {median_ratio:.2f} (median), one block left out costs at most "
    "{residual_worst:.1%} test error",
    rule=Rule(lambda m: 0 < m.median_ratio < 10))

row("C48a", "9", HOLDS,
    "2018-2019: GPT-2 shows the advantages of Pre-Norm.",
    "2018–2019：GPT-2 验证 Pre-Norm 优势。",
    "GPT-2 moved the norm to the input of each sub-block.",
    "Radford et al. 2019, section 2.3")

row("C48b", "9", CONTRADICTS,
    "2018-2019: BERT shows the advantages of Pre-Norm.",
    "2018–2019：BERT 验证 Pre-Norm 优势。",
    "BERT is Post-Norm, as Xiong et al. say and as A2 says too.",
    XIONG)

row("C49", "10", COND,
    "Vaswani et al. were the first to use residuals with attention.",
    "Vaswani 等首次在注意力中引入残差。",
    "First around self-attention sublayers. GNMT stacked residual LSTM layers with attention a year earlier.",
    VASWANI + "; Wu et al. 2016, arXiv:1609.08144")
