"""The attention kernels against the NumPy functions: every mask, many sizes, and both ways of keeping P."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minires
from minires.backend import backend
from minires.tensor import OPS

attention = pytest.importorskip("minires.kernels.attention")
REALS = (np.float32, np.float64)
pytestmark = pytest.mark.skipif(attention.JIT_IS_OFF, reason="the micro-kernel exists for the compiler only")


@pytest.fixture(autouse=True)
def numba_on():
    with backend("numba"):
        yield


@pytest.fixture(params=["kept", "computed again"])
def way(request, monkeypatch):
    """What the backward pass gets: P, or the row sums from which it makes P again."""
    if request.param != "kept":
        monkeypatch.setattr(attention, "KEEP", 0)
    return request.param


def near(ours, reference, real):
    assert (ours.shape, ours.dtype) == (reference.shape, np.dtype(real))
    tolerance = 2e-5 if real is np.float32 else 1e-12
    np.testing.assert_allclose(ours, reference, rtol=tolerance, atol=tolerance * max(1, np.abs(reference).max()))


def agree(name, arguments, real, **options):
    """Values and gradients; each backward pass on the other's `saved` too. Returns what both saved."""
    op = OPS[name]
    before = [a.copy() for a in arguments]
    expected, saved = op.reference[0](*arguments, **options)
    answers = op.forward.load(*arguments, **options)
    assert answers is not NotImplemented
    ours, our_saved = answers
    near(ours, expected, real)
    dy = np.random.default_rng(1).standard_normal(ours.shape).astype(real)
    gradients = as_tuple(op.reference[1](dy, saved))
    for backward, source in itertools.product((op.backward.load, op.reference[1]), (saved, our_saved)):
        for mine, theirs in zip(as_tuple(backward(dy, source)), gradients, strict=True):
            near(mine, theirs, real)
    for a, b in zip(arguments, before):
        np.testing.assert_array_equal(a, b)
    return our_saved, saved


def as_tuple(x):
    return x if isinstance(x, tuple) else (x,)


def draw(shapes, real, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(real) for shape in shapes]


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads,t,dh", [(1, 1, 1), (2, 5, 8), (4, 33, 16), (3, 64, 5), (2, 70, 32), (1, 131, 7)])
def test_self_attention(way, heads, t, dh, causal, real):
    agree("self_attention", draw([(2, t, 3 * heads * dh)], real), real, heads=heads, causal=causal)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 3), max_size=2), *[st.integers(1, 40)] * 4, st.booleans(), st.sampled_from(REALS))
def test_attention_of_any_size(lead, t, s, dh, dv, causal, real):
    lead = tuple(lead)
    agree("attention", draw([(*lead, t, dh), (*lead, s, dh), (*lead, s, dv)], real), real, causal=causal)


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("t,s", [(9, 300), (300, 9), (400, 400)])
def test_several_blocks_of_queries(way, t, s, causal, real):
    q, k, v = draw([(2, t, 8), (2, s, 8), (2, s, 12)], real)
    agree("attention", (q, k, v), real, causal=causal, scale=0.7)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", [(2, 1, 1, 40), (2, 3, 40, 40), (40, 40), (1, 40)], ids=str)
def test_masks(way, mask, causal):
    q, k, v = draw([(2, 3, 40, 8)] * 3, np.float64)
    allowed = np.random.default_rng(2).random(mask) < 0.7
    allowed[..., -3:] = False
    agree("attention", (q, k, v), np.float64, mask=allowed, causal=causal)


@pytest.mark.parametrize("real", REALS)
def test_a_query_that_may_look_nowhere(way, real):
    q, k, v = draw([(1, 2, 20, 8)] * 3, real)
    allowed = np.ones((20, 20), bool)
    allowed[[0, 7, 19]] = False
    (*_, p, _, _), _ = agree("attention", (q, k, v), real, mask=allowed)
    y, saved = OPS["attention"].forward(q, k, v, mask=allowed)
    assert not y[..., [0, 7, 19], :].any()
    dq, _, _ = OPS["attention"].backward(np.ones_like(y), saved)
    assert not dq[..., [0, 7, 19], :].any()
    assert isinstance(p, tuple) == (way != "kept")


def test_a_masked_key_gets_an_exact_zero():
    q, k, v = draw([(2, 3, 40, 8)] * 3, np.float32)
    allowed = np.arange(40) < 31
    _, saved = OPS["attention"].forward(q, k, v, mask=allowed)
    assert not saved[3][..., 31:].any()
    _, dk, dv = OPS["attention"].backward(np.ones_like(q), saved)
    assert not dk[..., 31:, :].any() and not dv[..., 31:, :].any()


def test_keys_after_the_last_query_get_zeros(way):
    q, k, v = draw([(1, 1, 5, 8), (1, 1, 50, 8), (1, 1, 50, 8)], np.float32)
    y, saved = OPS["attention"].forward(q, k, v, causal=True)
    dq, dk, dv = OPS["attention"].backward(np.ones_like(y), saved)
    assert not dk[..., 5:, :].any() and not dv[..., 5:, :].any() and np.isfinite(dq).all()


