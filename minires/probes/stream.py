"""What the stream looks like from layer to layer: its size, how much it turns, and how alike its tokens become."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from minires.probes.picture import curves, heat
from minires.probes.running import forward, norm_of


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """cos(a, b) along the last axis; 0 where one of them is 0."""
    size = norm_of(a) * norm_of(b)
    return np.divide((a.astype(np.float64) * b).sum(-1), size, out=np.zeros_like(size), where=size > 0)


# ------------------------------------------------------------------------------------------------------------- growth


@dataclass(frozen=True)
class Growth:
    """rms and std: of x_0 … x_K, (K + 1,). The fit is variance ≈ intercept + slope·l, in sublayers l."""

    rms: np.ndarray
    std: np.ndarray
    intercept: float
    slope: float

    def draw(self) -> Any:
        fit = np.sqrt(np.maximum(self.intercept + self.slope * np.arange(len(self.rms)), 0))
        series = {"rms of x_l": self.rms, "√(a + b l), fitted": fit}
        return curves(series, xlabel="state l", ylabel="size", title="How the stream grows")


def activation_growth(model: Any, inputs: Any) -> Growth:
    """How large the stream is at every state.

    Pre-Norm at a variance-keeping initialisation has Var x_l between 1 + l/2 and 1 + 3l/2, l in blocks
    (Xiong et al. 2020, arXiv:2002.04745, lemma 2).
    """
    states = [x.astype(np.float64) for x in forward(model, inputs).states]
    variance = np.array([x.var() for x in states])
    slope, intercept = np.polyfit(np.arange(len(states)), variance, 1) if len(states) > 1 else (0.0, variance[0])
    rms = np.sqrt([np.mean(x * x) for x in states])
    return Growth(rms, np.sqrt(variance), float(intercept), float(slope))


# ------------------------------------------------------------------------------------------------------------ turning


@dataclass(frozen=True)
class Similarity:
    """Between x_l and x_{l+1}, over tokens: mean and median cosine, (K,). angular: (K + 1, K + 1), see below."""

    mean: np.ndarray
    median: np.ndarray
    angular: np.ndarray

    @property
    def block_influence(self) -> np.ndarray:
        """BI_l = 1 - E cos(x_l, x_{l+1}). Source: ShortGPT, arXiv:2403.03853."""
        return 1 - self.mean

    def cheapest(self, n: int) -> int:
        """The first of the n layers in a row whose removal turns the last token least: argmin_l d(l, l + n)."""
        return int(np.argmin(np.diagonal(self.angular, n)))

    def draw(self) -> Any:
        return heat(self.angular, xlabel="state", ylabel="state", label="angle / π", title="Angle between states")


def similarity(model: Any, inputs: Any) -> Similarity:
    """How little a sublayer turns the stream.

    angular[l, m] = mean over samples of arccos(cos(x_l, x_m))/π at the *last* token (rows, for inputs without tokens).
    Source: arXiv:2403.17887. A small angle does not prove that a layer is useless: measure the loss too.
    """
    states = forward(model, inputs).states
    pairs = [cosine(a, b) for a, b in itertools.pairwise(states)]
    last = [x[:, -1] if x.ndim > 2 else x for x in states]
    angular = [[np.mean(np.arccos(np.clip(cosine(a, b), -1, 1))) / np.pi for b in last] for a in last]
    np.fill_diagonal(found := np.array(angular), 0.0)  # arccos turns a rounding error of 1 into an angle
    return Similarity(np.array([p.mean() for p in pairs]), np.array([np.median(p) for p in pairs]), found)


# ------------------------------------------------------------------------------------------------------ contributions


@dataclass(frozen=True)
class Contribution:
    """Per step, means over tokens. ratio: ‖x_{l+1} - x_l‖/‖x_l‖. along: ⟨x_{l+1} - x_l, x_l⟩/‖x_l‖².

    branch: ‖F_k‖/‖x‖ per sublayer, F as it leaves the sublayer: before any scale, gate or norm that follows it.
    """

    ratio: np.ndarray
    along: np.ndarray
    branch: np.ndarray

    def draw(self) -> Any:
        series = {"‖Δx‖ / ‖x‖": self.ratio, "⟨Δx, x⟩ / ‖x‖²": self.along}
        return curves(series, xlabel="step l", ylabel="share", title="What each sublayer adds")


def contribution(model: Any, inputs: Any) -> Contribution:
    """How large each sublayer's change of the stream is, and whether it points along the stream (negative: erases)."""
    run = forward(model, inputs)
    changes = [b.astype(np.float64) - a for a, b in zip(run.states, run.states[1:])]
    sizes = [np.maximum(norm_of(x), 1e-300) for x in run.states]
    arity = max(1, len(run.written) // max(1, len(changes)))
    return Contribution(
        np.array([np.mean(norm_of(c) / s) for c, s in zip(changes, sizes)]),
        np.array([np.mean((c * x).sum(-1) / s**2) for c, x, s in zip(changes, run.states, sizes)]),
        np.array([np.mean(norm_of(f) / sizes[k // arity]) for k, f in enumerate(run.written)]),
    )


# ----------------------------------------------------------------------------------------------------- rank collapse


@dataclass(frozen=True)
class Collapse:
    """Per state, means over sequences. rest: ‖X - 1x̄ᵀ‖_F/‖X‖_F, 0 if all tokens are equal. cosine: of token pairs.

    rank: effective rank e^H of the squared singular values of X (1 … min(T, d)).
    """

    rest: np.ndarray
    cosine: np.ndarray
    rank: np.ndarray

    def draw(self) -> Any:
        series = {"‖X - 1x̄ᵀ‖ / ‖X‖": self.rest, "cosine of token pairs": self.cosine}
        return curves(series, xlabel="state l", ylabel="share", title="Do tokens become alike?")


def rank_collapse(model: Any, inputs: Any) -> Collapse:
    """Whether all tokens of a sequence run into one vector. Inputs without tokens: whether all samples do.

    Source: Dong et al. 2021, arXiv:2103.03404, whose residual is the distance to 1x̄ᵀ.
    """
    states = [x if x.ndim > 2 else x[None] for x in forward(model, inputs).states]
    found = [[_collapse(X.astype(np.float64)) for X in x] for x in states]
    return Collapse(*np.mean(found, axis=1).T)


def _collapse(X: np.ndarray) -> tuple[float, float, float]:
    """One sequence X (T, d)."""
    size = max(np.linalg.norm(X), 1e-300)
    unit = X / np.maximum(norm_of(X), 1e-300)[:, None]
    pairs = (unit @ unit.T)[np.triu_indices(len(X), 1)]
    share = np.linalg.svd(X, compute_uv=False) ** 2 / size**2
    entropy = -np.sum(share * np.log(np.maximum(share, 1e-300)))
    rest, alike = np.linalg.norm(X - X.mean(0)) / size, pairs.mean() if len(pairs) else 1.0
    return float(rest), float(alike), float(np.exp(entropy))
