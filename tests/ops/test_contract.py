"""Every operation keeps the engine's contract: one declaration in `table.py`, all the checks here."""

import functools
import gc
import inspect
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minires.ops  # fills the table of operations
from minires.gradcheck import check_pair, gradcheck
from minires.messages import GraphError
from minires.tensor import OPS, Tensor, apply, arrays_in
from tests.ops.table import TABLE, laid_out

NAMES = sorted(OPS)


def test_every_operation_is_declared():
    assert set(OPS) == set(TABLE), "each operation needs one entry in tests/ops/table.py"


def bound(function, options):
    """The function with its options fixed; a generator starts afresh at every call."""

    @functools.wraps(function)
    def call(*inputs):
        return function(*inputs, **fresh(options, function))

    return call


def fresh(options, function):
    known = inspect.signature(function).parameters
    made = {k: np.random.default_rng(v) if k == "rng" else v for k, v in options.items()}
    return {k: v for k, v in made.items() if k in known or any(p.kind == p.VAR_KEYWORD for p in known.values())}


def on_tensors(name, options):
    """The public function, from tensors to a tensor, through the engine."""
    op = OPS[name]
    return lambda *inputs: apply(op, inputs, fresh(options, op.forward))


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_pair(name, data):
    """Right gradients for random upstream; nothing changed in place; nothing shared; shapes and dtypes kept."""
    inputs, options = data.draw(TABLE[name])
    check_pair(bound(OPS[name].forward, options), OPS[name].backward, inputs, tolerance=None)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_on_tensors(name, data):
    """The same through the graph: backward twice doubles, no gradient shares memory with another."""
    inputs, options = data.draw(TABLE[name])
    gradcheck(on_tensors(name, options), *inputs)


def in_float32(inputs):
    return [x.astype(np.float32) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for x in inputs]


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_float32_stays_float32(name, data):
    """float32 in, float32 out, float32 gradients, near the float64 ones; dy in any memory layout."""
    inputs, options = data.draw(TABLE[name])
    op = OPS[name]
    y, saved = bound(op.forward, options)(*in_float32(inputs))
    assert all(a.dtype != np.float64 for a in arrays_in(saved))
    y64, saved64 = bound(op.forward, options)(*inputs)
    assert y.dtype == np.float32 and y.shape == y64.shape
    np.testing.assert_allclose(y, y64, rtol=1e-3, atol=1e-4)
    dy = np.asarray(np.random.default_rng(1).standard_normal(y.shape))
    dy32 = laid_out(dy.astype(np.float32), data.draw(st.sampled_from(["C", "F", "strided"])))
    gradients, gradients64 = op.backward(dy32, saved), op.backward(dy, saved64)
    for g, g64 in zip(present(gradients), present(gradients64), strict=True):
        assert g.dtype == np.float32
        np.testing.assert_allclose(g, g64, rtol=1e-2, atol=2e-3)


def present(gradients):
    """The gradients that are there; 0-d arithmetic makes NumPy scalars, which the engine takes for arrays too."""
    return [g for g in (gradients if isinstance(gradients, tuple) else (gradients,)) if g is not None]


@pytest.mark.parametrize("name", [n for n in NAMES if OPS[n].composed])
@given(data=st.data())
def test_manual_equals_composed(name, data):
    """The backward pass written by hand equals automatic differentiation of the same thing made of small parts."""
    inputs, options = data.draw(TABLE[name])
    values, gradients = [], []
    for f in (on_tensors(name, options), lambda *x: OPS[name].composed(*x, **fresh(options, OPS[name].forward))):
        leaves = [Tensor(x, requires_grad=True) if is_float(x) else x for x in inputs]
        y = f(*leaves)
        values.append(y.data)
        if y.node is not None:
            y.backward(np.random.default_rng(2).standard_normal(y.shape))
        gradients.append([np.zeros(x.shape) if x.grad is None else x.grad for x in leaves if isinstance(x, Tensor)])
    np.testing.assert_allclose(values[0], values[1], rtol=1e-12, atol=1e-12)
    for manual, composed in zip(*gradients, strict=True):
        np.testing.assert_allclose(manual, composed, rtol=1e-10, atol=1e-11)


def is_float(x):
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def example(name):
    """One example with something in it."""
    from hypothesis import find, settings

    def telling(case):
        sizes = [np.size(x) for x in case[0] if is_float(x)]
        return min(sizes) > 0 and max(sizes) > 1

    return find(TABLE[name], telling, settings=settings(derandomize=True, database=None, max_examples=500))


@pytest.mark.parametrize("name", NAMES)
def test_graph_is_used_up_and_saved_arrays_are_freed(name):
    """After backward the node holds nothing, without the garbage collector; a second backward is a clear error."""
    inputs, options = example(name)
    leaves = [Tensor(x.copy(), requires_grad=True) if is_float(x) else x for x in inputs]
    own = {id(x.data) for x in leaves if isinstance(x, Tensor)}
    gc.disable()
    try:
        y = on_tensors(name, options)(*leaves)
        saved = [weakref.ref(a) for a in arrays_in(y.node.saved) if id(a) not in own and a.base is None]
        dy = np.ones(y.shape)
        y.backward(dy)
        with pytest.raises(GraphError, match="retain_graph"):
            y.backward(dy)
        alive = [r() for r in saved if r() is not None]
        theirs = [y.data, *arrays_in(list(inputs)), *arrays_in(options)]
        assert not [a for a in alive if not any(np.shares_memory(a, b) for b in theirs)]
    finally:
        gc.enable()
