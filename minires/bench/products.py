"""The top rung of the matmul ladder beside OpenBLAS, which is what np.matmul calls; one thread, float32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minires.bench.peak import roofs
from minires.bench.timing import side_by_side
from minires.kernels.matmul import matmul_simd

SQUARES = (64, 96, 127, 128, 255, 256, 384, 511, 512, 1024, 2048)
OTHERS = ((333, 257, 129), (1000, 65, 999), (4096, 64, 64), (2048, 256, 64), (64, 2048, 64), (16, 1024, 1024))
TURNED = ((128, 128, 128), (256, 256, 256), (333, 257, 129), (512, 512, 512), (64, 2048, 256))


def matmul(quick: bool) -> list[dict[str, Any]]:
    """A row per shape and layout: m × k times k × n."""
    return [row(*case, quick) for case in cases(quick)]


def cases(quick: bool) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """Which of the factors is given as a transposed view, and the shape (m, k, n)."""
    largest = 512 if quick else max(SQUARES)
    yield from (("a b", (n, n, n)) for n in SQUARES if n <= largest)
    yield from (("a b", shape) for shape in OTHERS[: 2 if quick else None])
    for shape in TURNED[: 2 if quick else None]:
        yield from ((layout, shape) for layout in ("aᵀ b", "a bᵀ", "aᵀ bᵀ"))


def row(layout: str, shape: tuple[int, int, int], quick: bool) -> dict[str, Any]:
    """Speed, share of the peak, and OpenBLAS's time relative to ours."""
    a, b = factors(layout, *shape)
    out = np.empty((shape[0], shape[2]), np.float32)
    works = {"minires": lambda: matmul_simd(a, b, out), "OpenBLAS": lambda: np.matmul(a, b, out=out)}
    times = side_by_side(works, 0.1 if quick else 0.25)
    flops, size = 2 * int(np.prod(shape)), a.nbytes + b.nbytes + out.nbytes
    seconds = times.median("minires")
    return {
        "work": layout, "shape": "×".join(map(str, shape)), "µs": seconds * 1e6, "flops": flops, "bytes": size,
        "GFLOP/s": flops / seconds * 1e-9, "share of roof": roofs(quick).roof(flops, size) / seconds,
        **times.ratios("minires"),
    }  # fmt: skip


def factors(layout: str, m: int, k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """a (m, k) and b (k, n), as transposed views where the layout says so."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((k, m)).T if "aᵀ" in layout else rng.standard_normal((m, k))
    b = rng.standard_normal((n, k)).T if "bᵀ" in layout else rng.standard_normal((k, n))
    return a.astype(np.float32, order="K"), b.astype(np.float32, order="K")
