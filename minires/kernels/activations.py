"""GELU (exact and the tanh form) and SiLU, element by element."""

from __future__ import annotations

import math

import numpy as np

from minires.kernels.exp import normal, sigmoid, tanh
from minires.kernels.fits import fits
from minires.kernels.jit import njit

ROOT, CUBIC = math.sqrt(2 / math.pi), 0.044715


@njit
def gelu_flat(x, y):
    for i in range(x.size):
        cumulative, _ = normal(x[i])
        y[i] = x[i] * cumulative


@njit
def gelu_flat_backward(dy, x, dx):
    for i in range(x.size):
        cumulative, density = normal(x[i])
        dx[i] = dy[i] * (cumulative + x[i] * density)


@njit
def gelu_tanh_flat(x, y, t):
    root, cubic, half = x.dtype.type(ROOT), x.dtype.type(CUBIC), x.dtype.type(0.5)
    for i in range(x.size):
        t[i] = tanh(root * (x[i] + cubic * x[i] * x[i] * x[i]))
        y[i] = half * x[i] + half * x[i] * t[i]


@njit
def gelu_tanh_flat_backward(dy, x, t, dx):
    root, three, half, one = x.dtype.type(ROOT), x.dtype.type(3 * CUBIC), x.dtype.type(0.5), x.dtype.type(1)
    for i in range(x.size):
        slope = root * (one + three * x[i] * x[i])
        dx[i] = dy[i] * half * (one + t[i] + x[i] * (one - t[i] * t[i]) * slope)


@njit
def silu_flat(x, y, s):
    for i in range(x.size):
        s[i] = sigmoid(x[i])
        y[i] = x[i] * s[i]


@njit
def silu_flat_backward(dy, x, s, dx):
    one = x.dtype.type(1)
    for i in range(x.size):
        dx[i] = dy[i] * (s[i] + x[i] * s[i] * (one - s[i]))


def gelu_forward(x):
    if not fits(x):
        return NotImplemented
    y = np.empty(x.shape, x.dtype)
    gelu_flat(_flat(x), _flat(y))
    return y, x


def gelu_backward(dy, x):
    if not fits(dy, x) or dy.shape != x.shape:
        return NotImplemented
    dx = np.empty(dy.shape, dy.dtype)
    gelu_flat_backward(_flat(dy), _flat(x), _flat(dx))
    return dx


def gelu_tanh_forward(x):
    return _with_inner(gelu_tanh_flat, x)


def gelu_tanh_backward(dy, saved):
    return _from_inner(gelu_tanh_flat_backward, dy, *saved)


def silu_forward(x):
    return _with_inner(silu_flat, x)


def silu_backward(dy, saved):
    return _from_inner(silu_flat_backward, dy, *saved)


def _with_inner(kernel, x):
    """y, and saved = (x, the inner function's value)."""
    if not fits(x):
        return NotImplemented
    y, inner = np.empty(x.shape, x.dtype), np.empty(x.shape, x.dtype)
    kernel(_flat(x), _flat(y), _flat(inner))
    return y, (x, inner)


def _from_inner(kernel, dy, x, inner):
    if not fits(dy, x, inner) or dy.shape != x.shape:
        return NotImplemented
    dx = np.empty(dy.shape, dy.dtype)
    kernel(_flat(dy), _flat(x), _flat(inner), _flat(dx))
    return dx


def _flat(x):
    return np.ascontiguousarray(x).reshape(-1)
