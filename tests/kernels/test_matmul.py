"""The matmul ladder: every rung, shape, layout and format against NumPy; threads, forks, wrong input."""

import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import types

import minires
from minires.kernels import matmul as top
from minires.kernels.gemm import compiled, work_bytes
from minires.kernels.ladder import LADDER, measure
from minires.kernels.matmul import matmul, matmul_simd, matmul_threads
from minires.kernels.vector import UNITS, host_unit
from minires.messages import DtypeError, ShapeError
from minires.models import DecoderLM
from minires.train.loop import loss_and_gradients

DTYPES = (np.float32, np.float64)
# Around tiles (6, 12 and 16), vectors, and the edges of the blocks in ladder.py and gemm.py.
SIZES = st.one_of(st.integers(0, 40), st.sampled_from([63, 64, 65, 95, 96, 97, 145, 160, 193]))
LAYOUTS = ("rows", "columns", "every second", "backwards", "inside")


def laid_out(x, layout):
    """The same numbers in another place: by columns, with gaps, backwards, in the middle of a larger array."""
    if layout == "columns":
        return np.asfortranarray(x)
    if layout == "every second":
        return np.repeat(np.repeat(x, 2, 0), 2, 1)[::2, ::2]
    if layout == "backwards":
        return np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]
    if layout == "inside":
        room = np.full((x.shape[0] + 2, x.shape[1] + 5), np.nan, x.dtype)
        room[1:-1, 2:-3] = x
        return room[1:-1, 2:-3]
    return x


def assert_product(c, a, b):
    """Within the bound for sums of k products in any order: k eps |a||b|."""
    wide = np.longdouble if c.dtype == np.float64 else np.float64
    bound = (a.shape[1] + 2) * np.finfo(c.dtype).eps * (np.abs(a).astype(wide) @ np.abs(b).astype(wide))
    error = np.abs(c.astype(wide) - a.astype(wide) @ b.astype(wide))
    assert c.shape == (a.shape[0], b.shape[1])
    assert (error <= bound).all()


@pytest.mark.parametrize("name", LADDER)
@settings(max_examples=40, deadline=None)
@given(st.tuples(SIZES, SIZES, SIZES), st.sampled_from(LAYOUTS), st.sampled_from(LAYOUTS), st.sampled_from(DTYPES))
def test_every_rung_is_the_matrix_product(name, sizes, layout_a, layout_b, dtype):
    m, k, n = sizes
    rng = np.random.default_rng(m * 10_000 + k * 100 + n)
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    c = LADDER[name](laid_out(a, layout_a), laid_out(b, layout_b))
    assert c.dtype == dtype
    assert_product(c, a, b)


@pytest.mark.parametrize("name", LADDER)
def test_sizes_beyond_one_block(name):
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((150, 800)).astype(np.float32), rng.standard_normal((800, 601)).astype(np.float32)
    assert_product(LADDER[name](a, b), a, b)
    assert_product(LADDER[name](b.T, a.T), b.T, a.T)


def test_more_columns_than_one_block_of_b():
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((7, 401)), rng.standard_normal((401, 2100))
    assert_product(matmul_simd(a, b), a, b)


@pytest.mark.parametrize("name", LADDER)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_out_is_filled_and_returned_and_inputs_stay(name, layout):
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((13, 9)), rng.standard_normal((9, 11))
    before = a.copy(), b.copy()
    out = laid_out(np.full((13, 11), np.nan), layout)
    assert LADDER[name](a, b, out) is out
    assert_product(np.ascontiguousarray(out), a, b)
    np.testing.assert_array_equal(a, before[0])
    np.testing.assert_array_equal(b, before[1])
    if layout == "inside":  # nothing was written beside it
        assert np.isnan(out.base[0]).all()
        assert np.isnan(out.base[:, -3:]).all()
        assert np.isnan(out.base[:, :2]).all()


