"""How far one training step moves what the model computes, and which of its parts did it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from minires.probes.picture import bars
from minires.probes.running import as_input, stack_of
from minires.tensor import no_grad

GROUPS = ("sublayers", "connection", "ends")


@dataclass(frozen=True)
class Update:
    """‖f(x, θ_new) - f(x, θ_old)‖/√d, mean over tokens, f: what the stack returns.

    total: all parameters. by_group: only the sublayers' weights, only the connection's own (norms, gates), only what is
    in front of the stack (embeddings); the parts need not add up.
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
    twin = copy.deepcopy(model)

    def moved(group: str | None) -> float:
        kept = {name: before[name] if group in (None, group_of(name)) else now[name] for name in now}
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
            if group_of(name) == "sublayers" and p.kind == "weight":
                p.data[...] += size * np.std(p.data) * rng.standard_normal(p.shape)
        variances.append(np.var(stack_output(twin, inputs) - features))
    return float(np.mean(variances) / size**2)


def group_of(name: str) -> str:
    """Which of the three groups a parameter belongs to, by its name in the model."""
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
