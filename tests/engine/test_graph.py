"""The walk back through the graph: branches, reuse, ownership. Numbers refer to reports from users of such engines."""

import sys
import time

import numpy as np
import pytest

import minires
from minires import Tensor, ops
from minires.messages import GraphError, ShapeError
from minires.tensor import reachable


def leaf(*values):
    return Tensor(np.array(values[0] if len(values) == 1 else values, float), requires_grad=True)


def test_field_01_a_result_used_twice():
    """a = 1, b = a + a, c = b + b: a.grad is 4. Forty chained h = h + 0.01 h end at once: 2^40 paths, 40 nodes."""
    a = leaf(1)
    b = a + a
    (b + b).backward()
    assert a.grad == 4
    h = x = leaf(1)
    start = time.perf_counter()
    for _ in range(40):
        h = h + 0.01 * h
    h.backward()
    assert time.perf_counter() - start < 1
    np.testing.assert_allclose(x.grad, 1.01**40, rtol=1e-14)
    assert len(reachable(leaf(1).node)) == 1


def test_field_02_twenty_thousand_residual_adds():
    """Forward and backward, with Python's recursion limit far below the depth."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(min(limit, 400))
    try:
        h = x = leaf(0.5, 2)
        f = leaf(1, 1)
        for _ in range(20_000):
            h = h + f
        h.sum().backward()
    finally:
        sys.setrecursionlimit(limit)
    np.testing.assert_array_equal(x.grad, [1, 1])
    np.testing.assert_array_equal(f.grad, [20_000, 20_000])


def test_field_03_backward_twice():
    """(3a)² at a = 2: 36 after one call, exactly 72 after two with retain_graph; else the graph is used up."""
    a = leaf(2)
    y = (3 * a) ** 2
    y.backward(retain_graph=True)
    assert a.grad == 36
    y.backward(retain_graph=True)
    assert a.grad == 72
    y.backward()
    assert a.grad == 108
    with pytest.raises(GraphError, match="walked back once"):
        y.backward()
    with pytest.raises(GraphError, match="walked back once"):
        (y * 2).backward()  # a new node on top of a used-up graph


def test_field_04_both_parents_the_same_object():
    x = leaf(3)
    for f, slope in ((lambda t: t * t, 6), (lambda t: t - t, 0), (lambda t: t / t, 0), (lambda t: t + t, 2)):
        x.zero_grad()
        f(x).backward()
        assert x.grad == slope
    points = np.random.default_rng(0).standard_normal((3, 4))
    minires.gradcheck(lambda t: ops.attention(t, t, t), points)
    minires.gradcheck(lambda t: ops.maximum(t, t), points)
    minires.gradcheck(lambda t: t @ t, points[:, :3])


def test_field_06_a_branch_inside_the_graph():
    """y = 3x, c = 2y + 5y: x.grad is 21. An engine that frees a node at its first visit loses a branch."""
    x = leaf(1)
    y = 3 * x
    (2 * y + 5 * y).backward()
    assert x.grad == 21


FUNCTIONS = [
    "sum", "mean", "max", "min", "var", "logsumexp", "exp", "log", "sqrt", "tanh", "sigmoid", "sin", "cos", "abs",
    "clip", "relu", "gelu", "gelu_tanh", "silu", "neg", "softmax", "log_softmax", "layernorm", "rmsnorm", "flip",
    "transpose", "squeeze",
]  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_field_07_every_function_reaches_the_leaf(name):
    """Every public reduction and activation hands a gradient on, and not only zeros."""
    x = leaf([0.3, 0.7, 1.9])
    y = getattr(ops, name)(x * 1.5)
    y.backward(np.random.default_rng(0).standard_normal(y.shape))
    assert x.grad is not None and np.abs(x.grad).max() > 1e-3


@pytest.mark.parametrize("name", ["argmax", "argmin", "argsort"])
def test_field_07_indices_have_no_gradient_and_say_so(name):
    with pytest.raises(GraphError, match="requires_grad"):
        getattr(leaf([0.3, 0.7]), name)(0).backward(np.ones(()))


SHAPES = [(), (1,), (3,), (2, 1, 3), (4, 1, 1)]


@pytest.mark.parametrize("a", SHAPES, ids=str)
@pytest.mark.parametrize("b", SHAPES, ids=str)
def test_field_08_broadcasting(a, b):
    """grad.shape == x.shape and right values for all pairs of shapes under + - * /, also from 0-d arrays."""
    rng = np.random.default_rng(0)
    if {a, b} == {(2, 1, 3), (4, 1, 1)}:
        with pytest.raises(ShapeError, match="from the right"):
            Tensor(np.ones(a)) + Tensor(np.ones(b))
        return
    x, y = np.asarray(rng.uniform(1, 2, a)), np.asarray(rng.uniform(1, 2, b))
    for f in (lambda s, t: s + t, lambda s, t: s - t, lambda s, t: s * t, lambda s, t: s / t):
        minires.gradcheck(f, x, y)


def test_field_10_intermediate_gradients_share_nothing():
    """After backward through y = h + f(h): the gradients are right, apart in memory, and the caller's dy unchanged."""
    rng = np.random.default_rng(0)
    x, w = Tensor(rng.standard_normal((3, 4)), requires_grad=True), rng.standard_normal((4, 4))
    h = (x * 2).retain_grad()
    f = ops.tanh(h @ w).retain_grad()
    y = (h + f).retain_grad()
    dy = rng.standard_normal((3, 4))
    kept = dy.copy()
    y.backward(dy)
    np.testing.assert_array_equal(dy, kept)
    np.testing.assert_array_equal(y.grad, dy)
    np.testing.assert_array_equal(f.grad, dy)
    np.testing.assert_allclose(h.grad, dy + (dy * (1 - f.data**2)) @ w.T, rtol=1e-13)
    np.testing.assert_allclose(x.grad, 2 * h.grad, rtol=1e-15)
    arrays = [dy, y.grad, f.grad, h.grad, x.grad]
    assert not [(i, j) for i in range(5) for j in range(i) if np.shares_memory(arrays[i], arrays[j])]


