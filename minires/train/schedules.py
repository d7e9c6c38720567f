"""Learning-rate schedules: functions from the step (counted from 0) to a factor on the learning rate.

The largest factor is 1. A schedule knows nothing but the step, so resuming needs only the step's number.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from minires.messages import UnknownName, ValueProblem, shown

Schedule = Callable[[int], float]


def constant() -> Schedule:
    """1 at every step."""
    return lambda step: 1.0


def warmup(steps: int) -> Schedule:
    """Up in a straight line, 1/steps at the first step and 1 at step number `steps - 1`; then 1."""
    _check(warmup=steps)
    return lambda step: min(1.0, (step + 1) / max(steps, 1))


def warmup_linear(warmup_steps: int, steps: int, floor: float = 0.0) -> Schedule:
    """Warm up, then down in a straight line to `floor` at the last of all `steps`."""
    return _then(warmup_steps, steps, floor, lambda share: 1 - share)


def warmup_cosine(warmup_steps: int, steps: int, floor: float = 0.1) -> Schedule:
    """Warm up, then down along half a cosine to `floor`. Source: Loshchilov & Hutter 2017, arXiv:1608.03983, eq. 5."""
    return _then(warmup_steps, steps, floor, lambda share: (1 + math.cos(math.pi * share)) / 2)


def warmup_inverse_sqrt(warmup_steps: int) -> Schedule:
    """Warm up, then 1/√step, the schedule of the first Transformer. Source: Vaswani et al. 2017, eq. 3."""
    up = warmup(warmup_steps)
    return lambda step: min(up(step), math.sqrt(max(warmup_steps, 1) / (step + 1)))


def _then(warmup_steps: int, steps: int, floor: float, fall: Callable[[float], float]) -> Schedule:
    """Warm up to 1, then fall(0) = 1 … fall(1) = 0, stretched to end at `floor`."""
    _check(warmup=warmup_steps, steps=steps)
    if not 0 <= floor <= 1:
        raise ValueProblem("floor must be in [0, 1]", shown(floor), "It is a share of the highest learning rate.")
    if warmup_steps > steps:
        given = f"{warmup_steps} steps of warm-up and {steps} in all"
        raise ValueProblem("warm-up must fit into the steps", given, "Use about a tenth of the steps.")
    up, length = warmup(warmup_steps), max(steps - 1 - warmup_steps, 1)

    def factor(step: int) -> float:
        share = min(max(step - warmup_steps, 0) / length, 1.0)
        return min(up(step), floor + (1 - floor) * fall(share))

    return factor


SCHEDULES: dict[str, Callable[[int, int], Schedule]] = {
    "constant": lambda warmup_steps, steps: warmup(warmup_steps),
    "linear": warmup_linear,
    "cosine": warmup_cosine,
    "inverse_sqrt": lambda warmup_steps, steps: warmup_inverse_sqrt(warmup_steps),
}


def get_schedule(name: str, warmup_steps: int, steps: int) -> Schedule:
    """A schedule by name: constant, linear, cosine or inverse_sqrt, all after a warm-up. Raises UnknownName."""
    if name not in SCHEDULES:
        raise UnknownName("schedule", name, SCHEDULES)
    return SCHEDULES[name](warmup_steps, steps)


def _check(**counts: int) -> None:
    for name, count in counts.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            hint = "A share of the steps is written int(0.1 * steps)."
            raise ValueProblem(f"{name} must be a whole number, at least 0", shown(count), hint)
