"""Small models for the last step of grading: do they train on the learner's function?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import minires

Build = Callable[[], tuple[Any, Callable]]  # → a model, and its loss as a function without arguments


def losses(build: Build, steps: int, replacements: Mapping[str, Callable] | None = None) -> list[float]:
    """Plain gradient descent from the same start; the loss before each step and after the last.

    replacements: what `minires.use` puts into the engine meanwhile.
    """
    with minires.backend("numpy"):  # so small a model does not pay for loading the kernels
        if not replacements:
            return _descend(*build(), steps)
        with minires.use(**replacements):
            return _descend(*build(), steps)


def _descend(model: Any, loss_of: Callable, steps: int, rate: float = 0.1) -> list[float]:
    curve = []
    for _ in range(steps):
        loss = loss_of()
        curve.append(loss.item())
        model.zero_grad()
        loss.backward()
        for p in model.parameters():
            p.data -= rate * p.grad
    return [*curve, loss_of().item()]


def tiny_transformer() -> tuple[Any, Callable]:
    """A Pre-Norm decoder of two blocks in float64, on one fixed batch of random tokens."""
    from minires.models import DecoderLM

    rng = np.random.default_rng(0)
    model = DecoderLM(12, d=16, heads=2, blocks=2, context=8, connection="pre_norm", rng=0, dtype=np.float64)
    ids = rng.integers(0, 12, (4, 9))
    return model, lambda: model.loss(ids[:, :-1], ids[:, 1:])


def tiny_mlp() -> tuple[Any, Callable]:
    """A residual MLP of four blocks in float64, on one fixed batch of random points."""
    from minires.models import DeepMLP

    rng = np.random.default_rng(0)
    model = DeepMLP(6, 3, d=12, blocks=4, connection="residual", init="lecun", rng=0, dtype=np.float64)
    x, y = rng.standard_normal((16, 6)), rng.integers(0, 3, 16)
    return model, lambda: model.loss(x, y)
