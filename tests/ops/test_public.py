"""Field report 36: every public name of `minires.ops` is called, gives NumPy's value, and hands back a gradient."""

import math

import numpy as np
import pytest

import minires
from minires import Tensor, ops

RNG = np.random.default_rng(0)
X, Y = RNG.uniform(0.5, 2, (2, 3, 4)), RNG.uniform(0.5, 2, (2, 3, 4))
GAMMA, W, B = RNG.standard_normal(4), RNG.standard_normal((4, 5)), RNG.standard_normal(5)
MASK, IDS = X > 1, np.array([[0, 2, 1], [2, 2, 0]])


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def layernorm(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def rmsnorm(x):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def gelu(x):
    return x * np.vectorize(lambda v: 0.5 * (1 + math.erf(v / math.sqrt(2))))(x)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def attention(x):
    return softmax(x @ x.swapaxes(-1, -2) / 2) @ x


def self_attention(x):
    q, k, v = x[..., :1], x[..., 1:2], x[..., 2:3]
    return softmax(q @ k.swapaxes(-1, -2)) @ v


def sinkhorn(a):
    y = np.exp(a)
    for _ in range(20):
        y = y / y.sum(-2, keepdims=True)
        y = y / y.sum(-1, keepdims=True)
    return y


def depth_attention(x):
    logits = np.stack([rmsnorm(v) @ GAMMA for v in (x, x * x)], axis=-1)
    a = softmax(logits)
    return a[..., :1] * x + a[..., 1:] * x * x


def first(function):
    """Only the first of several results."""
    return lambda *args: function(*args)[0]


# name: (ours on a tensor x, the same in NumPy)
CALLS = {
    "abs": (ops.abs, np.abs),
    "add": (lambda x: ops.add(x, GAMMA), lambda x: x + GAMMA),
    "attention": (lambda x: ops.attention(x, x, x), attention),
    "broadcast_to": (lambda x: ops.broadcast_to(x, 2, 2, 3, 4), lambda x: np.broadcast_to(x, (2, 2, 3, 4))),
    "clip": (lambda x: ops.clip(x, 0.8, 1.5), lambda x: np.clip(x, 0.8, 1.5)),
    "concatenate": (lambda x: ops.concatenate([x, Y, x], axis=1), lambda x: np.concatenate([x, Y, x], axis=1)),
    "cos": (ops.cos, np.cos),
    "cross_entropy": (
        lambda x: ops.cross_entropy(x, IDS),
        lambda x: -np.log(np.take_along_axis(softmax(x), IDS[..., None], -1)).mean(),
    ),
    "depth_attention": (lambda x: ops.depth_attention(GAMMA, np.ones(4), x, x * x), depth_attention),
    "depth_sum": (lambda x: ops.depth_sum(np.array([2.0, 3.0]), x, Y), lambda x: 2 * x + 3 * Y),
    "div": (lambda x: ops.div(Y, x), lambda x: Y / x),
    "dropout": (
        lambda x: ops.dropout(x, 0.5, np.random.default_rng(1)),
        lambda x: x * 2 * (np.random.default_rng(1).random(x.shape) >= 0.5),
    ),
    "dyt": (lambda x: ops.dyt(x, np.array(0.5), GAMMA, GAMMA), lambda x: GAMMA * np.tanh(0.5 * x) + GAMMA),
    "embedding": (lambda x: ops.embedding(x[0], IDS), lambda x: x[0][IDS]),
    "exp": (ops.exp, np.exp),
    "expand_dims": (lambda x: ops.expand_dims(x, -2), lambda x: np.expand_dims(x, -2)),
    "ffn": (lambda x: ops.ffn(x, W, B, W.T, None, activation="relu"), lambda x: np.maximum(x @ W + B, 0) @ W.T),
    "flip": (lambda x: ops.flip(x, 1), lambda x: np.flip(x, 1)),
    "gelu": (ops.gelu, gelu),
    "gelu_tanh": (ops.gelu_tanh, gelu_tanh),
    "getitem": (lambda x: ops.getitem(x, (..., IDS)), lambda x: x[..., IDS]),
    "layernorm": (lambda x: ops.layernorm(x, GAMMA, GAMMA), lambda x: layernorm(x) * GAMMA + GAMMA),
    "linear": (lambda x: ops.linear(x, W, B), lambda x: x @ W + B),
    "log": (ops.log, np.log),
    "log_softmax": (ops.log_softmax, lambda x: np.log(softmax(x))),
    "logsumexp": (lambda x: ops.logsumexp(x, (0, 2)), lambda x: np.log(np.exp(x).sum((0, 2)))),
    "matmul": (lambda x: ops.matmul(x, W), lambda x: x @ W),
    "max": (lambda x: ops.max(x, 2), lambda x: x.max(2)),
    "maximum": (lambda x: ops.maximum(x, Y), lambda x: np.maximum(x, Y)),
    "mean": (lambda x: ops.mean(x, 1, True), lambda x: x.mean(1, keepdims=True)),
    "min": (ops.min, np.min),
    "minimum": (lambda x: ops.minimum(x, Y), lambda x: np.minimum(x, Y)),
    "mul": (lambda x: ops.mul(x, Y), lambda x: x * Y),
    "neg": (ops.neg, np.negative),
    "power": (lambda x: ops.power(x, Y), lambda x: x**Y),
    "relu": (lambda x: ops.relu(x - 1), lambda x: np.maximum(x - 1, 0)),
    "reshape": (lambda x: ops.reshape(x, 6, -1), lambda x: x.reshape(6, -1)),
    "residual_add": (lambda x: ops.residual_add(x, Y), lambda x: x + Y),
    "rmsnorm": (lambda x: ops.rmsnorm(x, GAMMA), lambda x: rmsnorm(x) * GAMMA),
    "self_attention": (lambda x: ops.self_attention(x[..., :3]), self_attention),
    "sigmoid": (ops.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "silu": (ops.silu, lambda x: x / (1 + np.exp(-x))),
    "sin": (ops.sin, np.sin),
    "sinkhorn": (lambda x: ops.sinkhorn(x[:, :, :3]), lambda x: sinkhorn(x[:, :, :3])),
    "softmax": (ops.softmax, softmax),
    "split": (lambda x: ops.split(x, [1, 3])[1], lambda x: np.split(x, [1, 3], axis=-1)[1]),
    "sqrt": (ops.sqrt, np.sqrt),
    "squeeze": (lambda x: ops.squeeze(x[:, :1]), lambda x: np.squeeze(x[:, :1])),
    "stack": (lambda x: ops.stack([x, Y], axis=-1), lambda x: np.stack([x, Y], axis=-1)),
    "sub": (lambda x: ops.sub(Y, x), lambda x: Y - x),
    "sum": (lambda x: ops.sum(x, (0, 1)), lambda x: x.sum((0, 1))),
    "swapaxes": (lambda x: ops.swapaxes(x, 0, 2), lambda x: np.swapaxes(x, 0, 2)),
    "tanh": (ops.tanh, np.tanh),
    "transpose": (lambda x: ops.transpose(x, 1, 2, 0), lambda x: np.transpose(x, (1, 2, 0))),
    "var": (lambda x: ops.var(x, 1), lambda x: x.var(1)),
    "where": (lambda x: ops.where(MASK, x, Y), lambda x: np.where(MASK, x, Y)),
}


def test_every_public_operation_is_here():
    assert set(CALLS) == set(ops.__all__)


@pytest.mark.parametrize("name", CALLS)
def test_value_and_gradient(name):
    ours, numpys = CALLS[name]
    y = ours(Tensor(X))
    np.testing.assert_allclose(y.data, numpys(X), rtol=1e-12, atol=1e-14)
    assert minires.gradcheck(ours, X).worst < 1e-6


@pytest.mark.parametrize("name", CALLS)
def test_help_has_the_equation_and_the_derivation(name):
    """`help(minires.softmax)` shows forward and backward."""
    text = getattr(ops, name).__doc__
    assert text and len(text.split()) >= 4
    if hasattr(getattr(ops, name), "op"):
        assert "Backward" in text and "See the source" not in text


METHODS = ["exp", "log", "sqrt", "tanh", "sigmoid", "abs", "sum", "mean", "max", "min", "var", "logsumexp", "softmax",
           "log_softmax", "flip", "transpose", "squeeze"]  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_the_functions(name):
    np.testing.assert_array_equal(getattr(Tensor(X), name)().data, getattr(ops, name)(X).data)


def test_operators_are_the_functions():
    x, y = Tensor(X), Tensor(Y)
    for found, wanted in [
        (x + y, X + Y), (x - y, X - Y), (x * y, X * Y), (x / y, X / Y), (x**y, X**Y), (-x, -X), (abs(-x), X),
        (1 + x, 1 + X), (1 - x, 1 - X), (2 * x, 2 * X), (2 / x, 2 / X), (2**x, 2**X),
        (x @ W, X @ W), (x[0, 1:], X[0, 1:]), (x.T, X.T), (x.max(axis=1), X.max(1)),
    ]:  # fmt: skip
        np.testing.assert_array_equal(found.data, wanted)


def test_a_plain_array_is_welcome_everywhere():
    for name in ("squeeze", "exp", "softmax"):
        assert isinstance(getattr(ops, name)(X), Tensor)
    assert all(isinstance(part, Tensor) for part in ops.split(X, 2))
    assert isinstance(ops.expand_dims(X, 0), Tensor) and isinstance(ops.stack([X, X]), Tensor)
