"""Every numba twin against the NumPy function that it stands for: values, saved tuples, gradients, odd inputs."""

from __future__ import annotations

import re

import numpy as np
import pytest

import minires.ops
from minires.backend import TWINS, backend
from minires.tensor import OPS

pytest.importorskip("numba")
REALS = (np.float32, np.float64)
BY_ROWS = [name for name, file in TWINS.items() if file not in ("attention", "linear")]
ELEMENTWISE = ["relu", "gelu", "gelu_tanh", "silu"]
ONE_INPUT = ["softmax", "log_softmax", "layernorm", "rmsnorm", *ELEMENTWISE]
SHAPES = [(1, 1), (3, 5), (2, 3, 17), (7, 64), (2, 2, 4, 33), (5,)]


def draw(rng, shape, real):
    return (2 * rng.standard_normal(shape)).astype(real)


def inputs_of(name, rng, shape, real):
    """Arguments for operation `name` whose main input has this shape."""
    x, d = draw(rng, shape, real), shape[-1]
    if name == "layernorm":
        return x, draw(rng, d, real), draw(rng, d, real)
    if name == "rmsnorm":
        return x, draw(rng, d, real)
    if name == "cross_entropy":
        return x, rng.integers(0, d, shape[:-1])
    if name == "embedding":
        return draw(rng, (9, d), real), rng.integers(0, 9, shape[:-1])
    return (x,)


def near(ours, reference, real):
    """Equal up to rounding: 2e-5 in float32, 1e-12 in float64, relative to the largest entry."""
    ours, reference = [np.asarray(a) if isinstance(a, np.generic) else a for a in (ours, reference)]
    assert type(ours) is type(reference), (type(ours), type(reference))
    if not isinstance(reference, np.ndarray):
        assert ours == reference
        return
    assert (ours.shape, ours.dtype) == (reference.shape, reference.dtype)
    tolerance = 2e-5 if real is np.float32 else 1e-12
    top = np.max(np.abs(reference), initial=1, where=np.isfinite(reference))
    np.testing.assert_allclose(ours, reference, rtol=tolerance, atol=tolerance * top)


def near_all(ours, reference, real):
    ours, reference = [r if isinstance(r, tuple) else (r,) for r in (ours, reference)]
    assert len(ours) == len(reference)
    for mine, theirs in zip(ours, reference):
        near(mine, theirs, real)


def agree(name, arguments, real, **options):
    """Forward and backward of both implementations, and each backward on the other's `saved`."""
    op = OPS[name]
    before = [a.copy() for a in arguments]
    expected, saved = op.reference[0](*arguments, **options)
    ours, our_saved = op.forward(*arguments, **options)
    near(ours, np.asarray(expected), real)
    near_all(our_saved, saved, real)
    dy = draw(np.random.default_rng(1), ours.shape, real)
    gradients = op.reference[1](dy, saved)
    for source in (saved, our_saved):
        near_all(op.backward(dy, source), gradients, real)
    near_all(op.reference[1](dy, our_saved), gradients, real)
    for a, b in zip(arguments, before):
        np.testing.assert_array_equal(a, b)


@pytest.fixture(autouse=True)
def numba_on():
    with backend("numba"):
        yield


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", BY_ROWS)
def test_twin_equals_reference(name, shape, real):
    agree(name, inputs_of(name, np.random.default_rng(0), shape, real), real)


@pytest.mark.parametrize("name", BY_ROWS)
def test_the_twin_really_answers(name):
    """A twin that always declined would pass every comparison."""
    op, arguments = OPS[name], inputs_of(name, np.random.default_rng(0), (4, 6), np.float32)
    y, saved = op.reference[0](*arguments)
    answers = [op.forward.load(*arguments), op.backward.load(np.ones_like(y), saved)]
    assert sum(answer is not NotImplemented for answer in answers) == (1 if name == "embedding" else 2)


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("name", [n for n in BY_ROWS if n != "embedding"])
def test_inputs_that_are_not_contiguous(name, real):
    x, *others = inputs_of(name, np.random.default_rng(0), (4, 6, 10), real)
    agree(name, (x.transpose(1, 0, 2), *[o.T if o.shape == (4, 6) else o for o in others]), real)
    agree(name, (x[::2, ::-1], *[o[::2, ::-1] if o.shape == (4, 6) else o for o in others]), real)


