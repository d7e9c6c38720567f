"""Computes the coefficients in minires/kernels/exp.py (needs mpmath).

    python tools/fit_exp.py            prints the tables and their errors
    python tools/fit_exp.py --sizes    prints the error of each degree, which is how the degrees were chosen

Each polynomial goes through the function at Chebyshev nodes, computed with 60 digits; that is within a small factor of
the best polynomial of its degree, and simpler than the exchange algorithm. Only then is it rounded to the format.

    exp:     e^r = 1 + r + r² q(r) on |r| ≤ ln 2 / 2, the rest after removing a power of two
    normal:  Φ(−a) = e^(−a²/2) · P(s) / (a + K) for a ≥ 0 with s = (a − K)/(a + K), which maps [0, ∞) to [−1, 1)
"""

from __future__ import annotations

import argparse

import numpy as np
from mpmath import mp, mpf

mp.dps = 60
EXP_DEGREE = {"float32": 4, "float64": 9}
NORMAL_DEGREE = {"float32": 9, "float64": 21}
NORMAL_K = {"float32": mpf(4), "float64": mpf(5)}
NORMAL_REACH = {"float32": 14, "float64": 40}  # beyond it e^(−a²/2) is below the normal range
LOG2_HI_BITS = {"float32": 14, "float64": 40}  # so few that k · hi is exact for every exponent k


def through_chebyshev_nodes(f, low, high, degree):
    """Coefficients c_0 … c_degree of the polynomial that equals f at the Chebyshev nodes of [low, high]."""
    count = degree + 1
    nodes = [(low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    return list(mp.lu_solve(mp.matrix([[x**j for j in range(count)] for x in nodes]), mp.matrix([f(x) for x in nodes])))


def evaluate(coefficients, x):
    return mp.polyval(list(reversed(coefficients)), x)


def exp_rest(r):
    """(e^r − 1 − r) / r², by its series where the formula cancels."""
    return mp.fsum(r**j / mp.factorial(j + 2) for j in range(40))


def fit_exp(dtype, degree=None):
    """q and the largest relative error of 1 + r + r² q(r), coefficients already rounded to `dtype`."""
    reach = mp.log(2) / 2
    q = through_chebyshev_nodes(exp_rest, -reach, reach, degree or EXP_DEGREE[dtype])
    q = [rounded(c, dtype) for c in q]
    points = [reach * i / 1000 for i in range(-1000, 1001)]
    return q, max(abs((1 + r + r * r * evaluate(q, r)) / mp.exp(r) - 1) for r in points)


def normal_target(s, k):
    """Φ(−a) e^(a²/2) (a + K) at a = K (1 + s)/(1 − s)."""
    a = k * (1 + s) / (1 - s)
    return mp.erfc(a / mp.sqrt(2)) / 2 * mp.exp(a * a / 2) * (a + k)


def fit_normal(dtype, degree=None, k=None):
    """P and its largest relative error over 0 ≤ a ≤ NORMAL_REACH, coefficients already rounded to `dtype`."""
    k = k or NORMAL_K[dtype]
    top = (NORMAL_REACH[dtype] - k) / (NORMAL_REACH[dtype] + k)
    p = through_chebyshev_nodes(lambda s: normal_target(s, k), mpf(-1), mpf(top), degree or NORMAL_DEGREE[dtype])
    p = [rounded(c, dtype) for c in p]
    points = [-1 + (top + 1) * mpf(i) / 500 for i in range(501)]
    return p, max(abs(evaluate(p, s) / normal_target(s, k) - 1) for s in points)


def rounded(value, dtype):
    """`value` in the number format, exactly as an mpf."""
    return mpf(float(value)) if dtype == "float64" else mpf(float(np.float32(float(value))))


def log2_parts(dtype):
    """ln 2 as hi + lo: hi has few bits, so that k · hi is exact."""
    scale = mpf(2) ** LOG2_HI_BITS[dtype]
    hi = mp.floor(mp.log(2) * scale) / scale
    return hi, rounded(mp.log(2) - hi, dtype)


def show(dtype):
    hi, lo = log2_parts(dtype)
    print(f"# {dtype}\nLN2_HI, LN2_LO = {float(hi)!r}, {float(lo)!r}")
    for name, (coefficients, error) in {"exp": fit_exp(dtype), "normal": fit_normal(dtype)}.items():
        print(f"{name}, lowest power first; relative error of the polynomial {mp.nstr(error, 3)}")
        print("   ", ", ".join(repr(float(c)) for c in coefficients))


def show_sizes():
    for dtype in EXP_DEGREE:
        for degree in range(3, 12):
            print(dtype, "exp", degree, mp.nstr(fit_exp(dtype, degree)[1], 3))
        for k in (3, 4, 5, 6):
            for degree in range(7, 26, 1):
                print(dtype, "normal, K =", k, "degree", degree, mp.nstr(fit_normal(dtype, degree, mpf(k))[1], 3))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="coefficients for minires/kernels/exp.py")
    parser.add_argument("--sizes", action="store_true", help="the error of each degree")
    if parser.parse_args().sizes:
        show_sizes()
    else:
        show("float32")
        show("float64")
