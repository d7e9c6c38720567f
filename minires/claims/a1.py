"""Rows of the second article, A1: C50-C63."""

from __future__ import annotations

from typing import Any

from minires.claims import flow, scalars, streams, trained
from minires.claims.a0 import EXACT, HE, XIONG
from minires.claims.ledger import COND, CONTRADICTS, HOLDS, UNCHECKABLE, Claim, Rule, add

MHC = "Xie et al. 2025, arXiv:2512.24880"
KIMI = "Kimi Team 2026, arXiv:2603.15031"


def row(
    id: str, section: str, expected: str, claim: str, claim_zh: str, finding: str, finding_zh: str, source: str = "",
    **measured: Any,
):  # fmt: skip
    add(Claim(id, "A1", section, claim, claim_zh, expected, finding, finding_zh, source, **measured))


row("C50", "the shortcut", COND,
    "In 2015 a 152-layer net won; before that, depth did not work.",
    "2015 年出现 152 层网络；此前网络一深就废。",
    "The first half holds. Highway networks trained hundreds of layers earlier that year.",
    "前一半成立。但同年早些时候，Highway 网络已训练了数百层。",
    HE + "; Srivastava et al. 2015, arXiv:1505.00387")

row("C51a", "the shortcut", HOLDS,
    "50 layers have a larger error than 20, and it is not over-fitting.",
    "50 层误差比 20 层大，且不是过拟合。",
    "Measured on the digits, with 56 layers for 50. The deep net is worse on the images that it was trained on, too, "
    "so it does not over-fit.",
    "在手写数字上测得，用 56 层代替 50 层。深网络在它训练过的图像上也更差，所以不是过拟合。",
    HE,
    measure=trained.degradation,
    tell="train / test error: {depths[1]} plain layers {train[1]:.1%} / {test[1]:.1%}, {deepest} layers "
    "{deep_train:.1%} / {deep_test:.1%}",
    tell_zh="训练/测试误差：{depths[1]} 层普通网络 {train[1]:.1%} / {test[1]:.1%}，{deepest} 层 {deep_train:.1%} / "
    "{deep_test:.1%}",
    rule=Rule(lambda m: m.deep_train > m.train[1] + 0.05 and m.deep_test > m.test[1] + 0.05))

row("C51b", "the shortcut", CONTRADICTS,
    "The cause is vanishing gradients.",
    "原因是梯度消失。",
    "The very net that fails to train has healthy gradients at the start. He et al. call vanishing gradients an "
    "unlikely cause.",
    "正是那个训不动的网络，一开始梯度完全健康。He 等人称梯度消失是不太可能的原因。",
    HE + ", section 4.1",
    measure=trained.degradation,
    tell="{deepest} plain layers: gradient ratio {gradient:.2f} at the start, and yet a train error of "
    "{deep_train:.1%}",
    tell_zh="{deepest} 层普通网络：一开始梯度比 {gradient:.2f}，训练误差却有 {deep_train:.1%}",
    rule=Rule(lambda m: m.gradient < 0.01))

row("C52a", "the shortcut", HOLDS,
    "With the skip, the gradient path has a +1: the signal jumps to the input.",
    "有了残差，梯度路径多一个 +1，可直达输入。",
    "Pre-Norm's skip path hands on the gradient bit for bit.",
    "Pre-Norm 的跳跃路径逐位原样传递梯度。",
    measure=flow.skip_path,
    tell="skip path alone, change from x_K to x_0: {changed:.0f}",
    tell_zh="只走跳跃路径，从 x_K 到 x_0 的变化：{changed:.0f}",
    rule=Rule(lambda m: m.changed == 0))

row("C52b", "the shortcut", COND,
    "It bypasses everything in between.",
    "完全绕过中间的变换。",
    "One path of 2^L does. The others add to it and are not small at the start.",
    "2^L 条路径中只有一条如此。其余路径也加在上面，而且一开始并不小。",
    measure=flow.skip_path,
    tell="Pre-Norm, {blocks} blocks, at x_0: skip path {pre_norm_skip:.2f}, branches {pre_norm_branches:.2f}, in all "
    "{pre_norm_total:.2f}",
    tell_zh="Pre-Norm，{blocks} 个块，在 x_0 处：跳跃路径 {pre_norm_skip:.2f}，分支 {pre_norm_branches:.2f}，合计 "
    "{pre_norm_total:.2f}",
    rule=Rule(lambda m: m.changed == 0, lambda m: m.pre_norm_branches > 0.1))

row("C53", "what it does", HOLDS,
    "A layer can be lazy: it may return its input.",
    "网络层可以“偷懒”，输出约等于输入。",
    "With weights zero the block is exactly the identity.",
    "权重为零时，块恰好是恒等映射。",
    measure=streams.block_identities,
    tell="branch weights 0: the stack moves its input by {lazy:.0f}",
    tell_zh="分支权重为 0：整个堆叠使输入改变 {lazy:.0f}",
    rule=Rule(lambda m: m.lazy == 0))

