"""Solutions of the lesson on LayerNorm."""

import numpy as np


def layernorm_forward(x, gamma, beta, eps=1e-5):
    """Normalise every row of x over its last axis (equations 1 and 2 of the lesson).

    x: (..., d); gamma, beta: (d,), or None (then 1 and 0); eps: a small number under the root.
    The variance is the population variance: the mean of (x - μ)², with the mean μ subtracted first.
    Return (y, saved), y of x's shape and saved = (xhat, rstd, gamma, has_beta): xhat (..., d) is the normalised x,
    rstd (..., 1) is 1/√(σ² + eps), has_beta is True if beta is an array.
    Every array you return has the dtype of the arguments: float32 stays float32.
    minires calls this function wherever a model has a LayerNorm.
    """
    centred = x - x.mean(axis=-1, keepdims=True)  # (..., d)
    rstd = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)  # (..., 1)
    xhat = centred * rstd  # (..., d)
    y = xhat if gamma is None else gamma * xhat
    y = y if beta is None else y + beta
    return y, (xhat, rstd, gamma, beta is not None)


def layernorm_backward(dy, saved):
    """The backward pass of LayerNorm (equation 4).

    dy: ∂L/∂y, (..., d). saved = (xhat, rstd, gamma, has_beta): xhat (..., d), rstd = 1/√(σ² + eps) (..., 1),
    gamma (d,) or None, has_beta True or False.
    Return (dx, dgamma, dbeta): dx of dy's shape, dgamma and dbeta (d,). dgamma is None if gamma is None, dbeta is
    None if has_beta is False.
    Every array you return has the dtype of the arguments: float32 stays float32.
    minires calls this function wherever a model has a LayerNorm.
    """
    xhat, rstd, gamma, has_beta = saved
    dxhat = dy if gamma is None else dy * gamma  # (..., d)
    from_mean = dxhat.mean(axis=-1, keepdims=True)  # (..., 1)
    from_variance = xhat * (dxhat * xhat).mean(axis=-1, keepdims=True)  # (..., d)
    dx = rstd * (dxhat - from_mean - from_variance)
    rows = tuple(range(dy.ndim - 1))
    dgamma = None if gamma is None else (dy * xhat).sum(axis=rows)  # (d,)
    dbeta = dy.sum(axis=rows) if has_beta else None  # (d,)
    return dx, dgamma, dbeta


def layernorm_jacobian(x, gamma, eps=1e-5):
    """The Jacobian of LayerNorm at one row, and the directions it cannot see (equations 5 and 6).

    x, gamma: (d,); eps: a small number under the root.
    Return (jacobian, blind): jacobian (d, d) with jacobian[i, j] = ∂y_i/∂x_j; blind (2, d), two rows of length 1:
    the direction (1, …, 1), and the direction of x - μ, with these signs (not -1, not μ - x). Moving x along the first
    changes nothing; along the second it changes nothing but for eps.
    Every array you return has the dtype of the arguments: float32 stays float32.
    """
    d = len(x)
    centred = x - x.mean()
    rstd = 1 / np.sqrt((centred**2).mean() + eps)
    xhat = centred * rstd
    core = np.eye(d, dtype=x.dtype) - 1 / d - np.outer(xhat, xhat) / d  # (d, d)
    jacobian = gamma[:, None] * rstd * core
    blind = np.stack([np.full_like(x, d**-0.5), centred / np.linalg.norm(centred)])  # (2, d)
    return jacobian, blind
