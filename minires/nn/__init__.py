"""Layers: modules with parameters, norms, attention, feed-forward, initialisers."""

from minires.nn.init import INITS, Init, get_init
from minires.nn.layers import NORMS, Dropout, Embedding, LayerNorm, Linear, Maker, RMSNorm, get_norm, layernorm_jacobian
from minires.nn.module import Module, Parameter
from minires.nn.sublayers import Context, FeedForward, MultiHeadAttention

__all__ = [
    "INITS", "NORMS", "Context", "Dropout", "Embedding", "FeedForward", "Init", "LayerNorm", "Linear", "Maker", "Module",
    "MultiHeadAttention", "Parameter", "RMSNorm", "get_init", "get_norm", "layernorm_jacobian",
]  # fmt: skip
