"""What depth does to a gradient: one number per layer, and one matrix (I + J) per layer.

A gradient that passes L residual layers is multiplied by ∏ (I + J_l). The article takes ‖J‖ = 0.1 and concludes
that the product is about 1. That follows only if the J_l do not add up. For independent J_l whose distribution no
rotation changes, with m = tr J / d and τ² = ‖J‖_F² / d,

    E‖g ∏ (I + J_l)‖² = (1 + 2m + τ²)^L ‖g‖²

so a mean m ≠ 0 changes the gradient exponentially, and without a mean the branch must be as small as 1/√L.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minires.experiments.result import Result, measured
from minires.messages import ValueProblem

NAME = "jacobian_products"
TITLE = "What 100 layers do to a gradient: products of (I + J), by how the J are related"

SCALARS = ((0.9, 50, 0.005), (1.1, 50, 117.0), (0.95, 100, 0.006), (1.05, 100, None))  # factor, layers, the article's

Draw = Callable[[np.random.Generator, int, int], np.ndarray]


def gaussian(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """n matrices of independent normal numbers: (n, d, d)."""
    return rng.standard_normal((n, d, d))


def unsigned_qr(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Q of a QR decomposition as LAPACK returns it. Orthogonal, but not uniform: its trace is biased below 0."""
    return np.linalg.qr(gaussian(rng, n, d))[0]


