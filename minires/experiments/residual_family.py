"""The residual family in one picture: how each rule joins a sublayer to the stream, found out by running it.

Every mark in the picture is measured on one step of the rule at its start, with random arrays in the place of the
sublayer: a norm stands in front of F if F reads the same when the stream is three times as large; behind F if the
stream does not notice that F's output is; behind the sum if the next state does not notice that both are.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

from minires.experiments.result import Result, measured
from minires.messages import ValueProblem
from minires.nn import Maker, get_norm
from minires.probes.running import each
from minires.residual import CONNECTIONS, get_connection, transformer_sites
from minires.tensor import Tensor, no_grad

NAME = "residual_family"
TITLE = "The residual family: how each rule joins a sublayer to the stream"
RTOL = 1e-5
NEAR = 1e-3  # nearer to 1 than this is drawn as 1


class Bench:
    """One rule with a stream that has passed its first block, and the step behind it."""

    def __init__(self, name: str, d: int, seed: int):
        self.rng, sites = np.random.default_rng(seed), transformer_sites(2)
        self.rule = get_connection(name)(sites, d, get_norm("layernorm"), Maker.of(seed, "xavier", np.float64, 4))
        self.shape, self.site = (2, 3, d), sites[2]
        self.opened = self.rule.open(Tensor(self.rng.standard_normal(self.shape)))
        self.stream = self.opened
        for site in sites[: 2 : self.rule.arity]:
            self.stream = self.step(self.stream, self.rng.standard_normal(self.shape), site)

    def step(self, stream: Any, f: np.ndarray, site: Any = None, spy: Callable = lambda h: None) -> Any:
        branches = [lambda h: spy(h) or Tensor(f)] + [lambda h: Tensor(0 * f)] * (self.rule.arity - 1)
        return self.rule.step(stream, site or self.site, *branches)

    def after(self, stream: Any, f: np.ndarray) -> np.ndarray:
        return self.rule.read(self.step(stream, f)).data

    def given(self, stream: Any) -> np.ndarray:
        """What F is given to read."""
        seen: list[np.ndarray] = []
        self.step(stream, np.zeros(self.shape), spy=lambda h: seen.append(h.data))
        return seen[0]


def features(name: str, d: int, seed: int) -> dict[str, Any]:
    """The marks of one rule. skip, branch: sizes of what passes, relative to the stream's and to F's own change."""
    with no_grad():
        bench = Bench(name, d, seed)
        s, f = bench.stream, bench.rng.standard_normal(bench.shape)
        nudge = each(s, lambda part: part + Tensor(1e-6 * bench.rng.standard_normal(part.shape)))
        tripled, base = each(s, lambda part: part * 3.0), bench.after(s, f)
        written = float(np.linalg.norm(base - bench.after(s, 0 * f)) / np.linalg.norm(f))
        moved = np.linalg.norm(bench.rule.read(nudge).data - bench.rule.read(s).data)
        parts = [1 if isinstance(x, Tensor) else len(x) for x in (bench.opened, s)]
        return {
            "rule": name, "equation": bench.rule.equation, "arity": bench.rule.arity,
            "norm before F": _same(bench.given(tripled), bench.given(s)),
            "norm after F": written > 0 and _same(bench.after(s, 3 * f), base),
            "norm after the sum": _same(bench.after(tripled, 3 * f), base),
            "skip": float(np.linalg.norm(bench.after(nudge, f) - base) / moved),
            "branch": written,
            "copies": 1 if not isinstance(s, Tensor) or s.shape == bench.shape else int(s.shape[-2]),
            "tensors": parts[1], "grows": parts[1] > parts[0],
        }  # fmt: skip


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Up to what the eps inside a norm does."""
    return bool(np.linalg.norm(a - b) < 1e-3 * np.linalg.norm(b))


@measured
def run(rules: tuple = (), d: int = 16, seed: int = 0) -> dict[str, Any]:
    """rules: names of connections; all that are registered if left out."""
    if d < 2:
        raise ValueProblem("d must be at least 2: a norm of one number is 0", f"d={d}", "The default is 16.")
    names = rules or tuple(name for name, rule in CONNECTIONS.items() if rule.__module__.startswith("minires."))
    return {"rows": [features(name, d, seed) for name in sorted(names)]}


