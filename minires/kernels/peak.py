"""What this machine could do at best: multiply-adds per second and bytes per second, measured.

A kernel takes at least as long as its arithmetic at the peak rate, and at least as long as its bytes at the bandwidth
of the memory in which they lie. The larger of the two is the roof of the roofline picture (Williams, Waterman,
Patterson 2009).
"""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import types

from minires.kernels.jit import njit
from minires.kernels.vector import address, host_unit, make_panel

SIZES = tuple(2**p for p in range(14, 28))  # bytes of all arrays of one test: 16 KB (L1) to 128 MB (main memory)


@dataclass
class Peak:
    """What `measure_peak` found, one thread."""

    unit: str
    gflops: dict[str, float] = field(default_factory=dict)  # 'float32', 'float64' → 10⁹ operations per second
    sizes: np.ndarray = field(default_factory=lambda: np.array([], int))  # bytes that each bandwidth test touches
    copy: np.ndarray = field(default_factory=lambda: np.array([]))  # GB/s read and written by y = x
    triad: np.ndarray = field(default_factory=lambda: np.array([]))  # GB/s read and written by z = x + s·y

    def bandwidth(self, size: float) -> float:
        """GB/s for a working set of `size` bytes: the better of copy and triad, interpolated between measured sizes."""
        return float(np.interp(np.log2(size), np.log2(self.sizes), np.maximum(self.copy, self.triad)))

    def roof(self, flops: float, size: float, dtype: str = "float32") -> float:
        """The least seconds for `flops` operations on `size` bytes that are each moved once."""
        return max(flops / (self.gflops[dtype] * 1e9), size / (self.bandwidth(size) * 1e9))

    def __str__(self) -> str:
        rates = ", ".join(f"{rate:.0f} GFLOP/s in {dtype}" for dtype, rate in self.gflops.items())
        rows = [f"{s >> 10:>8} KB  {c:6.1f}  {t:6.1f}" for s, c, t in zip(self.sizes, self.copy, self.triad)]
        return "\n".join([f"{self.unit}, one thread: {rates}", "working set  copy   triad (GB/s)", *rows])


@functools.cache
def make_burn(real):
    """Multiply-adds on a tile in registers, again and again on the same numbers: nothing waits for memory."""
    unit = host_unit()
    rows, vectors = unit.rows, unit.vectors
    panel: Any = make_panel(unit, real)

    @njit
    def burn(steps, a, b, c):
        panel(vectors, rows, steps, address(a), 0, 0, 0, address(b), 0, address(c), 0, False)

    return burn, 2 * rows * vectors * unit.bytes // (real.bitwidth // 8)


@njit
def copy_once(x, y):
    for i in range(x.size):
        y[i] = x[i]


@njit
def copy(x, y, times):
    for _ in range(times):
        copy_once(x, y)
        copy_once(y, x)  # there and back: the same copy twice might be done once


@njit
def triad_once(x, y, z):
    for i in range(x.size):
        z[i] = x[i] + np.float32(0.5) * y[i]


@njit
def triad(x, y, z, times):
    for _ in range(times):
        triad_once(x, y, z)
        triad_once(y, z, x)


def measure_peak(seconds: float = 1.5, sizes: tuple[int, ...] = SIZES) -> Peak:
    """Measure for about `seconds`, all of it three times over: others can only slow us down, so the best counts."""
    slot = seconds / (2 + 2 * len(sizes)) / 3
    rounds = np.array([measure_once(sizes, slot) for _ in range(3)]).max(0)
    gflops = {"float32": float(rounds[0]), "float64": float(rounds[1])}
    copied, added = rounds[2:].reshape(2, len(sizes))
    return Peak(host_unit().name, gflops, np.array(sizes), copied, added)


def measure_once(sizes, slot: float) -> list[float]:
    """GFLOP/s in float32 and float64, then GB/s of copy and of triad for each size."""
    rates = [measure_burn(real, slot) for real in (types.float32, types.float64)]
    rates += [measure_stream(copy, 2, size, slot) for size in sizes]
    return rates + [measure_stream(triad, 3, size, slot) for size in sizes]


def measure_burn(real, slot: float) -> float:
    """GFLOP/s of multiply-adds."""
    burn, flops = make_burn(real)
    a, b, c = (np.full(64, 1e-9, real.name) for _ in range(3))
    return flops * 1e-9 / best_time(lambda steps: burn(steps, a, b, c), slot)


def measure_stream(kernel, count: int, size: int, slot: float) -> float:
    """GB/s of a kernel that goes twice through `count` arrays of together `size` bytes."""
    arrays = [np.zeros(size // count // 4, np.float32) for _ in range(count)]
    return 2 * sum(a.nbytes for a in arrays) * 1e-9 / best_time(lambda times: kernel(*arrays, times), slot)


def best_time(run, slot: float) -> float:
    """Seconds per repetition of `run(repetitions)`: the best of 8 runs that take about `slot` seconds together."""
    run(1)
    repetitions = 1
    while (taken := timed(run, repetitions)) < slot / 16:
        repetitions *= 2
    return min([taken, *(timed(run, repetitions) for _ in range(7))]) / repetitions


def timed(run, repetitions: int) -> float:
    start = time.perf_counter()
    run(repetitions)
    return time.perf_counter() - start


if __name__ == "__main__":
    print(measure_peak())
