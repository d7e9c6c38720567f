"""The training step that is compared: the model, its batches, and the step through our ordinary engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from minires.data import CharCorpus
from minires.models import DecoderLM
from minires.train import AdamW
from minires.train.loop import loss_and_gradients

LR, DECAY = 1e-3, 0.01
Step = Callable[[np.ndarray, np.ndarray], float]  # (x, y) of shape (B, T) → the loss before the update


class Size(NamedTuple):
    """(batch, T, d, layers, heads) of a model and its batch."""

    batch: int
    length: int
    d: int
    layers: int
    heads: int


def build(size: Size, corpus: CharCorpus) -> DecoderLM:
    return DecoderLM(len(corpus.vocab), size.d, size.heads, size.layers, size.length, rng=0)


def batches(size: Size, corpus: CharCorpus, steps: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The same batches for every contestant."""
    rng = np.random.default_rng(1)
    return [corpus.batch(rng, size.batch, size.length) for _ in range(steps)]


def our_step(model: DecoderLM, gradients: Callable = loss_and_gradients) -> Step:
    """One step through the ordinary engine."""
    optimizer = AdamW(model.parameters(), lr=LR, weight_decay=DECAY)

    def step(x: np.ndarray, y: np.ndarray) -> float:
        loss, found = gradients(model, x, y, optimizer.parameters)
        optimizer.step(found)
        return loss

    return step
