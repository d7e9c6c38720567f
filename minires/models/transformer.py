"""A decoder language model and a BERT-style encoder."""

from __future__ import annotations

from typing import Any

import numpy as np

from minires import ops
from minires.messages import ShapeError, shown
from minires.models.rebuild import remembers_settings
from minires.models.stack import Stack
from minires.nn import (
    Context,
    Dropout,
    Embedding,
    Extras,
    FeedForward,
    LayerNorm,
    Linear,
    Maker,
    MixtureOfExperts,
    Module,
    MultiHeadAttention,
)
from minires.nn.layers import check_positive
from minires.residual import transformer_sites
from minires.tensor import Tensor


def transformer_stack(make: Maker, d: int, heads: int, blocks: int, causal: bool, **options: Any) -> Stack:
    """`blocks` times attention and feed-forward under one connection.

    options: hidden (4d), activation, dropout, connection, norm, extras.
    """
    hidden, dropout = options.get("hidden") or 4 * d, options.get("dropout", 0.0)
    extras: Extras = options.get("extras") or Extras()
    sites = transformer_sites(blocks)
    sublayers: list[Module] = []
    for b in range(blocks):
        sublayers.append(MultiHeadAttention(d, heads, make, causal, dropout, extras=extras, first=b == 0))
        if extras.experts:
            sublayers.append(MixtureOfExperts(d, hidden, make, extras.experts, extras.top_k, extras.balance))
        else:
            sublayers.append(FeedForward(d, hidden, make, options.get("activation", "gelu_tanh"), dropout, extras))
    return Stack(sites, sublayers, d, options.get("connection", "pre_norm"), options.get("norm", "layernorm"), make)