@pytest.mark.parametrize("name", ONE_INPUT)
def test_upstream_gradients_that_are_not_contiguous(name):
    arguments = inputs_of(name, np.random.default_rng(0), (6, 10), np.float64)
    y, saved = OPS[name].forward(*arguments)
    dy = draw(np.random.default_rng(1), (10, 6), np.float64).T
    near_all(OPS[name].backward(dy, saved), OPS[name].reference[1](dy, saved), np.float64)
    one = np.broadcast_to(np.float64(0.5), y.shape)  # what the gradient of a sum looks like
    near_all(OPS[name].backward(one, saved), OPS[name].reference[1](one, saved), np.float64)


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("name", ONE_INPUT)
def test_nan_in_nan_out(name, real):
    """A NaN spoils exactly what it spoils in NumPy: its row, or its element."""
    x, *others = inputs_of(name, np.random.default_rng(0), (3, 40), real)
    for where in (0, 7, 39):
        bad = x.copy()
        bad[1, where] = np.nan
        ours, expected = OPS[name].forward(bad, *others)[0], OPS[name].reference[0](bad, *others)[0]
        np.testing.assert_array_equal(np.isnan(ours), np.isnan(expected))
        bad[1, where] = -np.nan
        np.testing.assert_array_equal(np.isnan(OPS[name].forward(bad, *others)[0]), np.isnan(expected))


@pytest.mark.parametrize("real", REALS)
def test_minus_infinity_gives_exact_zeros(real):
    x = draw(np.random.default_rng(0), (3, 37), real)
    x[0, 5:] = x[1] = x[2, ::2] = -np.inf
    p, saved = OPS["softmax"].forward(x)
    assert not p[0, 5:].any() and not p[1].any() and not p[2, ::2].any()
    np.testing.assert_allclose(p.sum(-1), [1, 0, 1], rtol=1e-6)
    dx = OPS["softmax"].backward(draw(np.random.default_rng(1), x.shape, real), saved)
    assert not dx[x == -np.inf].any()
    y, expected = OPS["log_softmax"].forward(x)[0], OPS["log_softmax"].reference[0](x)[0]
    np.testing.assert_allclose(y, expected, rtol=1e-5)


@pytest.mark.parametrize("real", REALS)
def test_huge_values(real):
    for row in ([1000, 1001], [-1000, -1001], [1e4, 0], [3e38, -3e38]):
        x = np.array([row], real)
        for name in ("softmax", "log_softmax"):
            with np.errstate(over="ignore"):
                near(OPS[name].forward(x)[0], OPS[name].reference[0](x)[0], real)
    ends = np.array([-np.inf, -1e30, -50, -12, -1e-30, 0, 1e-30, 12, 50, 1e30, np.inf, np.nan], real)
    for name in ELEMENTWISE:
        near(OPS[name].forward(ends)[0], OPS[name].reference[0](ends)[0], real)
        agree(name, (ends[2:-3],), real)
    assert OPS["gelu"].forward(np.array([-50, 50], real))[0].tolist() == [0, 50]


@pytest.mark.parametrize("real", REALS)
def test_cross_entropy_ignores_and_smooths(real):
    rng = np.random.default_rng(0)
    logits, targets = draw(rng, (4, 5, 11), real), rng.integers(0, 11, (4, 5))
    targets[0, :3] = targets[2] = -100
    agree("cross_entropy", (logits, targets), real, label_smoothing=0.1)
    agree("cross_entropy", (logits, targets.astype(np.int32)), real)
    targets[targets == -100] = 7
    agree("cross_entropy", (logits, targets), real, ignore_index=7)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "uint64", ">i8"])
def test_cross_entropy_with_targets_of_any_integer(dtype):
    logits, targets = draw(np.random.default_rng(0), (6, 11), np.float64), np.arange(6).astype(dtype)
    agree("cross_entropy", (logits, targets), np.float64, ignore_index=3)
    agree("cross_entropy", (logits, targets), np.float64, ignore_index=2**63)


