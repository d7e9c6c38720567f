"""The residual family in one picture: how each rule joins a sublayer to the stream, found out by running it.

Every mark in the picture is measured on one step of the rule at its start, with fixed arrays in the place of the
sublayer: a norm stands in front of F if F reads the same when the stream is three times as large; behind F if the
stream does not notice that F's output is; behind the sum if the next state does not notice that both are. A factor is
the ratio of what arrives to what was sent, the median over all entries. Behind a sum that is normed, only the ratio of
the two summands can be seen: the skip's factor is what x counts for beside F.
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
from minires.residual.admin import Admin
from minires.tensor import Tensor, no_grad

NAME = "residual_family"
TITLE = "The residual family: how each rule joins a sublayer to the stream"
RTOL = 1e-5
NEAR = 2e-3  # nearer to 1 than this is drawn as 1
NUDGE = 1e-6
BLOCKS, AT = 8, 3  # the step that is looked at: the second sublayer of the second of eight blocks

# What a factor is called in the rule's equation; {} is its measured value. A factor without a name is drawn if it is
# not 1, a named one always: training moves it.
NAMES: dict[str, dict[str, str]] = {
    "highway": {"skip": "× (1-t)\n= {}", "branch": "× t = {}"},
    "deepnorm": {"skip": "× α\n= {}"},
    "admin": {"skip": "× $ω_l$\n= {}"},
    "layerscale": {"branch": "× γ = {}"},
    "rezero": {"branch": "× α = {}\none per block"},
    "skipinit": {"branch": "× $α_l$ = {}\none per sublayer"},
    "fixup": {"branch": "× s = {}, + b", "read": "+ a"},
    "inverse_sqrt_depth": {"branch": "× 1/√K = {}"},
    "residual_inverse_sqrt_depth": {"branch": "× 1/√K = {}"},
    "layernorm_scaling": {"read": "× 1/√b\n= {}"},
    "laurel": {"skip": "× b + AB\n= {}", "branch": "× a = {}"},
    "hyper_connections": {"read": "$A_m$", "mix": "$A_r$", "branch": "$B$ = {}"},
    "dynamic_hyper_connections": {"read": "$A_m(H)$", "mix": "$A_r(H)$", "branch": "$B(H)$ = {}"},
    "mhc": {"read": "$H_{pre}$", "mix": "$H_{res}$\nSinkhorn", "branch": "$H_{post}$ = {}"},
    "mhc_permutations": {"read": "$H_{pre}$", "mix": "$H_{res}$\nΣ p P", "branch": "$H_{post}$ = {}"},
    "parallel": {"boxes": "AM"},
    "attention_residuals": {"gather": "softmax"},
    "block_attention_residuals": {"gather": "softmax"},
    "denseformer": {"gather": "$α_{ij}$"},
    "laurel_pa": {"gather": "$γ_j A B$"},
}


class Bench:
    """One rule with a stream that has passed AT sublayers, and the step behind them."""

    def __init__(self, name: str, d: int, seed: int, disturbed: float = 0.0):
        self.rng, self.sites, self.shape = np.random.default_rng(seed), transformer_sites(BLOCKS), (2, 3, d)
        self.rule = get_connection(name)(self.sites, d, get_norm("layernorm"), Maker.of(seed, "xavier", np.float64, 4))
        self.start = Tensor(self.rng.standard_normal(self.shape))
        if isinstance(self.rule, Admin):  # it finds its weights in one pass
            self.rule.profile(lambda: self.run(len(self.sites)))
        for p in self.rule.parameters():
            if disturbed:
                p.data[...] += disturbed * self.rng.standard_normal(p.shape)
        self.site = self.sites[AT - AT % self.rule.arity]
        self.stream = self.run(self.site.k)

    def run(self, sublayers: int) -> Any:
        stream = self.rule.open(self.start)
        for site in self.sites[: sublayers : self.rule.arity]:
            stream = self.step(stream, self.rng.standard_normal(self.shape), site)
        return stream

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

    def nudged(self, only: int | None = None) -> Any:
        """The stream moved a little, every copy alike; only: just that one of its tensors."""
        v = NUDGE * np.random.default_rng(1).standard_normal(self.shape)
        if isinstance(self.stream, Tensor):
            return self.stream + Tensor(v if self.stream.shape == self.shape else v[..., None, :])
        return tuple(s + Tensor(v) if only in (None, i) else s for i, s in enumerate(self.stream))


def features(name: str, d: int, seed: int) -> dict[str, Any]:
    """The marks of one rule."""
    with no_grad():
        bench = Bench(name, d, seed)
        norms, tensors = _norms(bench), 1 if isinstance(bench.stream, Tensor) else len(bench.stream)
        return {
            "rule": name, "equation": bench.rule.equation, "arity": bench.rule.arity, **norms,
            **_factors(bench, norms), **_kept(bench, Bench(name, d, seed, disturbed=0.3)),
            "copies": 1 if tensors > 1 or bench.stream.shape == bench.shape else int(bench.stream.shape[-2]),
        }  # fmt: skip


def _norms(bench: Bench) -> dict[str, bool]:
    s, f = bench.stream, bench.rng.standard_normal(bench.shape)
    tripled, base = each(s, lambda part: part * 3.0), bench.after(s, f)
    second = not isinstance(s, Tensor) and len(bench.step(s, f)) == 2  # an end norm may be on the second stream alone
    ending = (s[0], tripled[1]) if second else tripled
    return {
        "norm before F": _same(bench.given(tripled), bench.given(s)),
        "norm after F": _same(bench.after(s, 3 * f), base) and not _same(bench.after(s, 0 * f), base),
        "norm after the sum": _same(bench.after(tripled, 3 * f), base),
        "norm at the start": _same(bench.rule.read(bench.rule.open(bench.start * 3.0)).data,
                                   bench.rule.read(bench.rule.open(bench.start)).data),
        "norm at the end": _same(bench.rule.close(ending).data, bench.rule.close(s).data),
    }  # fmt: skip


def _factors(bench: Bench, norms: dict[str, bool]) -> dict[str, float]:
    """skip, branch, read: what is left of a change of x, of a change of F's output, and of what F is given.

    F gives back what the stream holds, so that a gate, which depends on x as well, has nothing to choose between.
    """
    s, f = bench.stream, bench.rule.read(bench.stream).data
    moved = bench.rule.read(bench.nudged()).data - f
    base, by_x, by_f = bench.after(s, f), bench.after(bench.nudged(), f), bench.after(s, f + moved)
    behind, read = norms["norm after the sum"], float(np.sqrt(np.mean(bench.given(s) ** 2)))
    return {
        "skip": _ratio(by_x - base, by_f - base if behind else moved),
        "branch": 1.0 if behind or norms["norm after F"] else _ratio(by_f - base, moved),
        "read": read if norms["norm before F"] else read / float(np.sqrt(np.mean(f**2))),
    }  # fmt: skip


def _kept(bench: Bench, disturbed: Bench) -> dict[str, bool]:
    """Whether more than the stream is carried, who reads it, and whether a step adds to the list."""
    if isinstance(bench.stream, Tensor):
        return dict.fromkeys(("carries more", "F reads it", "the next x reads it", "makes a new one"), False)
    f, older = np.zeros(bench.shape), bench.nudged(only=1)
    return {
        "carries more": True,
        "F reads it": bool((bench.given(older) != bench.given(bench.stream)).any()),
        "the next x reads it": bool((disturbed.after(disturbed.nudged(only=1), f)
                                     != disturbed.after(disturbed.stream, f)).any()),
        "makes a new one": len(bench.step(bench.stream, f)) > len(bench.stream),
    }  # fmt: skip


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Up to what the eps inside a norm does."""
    return bool(np.linalg.norm(a - b) < 1e-3 * np.linalg.norm(b))


