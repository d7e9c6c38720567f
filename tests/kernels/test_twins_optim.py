"""AdamW and the norm for clipping: the kernels against the NumPy formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest

from minires.backend import backend
from minires.train import clip_gradients, global_norm
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


# ---------------------------------------------------------------------------------------------- the norm for clipping

REALS = [np.float32, np.float64]
BACKENDS = ["numpy", "numba"]


def exact_norm(arrays):
    """Divided by the largest entry first, and summed without rounding."""
    entries = [float(x) for a in arrays for x in a.ravel()]
    top = max(map(abs, entries), default=0.0) or 1.0
    return top * math.sqrt(math.fsum((x / top) ** 2 for x in entries))


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("real,tolerance", [(np.float32, 1e-6), (np.float64, 1e-14)])
@pytest.mark.parametrize("scale", [1e-25, 1e-12, 1.0, 1e12, 1e25])
@pytest.mark.parametrize("shapes", [[(1,)], [(7,), (3, 5)], [(64, 65), (), (0,), (1025,)], [(0, 3)], []], ids=str)
def test_the_norm(shapes, scale, real, tolerance, name):
    """Squares of 1e25 and of 1e-25 are beyond float32."""
    rng = np.random.default_rng(0)
    arrays = [(scale * rng.standard_normal(shape)).astype(real) for shape in shapes]
    with backend(name):
        assert global_norm(arrays) == pytest.approx(exact_norm(arrays), rel=tolerance, abs=0)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("real", REALS)
def test_the_norm_of_views(real, name):
    whole = np.random.default_rng(0).standard_normal((9, 14)).astype(real)
    read_only = np.broadcast_to(real(0.5), (3, 5))
    for view in (whole.T, whole[::2, ::-3], whole[:, 3], whole[4:4], read_only):
        with backend(name):
            assert global_norm([view]) == pytest.approx(exact_norm([view]), rel=1e-6)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("where", [0, 5, 66])
def test_the_norm_is_not_finite_where_an_entry_is_not(where, real, name):
    for bad in (np.nan, np.inf, -np.inf):
        g = np.ones(67, real)
        g[where] = bad
        with backend(name):
            assert not np.isfinite(global_norm([np.ones(3, real), g]))


@pytest.mark.parametrize("name", BACKENDS)
def test_a_norm_beyond_float64_is_infinite_and_no_error(name):
    with backend(name):
        assert global_norm([np.full(3, 1e200), np.full(3, 1e200)]) == np.inf
        assert global_norm([np.full(3, 5e153)] * 4) == pytest.approx(math.sqrt(12) * 5e153)  # its square is beyond


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("real", REALS)
def test_clipping_with_either_backend(real, name):
    gradients = [np.full((2, 3), 3e20, real), np.full(10, -4e20, real), None]
    with backend(name):
        assert clip_gradients(gradients, 0.5) == pytest.approx(math.sqrt(6 * 9 + 10 * 16) * 1e20, rel=1e-6)
        assert global_norm(gradients) == pytest.approx(0.5, rel=1e-6)


def test_the_kernel_of_the_norm_really_answers():
    from minires.kernels import optim

    for real in REALS:
        assert optim.sum_of_squares(np.arange(4, dtype=real).reshape(2, 2).T) == 14
    assert optim.sum_of_squares(np.arange(4)) is NotImplemented
    assert optim.sum_of_squares(np.ones(0)) is NotImplemented