def test_cross_entropy_with_targets_that_are_views():
    logits, whole = draw(np.random.default_rng(0), (3, 4, 11), np.float32), np.arange(24).reshape(4, 6) % 11
    read_only = np.broadcast_to(whole[0, :4], (3, 4))
    for targets in (whole[:, ::2].T, whole[3:0:-1, 1:5], read_only):
        agree("cross_entropy", (logits, targets), np.float32, ignore_index=2)


def test_constant_rows_of_a_layernorm():
    x = np.full((3, 16), 5, np.float32)
    y, saved = OPS["layernorm"].forward(x, np.full(16, 2, np.float32), np.full(16, 0.25, np.float32))
    assert (y == 0.25).all()
    assert np.isfinite(OPS["layernorm"].backward(np.ones_like(x), saved)[0]).all()


@pytest.mark.parametrize("name", ["layernorm", "rmsnorm"])
def test_norms_without_gain(name):
    agree(name, (draw(np.random.default_rng(0), (5, 12), np.float32),), np.float32)


@pytest.mark.parametrize("odd", [np.ones((2, 3), complex), np.ones((2, 3), int), np.ones((0, 4)), np.ones((4, 0))])
@pytest.mark.parametrize("name", [n for n in BY_ROWS if n not in ("cross_entropy", "embedding")])
def test_what_a_twin_declines_goes_to_the_reference(name, odd):
    try:
        expected, _ = OPS[name].reference[0](odd)
    except TypeError as problem:  # erf of complex numbers, say
        with pytest.raises(TypeError, match=re.escape(str(problem))):
            OPS[name].forward(odd)
        return
    y, _ = OPS[name].forward(odd)
    np.testing.assert_array_equal(y, expected)
    assert y.dtype == expected.dtype


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_a_single_number(name):
    agree(name, (np.array(0.7),), np.float64)


def test_another_axis():
    x = draw(np.random.default_rng(0), (3, 4, 5), np.float32)
    for name in ("softmax", "log_softmax"):
        agree(name, (x,), np.float32, axis=1)
        agree(name, (x,), np.float32, axis=2)


def test_messages_are_the_same_on_both_backends():
    x = minires.Tensor(np.ones((2, 3), np.float32))
    for call in (
        lambda: minires.layernorm(x, np.ones(4, np.float32)),
        lambda: minires.cross_entropy(x, np.array([0, 3])),
        lambda: minires.cross_entropy(x, np.array([-1, 2])),
        lambda: minires.cross_entropy(x, np.array([0, 2]), label_smoothing=1.5),
        lambda: minires.cross_entropy(x, np.array([0.0, 1.0])),
        lambda: minires.cross_entropy(x, np.array([-100, -100])),
    ):
        messages = []
        for name in ("numba", "numpy"):
            with backend(name), pytest.raises(Exception) as caught:
                call()
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


@pytest.mark.parametrize("offset", [1e3, 1e5])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "cross_entropy"])
def test_a_large_common_offset_costs_no_digits(name, offset):
    """float32 logits far from 0 against float64: only the differences inside a row count."""
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((4, 7)) + offset).astype(np.float32)
    targets = (rng.integers(0, 7, 4),) if name == "cross_entropy" else ()
    with backend("numba"):
        y, _ = OPS[name].forward(x, *targets)
    right, _ = OPS[name].reference[0](x.astype(np.float64), *targets)
    np.testing.assert_allclose(y, right, rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", ["layernorm", "rmsnorm"])
@pytest.mark.parametrize("size", [1e-20, 1e-42, 3e19])
@pytest.mark.parametrize("eps", [0.0, 1e-5])
def test_norms_at_the_ends_of_the_range(name, size, eps):
    """The square of a row is denormal or infinite there, where an estimated 1/√ is wrong."""
    x = (np.array([[1, -1, 1, -1, 1, -1, 1, -1]]) * size).astype(np.float32)
    with np.errstate(all="ignore"):
        expected = OPS[name].reference[0](x, eps=eps)[0]
        with backend("numba"):
            np.testing.assert_allclose(OPS[name].forward(x, eps=eps)[0], expected, rtol=1e-5)