def haar(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Uniformly distributed orthogonal matrices: the columns of Q times the signs of R's diagonal.

    Source: Mezzadri 2007, arXiv:math-ph/0609050.
    """
    Q, R = np.linalg.qr(gaussian(rng, n, d))
    return Q * np.sign(np.diagonal(R, axis1=1, axis2=2))[:, None, :]


def positive(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Symmetric with eigenvalues ≥ 0."""
    G = gaussian(rng, n, d)
    return G @ G.swapaxes(1, 2)


def negative(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Symmetric with eigenvalues ≤ 0."""
    return -positive(rng, n, d)


def skew(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Jᵀ = -J: it turns, and neither stretches nor shrinks to first order."""
    G = gaussian(rng, n, d)
    return G - G.swapaxes(1, 2)


def plus(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """+I: the largest growth that a norm allows."""
    return np.broadcast_to(np.eye(d), (n, d, d))


def minus(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """-I: the largest decay."""
    return -plus(rng, n, d)


KINDS: dict[str, tuple[Draw, bool]] = {  # how J is drawn, and whether all layers share one J
    "+0.1 I": (plus, True),
    "positive, shared": (positive, True),
    "positive, independent": (positive, False),
    "Gaussian, shared": (gaussian, True),
    "skew, shared": (skew, True),
    "orthogonal, independent": (haar, False),
    "orthogonal, shared": (haar, True),
    "skew, independent": (skew, False),
    "Gaussian, independent": (gaussian, False),
    "QR without signs, independent": (unsigned_qr, False),
    "negative, independent": (negative, False),
    "negative, shared": (negative, True),
    "-0.1 I": (minus, True),
}


def jacobians(kind: str, rng: np.random.Generator, layers: int, d: int, size: float) -> np.ndarray:
    """(layers, d, d), each with largest singular value `size`."""
    make, shared = KINDS[kind]
    J = make(rng, 1 if shared else layers, d)
    J = size * J / np.linalg.norm(J, ord=2, axis=(1, 2), keepdims=True)
    return np.broadcast_to(J, (layers, d, d))


def gains(J: np.ndarray, g: np.ndarray, skip: float = 1.0) -> np.ndarray:
    """‖g ∏ (skip·I + J_l)‖ / ‖g‖ after 0 … L layers: (L + 1,)."""
    sizes, v = [np.linalg.norm(g)], g
    for J_l in J:
        v = skip * v + v @ J_l
        sizes.append(np.linalg.norm(v))
    return np.array(sizes) / sizes[0]


def law(J: np.ndarray, kind: str) -> float | None:
    """The root-mean-square gain that theory gives, or None where there is no simple formula.

    Independent: (1 + 2m + τ²)^(L/2). Shared and normal (J Jᵀ = Jᵀ J): √mean |1 + λ|^2L over the eigenvalues.
    """
    layers, d, _ = J.shape
    make, shared = KINDS[kind]
    if make is unsigned_qr:  # a rotation changes its distribution
        return None
    if not shared:
        m, tau2 = np.trace(J, axis1=1, axis2=2).mean() / d, (J**2).sum() / (layers * d)
        return float((1 + 2 * m + tau2) ** (layers / 2))
    if not np.allclose(J[0] @ J[0].T, J[0].T @ J[0], atol=1e-12):
        return None
    return float(np.sqrt(np.mean(np.abs(1 + np.linalg.eigvals(J[0])) ** (2 * layers))))


def study(kind: str, layers: int, d: int, size: float, draws: int, seed: int) -> dict[str, Any]:
    """`draws` products of one kind: the spread of their gains, the law, and the first draw layer by layer."""
    curves, laws = [], []
    for draw in range(draws):
        rng = np.random.default_rng([seed, draw])
        J = jacobians(kind, rng, layers, d, size)
        curves.append(gains(J, rng.standard_normal(d)))
        laws.append(law(J, kind))
    ends = np.array(curves)[:, -1]
    expected = None if None in laws else float(np.sqrt(np.mean(np.square(laws))))
    rms = np.sqrt(np.mean(ends**2))
    return {"kind": kind, "gain": rms, "lowest": ends.min(), "highest": ends.max(), "law": expected, "curve": curves[0]}


@measured
def run(layers: int = 100, d: int = 64, size: float = 0.1, draws: int = 8, seed: int = 0) -> dict[str, Any]:
    """Gains of ∏ (I + J_l) by kind of J, the same without the skip, and the powers of one number.

    layers: L. d: width. size: ‖J_l‖₂ of every layer, in (0, 1). draws: products per kind.
    """
    if min(layers, d - 1, draws) < 1 or not 0 < size < 1:
        must = "layers and draws must be at least 1, d at least 2 (a skew matrix of one number is 0), size in (0, 1)"
        raise ValueProblem(must, f"layers={layers}, d={d}, draws={draws}, size={size}", "Try size=0.1 and d=8.")
    rng = np.random.default_rng(seed)
    alone = gains(jacobians("Gaussian, independent", rng, layers, d, size), rng.standard_normal(d), skip=0.0)
    studies = [study(kind, layers, d, size, draws, seed) for kind in KINDS]
    return {
        "scalars": [{"factor": f, "layers": n, "product": f**n, "article": a} for f, n, a in SCALARS],
        "bounds": [(1 - size) ** layers, (1 + size) ** layers],
        "without_skip": {"gain": alone[-1], "norms_alone": size**layers},
        "curves": {s["kind"]: s.pop("curve") for s in studies},
        "rows": studies,
    }


def caption(result: Result) -> str:
    """The claim in numbers."""
    s, (low, high) = result.settings, result.data["bounds"]
    by_kind = {row["kind"]: row["gain"] for row in result.data["rows"]}
    calm, plain = by_kind["Gaussian, independent"], result.data["without_skip"]["gain"]
    near = "stay near 1" if abs(np.log(calm)) < 0.3 else "do not stay at 1"
    return (
        f"Gradient gain of {s['layers']} residual layer{'s' * (s['layers'] > 1)} whose branches all have norm "
        f"{s['size']:g} (d = {s['d']}). It can be anything from {low:.2g} to {high:.2g} (grey): the norm of J does not "
        f"decide it, the relation between the layers does. Curves: one product of each kind. Independent zero-mean "
        f"branches {near} ({calm:.2f}, rms of {s['draws']}). Without the skip the product is {plain:.1g}."
    )


def draw(result: Result) -> Any:
    """Left: powers of one number. Right: the gain of (I + J) products, layer by layer."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.6), width_ratios=(1.15, 1.6))
    _draw_scalars(left, result.data["scalars"])
    _draw_curves(right, result)
    return figure


def _draw_scalars(axes: Any, scalars: list[dict]) -> None:
    for row in scalars:
        steps = np.arange(row["layers"] + 1)
        (line,) = axes.semilogy(steps, row["factor"] ** steps)
        text = f"{row['factor']:g}$^{{{row['layers']}}}$ = {row['product']:.3g}"
        above, away = row["factor"] > 1, 6 if row["layers"] == 100 else 18
        axes.annotate(text, (steps[-1], row["product"]), xytext=(0, away if above else -away), fontsize=8,
                      textcoords="offset points", ha="right", va="bottom" if above else "top",
                      color=line.get_color())  # fmt: skip
    axes.set(xlabel="layers", ylabel="product", title="One number per layer", ylim=(1e-3, 1e3))


def _draw_curves(axes: Any, result: Result) -> None:
    from minires.style import CYCLE, INK

    curves, size = result.data["curves"], result.settings["size"]
    steps, (low, high) = np.arange(result.settings["layers"] + 1), result.data["bounds"]
    axes.fill_between(steps, (1 - size) ** steps, (1 + size) ** steps, color=INK, alpha=0.08, lw=0)
    heights = [np.log(curve[-1] / low) / np.log(high / low) for curve in curves.values()]  # 0 bottom, 1 top
    for i, ((kind, curve), height) in enumerate(zip(curves.items(), _label_heights(heights))):
        colour, dashes = CYCLE[i % len(CYCLE)], "--" if "shared" in kind else "-"
        axes.semilogy(steps, curve, color=colour, ls=dashes)
        name = kind.replace("0.1", f"{size:g}")
        axes.annotate(f"{name}: {curve[-1]:.3g}", (1, height), xytext=(7, 0), xycoords="axes fraction",
                      textcoords="offset points", color=colour, va="center", fontsize=8)  # fmt: skip
    axes.set(xlabel="layers passed", ylabel="gain of the gradient", title=f"A matrix I + J per layer, ‖J‖ = {size:g}")
    axes.set(xlim=(0, steps[-1]), ylim=(low, high))
    axes.xaxis.get_major_locator().set_params(integer=True)


def _label_heights(values: list[float], gap: float = 0.075) -> list[float]:
    """`spread` out, and inside the axes from 0 to 1."""
    from minires.style import spread

    places, order = spread(values, gap), np.argsort(spread(values, gap))
    for rank, i in enumerate(order):
        places[i] = min(max(places[i], gap * rank), 1 - gap * (len(values) - 1 - rank))
    return places
