"""Plain pictures for instruments: curves over depth, and maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

MARKS, DASHES = "osD^v<>P", ("-", "--", ":", "-.")


def curves(
    series: Mapping[str, Any], *, xlabel: str, ylabel: str, title: str = "", log: bool = False, x: Any = None
) -> Any:
    """A matplotlib Figure with one curve per entry; no two are told apart by colour alone."""
    import matplotlib.pyplot as plt

    from minires.style import style

    with style():
        figure, axes = plt.subplots(figsize=(6, 3.8))
        for i, (name, values) in enumerate(series.items()):
            values = np.asarray(values, dtype=float)
            at = np.arange(len(values)) if x is None else x
            shown = np.where(values > 0, values, np.nan) if log else values
            axes.plot(at, shown, ls=DASHES[i % 4], marker=MARKS[i % 8], ms=4, label=name)
        axes.set(xlabel=xlabel, ylabel=ylabel, title=title, yscale="log" if log else "linear")
        if len(series) > 1:
            axes.legend()
    return figure


def bars(names: Sequence[str], values: Any, *, ylabel: str, title: str) -> Any:
    """A matplotlib Figure with one bar per name."""
    import matplotlib.pyplot as plt

    from minires.style import style

    with style():
        figure, axes = plt.subplots(figsize=(max(4.5, 0.22 * len(names)), 3.8))
        axes.bar(range(len(names)), np.asarray(values, dtype=float))
        axes.set_xticks(range(len(names)), names, rotation=60 if len(names) > 6 else 0, fontsize=7)
        axes.set(ylabel=ylabel, title=title)
        axes.grid(False, axis="x")
    return figure


def heat(values: Any, *, xlabel: str, ylabel: str, title: str = "", label: str = "", signed: bool = False) -> Any:
    """A matplotlib Figure of a matrix. signed: zero is white, and both directions reach equally far."""
    import matplotlib.pyplot as plt

    from minires.style import style

    values = np.asarray(values, dtype=float)
    reach = np.nanmax(np.abs(values)) if values.size else 1.0
    scale: dict[str, Any] = dict(cmap="RdBu_r", vmin=-reach, vmax=reach) if signed else dict(cmap="viridis")
    with style():
        figure, axes = plt.subplots(figsize=(6, 4.4))
        image = axes.imshow(values, aspect="auto", **scale)
        axes.grid(False)
        axes.set(xlabel=xlabel, ylabel=ylabel, title=title)
        figure.colorbar(image, ax=axes, label=label)
    return figure
