"""The +I table: what every rule makes of the identity in ∂x_{l+1}/∂x_l, and what 24 sublayers make of it.

The skip path's own Jacobian is that of the stack with every branch's backward pass set to zero. Its singular values
are all 1 where the +I stands alone; norms, gates and mixing matrices on the path move them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minires.data import CharCorpus, hamlet
from minires.experiments.result import Result, measured
from minires.messages import UnknownName, ValueProblem
from minires.models import DecoderLM, get_recipe
from minires.probes.running import Seen, seen_through
from minires.probes.spectrum import jacobian_spectrum
from minires.ui import progress

NAME = "plus_i_table"
TITLE = "The +I table: ∂x_{l+1}/∂x_l by rule, and what is left of the identity after 24 sublayers"
RTOL, ATOL = 1e-5, 1e-9

FORMULAS = {
    "plain": "J_F",
    "none": "J_LN J_F",
    "residual": "I + J_F",
    "highway": "diag(1-t) + diag(t) J_F + …",
    "post_norm": "J_LN (I + J_F)",
    "deepnorm": "J_LN (α I + J_F)",
    "admin": "J_LN (diag ω + J_F)",
    "residual_dual": "J_LN (I + J_F) for x",
    "pre_norm": "I + J_F J_LN",
    "sandwich": "I + J_LN J_F J_LN",
    "peri_ln": "I + J_LN J_F J_LN",
    "parallel": "I + (J_A + J_M) J_LN",
    "layerscale": "I + diag(γ) J_F J_LN",
    "inverse_sqrt_depth": "I + J_F J_LN / √K",
    "layernorm_scaling": "I + J_F J_LN / √b",
    "residual_inverse_sqrt_depth": "I + J_F / √K",
    "rezero": "I + α J_F",
    "skipinit": "I + α_l J_F",
    "fixup": "I + s J_F",
    "laurel": "b I + (AB)ᵀ + a J_F J_LN",
    "laurel_pa": "I + J_F J_LN, earlier x_j: γ_j (AB)ᵀ",
    "hyper_connections": "A_rᵀ ⊗ I + Bᵀ A_mᵀ ⊗ J_F J_LN",
    "mhc": "H_res ⊗ I + H_postᵀ H_pre ⊗ J_F J_LN",
    "attention_residuals": "a_i I + …, Σ a_i = 1",
    "denseformer": "α_{i,i+1} (I + J_F J_LN), others α_ij I",
}
SECOND = {"residual_dual": "I for d, + J_F from x"}  # rules with a second state, and its line

FLOOR = 1e-5  # what is smaller is drawn as an arrow


class SecondState(Seen):
    """A rule whose x_l, as instruments see it, is the second state that it carries."""

    def read(self, stream: Any) -> Any:
        return stream[1]


@measured
def run(
    rules: tuple = tuple(FORMULAS), blocks: int = 12, d: int = 16, heads: int = 2, length: int = 8, seed: int = 0
) -> dict[str, Any]:
    """∂x_K/∂x_0 of the last token with itself, whole and along the skip alone, at initialisation, float64."""
    for name in rules:
        if name not in FORMULAS:
            raise UnknownName("rule", name, FORMULAS)
    if not rules or min(blocks, d, heads, length) < 1:
        given = f"rules={rules}, blocks={blocks}, d={d}, heads={heads}, length={length}"
        raise ValueProblem("there must be a rule, and every size must be at least 1", given, "Try blocks=6.")
    corpus = CharCorpus(hamlet())
    ids, _ = corpus.batch(np.random.default_rng(seed), 1, length)
    rows = []
    for name in progress(list(rules), "rules"):
        model = get_recipe(name).build(
            len(corpus.vocab), blocks, ids=ids, d=d, heads=heads, context=length, rng=seed, dtype=np.float64
        )
        rows.append({"rule": name, "∂x_{l+1}/∂x_l": FORMULAS[name], **_numbers(model, ids)})
        if name in SECOND:
            second = seen_through(model, SecondState(model.stack.connection))
            rows.append({"rule": f"{name}, d", "∂x_{l+1}/∂x_l": SECOND[name], **_numbers(second, ids)})
    return {"rows": rows}


def _numbers(model: DecoderLM, ids: np.ndarray) -> dict[str, float]:
    token = ids.shape[1] - 1
    skip, whole = (jacobian_spectrum(model, ids, token=token, skip_only=only) for only in (True, False))
    sizes = {f"skip, {name}": skip.summary[name] for name in ("smallest", "median", "largest")}
    return sizes | {"whole, rms": whole.rms}


def caption(result: Result) -> str:
    """How many lines keep the identity, and what the others do."""
    s, rows = result.settings, result.data["rows"]
    kept = [r for r in rows if abs(r["skip, smallest"] - 1) < 1e-9 and abs(r["skip, largest"] - 1) < 1e-9]
    with_skip = [r for r in rows if r["skip, largest"] > 0]
    lost = sorted((r["skip, median"], r["rule"]) for r in with_skip if r not in kept)
    least = f" The smallest median with a skip is {lost[0][0]:.2g} ({lost[0][1]})." if lost else ""
    below = any(r["skip, smallest"] < FLOOR for r in with_skip)
    arrow = " Arrow: the smallest are below 1e-5; a LayerNorm on the path makes them 0." if below else ""
    return (
        f"Singular values of ∂x_K/∂x_0 at one token after {2 * s['blocks']} sublayers (d = {s['d']}, untrained). "
        f"Bar and circle: smallest to largest and median along the skip path alone. Diamond: rms of the whole.{arrow} "
        f"{len(kept)} of {len(rows)} lines keep the identity exactly.{least}"
    )


def draw(result: Result) -> Any:
    """One line per rule, the formula on the right."""
    import matplotlib.pyplot as plt

    from minires.style import BLUE, VERMILLION

    rows = result.data["rows"]
    figure, axes = plt.subplots(figsize=(10, max(3.2, 0.3 * len(rows) + 1.4)))
    for y, row in enumerate(rows):
        _draw_row(axes, y, row)
    axes.set_xscale("log")
    axes.axvline(1, color="C6", lw=0.7, alpha=0.5)
    title = f"What {2 * result.settings['blocks']} sublayers leave of the identity"
    axes.set(xlabel="singular value of ∂x_K/∂x_0 (1: the identity)", title=title, xlim=(FLOOR * 0.6, None))
    axes.set_yticks(range(len(rows)), [row["rule"].replace("_", " ") for row in rows])
    axes.text(1.02, -1, "∂x_{l+1}/∂x_l", transform=axes.get_yaxis_transform(), fontsize=8, weight="bold", va="center")
    axes.set_ylim(len(rows) - 0.4, -1.4)  # the first rule on top
    axes.plot([], [], "o", color=BLUE, ms=6, label="skip path alone")
    axes.plot([], [], "D", color=VERMILLION, ms=5, mfc="none", label="the whole")
    axes.legend(loc="lower right")
    return figure


def _draw_row(axes: Any, y: int, row: dict[str, Any]) -> None:
    from minires.style import BLUE, VERMILLION

    low, mid, high, whole = (row[name] for name in ("skip, smallest", "skip, median", "skip, largest", "whole, rms"))
    if high > 0:
        axes.plot(np.maximum([low, high], FLOOR), [y, y], color=BLUE, lw=5, alpha=0.4, solid_capstyle="butt")
        _mark(axes, mid, y, "o", color=BLUE, ms=6)
        if low < FLOOR:
            axes.plot([FLOOR * 0.9], [y], "<", color=BLUE, ms=6)
    else:
        axes.text(1.25, y, "no skip path: 0", fontsize=7.5, va="center")
    _mark(axes, whole, y, "D", color=VERMILLION, ms=5, mfc="none")
    axes.text(1.02, y, row["∂x_{l+1}/∂x_l"], transform=axes.get_yaxis_transform(), fontsize=8, va="center")


def _mark(axes: Any, value: float, y: int, marker: str, **style: Any) -> None:
    """A point, or its value in words at the left edge if it lies beyond."""
    axes.plot([max(value, FLOOR)], [y], marker, **style)
    if value < FLOOR:
        axes.annotate(f"{value:.0e}", (FLOOR, y), xytext=(8, 0), textcoords="offset points", va="center", fontsize=7.5)
