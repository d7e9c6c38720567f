"""How far one training step moves what the model computes, and which of its parts did it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from minires.messages import ValueProblem
from minires.nn import Parameter
from minires.probes.picture import bars
from minires.probes.running import as_input, labels, rule_name, stack_of
from minires.probes.weights import reader, writer
from minires.residual.deepnorm import DeepNorm
from minires.residual.post_norm import PostNorm
from minires.tensor import no_grad

GROUPS = ("sublayers", "norms", "connection", "ends")


@dataclass(frozen=True)
class Update:
    """‖f(x, θ_new) - f(x, θ_old)‖/√d, mean over tokens, f: what the stack returns.

    total: all parameters. by_group: only the sublayers' weights; only the gains and biases of all norms; only what else
    is the connection's own (gates); only what is in front of the stack (embeddings). The parts need not add up.
    """

    total: float
    by_group: dict[str, float]

    def draw(self) -> Any:
        found = {"all": self.total} | self.by_group
        return bars(list(found), list(found.values()), ylabel="‖Δf‖ / √d", title="Size of the update")


def update_size(model: Any, inputs: Any, before: Mapping[str, np.ndarray]) -> Update:
    """Between the model as it is and its earlier `state_dict()`.

    DeepNet (arXiv:2203.00555, section 4) wants this independent of depth; in Post-Norm it grows with it.
    """
    now, features = model.state_dict(), stack_output(model, inputs)
    groups = {name: group_of(name, p) for name, p in model.named_parameters()}
    twin = copy.deepcopy(model)

    def moved(group: str | None) -> float:
        kept = {name: before[name] if group in (None, groups[name]) else now[name] for name in now}
        twin.load_state_dict(kept)
        return _size(features - stack_output(twin, inputs))

    return Update(moved(None), {group: moved(group) for group in GROUPS})


def expected_update(model: Any, inputs: Any, train: Callable[[], Any]) -> Update:
    """Run `train()`, which changes the model, and give the size of the change (one step, or as many as it takes)."""
    before = {name: array.copy() for name, array in model.state_dict().items()}
    train()
    return update_size(model, inputs, before)


def amplification(model: Any, inputs: Any, size: float = 1e-2, draws: int = 4, seed: int = 0) -> float:
    """Var[f(x, W) - f(x, W + δ)]/size² for random δ in the sublayers' weights, each as large as `size` beside its W.

    Admin (arXiv:2004.08249, theorem 2) gives O(N) for Post-Norm and O(log N) for Pre-Norm with N layers.
    """
    features, rng = stack_output(model, inputs), np.random.default_rng(seed)
    variances = []
    for _ in range(draws):
        twin = copy.deepcopy(model)
        for name, p in twin.named_parameters():
            if group_of(name, p) == "sublayers" and p.kind == "weight":
                p.data[...] += size * np.std(p.data) * rng.standard_normal(p.shape)
        variances.append(np.var(stack_output(twin, inputs) - features))
    return float(np.mean(variances) / size**2)


# ------------------------------------------------------------------------------------------------- DeepNet's bound


@dataclass(frozen=True)
class UpdateBound:
    """‖ΔF‖ ≤ Σ_i √(v_i² + w_i²)/α ‖Δθ_i‖, one entry per sublayer, (K,) each.

    v, w: size of the two weights before the step, 1 for Xavier's. moved: ‖Δθ_i‖ of these two. alpha: of the rule.
    """

    labels: list[str]
    v: np.ndarray
    w: np.ndarray
    moved: np.ndarray
    alpha: float

    @property
    def parts(self) -> np.ndarray:
        """What each sublayer adds to the bound, (K,)."""
        return np.hypot(self.v, self.w) / self.alpha * self.moved

    @property
    def total(self) -> float:
        return float(self.parts.sum())

    def draw(self) -> Any:
        return bars(self.labels, self.parts, ylabel="√(v² + w²)/α ‖Δθ‖", title=f"Bound on the update: {self.total:.3g}")


def update_bound(model: Any, before: Mapping[str, np.ndarray]) -> UpdateBound:
    """DeepNet's bound on how far the step from `before`, an earlier `state_dict()`, can move the stack's output.

    v belongs to W_V or W_1, w to W_O or W_2: rms(W)·√((in + out)/2), so that Xavier gives 1 and DeepNorm's start β.
    ‖Δθ_i‖: Frobenius, over the same two weights. Queries, keys and biases do not enter. It is to be compared with
    `update_size` of the sublayers alone, and counts magnitudes, as for a stream of one number: after one step of SGD
    DeepNorm has moved by a quarter to a third of it at 3, 12 and 48 blocks, Post-Norm by two thirds of it at 3, and by
    more than it at 48. There every sublayer's own change is still within its part (about half of it), but the theorem
    also takes the layers above to pass any change on alike. DeepNorm's do. In an untrained deep Post-Norm all tokens
    have become one vector, and its layers amplify a change along the gradient 10 to 30 times as much as a random one.
    Source: Wang et al. 2022, arXiv:2203.00555, theorem 4.2; Post-Norm has α = 1.
    Raises ValueProblem for other rules, and for sublayers that are not two matrices.
    """
    stack, rule = stack_of(model), stack_of(model).connection
    if not isinstance(rule, DeepNorm | PostNorm):
        raise ValueProblem(
            "DeepNet's bound is for x ← LN(α x + F(x))",
            rule_name(model),
            "Post-Norm (α = 1) and DeepNorm are of that form; measure the others with `update_size`.",
        )
    old = copy.deepcopy(model)
    old.load_state_dict(before)
    pairs = [(_two_weights(F), _two_weights(G)) for F, G in zip(stack_of(old).sublayers, stack.sublayers)]
    v, w = np.array([[_scale(W) for W in first] for first, _ in pairs]).reshape(-1, 2).T
    changes = np.array([[np.linalg.norm(b - a) for a, b in zip(*pair)] for pair in pairs]).reshape(-1, 2)
    return UpdateBound(labels(model), v, w, np.linalg.norm(changes, axis=1), float(getattr(rule, "alpha", 1.0)))


def _two_weights(F: Any) -> tuple[np.ndarray, np.ndarray]:
    """(W_V, W_O) or (W_1, W_2), in float64."""
    return reader(F, "value").astype(np.float64), writer(F).astype(np.float64)


def _scale(W: np.ndarray) -> float:
    """rms(W) in units of Xavier's, √(2/(in + out))."""
    return float(np.sqrt(np.mean(W * W) * sum(W.shape) / 2))


# ---------------------------------------------------------------------------------------------------------- helpers


def group_of(name: str, parameter: Parameter) -> str:
    """Which of the groups a parameter belongs to, by its kind and its name in the model."""
    if parameter.kind == "norm":
        return "norms"
    parts = name.removeprefix("stack.").split(".")
    return parts[0] if parts[0] in GROUPS else "ends"


def stack_output(model: Any, inputs: Any) -> np.ndarray:
    """f: the stack's output, before any head, in float64."""
    found: list[np.ndarray] = []
    stack = stack_of(model)
    if stack is model:
        with no_grad():
            return model(as_input(inputs)).data.astype(np.float64)
    twin = copy.copy(model)
    twin.stack = lambda x, ctx=None: found.append((y := stack(x, ctx)).data) or y
    with no_grad():
        twin(as_input(inputs))
    return found[0].astype(np.float64)


def _size(change: np.ndarray) -> float:
    return float(np.mean(np.linalg.norm(change, axis=-1)) / np.sqrt(change.shape[-1]))
