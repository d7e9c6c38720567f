"""Shuffled minibatches of paired arrays."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from minires.data._checks import finite, generator, whole
from minires.messages import ShapeError, ValueProblem


def minibatches(
    x: np.ndarray, y: np.ndarray, batch_size: int, rng: np.random.Generator, drop_last: bool = False
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """One pass over the pairs (x[i], y[i]) in random order, `batch_size` of them at a time.

    x: (n, …) and y: (n, …). Yields copies of shapes (b, …), (b, …); b = batch_size except for the last piece, which
    holds the rest (`drop_last=True` leaves it out). The order is drawn from `rng`, anew at each call.

    Raises at the call, not at the first piece: ShapeError when the lengths differ, ValueProblem when there is no
    example, an example is NaN or infinite, or nothing would be yielded; DtypeError for an `rng` that is no Generator.
    """
    x, y = np.asarray(x), np.asarray(y)
    _check_pairs(x, y)
    most = len(x) if drop_last else None
    size = whole("batch_size", batch_size, 1, most, "With drop_last=True a batch larger than the data yields nothing.")
    order = generator(rng).permutation(len(x))
    end = len(x) - len(x) % size if drop_last else len(x)
    return ((x[order[i : i + size]], y[order[i : i + size]]) for i in range(0, end, size))


def _check_pairs(x: np.ndarray, y: np.ndarray) -> None:
    if x.ndim == 0 or y.ndim == 0 or len(x) != len(y):
        raise ShapeError(
            "x and y must hold one entry per example, equally many",
            f"shapes {x.shape} and {y.shape}",
            "Was one of them split or filtered without the other?",
        )
    if x.size == 0:
        raise ValueProblem(
            "there must be at least one example", f"x of shape {x.shape}", "Did a filter or a split leave none?"
        )
    finite([("x", x), ("y", y)])
