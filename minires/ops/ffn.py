"""The feed-forward sublayer: linear, activation, linear."""

from __future__ import annotations

from minires.messages import UnknownName
from minires.ops.activations import ACTIVATIONS
from minires.ops.matmul import linear, linear_backward, linear_forward
from minires.tensor import OPS, differentiable


def ffn_forward(x, w1, b1, w2, b2, activation="gelu_tanh"):
    """y = act(x W1 + b1) W2 + b2, applied to every position alone.

    x: (…, d); w1: (d, hidden), b1: (hidden,), w2: (hidden, d), b2: (d,); usually hidden = 4d.
    activation: "relu", "gelu", "gelu_tanh" or "silu". saved = the three `saved` of its parts and the activation's name.
    Raises UnknownName for another activation and ShapeError for sizes that do not fit.
    """
    if activation not in ACTIVATIONS:
        raise UnknownName("activation", activation, ACTIVATIONS)
    hidden, saved_1 = linear_forward(x, w1, b1)  # (…, hidden)
    active, saved_a = OPS[activation].forward(hidden)  # (…, hidden)
    y, saved_2 = linear_forward(active, w2, b2)  # (…, d)
    return y, (saved_1, saved_a, saved_2, activation)


def ffn_backward(dy, saved):
    """The same three steps in reverse: dactive, dW2, db2 ← linear; dhidden ← activation; dx, dW1, db1 ← linear."""
    saved_1, saved_a, saved_2, activation = saved
    dactive, dw2, db2 = linear_backward(dy, saved_2)  # (…, hidden)
    dhidden = OPS[activation].backward(dactive, saved_a)  # (…, hidden)
    dx, dw1, db1 = linear_backward(dhidden, saved_1)  # (…, d)
    return dx, dw1, db1, dw2, db2


def ffn_composed(x, w1, b1, w2, b2, activation="gelu_tanh"):
    if activation not in ACTIVATIONS:
        raise UnknownName("activation", activation, ACTIVATIONS)
    return linear(ACTIVATIONS[activation](linear(x, w1, b1)), w2, b2)


ffn = differentiable("ffn", ffn_forward, ffn_backward, composed=ffn_composed, parts=("linear", *ACTIVATIONS))
