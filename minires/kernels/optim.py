"""The optimiser's arithmetic on flat parameters: AdamW in one pass over its four arrays, and the norm for clipping."""

from __future__ import annotations

import numpy as np

from minires.kernels.fits import fits
from minires.kernels.jit import njit


@njit
def adamw_flat(p, g, m, v, lr, b1, b2, a1, a2, eps, decay, c1, c2):
    for i in range(p.size):
        m[i] = b1 * m[i] + a1 * g[i]
        v[i] = b2 * v[i] + a2 * (g[i] * g[i])
        p[i] -= lr * (decay * p[i] + c1 * m[i] / (np.sqrt(c2 * v[i]) + eps))


def adamw_step(p, g, m, v, lr, b1, b2, eps, decay, c1, c2):
    flat = p.ndim == 1 and all(a.shape == p.shape and a.flags.c_contiguous for a in (p, g, m, v))
    if not flat or not fits(p, g, m, v):
        return NotImplemented
    real = p.dtype.type
    numbers = lr, b1, b2, 1 - b1, 1 - b2, eps, decay, c1, c2  # 1 - 0.999 in float32 would be wrong by 1e-5
    adamw_flat(p, g, m, v, *[real(number) for number in numbers])
    return None


@njit
def squares(g):
    """Float64 holds every sum of float32 squares, so that nothing overflows and tiny entries count."""
    total = 0.0
    for i in range(g.size):
        x = np.float64(g[i])
        total += x * x
    return total


def sum_of_squares(g):
    return squares(g.ravel("K")) if fits(g) else NotImplemented  # in any order: a transposed array is not copied
