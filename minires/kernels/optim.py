"""The optimiser's arithmetic on flat parameters: AdamW in one pass, and the squared norm for clipping."""

from __future__ import annotations

import numpy as np

from minires.kernels.checks import same_float_dtype
from minires.kernels.jit import njit


@njit
def adamw_flat(p, g, m, v, lr, b1, b2, eps, decay, c1, c2):
    one = p.dtype.type(1)
    for i in range(p.size):
        m[i] = b1 * m[i] + (one - b1) * g[i]
        v[i] = b2 * v[i] + (one - b2) * (g[i] * g[i])
        p[i] -= lr * (decay * p[i] + c1 * m[i] / (np.sqrt(c2 * v[i]) + eps))


def adamw_step(p, g, m, v, lr, b1, b2, eps, decay, c1, c2) -> None:
    """One AdamW step on flat arrays of one size and dtype, p, m and v written in place.

    m ← b1 m + (1 - b1) g,  v ← b2 v + (1 - b2) g²,  p ← p - lr (decay p + c1 m / (√(c2 v) + eps))

    with c1 = 1 / (1 - b1^t) and c2 = 1 / (1 - b2^t) at step t. Parameters with and without decay are two calls on two
    slices. Raises DtypeError unless all arrays have one float dtype.
    Source: Loshchilov & Hutter 2019, arXiv:1711.05101, algorithm 2.
    """
    real = same_float_dtype(p=p, g=g, m=m, v=v).type
    adamw_flat(p, g, m, v, *[real(number) for number in (lr, b1, b2, eps, decay, c1, c2)])


@njit
def sum_of_squares(g):
    """Σ g² in float64, so that neither many entries nor large ones spoil the norm."""
    total = 0.0
    for i in range(g.size):
        total += np.float64(g[i]) * np.float64(g[i])
    return total
