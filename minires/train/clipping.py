"""Clipping by global norm."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from minires.backend import has_twin
from minires.messages import ValueProblem, shown
from minires.nn import Parameter


@has_twin("optim")
def sum_of_squares(g: np.ndarray) -> float:
    """Σ g² over all entries; NaN or inf if an entry is. A sum that float32 holds badly is taken in float64."""
    flat = g.reshape(-1)
    with np.errstate(over="ignore"):
        total = float(flat @ flat)
        if not 1e-30 < total < math.inf:  # squares of float32 overflow at 1.8e19 and vanish at 1e-23
            total = float(np.square(flat, dtype=np.float64).sum())
    return total


def global_norm(arrays: Iterable[np.ndarray | None]) -> float:
    """√ of the sum of all squares of all entries; None counts as zeros. NaN or inf if an entry is."""
    return math.hypot(*[math.sqrt(sum_of_squares(a)) for a in arrays if a is not None])


def clip_gradients(gradients: Sequence[np.ndarray | None], max_norm: float | None) -> float:
    """Scale all gradients together, in place, so that their global norm is at most max_norm; return the norm before.

    The direction of the step stays what it was. None for max_norm only measures.
    Raises ValueProblem if max_norm is not above 0, or if a gradient holds NaN or infinity.
    Source: Pascanu et al. 2013, arXiv:1211.5063, algorithm 1.
    """
    check_max_norm(max_norm)
    norm = global_norm(gradients)
    if not math.isfinite(norm):
        raise _not_finite(gradients)
    scale_down(gradients, norm, max_norm)
    return norm


def scale_down(gradients: Sequence[np.ndarray | None], norm: float, max_norm: float | None) -> bool:
    """Multiply all gradients by max_norm/norm, in place, if their global `norm` is larger; say whether it was."""
    if max_norm is None or norm <= max_norm:
        return False
    for g in gradients:
        if g is not None:
            np.multiply(g, max_norm / norm, out=g)
    return True


def clip_grad_norm(parameters: Iterable[Parameter], max_norm: float | None) -> float:
    """`clip_gradients` on the parameters' `.grad`."""
    return clip_gradients([p.grad for p in parameters], max_norm)


def check_max_norm(max_norm: float | None) -> None:
    if max_norm is not None and not max_norm > 0:
        raise ValueProblem("the largest norm must be above 0", shown(max_norm), "1.0 is usual; None does not clip.")


def _not_finite(gradients: Sequence[np.ndarray | None]) -> ValueProblem:
    bad = [i for i, g in enumerate(gradients) if g is not None and not np.isfinite(g).all()]
    return ValueProblem(
        "gradients must be finite",
        f"NaN or infinity in {len(bad)} of {len(gradients)} of them, first in number {bad[0] if bad else '?'}",
        "The loss exploded, or log, sqrt or a division met 0: lower the learning rate, warm up longer or clip.",
    )
