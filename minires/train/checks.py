"""What the loop asks of a batch and of a loss, and the messages when it does not get it."""

from __future__ import annotations

from typing import Any

import numpy as np

from minires.messages import DtypeError, ShapeError, ValueProblem, shown
from minires.tensor import Tensor
from minires.train.history import History


def check_batch(batch: Any, step: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """(inputs, targets) as arrays with one entry per example, finite and of the model's dtype.

    Raises DtypeError, ShapeError or ValueProblem; each says at which step.
    """
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        hint = "batches(rng) returns two arrays, as corpus.batch(rng, 16, 64) does."
        raise DtypeError("a batch is a pair (inputs, targets)", f"{shown(batch)} at step {step}", hint)
    x, y = (np.asarray(part.data if isinstance(part, Tensor) else part) for part in batch)
    if x.size == 0 or y.size == 0:
        hint = "Is the data set empty, or smaller than one batch?"
        raise ValueProblem("a batch must hold at least one example", f"{_pair(x, y)} at step {step}", hint)
    if x.ndim == 0 or y.ndim == 0 or len(x) != len(y):
        hint = "The first axis counts the examples, in both."
        raise ShapeError("inputs and targets must be equally many", f"{_pair(x, y)} at step {step}", hint)
    for name, array in (("inputs", x), ("targets", y)):
        _check_numbers(name, array, step, dtype)
    return x, y


def _pair(x: np.ndarray, y: np.ndarray) -> str:
    return f"inputs {x.shape} and targets {y.shape}"


def _check_numbers(name: str, array: np.ndarray, step: int, dtype: np.dtype) -> None:
    if array.dtype.kind not in "iufb":
        hint = "Text is encoded first (corpus.encode); lists of unequal length are padded first."
        raise DtypeError(f"{name} must be integers or floats", f"{shown(array)} at step {step}", hint)
    if array.dtype.kind != "f":
        return
    if array.dtype != dtype:
        hint = f"Convert once, before training: x.astype(np.{dtype})."
        raise DtypeError(f"{name} must be {dtype}, as the model is", f"{shown(array)} at step {step}", hint)
    if not np.isfinite(array).all():
        bad = int(array.size - np.isfinite(array).sum())
        hint = "A feature that never varies, divided by its standard deviation, gives 0/0. Look at the data first."
        raise ValueProblem(f"{name} must be finite", f"{bad} NaN or infinite of {array.size} at step {step}", hint)


def check_loss(loss: Any) -> Tensor:
    """A loss is one number that depends on the parameters."""
    if not isinstance(loss, Tensor) or loss.size != 1 or loss.node is None:
        hint = "model.loss(inputs, targets) returns a mean, as a Tensor: do not take .item() or detach it."
        raise DtypeError("a loss must be a Tensor with one number and a graph", shown(loss), hint)
    return loss


def diverged(what: str, value: float, history: History, lr: float) -> ValueProblem:
    """The message for a loss or a gradient norm that is NaN or infinite."""
    before = (
        f"; loss before {history.losses[-1]:.4g}, gradient norm {history.grad_norms[-1]:.4g}" if history.steps else ""
    )
    return ValueProblem(
        f"the {what} must stay finite",
        f"{value} at step {history.steps} (learning rate {lr:.3g}{before})",
        "Lower the learning rate, warm up longer (a schedule), or clip: clip=1.0. The last checkpoint is whole.",
    )