@pytest.mark.parametrize("name", LADDER)
def test_out_may_be_an_input(name):
    a = np.random.default_rng(4).standard_normal((20, 20))
    expected = a @ a
    np.testing.assert_allclose(LADDER[name](a, a, out=a), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", LADDER)
def test_nan_and_inf_reach_the_result(name):
    a, b = np.ones((9, 20), np.float32), np.ones((20, 18), np.float32)
    a[3, 7], a[5, 2] = np.nan, np.inf
    c = LADDER[name](a, b)
    assert np.isnan(c[3]).all()
    assert np.isposinf(c[5]).all()
    assert (np.delete(c, (3, 5), 0) == 20).all()


@pytest.mark.parametrize("name", LADDER)
def test_read_only_input(name):
    a = np.arange(12.0).reshape(3, 4)
    a.flags.writeable = False
    np.testing.assert_allclose(LADDER[name](a, a.T), a @ a.T)


@pytest.mark.parametrize("name", LADDER)
def test_wrong_input_is_explained(name):
    rung, x = LADDER[name], np.ones((3, 4), np.float32)
    with pytest.raises(DtypeError, match=r"float32 or all in float64; got a = a int64 array of shape \(3, 4\)"):
        rung(np.ones((3, 4), int), np.ones((4, 3), int))
    with pytest.raises(DtypeError, match="Mixed"):
        rung(x, np.ones((4, 3)))
    with pytest.raises(ShapeError, match=r"\(m, k\) and \(k, n\).*transpose"):
        rung(x, x)
    with pytest.raises(ShapeError, match=r"out must be float32 of shape \(3, 3\)"):
        rung(x, x.T, np.empty((3, 4), np.float32))


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
@pytest.mark.parametrize("real", ["float32", "float64"])
def test_the_plan_of_every_vector_unit_is_right(unit, real):
    """LLVM cuts registers that the machine does not have into smaller ones: slow, but the same result."""
    if unit != host_unit() and (real == "float64" or unit.name in ("AVX-512", "AVX2")):
        pytest.skip("half of the plans show the idea, and each costs seconds to compile")
    product, work = compiled(unit, real), np.empty(work_bytes(), np.uint8)
    rng = np.random.default_rng(5)
    for m, k, n in ((1, 1, 1), (13, 21, 39), (100, 33, 170)):
        a, b = rng.standard_normal((m, k)).astype(real), rng.standard_normal((k, n)).astype(real)
        for x in (a, np.asfortranarray(a)):
            for y in (b, np.asfortranarray(b)):
                c = np.full((m, n), np.nan, real)
                product(x, y, c, 1, 0, 0, 0, work)
                assert_product(c, a, b)


def test_threads_do_not_change_a_bit():
    rng = np.random.default_rng(6)
    for m, k, n in ((301, 200, 150), (150, 300, 333)):
        a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
        one = matmul_threads(a, b, threads=1)
        for threads in (2, 3, 7):
            np.testing.assert_array_equal(matmul_threads(a, b, threads=threads), one)


def test_four_python_threads_at_once():
    rng = np.random.default_rng(7)
    pairs = [rng.standard_normal((2, 130, 130)) for _ in range(4)]
    expected = [matmul_simd(a, b) for a, b in pairs]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(10):
            for c, e in zip(pool.map(lambda p: matmul_threads(*p, threads=2), pairs), expected):
                np.testing.assert_array_equal(c, e)


def product_in_child(a, queue):
    queue.put(matmul_threads(a, a, threads=2))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_can_multiply():
    a = np.random.default_rng(8).standard_normal((150, 150))
    here = matmul_threads(a, a, threads=2)  # the parent has its threads running
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=product_in_child, args=(a, queue))
    child.start()
    np.testing.assert_array_equal(queue.get(timeout=30), here)
    child.join(30)
    assert child.exitcode == 0


