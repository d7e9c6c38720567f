"""Residual recipes side by side, by depth: gradient profile, growth of the stream, and loss after a few steps.

Every recipe gets the same text, the same batches and the same optimiser. The gradient at sublayer k is ∂L/∂F_k, what
the loss says to that sublayer's output: it exists for every rule, whatever the rule carries (for x + F(…) it is the
gradient at x_{k+1}). The stream is what `Connection.read` shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minires import ui
from minires.data import CharCorpus, hamlet
from minires.experiments.result import Result, measured
from minires.messages import ValueProblem
from minires.models import DecoderLM, Recipe, get_recipe
from minires.nn import Context
from minires.tensor import Tensor
from minires.train import AdamW, History, fit, get_schedule, mean_loss

NAME = "compare"
TITLE = "Residual recipes side by side: gradients, growth of the stream, early loss"
RTOL, ATOL = 0.05, 0.05  # training in float32: the same conclusion, not the same digits

UNIGRAM_MARGIN = 0.05  # a loss this near to that of single-character frequencies has learned no context


def profile(model: DecoderLM, ids: np.ndarray, targets: np.ndarray) -> dict[str, list[float]]:
    """‖∂L/∂F_k‖ for k = 0 … K-1, and the rms of x_0 … x_K; one forward and backward pass, no `.grad` changed."""
    outputs: list[Tensor] = []

    def spy(site: Any, F: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        return lambda h: outputs.append(F(h)) or outputs[-1].retain_grad()

    trace: list[Tensor] = []
    loss = model.loss(ids, targets, Context(wrap=spy, trace=trace))
    before = [p.grad for p in model.parameters()]
    loss.backward()
    for p, g in zip(model.parameters(), before, strict=True):
        p.grad = g
    norms = [float(np.linalg.norm(f.grad)) if f.grad is not None else 0.0 for f in outputs]
    return {"gradient": norms, "stream": [float(np.sqrt(np.mean(np.square(x.data, dtype=np.float64)))) for x in trace]}


def trained(model: DecoderLM, corpus: CharCorpus, steps: int, lr: float, warmup: int, shape: tuple, seed: int):
    """(losses by step, validation loss); the validation loss is NaN if training broke off."""
    losses: list[float] = []
    batch, length = shape
    checks = [corpus.batch(np.random.default_rng([7, i]), batch, length, "val") for i in range(4)]
    try:
        history = fit(
            model, lambda rng: corpus.batch(rng, batch, length),
            AdamW(model.parameters(), lr=lr, betas=(0.9, 0.98)), steps,
            rng=np.random.default_rng([seed, 1]), schedule=get_schedule("constant", warmup, steps), progress=False,
            evaluate=mean_loss(checks), on_step=lambda step, h: losses.append(h.losses[-1]),
        )  # fmt: skip
    except ValueProblem:  # the loss or a gradient is no longer finite
        return losses, float("nan")
    return losses, completed(history, steps).evaluations[-1][1]


def completed(history: History, steps: int) -> History:
    """The history of a whole run. Raises KeyboardInterrupt if Ctrl-C has ended it early: its numbers mean nothing."""
    if history.steps < steps:
        raise KeyboardInterrupt
    return history


@measured
def run(
    recipes: tuple = ("pre_norm", "post_norm", "deepnorm"), depth: tuple = (12, 48), steps: int = 100, seeds: int = 1,
    lr: float = 1e-3, warmup: int = 0, d: int = 32, heads: int = 4, length: int = 32, batch: int = 8, seed: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """Every recipe at every depth, trained on the shipped play.

    depth: blocks (two sublayers each). steps: of AdamW at lr, after `warmup` steps. seeds: runs that are averaged.
    """
    if not recipes or not depth or min(steps, seeds, *depth) < 1 or warmup < 0:
        given = f"recipes={recipes}, depth={depth}, steps={steps}, seeds={seeds}, warmup={warmup}"
        raise ValueProblem("there must be a recipe, and depths, steps and seeds of at least 1", given, "Try depth=12.")
    chosen, corpus = [get_recipe(name) for name in recipes], CharCorpus(hamlet())
    train = dict(steps=steps, lr=lr, warmup=warmup)
    sizes: dict[str, Any] = dict(d=d, heads=heads, context=length)
    cells = [(recipe, blocks) for blocks in depth for recipe in chosen]
    found = [
        study(recipe, blocks, corpus, sizes, (batch, length), range(seed, seed + seeds), train)
        for recipe, blocks in ui.progress(cells, "recipes × depths")
    ]
    references = {"unigram": corpus.baselines().unigram, "bigram": corpus.baselines().bigram}
    rows = [_row(cell, references["unigram"]) for cell in found]
    reasons = [{"recipe": c["recipe"], "blocks": c["blocks"], **missing(c)} for c in found if missing(c)]
    return {"rows": rows, "missing": reasons, "cells": found, "references": references}


def study(
    recipe: Recipe, blocks: int, corpus: CharCorpus, sizes: dict, shape: tuple, seeds: range, train: dict
) -> dict[str, Any]:
    """One recipe at one depth: profiles at the start (first seed), and the losses of all seeds."""
    cell: dict[str, Any] = {"recipe": recipe.name, "blocks": blocks, "losses": [], "final": []}
    for seed in seeds:
        ids, targets = corpus.batch(np.random.default_rng([seed, 2]), *shape)
        model = recipe.build(len(corpus.vocab), blocks, ids=ids, rng=seed, **sizes)
        if not cell["losses"]:
            cell["start"] = profile(model, ids, targets)
        losses, final = trained(model, corpus, shape=shape, seed=seed, **train)
        cell["losses"].append(losses)
        cell["final"].append(final)
    return cell


def _row(cell: dict[str, Any], unigram: float) -> dict[str, Any]:
    gradient, stream = np.array(cell["start"]["gradient"]), cell["start"]["stream"]
    final = np.array(cell["final"])
    return {
        "recipe": cell["recipe"], "blocks": cell["blocks"],
        "gradient first/last": _short(gradient[0] / gradient[-1]) if gradient[-1] else None,
        "stream last/first": _short(stream[-1] / stream[0]), "loss": _short(final.mean()),
        "spread": _short(np.ptp(final)), "verdict": verdict(final, unigram),
    }  # fmt: skip


def missing(cell: dict[str, Any]) -> dict[str, str]:
    """Why a number of this cell is not there, by its name in the row; empty if all are there."""
    gradient, why = np.array(cell["start"]["gradient"]), {}
    if not gradient.any():
        why["gradient first/last"] = "0 / 0: every branch starts at 0 and hears nothing before the first step"
    elif not gradient[-1]:
        why["gradient first/last"] = "the last sublayer hears nothing"
    elif not np.isfinite(gradient[[0, -1]]).all():
        why["gradient first/last"] = "the gradient overflows"
    if not np.isfinite(cell["final"]).all():
        why["loss"] = why["spread"] = "training broke off: the loss or a gradient was no longer finite"
    return why


def verdict(final: np.ndarray, unigram: float) -> str:
    """What the validation losses of one recipe's seeds say beside that of letter frequencies."""
    if not np.isfinite(final).all():
        return "broke off"
    return "no better than letter frequencies" if final.mean() > unigram - UNIGRAM_MARGIN else "learns"


