"""Where the time of a training step goes: the part of each kind of kernel, and of Python between them."""

from __future__ import annotations

import cProfile
import pstats
from typing import Any

from minires.bench.step_ours import batches, build, our_step
from minires.bench.training import SIZES
from minires.data import CharCorpus, hamlet

# The file of the function in which the time was spent → what it does. All else is Python and NumPy.
PARTS = {
    "kernels/linear.py": "products: forward and dX",
    "kernels/gemm.py": "products: dW",
    "kernels/attention.py": "attention",
    "kernels/norms.py": "norms",
    "kernels/loss.py": "loss",
    "kernels/optim.py": "optimiser",
}
REST = "Python and NumPy"
STEPS, QUICK_STEPS, WARM = 20, 4, 3


def profile(quick: bool) -> list[dict[str, Any]]:
    """A row per size: percent of the time in each part. The profiler itself makes Python's part look larger."""
    return [parts(size, QUICK_STEPS if quick else STEPS) for size in SIZES[: 2 if quick else None]]


def parts(size: Any, steps: int) -> dict[str, Any]:
    """Percent of each part over some steps of one model."""
    corpus = CharCorpus(hamlet())
    step, pairs = our_step(build(size, corpus)), batches(size, corpus, WARM + steps)
    for x, y in pairs[:WARM]:
        step(x, y)
    with cProfile.Profile() as profiler:
        for x, y in pairs[WARM:]:
            step(x, y)
    spent = dict.fromkeys([*PARTS.values(), REST], 0.0)
    for (file, _, _), (_, _, own, _, _) in pstats.Stats(profiler).stats.items():  # type: ignore[attr-defined]
        spent[part_of(file)] += own
    return {"work": "profile", "size": str(tuple(size))} | {k: 100 * v / sum(spent.values()) for k, v in spent.items()}


def part_of(file: str) -> str:
    """The part to which a function in this file belongs."""
    return next((part for end, part in PARTS.items() if file.replace("\\", "/").endswith(end)), REST)
