"""LayerNorm and RMSNorm over the last axis."""

from __future__ import annotations

import numpy as np

from minires.messages import ShapeError
from minires.tensor import differentiable


def _check_width(x, gamma, beta=None):
    parts = {name: p for name, p in (("gamma", gamma), ("beta", beta)) if p is not None}
    if x.ndim > 0 and all(p.shape == x.shape[-1:] for p in parts.values()):
        return
    size = "".join(f" = {p.size} ({name}'s size)" for name, p in [*parts.items()][:1])
    raise ShapeError(
        f"x must be (…, d) with d{size}, and gamma and beta (d,)",
        ", ".join(f"{name} {a.shape}" for name, a in [("x", x), *parts.items()]),
        "Did you forget to transpose back after splitting heads?",
    )


@np.errstate(over="ignore", invalid="ignore")
def layernorm_forward(x, gamma=None, beta=None, eps=1e-5):
    """y = γ x̂ + β with x̂ = (x - μ) r, r = (σ² + eps)^-½, over the last axis.

    x: (…, d); gamma, beta: (d,) or None (then 1 and 0). μ is the mean and σ² the population variance of each
    row, computed in two passes (first μ, then the mean of (x - μ)²). saved = (x̂, r, gamma, beta is not None).
    Raises ShapeError if the last axis is not gamma's size.
    Source: Ba et al. 2016, arXiv:1607.06450.
    """
    _check_width(x, gamma, beta)
    d = max(x.shape[-1], 1)
    centred = x - x.sum(axis=-1, keepdims=True) / d  # (…, d)
    rstd = 1 / np.sqrt((centred * centred).sum(axis=-1, keepdims=True) / d + eps)  # (…, 1)
    xhat = centred * rstd
    y = xhat if gamma is None else gamma * xhat
    return y if beta is None else y + beta, (xhat, rstd, gamma, beta is not None)


def layernorm_backward(dy, saved):
    """With dx̂ = dy γ, and μ and r both depending on x:

    dx = r (dx̂ - mean(dx̂) - x̂ mean(dx̂ x̂))     the first mean comes from μ, the second from the variance
    dγ = Σ dy x̂,  dβ = Σ dy                     summed over all axes but the last

    In the layout dx = dy·J this is J = diag(γ) r (I - 11ᵀ/d - x̂x̂ᵀ/d): two directions get no gradient.
    """
    xhat, rstd, gamma, has_beta = saved
    dxhat = dy if gamma is None else dy * gamma
    d = max(dy.shape[-1], 1)
    mean_dxhat = dxhat.sum(axis=-1, keepdims=True) / d
    mean_dxhat_xhat = (dxhat * xhat).sum(axis=-1, keepdims=True) / d
    dx = rstd * (dxhat - mean_dxhat - xhat * mean_dxhat_xhat)  # (…, d)
    rows = tuple(range(dy.ndim - 1))
    dgamma = None if gamma is None else (dy * xhat).sum(axis=rows)  # (d,)
    return dx, dgamma, dy.sum(axis=rows) if has_beta else None


def layernorm_composed(x, gamma=None, beta=None, eps=1e-5):
    from minires.ops import add, sqrt

    centred = x - x.mean(axis=-1, keepdims=True)
    xhat = centred / sqrt((centred * centred).mean(axis=-1, keepdims=True) + eps)
    y = xhat if gamma is None else xhat * gamma
    return y if beta is None else add(y, beta)


layernorm = differentiable(
    "layernorm",
    layernorm_forward,
    layernorm_backward,
    inputs=3,
    composed=layernorm_composed,
    parts=("mean", "sub", "mul", "add", "sqrt", "div"),
    saves_output=True,
)


@np.errstate(over="ignore", invalid="ignore")
def rmsnorm_forward(x, gamma=None, eps=1e-5):
    """y = γ x r with r = (mean x² + eps)^-½ over the last axis: LayerNorm without the mean.

    x: (…, d); gamma: (d,) or None. saved = (x̂ = x r, r, gamma). Raises ShapeError as layernorm does.
    Source: Zhang & Sennrich 2019, arXiv:1910.07467.
    """
    _check_width(x, gamma)
    d = max(x.shape[-1], 1)
    rstd = 1 / np.sqrt((x * x).sum(axis=-1, keepdims=True) / d + eps)  # (…, 1)
    xhat = x * rstd
    return xhat if gamma is None else gamma * xhat, (xhat, rstd, gamma)


def rmsnorm_backward(dy, saved):
    """With dx̂ = dy γ: dx = r (dx̂ - x̂ mean(dx̂ x̂)), dγ = Σ dy x̂. One direction, x̂, gets no gradient."""
    xhat, rstd, gamma = saved
    dxhat = dy if gamma is None else dy * gamma
    dx = rstd * (dxhat - xhat * (dxhat * xhat).sum(axis=-1, keepdims=True) / max(dy.shape[-1], 1))  # (…, d)
    return dx, None if gamma is None else (dy * xhat).sum(axis=tuple(range(dy.ndim - 1)))


def rmsnorm_composed(x, gamma=None, eps=1e-5):
    from minires.ops import sqrt

    xhat = x / sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    return xhat if gamma is None else xhat * gamma


rmsnorm = differentiable(
    "rmsnorm",
    rmsnorm_forward,
    rmsnorm_backward,
    inputs=2,
    composed=rmsnorm_composed,
    parts=("mean", "mul", "add", "sqrt", "div"),
    saves_output=True,
)