def _short(value: float) -> float | None:
    """Four digits; None for what is not finite (see `missing`)."""
    return float(f"{value:.4g}") if np.isfinite(value) else None


def caption(result: Result) -> str:
    """What was trained, how it ended, and beside what to read it."""
    s, at = result.settings, result.data["references"]
    deepest = [row for row in result.data["rows"] if row["blocks"] == max(s["depth"])]
    silent = sorted({cell["recipe"] for cell in result.data["cells"] if not any(cell["start"]["gradient"])})
    zeros = f" Every branch starts at 0, so there is no gradient to draw: {', '.join(silent)}." if silent else ""
    seeds = f"{s['seeds']} seeds, band: lowest to highest" if s["seeds"] > 1 else "1 seed"
    return (
        f"{s['steps']} steps of AdamW on the play (lr {s['lr']:g}, warm-up {s['warmup']}, d = {s['d']}, "
        f"{s['batch']} × {s['length']} characters, {seeds}). At {deepest[0]['blocks']} blocks "
        f"{_ending(deepest, s['seeds'])}. Letter frequencies alone give {at['unigram']:.3f}, pairs of letters "
        f"{at['bigram']:.3f}.{zeros}"
    )


def _ending(rows: list[dict[str, Any]], seeds: int) -> str:
    """Who came lowest and who has not learned."""
    good = sorted((row["loss"], row["recipe"]) for row in rows if row["verdict"] == "learns")
    bad = [row["recipe"] for row in rows if row["verdict"] != "learns"]
    if not good:
        return "nothing has learned more than letters"
    chance = "; one seed, so near losses may be chance" if good[1:] and seeds == 1 else ""
    worst = f", and these have not learned: {', '.join(bad)}" if bad else ""
    return f"the lowest loss is {good[0][0]:.3f} ({good[0][1]}{chance}){worst}"


