"""A matrix product in seven steps, from three loops to the speed of the best libraries.

Every step has the same signature, passes the same test and changes one thing:

    naive      three loops, as in the definition
    reordered  the loops in the order in which memory lies
    tiled      blocks that stay in the cache
    registers  each number of c that is loaded takes part in eight steps
    packed     blocks copied into the order in which they are read
    simd       the inner loop in vector instructions (matmul.py, gemm.py, vector.py)
    threads    several cores

`minires.use(**minires.kernels.matmul.ENGINE)` makes the engine's `@` run on `simd`.

`python -m minires.kernels.ladder` measures the steps beside NumPy. On AVX2 (Zen 3, one thread, float32, n = 256) their
share of OpenBLAS's speed was: naive 0.01, reordered 0.37, tiled 0.33, registers 0.36, packed 0.39, simd 1.03; with
n = 1024: reordered 0.34, packed 0.47. The machine was busy, and runs differ by a tenth.

The counts in the docstrings are for n × n matrices and a cache line of 16 float32.
"""

from __future__ import annotations

import functools
import time

import numpy as np

from minires.kernels.checks import product_room
from minires.kernels.jit import njit
from minires.kernels.matmul import delivered, matmul_simd, matmul_threads

TILE_K, TILE_J = 64, 512  # a tile of b: 64 rows of 512 numbers, 128 KB in float32
STEPS = 8  # steps of k that share a load and a store of c


