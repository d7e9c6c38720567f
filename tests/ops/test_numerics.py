"""Values at the edges: NaN, infinity, masks, empty arrays, no dimensions at all. No warning, and the right number."""

import math
import warnings

import numpy as np
import pytest

import minires
from minires import Tensor, ops
from minires.ops.normal import P, normal_cdf

pytestmark = pytest.mark.filterwarnings("error")
BACKENDS = pytest.mark.parametrize("backend", ["numpy", "numba"])
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])

UNARY = [
    "neg", "exp", "log", "sqrt", "tanh", "sigmoid", "sin", "cos", "abs", "clip", "relu", "gelu", "gelu_tanh", "silu",
    "softmax", "log_softmax", "sum", "mean", "max", "min", "var", "logsumexp", "layernorm", "rmsnorm",
]  # fmt: skip
BINARY = ["add", "sub", "mul", "div", "power", "maximum", "minimum"]


def value_and_gradient(f, x):
    leaf = Tensor(x, requires_grad=True)
    y = f(leaf)
    y.backward(np.ones(y.shape))
    return y.data, leaf.grad


@BACKENDS
@DTYPES
@pytest.mark.parametrize("name", UNARY)
def test_nan_in_nan_out(name, dtype, backend):
    """One NaN among numbers reaches the result, and the gradient at its place, without a warning."""
    x = np.array([0.5, np.nan, 2.0, 0.25], dtype)
    with minires.backend(backend):
        y, dx = value_and_gradient(getattr(ops, name), x)
    assert np.isnan(y).any() and y.dtype == dtype
    assert np.isnan(dx[1]) or name in ("neg", "sum", "mean", "clip")  # their derivative does not depend on x


@pytest.mark.parametrize("name", BINARY)
def test_nan_in_nan_out_for_two(name):
    x, other = np.array([0.5, np.nan]), np.array([2.0, 3.0])
    for f in (lambda a: getattr(ops, name)(a, other), lambda a: getattr(ops, name)(other, a)):
        y, dx = value_and_gradient(f, x)
        assert np.isnan(y[1]) and not np.isnan(y[0])
        assert np.isnan(dx[1]) or name in ("add", "sub", "mul", "div")


@BACKENDS
@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("special", [np.inf, -np.inf])
def test_infinity_makes_no_warning(name, special, backend):
    with minires.backend(backend):
        value_and_gradient(getattr(ops, name), np.array([0.5, special, 2.0]))


@BACKENDS
@DTYPES
def test_field_15_softmax_of_large_numbers(backend, dtype):
    """softmax of [1000, 1001], [-1000, -1001], [1e4, 0]: finite, rows sum to 1. Cross-entropy with p = 0 is finite."""
    x = np.array([[1000, 1001], [-1000, -1001], [1e4, 0]], dtype)
    with minires.backend(backend):
        p, dx = value_and_gradient(lambda t: ops.softmax(t) ** 2, x)
        loss, dz = value_and_gradient(lambda t: ops.cross_entropy(t, np.array([0, 1, 1])), x)
        logp = ops.log_softmax(x).data
    p = np.sqrt(p)
    np.testing.assert_allclose(p.sum(-1), 1, rtol=1e-6)
    assert np.isfinite(dx).all() and np.isfinite(loss) and np.isfinite(dz).all()
    np.testing.assert_allclose(logp[0], [-math.log1p(math.e), -math.log1p(1 / math.e)], rtol=1e-4)
    np.testing.assert_allclose(loss, (math.log1p(math.e) + math.log1p(math.e) + 1e4) / 3, rtol=1e-6)
    np.testing.assert_allclose(dz.sum(-1), 0, atol=1e-6)


