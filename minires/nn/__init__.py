"""Layers: modules with parameters, norms, attention, feed-forward, initialisers."""

from minires.nn.init import INITS, Init, get_init
from minires.nn.layers import NORMS, Dropout, Embedding, LayerNorm, Linear, Maker, RMSNorm, get_norm, layernorm_jacobian
from minires.nn.module import Module, Parameter
from minires.nn.moe import MixtureOfExperts, SwiGLU
from minires.nn.sublayers import Context, Extras, FeedForward, MultiHeadAttention

__all__ = [
    "INITS", "NORMS", "Context", "Dropout", "Embedding", "Extras", "FeedForward", "Init", "LayerNorm", "Linear",
    "Maker", "MixtureOfExperts", "Module", "MultiHeadAttention", "Parameter", "RMSNorm", "SwiGLU", "get_init",
    "get_norm", "layernorm_jacobian",
]  # fmt: skip
