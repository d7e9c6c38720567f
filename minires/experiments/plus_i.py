"""What the +I does to a gradient: with and without the skip, and along which of the 2^L paths it comes.

One residual layer multiplies a gradient (a row vector) by I + J. Multiplying L of them out gives a sum over 2^L
paths: at each layer a path takes the skip or the branch. For independent J of zero mean, with entries of variance
τ²/d, the paths do not interfere on average, and those through k branches carry

    E‖g_k‖² = C(L, k) τ^2k ‖g‖²,        together (1 + τ²)^L ‖g‖²

Without the skip only the longest path is left: τ^2L. Source of the path view: Veit, Wilber & Belongie 2016,
arXiv:1605.06431.
"""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np

from minires.experiments.result import Result, measured
from minires.messages import ValueProblem

NAME = "plus_i"
TITLE = "The +I in a stack of layers: gradients with and without the skip, and the lengths of their paths"


def by_path_length(jacobians: np.ndarray, g: np.ndarray) -> np.ndarray:
    """(L + 1, …, d): row k is the part of g ∏ (I + J_l) that went through exactly k branches.

    jacobians: (L, d, d), first layer first. g: (…, d), row vectors at the top. Layers are walked from the last.
    """
    rows = np.zeros((len(jacobians) + 1, *g.shape))
    rows[0] = g
    for J in jacobians[::-1]:
        rows[1:] += rows[:-1] @ J
    return rows


def profile(jacobians: np.ndarray, g: np.ndarray, skip: float) -> list[float]:
    """Root-mean-square length of g after 0 … L layers of (skip·I + J), relative to the start."""
    sizes, start = [1.0], np.linalg.norm(g)
    for J in jacobians[::-1]:
        g = skip * g + g @ J
        sizes.append(float(np.linalg.norm(g) / start))
    return sizes


def study(tau: float, layers: int, d: int, draws: int, seed: int) -> dict[str, Any]:
    """Averages over `draws` random stacks with branches of size τ."""
    squares, with_skip, without = np.zeros(layers + 1), [], []
    for draw in range(draws):
        rng = np.random.default_rng([seed, draw])
        J = tau / np.sqrt(d) * rng.standard_normal((layers, d, d))
        g = rng.standard_normal((16, d))
        rows = by_path_length(J, g)
        squares += (rows**2).sum(axis=(1, 2)) / (g**2).sum() / draws
        with_skip.append(profile(J, g, 1.0))
        without.append(profile(J, g, 0.0))
    return {
        "tau": tau,
        "with_skip": np.sqrt(np.mean(np.square(with_skip), axis=0)),
        "without_skip": np.sqrt(np.mean(np.square(without), axis=0)),
        "by_length": squares,
        "law_by_length": [comb(layers, k) * tau ** (2 * k) for k in range(layers + 1)],
    }


@measured
def run(layers: int = 50, d: int = 64, taus: tuple = (0.1, 0.3, 0.9), draws: int = 20, seed: int = 0) -> dict[str, Any]:
    """Gradient sizes through `layers` random linear layers, and their split by path length.

    taus: branch sizes τ, the root-mean-square factor of one branch. draws: stacks to average over.
    """
    if min(layers, d, draws) < 1 or not taus or min(taus) <= 0:
        given = f"layers={layers}, d={d}, draws={draws}, taus={taus}"
        raise ValueProblem("layers, d and draws must be at least 1, and every tau above 0", given, "Try taus=0.1,0.3.")
    studies = [study(tau, layers, d, draws, seed) for tau in taus]
    return {"studies": studies, "rows": [summary(s, layers) for s in studies]}


def summary(found: dict[str, Any], layers: int) -> dict[str, float]:
    """One row per branch size: gains at the bottom, and how long the paths are that carry the gradient."""
    share = found["by_length"] / np.sum(found["by_length"])
    tau = found["tau"]
    return {
        "tau": tau,
        "gain_with_skip": found["with_skip"][-1],
        "law_with_skip": (1 + tau**2) ** (layers / 2),
        "gain_without_skip": found["without_skip"][-1],
        "law_without_skip": tau**layers,
        "mean_branches_on_a_path": float(share @ np.arange(layers + 1)),
        "law_mean_branches": layers * tau**2 / (1 + tau**2),
    }


def caption(result: Result) -> str:
    """The claim in numbers."""
    layers, rows = result.settings["layers"], result.data["rows"]
    small, large = rows[0], rows[-1]
    lengths = ", ".join(f"{row['mean_branches_on_a_path']:.1f} (τ = {row['tau']:g})" for row in rows)
    return (
        f"{layers} layers, d = {result.settings['d']}, independent zero-mean branches of size τ. Left: with the skip "
        f"the gradient is {small['gain_with_skip']:.2f} times its size at τ = {small['tau']:g}, without it "
        f"{small['gain_without_skip']:.1g}. But +I alone does not keep it at 1: at τ = {large['tau']:g} it is "
        f"{large['gain_with_skip']:.2g}, as (1 + τ²)^(L/2) says. Right: small branches mean short paths. An average "
        f"path has {layers / 2:g} branches; those that carry the gradient have {lengths}."
    )


def draw(result: Result) -> Any:
    """Left: size of the gradient by layers passed. Right: its squared length by number of branches on the path."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.3))
    _draw_profiles(left, result)
    _draw_lengths(right, result)
    return figure


def _draw_profiles(axes: Any, result: Result) -> None:
    from minires.style import CYCLE

    steps = np.arange(result.settings["layers"] + 1)
    for colour, found in zip(CYCLE, result.data["studies"]):
        axes.semilogy(steps, found["with_skip"], color=colour, label=f"I + J, τ = {found['tau']:g}")
        axes.semilogy(steps, found["without_skip"], color=colour, ls="--", label=f"J alone, τ = {found['tau']:g}")
    axes.set(xlabel="layers passed", ylabel="size of the gradient (start = 1)", title="With the skip and without")
    axes.set_ylim(1e-36, 1e10)
    axes.legend(loc="lower left")


def _draw_lengths(axes: Any, result: Result) -> None:
    from minires.style import CYCLE, INK

    layers = result.settings["layers"]
    counts = np.array([float(comb(layers, k)) for k in range(layers + 1)]) / 2.0**layers
    axes.plot(counts, color=INK, ls=":", label="how many paths there are")
    for colour, marker, found in zip(CYCLE, "osD^v<", result.data["studies"]):
        share = np.array(found["by_length"]) / np.sum(found["by_length"])
        law = np.array(found["law_by_length"]) / np.sum(found["law_by_length"])
        axes.plot(law, color=colour, lw=1)
        axes.plot(share, marker, color=colour, ms=4, label=f"the gradient, τ = {found['tau']:g}")
    axes.set(xlabel="branches on the path", ylabel="share", title="Which paths the gradient takes (lines: theory)")
    axes.legend(loc="upper right")
