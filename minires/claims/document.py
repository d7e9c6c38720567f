"""`docs/claims.md` from the ledger, in English and in Chinese: the twelve that matter, all rows, and a map."""

from __future__ import annotations

from collections import Counter
from typing import Any

from minires.claims.ledger import VERDICTS, get_claims, outcomes

# The twelve that matter first: rows that say the same thing together.
TWELVE = (
    ("C76a", "C76b", "C76c"), ("C92",), ("C94a", "C94b"), ("C26a", "C26b", "C108b"), ("C25", "C77a", "C77c"), ("C19b",),
    ("C20", "C51b", "C68b"), ("C04a", "C04b"), ("C58",), ("C59a", "C59b", "C59c"), ("C100",), ("C105b",),
)  # fmt: skip

NAMES = {  # what stands behind A0, A1, A2; the third came to us without a title
    "A0": ("《深度解析大模型注意力残差：千亿参数模型稳定训练的秘密》, 2026",) * 2,
    "A1": ("《Transformer大模型学习必备：揭秘被低估的残差连接》, 2026",) * 2,
    "A2": ("an article that goes from ResNet to Hyper-Connections", "一篇从 ResNet 讲到 Hyper-Connections 的文章"),
}

# (article, English section, Chinese section, command)
MAP = (
    ("A0", "1.1 The trouble with depth", "1.1 深度神经网络的困境", "minires claims C01 C02 C03 C04 C05 C06"),
    ("A0", "1.2, 1.3 ResNet, and why residuals are easier", "1.2、1.3 ResNet 与残差", "minires claims C07 C08 C09 C10"),
    ("A0", "2.1, 2.2 Attention and its residual", "2.1、2.2 注意力与残差", "minires claims C11 C12 C13 C14 C15"),
    ("A0", "2.3 Accumulated information", "2.3 信息累积", "minires claims C16 C17"),
    ("A0", "3.1 Gradient flow", "3.1 梯度流分析", "minires run jacobian_products"),
    ("A0", "3.2, 3.3 Reuse and ensembles", "3.2、3.3 特征复用与集成", "minires run plus_i"),
    ("A0", "4.1 Pre-Norm and Post-Norm", "4.1 Pre-Norm vs Post-Norm", "minires run gradient_table"),
    ("A0", "4.2, 4.3 Scaling and experts", "4.2、4.3 残差缩放与 MoE", "minires compare pre_norm layerscale rezero moe"),
    ("A0", "5 Interpretability", "五、可解释性", "minires claims C32 C33 C34 C35"),
    ("A0", "6 Frontier and compression", "六、前沿与压缩", "minires claims C36 C37 C38 C39 C40 C41"),
    ("A0", "7 Code", "七、代码实现", "minires claims C42 C43 C44"),
    ("A0", "8-10 Advice and history", "八至十、建议与演进", "minires claims C45 C46 C47 C48 C49"),
    ("A1", "The shortcut", "关于抄近道的故事", "minires claims C50 C51 C52"),
    ("A1", "What the residual does", "残差连接到底在做什么", "python lessons/01_residual_add/lesson.py"),
    ("A1", "Two belts in a Transformer", "两条传送带", "minires claims C56 C57"),
    ("A1", "The ceiling, and mHC", "“天花板”与 mHC", "minires claims C58 C59 C60 C61"),
    ("A1", "Reflections", "真实的感受", "minires claims C62 C63"),
    ("A2", "Three difficulties", "三大困境", "minires claims C64 C65 C66 C67 C68 C69"),
    ("A2", "The core idea", "核心思想", "minires claims C70 C71 C72"),
    ("A2", "Pre-Norm and Post-Norm, the table", "Pre-Norm 与 Post-Norm，实验数据", "minires run gradient_table"),
    ("A2", "LayerNorm's Jacobian", "LayerNorm 的雅可比", "minires run layernorm_spectrum"),
    ("A2", "The trade-off", "权衡", "minires claims C78 C79 C80 C81 C82"),
    ("A2", "The residual stream", "残差流", "minires claims C83 C84 C85 C86 C87 C88 C89"),
    ("A2", "DeepNet", "DeepNet", "minires run thousand_layers"),
    ("A2", "Hyper-Connections", "Hyper-Connections", "minires compare pre_norm hyper_connections mhc denseformer"),
    ("A2", "Practical guide", "实践指南", "minires claims C104 C105 C106 C107 C108"),
    ("A2", "References", "参考文献", "minires claims C109"),
)

