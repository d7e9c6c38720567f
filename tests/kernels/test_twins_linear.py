"""Linear layers and the feed-forward network: fused kernels against the NumPy functions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minires
from minires.backend import backend
from minires.tensor import OPS

linear = pytest.importorskip("minires.kernels.linear")
REALS = (np.float32, np.float64)
pytestmark = pytest.mark.skipif(linear.JIT_IS_OFF, reason="the micro-kernel exists for the compiler only")


@pytest.fixture(autouse=True)
def numba_on():
    with backend("numba"):
        yield


def near_all(ours, reference, real, path=""):
    """Equal structure, shapes and dtypes, and numbers up to the rounding of a sum."""
    if isinstance(reference, tuple):
        assert isinstance(ours, tuple) and len(ours) == len(reference), path
        for i, (mine, theirs) in enumerate(zip(ours, reference)):
            near_all(mine, theirs, real, f"{path}[{i}]")
    elif isinstance(reference, np.ndarray):
        assert (ours.shape, ours.dtype) == (reference.shape, reference.dtype), path
        tolerance = (3e-5 if real is np.float32 else 1e-12) * max(1, np.abs(reference).max(initial=0))
        np.testing.assert_allclose(ours, reference, rtol=0, atol=tolerance, err_msg=path)
    else:
        assert ours == reference, path


def agree(name, arguments, real, **options):
    """Values, saved and gradients; each backward pass also on what the other one saved. No twin may decline."""
    op = OPS[name]
    before = [None if a is None else a.copy() for a in arguments]
    expected, saved = op.reference[0](*arguments, **options)
    ours, our_saved = op.forward.load(*arguments, **options)
    near_all((ours, our_saved), (expected, saved), real)
    dy = np.random.default_rng(1).standard_normal(ours.shape).astype(real)
    gradients = op.reference[1](dy, saved)
    for backward, source in itertools.product((op.backward.load, op.reference[1]), (saved, our_saved)):
        near_all(backward(dy, source), gradients, real)
    for a, b in zip(arguments, before):
        np.testing.assert_array_equal(a, b)


def draw(rng, *shapes):
    return [None if s is None else rng.standard_normal(s) / np.sqrt(s[0]) for s in shapes]


def ffn_inputs(rng, lead, d, hidden, out=None, last_bias=True):
    (x,) = draw(rng, lead + (d,))
    out = out or d
    return x, *draw(rng, (d, hidden), (hidden,), (hidden, out), (out,) if last_bias else None)


def cast(arrays, real):
    return [None if a is None else a.astype(real) for a in arrays]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 7), max_size=2), st.tuples(st.integers(1, 300), st.integers(1, 70)), st.booleans(),
       st.sampled_from(REALS))  # fmt: skip
def test_linear_of_any_size(lead, size, bias, real):
    rng = np.random.default_rng(0)
    arguments = draw(rng, (*lead, size[0]), size, size[1:] if bias else None)
    agree("linear", cast(arguments, real), real)


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("n,d,out", [(145, 16, 16), (288, 64, 192), (300, 400, 500), (7, 1000, 450), (1000, 1, 17)])
def test_linear_over_several_blocks_and_slices(n, d, out, real):
    arguments = draw(np.random.default_rng(0), (n, d), (d, out), (out,))
    agree("linear", cast(arguments, real), real)


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
@pytest.mark.parametrize("lead,d,hidden", [((1,), 1, 1), ((2, 9), 8, 32), ((5, 60), 20, 81), ((3,), 130, 460)])
def test_ffn(lead, d, hidden, activation, real):
    arguments = ffn_inputs(np.random.default_rng(0), lead, d, hidden)
    agree("ffn", cast(arguments, real), real, activation=activation)


def test_ffn_with_another_output_size_and_without_the_last_bias():
    rng = np.random.default_rng(0)
    agree("ffn", ffn_inputs(rng, (4, 6), 8, 12, out=5), np.float64, activation="silu")
    x, w1, b1, w2, b2 = ffn_inputs(rng, (4, 6), 8, 12, last_bias=False)
    assert b2 is None
    y, saved = linear.ffn_forward(x, w1, b1, w2, b2)
    zero = np.zeros(8)
    expected, expected_saved = OPS["ffn"].reference[0](x, w1, b1, w2, zero)
    near_all(y, expected, np.float64)
    dy = np.ones_like(y)
    near_all(linear.ffn_backward(dy, saved)[:4], OPS["ffn"].reference[1](dy, expected_saved)[:4], np.float64)


def test_strided_inputs():
    rng = np.random.default_rng(0)
    (x, w, b) = draw(rng, (6, 40, 9), (70, 18), (36,))
    agree("linear", (x.transpose(1, 2, 0), w.reshape(210, 6)[::2].T[:, :18], b[::2]), np.float64)
    agree("linear", (x[::2, ::-1], w[:9, ::-1], b[:18]), np.float64)


def test_upstream_gradients_that_are_broadcast():
    arguments = ffn_inputs(np.random.default_rng(0), (3, 5), 8, 12)
    y, saved = OPS["ffn"].forward(*arguments)
    dy = np.broadcast_to(0.5, y.shape)
    near_all(OPS["ffn"].backward(dy, saved), OPS["ffn"].reference[1](dy, saved), np.float64)


def test_nan_stays_in_its_row():
    x, w, b = draw(np.random.default_rng(0), (40, 16), (16, 24), (24,))
    x[7, 3] = np.nan
    y, _ = OPS["linear"].forward(x, w, b)
    assert np.isnan(y[7]).all() and np.isfinite(np.delete(y, 7, axis=0)).all()


def test_a_replaced_part_is_honoured():
    asked = []

    def mine(dy, saved):
        asked.append(1)
        return OPS["gelu_tanh"].reference[1](dy, saved)

    arguments = [minires.Tensor(a, requires_grad=True) for a in ffn_inputs(np.random.default_rng(0), (3,), 4, 8)]
    with minires.use(gelu_tanh_backward=mine):
        minires.ffn(*arguments).sum().backward()
    assert asked == [1]


@pytest.mark.parametrize("odd", [np.ones((2, 3), complex), np.ones((2, 3), int), np.ones((0, 3))])
def test_what_the_twin_declines(odd):
    w = np.ones((3, 4))
    assert linear.linear_forward(odd, w) is NotImplemented
    np.testing.assert_array_equal(OPS["linear"].forward(odd, w)[0], odd @ w)


def test_messages_are_the_same_on_both_backends():
    x = minires.Tensor(np.ones((2, 3)))
    for call in (
        lambda: minires.linear(x, np.ones((4, 2))),
        lambda: minires.linear(x, np.ones((3, 2)), np.ones(3)),
        lambda: minires.ffn(x, np.ones((3, 8)), np.ones(8), np.ones((7, 3)), np.ones(3)),
        lambda: minires.ffn(x, np.ones((3, 8)), np.ones(8), np.ones((8, 3)), np.ones(3), activation="gulu"),
    ):
        messages = []
        for name in ("numba", "numpy"):
            with backend(name), pytest.raises(Exception) as caught:
                call()
            messages.append(str(caught.value))
        assert messages[0] == messages[1]
