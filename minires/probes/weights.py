"""What weights say to each other through the stream, without running anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minires.messages import UnknownName, ValueProblem
from minires.models.mlp import MLPBlock, MLPLayer
from minires.nn import Context, FeedForward, MultiHeadAttention
from minires.probes.picture import curves, heat
from minires.probes.running import labels, require_additive, rule_name, stack_of, write

PARTS = ("query", "key", "value")


@dataclass(frozen=True)
class Composition:
    """scores: (K writers, K readers), NaN where the reader does not come after the writer. chance: 1/√d."""

    labels: list[str]
    scores: np.ndarray
    chance: float

    def draw(self) -> Any:
        title = f"How much k' reads of what k writes (chance {self.chance:.2g})"
        return heat(self.scores, xlabel="reader k'", ylabel="writer k", label="composition score", title=title)


def writer(F: Any) -> np.ndarray:
    """The matrix that writes to the stream, (in, d). Raises ValueProblem for sublayers without a single one."""
    if isinstance(F, MultiHeadAttention | FeedForward) and getattr(F, "output_norm", None) is None:
        return F.out_weight.data
    if isinstance(F, MLPBlock):
        return F.outer.weight.data
    raise _no_single_matrix(F, "writes")


def reader(F: Any, part: str | None = None) -> np.ndarray:
    """The matrix that reads from the stream, (d, out). part: "query", "key" or "value" of an attention sublayer.

    Raises UnknownName and ValueProblem.
    """
    if part is not None and part not in PARTS:
        raise UnknownName("part", part, PARTS)
    if isinstance(F, MultiHeadAttention):
        d = F.out_weight.shape[0]
        return F.qkv_weight.data if part is None else np.split(F.qkv_weight.data, [d, 2 * d], 1)[PARTS.index(part)]
    if isinstance(F, FeedForward):
        return F.in_weight.data
    if isinstance(F, MLPBlock | MLPLayer):
        return (F.inner if isinstance(F, MLPBlock) else F.linear).weight.data
    raise _no_single_matrix(F, "reads")


def virtual_weight(model: Any, k: int, later: int, part: str | None = None, *, fold_norm: bool = True) -> np.ndarray:
    """W_out^k·S·diag(γ)·W_in^later: what sublayer `later` reads of what sublayer k wrote, (in_k, out_later).

    S: what the rule does to the output on its way to the stream (I, diag(γ_l) in LayerScale, α I in ReZero, …).
    fold_norm: multiply by the gain γ of the norm that the reader reads through, if the rule has one there; the norm's
    division by a size is left out. Raises ValueProblem if `later` does not come after k, and for rules whose stream is
    no plain sum of linear writes: then something else stands between the two.
    Source: Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits".
    """
    stack = stack_of(model)
    if not 0 <= k < later < len(stack.sites):
        must = f"a virtual weight goes from a sublayer to a later one, 0 to {len(stack.sites) - 1}"
        raise ValueProblem(must, f"{k} to {later}", "Signals only flow forward.")
    _require_plain_sum(model)
    return _written(stack, k) @ _gained(model, later, reader(stack.sublayers[later], part), fold_norm)


def composition_scores(model: Any, part: str | None = None, *, fold_norm: bool = True) -> Composition:
    """‖W_out W_in‖_F / (‖W_out‖_F ‖W_in‖_F) for every pair; 1/√d if the two have nothing to do with each other.

    part: as for `reader`; the feed-forward sublayers are always read whole. Errors as in `virtual_weight`.
    """
    _require_plain_sum(model)
    stack = stack_of(model)
    K = len(stack.sites)
    scores, writers = np.full((K, K), np.nan), [_written(stack, k) for k in range(K)]
    readers = [_gained(model, k, reader(F, part), fold_norm) for k, F in enumerate(stack.sublayers)]
    for k in range(K):
        for later in range(k + 1, K):
            size = np.linalg.norm(writers[k]) * np.linalg.norm(readers[later])
            scores[k, later] = np.linalg.norm(writers[k] @ readers[later]) / size if size else 0.0
    return Composition(labels(model), scores, float(stack.connection.d**-0.5))


def _written(stack: Any, k: int) -> np.ndarray:
    """W_out·S, by letting the rule write every unit vector and, to be sure that it is linear, its double."""
    d = stack.connection.d
    x, units = np.random.default_rng(0).standard_normal((1, d, d)), np.eye(d)[None]
    S, twice = write(stack, x, k, units)[0], write(stack, x, k, 2 * units)[0]  # (d, d)
    if np.abs(twice - 2 * S).max() > 1e-6 * max(np.abs(S).max(), 1e-300):
        raise ValueProblem(
            "a virtual weight needs a rule that adds what a sublayer returns, perhaps scaled",
            rule_name(stack),
            "Here a norm stands between the sublayer and the stream.",
        )
    return writer(stack.sublayers[k]) @ S


def _gained(model: Any, k: int, W: np.ndarray, fold_norm: bool) -> np.ndarray:
    connection, site = stack_of(model).connection, stack_of(model).sites[k]
    norms = getattr(connection, "norms", None)
    if not fold_norm or norms is None:
        return W
    return norms[k if connection.arity == 1 else site.block].gamma.data[:, None] * W


def _require_plain_sum(model: Any) -> None:
    d = stack_of(model).connection.d
    require_additive(model, np.random.default_rng(0).standard_normal((1, 2, d)), Context(), "a virtual weight")


def _no_single_matrix(F: Any, does: str) -> ValueProblem:
    return ValueProblem(
        f"a virtual weight needs a sublayer that {does} with one matrix",
        type(F).__name__,
        "A mixture has one per expert; a layer that ends with an activation or a norm writes no linear map.",
    )


# ---------------------------------------------------------------------------------------------------- memory neurons


@dataclass(frozen=True)
class MemoryNeurons:
    """cosines: for every feed-forward sublayer cos(w_in_j, w_out_j) of its neurons, (sublayers, hidden)."""

    cosines: np.ndarray

    def share(self, below: float = -0.5) -> np.ndarray:
        """Which share of each sublayer's neurons erases what it reads, (sublayers,)."""
        return np.mean(self.cosines < below, axis=1)

    def draw(self) -> Any:
        series = {"smallest": self.cosines.min(1), "mean": self.cosines.mean(1), "largest": self.cosines.max(1)}
        title = "Does a neuron write what it reads (1) or erase it (-1)?"
        return curves(series, xlabel="feed-forward sublayer", ylabel="cos(w_in, w_out)", title=title)


def memory_neurons(model: Any) -> MemoryNeurons:
    """Neurons that write the opposite of what they read clear a direction of the stream (cosine below -0.5).

    Raises ValueProblem for a model without sublayers of one hidden layer.
    """
    pairs = [(reader(F), writer(F)) for F in stack_of(model).sublayers if isinstance(F, FeedForward | MLPBlock)]
    if not pairs:
        raise ValueProblem(
            "memory neurons need feed-forward sublayers with one hidden layer", "none", "Use a DecoderLM."
        )
    return MemoryNeurons(np.array([_column_cosines(W_in, W_out) for W_in, W_out in pairs]))


def _column_cosines(W_in: np.ndarray, W_out: np.ndarray) -> np.ndarray:
    size = np.linalg.norm(W_in, axis=0) * np.linalg.norm(W_out, axis=1)
    return np.einsum("dj,jd->j", W_in, W_out) / np.maximum(size, 1e-300)