# How each verdict is said in a document, and the words around the tables.
WORDS: dict[str, dict[str, Any]] = {
    "en": {
        "title": "# What is true of it: every claim of three articles, measured",
        "intro": "Many people learn about residual connections from three articles, called A0, A1 and A2 here. Below "
        "is every statement of theirs that can be checked, in our own words, with a verdict. Where it can be measured "
        "on a small machine, the verdict comes from a measurement by a fixed rule, and `minires claims ID --recompute` "
        "measures it again. Otherwise it comes from the source that is named. This page is written by "
        "`minires claims --write-docs`. 中文：[claims.zh.md](claims.zh.md).",
        "verdicts": VERDICTS,
        "count": "rows",
        "twelve": "## The twelve that matter",
        "twelve_intro": "Read these first: what people most often take home from the articles, and what is true.",
        "all": "## All claims",
        "name": "### {article}, {name}",
        "map": "## From a section to the command that reproduces it",
        "head": "| article | section | command |",
    },
    "zh": {
        "title": "# 三篇文章的每个论断：逐条测量",
        "intro": "很多人从三篇文章（这里称为 A0、A1、A2）学习残差连接。下面是其中每个可以检验的论断（用我们自己的"
        "话表述）和判定。能在小机器上测量的，判定由固定规则从测量值得出，可用 `minires claims 编号 --recompute` "
        "重新测量；否则依据所列来源。说明与来源见[英文版](claims.md)。本页由 `minires claims --write-docs` 生成。",
        "verdicts": {
            "HOLDS": "成立",
            "COND": "有条件成立",
            "CONTRADICTS": "与测量或原始文献矛盾",
            "INTERNAL": "文章之间互相矛盾",
            "UNCHECKABLE": "无公开依据，或无法在小机器上检验",
            "OPEN": "需要较长训练，实验已计划",
        },
        "count": "条数",
        "twelve": "## 最重要的十二条",
        "twelve_intro": "请先读这些。测量值原样引自英文版。",
        "all": "## 全部论断",
        "name": "### {article}，{name}",
        "map": "## 从文章章节到复现命令",
        "head": "| 文章 | 章节 | 命令 |",
    },
}


def document(language: str = "en") -> str:
    """The whole page as Markdown, from the kept results. language: "en" or "zh"."""
    words, rows = WORDS[language], {row["id"]: row for row in outcomes(get_claims())}
    place = list(WORDS).index(language)
    parts = [words["title"], words["intro"], _summary(words, rows), words["twelve"], words["twelve_intro"]]
    parts += [_group(number, [rows[i] for i in ids], language) for number, ids in enumerate(TWELVE, 1)]
    parts += [words["map"], _map(words, place), words["all"]]
    for article, names in NAMES.items():
        parts.append(words["name"].format(article=article, name=names[place]))
        own = [row for row in rows.values() if row["article"] == article]
        parts += [_entry(row) for row in own] if language == "en" else [_table(own)]
    return "\n\n".join(parts) + "\n"


def _summary(words: dict[str, Any], rows: dict[str, dict]) -> str:
    """How many rows have each verdict, and what the verdict means."""
    counts = Counter(row["verdict"] for row in rows.values())
    lines = [f"| {verdict} | {meaning} | {counts[verdict]} |" for verdict, meaning in words["verdicts"].items()]
    return "\n".join([f"| | | {words['count']} |", "|---|---|---|", *lines])


def _group(number: int, rows: list[dict[str, Any]], language: str) -> str:
    """One of the twelve: what the article says, the verdict, what was measured."""
    line = _line if language == "en" else _line_zh
    return "\n\n".join([f"**{number}.** {line(rows[0])}", *map(line, rows[1:])])


def _line(row: dict[str, Any]) -> str:
    measured = f" *Measured: {row['measured']}.*" if row["measured"] else ""
    return f"“{row['claim']}” ({row['article']}, {row['id']}): **{row['verdict']}**. {row['finding']}{measured}"


def _line_zh(row: dict[str, Any]) -> str:
    verdict = WORDS["zh"]["verdicts"][row["verdict"]]
    measured = f" 测量：{row['measured']}。" if row["measured"] else ""
    return f"“{row['claim_zh']}”（{row['article']}，{row['id']}）：**{verdict}**。{measured}"


def _entry(row: dict[str, Any]) -> str:
    """One row of the full list, in English."""
    lines = [f"**{row['id']}** ({row['section']}) {row['claim']} **{row['verdict']}**", row["finding"]]
    lines += [f"Measured: {row['measured']}."] if row["measured"] else []
    if row["measured"]:
        settings = "".join(f", {name} = {_shown(value)}" for name, value in row["settings"].items())
        lines.append(f"Settings: `{row['measurement']}`{settings}; {row['seconds']:.1f} s.")
    lines += [f"Planned: {row['plan']}"] if row["plan"] else []
    lines += [f"Source: {row['source']}."] if row["source"] else []
    return "  \n".join(lines)


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _table(rows: list[dict[str, Any]]) -> str:
    """All rows of an article in Chinese."""
    meanings = WORDS["zh"]["verdicts"]
    lines = [f"| {row['id']} | {row['claim_zh']} | {meanings[row['verdict']]} |" for row in rows]
    return "\n".join(["| 编号 | 论断 | 判定 |", "|---|---|---|", *lines])


def _map(words: dict[str, Any], place: int) -> str:
    return "\n".join([words["head"], "|---|---|---|", *(f"| {m[0]} | {m[1 + place]} | `{m[3]}` |" for m in MAP)])
