"""ReLU, GELU (exact and the tanh form) and SiLU: functions of one number, run over arrays.

Each activation is two functions of one number:

    y, inner = value(x)          `inner` is what was computed on the way and is wanted again, where `keeps` says so
    dx = back(dy, x, inner)

`linear.py` runs the same functions on the blocks of a matrix product while they are still in the cache.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from minires.kernels.exp import normal, sigmoid, tanh
from minires.kernels.fits import fits
from minires.kernels.jit import njit

ROOT, CUBIC = math.sqrt(2 / math.pi), 0.044715


class Activation(NamedTuple):
    value: Any
    back: Any
    keeps: bool


@njit(forceinline=True)
def relu_value(x):
    return (x if x > 0 or x != x else type(x)(0)), x


@njit(forceinline=True)
def relu_back(dy, x, inner):
    return dy if x > 0 else (x if x != x else type(x)(0))


@njit(forceinline=True)
def gelu_value(x):
    cumulative, density = normal(x)
    return x * cumulative, density


@njit(forceinline=True)
def gelu_back(dy, x, inner):
    cumulative, density = normal(x)
    return dy * (cumulative + x * density)


@njit(forceinline=True)
def gelu_tanh_value(x):
    real = type(x)
    t = tanh(real(ROOT) * (x + real(CUBIC) * x * x * x))
    half = real(0.5) * x
    return half + half * t, t


@njit(forceinline=True)
def gelu_tanh_back(dy, x, t):
    real = type(x)
    slope = real(ROOT) * (real(1) + real(3 * CUBIC) * x * x)
    return dy * real(0.5) * (real(1) + t + x * (real(1) - t * t) * slope)


@njit(forceinline=True)
def silu_value(x):
    s = sigmoid(x)
    return x * s, s


@njit(forceinline=True)
def silu_back(dy, x, s):
    return dy * (s + x * s * (type(x)(1) - s))


ACTIVATIONS = {
    "relu": Activation(relu_value, relu_back, False),
    "gelu": Activation(gelu_value, gelu_back, False),
    "gelu_tanh": Activation(gelu_tanh_value, gelu_tanh_back, True),
    "silu": Activation(silu_value, silu_back, True),
}


@functools.cache
def over_arrays(name: str):
    """The two functions of an activation on flat arrays; `inner` is empty where nothing is kept."""
    value, back, keeps = ACTIVATIONS[name]

    @njit
    def forward(x, y, inner):
        for i in range(x.size):
            y[i], more = value(x[i])
            if keeps:
                inner[i] = more

    @njit
    def backward(dy, x, inner, dx):
        for i in range(x.size):
            dx[i] = back(dy[i], x[i], inner[i] if keeps else x[i])

    return forward, backward


def _forward(name, x):
    if not fits(x):
        return NotImplemented
    keeps = ACTIVATIONS[name].keeps
    y, inner = np.empty(x.shape, x.dtype), np.empty(x.shape if keeps else 0, x.dtype)
    over_arrays(name)[0](_flat(x), _flat(y), _flat(inner))
    return y, (x, inner) if keeps else x


def _backward(name, dy, saved):
    x, inner = saved if ACTIVATIONS[name].keeps else (saved, np.empty(0, dy.dtype))
    if not fits(dy, x, inner) or dy.shape != x.shape:
        return NotImplemented
    dx = np.empty(dy.shape, dy.dtype)
    over_arrays(name)[1](_flat(dy), _flat(x), _flat(inner), _flat(dx))
    return dx


def _flat(x):
    return np.ascontiguousarray(x).reshape(-1)


def gelu_forward(x):
    return _forward("gelu", x)


def gelu_backward(dy, saved):
    return _backward("gelu", dy, saved)


def gelu_tanh_forward(x):
    return _forward("gelu_tanh", x)


def gelu_tanh_backward(dy, saved):
    return _backward("gelu_tanh", dy, saved)


def silu_forward(x):
    return _forward("silu", x)


def silu_backward(dy, saved):
    return _backward("silu", dy, saved)


def relu_forward(x):
    return _forward("relu", x)


def relu_backward(dy, saved):
    return _backward("relu", dy, saved)
