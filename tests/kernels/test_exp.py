"""exp and its relatives: ulp errors against 30 digits, tails, and that calling loops become vector code."""

import numpy as np
import pytest

from minires.kernels import exp as module
from minires.kernels.exp import decay, exp, normal, sigmoid, tanh
from minires.kernels.exp_error import exp_all, measure_exp_error, sigmoid_all, tanh_all, worst
from minires.kernels.jit import njit

DTYPES = (np.float32, np.float64)


@njit
def normal_all(x, out, density):
    for i in range(x.size):
        out[i], density[i] = normal(x[i])


def apply(kernel, x):
    out = np.empty_like(x)
    kernel(x, out)
    return out


def ulps(value, x, true):
    """The largest error in ulp against mpmath, over results that are normal numbers."""
    mpmath = pytest.importorskip("mpmath")
    errors = []
    with mpmath.workdps(40):
        for v, a in zip(value, x):
            t = true(mpmath.mpf(float(a)))
            nearest = value.dtype.type(float(t))
            if np.isfinite(nearest) and abs(nearest) >= np.finfo(value.dtype).tiny:
                errors.append(float(abs(mpmath.mpf(float(v)) - t) / mpmath.mpf(float(np.spacing(abs(nearest))))))
    assert len(errors) > len(x) // 2
    return max(errors)