def _ratio(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.median(a / b))


GROUPS: dict[str, Callable[[dict], bool]] = {  # the first that fits
    "earlier outputs are kept": lambda r: r["F reads it"] or (r["carries more"] and r["makes a new one"]),
    "copies of the stream": lambda r: r["copies"] > 1,
    "no skip": lambda r: r["skip"] == 0,
    "norm behind the sum": lambda r: r["norm after the sum"],
    "norm on the branch": lambda r: r["norm before F"],
    "no norm": lambda r: True,
}
ORDER = ("no skip", "no norm", "norm behind the sum", "norm on the branch", "copies of the stream",
         "earlier outputs are kept")  # fmt: skip


def group(row: dict[str, Any]) -> str:
    return next(name for name, fits in GROUPS.items() if fits(row))


@measured
def run(rules: tuple = (), d: int = 16, seed: int = 0) -> dict[str, Any]:
    """rules: names of connections; all that are registered if left out."""
    if d < 2:
        raise ValueProblem("d must be at least 2: a norm of one number is 0", f"d={d}", "The default is 16.")
    names = rules or tuple(name for name, rule in CONNECTIONS.items() if rule.__module__.startswith("minires."))
    rows = [row | {"group": group(row)} for row in (features(name, d, seed) for name in names)]
    return {"rows": sorted(rows, key=lambda row: ORDER.index(row["group"]))}


