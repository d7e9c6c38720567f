"""How much of each state is whose: every residual state as a sum of what the sublayers wrote."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from minires.messages import ValueProblem
from minires.nn.layers import LayerNorm, RMSNorm
from minires.probes.picture import heat
from minires.probes.running import enter, forward, frozen_norm, norm_of, require_one_stream, rule_name, stack_of
from minires.tensor import Tensor, no_grad


@dataclass(frozen=True)
class Dependency:
    """shares[i, j] = a_ij: size of what step j wrote (j = 0: x_0) within state x_i, relative to x_i; 0 for j > i.

    Sizes are root-mean-square standard deviations over tokens. For writes that do not overlap Σ_j a_ij² = 1.
    """

    shares: np.ndarray

    @property
    def own(self) -> np.ndarray:
        """a_ii, (steps,): how much of x_i is made by the branch that has just joined. About 1/√i in Pre-Norm."""
        return np.diagonal(self.shares)[1:]

    @property
    def amplification(self) -> float:
        """Σ_i a_ii², to which the change of the output is proportional when every branch is disturbed alike."""
        return float(np.sum(self.own**2))

    def draw(self) -> Any:
        title = f"Layer dependency (Σ a_ii² = {self.amplification:.3g})"
        return heat(self.shares, xlabel="written by step j (0: input)", ylabel="state i", label="a_ij", title=title)


def layer_dependency(model: Any, inputs: Any) -> Dependency:
    """Admin's layer dependency: x̂_i = Σ_{j≤i} a_ij f̂_j, with x̂ and f̂ the state and the writes at unit size.

    Every norm keeps the scale that it has in this pass, so that it is linear, and each write is followed through the
    skip path from the step that made it to the last state. Admin's theorem 2: Var[f(x, W) - f(x, W + δ)] ≈ C Σ_i a_ii²,
    O(N) for Post-Norm and O(log N) for Pre-Norm; `amplification` measures the left side.
    Source: Liu et al. 2020, arXiv:2004.08249, sections 4.1-4.2.
    Raises ValueProblem for rules with several streams, and for those whose skip depends on the stream in another way.
    """
    x, _ = enter(model, inputs)
    require_one_stream(model, x, "layer dependency")
    run, stack = forward(model, inputs), stack_of(model)
    rule, arity = _Frozen.within(stack.connection), stack.connection.arity
    parts, shares = np.array([run.states[0], 0 * run.states[0]], np.float64), [[1.0]]  # last: norms' biases, gates
    for step, state in enumerate(run.states[1:]):
        k = step * arity
        parts = _joined(rule, stack.sites[k], parts, run.states[step], run.written[k : k + arity])
        if norm_of(parts.sum(0) - state, None) > 1e-3 * norm_of(state, None):
            raise _not_linear(model)
        shares.append([_size(part) / max(_size(state), 1e-300) for part in parts[:-1]])
    steps = len(shares)
    return Dependency(np.array([row + [0.0] * (steps - len(row)) for row in shares]))


def _joined(rule: Any, site: Any, parts: np.ndarray, x: np.ndarray, outputs: list[np.ndarray]) -> np.ndarray:
    """The parts of x_{l+1} from those of x_l, (J, B, T, d): all that was there, what is written now, and the rest."""

    def stepped(stream: np.ndarray, written: list[np.ndarray]) -> np.ndarray:
        branches: list[Callable] = [lambda h, f=f: Tensor(np.broadcast_to(f, h.shape).astype(float)) for f in written]
        return rule.step(Tensor(stream.astype(float)), site, *branches).data

    with no_grad():
        stepped(x, outputs)  # here every norm notes its scale
        nothing = [np.zeros_like(f) for f in outputs]
        rest = stepped(0 * x, nothing)
        kept = stepped(parts, nothing) - rest
        written = stepped(0 * x, outputs) - rest
    return np.concatenate([kept[:-1], [written], [kept[-1] + rest]])


class _Frozen:
    """A norm that works as usual the first time, and from then on with the scale that it had."""

    def __init__(self, norm: Any):
        self.norm, self.fixed = norm, None

    @classmethod
    def within(cls, connection: Any) -> Any:
        """A shallow copy of the connection in which every norm is frozen by its first use."""
        twin = copy.copy(connection)
        for name, value in vars(connection).items():
            items = value if isinstance(value, list) else [value]
            if items and all(isinstance(item, LayerNorm | RMSNorm) for item in items):
                setattr(twin, name, [cls(item) for item in items] if isinstance(value, list) else cls(value))
        return twin

    def __call__(self, x: Tensor) -> Tensor:
        if self.fixed is None:
            self.fixed = frozen_norm(self.norm, x.data)
        return Tensor(self.fixed.linear(x.data) + self.fixed.beta)


def _size(x: np.ndarray) -> float:
    """√ of the mean variance within tokens."""
    return float(np.sqrt(np.mean(np.var(x, axis=-1))))


def _not_linear(model: Any) -> ValueProblem:
    return ValueProblem(
        "layer dependency needs a rule that is linear once the scales of its norms are fixed",
        rule_name(model),
        "Here a gate (Highway) or a tanh (DyT) on the skip depends on the stream, so a state is no sum of writes.",
    )
