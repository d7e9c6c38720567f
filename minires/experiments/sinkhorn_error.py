"""How far twenty Sinkhorn steps leave a matrix from doubly stochastic, by how far apart its logits are.

Rows are normalised last, so their sums are 1 to the last digit; what is left over is in the column sums. Each step
shrinks the error by the square of the matrix's second singular value, which tends to 1 as the matrix tends to a
permutation with small numbers beside it: wide logits converge slowly, or not at all in any useful number of steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minires.experiments.result import Result, measured
from minires.messages import ValueProblem
from minires.ops.sinkhorn import sinkhorn_forward

NAME = "sinkhorn_error"
TITLE = "Sinkhorn's error against the spread of its logits: twenty steps are exact only for narrow logits"


FLOOR = 1e-16  # where an error of exactly 0 is drawn


def column_error(logits: np.ndarray, steps: int) -> np.ndarray:
    """max |column sum - 1| of every matrix: (R, n, n) → (R,)."""
    return np.abs(sinkhorn_forward(logits, steps=steps)[0].sum(axis=-2) - 1).max(-1)


@measured
def run(
    n: int = 4, steps: tuple = (5, 20, 100), widest: float = 30.0, points: int = 16, draws: int = 2000, seed: int = 0
):
    """Logits are σ times standard normal, σ from 0.1 to `widest`. steps: of Sinkhorn. draws: matrices per point."""
    if n < 2 or min(steps, default=0) < 1 or widest <= 0.1 or min(points, draws) < 2:
        given = f"n={n}, steps={steps}, widest={widest}, points={points}, draws={draws}"
        raise ValueProblem(
            "n, points and draws must be at least 2, steps at least 1, widest over 0.1", given, "See above."
        )
    spreads = np.geomspace(0.1, widest, points)
    base = np.random.default_rng(seed).standard_normal((draws, n, n))
    studies = []
    for t in steps:
        errors = np.array([column_error(sigma * base, t) for sigma in spreads])  # (points, draws)
        studies.append(
            {"steps": t, "median": np.median(errors, 1), "p99": np.quantile(errors, 0.99, 1), "worst": errors.max(1)}
        )
    return {"spread": spreads, "studies": studies, "rows": [_row(s, spreads) for s in studies]}


def _row(study: dict[str, Any], spreads: np.ndarray) -> dict[str, Any]:
    """The widest logits at which no, and at which half, of the matrices are off by more than 1 %."""
    safe = spreads[study["worst"] < 0.01]
    return {
        "steps": study["steps"],
        "all within 1 % up to spread": float(safe[-1]) if len(safe) else 0.0,
        "worst error": float(study["worst"].max()),
        "median at the widest": float(study["median"][-1]),
    }


def caption(result: Result) -> str:
    """The limits in numbers."""
    s = result.settings
    each = "; ".join(
        f"{r['steps']} steps: up to σ = {r['all within 1 % up to spread']:.2g}, worst {r['worst error']:.2g}"
        for r in result.data["rows"]
    )
    return (
        f"Largest |column sum - 1| of {s['draws']} matrices {s['n']} × {s['n']} with logits σ·N(0, 1). Solid: median; "
        f"dashed: the worst one. Every matrix is within 1 % only for narrow logits ({each}). The rows always sum to 1. "
        f"An error of 0 is drawn at {FLOOR:g}."
    )


def draw(result: Result) -> Any:
    """One pair of curves per number of steps."""
    import matplotlib.pyplot as plt

    from minires.style import CYCLE, INK

    figure, axes = plt.subplots(figsize=(7, 4.4))
    spreads, floor = result.data["spread"], FLOOR
    for colour, marker, study in zip(CYCLE, "osD^v<", result.data["studies"]):
        name = f"{study['steps']} steps"
        median, worst = (np.maximum(study[key], floor) for key in ("median", "worst"))
        axes.loglog(spreads, median, marker=marker, ms=4, color=colour, label=f"{name}, median")
        axes.loglog(spreads, worst, marker=marker, ms=4, color=colour, ls="--", label=f"{name}, worst")
    axes.axhline(0.01, color=INK, lw=0.8, ls=":")
    axes.text(spreads[0], 0.013, "1 %", fontsize=8)
    axes.set(
        xlabel="spread σ of the logits",
        ylabel="largest |column sum - 1|",
        title=f"How far Sinkhorn's {result.settings['n']} × {result.settings['n']} matrices are from doubly stochastic",
    )
    axes.set_ylim(floor / 2, 5)
    axes.legend(loc="lower right")
    return figure
