"""Writing with a language model, one symbol after the other."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from minires.messages import ShapeError, ValueProblem, shown
from minires.nn import Module
from minires.tensor import no_grad


class Codec(Protocol):
    """What turns text into ids and back; `CharCorpus` is one."""

    def encode(self, text: str) -> np.ndarray: ...
    def decode(self, ids: np.ndarray) -> str: ...


def generate(
    model: Any,
    corpus: Codec,
    prompt: str,
    n: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    rng: np.random.Generator | int = 0,
) -> str:
    """The prompt and `n` symbols more. Settings and errors as in `generate_ids`; unknown symbols are a ValueProblem."""
    return corpus.decode(generate_ids(model, corpus.encode(prompt), n, temperature, top_k, rng))


def generate_ids(
    model: Any,
    ids: Any,
    n: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    rng: np.random.Generator | int = 0,
) -> np.ndarray:
    """`ids` (T,) and `n` ids more, (T + n,). The model sees the last `model.context` of them.

    temperature: logits are divided by it; below 1 bolder, above 1 more varied, 0 takes the likeliest each time.
    top_k: draw among the k likeliest only. rng: a Generator, or a seed: the same seed gives the same text.
    Raises ShapeError for ids that are not (T,) with T >= 1, ValueProblem for settings out of range.
    """
    out = np.asarray(ids)
    if out.ndim != 1 or out.size == 0:
        hint = "Start with at least one symbol, a line break for example: prompt='\\n'."
        raise ShapeError("a prompt is a row of at least one id", shown(out), hint)
    _check(n, temperature, top_k, model.vocab)
    rng, training = np.random.default_rng(rng), model.training
    model.eval()
    try:
        with no_grad():
            for _ in range(n):
                logits = model(out[None, -model.context :]).data[0, -1]  # (vocab,)
                out = np.append(out, draw(logits, temperature, top_k, rng))
    finally:
        restore_mode(model, training)
    return out


def draw(logits: np.ndarray, temperature: float, top_k: int | None, rng: np.random.Generator) -> int:
    """One id from softmax(logits / temperature), among the `top_k` largest if given. logits: (vocab,)."""
    logits = logits.astype(np.float64)
    if not np.isfinite(logits).all():
        raise ValueProblem(
            "logits must be finite", "NaN or infinity", "Did the training run diverge? Look at its losses."
        )
    if temperature == 0:
        return int(logits.argmax())
    kept = np.arange(len(logits)) if top_k is None else np.argpartition(-logits, top_k - 1)[:top_k]
    z = logits[kept] / temperature
    weights = np.exp(z - z.max())
    return int(rng.choice(kept, p=weights / weights.sum()))


def restore_mode(model: Module, training: bool) -> None:
    """Back to train or eval mode, as it was."""
    model.train(training)


def _check(n: int, temperature: float, top_k: int | None, vocab: int) -> None:
    if not isinstance(n, int | np.integer) or n < 0:
        raise ValueProblem("n must be a whole number, at least 0", shown(n), "It counts the symbols to add.")
    if not 0 <= temperature < float("inf"):
        hint = "1 draws from the model as it is, 0.5 is bolder, 0 always takes the likeliest."
        raise ValueProblem("temperature must be a finite number, at least 0", shown(temperature), hint)
    if top_k is not None and not (isinstance(top_k, int | np.integer) and 1 <= top_k <= vocab):
        hint = "None draws among all symbols."
        raise ValueProblem(f"top_k must be a whole number in 1 … {vocab}, the vocabulary", shown(top_k), hint)
