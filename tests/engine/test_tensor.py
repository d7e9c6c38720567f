"""The tensor as a Python object: dtypes, NumPy around it, in-place writes, copies, printing, threads."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import minires
from minires import Tensor, ops
from minires.messages import DtypeError, GraphError, ShapeError


def leaf(*values):
    return Tensor(np.array(values, float), requires_grad=True)


def test_field_11_integers_and_float32():
    """Integer data with requires_grad is an error that says to write 1. float32 stays float32."""
    with pytest.raises(DtypeError, match=r"Write `1\.`"):
        Tensor([1, 2], requires_grad=True)
    with pytest.raises(DtypeError, match=r"Write `1\.`"):
        Tensor(np.arange(3)).requires_grad = True
    assert Tensor([1.0, 2]).dtype == np.float64 and Tensor([1, 2]).dtype == np.int64
    x = Tensor(np.ones((2, 3), np.float32), requires_grad=True)
    y = (((2 * x + 1) / 3 - 0.5) ** 2 * 1.5).mean()
    y.backward()
    assert y.dtype == x.grad.dtype == np.float32


def test_field_13_numpy_functions():
    """np.exp(tensor) raises at once and names ours; ndarray + tensor is a Tensor, not an array of objects."""
    x = leaf(1, 2)
    for call in (np.exp, np.tanh, np.sum, np.mean, np.concatenate, np.asarray, lambda t: np.add(t, t, out=np.ones(2))):
        with pytest.raises((DtypeError, GraphError), match="minires"):
            call(x)
    with pytest.raises(DtypeError, match=r"minires\.exp"):
        np.exp(Tensor([1.0]))
    for y, slope in ((np.ones(2) + x, 1), (np.ones(2) - x, -1), (np.full(2, 3.0) * x, 3), (np.ones((3, 2)) @ x, 3)):
        assert isinstance(y, Tensor)
        x.zero_grad()
        y.sum().backward()
        np.testing.assert_array_equal(x.grad, [slope, slope])
    np.testing.assert_allclose((np.ones(2) / x).data, [1, 0.5])
    np.testing.assert_allclose((np.full(2, 2.0) ** x).data, [2, 4])
    assert (np.ones(2) < x).data.tolist() == [False, True]
    assert np.float64(2) * x is not None and isinstance(np.float64(2) * x, Tensor)


def test_plain_numbers_come_out():
    x = Tensor(np.array(2.5))
    assert float(x) == x.item() == 2.5 and int(x) == 2 and bool(x)
    np.testing.assert_array_equal(np.asarray(Tensor([1.0, 2.0])), [1, 2])
    assert [float(v) for v in Tensor([1.0, 2.0])] == [1, 2] and len(Tensor([1.0, 2.0])) == 2
    for wrong in (float, int, bool, Tensor.item):
        with pytest.raises(ShapeError, match="single number"):
            wrong(Tensor([1.0, 2.0]))
    with pytest.raises(ShapeError, match="0-d"):
        list(x)


def test_inplace_addition_builds_a_new_tensor():
    x = leaf(1, 2)
    y = x
    y += 1
    assert y is not x and x.data.tolist() == [1, 2] and y.data.tolist() == [2, 3]
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, [1, 1])


def test_writing_into_a_graph_is_refused():
    x = leaf(1, 2)
    for target in (x, x * 2):
        with pytest.raises(GraphError, match="changed in place"):
            target[0] = 5
    with minires.no_grad():
        x[0] = 5
    assert x.data.tolist() == [5, 2]


@pytest.mark.parametrize("through", ["leaf", "view", "detached"])
def test_a_saved_array_that_was_changed_is_noticed(through):
    """The version counter belongs to the memory: a view or a detached tensor that shares it counts too."""
    x = leaf(1, 2)
    h = x * 1
    y = ops.exp(h) * h
    target = {"leaf": x, "view": x.reshape(2, 1), "detached": h.detach()}[through]
    z = ops.exp(x * x) + ops.tanh(y)
    with minires.no_grad():
        target.detach()[0] = 7
    with pytest.raises(GraphError, match="must stay as they were"):
        z.sum().backward()


def test_a_change_of_the_saved_result_is_noticed():
    """exp saves its own output for the backward pass."""
    x = leaf(1, 2)
    y = ops.exp(x)
    y.detach()[0] = 0
    with pytest.raises(GraphError, match="output of 'exp'"):
        y.sum().backward()


def test_a_change_that_nobody_needs_is_allowed():
    x = leaf(1, 2)
    y = x + 1
    y.detach()[0] = 0
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, [1, 1])


def test_optimizer_step_between_forward_and_backward_is_noticed():
    w = leaf(1, 2)
    loss = (w * w).sum()
    with minires.no_grad():
        w.data -= 0.1
        w.changed()
    with pytest.raises(GraphError, match="optimizer"):
        loss.backward()


def test_debug_finds_raw_writes():
    """Writing into the bare array is invisible to counters; inside `debug` a checksum of everything saved finds it."""
    x, w1, w2, b = (np.random.default_rng(0).standard_normal(s) for s in ((3, 4), (4, 5), (5, 4), (4,)))
    for f in (lambda t: t * t, lambda t: ops.ffn(t, w1, None, w2, b)):
        t = Tensor(x.copy(), requires_grad=True)
        y = f(t)
        t.data[0, 0] += 1
        y.backward(np.ones(y.shape))  # silently wrong: nobody looked
        with minires.debug(), pytest.raises(GraphError, match="raw array data"):
            t = Tensor(x.copy(), requires_grad=True)
            y = f(t)
            t.data[0, 0] += 1
            y.backward(np.ones(y.shape))
    with minires.debug():
        t = Tensor(x, requires_grad=True)
        (t * t).sum().backward()
    np.testing.assert_array_equal(t.grad, 2 * x)


def test_deepcopy_of_leaves_only():
    x = Tensor(np.array([1.0, 2.0]), requires_grad=True, name="w")
    (x * x).sum().backward()
    twin = copy.deepcopy(x)
    assert twin.requires_grad and twin.node is not x.node and twin.node.name == "w"
    assert not np.shares_memory(twin.data, x.data) and not np.shares_memory(twin.grad, x.grad)
    np.testing.assert_array_equal(twin.grad, [2, 4])
    with pytest.raises(GraphError, match="only leaves"):
        copy.deepcopy(x * 2)


def test_pickling_is_refused_with_a_reason():
    with pytest.raises(GraphError, match="runs code"):
        pickle.dumps(leaf(1))


def test_print():
    x = leaf(1, 2)
    assert repr(x) == "Tensor([1. 2.], shape=(2,), float64, requires_grad=True)"
    assert "from exp" in repr(ops.exp(x)) and "requires_grad" not in repr(x.detach())
    assert len(repr(Tensor(np.zeros((1000, 1000))))) < 300


def test_grad_setter_checks_the_shape():
    x = leaf(1, 2)
    x.grad = [3, 4]
    assert x.grad.dtype == np.float64
    with pytest.raises(ShapeError, match=r"\(2,\)"):
        x.grad = np.ones(3)
    x.grad = None
    assert x.grad is None


def test_detach_shares_data_and_stops_gradients():
    x = leaf(1, 2)
    y = x.detach()
    assert y.data is x.data and not y.requires_grad
    (x * y).sum().backward()
    np.testing.assert_array_equal(x.grad, [1, 2])
    with pytest.raises(GraphError, match="only a leaf"):
        (x * 2).requires_grad = False


def test_comparisons_give_masks():
    x = leaf(1, 5)
    mask = x > 3
    assert mask.dtype == bool and not mask.requires_grad
    ops.where(mask, x, 0.0).sum().backward()
    np.testing.assert_array_equal(x.grad, [0, 1])
    q = np.ones((2, 2, 4))
    np.testing.assert_array_equal(ops.attention(q, q, q, mask=mask).data, np.ones((2, 2, 4)))


def test_options_by_position_and_by_name():
    x = np.random.default_rng(0).standard_normal((2, 3, 4))
    same = [
        (lambda t: t.sum(1), lambda t: t.sum(axis=1)),
        (lambda t: ops.mean(t, (0, 2), True), lambda t: t.mean(axis=(0, 2), keepdims=True)),
        (lambda t: t.swapaxes(0, 2), lambda t: t.transpose(2, 1, 0)),
        (lambda t: ops.softmax(t, 0), lambda t: t.softmax(axis=0)),
        (lambda t: t.clip(-1, 1), lambda t: ops.clip(t, low=-1, high=1)),
        (lambda t: t.reshape(6, 4), lambda t: ops.reshape(t, (6, 4))),
    ]
    for one, other in same:
        a, b = Tensor(x, requires_grad=True), Tensor(x, requires_grad=True)
        for t, f in ((a, one), (b, other)):
            y = f(t)
            y.backward(np.random.default_rng(1).standard_normal(y.shape))
        np.testing.assert_array_equal(a.grad, b.grad)


def test_an_option_cannot_hide_a_gradient():
    q = np.ones((2, 3))
    bias = Tensor(np.zeros((2, 2)), requires_grad=True)
    with pytest.raises(GraphError, match="bias of 'attention' is an option"):
        ops.attention(q, q, q, bias=bias)
    ops.attention(q, q, q, bias=bias.detach())


def test_grad_from_four_threads_on_shared_parameters():
    """Each worker builds its own graph over the same leaf; gradients are those of one thread, bit for bit."""
    rng = np.random.default_rng(0)
    w = Tensor(rng.standard_normal((16, 16)), requires_grad=True)
    batches = rng.standard_normal((32, 4, 16))

    def work(x):
        h = Tensor(x)
        for _ in range(5):
            h = h + ops.tanh(h @ w)
        return minires.grad(h.sum(), [w])[0]

    alone = [work(x) for x in batches]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(work, batches))
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a, b)
    assert w.grad is None and w.node.keeps_grad


def test_no_grad_belongs_to_its_thread():
    x = leaf(1, 2)
    with minires.no_grad(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: (x * 2).requires_grad).result()
        assert not (x * 2).requires_grad