row("C54", "what it does", COND,
    "Information does not get mixed: attention refines, the residual preserves.",
    "信息不串味：注意力精加工，残差保真。",
    "Each write can be undone by subtraction, so nothing is lost. But all writes share the same d numbers and are "
    "not orthogonal: what reads the stream sees their sum.",
    "每次写入都可以用减法撤销，所以没有丢失任何东西。但所有写入共用同样的 d 个数，彼此并不正交：读残差流的层看到的是"
    "它们的和。",
    measure=streams.additive_writes,
    tell="addition exact to {additive:.0f}; share of a write inside the plane of the two before it: {overlap:.2f} "
    "(random directions {random:.2f}, orthogonal 0)",
    tell_zh="加法误差 {additive:.0f}；一次写入落在前两次写入所张平面内的份额：{overlap:.2f}（随机方向 {random:.2f}，"
    "正交则为 0）",
    rule=Rule(lambda m: m.additive < EXACT, lambda m: m.overlap > 0.05))

row("C55", "what it does", COND,
    "A residual is like an immutable update: the original stays.",
    "残差像 immutable update，不修改原数据。",
    "A fair picture for Pre-Norm. Post-Norm rescales everything that was there at every layer.",
    "对 Pre-Norm 是恰当的比喻。Post-Norm 在每一层都重新缩放已有的一切。",
    measure=streams.unrolled_sum,
    tell="x_0 + Σ F_k against x_K: Pre-Norm {pre_norm:.0e}, Post-Norm {post_norm:.2f}",
    tell_zh="x_0 + Σ F_k 与 x_K：Pre-Norm {pre_norm:.0e}，Post-Norm {post_norm:.2f}",
    rule=Rule(lambda m: m.pre_norm < EXACT, lambda m: m.post_norm > 0.1))

row("C56", "two belts", HOLDS,
    "An encoder layer has two residual connections.",
    "一个 Encoder 层有两条残差连接。",
    "One around attention, one around the feed-forward network.",
    "一条绕过注意力，一条绕过前馈网络。",
    measure=scalars.additions,
    tell="additions per block: {post:.0f}",
    tell_zh="每块的加法次数：{post:.0f}",
    rule=Rule(lambda m: m.post == 2))

row("C57", "two belts", HOLDS,
    "Pre-LN keeps the residual path clean; GPT and LLaMA use it.",
    "Pre-LN 让残差路径更干净，GPT、LLaMA 采用。",
    "Nothing lies on Pre-Norm's skip path; on Post-Norm's lies a norm per sublayer.",
    "Pre-Norm 的跳跃路径上什么都没有；Post-Norm 的路径上每个子层都有一个归一化。",
    XIONG,
    measure=flow.skip_path,
    tell="skip path alone over {blocks} blocks: Pre-Norm {pre_norm_skip:.2f}, Post-Norm {post_norm_skip:.3f}",
    tell_zh="只走跳跃路径，{blocks} 个块：Pre-Norm {pre_norm_skip:.2f}，Post-Norm {post_norm_skip:.3f}",
    rule=Rule(lambda m: m.changed == 0 and m.post_norm_skip < 0.5))

row("C58", "the ceiling", CONTRADICTS,
    "DeepSeek found that information is diluted over hundreds of layers, and made mHC for that.",
    "DeepSeek 发现几百层后有效信息被稀释，因此提出 mHC。",
    "mHC was made because the free matrices of Hyper-Connections *amplify*: a composite gain of about 3000 in a 27B "
    "model of 30 layers. Dilution is the motive of Kimi's Attention Residuals. The numbers here are of random "
    "matrices with a noise of our choice: they show the mechanism, not DeepSeek's model.",
    "提出 mHC 是因为 Hyper-Connections 的自由矩阵会*放大*信号：在 30 层的 27B 模型里，复合增益约 3000。稀释是 Kimi "
    "的 Attention Residuals 的动机。这里的数用的是随机矩阵，噪声大小由我们选定：它说明机制，不是 DeepSeek 的模型。",
    MHC + "; " + KIMI,
    measure=streams.mixing_products,
    tell="gain of {layers} mixing matrices: free ones, I plus noise of 0.3, {free:.0f}, doubly stochastic ones "
    "{safe:.2f}",
    tell_zh="{layers} 个混合矩阵的增益：自由矩阵（I 加 0.3 的噪声）{free:.0f}，双随机矩阵 {safe:.2f}",
    rule=Rule(lambda m: m.free < 1))

row("C59a", "the ceiling", HOLDS,
    "mHC runs Sinkhorn-Knopp for 20 iterations.",
    "mHC 用 Sinkhorn-Knopp 迭代 20 次。",
    "The paper's t_max is 20, and so is ours.",
    "论文取 t_max = 20，我们也是 20。",
    MHC + ", section 4.2",
    measure=streams.sinkhorn_error,
    tell="{steps} iterations; row sums exact to {rows:.0e}",
    tell_zh="{steps} 次迭代；行和精确到 {rows:.0e}",
    rule=Rule(lambda m: m.steps == 20 and m.rows < EXACT))

