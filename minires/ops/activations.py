"""Activation functions: ReLU, GELU (exact and the tanh form) and SiLU."""

from __future__ import annotations

import math

import numpy as np

from minires.ops.elementwise import sigmoid_forward
from minires.ops.normal import normal_cdf
from minires.tensor import differentiable

_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_CUBIC = 0.044715


def relu_forward(x):
    """y = max(x, 0); NaN stays NaN. saved = x."""
    return np.maximum(x, 0), x


def relu_backward(dy, x):
    """dx = dy where x > 0, else 0 (also at x = 0); NaN where x is NaN."""
    return np.where(np.isnan(x), x, np.where(x > 0, dy, dy.dtype.type(0)))


@np.errstate(over="ignore", invalid="ignore")
def gelu_forward(x):
    """y = x Φ(x) with Φ(x) = (1 + erf(x/√2)) / 2, the normal distribution function. saved = x.

    Source: Hendrycks & Gimpel 2016, arXiv:1606.08415.
    """
    return x * normal_cdf(x), x


def gelu_backward(dy, x):
    """dx = dy (Φ(x) + x φ(x)) with the normal density φ(x) = e^{-x²/2} / √(2π)."""
    density = np.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))
    return dy * (normal_cdf(x) + x * density)


@np.errstate(over="ignore", invalid="ignore")
def gelu_tanh_forward(x):
    """y = x (1 + tanh u) / 2 with u = √(2/π) (x + 0.044715 x³): GPT-2's approximation of GELU. saved = (x, tanh u)."""
    t = np.tanh(_SQRT_2_OVER_PI * (x + _CUBIC * x * x * x))
    return 0.5 * x * (1 + t), (x, t)


def gelu_tanh_backward(dy, saved):
    """dx = dy ((1 + t)/2 + x (1 - t²) u'/2) with t = tanh u and u' = √(2/π) (1 + 3·0.044715 x²)."""
    x, t = saved
    slope = _SQRT_2_OVER_PI * (1 + 3 * _CUBIC * x * x)
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope)


def gelu_tanh_composed(x):
    from minires.ops import add, tanh

    return x * 0.5 * (tanh(add(x, x * x * x * _CUBIC) * _SQRT_2_OVER_PI) + 1)


@np.errstate(over="ignore", invalid="ignore")
def silu_forward(x):
    """y = x σ(x) with σ(x) = 1/(1 + e^-x). saved = (x, σ(x))."""
    s, _ = sigmoid_forward(x)
    return x * s, (x, s)


def silu_backward(dy, saved):
    """dx = dy (σ + x σ (1 - σ))."""
    x, s = saved
    return dy * (s + x * s * (1 - s))


def silu_composed(x):
    from minires.ops import sigmoid

    return x * sigmoid(x)


relu = differentiable("relu", relu_forward, relu_backward)
gelu = differentiable("gelu", gelu_forward, gelu_backward)
gelu_tanh = differentiable(
    "gelu_tanh", gelu_tanh_forward, gelu_tanh_backward, composed=gelu_tanh_composed, parts=("tanh", "mul", "add")
)
silu = differentiable("silu", silu_forward, silu_backward, composed=silu_composed, parts=("sigmoid", "mul"))

ACTIVATIONS = {"relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh, "silu": silu}
