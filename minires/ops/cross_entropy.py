"""Cross-entropy on logits: log-softmax and the choice of the right entry in one operation."""

from __future__ import annotations

import numpy as np

from minires.messages import DtypeError, ShapeError, ValueProblem, shown
from minires.ops.softmax import log_softmax_forward
from minires.tensor import Tensor, differentiable

IGNORE = -100


def _check_targets(logits, targets, ignore_index):
    if targets.dtype.kind not in "iu":
        raise DtypeError("targets must be integer class ids", shown(targets), "One-hot rows? Use targets.argmax(-1).")
    if logits.ndim == 0 or targets.shape != logits.shape[:-1]:
        raise ShapeError(
            f"targets must have the shape of the logits without the last axis, {logits.shape[:-1]}",
            f"logits {logits.shape}, targets {targets.shape}",
            "Logits are (…, classes); targets hold one class id per position.",
        )
    counted = targets[targets != ignore_index]
    if counted.size == 0:
        raise ValueProblem(
            "cross-entropy needs at least one target that is not ignored",
            f"{targets.size} targets, all equal to ignore_index = {ignore_index}" if targets.size else "an empty batch",
            "A mean over nothing has no value: check the batch and its padding.",
        )
    if counted.min() < 0 or counted.max() >= logits.shape[-1]:
        raise ValueProblem(
            f"targets must be in 0 … {logits.shape[-1] - 1}, or equal ignore_index = {ignore_index}",
            f"targets from {counted.min()} to {counted.max()}",
            "The logits need one column per class.",
        )


def cross_entropy_forward(logits, targets, ignore_index=IGNORE, label_smoothing=0.0):
    """L = -(1/N) Σ_n Σ_c q_nc log p_nc with p = softmax(logits), over the N positions that are not ignored.

    logits: (…, C); targets: integers (…). q puts 1-ε on the target and ε/C on every class (ε = label_smoothing).
    saved = (log p, targets, kept, ε, shape of logits): (N_all, C), (N_all,), (N_all,) booleans, a number, a tuple.
    Raises DtypeError, ShapeError or ValueProblem for targets that are not ids of classes, if all are ignored, and
    for an ε outside 0 … 1.
    """
    targets = np.asarray(targets)
    _check_targets(logits, targets, ignore_index)
    if not 0 <= label_smoothing <= 1:
        raise ValueProblem("label smoothing must be between 0 and 1", shown(label_smoothing), "Write 0.1 for 10 %.")
    logp, _ = log_softmax_forward(logits.reshape(-1, logits.shape[-1]))  # (N, C)
    flat = targets.reshape(-1)  # (N,)
    kept = flat != ignore_index
    safe = np.where(kept, flat, 0)
    loss = -logp[np.arange(len(flat)), safe]  # (N,)
    if label_smoothing:
        loss = (1 - label_smoothing) * loss - label_smoothing * logp.mean(axis=-1)
    return loss[kept].sum() / int(kept.sum()), (logp, safe, kept, label_smoothing, logits.shape)


def cross_entropy_backward(dy, saved):
    """log p_t = z_t - log Σ e^z gives ∂(-log p_t)/∂z = p - onehot(t), so

    dz = dy (p - q) / N at counted positions, and 0 at ignored ones.
    """
    logp, safe, kept, smoothing, shape = saved
    dz = np.exp(logp)  # (N, C)
    dz[np.arange(len(safe)), safe] -= 1 - smoothing
    if smoothing:
        dz -= smoothing / shape[-1]
    dz *= (dy * kept / kept.sum()).astype(dz.dtype)[:, None]
    return dz.reshape(shape), None


def cross_entropy_composed(logits, targets, ignore_index=IGNORE, label_smoothing=0.0):
    from minires.ops import log_softmax

    flat = (targets.data if isinstance(targets, Tensor) else np.asarray(targets)).reshape(-1)
    logp = log_softmax(logits.reshape(-1, logits.shape[-1]))
    rows = np.flatnonzero(flat != ignore_index)
    loss = -logp[rows, flat[rows]].mean()
    return loss if not label_smoothing else loss * (1 - label_smoothing) - logp[rows].mean() * label_smoothing


cross_entropy = differentiable(
    "cross_entropy",
    cross_entropy_forward,
    cross_entropy_backward,
    composed=cross_entropy_composed,
    parts=("log_softmax", "reshape", "getitem", "neg", "mean", "mul", "sub"),
    saves_inputs=False,
)
