"""Models: a decoder language model, a BERT-style encoder, a deep MLP. Each is a stack under one connection."""

from minires.models.mlp import DeepMLP
from minires.models.stack import Stack
from minires.models.transformer import DecoderLM, Encoder

__all__ = ["DecoderLM", "DeepMLP", "Encoder", "Stack"]