def caption(result: Result) -> str:
    """How to read it."""
    rows = result.data["rows"]
    clean = [r for r in rows if abs(r["skip"] - 1) < NEAR and not r["norm after the sum"]]
    return (
        f"One step of each rule, read off by running it before training, in the second of {BLOCKS} blocks. The "
        f"stream (blue) runs upwards, the sublayer F stands beside it. × is a factor with its value; parallel lines "
        f"are copies of the stream, dots are outputs that are kept. In {len(clean)} of {len(rows)} the skip passes "
        f"everything on unchanged."
    )


# --------------------------------------------------------------------------------------------------------- drawing

COLUMNS, SKIP, BRANCH, SECOND = 5, 3.0, 7.0, 9.7  # panels per row; x of the lines in a panel of 10 × 10


def draw(result: Result) -> Any:
    """One small diagram per rule."""
    import matplotlib.pyplot as plt

    rows = result.data["rows"]
    height = -(-len(rows) // COLUMNS)
    figure, grid = plt.subplots(height, COLUMNS, figsize=(10.5, 2.75 * height), squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
        axes.set(xlim=(0, 10.4), ylim=(-3.0, 10.6))
    for axes, row in zip(grid.flat, rows):
        _draw_rule(axes, row)
    for axes in grid.flat[len(rows) : len(rows) + 1]:
        _draw_legend(axes)
    return figure


def _draw_rule(axes: Any, row: dict[str, Any]) -> None:
    axes.set_title(row["rule"].replace("_", " "), fontsize=9, pad=13)
    axes.text(0, 1.005, row["group"], transform=axes.transAxes, fontsize=7.5, alpha=0.75)
    if row["F reads it"]:
        _draw_list(axes, row)
    else:
        _draw_skip(axes, row)
    _draw_branch(axes, row)
    _draw_norms(axes, row)
    axes.text(0, -0.7, textwrap.fill(row["equation"], 29), fontsize=7.3, va="top", linespacing=1.15)


def _line(axes: Any, xs: list, ys: list, **style: Any) -> None:
    from minires.style import INK

    axes.plot(xs, ys, **(dict(color=INK, lw=1.2, solid_capstyle="butt") | style))


def _draw_skip(axes: Any, row: dict[str, Any]) -> None:
    """The stream, its copies, and a second stream or the outputs that the next state is gathered from."""
    from minires.style import BLUE

    thick = dict(color=BLUE, lw=2)
    for i in range(row["copies"]):
        x = SKIP + 0.4 * (i - (row["copies"] - 1) / 2)
        _line(axes, *(([x, x], [0, 10]) if row["skip"] > 0 else ([x, x, None, x, x], [0, 2, None, 8, 10])), **thick)
    if row["skip"] > 0:
        _node(axes, SKIP, 8, "+")
        _factor(axes, row, "skip", SKIP - 0.4, 5, ha="right", va="center")
    if mix := NAMES.get(row["rule"], {}).get("mix"):
        axes.text(SKIP, 5, mix, ha="center", va="center", fontsize=8, bbox=_box("square,pad=0.3", "C0"))
    if _second_stream(row):
        _line(axes, [SECOND, SECOND], [0, 10], **thick)
        _line(axes, [BRANCH, SECOND], [8, 8])
        _node(axes, SECOND, 8, "+")
        axes.text(SKIP + 0.4, 0.1, "x", fontsize=8)
        axes.text(SECOND - 0.4, 0.1, "d", fontsize=8, ha="right")
    elif row["carries more"]:
        _dots(axes, [0.7] * 3, [7.9, 8.7, 9.5], (SKIP, 9))
        axes.text(0.4, 7.1, NAMES.get(row["rule"], {}).get("gather", ""), fontsize=8, va="center")


def _draw_list(axes: Any, row: dict[str, Any]) -> None:
    """No stream: a column of kept outputs, a weighted sum of all for F, and where F's output goes."""
    from minires.style import BLUE

    _dots(axes, [SKIP] * 3, [0.4, 2, 3.6], (5, 2))
    axes.text(5.2, 0.7, NAMES.get(row["rule"], {}).get("gather", ""), fontsize=8, va="center")
    if row["makes a new one"]:
        axes.plot([SKIP], [8], "o", color=BLUE, ms=6)
        axes.text(SKIP - 0.5, 8, "new", ha="right", va="center", fontsize=8)
    else:
        _line(axes, [SKIP, SKIP], [3.6, 9.2], color=BLUE, lw=2)
        _node(axes, SKIP, 8, "+")
        axes.text(SKIP - 0.5, 3.6, "last", ha="right", va="center", fontsize=8)


def _dots(axes: Any, xs: list, ys: list, target: tuple[float, float]) -> None:
    from minires.style import BLUE

    for x, y in zip(xs, ys):
        _line(axes, [x, target[0]], [y, target[1]], color=BLUE, lw=0.9)
    axes.plot(xs, ys, "o", color=BLUE, ms=5)
    _node(axes, *target, "Σ")


def _draw_branch(axes: Any, row: dict[str, Any]) -> None:
    both = (BRANCH,) if row["arity"] == 1 else (BRANCH - 1.2, BRANCH + 1.2)
    start = 5 if row["F reads it"] else SKIP
    _line(axes, [start, BRANCH, BRANCH, None, BRANCH, BRANCH, SKIP], [2, 2, 3.8, None, 6.2, 8, 8], zorder=1.5)
    for x, letter in zip(both, NAMES.get(row["rule"], {}).get("boxes", "F" * len(both))):
        _line(axes, [BRANCH, x, x, BRANCH], [3.8, 3.8, 6.2, 6.2])
        axes.text(x, 5, letter, ha="center", va="center", fontsize=8.5, bbox=_box("square,pad=0.45", "C6"))
    if row["copies"] > 1:
        _factor(axes, row, "read", 5.1, 2.15, ha="center", va="bottom")
    else:
        _factor(axes, row, "read", BRANCH + 0.5, 3.4, ha="left", va="center")
    _factor(axes, row, "branch", 3.8, 8.3, ha="left", va="bottom")


def _draw_norms(axes: Any, row: dict[str, Any]) -> None:
    from minires.style import paper

    end = SECOND if _second_stream(row) else SKIP
    places = {
        "norm before F": (BRANCH, 2.9), "norm after F": (BRANCH, 7.1), "norm after the sum": (SKIP, 9.1),
        "norm at the start": (SKIP, 0), "norm at the end": (end, 10),
    }  # fmt: skip
    hidden = ("norm after F",) if row["norm after the sum"] else ()  # one behind the sum makes F's size unseen as well
    for name, (x, y) in places.items():
        if row[name] and name not in hidden:
            inside = paper() if name in ("norm at the start", "norm at the end") else "C4"
            axes.plot([x], [y], "s", ms=7, color="C4", mfc=inside, mew=1.5, zorder=5, clip_on=False)


def _second_stream(row: dict[str, Any]) -> bool:
    """What is carried beside x is neither read nor gathered: a stream of its own."""
    return row["carries more"] and not row["F reads it"] and not row["the next x reads it"]


def _factor(axes: Any, row: dict[str, Any], which: str, x: float, y: float, **where: Any) -> None:
    name = NAMES.get(row["rule"], {}).get(which)
    if name or (row[which] > 0 and abs(row[which] - 1) > NEAR):
        axes.text(x, y, (name or "× {}").replace("{}", f"{row[which]:.2g}"), fontsize=8, linespacing=1.1, **where)


def _node(axes: Any, x: float, y: float, sign: str) -> None:
    axes.text(x, y, sign, ha="center", va="center", fontsize=8, bbox=_box("circle,pad=0.15", "C0"), zorder=4)


def _box(shape: str, edge: str) -> dict[str, Any]:
    from minires.style import paper

    return dict(boxstyle=shape, facecolor=paper(), edgecolor=edge, lw=1)


def _draw_legend(axes: Any) -> None:
    from minires.style import BLUE, paper

    axes.set_title("how to read it", fontsize=9, pad=13)
    marks = [("s", "C4", "C4", "a norm"), ("s", "C4", paper(), "a norm at the very first\nor very last state"),
             ("o", BLUE, BLUE, "an earlier output or state\nthat is kept")]  # fmt: skip
    for y, (marker, edge, face, text) in zip((9.4, 7.7, 6), marks):
        axes.plot([0.6], [y], marker, color=edge, mfc=face, ms=7, mew=1.5)
        axes.text(1.6, y, text, va="center", fontsize=8)
    for y, sign, text in ((4.4, "+", "sum"), (2.8, "Σ", "weighted sum of all")):
        _node(axes, 0.6, y, sign)
        axes.text(1.6, y, text, va="center", fontsize=8)
