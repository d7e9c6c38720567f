"""Wrong inputs to the engine and the operations: each is told what must hold, what came, and what was usually meant."""

import copy
import pickle

import numpy as np
import pytest

import minires
from minires import Tensor, ops
from minires.messages import DtypeError, Explained, GraphError, ShapeError, UnknownName, ValueProblem
from minires.tensor import OPS, differentiable

R = np.random.default_rng(0).standard_normal
IDS = np.array([[1, 2], [0, 1]])


def leaf(*shape):
    return Tensor(R(shape), requires_grad=True)


def used_up():
    y = leaf(2) * 2
    y.backward(np.ones(2))
    y.backward(np.ones(2))


def changed():
    x = leaf(2)
    y = x * x
    x.detach()[0] = 0
    y.backward(np.ones(2))


def wrong_backward(backward):
    differentiable("planted", lambda x, w: (x @ w, (x, w)), backward)
    try:
        minires.tensor.apply(OPS["planted"], (leaf(4, 3), leaf(3, 2)), {}).backward(np.ones((4, 2)))
    finally:
        del OPS["planted"]


def never_called():
    with minires.use(relu_backward=lambda dy, x: dy):
        pass


def used(**replacements):
    with minires.use(**replacements):
        pass


# what was done wrong: (how, error class, words of the rule, of what came, of the hint)
WRONG = {
    "add: shapes": (lambda: leaf(3) + leaf(4), ShapeError, "fit each other", r"\(3,\).*\(4,\)", "from the right"),
    "residual add: a branch of another width": (
        lambda: ops.residual_add(R((2, 8)), R((2, 4))),
        ShapeError, r"same shape.*\(2, 8\)", r"\(2, 4\)", "output projection"),
    "matmul: inner sizes": (
        lambda: leaf(2, 3) @ leaf(2, 3), ShapeError, "second-last axis", r"\(2, 3\).*@", r"\(in, out\)"),
    "matmul: a number": (lambda: leaf(2, 3) @ 2.0, ShapeError, "second-last axis", "2.0", r"with \*"),
    "linear: a transposed weight": (
        lambda: ops.linear(R((5, 3)), R((4, 3))),
        ShapeError, "in = 4", r"x \(5, 3\), weight \(4, 3\)", "transpose of PyTorch"),
    "linear: a bias of another size": (
        lambda: ops.linear(R((5, 3)), R((3, 4)), R(3)),
        ShapeError, r"bias must be \(4,\)", r"\(3,\)", "per output column"),
    "layernorm: heads not put back": (
        lambda: ops.layernorm(R((2, 16, 32)), R(64), R(64)), ShapeError, "d = 64", r"\(2, 16, 32\)", "transpose back"),
    "layernorm: beta alone wrong": (
        lambda: ops.layernorm(R((2, 4)), R(4), R(3)), ShapeError, "d = 4", r"beta \(3,\)", "splitting heads"),
    "rmsnorm: gamma": (lambda: ops.rmsnorm(R((2, 4)), R(3)), ShapeError, "d = 3", r"x \(2, 4\)", "splitting heads"),
    "dyt: gamma": (
        lambda: ops.dyt(R((2, 4)), np.array(1.0), R(3), R(3)), ShapeError, "d = 3", r"x \(2, 4\)", "transpose back"),
    "attention: keys without values": (
        lambda: ops.attention(R((2, 5, 4)), R((2, 6, 4)), R((2, 7, 4))),
        ShapeError, r"k \(…, S, dh\)", r"6, 4.*7, 4", "pairs"),
    "attention: an additive mask": (
        lambda: ops.attention(R((5, 4)), R((5, 4)), R((5, 4)), mask=np.zeros((5, 5))),
        DtypeError, "boolean", "float64", "bias="),
    "attention: a padding mask without axes": (
        lambda: ops.self_attention(R((2, 5, 12)), heads=2, mask=np.ones((2, 5), bool)),
        ShapeError, r"scores .*\(2, 2, 5, 5\)", r"\(2, 5\)", "None, None"),
    "attention: a bias with a gradient": (
        lambda: ops.attention(R((5, 4)), R((5, 4)), R((5, 4)), bias=leaf(5, 5)),
        GraphError, "option", "requires_grad", "detach"),
    "self attention: heads that do not divide": (
        lambda: ops.self_attention(R((2, 5, 3 * 16)), heads=5),
        ShapeError, r"heads \(5\) must divide", "16", "divisors"),
    "self attention: no packed projection": (
        lambda: ops.self_attention(R((5, 12)), heads=2), ShapeError, r"\(B, T, 3d\)", r"\(5, 12\)", "batch"),
    "embedding: an id out of range": (
        lambda: ops.embedding(R((3, 4)), IDS + 1), ValueProblem, "0 … 2", "from 1 to 3", "vocabulary"),
    "embedding: a negative id": (
        lambda: ops.embedding(R((3, 4)), IDS - 1), ValueProblem, "0 … 2", "from -1", "vocabulary"),
    "embedding: ids that are floats": (
        lambda: ops.embedding(R((3, 4)), IDS * 1.0), DtypeError, "integers", "float64", "Encode"),
    "embedding: a table that is no table": (
        lambda: ops.embedding(R(3), IDS), ShapeError, r"\(V, d\)", r"\(3,\)", "row per symbol"),
    "cross-entropy: one-hot targets": (
        lambda: ops.cross_entropy(R((2, 3)), np.eye(3)[:2]), DtypeError, "integer class ids", "float64", "argmax"),
    "cross-entropy: targets of another shape": (
        lambda: ops.cross_entropy(R((2, 5, 3)), IDS),
        ShapeError, r"\(2, 5\)", r"targets \(2, 2\)", "one class id per position"),
    "cross-entropy: a class too many": (
        lambda: ops.cross_entropy(R((2, 2, 2)), IDS), ValueProblem, "0 … 1", "from 0 to 2", "one column per class"),
    "cross-entropy: an empty batch": (
        lambda: ops.cross_entropy(R((0, 3)), np.zeros(0, int)),
        ValueProblem, "at least one target", "empty", "padding"),
    "cross-entropy: everything ignored": (
        lambda: ops.cross_entropy(R((2, 3)), np.full(2, -100)),
        ValueProblem, "at least one target", "2 targets", "padding"),
    "cross-entropy: smoothing in percent": (
        lambda: ops.cross_entropy(R((2, 3)), np.zeros(2, int), label_smoothing=10),
        ValueProblem, "between 0 and 1", "10", "0.1"),
    "dropout: a percentage": (
        lambda: ops.dropout(R(3), p=10, rng=np.random.default_rng(0)), ValueProblem, "0 and 1", "10", "0.1"),
    "dropout: no generator": (lambda: ops.dropout(R(3), p=0.5, rng=0), ValueProblem, "Generator", "0", "default_rng"),
    "ffn: an unknown activation": (
        lambda: ops.ffn(R((2, 3)), R((3, 4)), None, R((4, 3)), None, activation="gellu"),
        UnknownName, "relu", "'gellu'", "Did you mean 'gelu'"),
    "where: a condition of numbers": (
        lambda: ops.where(np.ones(3), R(3), R(3)), DtypeError, "boolean", "float64", "mask > 0"),
    "getitem: out of range": (lambda: leaf(3)[7], ShapeError, "getitem", r"\(3,\)", "out of bounds"),
    "reshape: another number of entries": (
        lambda: leaf(6).reshape(4, 2), ShapeError, "reshape", r"\(6,\)", "NumPy says"),
    "squeeze: an axis that is not 1": (
        lambda: ops.squeeze(leaf(2, 3), 0), ShapeError, "length 1", r"\(2, 3\)", "Axes are"),
    "expand_dims: an axis that cannot be": (
        lambda: leaf(2, 3).expand_dims(7), ShapeError, "place", r"\(2, 3\)", "from the end"),
    "split: unequal parts": (lambda: ops.split(leaf(2, 5), 2), ShapeError, "equal", r"\(2, 5\)", "list"),
    "sum: an axis that is not there": (lambda: leaf(2, 3).sum(axis=2), ShapeError, "sum", r"\(2, 3\)", "axis 2"),
    "max: of nothing": (lambda: leaf(0).max(), ShapeError, "max", r"\(0,\)", "zero-size"),
    "concatenate: shapes": (
        lambda: ops.concatenate([leaf(2, 3), leaf(3, 2)]), ShapeError, "concatenate", r"\(3, 2\)", "match"),
    "concatenate: nothing": (lambda: ops.concatenate([]), ShapeError, "concatenate", "nothing", "at least one"),
    "sinkhorn: not square": (lambda: ops.sinkhorn(R((2, 3))), ShapeError, "square", r"\(2, 3\)", "per stream"),
    "integers with requires_grad": (
        lambda: Tensor([1, 2], requires_grad=True), DtypeError, "floating-point", "int64", r"`1\.`"),
    "float16": (lambda: Tensor(np.ones(2, np.float16)), DtypeError, "float32", "float16", "asarray"),
    "text": (lambda: Tensor(["a"]), DtypeError, "float32", "<U1", "asarray"),
    "lists of unequal length": (lambda: Tensor([[1.0], [1.0, 2.0]]), ShapeError, "rectangular", r"\[\[1", "pad"),
    "np.exp on a tensor": (lambda: np.exp(leaf(2)), DtypeError, "NumPy functions", "np.exp", "minires.exp"),
    "np.sum on a tensor": (lambda: np.sum(leaf(2)), DtypeError, "NumPy functions", "np.sum", "minires.sum"),
    "np.asarray on a tensor": (lambda: np.asarray(leaf(2)), GraphError, "NumPy", "asarray", "detach"),
    "float() of many": (lambda: float(leaf(2)), ShapeError, "single number", r"\(2,\)", "mean"),
    "if tensor:": (lambda: bool(leaf(2) > 0), ShapeError, "single number", r"\(2,\)", "all"),
    "iterate over a number": (lambda: list(Tensor(1.0)), ShapeError, "one axis", "0-d", "item"),
    "backward from many numbers": (lambda: (leaf(2) * 2).backward(), GraphError, "single number", r"\(2,\)", "mean"),
    "backward with another shape": (
        lambda: (leaf(2) * 2).backward(np.ones(3)), ShapeError, r"shape, \(2,\)", r"\(3,\)", "dL/d"),
    "backward without a graph": (
        lambda: Tensor([1.0]).backward(), GraphError, "requires_grad", "without a graph", "no_grad"),
    "backward twice": (used_up, GraphError, "walked back once", "second", "retain_graph"),
    "backward after a change": (changed, GraphError, "must stay", "in place", "backward first"),
    "writing into a graph": (lambda: leaf(2).__setitem__(0, 1.0), GraphError, "in place", "requires_grad", "where"),
    "retain_grad without a graph": (
        lambda: Tensor([1.0]).retain_grad(), GraphError, "part of a graph", "without", "no_grad"),
    "grad of an input without": (
        lambda: minires.grad(leaf(), [Tensor(1.0)]), GraphError, "requires_grad", "input 0", "Mark"),
    "a gradient of another shape": (
        lambda: setattr(leaf(2), "grad", np.ones(3)), ShapeError, r"\(2,\)", r"\(3,\)", "transpose"),
    "freezing a result": (
        lambda: setattr(leaf(2) * 2, "requires_grad", False), GraphError, "only a leaf", "mul", "detach"),
    "deepcopy of a result": (lambda: copy.deepcopy(leaf(2) * 2), GraphError, "only leaves", "mul", "detach"),
    "pickle": (lambda: pickle.dumps(leaf(2)), GraphError, "not pickled", "pickle", "savez"),
    "a backward that forgets the batch sum": (
        lambda: wrong_backward(lambda dy, s: (dy @ s[1].T, s[0][:, :, None] * dy[:, None])),
        ShapeError, r"gradient 1 of planted.*\(3, 2\)", r"\(4, 3, 2\)", "forget to sum"),
    "a backward that returns too little": (
        lambda: wrong_backward(lambda dy, s: dy @ s[1].T), GraphError, "2 in all", "1", "tuple"),
    "replace: a misspelled name": (
        lambda: used(layernom_backward=np.exp),
        UnknownName, "softmax_backward", "layernom", "Did you mean 'layernorm_backward'"),
    "replace: not a function": (
        lambda: used(relu_backward=3), DtypeError, "must be a function", "3", "function itself"),
    "replace: never called": (never_called, GraphError, "must be called", "relu_backward", "inside the block"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_three_part_message(case):
    act, kind, must, given, hint = WRONG[case]
    with pytest.raises(kind) as caught:
        act()
    error = caught.value
    assert isinstance(error, Explained)
    for part, words in ((error.must, must), (error.given, given), (error.hint, hint)):
        assert part.strip()
        assert_words(part, words)


def assert_words(text, words):
    import re

    assert re.search(words, text, re.DOTALL), f"{words!r} not in {text!r}"


@pytest.mark.parametrize("case", ["add: shapes", "attention: an additive mask", "ffn: an unknown activation"])
def test_the_traceback_ends_at_the_public_edge(case):
    """No frame of the operation's inside, and no second traceback above the message."""
    with pytest.raises(Explained) as caught:
        WRONG[case][0]()
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert all(
        entry.name in ("apply", "call", "plus", "<lambda>") or "test_" in entry.name for entry in caught.traceback
    )


@pytest.mark.parametrize("result", [np.ones((2, 3)), [1, 2], (1, 2, 3)])
def test_a_forward_pass_that_saves_nothing_is_explained(result):
    """An array of two rows could be taken for a pair."""
    with (
        minires.use(softmax_forward=lambda x, axis=-1: result),
        pytest.raises(GraphError, match="must return two things"),
    ):
        minires.ops.softmax(leaf(2, 3))


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_options_that_are_changed_before_the_backward_pass(backend):
    x, i = leaf(5, 3), minires.Tensor(np.array([0, 1]))
    y = x[i]
    i[...] = np.array([3, 4])
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.any(axis=1), [True, True, False, False, False])
    mask = minires.Tensor(np.ones((4, 4), bool))
    q = leaf(1, 1, 4, 4)
    with minires.backend(backend):
        y = minires.ops.attention(q, q, q, mask=mask).sum()
        mask[:, :2] = False
        with pytest.raises(GraphError, match="changed in place"):
            y.backward()


def test_a_block_of_debug_inside_another_does_not_end_it():
    x = leaf(3)
    with minires.debug():
        y = (x * x).sum()
        x.data[0] = 5
        with minires.debug():
            pass
        with pytest.raises(GraphError, match="written to after"):
            y.backward()
