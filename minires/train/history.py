"""What a training run leaves behind, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

WINDOW = 50
TOLERANCE = 6.0


@dataclass
class History:
    """One entry per step in `losses` (nats), `grad_norms` (before clipping), `learning_rates` and `clipped`.

    evaluations: [steps done, value] pairs. seconds: time in the loop. interrupted: stopped by Ctrl-C.
    """

    losses: list[float] = field(default_factory=list)
    grad_norms: list[float] = field(default_factory=list)
    learning_rates: list[float] = field(default_factory=list)
    clipped: list[bool] = field(default_factory=list)
    evaluations: list[list[float]] = field(default_factory=list)
    seconds: float = 0.0
    interrupted: bool = False

    def record(self, loss: float, grad_norm: float, learning_rate: float, clipped: bool) -> None:
        """One more step."""
        self.losses.append(loss)
        self.grad_norms.append(grad_norm)
        self.learning_rates.append(learning_rate)
        self.clipped.append(clipped)

    @property
    def steps(self) -> int:
        return len(self.losses)

    @property
    def clip_fraction(self) -> float:
        """The share of steps that were clipped."""
        return sum(self.clipped) / len(self.clipped) if self.clipped else 0.0

    @property
    def spikes(self) -> list[int]:
        """Steps (from 0) whose loss or gradient norm jumped; see `find_spikes`."""
        return sorted({*find_spikes(self.losses), *find_spikes(self.grad_norms)})

    def to_dict(self) -> dict[str, Any]:
        """Numbers, strings and lists only: ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> History:
        return cls(**data)


def find_spikes(values: Sequence[float], window: int = WINDOW, k: float = TOLERANCE) -> list[int]:
    """Places t where value_t > median + k·MAD, both over the `window` values before t.

    MAD is the median distance from the median, which a few outliers cannot move. The first `window` values are never
    spikes: a falling curve has no level yet.
    """
    series = np.asarray(values, dtype=np.float64)
    if len(series) <= window:
        return []
    before = np.lib.stride_tricks.sliding_window_view(series, window)[:-1]  # (n - window, window)
    median = np.median(before, axis=1)
    mad = np.median(np.abs(before - median[:, None]), axis=1)
    return (np.flatnonzero(series[window:] > median + k * mad) + window).tolist()
