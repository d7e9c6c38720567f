"""What this package wants to be, and what was measured: geometric means over the rows of a group."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from minires.kernels.vector import host_unit

Rows = list[dict[str, Any]]


class Goal(NamedTuple):
    """`measure(rows)` → a number, or None where the rows do not tell; at least `bar`, or at most with `most`."""

    group: str
    what: str
    bar: float
    measure: Callable[[Rows], float | None]
    most: bool = False


def goals(groups: dict[str, Rows]) -> Rows:
    """One row per goal of the groups that ran."""
    return [judged(goal, groups[goal.group]) for goal in all_goals() if goal.group in groups]


def judged(goal: Goal, rows: Rows) -> dict[str, Any]:
    """The goal with its number and whether it is reached; None where nothing could be measured."""
    value = goal.measure(rows)
    reached = None if value is None else bool(value <= goal.bar if goal.most else value >= goal.bar)
    sign = "≤" if goal.most else "≥"
    bar = f"{sign} {goal.bar:g}"
    return {"group": goal.group, "goal": goal.what, "bar": bar, "measured": value, "reached": reached}


def values(rows: Rows, column: str, work: str = "", least_width: int = 0) -> list[float]:
    """The numbers of a column in the rows whose work begins with `work` and whose d is large enough."""
    wanted = (row for row in rows if row["work"].startswith(work) and width(row) >= least_width)
    return [float(row[column]) for row in wanted if row.get(column) is not None]


def width(row: dict[str, Any]) -> int:
    """d, the third number of a training step's size."""
    return int(row["size"].strip("()").split(",")[2]) if "size" in row else 0


def geometric_mean(numbers: Iterable[float]) -> float | None:
    found = list(numbers)
    return float(np.exp(np.mean(np.log(found)))) if found else None


def mean_of(column: str, work: str = "", least_width: int = 0) -> Callable[[Rows], float | None]:
    return lambda rows: geometric_mean(values(rows, column, work, least_width))


def smallest(column: str, work: str = "", least_width: int = 0) -> Callable[[Rows], float | None]:
    return lambda rows: min(values(rows, column, work, least_width), default=None)


def largest(column: str, work: str = "") -> Callable[[Rows], float | None]:
    return lambda rows: max(values(rows, column, work), default=None)


def all_goals() -> list[Goal]:
    """Ratios are other's time over ours: above 1 we are faster."""
    kernels = [Goal("kernels", f"{work}: NumPy's time / ours", 3, mean_of("NumPy", work)) for work in WORKS]
    kernels += [Goal("kernels", f"{work}: PyTorch's time / ours", 1, mean_of("PyTorch", work)) for work in WORKS]
    blas = 0.9 if "512" in host_unit().name else 0.75
    return [
        Goal("training", "PyTorch's time / ours, geometric mean", 1.6, mean_of("PyTorch")),
        Goal("training", "PyTorch's time / ours, smallest", 1, smallest("PyTorch")),
        Goal("training", "JAX's time / ours, smallest", 1, smallest("JAX")),
        Goal("training", "PyTorch's loss curves off ours by, largest", 1e-4, largest("PyTorch's loss off by"), True),
        Goal("training", "JAX's loss curves off ours by, largest", 1e-4, largest("JAX's loss off by"), True),
        Goal("threads", "PyTorch's time on two threads / ours on two", 1.3, mean_of("PyTorch")),
        Goal("threads", "PyTorch's time on one thread / ours on two", 1.3, mean_of("PyTorch, one thread")),
        Goal("threads", "our time on one thread / on two, d ≥ 128", 1.6, mean_of("one thread", "training", 128)),
        Goal("threads", "the same while others use the cores, smallest", 0.9, smallest("one thread", "beside")),
        Goal("kernels", "NumPy's time / ours, geometric mean", 3, mean_of("NumPy")),
        Goal("kernels", "PyTorch's time / ours, geometric mean", 1, mean_of("PyTorch")),
        *kernels,
        Goal("attention", "PyTorch's time / ours, geometric mean", 1.2, mean_of("PyTorch")),
        Goal("attention", "memory of T = 4096 / of T = 2048 (linear: 2)", 2.2, smallest("twice T"), True),
        Goal("matmul", "OpenBLAS's time / ours, geometric mean", blas, mean_of("OpenBLAS")),
        Goal("overhead", "µs per operation beyond NumPy in the best round, largest", 6, overhead_most, True),
        Goal("overhead", "autograd's time / ours, chain of adds", 6, mean_of("autograd")),
        Goal("start", "import minires / import numpy", 2, mean_of("times numpy"), True),
        Goal("start", "ms until the first kernel from the cache", 1000, mean_of("ms", "first kernel"), True),
    ]


WORKS = ("softmax", "layernorm", "gelu", "cross_entropy", "adamw")


def overhead_most(rows: Rows) -> float | None:
    return max((row["best µs"] for row in rows if row["work"].endswith("overhead")), default=None)
