"""Graders of the lesson on LayerNorm."""

import numpy as np

from minires.grading import Case, grades
from minires.grading.engine import tiny_transformer

FLOAT32 = ("float32 arrays", "Keep the dtype of the arguments: no float64 arrays of your own.")
NO_GAMMA = ("gamma = None", "None means a gain of 1.")
NO_BETA = ("beta = None", "None means an offset of 0.")


def _normal(seed, *shape, dtype=np.float64, scale=1.0, shift=0.0):
    return (shift + scale * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def _forward(seed, *shape, eps=0.3, dtype=np.float64, **about_x):
    d = shape[-1]
    x = _normal(seed, *shape, dtype=dtype, **{"shift": 0.7, "scale": 1.5, **about_x})
    return x, _normal(seed + 1, d, dtype=dtype, shift=1.0), _normal(seed + 2, d, dtype=dtype), eps


@grades("layernorm/forward")
def test_forward(answer):
    x, gamma, beta, eps = _forward(50, 4, 6)
    offset = "a mean that is a million times larger than the spread"
    two_passes = "mean(x²) - mean(x)² loses all its digits here: subtract the mean first, then square."
    answer.check(
        [
            Case(_forward(0, 5, 8)),
            Case(_forward(10, 2, 3, 4)),
            Case(_forward(20, 7, eps=0.05)),
            Case(_forward(30, 3, 8, eps=1e-5, shift=1e6), offset, two_passes),
            Case(
                (np.full((2, 4), 3.0), gamma[:4], beta[:4], 1e-5),
                "rows of equal numbers",
                "There σ² = 0: eps keeps it finite.",
            ),
            Case((x, None, beta, eps), *NO_GAMMA),
            Case((x, gamma, None, eps), *NO_BETA),
            Case((x, None, None, eps), "neither gamma nor beta", "Then y is x̂."),
            Case(_forward(40, 3, 6, dtype=np.float32), *FLOAT32),
        ]
    )
    answer.trains(tiny_transformer)


def _backward(seed, *shape, dtype=np.float64, gamma=True, beta=True):
    from minires.ops.norms import layernorm_forward

    x, g, b, eps = _forward(seed, *shape, eps=1e-3, dtype=dtype)
    _, saved = layernorm_forward(x, g if gamma else None, b if beta else None, eps=eps)
    return _normal(seed + 3, *shape, dtype=dtype), saved


@grades("layernorm/backward")
def test_backward(answer):
    one_row = ("a single row of shape (d,)", "There is no axis to sum over: tuple(range(dy.ndim - 1)) is empty then.")
    answer.check(
        [
            Case(_backward(0, 5, 8)),
            Case(_backward(10, 2, 3, 4)),
            Case(_backward(20, 3, 4, 2, 6)),
            Case(_backward(30, 7), *one_row),
            Case(_backward(40, 4, 6, gamma=False), "gamma = None", "Then dx̂ = dy, and dgamma is None."),
            Case(_backward(50, 4, 6, beta=False), "has_beta = False", "Then dbeta is None."),
            Case(_backward(60, 3, 6, dtype=np.float32), *FLOAT32),
        ]
    )
    answer.trains(tiny_transformer)


def _row(seed, d, eps, dtype=np.float64):
    x, gamma, _, _ = _forward(seed, d, dtype=dtype)
    return x, gamma, eps


@grades("layernorm/jacobian")
def test_jacobian(answer):
    answer.check(
        [
            Case(_row(0, 5, 0.3)),
            Case(_row(10, 8, 1e-5)),
            Case(_row(20, 64, 0.1)),
            Case(_row(30, 3, 0.0), "eps = 0", "Nothing special should happen here."),
            Case(
                _row(40, 6, 0.3, np.float32),
                "float32 arrays",
                "np.eye and np.ones make float64 unless you say dtype=x.dtype.",
            ),
        ]
    )
