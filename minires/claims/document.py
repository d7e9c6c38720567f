"""`docs/claims.md` from the ledger, in English and in Chinese: the twelve that matter, all rows, and a map."""

from __future__ import annotations

from collections import Counter
from typing import Any

from minires.claims.ledger import VERDICTS, get_claims, outcomes
from minires.claims.sections import PLACES, SECTIONS, Section

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

# How each verdict is said in a document, and the words around the tables.
WORDS: dict[str, dict[str, Any]] = {
    "en": {
        "title": "# What is true of it: every claim of three articles, measured",
        "intro": "Many people learn about residual connections from three articles, called A0, A1 and A2 here. Below "
        "is every statement of theirs that can be checked, in our own words, with a verdict. Where it can be measured "
        "on a small machine, the verdict comes from a measurement by a fixed rule, and `minires claims ID --recompute` "
        "measures it again. Otherwise it comes from the source that is named. This page is written by "
        "`minires claims --write-docs`. 中文：[claims.zh.md](claims.zh.md).",
        "words": "Words: a *block* is attention and a feed-forward network (FFN), each a *sublayer*. In x + F(x) the "
        "*branch* is F and the *skip* is x; the *stream* is what flows along the skips, x_0 at the bottom, x_K at the "
        "top. *Skip path alone*: the gradient with every branch's backward pass set to zero. Xavier, LeCun, He, gpt2 "
        "are initialisations of the weights; *letter frequencies* is the loss of knowing only how often each letter "
        "occurs. All models are small: a result here says what can happen, not what happens at every size.",
        "verdicts": VERDICTS,
        "count": "rows",
        "twelve": "## The twelve that matter",
        "twelve_intro": "Read these first: what people most often take home from the articles, and what is true.",
        "all": "## All claims",
        "name": "### {article}, {name}",
        "map": "## From a section to the command that reproduces it",
        "map_intro": "`minires claims` shows what was measured; add `--recompute` to measure it now.",
        "head": "| article | section | claims | more |",
        "line": "“{claim}” ({article}, {id}): **{verdict}**. {finding}",
        "entry": "**{id}** ({section}) {claim} **{verdict}**",
        "measured": "Measured: {}.",
        "settings": "Settings: {}; {:.1f} s.",
        "planned": "Planned: {}",
        "source": "Source: {}.",
    },
    "zh": {
        "title": "# 三篇文章的每个论断：逐条测量",
        "intro": "很多人从三篇文章（这里称为 A0、A1、A2）学习残差连接。下面是其中每个可以检验的论断（用我们自己的"
        "话表述）和判定。能在小机器上测量的，判定由固定规则从测量值得出，可用 `minires claims 编号 --recompute` "
        "重新测量；否则依据所列来源。本页由 `minires claims --write-docs` 生成，数字与英文版来自同一次测量。"
        "English: [claims.md](claims.md).",
        "words": "用语：一个*块*由注意力和前馈网络（FFN）组成，各为一个*子层*。在 x + F(x) 中，*分支*是 F，*跳跃*是 x；"
        "沿跳跃流动的是*残差流*，底部为 x_0，顶部为 x_K。*只走跳跃路径*：把所有分支的反向传播置零时的梯度。"
        "Xavier、LeCun、He、gpt2 是权重的初始化方式；*字母频率基线*是只知道每个字母出现多少次时的损失。"
        "所有模型都很小：这里的结果说明什么会发生，不说明在任何规模上都如此。",
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
        "twelve_intro": "请先读这些：读者最常从文章里带走的说法，以及实情。",
        "all": "## 全部论断",
        "name": "### {article}，{name}",
        "map": "## 从文章章节到复现命令",
        "map_intro": "`minires claims` 显示测得的结果；加上 `--recompute` 就立即重新测量。",
        "head": "| 文章 | 章节 | 论断 | 更多 |",
        "line": "“{claim}”（{article}，{id}）：**{verdict}**。{finding}",
        "entry": "**{id}**（{section}）{claim} **{verdict}**",
        "measured": "测量：{}。",
        "settings": "设置：{}；{:.1f} 秒。",
        "planned": "计划：{}",
        "source": "来源：{}。",
    },
}