BATCHES = [
    ((2, 3, 5, 7), (2, 3, 7, 4)), ((3, 5, 7), (7, 2)), ((7,), (7,)), ((5, 7), (7,)), ((7,), (3, 7, 2)),
    ((3, 5, 7), (7,)), ((4, 1, 5, 7), (3, 7, 2)), ((5, 7), (3, 7, 2)), ((0, 5, 7), (0, 7, 2)), ((2, 0, 7), (7, 3)),
    ((3, 5, 0), (3, 0, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), BATCHES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_matmul_takes_what_numpy_takes(left, right, dtype):
    rng = np.random.default_rng(9)
    a, b = rng.standard_normal(left).astype(dtype), rng.standard_normal(right).astype(dtype)
    c = matmul(a, b)
    assert np.shape(c) == np.shape(a @ b)
    assert c.dtype == dtype
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)


def test_heads_are_multiplied_where_they_lie():
    x = np.random.default_rng(10).standard_normal((2, 6, 3 * 4)).astype(np.float32)
    heads = x.reshape(2, 6, 3, 4).swapaxes(1, 2)
    scores = matmul(heads, heads.swapaxes(-1, -2))
    np.testing.assert_allclose(scores, heads @ heads.swapaxes(-1, -2), rtol=1e-5, atol=1e-5)
    out = np.empty((2, 6, 3, 4), np.float32)
    assert matmul(scores, heads, out.swapaxes(1, 2)).base is not None
    np.testing.assert_allclose(out.swapaxes(1, 2), scores @ heads, rtol=1e-4, atol=1e-4)


def test_matmul_explains_wrong_stacks():
    with pytest.raises(ShapeError, match="swap the last two axes"):
        matmul(np.ones((2, 3, 4)), np.ones((2, 3, 4)))
    with pytest.raises(ShapeError, match="batch axes"):
        matmul(np.ones((2, 3, 4)), np.ones((3, 4, 3)))
    with pytest.raises(ShapeError, match=r"write `\*`"):
        matmul(np.array(2.0), np.ones(3))
    with pytest.raises(DtypeError):
        matmul(np.ones((2, 3, 4), int), np.ones((4, 3), int))


def test_measure_returns_a_rate_for_every_step():
    rates = measure({"simd": matmul_simd, "numpy": np.matmul}, 32, rounds=2)
    assert set(rates) == {"simd", "numpy"}
    assert all(rate > 0 for rate in rates.values())


def test_one_function_serves_every_layout():
    """Numba would compile again for each mixture of layouts, seconds each."""
    product = compiled(host_unit(), "float64")
    assert len(product.signatures) == 1
    assert product.signatures[0][0] == types.Array(types.float64, 2, "A", readonly=True)


@pytest.mark.parametrize(
    ("left", "right", "out"),
    [((3,), (3, 4), np.zeros((5, 4))), ((3,), (3, 4), np.zeros(4, int)), ((2, 3, 4), (4, 5), np.zeros((6, 5)))],
)
def test_matmul_refuses_an_array_that_does_not_fit_the_result(left, right, out):
    with pytest.raises(ShapeError, match="out must be float64"):
        matmul(np.ones(left), np.ones(right), out)


@pytest.mark.parametrize(
    ("left", "right"), [((2, 3, 0), (0, 4)), ((2, 0, 3), (3, 4)), ((2, 3, 4), (4, 0)), ((0, 2, 3), (3, 2))]
)
def test_matmul_of_nothing(left, right):
    a, b = np.ones(left), np.ones(right)
    out = np.full(np.matmul(a, b).shape, 7.0)
    np.testing.assert_array_equal(matmul(a, b), np.matmul(a, b))
    assert matmul(a, b, out) is out and not out.any()


def test_the_engine_can_multiply_on_the_top_rung(monkeypatch):
    """The same loss and gradients of a model as with NumPy, all products through `matmul`."""
    calls = []
    monkeypatch.setattr(top, "matmul_simd", lambda *args: calls.append(args) or matmul_simd(*args))
    model = DecoderLM(7, d=8, heads=2, blocks=1, context=5, rng=0)
    x, y = model.example(3)
    with minires.backend("numpy"):
        expected = loss_and_gradients(model, x, y, model.parameters())
        assert not calls
        with minires.use(**top.ENGINE):
            loss, gradients = loss_and_gradients(model, x, y, model.parameters())
    assert len(calls) >= 10 and loss == pytest.approx(expected[0], rel=1e-5)
    for got, right in zip(gradients, expected[1], strict=True):
        np.testing.assert_allclose(got, right, atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3)])
def test_matmul_refuses_an_array_that_is_read_only(shape):
    out = np.zeros(shape)
    out.flags.writeable = False
    with pytest.raises(ShapeError, match="read-only"):
        matmul(np.ones(shape), np.ones((3, 3)), out)
