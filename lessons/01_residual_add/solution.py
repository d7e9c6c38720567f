"""Solutions of the lesson on the residual add."""

import numpy as np


def residual_add_backward(dy, saved):
    """The backward pass of y = x + f, where x and f are arrays of the same shape.

    dy: ∂L/∂y, any shape. saved: None, because an add needs to remember nothing.
    Return (dx, df), each of dy's shape: how the loss changes with x, and with f (equation 2 of the lesson).
    Every array you return has the dtype of the arguments: float32 stays float32.
    minires calls this function wherever a model says x + F(x).
    """
    return dy, dy


def block_forward(x, w1, w2):
    """y = x + relu(x W1) W2, the block of equation 3. This one is given.

    x: (..., d); w1: (d, hidden); w2: (hidden, d). Returns y (..., d) and saved = (x, h, w1, w2), h = x W1.
    """
    h = x @ w1  # (..., hidden)
    y = x + np.maximum(h, 0) @ w2  # (..., d)
    return y, (x, h, w1, w2)


def block_backward(dy, saved):
    """The backward pass of block_forward (equation 4).

    dy: ∂L/∂y, (..., d). saved = (x, h, w1, w2) as block_forward returns it.
    Return (dx, dw1, dw2) with the shapes of x, w1 and w2. There may be any number of axes before the last; every
    row used the same weights, so their gradients add up.
    Every array you return has the dtype of the arguments: float32 stays float32.
    """
    x, h, w1, w2 = saved
    da = dy @ w2.T  # (..., hidden)
    dh = da * (h > 0)
    dx = dy + dh @ w1.T  # (..., d)
    dw1 = _rows(x).T @ _rows(dh)  # (d, hidden)
    dw2 = _rows(np.maximum(h, 0)).T @ _rows(dy)  # (hidden, d)
    return dx, dw1, dw2


def _rows(a):
    """(..., n) → (rows, n)"""
    return a.reshape(-1, a.shape[-1])


def gradient_by_path_length(jacobians, dy):
    """Sort the gradient of a residual stack by the length of the paths it came along (equation 6).

    jacobians: L arrays (d, d); J_l[i, j] = ∂F_l,i/∂x_j of the layer x_(l+1) = x_l + F_l(x_l), first layer first.
    dy: ∂L/∂x_L, (d,), a row vector: one layer back is dy + dy @ J_l.
    Return an array (L + 1, d): row k is the sum over all paths that go through exactly k of the L branches. Row 0 is
    the path that takes every skip. All rows together are the gradient ∂L/∂x_0.
    Going through all 2^L paths is too slow: there may be 40 layers. Do it by rows and lengths instead: walk back layer
    by layer and keep the L + 1 sums; a branch moves a sum one row down.
    The array you return has the dtype of dy: float32 stays float32.
    """
    by_length = np.zeros((len(jacobians) + 1, len(dy)), dtype=dy.dtype)  # (L + 1, d)
    by_length[0] = dy
    for jacobian in reversed(jacobians):
        by_length[1:] += by_length[:-1] @ jacobian
    return by_length
