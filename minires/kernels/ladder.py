"""A matrix product in seven steps, from three loops to the speed of the best libraries.

Every step has the same signature, passes the same test and changes one thing:

    naive      three loops, as in the definition
    reordered  the loops in the order in which memory lies
    tiled      blocks that stay in the cache
    registers  each number of c that is loaded takes part in eight steps
    packed     blocks copied into the order in which they are read
    simd       the inner loop in vector instructions (matmul.py, gemm.py, vector.py)
    threads    several cores

`python -m minires.kernels.ladder` measures the steps beside NumPy.

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
        kernel(np.require(a, requirements="CW"), np.require(b, requirements="CW"), c)
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


@rung
@njit
def matmul_tiled(a, b, c):
    """(m, k) · (k, n) → (m, n), tile by tile of b.

    New: `matmul_reordered` reads all of b for each row of a. Here a tile of b is used for all rows before the next
    one is touched, so that it stays in the L2 cache. It helps once b is larger than that cache, and costs nothing
    before.
    """
    for p0 in range(0, a.shape[1], TILE_K):
        for j0 in range(0, c.shape[1], TILE_J):
            for i in range(c.shape[0]):
                row_c = c[i, j0 : j0 + TILE_J]
                for p in range(p0, min(p0 + TILE_K, a.shape[1])):
                    add_rows_1(row_c, a, i, p, b, p, j0)


# A slice such as c[i, j0:j1] costs little, and its index j starts at 0: with c[i, j] and j from j0 on, numba has to
# allow for negative indices, and LLVM gives up on vectors.
@njit
def add_rows_1(row_c, a, i, p, b, at, j0):
    """row_c += a[i, p] · b[at, j0:…]"""
    factor, row = a[i, p], b[at, j0 : j0 + row_c.size]
    for j in range(row_c.size):
        row_c[j] += factor * row[j]


@njit
def add_rows_8(row_c, a, i, p, b, at, j0):
    """row_c += a[i, p:p+8] · b[at:at+8, j0:…]"""
    j1 = j0 + row_c.size
    a0, a1, a2, a3, a4, a5, a6, a7 = (
        a[i, p], a[i, p + 1], a[i, p + 2], a[i, p + 3], a[i, p + 4], a[i, p + 5], a[i, p + 6], a[i, p + 7],
    )  # fmt: skip
    b0, b1, b2, b3 = b[at, j0:j1], b[at + 1, j0:j1], b[at + 2, j0:j1], b[at + 3, j0:j1]
    b4, b5, b6, b7 = b[at + 4, j0:j1], b[at + 5, j0:j1], b[at + 6, j0:j1], b[at + 7, j0:j1]
    for j in range(row_c.size):
        first = a0 * b0[j] + a1 * b1[j] + a2 * b2[j] + a3 * b3[j]
        row_c[j] += first + (a4 * b4[j] + a5 * b5[j] + a6 * b6[j] + a7 * b7[j])


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
                add_tile(c[i, j0 : j0 + TILE_J], a, i, p0, p1, b, p0, j0)


@njit
def add_tile(row_c, a, i, p0, p1, b, at, j0):
    """row_c += a[i, p0:p1] · b[at:…, j0:…]"""
    full = p1 - (p1 - p0) % STEPS
    for p in range(p0, full, STEPS):
        add_rows_8(row_c, a, i, p, b, at + p - p0, j0)
    for p in range(full, p1):
        add_rows_1(row_c, a, i, p, b, at + p - p0, j0)


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
            for p in range(p0, p1):
                copy_row(tile[p - p0], b[p, j0 : j0 + TILE_J])
            for i in range(c.shape[0]):
                add_tile(c[i, j0 : j0 + TILE_J], a, i, p0, p1, tile, 0, 0)


@njit
def copy_row(to, row):
    for j in range(row.size):
        to[j] = row[j]


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