def random_arguments(dtype, reach, seed=0, n=1500):
    rng = np.random.default_rng(seed)
    small = rng.normal(size=n // 2) * 10 ** rng.uniform(-8, 0, n // 2)
    return np.concatenate([rng.uniform(-reach, reach, n), small]).astype(dtype)


@pytest.mark.parametrize(("dtype", "reach"), [(np.float32, 87.3), (np.float64, 708.0)])
def test_exp_is_within_two_ulp(dtype, reach):
    mp = pytest.importorskip("mpmath")
    x = random_arguments(dtype, reach)
    assert ulps(apply(exp_all, x), x, mp.exp) <= 1.25


@njit
def decay_all(x, out):
    for i in range(x.size):
        out[i] = decay(x[i])


@pytest.mark.parametrize(("dtype", "reach"), [(np.float32, 87.3), (np.float64, 708.0)])
def test_decay_is_exp_for_negative_numbers(dtype, reach):
    mp = pytest.importorskip("mpmath")
    x = -abs(random_arguments(dtype, reach))
    assert ulps(apply(decay_all, x), x, mp.exp) <= 1.25
    far = np.array([-np.inf, -1e30, -1.2 * reach, 0, np.nan], dtype)
    np.testing.assert_array_equal(apply(decay_all, far), np.array([0, 0, 0, 1, np.nan], dtype))


@pytest.mark.parametrize(("dtype", "reach"), [(np.float32, 87.0), (np.float64, 700.0)])
def test_sigmoid_and_tanh_keep_relative_accuracy(dtype, reach):
    mp = pytest.importorskip("mpmath")
    x = random_arguments(dtype, reach)
    assert ulps(apply(sigmoid_all, x), x, lambda v: 1 / (1 + mp.exp(-v))) <= 3
    assert ulps(apply(tanh_all, x), x, mp.tanh) <= 3


@pytest.mark.parametrize(("dtype", "reach"), [(np.float32, 13.0), (np.float64, 37.5)])
def test_normal_distribution_is_accurate_far_into_the_tail(dtype, reach):
    mp = pytest.importorskip("mpmath")
    x = random_arguments(dtype, reach)
    cumulative, density = np.empty_like(x), np.empty_like(x)
    normal_all(x, cumulative, density)
    assert ulps(cumulative, x, lambda v: mp.erfc(-v / mp.sqrt(2)) / 2) <= 10
    assert ulps(density, x, lambda v: mp.exp(-v * v / 2) / mp.sqrt(2 * mp.pi)) <= 3


@pytest.mark.parametrize("dtype", DTYPES)
def test_tails_and_special_values(dtype):
    low, high = np.log(np.finfo(dtype).tiny), np.log(np.finfo(dtype).max)
    x = np.array([-np.inf, -1e30, 2 * low, 0, -0.0, high + 1e-1, 1e30, np.inf, np.nan], dtype)
    np.testing.assert_array_equal(apply(exp_all, x), np.array([0, 0, 0, 1, 1, np.inf, np.inf, np.inf, np.nan], dtype))
    np.testing.assert_array_equal(apply(sigmoid_all, x)[[0, 3, 7, 8]], np.array([0, 0.5, 1, np.nan], dtype))
    np.testing.assert_array_equal(apply(tanh_all, x)[[0, 3, 7, 8]], np.array([-1, 0, 1, np.nan], dtype))
    cumulative, density = np.empty_like(x), np.empty_like(x)
    normal_all(x, cumulative, density)
    np.testing.assert_allclose(cumulative[[0, 3, 7, 8]], [0, 0.5, 1, np.nan], rtol=2 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(density[[0, 7, 8]], np.array([0, 0, np.nan], dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_below_the_normal_range_is_zero_or_denormal(dtype):
    tiny = np.finfo(dtype).tiny
    x = (np.log(tiny) - np.linspace(0.1, 40, 500)).astype(dtype)
    y = apply(exp_all, x)
    assert (y >= 0).all()
    assert (y < tiny).all()
    assert (np.diff(y) <= 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_largest_finite_results_do_not_overflow(dtype):
    x = np.log(np.finfo(dtype).max).astype(dtype) * dtype(1 - 4 * np.finfo(dtype).eps)
    y = apply(exp_all, np.full(3, x, dtype))
    np.testing.assert_allclose(y, np.exp(np.longdouble(x)).astype(dtype), rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("function", [exp, decay, sigmoid, tanh])
def test_calling_loops_are_vector_code(function):
    """A scalar call inside the loop would make every kernel that uses exp several times slower."""

    @njit
    def kernel(x, out):
        for i in range(x.size):
            out[i] = function(x[i])

    apply(kernel, np.ones(4, np.float32))
    (code,) = kernel.inspect_asm().values()
    packed = ("mulps", "fmadd213ps", "fmla\tv", "fmul\tv")
    assert any(name in code for name in packed)
    assert "expf" not in code


@pytest.mark.parametrize("twin", [exp, sigmoid, tanh])
def test_python_twins_agree_with_the_compiled_functions(twin):
    kernel = {exp: exp_all, sigmoid: sigmoid_all, tanh: tanh_all}[twin]
    x = np.linspace(-3, 3, 13)
    out = np.empty_like(x)
    kernel.py_func(x, out)
    np.testing.assert_allclose(apply(kernel, x), out, rtol=1e-14)


def test_python_twin_of_the_normal_distribution():
    x = np.linspace(-3, 3, 13)
    compiled, plain = np.empty((2, 13)), np.empty((2, 13))
    normal_all(x, *compiled)
    normal_all.py_func(x, *plain)
    np.testing.assert_allclose(compiled, plain, rtol=1e-13)


def test_coefficients_are_those_of_the_script():
    pytest.importorskip("mpmath")
    fit_exp = load_script("fit_exp")
    for name, given in (("float32", module.FLOAT32), ("float64", module.FLOAT64)):
        assert [float(c) for c in fit_exp.fit_exp(name)[0]] == list(given.exp_q)
        np.testing.assert_allclose([float(c) for c in fit_exp.fit_normal(name)[0]], given.normal_p, rtol=0, atol=1e-16)
        assert tuple(float(v) for v in fit_exp.log2_parts(name)) == (given.ln2_hi, given.ln2_lo)


def load_script(name):
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path

    path = Path(__file__).parents[2] / "tools" / f"{name}.py"
    if not path.exists():
        pytest.skip("the script is in the repository only")
    spec = spec_from_file_location(name, path)
    script = module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_measured_errors():
    results = [measure_exp_error(dtype, 20_000) for dtype in ("float32", "float64")]
    assert all(0.4 < r["ours"].max() <= 1.25 for r in results)
    again = measure_exp_error("float32", 20_000)
    np.testing.assert_array_equal(again["ours"], results[0]["ours"])
    middles, largest = worst(results[0]["x"], results[0]["ours"], 50)
    assert middles.shape == largest.shape == (50,)
    assert largest.max() == results[0]["ours"].max()