@pytest.mark.parametrize("name", ["attention", "self_attention"])
def test_strided_inputs(way, name):
    if name == "attention":
        q, k, v = draw([(2, 30, 3, 9)] * 3, np.float64)
        agree(name, [x.transpose(0, 2, 1, 3)[..., ::-1] for x in (q, k, v)], np.float64, causal=True)
    else:
        (x,) = draw([(30, 2, 48)], np.float64)
        agree(name, [x.swapaxes(0, 1)], np.float64, heads=2, causal=True)


def test_strided_upstream_gradient():
    (x,) = draw([(2, 30, 48)], np.float64)
    _, saved = OPS["self_attention"].forward(x, heads=2)
    (dy,) = draw([(30, 2, 16)], np.float64)
    for upstream in (dy.swapaxes(0, 1), np.broadcast_to(0.5, (2, 30, 16))):
        expected = OPS["self_attention"].reference[1](upstream, saved)
        near(OPS["self_attention"].backward(upstream, saved), expected, float)


def test_the_same_tensor_three_times():
    (x,) = draw([(2, 11, 8)], np.float64)
    gradients = []
    for name in ("numba", "numpy"):
        with backend(name):
            t = minires.Tensor(x, requires_grad=True)
            (minires.attention(t, t, t, causal=True) * x).sum().backward()
            gradients.append(t.grad)
    np.testing.assert_allclose(*gradients, rtol=1e-12)


@pytest.mark.parametrize("where", ["q", "k", "v"])
def test_nan_in_nan_out(way, where):
    arrays = dict(zip("qkv", draw([(1, 1, 40, 8)] * 3, np.float32)))
    arrays[where][0, 0, 20, 3] = np.nan
    y, saved = OPS["attention"].forward(*arrays.values(), causal=True)
    assert np.isnan(y[0, 0, 20]).any() and np.isfinite(y[0, 0, :12]).all()
    if where != "q":
        assert np.isnan(y[0, 0, 20:]).any(axis=-1).all()
    gradients = OPS["attention"].backward(np.ones_like(y), saved)
    assert all(np.isnan(g).any() for g in gradients[: 2 if where == "v" else 3])


def test_a_learners_backward_gets_p_itself(monkeypatch):
    monkeypatch.setattr(attention, "KEEP", 0)
    shapes = []

    def mine(dy, saved):
        shapes.append(saved[3].shape)
        return OPS["attention"].reference[1](dy, saved)

    q, k, v = [minires.Tensor(x, requires_grad=True) for x in draw([(1, 2, 9, 4)] * 3, np.float64)]
    with minires.use(attention_backward=mine):
        minires.attention(q, k, v).sum().backward()
    assert shapes == [(1, 2, 9, 9)]


def test_memory_grows_with_t_not_with_its_square():
    """At T = 2048 the forward and backward pass allocate less than 12 arrays like q; P alone would be 64 of them."""
    import tracemalloc

    q, k, v = draw([(1, 2, 2048, 32)] * 3, np.float32)
    OPS["attention"].forward(q[:, :, :9], k[:, :, :9], v[:, :, :9])  # compile first
    tracemalloc.start()
    y, saved = OPS["attention"].forward(q, k, v, causal=True)
    OPS["attention"].backward(y, saved)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 * q.nbytes, f"{peak / q.nbytes:.1f} × q"


@pytest.mark.parametrize(
    "options",
    [{"dropout_p": 0.5, "rng": np.random.default_rng(0)}, {"bias": np.ones((5, 5))}, {"scale": -1.0}],
    ids=["dropout", "bias", "scale"],
)
def test_what_the_kernels_decline(options):
    q, k, v = draw([(2, 5, 8)] * 3, np.float64)
    assert OPS["attention"].forward.load(q, k, v, **options) is NotImplemented
    y, _ = OPS["attention"].forward(q, k, v, **options)
    assert y.shape == q.shape


def test_messages_are_the_same_on_both_backends():
    x = minires.Tensor(np.ones((2, 4, 8), np.float32))
    for call in (
        lambda: minires.attention(x, x[:, :, :3], x),
        lambda: minires.attention(x, x, x, mask=np.ones((2, 3), bool)),
        lambda: minires.attention(x, x, x, mask=np.ones((4, 4))),
        lambda: minires.self_attention(x, heads=3),
    ):
        messages = []
        for name in ("numba", "numpy"):
            with backend(name), pytest.raises(Exception) as caught:
                call()
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


def test_a_mask_may_be_a_list():
    q, k, v = draw([(1, 2, 3, 4)] * 3, np.float64)
    mask = [[True, False, False], [True, True, False], [True, True, True]]
    agree("attention", (q, k, v), np.float64, mask=np.array(mask))
    np.testing.assert_array_equal(
        minires.attention(q, k, v, mask=mask).data, minires.attention(q, k, v, mask=np.array(mask)).data
    )


def test_a_mask_by_query_is_not_spread_over_keys_and_heads():
    import tracemalloc

    q, k, v = draw([(1, 4, 2048, 4)] * 3, np.float32)
    mask = np.arange(2048)[:, None] > 3  # (T, 1)
    OPS["attention"].forward(q[:, :, :9], k, v, mask=mask[:9])
    tracemalloc.start()
    OPS["attention"].forward(q, k, v, mask=mask)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2048 * 2048