row("C59b", "the ceiling", COND,
    "After that the matrix is doubly stochastic to 99.6 %.",
    "约束度达到 99.6%。",
    "The error depends on the spread of the logits, and 0.4 % is reached at one spread. At our starting values it is "
    "0.",
    "误差取决于 logits 的分散程度，只有在某一个分散程度上才是 0.4 %。在我们的初始值上误差为 0。",
    measure=streams.sinkhorn_error,
    tell="mean |column sum - 1|: {at_1:.0e} for logits of spread 1, {at_4:.1%} at 4, {at_16:.1%} at 16; 0.4 % at "
    "{spread:.1f}; {default:.0e} at our starting values",
    tell_zh="平均 |列和 - 1|：logits 标准差为 1 时 {at_1:.0e}，4 时 {at_4:.1%}，16 时 {at_16:.1%}；标准差 "
    "{spread:.1f} 时为 0.4 %；初始值处 {default:.0e}",
    rule=Rule(lambda m: m.at_1 < 0.004, lambda m: m.at_16 > 0.004))

row("C59c", "the ceiling", UNCHECKABLE,
    "The 99.6 % comes from DeepSeek.",
    "99.6% 出自 DeepSeek。",
    "The number is not in the paper's text, and no other source is given.",
    "论文正文里没有这个数，文章也没有给出其他来源。",
    MHC)

row("C60a", "the ceiling", HOLDS,
    "The constraint keeps the stream from being distorted.",
    "约束避免信息流动时扭曲。",
    "A doubly stochastic matrix never expands, keeps the average of the copies, and a product of such matrices is "
    "one again. For what happens to the differences between the copies see C60b.",
    "双随机矩阵从不放大，保持各份副本的平均值，其乘积仍是双随机矩阵。副本之间的差异见 C60b。",
    MHC,
    measure=streams.mixing_products,
    tell="{layers} layers: largest norm of a factor {expansion:.6f}, gain of the product {safe:.6f}, change of the "
    "average {mean:.0e}",
    tell_zh="{layers} 层：单个因子的最大范数 {expansion:.6f}，乘积的增益 {safe:.6f}，平均值的变化 {mean:.0e}",
    rule=Rule(lambda m: m.expansion < 1 + 1e-6 and m.safe < 1 + 1e-6 and m.mean < 1e-9))

row("C60b", "the ceiling", COND,
    "So the identity path is kept.",
    "从而保留恒等路径。",
    "The average of the copies is kept, the differences between them are not: products of positive doubly stochastic "
    "matrices tend to 11ᵀ/n. Near the identity, as at our start, this takes long.",
    "保持的是各副本的平均值，而不是它们之间的差异：正的双随机矩阵连乘趋于 11ᵀ/n。若接近恒等（如我们的初始值），这个过"
    "程很慢。",
    measure=streams.mixing_products,
    tell="{layers} random factors: change of the average {mean:.0e}, second singular value {second:.0e} (1 would "
    "keep the copies apart)",
    tell_zh="{layers} 个随机因子：平均值的变化 {mean:.0e}，第二奇异值 {second:.0e}（为 1 才能让副本保持分开）",
    rule=Rule(lambda m: m.mean < 1e-9, lambda m: m.second < 0.01))

row("C61", "the ceiling", HOLDS,
    "Kimi replaces the addition by learned attention weights.",
    "Kimi 用可学习的注意力权重替代简单加法。",
    "Attention over the outputs of all earlier layers.",
    "对所有先前层的输出做注意力。",
    KIMI)

row("C62", "reflections", HOLDS,
    "Without the addition a Transformer cannot be stacked beyond a few layers.",
    "没有这个加法，Transformer 堆不了几层。",
    "With x = LN(F(x)) more layers make it worse, to the level of letter frequencies. So it is with the usual "
    "initialisation; see C37 for another.",
    "用 x = LN(F(x)) 时，层数越多越差，直到只剩字母频率的水平。这是通常的初始化；例外见 C37。",
    measure=trained.without_addition,
    tell="validation loss after {steps} steps, 1 and {deepest} layers: {shallow_none:.2f} and {deep_none:.2f}; with "
    "the addition {deep_pre:.2f}; letter frequencies {unigram:.2f}",
    tell_zh="{steps} 步后的验证损失，1 层与 {deepest} 层：{shallow_none:.2f} 与 {deep_none:.2f}；有加法 "
    "{deep_pre:.2f}；字母频率基线 {unigram:.2f}",
    rule=Rule(lambda m: m.deep_none > m.shallow_none + 0.2 and m.deep_none > m.deep_pre + 0.2))

row("C63", "reflections", COND,
    "Without an identity path, back-propagation through 50 layers works only on paper.",
    "没有恒等路径，50+ 层的反向传播是纸上谈兵。",
    "Gradients do arrive with He's initialisation. What fails is the training.",
    "用 He 初始化，梯度确实能传到。失败的是训练。",
    measure=trained.degradation,
    tell="{deepest} plain layers: gradient ratio {gradient:.2f}, train error {deep_train:.1%}",
    tell_zh="{deepest} 层普通网络：梯度比 {gradient:.2f}，训练误差 {deep_train:.1%}",
    rule=Rule(lambda m: m.deep_train > 0.1, lambda m: m.gradient > 0.1))