def draw(result: Result) -> Any:
    """One row per depth: gradient by sublayer, size of the stream, loss by step."""
    import matplotlib.pyplot as plt

    depths = sorted({cell["blocks"] for cell in result.data["cells"]})
    figure, grid = plt.subplots(len(depths), 3, figsize=(11, 0.6 + 2.7 * len(depths)), squeeze=False)
    for axes, blocks in zip(grid, depths, strict=True):
        for i, cell in enumerate(c for c in result.data["cells"] if c["blocks"] == blocks):
            _draw_cell(axes, cell, dict(color=f"C{i % 6}", ls=("-", "--", "-.", ":")[(i + i // 6) % 4]))
        _label(axes, blocks, result)
    handles, labels = grid[0][2].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(6, len(labels)))
    return figure


def _draw_cell(axes: Any, cell: dict[str, Any], line: dict) -> None:
    gradient, stream = np.array(cell["start"]["gradient"]), np.array(cell["start"]["stream"])
    axes[0].semilogy(np.arange(len(gradient)), np.where(gradient > 0, gradient, np.nan), **line)
    axes[1].semilogy(np.arange(len(stream)), stream, **line)
    shortest = min(map(len, cell["losses"]))
    losses = np.array([losses[:shortest] for losses in cell["losses"]])  # (seeds, steps)
    axes[2].plot(np.arange(shortest), losses.mean(0), **line, label=cell["recipe"])
    axes[2].fill_between(np.arange(shortest), losses.min(0), losses.max(0), color=line["color"], alpha=0.15, lw=0)


def _label(axes: Any, blocks: int, result: Result) -> None:
    axes[0].set(xlabel="sublayer k", ylabel="‖∂L/∂F_k‖ at the start", title=f"{blocks} blocks")
    axes[1].set(xlabel="state l", ylabel="rms of x_l at the start")
    for panel in axes:
        panel.xaxis.get_major_locator().set_params(integer=True)
    at = result.data["references"]
    for name, words in (("unigram", "letter frequencies"), ("bigram", "pairs of letters")):
        axes[2].axhline(at[name], lw=0.8, color="C6", alpha=0.6)
        axes[2].annotate(words, (0.01, at[name]), xycoords=("axes fraction", "data"), xytext=(0, -3), fontsize=7,
                         textcoords="offset points", va="top", alpha=0.8)  # fmt: skip
    axes[2].set(xlabel="step", ylabel="training loss (nats)", ylim=(min(at.values()) - 0.4, at["unigram"] + 1.6))
