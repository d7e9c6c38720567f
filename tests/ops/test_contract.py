"""Every operation keeps the engine's contract: one declaration in `table.py`, all the checks here."""

import functools
import gc
import importlib
import inspect
import pkgutil
import weakref

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import minires
from minires.backend import TWINS
from minires.gradcheck import check_pair, gradcheck
from minires.messages import GraphError
from minires.tensor import OPS, Tensor, apply, arrays_in
from tests.ops.table import TABLE, laid_out

for module in pkgutil.iter_modules(minires.ops.__path__):
    importlib.import_module(f"minires.ops.{module.name}")
NAMES = sorted(OPS)
BOTH = [(name, backend) for name in NAMES for backend in (("numpy", "numba") if name in TWINS else ("numpy",))]
every_op = pytest.mark.parametrize("name", NAMES)
every_op_on_each_backend = pytest.mark.parametrize(("name", "backend"), BOTH, ids=["-".join(pair) for pair in BOTH])
some, few = settings(max_examples=12), settings(max_examples=8)


def test_every_operation_is_declared():
    assert set(OPS) == set(TABLE), "each operation needs one entry in tests/ops/table.py"


def bound(function, name, options):
    """The function with its options fixed; a generator starts afresh at every call."""

    @functools.wraps(OPS[name].reference[0])
    def call(*inputs):
        return function(*inputs, **fresh(options, name))

    return call


def fresh(options, name):
    known = inspect.signature(OPS[name].reference[0]).parameters
    made = {k: np.random.default_rng(v) if k == "rng" else v for k, v in options.items()}
    return {k: v for k, v in made.items() if k in known}


def on_tensors(name, options):
    """The public function, from tensors to a tensor, through the engine."""
    return lambda *inputs: apply(OPS[name], inputs, fresh(options, name))


def is_float(x):
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def as_leaves(inputs):
    return [Tensor(x, requires_grad=True) if is_float(x) else x for x in inputs]


def telling(inputs):
    """Whether an example has something in it."""
    sizes = [x.size for x in inputs if is_float(x)]
    return min(sizes) > 0 and max(sizes) > 1


@every_op_on_each_backend
@some
@given(data=st.data())
def test_pair(name, backend, data):
    """Right gradients for random upstream; nothing changed in place; nothing shared; shapes and dtypes kept.

    The NumPy forward passes take complex numbers, so that the check is exact; |x| alone has no complex derivative.
    """
    inputs, options = data.draw(TABLE[name])
    with minires.backend(backend):
        checked = check_pair(bound(OPS[name].forward, name, options), OPS[name].backward, inputs)
    if backend == "numpy" and name != "abs":
        assert set(checked.methods.values()) <= {"complex"} and checked.worst < 1e-12


@every_op
@few
@given(data=st.data())
def test_on_tensors(name, data):
    """The same through the graph: backward twice doubles, no gradient shares memory with another."""
    inputs, options = data.draw(TABLE[name])
    gradcheck(on_tensors(name, options), *inputs)


def in_float32(options_or_inputs):
    return [x.astype(np.float32) if is_float(x) else x for x in options_or_inputs]


@every_op_on_each_backend
@some
@given(data=st.data())
def test_float32_stays_float32(name, backend, data):
    """float32 in, float32 out, float32 gradients, near the float64 ones; dy in any memory layout."""
    inputs, options = data.draw(TABLE[name])
    op, reference = OPS[name], OPS[name].reference
    y64, saved64 = bound(reference[0], name, options)(*inputs)
    dy = np.asarray(np.random.default_rng(1).standard_normal(y64.shape))
    dy32 = laid_out(dy.astype(np.float32), data.draw(st.sampled_from(["C", "F", "strided"])))
    with minires.backend(backend):
        y, saved = bound(op.forward, name, options)(*in_float32(inputs))
        gradients = op.backward(dy32, saved)
    assert y.dtype == np.float32 and y.shape == y64.shape
    assert all(a.dtype != np.float64 for a in arrays_in(saved))
    np.testing.assert_allclose(y, y64, rtol=1e-3, atol=1e-4)
    for g, g64 in zip(present(gradients), present(reference[1](dy, saved64)), strict=True):
        assert g.dtype == np.float32
        np.testing.assert_allclose(g, g64, rtol=1e-2, atol=2e-3)


def present(gradients):
    """The gradients that are there; 0-d arithmetic makes NumPy scalars, which the engine takes for arrays too."""
    return [g for g in (gradients if isinstance(gradients, tuple) else (gradients,)) if g is not None]


@pytest.mark.parametrize("name", [n for n in NAMES if OPS[n].composed])
@some
@given(data=st.data())
def test_manual_equals_composed(name, data):
    """The backward pass written by hand equals automatic differentiation of the same thing made of small parts."""
    inputs, options = data.draw(TABLE[name])
    values, gradients = [], []
    for f in (on_tensors(name, options), lambda *x: OPS[name].composed(*x, **fresh(options, name))):
        leaves = as_leaves(inputs)
        y = f(*leaves)
        values.append(y.data)
        if y.node is not None:
            y.backward(np.random.default_rng(2).standard_normal(y.shape))
        gradients.append([np.zeros(x.shape) if x.grad is None else x.grad for x in leaves if isinstance(x, Tensor)])
    np.testing.assert_allclose(values[0], values[1], rtol=1e-12, atol=1e-12)
    for manual, composed in zip(*gradients, strict=True):
        np.testing.assert_allclose(manual, composed, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("name", [n for n in NAMES if OPS[n].composed])
@few
@given(data=st.data())
def test_parts_are_declared(name, data):
    """`parts` names everything that the composed form runs, so that `minires.use` can honour a replacement."""
    inputs, options = data.draw(TABLE[name])
    assume(telling(inputs))
    y = OPS[name].composed(*as_leaves(inputs), **fresh(options, name))
    assert operations_of(y) <= set(OPS[name].parts)


def operations_of(y):
    from minires.tensor import reachable

    return {node.op.name for node in reachable(y.node) if node.op is not None}


@every_op
@some
@given(data=st.data())
def test_what_is_saved_is_watched(name, data):
    """`saved` may hold the inputs' or the result's memory only where the flags say so: they set the version check."""
    inputs, options = data.draw(TABLE[name])
    y, saved = bound(OPS[name].reference[0], name, options)(*inputs)
    for a in arrays_in(saved):
        assert OPS[name].saves_inputs or not any(np.shares_memory(a, x) for x in inputs if isinstance(x, np.ndarray))
        assert OPS[name].saves_output or OPS[name].view or not np.shares_memory(a, y)


@every_op
@few
@given(data=st.data())
def test_graph_is_used_up_and_saved_arrays_are_freed(name, data):
    """After backward the node holds nothing, without the garbage collector; a second backward is a clear error."""
    inputs, options = data.draw(TABLE[name])
    assume(telling(inputs))
    leaves = as_leaves(inputs)
    gc.disable()
    try:
        y = on_tensors(name, options)(*leaves)
        theirs = [y.data, *arrays_in(list(inputs)), *arrays_in(options)]
        own = [a for a in arrays_in(y.node.saved) if a.size and not any(np.shares_memory(a, b) for b in theirs)]
        saved = [weakref.ref(a if a.base is None else a.base) for a in own]
        del own
        y.backward(np.ones(y.shape))
        with pytest.raises(GraphError, match="retain_graph"):
            y.backward(np.ones(y.shape))
        assert [r() for r in saved if r() is not None] == []
    finally:
        gc.enable()
