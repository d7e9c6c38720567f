"""The standard normal distribution, which NumPy lacks: Φ for the exact GELU, with full accuracy in its tails."""

from __future__ import annotations

from typing import Any

import numpy as np

# P and K of normal_cdf, lowest power first: `python tools/fit_exp.py` computes them (the part "normal, float64").
K = 5.0
P = (
    0.769193049750063, -0.6653825028900567, 0.49530561596997386, -0.31353315667129955,
    0.16502036617051113, -0.06911863870640436, 0.020795066797416595, -0.0029933767701593532,
    -0.0007978693739469138, 0.0005448990707733159, -5.937586780212169e-05, -4.976288868029808e-05,
    1.6681694446690882e-05, 3.981274923141603e-06, -2.770264894685992e-06, -3.376318795644607e-07,
    4.343124300104718e-07, 4.385236079192329e-08, -6.65400740125251e-08, -1.0623937439932971e-08,
    7.573702456952603e-09, 2.2061860857956886e-09,
)  # fmt: skip
REACH = 40.0  # Φ(-40) is 0 in float64


def normal_cdf(x: Any) -> Any:
    """Φ(x) = (1 + erf(x/√2)) / 2, the probability that a standard normal variable is below x; dtype kept.

    For a = |x| the lower tail is Φ(-a) = e^(-a²/2) P(s) / (a + K) with a polynomial P in s = (a - K)/(a + K), and
    Φ(a) = 1 - Φ(-a). A rounded a² would cost digits in the tail, so a is cut in two: the square of `front`, which
    has at most 24 bits, is exact. x: any shape, real or complex (for complex-step checks).
    """
    upper = x.real > 0
    a: Any = np.where(upper, x, -x).astype(np.result_type(x, np.float64))
    a = np.where(a.real > REACH, REACH, a)
    front = a.real.astype(np.float32).astype(np.float64)
    gauss = np.exp(-0.5 * front * front) * np.exp(-0.5 * (a - front) * (a + front))
    s = (a - K) / (a + K)
    tail = gauss * (_horner(P[::2], s * s) + s * _horner(P[1::2], s * s)) / (a + K)
    return np.where(upper, 1 - tail, tail).astype(x.dtype)


def _horner(coefficients, x):
    """c_0 + c_1 x + c_2 x² + …"""
    value = np.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        value *= x
        value += c
    return value
