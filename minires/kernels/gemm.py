"""The top of the matmul ladder: packed panels around an explicit vector micro-kernel, on one thread or several.

The plan is Goto's (Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication"):

    for a slice of k (KC):                     one slice of B's columns fills L1
        for a slice of n (NC):                 B's block, packed into panels of NR columns, stays in L3
            for a slice of m (MC):             A's block, packed into panels of MR rows, stays in L2
                for each panel of B, for each panel of A: the micro-kernel, whose tile of C stays in registers

Packing reads a block once and writes it in the order in which the micro-kernel wants it. For small matrices that
costs more than it saves, so a side that is used only a few times, and whose rows are contiguous, is read where it lies.

Addresses and strides are integers in bytes, so that one compiled function serves every layout.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from numba import types

from minires.kernels.jit import njit
from minires.kernels.vector import Unit, address, make_panel, make_words

# Chosen by trial on AVX2 with 32 KB of L1 and 512 KB of L2.
KC_BYTES, MC, NC = 1024, 144, 2040  # KC is 256 float32 or 128 float64: a panel of B fills half of L1
PACK_B_FROM = 48  # rows of A: each panel of B is then used by 8 or more tiles
PACK_A_FROM = 448  # columns of B, if A's rows are contiguous …
PACK_TURNED_A_FROM = 64  # … and if they are not, where reading in place costs a cache line per step
ALIGN = 64  # a cache line


class Shape(NamedTuple):
    """Sizes that follow from the vector unit and the number format."""

    depth: int  # KC
    size: int  # bytes of a number
    lanes: int  # numbers in a register
    rows: int  # MR
    vectors: int
    cols: int  # NR = vectors · lanes


def make_shape(unit: Unit, real) -> Shape:
    size = real.bitwidth // 8
    lanes = unit.bytes // size
    return Shape(KC_BYTES // size, size, lanes, unit.rows, unit.vectors, unit.vectors * lanes)


def make_pack(unit: Unit, real, width: int):
    """Copies `count` lines of k numbers into panels of `width` lines, step by step of k; missing lines become zeros.

    The panel that holds line i starts at to + i · k · size. `line` and `step` are the byte strides from line to line
    and along k. Whole panels move by registers if one of the two strides is that of neighbours.
    """
    size, lanes = real.bitwidth // 8, unit.bytes // (real.bitwidth // 8)
    peek, poke, zero, lines, turn = make_words(unit, real, width)

    @njit
    def slowly(to, used, start, k, source, line, step):
        for p in range(start, k):
            for i in range(width):
                poke(to + (p * width + i) * size, peek(source + i * line + p * step) if i < used else zero)

    @njit
    def pack(to, count, k, source, line, step):
        for i in range(0, count, width):
            used, done = min(width, count - i), 0
            at, panel = source + i * line, to + i * k * size
            if used == width and line == size:
                for p in range(k):
                    lines(at + p * step, panel + p * width * size)
                done = k
            elif used == width and step == size:
                done = k - k % lanes
                for p in range(0, done, lanes):
                    turn(at + p * step, line, panel + p * width * size)
            slowly(panel, used, done, k, at, line, step)

    return pack


def make_block(panel, pack, words, shape: Shape):
    """A block of A (m × k) times a block of B (k × n), either of them packed or not: all panels of B.

    `panel` computes whole registers. A last panel of B that is no multiple of them goes through `spare_b` (with zeros
    at its right, so that nothing is read past the end of B's rows) and `tile`.
    """
    size, lanes, cols = shape.size, shape.lanes, shape.cols
    peek, poke = words.peek, words.poke

    @njit(inline="always")
    def paste(m, n, tile, c, rsc, add):
        for i in range(m):
            for j in range(n):
                to = c + i * rsc + j * size
                value = peek(tile + (i * cols + j) * size)
                poke(to, peek(to) + value if add else value)

    @njit(inline="always")
    def block(m, n, k, a, step_a, rsa, csa, b, step_b, rsb, c, rsc, add, spare_b, tile):
        for j in range(0, n, cols):
            width = min(cols, n - j)
            at_b, row_b, at_c, row_c, more = b + j * step_b, rsb, c + j * size, rsc, add
            ragged = width % lanes != 0
            if ragged:
                at_c, row_c, more = tile, cols * size, False
                if step_b == size:
                    pack(spare_b, width, k, at_b, step_b, rsb)
                    at_b, row_b = spare_b, cols * size
            panel((width + lanes - 1) // lanes, m, k, a, step_a, rsa, csa, at_b, row_b, at_c, row_c, more)
            if ragged:
                paste(m, width, tile, c + j * size, rsc, add)

    return block


def make_gemm(unit: Unit, real):
    """C = A · B on addresses: `gemm(m, n, k, a, rsa, csa, b, rsb, csb, c, rsc, work)`, rows of C contiguous.

    `work` is the address of `work_bytes()` bytes.
    """
    shape, words = make_shape(unit, real), make_words(unit, real, 1)
    pack_a, pack_b = make_pack(unit, real, shape.rows), make_pack(unit, real, shape.cols)
    block = make_block(make_panel(unit, real), pack_b, words, shape)
    size, rows, cols, most = shape.size, shape.rows, shape.cols, shape.depth

    @njit(inline="always")
    def slices(m, n, k, a, rsa, csa, b, rsb, csb, c, rsc, add, room_a, spare_b, tile, room_b):
        step_b = size
        if csb != size or m >= PACK_B_FROM:
            pack_b(room_b, n, k, b, csb, rsb)
            b, step_b, rsb = room_b, k * size, cols * size
        pack = n >= (PACK_A_FROM if csa == size else PACK_TURNED_A_FROM)
        for i in range(0, m, MC):
            mc = min(MC, m - i)
            at_a, step, row, col = a + i * rsa, rsa, rsa, csa
            if pack:
                pack_a(room_a, mc, k, at_a, rsa, csa)
                at_a, step, row, col = room_a, k * size, size, rows * size
            block(mc, n, k, at_a, step, row, col, b, step_b, rsb, c + i * rsc, rsc, add, spare_b, tile)

    @njit(inline="always")
    def gemm(m, n, k, a, rsa, csa, b, rsb, csb, c, rsc, work):
        room_a = (work + ALIGN - 1) // ALIGN * ALIGN
        spare_b = room_a + (MC + rows) * KC_BYTES
        tile = spare_b + cols * KC_BYTES
        room_b = tile + MC * cols * size
        slabs = max(1, (k + most - 1) // most)
        kc = max(1, (k + slabs - 1) // slabs)
        for p in range(0, max(1, k), kc):  # once for k = 0 too, which writes zeros
            for j in range(0, n, NC):
                slices(m, min(NC, n - j), min(kc, k - p), a + p * csa, rsa, csa, b + p * rsb + j * csb, rsb, csb,
                       c + j * size, rsc, p > 0, room_a, spare_b, tile, room_b)

    return gemm


def work_bytes() -> int:
    """An upper bound of the room that `gemm` needs, for every unit and format."""
    return KC_BYTES * (MC + NC + 256) + 64 * 8 * MC + ALIGN


@functools.cache
def compiled(unit: Unit, name: str):
    """`product(a, b, c, count, next_a, next_b, next_c, work)` for 'float32' or 'float64', one function for all layouts.

    c = a · b, and the same for `count` matrices at byte distances `next_a`, `next_b`, `next_c`.
    """
    real = getattr(types, name)
    gemm = make_gemm(unit, real)

    @njit
    def product(a, b, c, count, next_a, next_b, next_c, work):
        for i in range(count):
            at_a, at_b, at_c = address(a) + i * next_a, address(b) + i * next_b, address(c) + i * next_c
            gemm(a.shape[0], b.shape[1], a.shape[1], at_a, a.strides[0], a.strides[1], at_b, b.strides[0], b.strides[1],
                 at_c, c.strides[0], address(work))

    read, write = types.Array(real, 2, "A", readonly=True), types.Array(real, 2, "A")
    product.compile((read, read, write, *[types.int64] * 4, types.Array(types.uint8, 1, "C")))
    product.disable_compile()  # otherwise numba compiles again for each mixture of layouts
    return product
