"""A deep multi-layer perceptron under any connection: the network of the degradation problem."""

from __future__ import annotations

from typing import Any

import numpy as np

from minires import ops
from minires.messages import UnknownName
from minires.models.rebuild import remembers_settings
from minires.models.stack import Stack
from minires.nn import Context, Linear, Maker, Module
from minires.nn.layers import check_positive
from minires.ops.activations import ACTIVATIONS
from minires.residual import mlp_sites
from minires.tensor import Tensor


class MLPLayer(Module):
    """act(x W + b): one weight layer, a sublayer of its own. W: (d, d)."""

    def __init__(self, d: int, make: Maker, activation: str = "relu"):
        if activation not in ACTIVATIONS:
            raise UnknownName("activation", activation, ACTIVATIONS)
        self.linear, self.activation = Linear(d, d, make, role="ffn_out"), activation

    def forward(self, h: Tensor, ctx: Context | None = None) -> Tensor:
        return ACTIVATIONS[self.activation](self.linear(h))

    def describe(self) -> str:
        return self.activation


class MLPBlock(Module):
    """act(x W1 + b1) W2 + b2: two weight layers per sublayer, the residual block of a ResNet without convolutions."""

    def __init__(self, d: int, make: Maker, activation: str = "relu"):
        if activation not in ACTIVATIONS:
            raise UnknownName("activation", activation, ACTIVATIONS)
        self.inner, self.outer = Linear(d, d, make, role="ffn_in"), Linear(d, d, make, role="ffn_out")
        self.activation = activation

    def forward(self, h: Tensor, ctx: Context | None = None) -> Tensor:
        return self.outer(ACTIVATIONS[self.activation](self.inner(h)))

    def describe(self) -> str:
        return self.activation


@remembers_settings
class DeepMLP(Module):
    """x (B, n_in) → logits (B, classes): a linear layer to width d, `blocks` sublayers under one connection, a head.

    layers_per_block: 2 for W2 act(W1 x) (with a residual connection), 1 for act(W x) (plain networks).
    Weight layers in all: 2 + blocks · layers_per_block. Other settings as in DecoderLM.
    """

    def __init__(
        self, n_in: int, classes: int, d: int = 64, blocks: int = 8, *, connection: Any = "residual",
        norm: str = "layernorm", init: Any = "he", activation: str = "relu", layers_per_block: int = 2,
        rng: Any = 0, dtype: Any = np.float32,
    ):  # fmt: skip
        check_positive(n_in=n_in, classes=classes, d=d, blocks=blocks, layers_per_block=layers_per_block)
        make = Maker.of(rng, init, dtype, blocks)
        self.rng, self.activation = make.rng, activation
        layer = MLPLayer if layers_per_block == 1 else MLPBlock
        self.entry = Linear(n_in, d, make)
        self.stack = Stack(
            mlp_sites(blocks), [layer(d, make, activation) for _ in range(blocks)], d, connection, norm, make
        )
        self.head = Linear(d, classes, make, role="head")

    def forward(self, x: Any, ctx: Context | None = None) -> Tensor:
        x = x if isinstance(x, Tensor) else Tensor(np.asarray(x))
        return self.head(self.stack(ACTIVATIONS[self.activation](self.entry(x)), ctx))  # (B, classes)

    def describe(self) -> str:
        return f"{self.entry.weight.shape[0]} inputs, {self.head.weight.shape[1]} classes, {self.activation}"

    def example(self, batch: int, length: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Inputs (batch, n_in) and targets (batch,) of the right shapes, to measure with; there is no length."""
        weight = self.entry.weight
        x = np.linspace(-1, 1, batch * weight.shape[0]).reshape(batch, -1).astype(weight.dtype)
        return x, np.arange(batch) % self.head.weight.shape[1]

    def loss(self, x: Any, targets: Any, ctx: Context | None = None) -> Tensor:
        """Mean cross-entropy in nats; targets (B,)."""
        return ops.cross_entropy(self.forward(x, ctx), targets)
