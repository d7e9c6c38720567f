"""The vector unit in a numba kernel: which one the machine has, and the micro-kernel of a matrix product.

LLVM finds vector code for simple loops by itself. It does not find the best matrix product, because that needs a plan
for the registers: a small tile of C stays in them while k runs. So this one loop is written out as LLVM instructions.

Addresses and strides are integers in bytes, as in `array.ctypes.data` and `array.strides`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

I64 = ir.IntType(64)


class Unit(NamedTuple):
    """A vector unit: register size in bytes, the tile of C (rows × vectors) that fits, fused multiply-add or not."""

    name: str
    bytes: int
    rows: int
    vectors: int
    fma: bool


# rows · vectors accumulators + vectors of B + one or more numbers of A must fit into 32 or 16 registers, and there must
# be at least 8 to 10 accumulators, because a multiply-add takes 4 to 5 cycles and two start in each cycle.
UNITS = {
    "avx512": Unit("AVX-512", 64, 12, 2, True),
    "avx2": Unit("AVX2", 32, 6, 2, True),
    "neon": Unit("NEON", 16, 8, 3, True),
    "sse": Unit("SSE", 16, 6, 2, False),
}


def host_unit() -> Unit:
    """The best unit of the machine that numba compiles for (it obeys NUMBA_CPU_FEATURES)."""
    context: Any = cpu_target.target_context
    triple, _, features = context.codegen().magic_tuple()
    have = set(features.split(","))
    if "+avx512f" in have:
        return UNITS["avx512"]
    if {"+avx2", "+fma"} <= have:
        return UNITS["avx2"]
    return UNITS["neon" if triple.startswith(("aarch64", "arm64")) else "sse"]


def llvm_type(real) -> ir.Type:
    """The LLVM type of numba's float32 or float64."""
    return ir.FloatType() if real.bitwidth == 32 else ir.DoubleType()


def make_panel(unit: Unit, real):
    """A function for kernels: `panel(vectors, m, k, a, step, rsa, csa, b, rsb, c, rsc, add)`.

    C[0:m, 0:vectors·lanes] = A[0:m, 0:k] · B[0:k, …], plus the old C where `add`, tile by tile. Rows of B and C are
    contiguous. In A, `rsa` leads from row to row inside a tile, `step` · rows from tile to tile, `csa` along k.
    """
    code = MicroCode(unit, real)

    @intrinsic
    def panel(typing, vectors, m, k, a, step, rsa, csa, b, rsb, c, rsc, add):
        def generate(context, builder, signature, arguments):
            builder.call(panel_function(builder.module, code), arguments)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 11, types.boolean), generate

    return panel


def panel_function(module: ir.Module, code: MicroCode) -> ir.Function:
    """The LLVM function behind `make_panel`: made once per module, and called rather than copied into its callers."""
    name = f"minires.panel.{code.unit.name}.{code.real}"
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * 11 + [ir.IntType(1)]), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    choose(builder, function.args[0], code.unit.vectors, lambda v: emit_panel(builder, code, v, *function.args[1:]))
    builder.ret_void()
    return function


def choose(builder, number, most: int, emit):
    """`emit(n)` for the n in 1 … most that `number` equals."""
    after = builder.append_basic_block("chosen")
    switch = builder.switch(number, after)
    for n in range(1, most + 1):
        block = builder.append_basic_block(f"is{n}")
        switch.add_case(I64(n), block)
        builder.position_at_end(block)
        emit(n)
        builder.branch(after)
    builder.position_at_end(after)


def emit_panel(builder, code, vectors, m, k, a, step, rsa, csa, b, rsb, c, rsc, add):
    """Full tiles while there are rows for them, then one tile of fewer rows."""
    rows = I64(code.unit.rows)
    before, test = builder.block, builder.append_basic_block("tiles")
    body, after = builder.append_basic_block("tile"), builder.append_basic_block("rest")
    builder.branch(test)
    builder.position_at_end(test)
    now = [builder.phi(I64) for _ in range(3)]
    left, at_a, at_c = now
    builder.cbranch(builder.icmp_signed(">=", left, rows), body, after)
    builder.position_at_end(body)
    code.emit(builder, code.unit.rows, vectors, k, at_a, rsa, csa, b, rsb, at_c, rsc, add)
    moved = builder.add(at_a, builder.mul(rows, step)), builder.add(at_c, builder.mul(rows, rsc))
    for phi, first, following in zip(now, (m, a, c), (builder.sub(left, rows), *moved)):
        phi.add_incoming(first, before)
        phi.add_incoming(following, builder.block)
    builder.branch(test)
    builder.position_at_end(after)
    choose(builder, left, code.unit.rows - 1,
           lambda r: code.emit(builder, r, vectors, k, at_a, rsa, csa, b, rsb, at_c, rsc, add))


