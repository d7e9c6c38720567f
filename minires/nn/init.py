"""Initialisers: how large the first weights are, by scheme, and by the role that a weight plays.

A scheme draws one (in, out) matrix. A gain multiplies it by a factor that depends on the weight's role and
on how many sublayers the network has. Roles: query, key, value, attn_out, ffn_in, ffn_out, embedding,
position, head, linear. The two that write to the residual stream are attn_out and ffn_out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from minires.messages import UnknownName

WRITERS = frozenset(("attn_out", "ffn_out"))

Scheme = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
Gain = Callable[[str, int], float]


def xavier(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Uniform with variance 2/(in + out): a compromise that keeps variance forward and backward.

    Source: Glorot & Bengio 2010, eq. 16.
    """
    limit = math.sqrt(6 / (shape[0] + shape[1]))
    return rng.uniform(-limit, limit, shape)


def xavier_normal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Normal with variance 2/(in + out)."""
    return rng.standard_normal(shape) * math.sqrt(2 / (shape[0] + shape[1]))


def he(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Normal with variance 2/in: keeps the forward variance through ReLU. Source: He et al. 2015, arXiv:1502.01852."""
    return rng.standard_normal(shape) * math.sqrt(2 / shape[0])


def lecun(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Normal with variance 1/in: keeps the forward variance through a linear layer."""
    return rng.standard_normal(shape) * math.sqrt(1 / shape[0])


def normal_002(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Normal with standard deviation 0.02, whatever the size. Source: GPT-2's released code."""
    return rng.standard_normal(shape) * 0.02


def identity(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """The identity (cut or padded with zeros), plus normal noise of standard deviation 0.02 to break ties."""
    return np.eye(*shape) + 0.02 * rng.standard_normal(shape)


def no_gain(role: str, sublayers: int) -> float:
    """Every weight as the scheme drew it."""
    return 1.0


def residual_scaling(role: str, sublayers: int) -> float:
    """1/√K for the weights that write to the stream, K sublayers: their sum then has the variance of one.

    Source: Radford et al. 2019 (GPT-2), section 2.3, with N = K residual layers.
    """
    return 1 / math.sqrt(max(sublayers, 1)) if role in WRITERS else 1.0


@dataclass(frozen=True)
class Init:
    """A scheme and a gain. Embeddings and positions are normal with `embedding_std` instead; None means 1/√d."""

    name: str
    scheme: Scheme
    gain: Gain = no_gain
    embedding_std: float | None = 0.02

    def weight(self, rng: np.random.Generator, shape: tuple[int, int], role: str, sublayers: int) -> np.ndarray:
        """One (in, out) matrix for `role` in a network of `sublayers` sublayers; float64."""
        return self.scheme(rng, shape) * self.gain(role, sublayers)

    def embedding(self, rng: np.random.Generator, shape: tuple[int, int], role: str, sublayers: int) -> np.ndarray:
        """One (rows, d) table; float64."""
        std = shape[1] ** -0.5 if self.embedding_std is None else self.embedding_std
        return rng.standard_normal(shape) * std * self.gain(role, sublayers)


INITS: dict[str, Init] = {
    init.name: init
    for init in (
        Init("xavier", xavier, embedding_std=1.0),
        Init("xavier_normal", xavier_normal, embedding_std=1.0),
        Init("t_fixup", xavier, embedding_std=None),
        Init("he", he, embedding_std=1.0),
        Init("lecun", lecun, embedding_std=1.0),
        Init("gpt2", normal_002),
        Init("gpt2_scaled", normal_002, residual_scaling),
        Init("identity", identity, embedding_std=1.0),
    )
}


def get_init(init: str | Init) -> Init:
    """An initialiser by name; an `Init` passes through. Raises UnknownName."""
    if isinstance(init, Init):
        return init
    if init not in INITS:
        raise UnknownName("initialiser", init, INITS)
    return INITS[init]
