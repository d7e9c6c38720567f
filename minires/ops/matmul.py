"""Matrix products: `@` in all its forms, and the linear layer."""

from __future__ import annotations

import math

import numpy as np

from minires.messages import ShapeError, shown
from minires.ops.broadcast import unbroadcast
from minires.tensor import differentiable


def matmul_forward(a, b):
    """y = a @ b with NumPy's rules: 1-D vectors, 2-D matrices, and stacks of matrices that broadcast.

    a: (…, n, k) or (k,), b: (…, k, m) or (k,). saved = (a, b).
    Raises ShapeError if the inner sizes differ or an operand is a single number.
    """
    _check_inner(a, b)
    return a @ b, (a, b)


def _check_inner(a, b):
    if np.ndim(a) and np.ndim(b) and a.shape[-1] == b.shape[-2 if b.ndim > 1 else 0]:
        return
    raise ShapeError(
        "a @ b needs a's last axis to equal b's second-last axis (b's only axis for a vector)",
        f"{shown(a)} @ {shown(b)}",
        "Weights are (in, out) here, so write x @ W. Multiply by a single number with *.",
    )


def matmul_backward(dy, saved, product=np.matmul):
    """da = dy @ bᵀ, db = aᵀ @ dy, summed over the batch axes along which either was stretched.

    A vector is treated as a matrix with one row (a) or one column (b), as in the forward pass.
    product: what multiplies two stacks of matrices.
    """
    a, b = saved
    if a.ndim == b.ndim == 2:
        return product(dy, b.T), product(a.T, dy)
    rows = a[None, :] if a.ndim == 1 else a  # (…, n, k)
    columns = b[:, None] if b.ndim == 1 else b  # (…, k, m)
    if a.ndim == 1:
        dy = np.expand_dims(dy, -1 if b.ndim == 1 else -2)  # (…, 1, m)
    if b.ndim == 1:
        dy = np.expand_dims(dy, -1)  # (…, n, 1)
    da = product(dy, np.swapaxes(columns, -1, -2))  # (…, n, k)
    db = product(np.swapaxes(rows, -1, -2), dy)  # (…, k, m)
    return unbroadcast(da, rows.shape).reshape(a.shape), unbroadcast(db, columns.shape).reshape(b.shape)


matmul = differentiable("matmul", matmul_forward, matmul_backward)


def as_rows(x):
    """(…, d) → (N, d): all leading axes become one. (reshape(-1, d) cannot do it when d is 0.)"""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def linear_forward(x, w, b=None):
    """y = x W + b over the last axis.

    x: (…, in), w: (in, out), b: (out,) or None. saved = (x, w, b is not None).
    Raises ShapeError if sizes do not fit.
    """
    if w.ndim != 2 or x.ndim == 0 or x.shape[-1] != w.shape[0]:
        raise ShapeError(
            f"x must be (…, in) with in = {w.shape[0] if w.ndim else '?'}, the rows of the weight (in, out)",
            f"x {x.shape}, weight {w.shape}",
            "Weights are (in, out) here, the transpose of PyTorch's. Did you forget to merge the heads back?",
        )
    if b is not None and b.shape != w.shape[1:]:
        raise ShapeError(f"the bias must be ({w.shape[1]},)", shown(b), "One number per output column.")
    y = (as_rows(x) @ w).reshape(x.shape[:-1] + w.shape[1:]) if x.ndim > 2 else x @ w  # (…, out)
    return y if b is None else y + b, (x, w, b is not None)


def linear_backward(dy, saved):
    """With rows n running over all leading axes: y_nj = Σ_i x_ni W_ij + b_j, so

    dx = dy Wᵀ   (…, in)
    dW = xᵀ dy   (in, out), summed over all rows
    db = Σ_n dy  (out,)
    """
    x, w, has_bias = saved
    rows = as_rows(dy)  # (N, out)
    dx = (rows @ w.T).reshape(x.shape)  # (…, in)
    dw = as_rows(x).T @ rows  # (in, out)
    return dx, dw, rows.sum(axis=0) if has_bias else None


def linear_composed(x, w, b=None):
    from minires.ops import add

    return matmul(x, w) if b is None else add(matmul(x, w), b)


linear = differentiable(
    "linear", linear_forward, linear_backward, inputs=3, composed=linear_composed, parts=("matmul", "add")
)
