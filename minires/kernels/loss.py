"""Cross-entropy: log-softmax, the choice of the right entry and the mean in one pass over the logits."""

from __future__ import annotations

import math

import numpy as np

from minires.kernels.exp import decay
from minires.kernels.fits import as_rows, fits
from minires.kernels.jit import njit
from minires.kernels.softmax import largest

WHOLE = {np.dtype(name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")}


@njit
def read_targets(targets, ignored, classes, kept):
    """Fills `kept`, puts 0 where a target is ignored, and returns how many are kept; -1 if one is no class."""
    count = 0
    for i in range(targets.size):
        kept[i] = targets[i] != ignored
        if not kept[i]:
            targets[i] = 0
        elif 0 <= targets[i] < classes:
            count += 1
        else:
            return -1
    return count


@njit
def cross_entropy_rows(logits, targets, ignored, smoothing, kept, logp):
    """Fills log p and `kept`, and returns the summed loss and the count of the rows that are kept."""
    n, classes = logits.shape
    loss, share = logits.dtype.type(0), smoothing / logits.dtype.type(classes)
    count = read_targets(targets, ignored, classes, kept)
    for i in range(n if count > 0 else 0):
        top, total, sum_z = largest(logits, i, classes), logits.dtype.type(0), logits.dtype.type(0)
        for j in range(classes):
            z = logits[i, j] - top
            logp[i, j] = z
            total += decay(z)
        lost = np.log(total if total != 0 else logits.dtype.type(1))
        for j in range(classes):
            logp[i, j] -= lost
        if kept[i]:
            loss -= (logits.dtype.type(1) - smoothing) * logp[i, targets[i]]
            if smoothing != 0:
                for j in range(classes):
                    sum_z += logp[i, j]
                loss -= share * sum_z
    return loss, count


@njit
def cross_entropy_rows_backward(factor, logp, safe, kept, smoothing, dz):
    n, classes = logp.shape
    share = smoothing / logp.dtype.type(classes)
    for i in range(n):
        if not kept[i]:
            dz[i] = 0
            continue
        for j in range(classes):
            dz[i, j] = factor * (decay(logp[i, j]) - share)
        dz[i, safe[i]] -= factor * (logp.dtype.type(1) - smoothing)


def cross_entropy_forward(logits, targets, ignore_index=-100, label_smoothing=0.0):
    targets = np.asarray(targets)
    if not fits(logits) or not logits.ndim or targets.shape != logits.shape[:-1] or targets.dtype not in WHOLE:
        return NotImplemented
    if type(ignore_index) is not int or abs(ignore_index) >> 63 or not 0 <= label_smoothing <= 1:
        return NotImplemented
    rows, real = as_rows(logits), logits.dtype.type  # (n, classes)
    safe, kept, logp = targets.flatten(), np.empty(targets.size, bool), np.empty(rows.shape, logits.dtype)
    loss, count = cross_entropy_rows(rows, safe, ignore_index, real(label_smoothing), kept, logp)
    if count < 1 or not math.isfinite(loss):
        return NotImplemented
    return np.asarray(loss / count, logits.dtype), (logp, safe, kept, label_smoothing, logits.shape)


def cross_entropy_backward(dy, saved):
    logp, safe, kept, smoothing, shape = saved
    if not fits(dy, logp) or dy.size != 1:
        return NotImplemented
    real = logp.dtype.type
    dz = np.empty(logp.shape, logp.dtype)
    cross_entropy_rows_backward(real(dy.item() / np.count_nonzero(kept)), logp, safe, kept, real(smoothing), dz)
    return dz.reshape(shape), None