def caption(result: Result) -> str:
    """How to read it."""
    rows = result.data["rows"]
    clean = [r["rule"] for r in rows if abs(r["skip"] - 1) < NEAR]
    return (
        f"One step of {len(rows)} rules, read off by running them. The stream runs upwards, the sublayer "
        f"F stands beside it. Orange squares are norms; × is a factor on the skip or on the branch; parallel lines are "
        f"copies of the stream, dots are earlier outputs that are kept. In {len(clean)} of them the skip path passes "
        f"what it is given unchanged (here in a stack of two blocks)."
    )


# --------------------------------------------------------------------------------------------------------- drawing

COLUMNS, SKIP, BRANCH = 6, 3.0, 7.0  # panels per row; x of the two lines in a panel of 10 × 10


def draw(result: Result) -> Any:
    """One small diagram per rule."""
    import matplotlib.pyplot as plt

    rows = result.data["rows"]
    height = -(-len(rows) // COLUMNS)
    figure, grid = plt.subplots(height, COLUMNS, figsize=(12, 2.75 * height), squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
        axes.set(xlim=(0, 10), ylim=(-2.6, 10.4))
    for axes, row in zip(grid.flat, rows):
        axes.set_title(row["rule"].replace("_", " "), fontsize=8.5)
        _draw_skip(axes, row)
        _draw_branch(axes, row)
        axes.text(0, -0.4, textwrap.fill(row["equation"], 30), fontsize=6.3, va="top")
    return figure


def _line(axes: Any, xs: list, ys: list, **style: Any) -> None:
    from minires.style import INK

    axes.plot(xs, ys, **(dict(color=INK, lw=1.2, solid_capstyle="butt") | style))


def _draw_skip(axes: Any, row: dict[str, Any]) -> None:
    from minires.style import BLUE

    for i in range(row["copies"]):
        x = SKIP + 0.32 * (i - (row["copies"] - 1) / 2)
        if row["skip"] > 0:
            _line(axes, [x, x], [0, 10], color=BLUE, lw=2)
        else:
            _line(axes, [x, x, None, x, x], [0, 2, None, 8, 10], color=BLUE, lw=2)
    if row["tensors"] == 2 and not row["grows"]:
        _line(axes, [1, 1], [0, 10], color=BLUE, lw=2, ls="--")
    if row["grows"]:
        _line(axes, [0.6, 0.6, 1.6, 2.6], [3.4, 2, 2, 2], marker="o", ms=3, color=BLUE, ls=":")
    if row["norm after the sum"]:
        _square(axes, SKIP, 9)
    elif row["skip"] > 0 and abs(row["skip"] - 1) > NEAR:
        axes.text(SKIP - 0.5, 5, f"×{row['skip']:.2g}", ha="right", va="center", fontsize=7)


def _draw_branch(axes: Any, row: dict[str, Any]) -> None:
    both = (BRANCH,) if row["arity"] == 1 else (BRANCH - 1.2, BRANCH + 1.2)
    _line(axes, [SKIP, BRANCH, BRANCH, None, BRANCH, BRANCH, SKIP], [2, 2, 3.8, None, 6.2, 8, 8])
    for x in both:
        _line(axes, [BRANCH, x, x, BRANCH], [3.8, 3.8, 6.2, 6.2])
        axes.text(x, 5, "F", ha="center", va="center", fontsize=8, bbox=_box("square,pad=0.45", "C6"))
    if row["norm before F"]:
        _square(axes, BRANCH, 3)
    if row["norm after F"] and not row["norm after the sum"]:
        _square(axes, BRANCH, 7)
    elif not row["norm after the sum"] and abs(row["branch"] - 1) > NEAR:
        axes.text(5, 8.3, f"×{row['branch']:.2g}", ha="center", fontsize=7)
    if row["skip"] > 0:
        axes.text(SKIP, 8, "+", ha="center", va="center", fontsize=7, bbox=_box("circle,pad=0.15", "C0"))


def _square(axes: Any, x: float, y: float) -> None:
    axes.plot([x], [y], marker="s", ms=7, color="C4")


def _box(shape: str, edge: str) -> dict[str, Any]:
    import matplotlib as mpl

    paper = mpl.rcParams["axes.facecolor"]
    return dict(boxstyle=shape, facecolor="white" if paper == "none" else paper, edgecolor=edge, lw=1)