@BACKENDS
@DTYPES
def test_masked_entries_are_exact_zeros(backend, dtype):
    x = np.array([[0.3, -np.inf, 1.2], [-np.inf, -np.inf, -np.inf]], dtype)
    with minires.backend(backend):
        p, dx = value_and_gradient(lambda t: ops.softmax(t) ** 2, x)
        assert ops.log_softmax(x).data[1].tolist() == [-np.inf] * 3
    assert p[0, 1] == 0 and not p[1].any()
    assert dx[0, 1] == 0 and not dx[1].any()
    assert dx[0, 0] != 0


@BACKENDS
@DTYPES
@pytest.mark.parametrize("dropout_p", [0.0, 0.5])
def test_field_16_a_query_that_may_look_nowhere(backend, dtype, dropout_p):
    """A row whose keys are all masked: output and gradient exactly 0, no warning; the other rows as without it."""
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 2, 5, 4)).astype(dtype)
    mask = np.ones((5, 5), bool)
    mask[2] = False
    leaves = [Tensor(x, requires_grad=True) for x in (q, k, v)]
    with minires.backend(backend):
        y = ops.attention(*leaves, mask=mask, causal=True, dropout_p=dropout_p, rng=np.random.default_rng(1))
        y.backward(rng.standard_normal(y.shape))
        free = ops.attention(q, k, v, causal=True, dropout_p=dropout_p, rng=np.random.default_rng(1)).data
    assert not y.data[:, 2].any() and not leaves[0].grad[:, 2].any()
    np.testing.assert_allclose(y.data[:, [0, 1, 3, 4]], free[:, [0, 1, 3, 4]], rtol=1e-5, atol=1e-6)
    assert all(np.isfinite(x.grad).all() for x in leaves)


@BACKENDS
def test_all_keys_masked_gives_zero_everywhere(backend):
    x = Tensor(np.random.default_rng(0).standard_normal((2, 3, 12)), requires_grad=True)
    with minires.backend(backend):
        y = ops.self_attention(x, heads=2, mask=np.zeros((3, 3), bool))
        y.backward(np.ones(y.shape))
    assert not y.data.any() and not x.grad.any()


@BACKENDS
@DTYPES
def test_field_17_layernorm_of_a_constant_row(backend, dtype):
    """A constant row: the output is β, and the gradient finite."""
    x = np.array([[3, 3, 3, 3], [1, 2, 3, 4]], dtype)
    gamma, beta = np.array([1, -2, 3, 0.5], dtype), np.array([0.1, 0.2, 0.3, 0.4], dtype)
    with minires.backend(backend):
        y, dx = value_and_gradient(lambda t: ops.layernorm(t, gamma, beta), x)
    np.testing.assert_array_equal(y[0], beta)
    assert np.isfinite(dx).all()


@BACKENDS
def test_layernorm_far_from_zero_keeps_its_digits(backend):
    """Two passes: the variance of x + 1e6 is that of x, although the mean of squares would lose all its digits."""
    x = np.random.default_rng(0).standard_normal((3, 64))
    with minires.backend(backend):
        far, near = ops.layernorm(x + 1e6).data, ops.layernorm(x).data
    np.testing.assert_allclose(far, near, atol=1e-8)


@BACKENDS
@pytest.mark.parametrize("shape", [(0, 4), (2, 0, 4), (0, 0)])
def test_field_14_empty_arrays(shape, backend):
    """No rows, or no columns: every block returns empty arrays, and zero gradients for its parameters."""
    gamma, weight = np.ones(shape[-1]), np.ones((shape[-1], 3))
    with minires.backend(backend):
        for f in (ops.softmax, ops.log_softmax, ops.gelu, ops.relu, lambda t: ops.layernorm(t, gamma, gamma)):
            y, dx = value_and_gradient(f, np.zeros(shape))
            assert y.shape == dx.shape == shape
        w = Tensor(weight, requires_grad=True)
        for f in (ops.matmul, ops.linear):
            y = f(np.zeros(shape), w)
            y.backward(np.ones(y.shape))
            assert y.shape == (*shape[:-1], 3)
        assert not w.grad.any()


