"""Every section of the three articles, with the claims in it and a command that reproduces it."""

from __future__ import annotations

from dataclasses import dataclass

NOTHING = ("nothing of its own: it repeats or introduces other sections", "没有独立内容：重复或引出其他章节")


@dataclass(frozen=True)
class Section:
    """ids: its claims, for `minires claims`. run: an experiment, comparison or lesson that shows more. why: why a
    section without claims has nothing to run, in English and in Chinese.
    """

    article: str
    name: str
    name_zh: str
    ids: str = ""
    run: str = ""
    why: tuple[str, str] = ("", "")

    @property
    def commands(self) -> list[str]:
        return ([f"minires claims {self.ids}"] if self.ids else []) + ([self.run] if self.run else [])


SECTIONS = (
    Section("A0", "opening", "开头", why=NOTHING),
    Section("A0", "1.1 The trouble with depth", "1.1 深度神经网络的困境", "C01 C02 C03 C04 C05 C06"),
    Section("A0", "1.2 ResNet", "1.2 ResNet 的突破", "C07 C08 C09", "python lessons/01_residual_add/lesson.py"),
    Section("A0", "1.3 Why residuals are easier", "1.3 为什么学习残差更容易", "C08 C10"),
    Section("A0", "2.1 Attention", "2.1 注意力机制快速回顾", "C11 C12"),
    Section("A0", "2.2 Attention's residual", "2.2 注意力残差的完整计算", "C13 C14 C15"),
    Section("A0", "2.3 Accumulated information", "2.3 残差在注意力中的特殊意义", "C16 C17"),
    Section("A0", "3.1 Gradient flow", "3.1 梯度流分析", "C18 C19 C20", "minires run jacobian_products"),
    Section("A0", "3.2 Reuse of features", "3.2 特征复用与组合", "C21", "minires run plus_i"),
    Section("A0", "3.3 Ensembles", "3.3 集成学习视角", "C22 C23", "minires run path_lengths"),
    Section("A0", "4.1 Pre-Norm and Post-Norm", "4.1 Pre-Norm vs Post-Norm", "C24 C25 C26 C27",
            "minires run gradient_table"),
    Section("A0", "4.2 Scaled residuals", "4.2 残差缩放策略", "C28 C29", "minires compare pre_norm layerscale rezero"),
    Section("A0", "4.3 Mixture of experts", "4.3 混合专家（MoE）中的残差", "C30 C31", "minires compare pre_norm moe"),
    Section("A0", "5.1 The residual stream", "5.1 残差流", "C32"),
    Section("A0", "5.2 What heads specialise in", "5.2 注意力头特化现象", "C33"),
    Section("A0", "5.3 Ablation", "5.3 残差消融实验", "C34 C35"),
    Section("A0", "6.1 Are residuals always needed?", "6.1 残差是否总是必要", "C36 C37",
            "minires compare pre_norm parallel"),
    Section("A0", "6.2 Depth of models", "6.2 残差与模型深度", "C38"),
    Section("A0", "6.3 Compression", "6.3 残差与模型压缩", "C39 C40 C41"),
    Section("A0", "7.1 Code: the block", "7.1 标准注意力残差实现", "C42"),
    Section("A0", "7.2 Code: LayerScale", "7.2 LayerScale 实现", "C43"),
    Section("A0", "7.3 Code: gradient flow", "7.3 梯度流监控", "C44"),
    Section("A0", "8.1 Advice: design", "8.1 模型设计建议", "C45"),
    Section("A0", "8.2 Advice: training", "8.2 训练策略", "C46"),
    Section("A0", "8.3 Advice: debugging", "8.3 调试技巧", "C47"),
    Section("A0", "9 Summary and history", "九、总结", "C48"),
    Section("A0", "10 Reading, closing words", "十、延伸阅读与结语", "C49"),
    Section("A1", "An underrated design", "一个被低估的设计", "C62"),
    Section("A1", "The shortcut", "关于抄近道的故事", "C50 C51 C52"),
    Section("A1", "What the residual does", "残差连接到底在做什么？", "C53 C54 C55",
            "python lessons/01_residual_add/lesson.py"),
    Section("A1", "Two belts in a Transformer", "Transformer 里的两条传送带", "C56 C57"),
    Section("A1", "The ceiling, and mHC", "残差连接的“天花板”与 mHC", "C58 C59 C60 C61", "minires run composite_gain"),
    Section("A1", "Reflections", "一点真实的感受", "C62 C63"),
    Section("A2", "opening", "开头", "C64"),
    Section("A2", "Three difficulties: vanishing", "三大困境：梯度消失", "C65", "minires run jacobian_products"),
    Section("A2", "Three difficulties: exploding", "三大困境：梯度爆炸", "C66 C67"),
    Section("A2", "Three difficulties: degradation", "三大困境：网络退化", "C68 C69"),
    Section("A2", "The core idea", "残差连接的核心思想", "C70 C71 C72", "minires run plus_i"),
    Section("A2", "Pre-Norm and Post-Norm", "Transformer 中的残差连接：Pre-Norm vs Post-Norm",
            "C73 C74 C75", "minires run layernorm_spectrum"),
    Section("A2", "The experiment", "实验数据的验证", "C76 C77", "minires run gradient_table"),
    Section("A2", "Stability or final quality", "权衡：训练稳定性 vs 最终性能", "C78 C79 C80 C81 C82",
            "minires run depth_profiles"),
    Section("A2", "The residual stream as a bus", "作为通信总线的残差流", "C83 C84 C85 C86 C87"),
    Section("A2", "Corrections from layer to layer", "层间修正机制", "C88 C89"),
    Section("A2", "DeepNet: DeepNorm", "DeepNet：DeepNorm", "C90 C91 C92 C93", "minires run thousand_layers"),
    Section("A2", "DeepNet: theory", "DeepNet：理论保证", "C94 C95"),
    Section("A2", "DeepNet: results", "DeepNet：实验结果", "C96"),
    Section("A2", "Hyper-Connections: the seesaw", "Hyper-Connections：跷跷板效应", "C97 C98"),
    Section("A2", "Hyper-Connections: learned connections", "Hyper-Connections：可学习的连接强度", "C99 C100 C101",
            "minires compare pre_norm hyper_connections mhc denseformer"),
    Section("A2", "Hyper-Connections: results", "Hyper-Connections：实验结果", "C102 C103"),
    Section("A2", "When to choose which", "何时选择 Pre-Norm，何时考虑 Post-Norm", "C104"),
    Section("A2", "Key settings", "关键配置参数", "C105 C106 C107 C108", "minires run gradient_training"),
    Section("A2", "Summary", "总结", why=NOTHING),
    Section("A2", "References", "参考文献", "C109"),
)  # fmt: skip

# Where the rows of the second and third article stand, in Chinese. The first article numbers its sections.
PLACES = {
    "the shortcut": "抄近道", "what it does": "残差在做什么", "two belts": "两条传送带", "the ceiling": "天花板与 mHC",
    "reflections": "真实的感受", "opening": "开头", "three difficulties": "三大困境", "core idea": "核心思想",
    "in Transformers": "Transformer 中的残差", "trade-off": "权衡", "residual stream": "残差流",
    "DeepNet": "DeepNet", "Hyper-Connections": "Hyper-Connections", "practice": "实践指南", "references": "参考文献",
}  # fmt: skip
