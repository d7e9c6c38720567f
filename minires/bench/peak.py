"""The roofs: multiply-adds per second in registers, and bytes per second by where they lie."""

from __future__ import annotations

import functools
from typing import Any

from minires.kernels.peak import Peak, measure_peak


@functools.cache
def roofs(quick: bool) -> Peak:
    """This machine's peak, measured once per process."""
    return measure_peak(0.5 if quick else 1.5)


def peak(quick: bool) -> list[dict[str, Any]]:
    """One row for each rate of multiply-adds, then one for each size of a working set."""
    found = roofs(quick)
    rates = [{"what": f"multiply-adds in {dtype}", "GFLOP/s": rate} for dtype, rate in found.gflops.items()]
    streams = zip(found.sizes, found.copy, found.triad)
    return rates + [
        {"what": f"streams in {size >> 10} KB", "bytes": int(size), "copy GB/s": float(c), "triad GB/s": float(t)}
        for size, c, t in streams
    ]
