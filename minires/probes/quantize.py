"""How many bits the stream needs, beside the branches and the weights."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minires.messages import ValueProblem
from minires.probes.picture import curves
from minires.probes.running import Streamed, cross_entropy, forward, seen_through, stack_of


@dataclass(frozen=True)
class Quantization:
    """Rise of the loss in nats, (bits,) each: with the carried state, the branches' outputs, or the weights rounded."""

    bits: np.ndarray
    loss: float
    stream: np.ndarray
    branch: np.ndarray
    weights: np.ndarray

    def draw(self) -> Any:
        series = {"stream": self.stream, "branches": self.branch, "weights": self.weights}
        options: dict[str, Any] = dict(xlabel="bits", ylabel="rise of the loss (nats)", x=self.bits)
        return curves(series, title="Rounded to few bits", **options)


def rounded(x: np.ndarray, bits: int, axis: int = -1) -> np.ndarray:
    """x on 2^bits - 1 evenly spaced values from -max|x| to max|x|, the maximum taken along `axis`.

    Raises ValueProblem for fewer than 2 bits: zero and two signs need them.
    """
    if bits < 2:
        raise ValueProblem("numbers with a sign need at least 2 bits", f"bits={bits}", "Try 8, 4, 2.")
    levels = 2 ** (bits - 1) - 1
    unit = np.abs(x).max(axis, keepdims=True, initial=0) / levels
    unit = np.where(unit > 0, unit, 1)
    return (np.round(x / unit) * unit).astype(x.dtype)


def quantization(model: Any, inputs: Any, targets: Any, bits: Sequence[int] = (8, 6, 5, 4, 3, 2)) -> Quantization:
    """Round one of three things to few bits, leave the rest as it is, and look at the loss.

    Stream and branches have one scale per token, weights one per output column. A rounded stream is rounded after
    every step, as if it were stored in that format. Raises ValueProblem for fewer than 2 bits.
    """
    loss = cross_entropy(forward(model, inputs).output, targets)

    def rise(changed: Any, change: Any = None) -> float:
        return cross_entropy(forward(changed, inputs, change).output, targets) - loss

    connection = stack_of(model).connection
    stream = [rise(seen_through(model, Streamed(connection, lambda x, b=b: rounded(x, b)))) for b in bits]
    branch = [rise(model, lambda site, f, b=b: rounded(f, b)) for b in bits]
    weights = [rise(_rounded_weights(model, b)) for b in bits]
    return Quantization(np.array(bits), loss, np.array(stream), np.array(branch), np.array(weights))


def _rounded_weights(model: Any, bits: int) -> Any:
    """A copy whose sublayers have rounded weight matrices; embeddings, norms, gates and biases stay."""
    twin = copy.deepcopy(model)
    for p in stack_of(twin).parameters():
        if p.kind == "weight":
            p.data[...] = rounded(p.data, bits, axis=0)
    return twin
