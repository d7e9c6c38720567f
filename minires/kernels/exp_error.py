"""How exact the functions of exp.py are, measured over their whole range."""

from __future__ import annotations

import numpy as np

from minires.kernels.exp import exp, sigmoid, tanh
from minires.kernels.jit import njit

# Where the results are normal numbers: beyond, they are 0, denormal or inf.
RANGES = {
    ("exp", "float32"): (-87.33, 88.72),
    ("exp", "float64"): (-708.39, 709.78),
    ("sigmoid", "float32"): (-87.33, 40.0),
    ("sigmoid", "float64"): (-708.39, 40.0),
    ("tanh", "float32"): (-12.0, 12.0),
    ("tanh", "float64"): (-24.0, 24.0),
}
NUMPY = {"exp": np.exp, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "tanh": np.tanh}


@njit
def exp_all(x, out):
    for i in range(x.size):
        out[i] = exp(x[i])


@njit
def sigmoid_all(x, out):
    for i in range(x.size):
        out[i] = sigmoid(x[i])


@njit
def tanh_all(x, out):
    for i in range(x.size):
        out[i] = tanh(x[i])


OURS = {"exp": exp_all, "sigmoid": sigmoid_all, "tanh": tanh_all}


def measure_exp_error(dtype: str = "float32", n: int = 200_000, seed: int = 0, function: str = "exp") -> dict:
    """Errors of our function and of NumPy's in ulp at n random arguments, half of them close to 0.

    Returns arrays `x` (sorted), `ours`, `numpy`, and `dtype`, `function`, `seed`. The true value is computed in the
    next wider format; where long double is no wider than float64 (some platforms), float64 errors are off by up to 1.
    """
    x = arguments(np.dtype(dtype), *RANGES[function, str(np.dtype(dtype))], n, np.random.default_rng(seed))
    ours = np.empty_like(x)
    OURS[function](x, ours)
    wide = np.float64 if x.dtype == np.float32 else np.longdouble
    true = NUMPY[function](x.astype(wide))
    errors = {"ours": ulp_error(ours, true), "numpy": ulp_error(NUMPY[function](x), true)}
    return {"dtype": str(x.dtype), "function": function, "seed": seed, "x": x, **errors}


def arguments(dtype, low: float, high: float, n: int, rng) -> np.ndarray:
    """Half of them even over [low, high], half with even exponents down to 1e-8 and either sign."""
    even = rng.uniform(low, high, n - n // 2)
    small = rng.choice([-1, 1], n // 2) * 10 ** rng.uniform(-8, 0, n // 2)
    return np.sort(np.concatenate([even, small]).astype(dtype))


def ulp_error(value: np.ndarray, true: np.ndarray) -> np.ndarray:
    """|value − true| in units of the gap between the numbers of value's format at the true value."""
    gap = np.spacing(np.abs(true).astype(value.dtype))
    return (np.abs(value.astype(true.dtype) - true) / gap).astype(np.float64)


def worst(x: np.ndarray, error: np.ndarray, bins: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """The largest error in each of `bins` equal parts of the range of x, and the middles of those parts."""
    edges = np.linspace(x[0], x[-1], bins + 1, dtype=np.float64)
    starts = np.searchsorted(x, edges[:-1])
    return (edges[1:] + edges[:-1]) / 2, np.maximum.reduceat(error, np.minimum(starts, len(x) - 1))
