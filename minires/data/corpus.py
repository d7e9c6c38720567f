"""Text as numbers: the shipped play, and a corpus of characters with its two reference losses.

A language model that has learned nothing but letter frequencies sits at the *unigram* loss; one that looks at the
previous character only sits at the *bigram* loss. A training curve means little without these two lines.
"""

from __future__ import annotations

import gzip
from importlib import resources
from typing import NamedTuple

import numpy as np

from minires.data._checks import fraction, generator, whole
from minires.messages import DtypeError, UnknownName, ValueProblem, shown


def hamlet() -> str:
    """The whole text of Shakespeare's *Hamlet* (public domain, see CREDITS.md), one string, lines end with "\\n"."""
    packed = resources.files("minires.data").joinpath("hamlet.txt.gz").read_bytes()
    return gzip.decompress(packed).decode("ascii")


class Baselines(NamedTuple):
    """Validation cross-entropy in nats per character of the two simplest models."""

    unigram: float
    bigram: float


class CharCorpus:
    """A text as integers, one per character, split into a first part to learn from and a last part to check on.

    `vocab` is the sorted string of the text's symbols, `train` and `val` are int64 arrays. The validation part is the
    last `val_fraction` of the text: neighbouring characters are alike, so a random split would leak.

    Raises ValueProblem for a text too short for two characters in each part, or a fraction outside (0, 1).
    """

    def __init__(self, text: str, val_fraction: float = 0.1):
        if not isinstance(text, str):
            raise DtypeError("text must be a str", shown(text), "Decode bytes first: raw.decode('utf-8').")
        self.vocab = "".join(sorted(set(text)))
        self._index = {symbol: i for i, symbol in enumerate(self.vocab)}
        cut = len(text) - round(len(text) * fraction("val_fraction", val_fraction))
        if min(cut, len(text) - cut) < 2:
            raise ValueProblem(
                "each part of the corpus must hold at least 2 characters, one to read and one to predict",
                f"{cut} for training and {len(text) - cut} for validation",
                "Is the file empty, or val_fraction too close to 0 or 1?",
            )
        ids = self.encode(text)
        self.train, self.val = ids[:cut], ids[cut:]

    def __repr__(self) -> str:
        return f"CharCorpus({len(self.vocab)} symbols, {len(self.train)} to train on, {len(self.val)} to validate)"

    def encode(self, text: str) -> np.ndarray:
        """(len(text),) int64: each character's place in `vocab`. ValueProblem names the first unknown one."""
        try:
            return np.fromiter((self._index[symbol] for symbol in text), dtype=np.int64, count=len(text))
        except KeyError as missing:
            symbol = missing.args[0]
            raise ValueProblem(
                f"every character must be one of the corpus's {len(self.vocab)} symbols: {self.vocab!r}",
                f"{symbol!r} at position {text.index(symbol)}",
                "Curly quotes, accents and digits are often missing: type the prompt with the symbols above.",
            ) from None

    def decode(self, ids: np.ndarray) -> str:
        """The text that `encode` turns into `ids` (any shape, read in order)."""
        ids = np.asarray(ids)
        if ids.size == 0:
            return ""
        if ids.dtype.kind not in "iu":
            raise DtypeError("ids must be integers", shown(ids), "Take logits.argmax(-1) or a sample, not the logits.")
        if ids.min() < 0 or ids.max() >= len(self.vocab):
            raise ValueProblem(
                f"ids must be in 0 … {len(self.vocab) - 1}",
                f"values from {ids.min()} to {ids.max()}",
                "Does the model's vocab_size equal len(corpus.vocab)?",
            )
        return "".join(self.vocab[i] for i in ids.ravel())

    def batch(
        self, rng: np.random.Generator, batch_size: int, length: int, split: str = "train"
    ) -> tuple[np.ndarray, np.ndarray]:
        """`batch_size` random windows: x and its next characters y, both (batch_size, length) int64.

        y[b, t] is the character after x[b, t]. `split` is "train" or "val". UnknownName for another split,
        ValueProblem when the windows do not fit into it.
        """
        ids = self._split(split)
        whole("batch_size", batch_size, 1)
        whole("length", length, 1, len(ids) - 1, f"{split!r} holds {len(ids)} characters and y needs one more.")
        starts = generator(rng).integers(0, len(ids) - length, size=batch_size)  # (B,)
        windows = ids[starts[:, None] + np.arange(length + 1)]  # (B, T + 1)
        return windows[:, :-1].copy(), windows[:, 1:].copy()

    def _split(self, name: str) -> np.ndarray:
        parts = {"train": self.train, "val": self.val}
        if name not in parts:
            raise UnknownName("split", name, parts)
        return parts[name]

    def baselines(self, smoothing: float = 0.1) -> Baselines:
        """Cross-entropy on the validation part, in nats per character, of counts taken from the training part.

        unigram: p(b) = (n_b + s) / (n + s V);  bigram: p(b | a) = (n_ab + s) / (n_a + s V), with add-`s` smoothing
        (Lidstone) so that a pair never seen in training costs much but not infinitely much. Both predict the same
        characters, val[1:], and so compare with a model's loss on `batch(…, split="val")`.
        """
        if not smoothing > 0:
            raise ValueProblem("smoothing must be above 0", shown(smoothing), "With 0 an unseen pair costs infinity.")
        size = len(self.vocab)
        pairs = np.zeros((size, size))  # (V, V)
        np.add.at(pairs, (self.train[:-1], self.train[1:]), 1.0)
        single = np.bincount(self.train, minlength=size)  # (V,)
        return Baselines(
            unigram=float(-_log_share(single, smoothing)[self.val[1:]].mean()),
            bigram=float(-_log_share(pairs, smoothing)[self.val[:-1], self.val[1:]].mean()),
        )


def _log_share(counts: np.ndarray, smoothing: float) -> np.ndarray:
    """log of the smoothed share of each count in its (last-axis) row."""
    raised = counts + smoothing
    return np.log(raised) - np.log(raised.sum(-1, keepdims=True))
