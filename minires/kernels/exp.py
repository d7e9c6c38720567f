"""exp, sigmoid, tanh and the normal distribution for use inside kernels: plain arithmetic, so that LLVM vectorises it.

`math.exp` in a loop is a call per element. The functions here are inlined into the calling loop and become a few
vector instructions, 8 float32 at a time with AVX2 and 16 with AVX-512:

    @njit
    def softmax_row(x, out):
        for j in range(x.size):
            out[j] = exp(x[j] - m)          # float32 in, float32 out; float64 in, float64 out

Without a compiler (`kernel.py_func`) the same names call NumPy.

The method (Cody and Waite 1980): write x = k ln 2 + r with a whole number k and |r| ≤ ln 2 / 2, then
e^x = 2^k e^r, where e^r = 1 + r + r² q(r) with a short polynomial q and 2^k is put together from bits.
The coefficients are computed by tools/fit_exp.py, with which the test suite compares them.

Rounding is planned, so the functions are compiled with `contract` only: if a compiler may reorder k·hi and k·lo, the
error grows several times. `measure_exp_error` and its relatives measure the error in ulp: the distance to the true
value in units of the gap between neighbouring numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from minires.kernels.jit import EXACT_ORDER, njit


# Numba accepts `view` only with a type that is spelled out, hence four functions.
@njit(forceinline=True)
def bits32(x):
    return np.float32(x).view(np.uint32)


@njit(forceinline=True)
def real32(n):
    return np.uint32(n).view(np.float32)


@njit(forceinline=True)
def bits64(x):
    return np.float64(x).view(np.uint64)


@njit(forceinline=True)
def real64(n):
    return np.uint64(n).view(np.float64)


class Format(NamedTuple):
    """What the functions need to know about float32 or float64."""

    real: type
    bits: type  # the unsigned integer of the same width
    as_bits: Callable  # the same word read as an integer …
    as_real: Callable  # … and as a number
    mantissa: int  # stored bits of the fraction
    bias: int  # the stored exponent of 1.0
    low: float  # exp of anything below is 0
    high: float  # exp of anything above is inf
    ln2_hi: float  # ln 2 = hi + lo; hi has so few bits that k · hi is exact
    ln2_lo: float
    exp_q: tuple  # e^r = 1 + r + r² q(r), lowest power first
    tanh_top: float  # tanh is 1 from here on
    split: int  # clears the lower half of a fraction, so that squares are exact
    normal_k: float  # Φ(−a) = e^(−a²/2) P(s) / (a + K), s = (a − K)/(a + K)
    normal_p: tuple


# fmt: off
FLOAT32 = Format(
    real=np.float32, bits=np.uint32, as_bits=bits32, as_real=real32, mantissa=23, bias=127,
    low=-105.0, high=89.0, ln2_hi=0.693115234375, ln2_lo=3.194618329871446e-05,
    exp_q=(0.5, 0.16666577756404877, 0.041666556149721146, 0.008363173343241215, 0.0013926175888627768),
    tanh_top=10.0, split=0xFFFFF000, normal_k=4.0,
    normal_p=(
        0.7552851438522339, -0.607896625995636, 0.38713669776916504, -0.1865226775407791, 0.06040668860077858,
        -0.0075292508117854595, -0.0035261837765574455, 0.001572317909449339, 0.0002012617333093658,
        -0.00012018439883831888,
    ),
)
FLOAT64 = Format(
    real=np.float64, bits=np.uint64, as_bits=bits64, as_real=real64, mantissa=52, bias=1023,
    low=-746.0, high=710.0, ln2_hi=0.6931471805592082, ln2_lo=7.371002565167799e-13,
    exp_q=(
        0.5000000000000001, 0.16666666666666669, 0.041666666666624164, 0.008333333333330065, 0.0013888888917196719,
        0.00019841269863040545, 2.4801521322368692e-05, 2.7557268480310024e-06, 2.7620075879983367e-07,
        2.5100375832561234e-08,
    ),
    tanh_top=20.0, split=0xFFFFFFFFF8000000, normal_k=5.0,
    normal_p=(
        0.769193049750063, -0.6653825028900567, 0.49530561596997386, -0.31353315667129955, 0.16502036617051113,
        -0.06911863870640436, 0.020795066797416595, -0.0029933767701593532, -0.0007978693739469138,
        0.0005448990707733159, -5.937586780212169e-05, -4.976288868029808e-05, 1.6681694446690882e-05,
        3.981274923141603e-06, -2.770264894685992e-06, -3.376318795644607e-07, 4.343124300104718e-07,
        4.385236079192329e-08, -6.65400740125251e-08, -1.0623937439932971e-08, 7.573702456952603e-09,
        2.2061860857956886e-09,
    ),
)
# fmt: on


class Functions(NamedTuple):
    """The compiled scalar functions of one format."""

    exp: Callable
    decay: Callable
    sigmoid: Callable
    tanh: Callable
    normal: Callable


def make_horner(f: Format, coefficients: tuple):
    """c_0 + c_1 x + c_2 x² + …, from the highest power down; LLVM unrolls the loop only while it is short."""
    if len(coefficients) > 8:
        return join_horner(make_horner(f, coefficients[:8]), make_horner(f, coefficients[8:]))
    numbers = tuple(f.real(c) for c in reversed(coefficients))

    @njit(fastmath=EXACT_ORDER, forceinline=True)
    def horner(x):
        p = numbers[0]
        for c in numbers[1:]:
            p = p * x + c
        return p

    return horner


def join_horner(low, high):
    """low(x) + x⁸ high(x)."""

    @njit(fastmath=EXACT_ORDER, forceinline=True)
    def joined(x):
        x2 = x * x
        x4 = x2 * x2
        return high(x) * (x4 * x4) + low(x)

    return joined


def make_reduce(f: Format):
    """x = k ln 2 + r. Returns r and k + 2·bias as an unsigned integer.

    Adding 1.5 · 2^mantissa pushes a number's fraction out of the word, which rounds it; the whole number then stands in
    the lowest bits. That is faster than a conversion, and NaN does no harm.
    """
    magic = f.real(1.5 * 2.0**f.mantissa)
    offset = f.bits(int(magic.view(f.bits)) - 2 * f.bias)
    log2e, hi, lo = f.real(np.log2(np.e)), f.real(f.ln2_hi), f.real(f.ln2_lo)
    bits, as_bits = f.bits, f.as_bits

    @njit(fastmath=EXACT_ORDER, forceinline=True)
    def reduce(x):
        shifted = x * log2e + magic
        k = shifted - magic
        return x - k * hi - k * lo, bits(as_bits(shifted) - offset)

    return reduce


def make_scale(f: Format):
    """y · 2^k in two steps, since 2^k alone may be out of range where y · 2^k is not."""
    as_real, bits, shift, one = f.as_real, f.bits, f.bits(f.mantissa), f.bits(1)

    @njit(fastmath=EXACT_ORDER, forceinline=True)
    def scale(y, k):
        half = bits(k >> one)  # k/2 + bias: already the stored exponent of 2^(k/2)
        rest = bits(k - half)
        return y * as_real(half << shift) * as_real(rest << shift)

    return scale


def make_decay(f: Format):
    """exp(x) for x ≤ 0, as softmax needs it: 0 below the normal range, so one step scales it and nothing is clamped."""
    q, reduce, as_real, bits = make_horner(f, f.exp_q), make_reduce(f), f.as_real, f.bits
    shift, bias, one, zero = f.bits(f.mantissa), f.bits(f.bias), f.real(1), f.real(0)
    low = f.real(np.log(np.finfo(f.real).tiny))

    @njit(fastmath=EXACT_ORDER, forceinline=True)
    def decay(x):
        r, k = reduce(x)
        y = (r * r * q(r) + r + one) * as_real(bits(k - bias) << shift)
        return zero if x < low else y

    return decay


def make_exp(f: Format):
    """exp(x + tail) for a tail below one ulp of x; tail = 0 gives exp(x)."""
    q, reduce, scale = make_horner(f, f.exp_q), make_reduce(f), make_scale(f)
    low, high, one = f.real(f.low), f.real(f.high), f.real(1)

    @njit(fastmath=EXACT_ORDER, forceinline=True)
    def exp(x, tail):
        x = low if x < low else x  # written so that NaN passes through
        x = high if x > high else x
        r, k = reduce(x)
        r = r + tail
        return scale(r * r * q(r) + r + one, k)

    return exp


def make_sigmoid(f: Format, exp):
    """1 / (1 + e^(−x)), which is accurate for both signs: e^(−x) = inf gives 0."""
    one, zero = f.real(1), f.real(0)

    @njit(fastmath=EXACT_ORDER, forceinline=True)
    def sigmoid(x):
        return one / (one + exp(-x, zero))

    return sigmoid


def make_tanh(f: Format):
    """tanh x = m / (m + 2) with m = e^(2x) − 1 = 2^k (r + r² q) + (2^k − 1), so that small x keep all their digits."""
    q, reduce, as_real, bits = make_horner(f, f.exp_q), make_reduce(f), f.as_real, f.bits
    shift, bias = f.bits(f.mantissa), f.bits(f.bias)
    top, one, two = f.real(f.tanh_top), f.real(1), f.real(2)

    @njit(fastmath=EXACT_ORDER, forceinline=True)
    def tanh(x):
        x = -top if x < -top else x
        x = top if x > top else x
        r, k = reduce(two * x)
        power = as_real(bits(k - bias) << shift)
        m = power * (r * r * q(r) + r) + (power - one)
        return m / (m + two)

    return tanh


def make_normal(f: Format, exp):
    """Φ(x) and φ(x): the standard normal distribution's cumulative probability and density.

    For a = |x| the lower tail is Φ(−a) = e^(−a²/2) P(s) / (a + K), and Φ(a) = 1 − Φ(−a). For large a the rounding of a²
    would cost digits, so a² is kept as a sum of two numbers (Dekker 1971).
    """
    p, as_real, as_bits, mask = make_horner(f, f.normal_p), f.as_real, f.as_bits, f.bits(f.split)
    k, half, one, zero = f.real(f.normal_k), f.real(0.5), f.real(1), f.real(0)
    top, density = f.real(np.sqrt(-2 * f.low)), f.real(1 / np.sqrt(2 * np.pi))

    @njit(fastmath=EXACT_ORDER, forceinline=True)
    def normal(x):
        a = x if x > zero else -x
        a = top if a > top else a
        front = as_real(as_bits(a) & mask)
        back = a - front
        square = a * a
        lost = ((front * front - square) + front * back + front * back) + back * back
        e = exp(-half * square, -half * lost)
        t = one / (a + k)
        tail = e * t * p((a - k) * t)
        return (one - tail if x > zero else tail), e * density

    return normal


def make_functions(f: Format) -> Functions:
    """Everything of one format."""
    exp = make_exp(f)
    zero = f.real(0)

    @njit(fastmath=EXACT_ORDER, forceinline=True)
    def plain_exp(x):
        return exp(x, zero)

    return Functions(plain_exp, make_decay(f), make_sigmoid(f, exp), make_tanh(f), make_normal(f, exp))


@functools.cache
def functions_of(real) -> Functions | None:
    """The functions of a numba type, made when a kernel is compiled: one that is found on disk does not need them."""
    f = {types.float32: FLOAT32, types.float64: FLOAT64}.get(real)
    return f and make_functions(f)


def exp(x):
    """e^x of one float32 or float64 number. −inf → 0, below the normal range → 0 or denormal, NaN → NaN."""
    return np.exp(x)


def decay(x):
    """e^x of one number x ≤ 0 (or a little above), 0 where that is below the normal range; NaN → NaN."""
    return np.exp(x)


def sigmoid(x):
    """1 / (1 + e^(−x)) of one number."""
    return 1 / (1 + np.exp(-x))


def tanh(x):
    """tanh of one number, with full relative accuracy near 0."""
    return np.tanh(x)


def normal(x):
    """(Φ(x), φ(x)) of one number: cumulative probability and density of the standard normal distribution."""
    from math import erfc

    real = np.asarray(x).dtype.type
    return real(erfc(-x / np.sqrt(2)) / 2), real(np.exp(-x * x / 2) / np.sqrt(2 * np.pi))


def _compile_as(name: str):
    def chosen(x):
        functions = functions_of(x)
        return functions and getattr(functions, name).py_func

    return chosen


for _twin in (exp, decay, sigmoid, tanh, normal):
    overload(_twin, jit_options={"fastmath": EXACT_ORDER, "forceinline": True})(_compile_as(_twin.__name__))
