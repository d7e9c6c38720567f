"""Exercises of the lesson: LayerNorm and its Jacobian.

Replace each `raise NotImplementedError(...)` by your own lines, then run

    minires grade layernorm/forward                # normalise every row, and remember what the backward pass needs
    minires grade layernorm/backward               # the backward pass of LayerNorm, inside a Transformer
    minires grade layernorm/jacobian               # the whole Jacobian, and the two directions it cannot see
"""

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
    raise NotImplementedError("layernorm/forward")


def layernorm_backward(dy, saved):
    """The backward pass of LayerNorm (equation 4).

    dy: ∂L/∂y, (..., d). saved = (xhat, rstd, gamma, has_beta): xhat (..., d), rstd = 1/√(σ² + eps) (..., 1),
    gamma (d,) or None, has_beta True or False.
    Return (dx, dgamma, dbeta): dx of dy's shape, dgamma and dbeta (d,). dgamma is None if gamma is None, dbeta is
    None if has_beta is False.
    Every array you return has the dtype of the arguments: float32 stays float32.
    minires calls this function wherever a model has a LayerNorm.
    """
    raise NotImplementedError("layernorm/backward")


def layernorm_jacobian(x, gamma, eps=1e-5):
    """The Jacobian of LayerNorm at one row, and the directions it cannot see (equations 5 and 6).

    x, gamma: (d,); eps: a small number under the root.
    Return (jacobian, blind): jacobian (d, d) with jacobian[i, j] = ∂y_i/∂x_j; blind (2, d), two rows of length 1:
    the direction (1, …, 1), and the direction of x - μ, with these signs (not -1, not μ - x). Moving x along the first
    changes nothing; along the second it changes nothing but for eps.
    Every array you return has the dtype of the arguments: float32 stays float32.
    """
    raise NotImplementedError("layernorm/jacobian")
