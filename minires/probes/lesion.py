"""A trained network with parts left out or in another order: Veit's lesions, shuffles, and pruning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minires.messages import UnknownName, ValueProblem
from minires.probes.picture import curves
from minires.probes.running import cross_entropy, forward, rearranged, rule_name, stack_of, steps_of
from minires.probes.stream import contribution, similarity
from minires.tensor import Tensor

MEASURES = ("loss", "influence", "angle", "contribution")


@dataclass(frozen=True)
class Lesions:
    """loss: of the whole model. rise[k]: how much worse it is without step k, (steps,), in nats."""

    loss: float
    rise: np.ndarray

    def draw(self) -> Any:
        return curves({"rise": self.rise}, xlabel="step left out", ylabel="rise of the loss (nats)", title="Lesions")


@dataclass(frozen=True)
class Damage:
    """amount: steps deleted, or Kendall's τ of each order, (points,). losses: (points, draws), in nats."""

    kind: str
    amount: np.ndarray
    losses: np.ndarray
    whole: float

    def draw(self) -> Any:
        options: dict[str, Any] = dict(xlabel=self.kind, ylabel="loss (nats)", x=self.amount)
        return curves({"mean": self.losses.mean(1), "best": self.losses.min(1)}, title="Damage", **options)


@dataclass(frozen=True)
class Pruning:
    """order: the steps in the order in which they were removed. losses[n]: with n of them removed."""

    measure: str
    order: list[int]
    losses: np.ndarray

    def draw(self) -> Any:
        title = f"Pruned by {self.measure}"
        return curves({"loss": self.losses}, xlabel="steps removed", ylabel="loss (nats)", title=title)


def lesions(model: Any, inputs: Any, targets: Any) -> Lesions:
    """Leave out each step alone, the stream passing it unchanged.

    Raises ValueProblem for a model whose later parts need every earlier one (DenseFormer, value residual).
    """
    steps = list(range(steps_of(model)))
    whole = loss_of(model, inputs, targets, steps)
    rise = [loss_of(model, inputs, targets, [i for i in steps if i != k]) - whole for k in steps]
    return Lesions(whole, np.array(rise))


def delete_random(
    model: Any, inputs: Any, targets: Any, counts: Sequence[int], draws: int = 5, seed: int = 0
) -> Damage:
    """Leave out `counts` steps at random, `draws` times each. Errors as in `lesions`, and for impossible counts."""
    steps, rng = steps_of(model), np.random.default_rng(seed)
    if not len(counts) or min(counts) < 0 or max(counts) > steps:
        raise ValueProblem(
            f"one can leave out 0 to {steps} steps", f"counts={list(counts)}", "Count steps, not blocks."
        )
    kept = [[sorted(rng.permutation(steps)[n:].tolist()) for _ in range(draws)] for n in counts]
    losses = [[loss_of(model, inputs, targets, order) for order in orders] for orders in kept]
    whole = loss_of(model, inputs, targets, range(steps))
    return Damage("steps deleted", np.array(counts), np.array(losses), whole)


def shuffle(model: Any, inputs: Any, targets: Any, swaps: Sequence[int] = (1, 2, 4, 8), seed: int = 0) -> Damage:
    """Exchange random pairs of steps, and give Kendall's τ of what comes out (1: the old order, -1: reversed).

    Attention and feed-forward may change places; every step keeps its own norms and weights. Errors as in `lesions`.
    """
    rng, steps = np.random.default_rng(seed), steps_of(model)
    orders = []
    for n in swaps:
        order = list(range(steps))
        for _ in range(n if steps > 1 else 0):
            i, j = rng.choice(steps, 2, replace=False)
            order[i], order[j] = order[j], order[i]
        orders.append(order)
    losses = np.array([[loss_of(model, inputs, targets, order)] for order in orders])
    taus = np.array([kendall_tau(order) for order in orders])
    by_tau = np.argsort(-taus, kind="stable")
    whole = loss_of(model, inputs, targets, range(steps))
    return Damage("Kendall's τ of the order", taus[by_tau], losses[by_tau], whole)


def prune(model: Any, inputs: Any, targets: Any, measure: str = "influence", most: int | None = None) -> Pruning:
    """Remove steps one after the other, the least important first, and follow the loss.

    measure: "loss" (lesions), "influence" (block influence), "angle" (of the last token) or "contribution". Every
    one is computed once, on the whole model. most: how many to remove; all if left out. Raises UnknownName.
    """
    if measure not in MEASURES:
        raise UnknownName("measure", measure, MEASURES)
    order = np.argsort(_scores(model, inputs, targets, measure), kind="stable").tolist()[:most]
    kept = [[k for k in range(steps_of(model)) if k not in order[:n]] for n in range(len(order) + 1)]
    return Pruning(measure, order, np.array([loss_of(model, inputs, targets, steps) for steps in kept]))


def _scores(model: Any, inputs: Any, targets: Any, measure: str) -> np.ndarray:
    if measure == "loss":
        return lesions(model, inputs, targets).rise
    if measure == "contribution":
        return contribution(model, inputs).ratio
    found = similarity(model, inputs)
    return found.block_influence if measure == "influence" else np.diagonal(found.angular, 1)


def loss_of(model: Any, inputs: Any, targets: Any, order: Sequence[int]) -> float:
    """The loss with only these steps in this order."""
    _require_free_order(model)
    return cross_entropy(forward(rearranged(model, order), inputs).output, targets)


def _require_free_order(model: Any) -> None:
    stack = stack_of(model)
    lends = any(getattr(F, "value_weights", None) is not None for F in stack.sublayers)
    if lends or (hasattr(stack.connection, "alphas") and isinstance(stack.connection.open(_any_state(stack)), tuple)):
        what = "attention that reads the first sublayer's values" if lends else rule_name(model)
        raise ValueProblem(
            "leaving steps out needs a model in which every step can do without the others",
            f"{what}",
            "Its weights name earlier steps one by one: replace outputs instead, with `ablation`.",
        )


def _any_state(stack: Any) -> Tensor:
    return Tensor(np.zeros((1, 1, stack.connection.d)))


def kendall_tau(order: Sequence[int]) -> float:
    """(pairs in the old order - pairs in the wrong one) / all pairs; 1 for fewer than two."""
    ranks = np.asarray(order)
    signs = np.sign(ranks[None, :] - ranks[:, None])[np.triu_indices(len(ranks), 1)]
    return float(signs.mean()) if signs.size else 1.0
