"""The article's table of gradient norms through 12 layers, measured, and taken apart into skip path and branches.

The article prints, for layers 1 / 6 / 12 of a 12-layer network, gradient norms relative to layer 12:

    Post-Norm  0.0012 / 0.0876 / 1.0000          Pre-Norm  0.9845 / 0.9912 / 1.0000

Here a layer is one block (attention, then feed-forward) and its gradient is that of its output, ∂L/∂x_{2n}; layer 0 is
the embedding. Each norm is measured three times: as back-propagated (total), with every branch's backward pass set to
zero (skip path alone), and the norm of what is between the two (branches alone). The loss is cross-entropy on text:
the next character for the decoder, masked characters for the encoder. All at initialisation.

The skip path of Post-Norm passes one J_LN per sublayer, and J_LN divides by s = √(1 + s_F²), where s_F is the rms of
the branch's output relative to the stream. Over m sublayers its gradient therefore is (1 + s_F²)^(-m/2), less what
the directions 1 and x̂ take away in each J_LN.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from minires.data import CharCorpus, hamlet
from minires.experiments.result import Result, measured
from minires.messages import UnknownName, ValueProblem
from minires.models import DecoderLM, Encoder
from minires.probes import Decomposition, inverse_size_product, record, skip_path_product, state_gradients
from minires.ui import progress

NAME = "gradient_table"
TITLE = "Gradient norms through 12 layers, Post- and Pre-Norm: total, skip path alone, branches alone"
RTOL, ATOL = 1e-3, 1e-9  # float32

ARTICLE = {"post_norm": {1: 0.0012, 6: 0.0876, 12: 1.0}, "pre_norm": {1: 0.9845, 6: 0.9912, 12: 1.0}}
LABELS = {"post_norm": "Post-Norm", "pre_norm": "Pre-Norm"}
COLUMNS = ("total", "skip", "branches")
MODELS = {"decoder": DecoderLM, "encoder": Encoder}


# ------------------------------------------------------------------------------------------------ one measurement


def batch(model: str, corpus: CharCorpus, size: int, length: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets (size, length): the next character, or 15 % masked characters (the rest is -100)."""
    rng = np.random.default_rng(seed)
    x, y = corpus.batch(rng, size, length)
    if model == "decoder":
        return x, y
    masked = rng.random(x.shape) < 0.15
    masked[0, 0] = True
    return np.where(masked, len(corpus.vocab), x), np.where(masked, x, -100)