class MicroCode:
    """Writes the LLVM instructions of a micro-kernel.

    Per step of k: load `vectors` registers of B, spread one number of A over a register, multiply-add it to its row of
    the tile, for each row.
    """

    def __init__(self, unit: Unit, real):
        self.unit, self.real, self.size = unit, llvm_type(real), real.bitwidth // 8
        self.lanes = unit.bytes // self.size
        self.vector = ir.VectorType(self.real, self.lanes)

    def emit(self, builder, rows, vectors, k, a, rsa, csa, b, rsb, c, rsc, add):
        zero = ir.Constant(self.vector, None)
        tile = [[zero] * vectors for _ in range(rows)]
        tile = self.loop(builder, k, a, csa, b, rsb, tile, rsa)
        with builder.if_else(add) as (then, otherwise):
            with then:
                self.store(builder, tile, c, rsc, add=True)
            with otherwise:
                self.store(builder, tile, c, rsc, add=False)

    def loop(self, builder, k, a, csa, b, rsb, tile, rsa):
        """for p in range(k): tile += column p of A times row p of B."""
        before, body, after = builder.block, builder.append_basic_block("k"), builder.append_basic_block("end")
        builder.cbranch(builder.icmp_signed(">", k, I64(0)), body, after)
        builder.position_at_end(body)
        start = [I64(0), a, b, *sum(tile, [])]
        now = [builder.phi(value.type) for value in start]
        count, a, b = now[:3]
        new = self.step(builder, a, rsa, b, self.fold(now[3:], tile))
        then = [builder.add(count, I64(1)), builder.add(a, csa), builder.add(b, rsb), *sum(new, [])]
        for phi, first, following in zip(now, start, then):
            phi.add_incoming(first, before)
            phi.add_incoming(following, body)
        builder.cbranch(builder.icmp_signed("<", then[0], k), body, after)
        return self.result(builder, after, before, body, tile, new)

    def result(self, builder, after, before, body, tile, new):
        """The tile behind the loop: what the last step made, or zeros when k = 0."""
        builder.position_at_end(after)
        out = [builder.phi(self.vector) for _ in sum(tile, [])]
        for phi, first, last in zip(out, sum(tile, []), sum(new, [])):
            phi.add_incoming(first, before)
            phi.add_incoming(last, body)
        return self.fold(out, tile)

    def step(self, builder, a, rsa, b, tile):
        row_of_b = [self.load(builder, b, j) for j in range(len(tile[0]))]
        new = []
        for i, row in enumerate(tile):
            number = self.spread(builder, builder.add(a, builder.mul(rsa, I64(i))))
            new.append([self.multiply_add(builder, number, y, z) for y, z in zip(row_of_b, row)])
        return new

    def store(self, builder, tile, c, rsc, add):
        for i, row in enumerate(tile):
            at = builder.add(c, builder.mul(rsc, I64(i)))
            for j, value in enumerate(row):
                if add:
                    value = builder.fadd(self.load(builder, at, j), value)
                builder.store(value, self.pointer(builder, at, j)).align = self.size

    def pointer(self, builder, address, j):
        return builder.inttoptr(builder.add(address, I64(j * self.lanes * self.size)), self.vector.as_pointer())

    def load(self, builder, address, j):
        value = builder.load(self.pointer(builder, address, j))
        value.align = self.size  # rows start anywhere: aligned for one number only
        return value

    def spread(self, builder, address):
        """The number at `address` in every lane."""
        number = builder.load(builder.inttoptr(address, self.real.as_pointer()))
        nothing = ir.Constant(self.vector, ir.Undefined)
        one = builder.insert_element(nothing, number, ir.IntType(32)(0))
        return builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), None))

    def multiply_add(self, builder, x, y, z):
        if not self.unit.fma:
            return builder.fadd(builder.fmul(x, y), z)
        name = f"llvm.fma.v{self.lanes}f{8 * self.size}"
        fma = cgutils.get_or_insert_function(builder.module, ir.FunctionType(self.vector, [self.vector] * 3), name)
        return builder.call(fma, [x, y, z])

    @staticmethod
    def fold(values, like):
        width = len(like[0])
        return [list(values[i : i + width]) for i in range(0, len(values), width)]


