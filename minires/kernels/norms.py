"""LayerNorm and RMSNorm, one row after the other: a row stays in the nearest cache for all passes over it."""

from __future__ import annotations

import numpy as np

from minires.kernels.fits import as_rows, fits
from minires.kernels.jit import EXACT_ORDER, njit


@njit(fastmath=EXACT_ORDER, forceinline=True)
def inverse_root(x):
    """1 / √x for every x ≥ 0. With `arcp` it would become an estimate that is wrong for denormal numbers and inf."""
    return type(x)(1) / np.sqrt(x)


@njit
def layernorm_rows(x, gamma, beta, eps, y, xhat, rstd):
    n, d = x.shape
    width = x.dtype.type(d)
    for i in range(n):
        total = x.dtype.type(0)
        for j in range(d):
            total += x[i, j]
        mean = total / width
        square = x.dtype.type(0)
        for j in range(d):
            square += (x[i, j] - mean) * (x[i, j] - mean)
        r = inverse_root(square / width + eps)
        rstd[i] = r
        for j in range(d):
            z = (x[i, j] - mean) * r
            xhat[i, j] = z
            y[i, j] = z * gamma[j] + beta[j]


@njit
def layernorm_rows_backward(dy, xhat, rstd, gamma, dx, dgamma, dbeta):
    n, d = dy.shape
    width = dy.dtype.type(d)
    for i in range(n):
        first = dy.dtype.type(0)
        second = dy.dtype.type(0)
        for j in range(d):
            dxhat = dy[i, j] * gamma[j]
            dx[i, j] = dxhat
            first += dxhat
            second += dxhat * xhat[i, j]
        first /= width
        second /= width
        r = rstd[i]
        for j in range(d):
            dx[i, j] = r * (dx[i, j] - first - xhat[i, j] * second)
        for j in range(d):
            dgamma[j] += dy[i, j] * xhat[i, j]
            dbeta[j] += dy[i, j]


def layernorm_forward(x, gamma=None, beta=None, eps=1e-5):
    if not fits(x, gamma, beta) or not _one_row(x, gamma, beta):
        return NotImplemented
    y, xhat, rstd = np.empty(x.shape, x.dtype), np.empty(x.shape, x.dtype), np.empty(x.shape[:-1] + (1,), x.dtype)
    gain, offset = _row(gamma, x, 1), _row(beta, x, 0)  # (d,)
    layernorm_rows(as_rows(x), gain, offset, x.dtype.type(eps), as_rows(y), as_rows(xhat), rstd.reshape(-1))
    return y, (xhat, rstd, gamma, beta is not None)


def layernorm_backward(dy, saved):
    xhat, rstd, gamma, has_beta = saved
    if not fits(dy, xhat, rstd, gamma) or dy.shape != xhat.shape:
        return NotImplemented
    dx, sums = np.empty(dy.shape, dy.dtype), np.zeros((2, dy.shape[-1]), dy.dtype)
    gain = _row(gamma, dy, 1)  # (d,)
    layernorm_rows_backward(as_rows(dy), as_rows(xhat), rstd.reshape(-1), gain, as_rows(dx), *sums)
    return dx, None if gamma is None else sums[0], sums[1] if has_beta else None


@njit
def rmsnorm_rows(x, gamma, eps, y, xhat, rstd):
    n, d = x.shape
    width = x.dtype.type(d)
    for i in range(n):
        square = x.dtype.type(0)
        for j in range(d):
            square += x[i, j] * x[i, j]
        r = inverse_root(square / width + eps)
        rstd[i] = r
        for j in range(d):
            z = x[i, j] * r
            xhat[i, j] = z
            y[i, j] = z * gamma[j]


@njit
def rmsnorm_rows_backward(dy, xhat, rstd, gamma, dx, dgamma):
    n, d = dy.shape
    width = dy.dtype.type(d)
    for i in range(n):
        along = dy.dtype.type(0)
        for j in range(d):
            dxhat = dy[i, j] * gamma[j]
            dx[i, j] = dxhat
            along += dxhat * xhat[i, j]
        along /= width
        r = rstd[i]
        for j in range(d):
            dx[i, j] = r * (dx[i, j] - xhat[i, j] * along)
        for j in range(d):
            dgamma[j] += dy[i, j] * xhat[i, j]


def rmsnorm_forward(x, gamma=None, eps=1e-5):
    if not fits(x, gamma) or not _one_row(x, gamma):
        return NotImplemented
    y, xhat, rstd = np.empty(x.shape, x.dtype), np.empty(x.shape, x.dtype), np.empty(x.shape[:-1] + (1,), x.dtype)
    rmsnorm_rows(as_rows(x), _row(gamma, x, 1), x.dtype.type(eps), as_rows(y), as_rows(xhat), rstd.reshape(-1))
    return y, (xhat, rstd, gamma)


def rmsnorm_backward(dy, saved):
    xhat, rstd, gamma = saved
    if not fits(dy, xhat, rstd, gamma) or dy.shape != xhat.shape:
        return NotImplemented
    dx, dgamma = np.empty(dy.shape, dy.dtype), np.zeros(dy.shape[-1], dy.dtype)
    rmsnorm_rows_backward(as_rows(dy), as_rows(xhat), rstd.reshape(-1), _row(gamma, dy, 1), as_rows(dx), dgamma)
    return dx, None if gamma is None else dgamma


def _one_row(x, *vectors) -> bool:
    """True if every given vector has exactly the size of x's last axis."""
    return x.ndim > 0 and all(v is None or v.shape == x.shape[-1:] for v in vectors)


def _row(vector, like, otherwise):
    """The vector, contiguous, or a row of ones or zeros where none was given."""
    return np.full(like.shape[-1], otherwise, like.dtype) if vector is None else np.ascontiguousarray(vector)
