"""Gradient and stream through 12 to 1000 sublayers, rule by rule, before any training.

The gradient at sublayer k is ∂L/∂F_k, what the loss says to that sublayer's output: it exists for every rule. Depth is
counted in sublayers; a block has two. A rule whose numbers leave float32 at a depth is shown as far as they go.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minires.data import CharCorpus, hamlet
from minires.experiments.compare import profile
from minires.experiments.result import Result, measured
from minires.messages import ValueProblem
from minires.models import get_recipe
from minires.ui import progress

NAME = "depth_profiles"
TITLE = "Gradient profile and growth of the stream by rule and depth, to 1000 sublayers"
RTOL, ATOL = 0.05, 1e-30  # float32 through 1000 sublayers
POINTS = 60  # kept of each curve


@measured
def run(
    recipes: tuple = ("post_norm", "deepnorm", "pre_norm", "layernorm_scaling", "residual",
                      "residual_inverse_sqrt_depth", "sandwich", "mhc"),
    blocks: tuple = (6, 50, 500), d: int = 16, heads: int = 2, length: int = 8, batch: int = 2, seed: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """‖∂L/∂F_k‖ and the rms of x_l of every recipe at every depth, at initialisation (Xavier, or the recipe's own)."""
    if not recipes or min(*blocks, d, length, batch) < 1:
        given = f"recipes={recipes}, blocks={blocks}, d={d}, length={length}, batch={batch}"
        raise ValueProblem("there must be a recipe, and every size must be at least 1", given, "Try blocks=6,12.")
    corpus = CharCorpus(hamlet())
    ids, targets = corpus.batch(np.random.default_rng(seed), batch, length)
    sizes: dict[str, Any] = dict(ids=ids, d=d, heads=heads, context=length, hidden=2 * d, rng=seed)
    cells = []
    for n, name in progress([(n, name) for n in blocks for name in recipes], "recipes × depths"):
        with np.errstate(all="ignore"):  # overflow is what some of them are here to show
            found = profile(get_recipe(name).build(len(corpus.vocab), n, **sizes), ids, targets)
        cells.append({"recipe": name, "sublayers": 2 * n} | {key: _thinned(found[key]) for key in found})
    return {"cells": cells, "rows": [_row(cell) for cell in cells]}


def _thinned(values: list[float]) -> list[list[float]]:
    """At most POINTS of [place / number of places, value]; what is not finite is left out."""
    places = np.unique(np.linspace(0, len(values) - 1, POINTS).round().astype(int))
    return [[float(k / max(1, len(values) - 1)), float(values[k])] for k in places if np.isfinite(values[k])]


def _row(cell: dict[str, Any]) -> dict[str, Any]:
    gradient, stream = (np.array(cell[key]) for key in ("gradient", "stream"))
    whole = all(len(part) and part[0, 0] == 0 and part[-1, 0] == 1 for part in (gradient, stream))
    return {
        "recipe": cell["recipe"], "sublayers": cell["sublayers"],
        "gradient first/last": _ratio(gradient[0, 1], gradient[-1, 1]) if whole else None,
        "stream last/first": _ratio(stream[-1, 1], stream[0, 1]) if whole else None, "finite": whole,
    }  # fmt: skip


def _ratio(a: float, b: float) -> float | None:
    return float(f"{a / b:.4g}") if b else None


def caption(result: Result) -> str:
    """The ends of the curves at the greatest depth."""
    rows = result.data["rows"]
    deep = max(row["sublayers"] for row in rows)
    told = [
        f"{r['recipe']} {r['gradient first/last']:.1e}" if r["finite"] and r["gradient first/last"] is not None
        else f"{r['recipe']} leaves float32"
        for r in rows if r["sublayers"] == deep
    ]  # fmt: skip
    return (
        f"Before training, d = {result.settings['d']}. Above: ‖∂L/∂F_k‖ relative to the last one; below: rms of the "
        f"stream. The gradient at the first of {deep} sublayers, relative to the last: {', '.join(told)}."
    )


def draw(result: Result) -> Any:
    """Columns are depths; above the gradient, below the stream."""
    import matplotlib.pyplot as plt

    cells = result.data["cells"]
    depths = sorted({cell["sublayers"] for cell in cells})
    figure, grid = plt.subplots(2, len(depths), figsize=(3.4 * len(depths) + 0.6, 6), sharey="row", squeeze=False)
    for column, depth in enumerate(depths):
        for i, cell in enumerate(c for c in cells if c["sublayers"] == depth):
            line = dict(color=f"C{i % 6}", ls=("-", "--", ":", "-.")[i // 2 % 4], lw=1.6, label=cell["recipe"])
            _draw_curve(grid[0][column], cell["gradient"], cell["gradient"][-1][1] if cell["gradient"] else 1, line)
            _draw_curve(grid[1][column], cell["stream"], 1, line)
        grid[0][column].set(title=f"{depth} sublayers", ylim=(1e-9, 1e12))
        grid[1][column].set(xlabel="place in the stack, k / K", ylim=(1e-1, 1e6))
    grid[0][0].set_ylabel("‖∂L/∂F_k‖ / last")
    grid[1][0].set_ylabel("rms of x_l")
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure


def _draw_curve(axes: Any, points: list, unit: float, line: dict) -> None:
    if not points or not unit:
        return
    at, values = np.array(points).T
    axes.semilogy(at, np.where(values > 0, values / unit, np.nan), **line)
