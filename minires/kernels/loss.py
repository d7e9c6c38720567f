"""Cross-entropy: log-softmax, the choice of the right entry and the mean in one pass over the logits."""

from __future__ import annotations

import numpy as np

from minires.kernels.exp import decay
from minires.kernels.fits import as_rows, fits
from minires.kernels.jit import njit
from minires.kernels.softmax import largest


@njit
def cross_entropy_rows(logits, safe, kept, smoothing, logp):
    """Fills log p and returns the summed loss of the rows that are kept."""
    n, classes = logits.shape
    loss, share = logits.dtype.type(0), smoothing / logits.dtype.type(classes)
    for i in range(n):
        top, total, sum_z = largest(logits, i, classes), logits.dtype.type(0), logits.dtype.type(0)
        for j in range(classes):
            z = logits[i, j] - top
            logp[i, j] = z
            total += decay(z)
        lost = np.log(total if total != 0 else logits.dtype.type(1))
        for j in range(classes):
            logp[i, j] -= lost
        if kept[i]:
            loss -= (logits.dtype.type(1) - smoothing) * logp[i, safe[i]]
            if smoothing != 0:
                for j in range(classes):
                    sum_z += logp[i, j]
                loss -= share * sum_z
    return loss


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
    if not fits(logits) or logits.ndim == 0 or targets.dtype.kind not in "iu" or targets.shape != logits.shape[:-1]:
        return NotImplemented
    flat = targets.reshape(-1)  # (n,)
    kept = flat != ignore_index
    safe = np.where(kept, flat, 0)
    count = np.count_nonzero(kept)
    if count == 0 or safe.min() < 0 or safe.max() >= logits.shape[-1] or not 0 <= label_smoothing <= 1:
        return NotImplemented
    rows, real = as_rows(logits), logits.dtype.type  # (n, classes)
    logp = np.empty(rows.shape, logits.dtype)
    loss = cross_entropy_rows(rows, safe, kept, real(label_smoothing), logp)
    if not np.isfinite(loss):
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