def rung(kernel):
    """A public function around a kernel that adds a · b to an array of zeros.

    Other layouts are copied (C: contiguous rows, W: writable), because numba compiles a kernel once for each layout.
    """

    def matmul(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        c = product_room(a, b, out)
        if not c.flags.c_contiguous:
            c = np.empty(c.shape, c.dtype)
        c[...] = 0
        kernel(np.require(a, requirements=["C", "W"]), np.require(b, requirements=["C", "W"]), c)
        return delivered(c, out)

    names = ("__name__", "__qualname__", "__doc__", "__module__")
    return functools.update_wrapper(matmul, kernel, assigned=names, updated=())


@rung
@njit
def matmul_naive(a, b, c):
    """(m, k) · (k, n) → (m, n), as written on paper: c_ij = Σ_p a_ip b_pj.

    The inner loop walks down a column of b: each step touches another cache line and uses one number of its 16. Nothing
    can be done with vectors, because neighbours in memory belong to different sums.
    """
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            total = c[i, j]
            for p in range(a.shape[1]):
                total += a[i, p] * b[p, j]
            c[i, j] = total


@rung
@njit
def matmul_reordered(a, b, c):
    """(m, k) · (k, n) → (m, n), with the loop over j innermost.

    New: only the order of the loops. Rows of b and c are now walked along memory, every number of a cache line is
    used, and the compiler turns the inner loop into vector instructions. But each row of c is read and written k times.
    """
    for i in range(c.shape[0]):
        for p in range(a.shape[1]):
            factor = a[i, p]
            for j in range(c.shape[1]):
                c[i, j] += factor * b[p, j]


# An unsigned index cannot be negative, and numba has to allow for negative ones (x[-1] is the last). Without `uintp`
# the loops from here on would test each index, and LLVM would give up on vectors.
@rung
@njit
def matmul_tiled(a, b, c):
    """(m, k) · (k, n) → (m, n), tile by tile of b.

    New: `matmul_reordered` reads all of b for each row of a. Here a tile of b is used for all rows before the next one
    is touched, so that it stays in the L2 cache. It helps once b is larger than the caches, and costs nothing before.
    """
    for p0 in range(0, a.shape[1], TILE_K):
        p1 = min(p0 + TILE_K, a.shape[1])
        for j0 in range(0, c.shape[1], TILE_J):
            n = min(TILE_J, c.shape[1] - j0)
            for i in range(c.shape[0]):
                for p in range(p0, p1):
                    factor = a[i, p]
                    for j in range(n):
                        c[i, np.uintp(j0 + j)] += factor * b[p, np.uintp(j0 + j)]


@njit
def add_1(c, i, j0, n, a, p, b, q, k0):
    """c[i, j0:j0+n] += a[i, p] · b[q, k0:k0+n]"""
    factor = a[i, p]
    for j in range(n):
        c[i, np.uintp(j0 + j)] += factor * b[q, np.uintp(k0 + j)]


@njit
def add_8(c, i, j0, n, a, p, b, q, k0):
    """c[i, j0:j0+n] += a[i, p:p+8] · b[q:q+8, k0:k0+n]"""
    a0, a1, a2, a3 = a[i, p], a[i, p + 1], a[i, p + 2], a[i, p + 3]
    a4, a5, a6, a7 = a[i, p + 4], a[i, p + 5], a[i, p + 6], a[i, p + 7]
    for j in range(n):
        k = np.uintp(k0 + j)
        four = a0 * b[q, k] + a1 * b[q + 1, k] + a2 * b[q + 2, k] + a3 * b[q + 3, k]
        more = a4 * b[q + 4, k] + a5 * b[q + 5, k] + a6 * b[q + 6, k] + a7 * b[q + 7, k]
        c[i, np.uintp(j0 + j)] += four + more


@njit
def add_tile(c, i, j0, n, a, p0, p1, b, q0, k0):
    """c[i, j0:j0+n] += a[i, p0:p1] · b[q0:q0+p1-p0, k0:k0+n]"""
    full = p1 - (p1 - p0) % STEPS
    for p in range(p0, full, STEPS):
        add_8(c, i, j0, n, a, p, b, q0 + p - p0, k0)
    for p in range(full, p1):
        add_1(c, i, j0, n, a, p, b, q0 + p - p0, k0)


@rung
@njit
def matmul_registers(a, b, c):
    """(m, k) · (k, n) → (m, n), by 8 steps of k at a time.

    New: until now each multiply-add loaded a number of b and one of c and stored one: memory instructions were the
    limit. With 8 numbers of a in registers, 8 multiply-adds share one load and one store of c.
    """
    for p0 in range(0, a.shape[1], TILE_K):
        p1 = min(p0 + TILE_K, a.shape[1])
        for j0 in range(0, c.shape[1], TILE_J):
            for i in range(c.shape[0]):
                add_tile(c, i, j0, min(TILE_J, c.shape[1] - j0), a, p0, p1, b, p0, j0)


@rung
@njit
def matmul_packed(a, b, c):
    """(m, k) · (k, n) → (m, n), with each tile of b copied before it is used.

    New: rows of a tile are far apart in b, often by a power of two, and then compete for the same places in the
    cache; each row is on a memory page of its own. The copy lies in one piece, and every row of a reads it again.
    """
    tile = np.empty((TILE_K, TILE_J), b.dtype)
    for p0 in range(0, a.shape[1], TILE_K):
        p1 = min(p0 + TILE_K, a.shape[1])
        for j0 in range(0, c.shape[1], TILE_J):
            n = min(TILE_J, c.shape[1] - j0)
            for p in range(p0, p1):
                for j in range(n):
                    tile[p - p0, j] = b[p, np.uintp(j0 + j)]
            for i in range(c.shape[0]):
                add_tile(c, i, j0, n, a, p0, p1, tile, 0, 0)


LADDER = {
    "naive": matmul_naive,
    "reordered": matmul_reordered,
    "tiled": matmul_tiled,
    "registers": matmul_registers,
    "packed": matmul_packed,
    "simd": matmul_simd,
    "threads": matmul_threads,
}


def main() -> None:
    """Print GFLOP/s of every rung beside NumPy, one thread except for the last rung, medians of interleaved runs."""
    from threadpoolctl import threadpool_limits

    steps = {**LADDER, "numpy": np.matmul}
    print("     n  " + "".join(f"{name:>11}" for name in steps))
    with threadpool_limits(1):
        for n in (64, 128, 255, 512, 1024):
            rates = measure(steps, n)
            print(f"{n:>6}  " + "".join(f"{rates[name]:>11.1f}" for name in steps))


def measure(steps: dict, n: int, rounds: int = 7) -> dict[str, float]:
    """GFLOP/s of each product of two float32 n × n matrices: the median of `rounds`, in each of which all steps run."""
    a, b = np.random.default_rng(0).standard_normal((2, n, n)).astype(np.float32)
    out, repeat = np.empty_like(a), max(1, 2_000_000 // n**3)
    times = {name: [] for name in steps}
    for _ in range(rounds + 1):  # the first one compiles
        for name, step in steps.items():
            start = time.perf_counter()
            for _ in range(repeat):
                step(a, b, out=out)
            times[name].append((time.perf_counter() - start) / repeat)
    return {name: 2e-9 * n**3 / float(np.median(t[1:])) for name, t in times.items()}


if __name__ == "__main__":
    main()