def cell(
    corpus: CharCorpus, model: str, norm: str, init: str, width: int, seed: int, *,
    blocks: int, size: int, length: int, dtype: str,
) -> dict[str, Any]:  # fmt: skip
    """One network: the three columns by layer relative to the last layer's total, s_F, and ∏ 1/s (Post-Norm)."""
    x, y = batch(model, corpus, size, length, seed)
    net = MODELS[model](
        len(corpus.vocab) + 1, width, max(4, width // 64), blocks, length,
        connection=norm, init=init, dtype=np.dtype(dtype), rng=seed,
    )  # fmt: skip
    total, skip = state_gradients(net, x, y), state_gradients(net, x, y, skip_only=True)
    parts = Decomposition.of(total, skip)
    found: dict[str, Any] = {name: (getattr(parts, name) / parts.total[-1])[::2] for name in COLUMNS}
    passed = record(net, x)
    found["branch_size"] = branch_size(*passed)
    if norm == "post_norm":
        found["inverse_s"] = (inverse_size_product(*passed, total[-1]) / parts.total[-1])[::2]
    return found


def branch_size(states: list[np.ndarray], branches: list[np.ndarray]) -> float:
    """s_F: rms of the branches' outputs relative to the stream they join, mean square over all sublayers."""
    ratios = [np.mean(f.astype(np.float64) ** 2) / np.mean(x.astype(np.float64) ** 2) for x, f in zip(states, branches)]
    return float(np.sqrt(np.mean(ratios)))


def needed_branch_size(ratio: float, sublayers: int) -> float:
    """The s_F for which the skip path alone has this gradient: (1 + s_F²)^(-sublayers/2) = ratio."""
    return float(np.sqrt(ratio ** (-2 / sublayers) - 1))


# ------------------------------------------------------------------------------------------------- the whole table


@measured
def run(
    models: tuple = ("decoder", "encoder"), inits: tuple = ("xavier", "lecun", "he", "gpt2", "gpt2_scaled"),
    widths: tuple = (64, 512), seeds: tuple = (3, 1), blocks: int = 12, batch: int = 2, length: int = 32,
    dtype: str = "float32", seed: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """Every model × norm × initialisation × width, at initialisation.

    models: decoder, encoder. inits: names of initialisers. widths: d. seeds: how many networks for each width.
    blocks: layers. batch, length: size of the text batch. dtype: float32 or float64.
    """
    _check(models, widths, seeds, blocks)
    corpus, count = CharCorpus(hamlet()), dict(zip(widths, seeds))
    sizes = dict(blocks=blocks, size=batch, length=length, dtype=dtype)
    keys = list(itertools.product(models, ARTICLE, inits, widths))
    jobs = [(*key, seed + i) for key in keys for i in range(count[key[3]])]
    found = dict(zip(jobs, _in_threads(lambda job: cell(corpus, *job, **sizes), jobs)))
    profiles = [_profile(key, [f for job, f in found.items() if job[:4] == key]) for key in keys]
    return {
        "rows": [row for profile in profiles for row in _rows(profile, blocks)],
        "profiles": profiles,
        "removed": removed(profiles),
        "product_error": product_error(corpus, seed),
        "needed_branch_size": [] if blocks != 12 else needed(),
        "verdict": verdict(profiles) if blocks == 12 else {"text": "The article has 12 layers: nothing to compare."},
    }


def _check(models: tuple, widths: tuple, seeds: tuple, blocks: int) -> None:
    for model in models:
        if model not in MODELS:
            raise UnknownName("model", model, MODELS)
    if len(seeds) != len(widths) or min(seeds) < 1 or blocks < 1:
        given = f"widths={widths}, seeds={seeds}, blocks={blocks}"
        raise ValueProblem("each width needs a number of seeds, and blocks must be at least 1", given, "Try seeds=1,1.")


def _in_threads(work: Callable, jobs: list) -> list:
    """One job per thread and one BLAS thread per job: the results do not depend on how many there are."""
    from threadpoolctl import threadpool_limits

    threads = min(4, os.cpu_count() or 1)
    bar = progress(len(jobs), "networks")
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool, bar:
        return [(bar.advance(), found)[1] for found in pool.map(work, jobs)]


def _profile(key: tuple, cells: list[dict]) -> dict[str, Any]:
    """One cell of the table: geometric means over the seeds, and the range of the totals."""
    profile = dict(zip(("model", "norm", "init", "width"), key), seeds=len(cells))
    for name in cells[0]:
        values = np.array([found[name] for found in cells])
        with np.errstate(divide="ignore"):  # the branches add exactly 0 at the last layer
            profile[name] = np.exp(np.mean(np.log(values), axis=0))
    totals = np.array([found["total"] for found in cells])
    return profile | {"total_low": totals.min(axis=0), "total_high": totals.max(axis=0)}


def _rows(profile: dict, blocks: int) -> Iterator[dict[str, Any]]:
    """The article's layers of one cell, beside the article's values."""
    article = ARTICLE[profile["norm"]] if blocks == 12 else {}
    for layer in sorted({1, (blocks + 1) // 2, blocks}):
        row = {name: profile[name] for name in ("model", "norm", "init", "width", "seeds")} | {"layer": layer}
        yield row | {name: profile[name][layer] for name in COLUMNS} | {"article": article.get(layer)}


def table(result: Result) -> list[dict[str, Any]]:
    """The rows that are worth printing: layers 1 and 6 (layer 12 is 1 by definition)."""
    return [row for row in result.data["rows"] if row["layer"] < result.settings["blocks"]]


# ----------------------------------------------------------------------------------------------------- judging it


def needed() -> list[dict[str, Any]]:
    """Which s_F the article's two Post-Norm numbers need, for the skip path alone, by how one counts its layers."""
    countings = {
        "from the output of the layer, 2 sublayers per layer": (22, 12),
        "from the input of the layer, 2 sublayers per layer": (24, 14),
        "from the output of the layer, 1 sublayer per layer": (11, 6),
    }
    return [
        {"counting": name, "layer": layer, "ratio": ratio, "sublayers": m, "branch_size": needed_branch_size(ratio, m)}
        for name, sublayers in countings.items()
        for (layer, ratio), m in zip(list(ARTICLE["post_norm"].items())[:2], sublayers)
    ]


def removed(profiles: list[dict]) -> dict[str, list[float]]:
    """By width: how much smaller Post-Norm's skip path is at layer 1 than ∏ 1/s, because J_LN removes directions."""
    shares: dict[str, list[float]] = {}
    for p in profiles:
        if p["norm"] == "post_norm":
            shares.setdefault(str(p["width"]), []).append(1 - p["skip"][1] / p["inverse_s"][1])
    return {width: _range(values) for width, values in shares.items()}


def product_error(corpus: CharCorpus, seed: int) -> float:
    """How far Post-Norm's skip path is from the explicit product of its Jacobians: largest relative error, float64."""
    x, y = batch("decoder", corpus, 1, 8, seed)
    net = DecoderLM(len(corpus.vocab), 64, 4, 12, 8, connection="post_norm", init="xavier", dtype=np.float64, rng=seed)
    skip = state_gradients(net, x, y, skip_only=True)
    product = skip_path_product(net, x, skip[-1])
    return max(float(np.linalg.norm(p - g[0]) / np.linalg.norm(g)) for p, g in zip(product, skip))


def verdict(profiles: list[dict]) -> dict[str, Any]:
    """Whether the totals have the article's values, computed from the cells."""
    found = {norm: _judged([p for p in profiles if p["norm"] == norm], norm) for norm in ARTICLE}
    return found | {"text": _verdict_text(found["post_norm"], found["pre_norm"])}


def _judged(cells: list[dict], norm: str) -> dict[str, Any]:
    """How many cells come within 10 % of the article, how large their branches are, how near the nearest one is."""
    factors = [_factor(p["total"], norm) for p in cells]
    best = cells[int(np.argmin(factors))]
    near = [p["branch_size"] for p, factor in zip(cells, factors) if factor < 1.1]
    return {
        "cells": len(cells),
        "within 10 %": len(near),
        "their largest s_F": max(near, default=None),
        "closest": f"{best['model']} {best['init']} {best['width']}",
        "off by a factor": min(factors),
        "total at layer 1": _range(p["total"][1] for p in cells),
        "total at layer 6": _range(p["total"][6] for p in cells),
        "skip at layer 1": _range(p["skip"][1] for p in cells),
    }


def _factor(profile: np.ndarray, norm: str) -> float:
    """By which factor a profile misses the article's numbers, at the worse of layers 1 and 6."""
    return float(np.exp(max(abs(np.log(profile[layer] / ARTICLE[norm][layer])) for layer in (1, 6))))


def _range(values: Iterable[float]) -> list[float]:
    values = list(values)
    return [float(min(values)), float(max(values))]


def _verdict_text(post: dict[str, Any], pre: dict[str, Any]) -> str:
    total, alone = told(post["total at layer 1"], 2), told(post["skip at layer 1"], 2)
    sizes = f" (those with branches of s_F ≤ {pre['their largest s_F']:.2g})" if pre["within 10 %"] else ""
    never = "never below 1" if pre["total at layer 1"][0] >= 1 else "at times below 1"
    return (
        f"Post-Norm: {post['within 10 %']} of {post['cells']} cells come within 10 % of the article's numbers. At "
        f"layer 1 the whole gradient is {total} of that at layer 12, not 0.0012, because the branches make "
        f"up for what the skip path loses; the skip path alone is {alone}. Pre-Norm: "
        f"{pre['within 10 %']} of {pre['cells']} cells come within 10 %{sizes}. At layer 1 the whole gradient is "
        f"{told(pre['total at layer 1'], 3)}, {never}; the skip path alone is exactly 1."
    )


def told(span: list[float], digits: int) -> str:
    """A range in words, or one number where both ends read the same: "0.47 to 2.3"."""
    low, high = (f"{value:.{digits}g}" for value in span)
    return low if low == high else f"{low} to {high}"


# -------------------------------------------------------------------------------------------------------- showing it

HEADLINE = ("decoder", "xavier")  # and the largest width


def caption(result: Result) -> str:
    """What comes out, and which branch sizes the article's numbers would need."""
    data, p = result.data, _headline(result, "post_norm")
    sizes = [f"{row['branch_size']:.2f} (layer {row['layer']})" for row in data["needed_branch_size"][:2]]
    lost = [f"{told([100 * x for x in span], 2)} % at d = {width}" for width, span in data["removed"].items()]
    article = f" The printed numbers would need branches of s_F = {' and '.join(sizes)}, not one size." if sizes else ""
    return (
        f"‖∂L/∂x‖ at each layer's output relative to the last layer, at initialisation ({p['model']}, {p['init']}, "
        f"d = {p['width']}; grey: totals of all cells). Post-Norm's skip path does decay "
        f"(∏ 1/s, less {' and '.join(lost)}), but the whole gradient does not: the branches make up for it.{article} "
        f"Pre-Norm's skip path is exactly 1, and the whole gradient grows towards the front."
    )


def _headline(result: Result, norm: str) -> dict[str, Any]:
    """The cell that is drawn: the headline's if it was measured, at the largest width; the first one otherwise."""
    own = [p for p in result.data["profiles"] if p["norm"] == norm]
    best = [p for p in own if (p["model"], p["init"]) == HEADLINE] or own
    return max(best, key=lambda p: p["width"])


def draw(result: Result) -> Any:
    """Post-Norm and Pre-Norm side by side: the three columns of one cell, the totals of all, the article's points."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9, 4.7), sharey=True)
    for axes, norm in zip(panels, ARTICLE):
        _draw_panel(axes, result, norm)
    panels[0].set_ylabel("gradient norm relative to the last layer")
    panels[0].set_ylim(4e-4, 12)
    panels[1].legend(loc="lower left", bbox_to_anchor=(0.02, 0.12))
    return figure


def _draw_panel(axes: Any, result: Result, norm: str) -> None:
    from minires.style import BLUE, GREEN, INK, VERMILLION

    cell, blocks = _headline(result, norm), result.settings["blocks"]
    layers = np.arange(blocks + 1)
    totals = [p["total"] for p in result.data["profiles"] if p["norm"] == norm]
    axes.fill_between(layers[1:], np.min(totals, 0)[1:], np.max(totals, 0)[1:], color=INK, alpha=0.12, lw=0)
    styles = {"total": (BLUE, "-", "o", 2.4), "branches": (GREEN, "--", "", 1.6), "skip": (VERMILLION, "-", "s", 1.8)}
    names = {"total": "total", "branches": "branches alone", "skip": "skip path alone"}
    for column, (colour, dashes, marker, width) in styles.items():
        values = np.array(cell[column], dtype=float)
        shown = np.where(values > 0, values, np.nan)
        axes.semilogy(layers, shown, color=colour, ls=dashes, marker=marker, lw=width, ms=4, label=names[column])
    if blocks == 12:
        axes.semilogy(*zip(*ARTICLE[norm].items()), "X", color=INK, ms=9, label="printed in the article", zorder=5)
        for layer, value in list(ARTICLE[norm].items())[:2]:
            below = (10, -12) if norm == "post_norm" else (-16, -24)
            axes.annotate(f"{value:.4f}", (layer, value), xytext=below, textcoords="offset points", fontsize=8)
    rule = "LN(x + F(x))" if norm == "post_norm" else "x + F(LN(x))"
    axes.set(title=f"{LABELS[norm]}: x ← {rule}", xlabel="layer")
    axes.set_xticks(sorted({0, 1, *range(2, blocks, 2), blocks}))