class _Transformer(Module):
    """What the decoder and the encoder share: token and position tables, dropout, the stack."""

    head: Linear | None

    def __init__(
        self, vocab: int, d: int, heads: int, blocks: int, context: int, causal: bool, make: Maker, **options: Any
    ):
        check_positive(vocab=vocab, d=d, heads=heads, blocks=blocks, context=context)
        self.vocab, self.d, self.context, self.rng = vocab, d, context, make.rng
        self.tokens = Embedding(vocab, d, make)
        self.positions = make.table(context, d, "position")
        self.dropout = Dropout(options.get("dropout", 0.0), make.rng)
        self.stack = transformer_stack(make, d, heads, blocks, causal, **options)

    def check_ids(self, ids: Any) -> np.ndarray:
        ids = np.asarray(ids.data if isinstance(ids, Tensor) else ids)
        if ids.ndim != 2 or ids.shape[1] > self.context:
            raise ShapeError(
                f"token ids must be (B, T) with T at most {self.context}, the model's context",
                shown(ids),
                "One sequence is ids[None, :]; cut longer text into pieces.",
            )
        return ids

    def loss(self, ids: Any, targets: Any, ctx: Context | None = None) -> Tensor:
        """Mean cross-entropy in nats; targets (B, T), -100 where nothing is asked.

        While training, a mixture of experts with a balance weight adds its load-balance loss.
        """
        ctx = ctx or Context()
        loss = ops.cross_entropy(self.forward(ids, ctx), targets)
        return loss + ctx.memo["balance_loss"] if "balance_loss" in ctx.memo else loss

    def embed(self, ids: np.ndarray) -> Tensor:
        """Token plus position: (B, T) → (B, T, d)."""
        return self.tokens(ids) + self.positions[: ids.shape[1]]

    def describe(self) -> str:
        tied = ", head tied to the tokens" if self.head is None else ""
        return f"vocab {self.vocab}, d = {self.d}, context {self.context}{tied}"

    def example(self, batch: int, length: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets of the right shapes, to measure with: ids (batch, length), every symbol in turn."""
        length = self.context if length is None else length
        ids = np.arange(batch * length).reshape(batch, length) % self.vocab
        return ids, np.roll(ids, -1, axis=1)


@remembers_settings
class DecoderLM(_Transformer):
    """A causal language model: ids (B, T) → logits (B, T, vocab) for the next token.

    vocab: symbols; d: width of the stream; heads: attention heads per block; blocks: N, two sublayers each;
    context: longest T. connection, norm, init, activation: names, see CONNECTIONS, NORMS, INITS, ACTIVATIONS.
    hidden: width of the FFN (4d). tied: the head is the transposed token table. dropout: probability.
    extras: optional pieces, see `minires.nn.Extras`. rng: a seed or a numpy Generator.
    Raises ValueProblem for impossible sizes and UnknownName for unknown names.
    """

    def __init__(
        self, vocab: int, d: int = 64, heads: int = 4, blocks: int = 4, context: int = 64, *,
        connection: Any = "pre_norm", norm: str = "layernorm", init: Any = "gpt2",
        activation: str = "gelu_tanh", hidden: int | None = None, dropout: float = 0.0, tied: bool = False,
        extras: Any = None, rng: Any = 0, dtype: Any = np.float32,
    ):  # fmt: skip
        make = Maker.of(rng, init, dtype, 2 * blocks if isinstance(blocks, int) else 1)
        options = dict(
            connection=connection, norm=norm, activation=activation, hidden=hidden, dropout=dropout, extras=extras
        )
        super().__init__(vocab, d, heads, blocks, context, True, make, **options)
        self.head = None if tied else Linear(d, vocab, make, bias=False, role="head")

    def forward(self, ids: Any, ctx: Context | None = None) -> Tensor:
        ids = self.check_ids(ids)
        x = self.dropout(self.embed(ids), ctx.rng if ctx else None)  # (B, T, d)
        y = self.stack(x, ctx)  # (B, T, d)
        return self.head(y) if self.head is not None else y @ self.tokens.table.transpose()  # (B, T, vocab)


@remembers_settings
class Encoder(_Transformer):
    """A BERT-style encoder: ids (B, T) → logits (B, T, vocab) for the token at each place (masked-language-model head).

    Every position sees every other one, except padding: positions whose id is `padding` are never looked at.
    segments: how many kinds of sentence there are (0: none). Embeddings are normalised, as in BERT. Other
    settings as in DecoderLM. Source: Devlin et al. 2018, arXiv:1810.04805.
    """

    def __init__(
        self, vocab: int, d: int = 64, heads: int = 4, blocks: int = 4, context: int = 64, *,
        connection: Any = "post_norm", norm: str = "layernorm", init: Any = "gpt2",
        activation: str = "gelu", hidden: int | None = None, dropout: float = 0.0, tied: bool = True,
        extras: Any = None, segments: int = 2, padding: int | None = None, rng: Any = 0, dtype: Any = np.float32,
    ):  # fmt: skip
        make = Maker.of(rng, init, dtype, 2 * blocks if isinstance(blocks, int) else 1)
        options = dict(
            connection=connection, norm=norm, activation=activation, hidden=hidden, dropout=dropout, extras=extras
        )
        super().__init__(vocab, d, heads, blocks, context, False, make, **options)
        self.padding = padding
        self.segments = Embedding(segments, d, make) if segments else None
        self.embedding_norm = LayerNorm(d, make)
        self.transform, self.transform_norm = Linear(d, d, make), LayerNorm(d, make)
        self.head = None if tied else Linear(d, vocab, make, bias=False, role="head")
        self.head_bias = make.zeros(vocab)

    def encode(self, ids: Any, segments: Any = None, ctx: Context | None = None) -> Tensor:
        """The last state of every position: (B, T) → (B, T, d)."""
        ids, ctx = self.check_ids(ids), ctx or Context()
        if self.padding is not None and ctx.mask is None:
            ctx.mask = (ids != self.padding)[:, None, None, :]  # (B, 1, 1, T)
        x = self.embed(ids)
        if self.segments is not None:
            x = x + self.segments(np.zeros_like(ids) if segments is None else segments)
        return self.stack(self.dropout(self.embedding_norm(x), ctx.rng), ctx)  # (B, T, d)

    def forward(self, ids: Any, ctx: Context | None = None, segments: Any = None) -> Tensor:
        y = self.transform_norm(ops.gelu(self.transform(self.encode(ids, segments, ctx))))  # (B, T, d)
        logits = self.head(y) if self.head is not None else y @ self.tokens.table.transpose()
        return logits + self.head_bias  # (B, T, vocab)
