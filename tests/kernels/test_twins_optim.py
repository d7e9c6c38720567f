"""AdamW in one pass against the NumPy formula."""

from __future__ import annotations

import numpy as np
import pytest

from minires.backend import backend
from minires.train.updates import adamw_step

pytest.importorskip("numba")


def run(name, real, n, steps=5, stride=1):
    rng = np.random.default_rng(0)
    p, m, v = rng.standard_normal(n).astype(real)[::stride], np.zeros(n, real)[::stride], np.zeros(n, real)[::stride]
    with backend(name):
        for t in range(1, steps + 1):
            g = rng.standard_normal(p.size).astype(real)
            adamw_step(p, g, m, v, 1e-2, 0.9, 0.999, 1e-8, 0.1, 1 / (1 - 0.9**t), 1 / (1 - 0.999**t))
    return p, m, v


@pytest.mark.parametrize("real,tolerance", [(np.float32, 2e-6), (np.float64, 1e-14)])
@pytest.mark.parametrize("n,stride", [(1, 1), (7, 1), (1000, 1), (30, 3), (0, 1)])
def test_both_backends_step_alike(n, stride, real, tolerance):
    for fast, slow in zip(run("numba", real, n, stride=stride), run("numpy", real, n, stride=stride)):
        assert fast.dtype == slow.dtype == real
        np.testing.assert_allclose(fast, slow, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_the_second_moment_keeps_its_digits(real):
    """1 - 0.999 taken in float32 is wrong by 1e-5, which a comparison with an absolute tolerance would not see."""
    _, _, v = run("numba", real, 200, steps=1)
    _, _, expected = run("numpy", real, 200, steps=1)
    np.testing.assert_allclose(v, expected, rtol=4 * np.finfo(real).eps, atol=0)


def test_the_kernel_really_answers():
    from minires.kernels import optim

    p, g, m, v = np.ones((4, 3), np.float32)
    assert optim.adamw_step(p, g, m, v, 0.1, 0.9, 0.99, 1e-8, 0.0, 1.0, 1.0) is None
    assert (p != 1).all()
    assert optim.adamw_step(p, g.astype(float), m, v, 0.1, 0.9, 0.99, 1e-8, 0.0, 1.0, 1.0) is NotImplemented