def _address(typing, array):
    def generate(context, builder, signature, arguments):
        struct = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.ptrtoint(struct.data, I64)

    return types.int64(array), generate


# Where an array's numbers begin. `array.ctypes.data` would do, but counts references at every use.
# The number does not keep the array alive: a function must not free what it knows the address of.
address: Any = intrinsic(_address)


class Words(NamedTuple):
    """Moving numbers between addresses, for kernels that pack."""

    peek: Callable  # peek(address) → number
    poke: Callable  # poke(address, number)
    zero: np.generic
    lines: Callable  # lines(from, to): `width` neighbours
    turn: Callable  # turn(from, line, to): a block of `width` lines × `lanes` numbers, transposed


def make_words(unit: Unit, real, width: int) -> Words:
    """`Words` of one format, for panels of `width` lines."""
    code = MicroCode(unit, real)

    @intrinsic
    def peek(typing, address):
        def generate(context, builder, signature, arguments):
            return builder.load(builder.inttoptr(arguments[0], code.real.as_pointer()))

        return real(types.int64), generate

    @intrinsic
    def poke(typing, address, number):
        def generate(context, builder, signature, arguments):
            builder.store(arguments[1], builder.inttoptr(arguments[0], code.real.as_pointer()))
            return context.get_dummy_value()

        return types.void(types.int64, real), generate

    @intrinsic
    def lines(typing, source, to):
        def generate(context, builder, signature, arguments):
            copy_line(builder, code, width, *arguments)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    @intrinsic
    def turn(typing, source, line, to):
        def generate(context, builder, signature, arguments):
            turn_block(builder, code, width, *arguments)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), generate

    return Words(peek, poke, np.dtype(real.name).type(0), lines, turn)


def copy_line(builder, code, width, source, to):
    """`width` numbers in one load and one store, which LLVM splits into registers."""
    vector = ir.VectorType(code.real, width)
    value = builder.load(builder.inttoptr(source, vector.as_pointer()))
    value.align = code.size
    builder.store(value, builder.inttoptr(to, vector.as_pointer())).align = code.size


def turn_block(builder, code, width, source, line, to):
    """Transposes `width` lines of `lanes` numbers, in groups of `lanes` lines."""
    for first in range(0, width, code.lanes):
        count = min(code.lanes, width - first)
        at = [builder.add(source, builder.mul(line, I64(first + i))) for i in range(count)]
        registers = [code.load(builder, address, 0) for address in at]
        registers += [ir.Constant(code.vector, ir.Undefined)] * (code.lanes - count)
        for step, register in enumerate(transposed(builder, registers)):
            store_first(builder, code, register, count, builder.add(to, I64((step * width + first) * code.size)))


def transposed(builder, registers):
    """The transpose of a square block: registers at distance s exchange their blocks of s numbers, s = 1, 2, 4, …"""
    registers, lanes, s = list(registers), len(registers), 1
    while s < lanes:
        for i in (i for i in range(lanes) if not i & s):
            x, y = registers[i], registers[i + s]
            registers[i] = shuffle(builder, x, y, [l + lanes - s if l & s else l for l in range(lanes)])
            registers[i + s] = shuffle(builder, x, y, [l + lanes if l & s else l + s for l in range(lanes)])
        s *= 2
    return registers


def shuffle(builder, x, y, lanes):
    return builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))


def store_first(builder, code, register, count, address):
    """The first `count` numbers of a register."""
    vector = ir.VectorType(code.real, count)
    value = shuffle(builder, register, register, list(range(count)))
    builder.store(value, builder.inttoptr(address, vector.as_pointer())).align = code.size
