"""A network that can be computed by hand: every branch is a matrix."""

import numpy as np

from minires import Tensor, ops
from minires.models import Stack
from minires.nn import Linear, Maker, Module
from minires.residual import mlp_sites

D, VOCAB = 5, 4


class LinearBranch(Module):
    """h W."""

    def __init__(self, make, d=D):
        self.weight = make.weight(d, d, "ffn_out")

    def forward(self, h, ctx=None):
        return h @ self.weight


class LinearNet(Module):
    """x (B, T, d) → logits: linear branches under one rule, and a linear head. No norm unless the rule has one."""

    def __init__(self, connection="residual", blocks=3, norm="layernorm", seed=0, d=D):
        make = Maker.of(seed, "xavier", np.float64, blocks)
        self.stack = Stack(mlp_sites(blocks), [LinearBranch(make, d) for _ in range(blocks)], d, connection, norm, make)
        self.head = Linear(d, VOCAB, make)
        self.head.bias.data[...] = make.rng.standard_normal(VOCAB)

    def forward(self, x, ctx=None):
        return self.head(self.stack(x if isinstance(x, Tensor) else Tensor(x), ctx))

    def loss(self, x, targets, ctx=None):
        return ops.cross_entropy(self.forward(x, ctx), targets)

    @property
    def weights(self):
        return [F.weight.data for F in self.stack.sublayers]


def states_of(net, x):
    """x_0 … x_K of x ← x + x W, by hand."""
    states = [x]
    for W in net.weights:
        states.append(states[-1] + states[-1] @ W)
    return states


def inputs(seed=1, batch=2, length=3):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((batch, length, D)), rng.integers(0, VOCAB, (batch, length))
