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
        f"{r['recipe']} {r['gradient first/last']:.2g}" if r["finite"] and r["gradient first/last"] is not None
        else f"{r['recipe']} leaves float32"
        for r in rows if r["sublayers"] == deep
    ]  # fmt: skip
    return (
        f"Before training, d = {result.settings['d']}. For each rule, above: ‖∂L/∂F_k‖ relative to the last; below: "
        f"rms of the stream; axes are the same for all. The gradient at the first of {deep} sublayers, relative to the "
        f"last: {', '.join(told)}."
    )


def draw(result: Result) -> Any:
    """A panel per rule, above the gradient, below the stream; a line per depth."""
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    cells, recipes = result.data["cells"], result.settings["recipes"]
    columns = min(4, len(recipes))
    bands = -(-len(recipes) // columns)  # rows of rules
    figure, grid = plt.subplots(2 * bands, columns, figsize=(2.6 * columns + 0.8, 3.7 * bands + 0.6),
                                sharex=True, squeeze=False)  # fmt: skip
    for axes in grid.flat:
        axes.set_visible(False)
    for i, recipe in enumerate(recipes):
        above, below = grid[2 * (i // columns) : 2 * (i // columns) + 2, i % columns]
        for style, cell in zip(_lines(), (c for c in cells if c["recipe"] == recipe)):
            _draw_curve(above, cell["gradient"], cell["gradient"][-1][1] if cell["gradient"] else 1, **style)
            _draw_curve(below, cell["stream"], 1, **style)
            if not cell["gradient"]:
                text, colour = f"{cell['sublayers']}: not finite", style["color"]
                above.text(0.96, 0.08, text, transform=above.transAxes, ha="right", fontsize=8, color=colour)
        _label_pair(above, below, recipe, first=i % columns == 0, last=i + columns >= len(recipes))
    handles = [Line2D([], [], **style) for style, _ in zip(_lines(), result.settings["blocks"])]
    depths = [f"{2 * n} sublayers" for n in result.settings["blocks"]]
    figure.legend(handles, depths, loc="outside upper center", ncols=max(1, len(depths)))
    return figure


def _lines() -> list[dict[str, Any]]:
    """Looks of the depths, in order."""
    from minires.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION

    looks = [(GREEN, ":"), (BLUE, "--"), (VERMILLION, "-"), (PURPLE, "-."), (ORANGE, (0, (5, 1))), (SKY, (0, (1, 1)))]
    return [dict(color=colour, ls=dashes, lw=1.8) for colour, dashes in looks]


def _label_pair(above: Any, below: Any, recipe: str, first: bool, last: bool) -> None:
    places = {"‖∂L/∂F_k‖ / last": (above, np.arange(-8, 13, 4.0)), "rms of x_l": (below, np.arange(-1, 6, 2.0))}
    for what, (axes, exponents) in places.items():
        axes.set_visible(True)
        axes.set(yscale="log", ylim=(0.3 * 10 ** exponents[0], 3 * 10 ** exponents[-1]), yticks=10**exponents)
        axes.axhline(1, color="C6", lw=0.7, alpha=0.5)
        axes.set_ylabel(what if first else "")
        axes.tick_params(labelleft=first)
    above.set_title(recipe.replace("_", " "))
    below.set_xlabel("place in the stack, k / K" if last else "")
    below.tick_params(labelbottom=True)


def _draw_curve(axes: Any, points: list, unit: float, **line: Any) -> None:
    if not points or not unit:
        return
    at, values = np.array(points).T
    axes.plot(at, np.where(values > 0, values / unit, np.nan), **line)
