"""Models: a decoder language model, a BERT-style encoder, a deep MLP. Each is a stack under one connection."""

from minires.models.mlp import DeepMLP
from minires.models.recipes import RECIPES, Recipe, add_recipe, get_recipe
from minires.models.stack import Stack
from minires.models.summary import Summary, summary
from minires.models.transformer import DecoderLM, Encoder

__all__ = [
    "RECIPES", "DecoderLM", "DeepMLP", "Encoder", "Recipe", "Stack", "Summary", "add_recipe", "get_recipe", "summary",
]  # fmt: skip
