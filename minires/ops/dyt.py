"""DyT, dynamic tanh: a norm's stand-in that couples nothing."""

from __future__ import annotations

import numpy as np

from minires.messages import ShapeError
from minires.tensor import differentiable


def dyt_forward(x, alpha, gamma, beta):
    """y = γ tanh(α x) + β, entry by entry.

    x: (…, d); alpha: () one number; gamma, beta: (d,). saved = (x, tanh(αx), alpha, gamma).
    Raises ShapeError if the last axis is not gamma's size. Source: Zhu et al. 2025, arXiv:2503.10622.
    """
    if x.shape[-1:] != gamma.shape or gamma.shape != beta.shape:
        raise ShapeError(
            f"x must be (…, d) with d = {gamma.size} (gamma's size), and beta like gamma",
            f"x {x.shape}, gamma {gamma.shape}, beta {beta.shape}",
            "Did you forget to transpose back after splitting heads?",
        )
    t = np.tanh(alpha * x)
    return gamma * t + beta, (x, t, alpha, gamma)


def dyt_backward(dy, saved):
    """With s = dy γ (1 - t²), t = tanh(αx): dx = α s, dα = Σ s x, dγ = Σ dy t, dβ = Σ dy.

    J = α diag(γ (1 - t²)) is diagonal: no direction is lost, and no row is coupled.
    """
    x, t, alpha, gamma = saved
    s = dy * gamma * (1 - t * t)  # (…, d)
    rows = tuple(range(dy.ndim - 1))
    return alpha * s, np.asarray((s * x).sum()), (dy * t).sum(axis=rows), dy.sum(axis=rows)


def dyt_composed(x, alpha, gamma, beta):
    from minires.ops import add, tanh

    return add(gamma * tanh(x * alpha), beta)


dyt = differentiable("dyt", dyt_forward, dyt_backward, composed=dyt_composed, parts=("tanh", "mul", "add"))
