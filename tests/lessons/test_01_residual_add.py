"""Graders of the lesson on the residual add."""

import numpy as np

from minires.grading import Case, grades
from minires.grading.engine import tiny_mlp


def _normal(seed, *shape, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@grades("residual_add/add_backward")
def test_add_backward(answer):
    shapes = [(4, 3), (2, 3, 5), (1, 6)]
    cases = [Case((_normal(i, *shape), None)) for i, shape in enumerate(shapes)]
    cases.append(Case((_normal(9, 3, 4, dtype=np.float32), None), "float32 arrays", "Keep the dtype of dy."))
    answer.check(cases)
    answer.trains(tiny_mlp)


def _block(seed, rows, d, hidden, dtype=np.float64):
    x, w1, w2 = (_normal(seed + i, *s, dtype=dtype) for i, s in enumerate([(*rows, d), (d, hidden), (hidden, d)]))
    return _normal(seed + 3, *rows, d, dtype=dtype), (x, x @ w1, w1, w2)


@grades("residual_add/block_backward")
def test_block_backward(answer):
    several = ("several axes before the last", "Treat all axes but the last as rows: reshape(-1, n).")
    answer.check(
        [
            Case(_block(0, (4,), 5, 5)),
            Case(_block(10, (6,), 3, 7)),
            Case(_block(20, (2, 3), 4, 4), *several),
            Case(_block(30, (2, 3), 4, 6), *several),
            Case(
                _block(40, (), 4, 6),
                "a single vector x of shape (d,)",
                "A vector is one row: reshape(-1, n) covers it.",
            ),
            Case(_block(50, (5,), 4, 8, np.float32), "float32 arrays", "Keep the dtype of dy."),
        ]
    )


def _stack(seed, layers, d, dtype=np.float64):
    jacobians = [0.5 * _normal(seed + 1 + i, d, d, dtype=dtype) for i in range(layers)]
    return jacobians, _normal(seed, d, dtype=dtype)


@grades("residual_add/paths")
def test_paths(answer):
    answer.check(
        [
            Case(_stack(0, 3, 4)),
            Case(_stack(20, 6, 5)),
            Case(
                _stack(40, 40, 6), "40 layers", "2^40 paths are too many to walk one by one: keep L + 1 sums instead."
            ),
            Case(_stack(90, 0, 4), "no layers at all", "Then the only path is the skip: one row, dy."),
            Case(_stack(99, 4, 3, np.float32), "float32 arrays", "Create your array with dtype=dy.dtype."),
        ]
    )