# Sources that are words and not a citation.
SOURCES_ZH = {
    "no source in the article": "文章未给出来源",
    "arXiv:2303.08774, which gives no architecture": "arXiv:2303.08774，其中没有给出架构",
    "A0, section 1.1; A2, third difficulty": "A0 1.1 节；A2 第三个困境",
    "A0, table in section 4.1; A2, Pre-Norm vs Post-Norm": "A0 4.1 节的表；A2 Pre-Norm vs Post-Norm",
    "A0, table in section 4.1; A2, key configuration parameters": "A0 4.1 节的表；A2 关键配置参数",
}


def document(language: str = "en") -> str:
    """The whole page as Markdown, from the kept results. language: "en" or "zh"."""
    words, rows = WORDS[language], {row["id"]: row for row in outcomes(get_claims())}
    place = list(WORDS).index(language)
    parts = [words["title"], words["intro"], words["words"], _summary(words, rows)]
    parts += [words["twelve"], words["twelve_intro"]]
    rows = {id: _in_chinese(row) for id, row in rows.items()} if language == "zh" else rows
    parts += [_group(number, [rows[i] for i in ids], words) for number, ids in enumerate(TWELVE, 1)]
    parts += [words["map"], words["map_intro"], _map(words, place), words["all"]]
    for article, names in NAMES.items():
        parts.append(words["name"].format(article=article, name=names[place]))
        parts += [_entry(row, words) for row in rows.values() if row["article"] == article]
    return "\n\n".join(parts) + "\n"


def _in_chinese(row: dict[str, Any]) -> dict[str, Any]:
    """The row with Chinese words in the place of the English ones; numbers, names and citations stay."""
    words = {name: row[f"{name}_zh"] for name in ("claim", "finding", "measured", "plan")}
    section, source = PLACES.get(row["section"], row["section"]), SOURCES_ZH.get(row["source"], row["source"])
    return row | words | {"section": section, "source": source, "verdict": WORDS["zh"]["verdicts"][row["verdict"]]}


def _summary(words: dict[str, Any], rows: dict[str, dict]) -> str:
    """How many rows have each verdict, and what the verdict means."""
    counts = Counter(row["verdict"] for row in rows.values())
    lines = [f"| {verdict} | {meaning} | {counts[verdict]} |" for verdict, meaning in words["verdicts"].items()]
    return "\n".join([f"| | | {words['count']} |", "|---|---|---|", *lines])


def _group(number: int, rows: list[dict[str, Any]], words: dict[str, Any]) -> str:
    """One of the twelve: what the article says, the verdict, what was measured."""
    first, *rest = (_line(row, words) for row in rows)
    return "\n\n".join([f"**{number}.** {first}", *rest])


def _line(row: dict[str, Any], words: dict[str, Any]) -> str:
    measured = f" *{words['measured'].format(row['measured'])}*" if row["measured"] else ""
    return words["line"].format(**row) + measured


def _entry(row: dict[str, Any], words: dict[str, Any]) -> str:
    """One row of the full list."""
    lines = [words["entry"].format(**row), row["finding"]]
    if row["measured"]:
        settings = "".join(f", {name} = {_shown(value)}" for name, value in row["settings"].items())
        lines.append(words["measured"].format(row["measured"]))
        lines.append(words["settings"].format(f"`{row['measurement']}`{settings}", row["seconds"]))
    lines += [words["planned"].format(row["plan"])] if row["plan"] else []
    lines += [words["source"].format(row["source"])] if row["source"] else []
    return "  \n".join(lines)


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _map(words: dict[str, Any], place: int) -> str:
    return "\n".join([words["head"], "|---|---|---|---|", *(_mapped(section, place) for section in SECTIONS)])


def _mapped(section: Section, place: int) -> str:
    claims = f"`minires claims {section.ids}`" if section.ids else section.why[place]
    run = f"`{section.run}`" if section.run else ""
    return f"| {section.article} | {(section.name, section.name_zh)[place]} | {claims} | {run} |"