def test_field_14_no_dimensions():
    """0-d scalars stay 0-d through forward and backward, and gradients of shared ones add up."""
    x = Tensor(np.array(2.0), requires_grad=True)
    y = x * 3 + ops.exp(x) * x + x / x - ops.relu(x) ** 2
    y.backward()
    assert y.shape == () == x.grad.shape
    assert isinstance(x.grad, np.ndarray) and isinstance(y.data, np.ndarray)
    np.testing.assert_allclose(x.grad, 3 + 3 * math.exp(2) - 4, rtol=1e-14)


@BACKENDS
def test_field_27_gelu_far_out(backend):
    """GELU at ±50 and beyond: x and 0, and slope 1 and 0."""
    x = np.array([-1e4, -50.0, -8.0, 0.0, 8.0, 50.0, 1e4])
    with minires.backend(backend):
        for f in (ops.gelu, ops.gelu_tanh, ops.silu):
            y, dx = value_and_gradient(f, x)
            np.testing.assert_allclose(y, np.where(x > 0, x, 0), atol=3e-3)
            np.testing.assert_allclose(y[[0, 1, 5, 6]], [0, 0, 50, 1e4], atol=1e-18)
            np.testing.assert_allclose(dx, [0, 0, 0, 0.5, 1, 1, 1], atol=3e-3)


def test_normal_cdf_keeps_its_digits_in_both_tails():
    """Against the standard library's erfc, whose argument x/√2 is rounded: that costs up to 2x² ulp."""
    x = np.concatenate([np.linspace(-37, 8, 9001), [0.0, 1e-300]])
    exact = np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in x])
    error = np.abs(normal_cdf(x) - exact) / np.spacing(exact)
    assert (error <= 8 + 2 * x * x).all()
    assert error[np.abs(x) < 1].max() <= 8
    np.testing.assert_array_equal(normal_cdf(np.array([np.inf, -np.inf, np.nan])), [1, 0, np.nan])


def test_normal_cdf_uses_the_fitted_coefficients():
    """The NumPy reference and the numba kernels read the same table."""
    from minires.kernels.exp import FLOAT64

    assert tuple(map(float, FLOAT64.normal_p)) == P


def test_no_gradient_function_forgets_the_upstream_dtype():
    """A float64 upstream gradient does not turn a float32 graph into float64."""
    x = Tensor(np.ones((2, 3), np.float32), requires_grad=True)
    hidden = (x * 2).retain_grad()
    y = ops.layernorm(hidden + np.float32(1)) @ np.ones((3, 2), np.float32)
    y.backward(np.ones((2, 2), np.float64))
    assert y.dtype == hidden.grad.dtype == x.grad.dtype == np.float32


def test_power_at_zero():
    """x ** 2, x ** 1 and x ** 0 at 0 have slopes 0, 1 and 0; x ** y has slope 0 in y there."""
    for exponent, slope in ((2, 0.0), (1, 1.0), (0, 0.0)):
        _, dx = value_and_gradient(lambda t, n=exponent: t**n, np.zeros(1))
        assert dx[0] == slope
    _, dy = value_and_gradient(lambda t: Tensor(np.zeros(1)) ** t, np.ones(1))
    assert dy[0] == 0


def test_ties_share_the_gradient():
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    np.testing.assert_allclose(value_and_gradient(lambda t: t.max(axis=1), x)[1], [[0, 0.5, 0.5], [1 / 3] * 3])
    np.testing.assert_allclose(value_and_gradient(lambda t: ops.maximum(t, 2.0), x)[1], [[0, 1, 1], [0.5] * 3])


def test_overflow_in_backward_is_not_a_warning():
    x = Tensor(np.array([1e300]), requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ops.sqrt(x * 1e-300).backward(np.array([1e300]))
        (ops.exp(x * 0.0) * 1e300).backward(np.array([1e300]))
    assert np.isinf(x.grad).all() or np.isnan(x.grad).all()