def test_retained_gradients_are_not_changed_by_what_comes_later():
    """h's gradient is a sum of three; two of its contributions are dy itself."""
    x = leaf(1, 2)
    a = (x * 1).retain_grad()
    b = (a + a).retain_grad()
    c = (b + a).retain_grad()
    c.backward(np.array([1.0, 10.0]))
    np.testing.assert_array_equal(c.grad, [1, 10])
    np.testing.assert_array_equal(b.grad, [1, 10])
    np.testing.assert_array_equal(a.grad, [3, 30])


def test_retain_grad_adds_up_like_a_leaf():
    x = leaf(1, 2)
    h = (x * 3).retain_grad()
    y = h * 2
    y.backward(np.ones(2), retain_graph=True)
    y.backward(np.ones(2))
    np.testing.assert_array_equal(h.grad, [4, 4])
    np.testing.assert_array_equal(x.grad, [12, 12])


def test_a_tensor_that_does_not_matter_gets_no_gradient():
    x, other = leaf(1), leaf(2)
    (x * other.detach()).backward()
    assert other.grad is None and x.grad == 2


def test_grad_returns_arrays_and_touches_nothing():
    """`grad` gives gradients of any tensors of the graph; no .grad changes; independent inputs get zeros."""
    x, w, unused = leaf(1, 2), leaf(3, 4), leaf(5, 6, 7)
    h = x * w
    y = (h * h).sum()
    dx, dh, du = minires.grad(y, [x, h, unused])
    np.testing.assert_array_equal(dh, 2 * h.data)
    np.testing.assert_array_equal(dx, 2 * h.data * w.data)
    np.testing.assert_array_equal(du, [0, 0, 0])
    assert x.grad is w.grad is h.grad is None
    with pytest.raises(GraphError, match="walked back once"):
        y.backward()


def test_no_grad_records_nothing():
    x = leaf(1, 2)
    with minires.no_grad():
        y = x * 2
        with pytest.raises(ZeroDivisionError), minires.no_grad():
            raise ZeroDivisionError
        z = x * 3
    assert y.node is z.node is None
    assert (x * 2).node is not None


def test_a_graph_goes_away_without_the_garbage_collector():
    import gc
    import weakref

    gc.collect()
    gc.disable()
    try:
        x = leaf(np.ones(1000))
        y = ops.tanh(x * 2) + x
        big = weakref.ref(y.node.parents[0].saved)
        del y
        assert big() is None
    finally:
        gc.enable()
