"""Synthetic sequence problems whose best possible loss is known.

Every generator gives `inputs` and `targets` of shape (B, T): `targets[b, t]` is the token that should be predicted
after reading `inputs[b, :t + 1]`, or `IGNORE` where that token is pure chance. What is asked for follows from what was
read, so the smallest possible mean cross-entropy over the asked positions is 0 nats for every task here, and a
model that guesses evenly has `chance` nats.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minires.data._checks import fraction, generator, whole
from minires.messages import ValueProblem

IGNORE = -100  # the target that cross-entropy leaves out


class SequenceTask(NamedTuple):
    """One batch: inputs and targets (B, T) int64, tokens 0 … vocab_size − 1, the even guess's loss `chance` in nats."""

    inputs: np.ndarray
    targets: np.ndarray
    vocab_size: int
    chance: float

    @property
    def asked(self) -> np.ndarray:
        """(B, T) bool: where a prediction is asked for."""
        return self.targets != IGNORE


def copy_task(rng: np.random.Generator, batch_size: int, length: int, symbols: int = 8) -> SequenceTask:
    """Read s_1 … s_n and a separator, then say s_1 … s_n. T = 2n, the separator is token `symbols`.

        inputs   s_1 … s_n  |    s_1 … s_{n−1}
        targets   –  …  –   s_1  s_2 … s_n          (– is IGNORE)

    Optimum 0 nats; an even guess costs log(symbols).
    """
    source = _random_tokens(rng, batch_size, length, symbols)  # (B, n)
    return _say_after(source, source, symbols)


def reversal(rng: np.random.Generator, batch_size: int, length: int, symbols: int = 8) -> SequenceTask:
    """As `copy_task`, but say s_n … s_1: the distance to look back grows with every step, from 1 to 2n − 1.

    Optimum 0 nats; an even guess costs log(symbols).
    """
    source = _random_tokens(rng, batch_size, length, symbols)  # (B, n)
    return _say_after(source, source[:, ::-1], symbols)


def _random_tokens(rng: np.random.Generator, batch_size: int, length: int, symbols: int) -> np.ndarray:
    whole("batch_size", batch_size, 1)
    whole("length", length, 1)
    whole("symbols", symbols, 2, hint="With a single symbol there is nothing to remember.")
    return generator(rng).integers(0, symbols, size=(batch_size, length))  # (B, n) int64


def _say_after(source: np.ndarray, answer: np.ndarray, symbols: int) -> SequenceTask:
    separator = np.full((len(source), 1), symbols)
    inputs = np.concatenate([source, separator, answer[:, :-1]], axis=1)  # (B, 2n)
    targets = np.concatenate([np.full_like(source, IGNORE), answer], axis=1)  # (B, 2n)
    return SequenceTask(inputs, targets, symbols + 1, float(np.log(symbols)))


def induction(
    rng: np.random.Generator,
    batch_size: int,
    length: int,
    symbols: int = 32,
    period: tuple[int, int] = (5, 14),
) -> SequenceTask:
    """A block of p different random tokens, repeated; p is drawn evenly from lo … hi *for every sequence*.

    Asked for are the positions t ≥ p: there the current token has been seen before, p steps ago, so its old successor
    is certain to come again. Before that the next token is chance. With one period for all sequences a single layer
    solves the task by position alone; a random period needs a head that looks for the previous occurrence.

    Needs 2 ≤ lo ≤ hi ≤ symbols, and hi < length so that every sequence asks for something. Optimum 0 nats; an even
    guess costs log(symbols).
    """
    low, high = _check_period(period, symbols, length)
    whole("batch_size", batch_size, 1)
    p = generator(rng).integers(low, high + 1, size=(batch_size, 1))  # (B, 1)
    blocks = rng.random((batch_size, symbols)).argsort(1)[:, :high]  # (B, hi): distinct tokens, evenly drawn
    step = np.arange(length + 1)
    tokens = np.take_along_axis(blocks, step % p, axis=1)  # (B, T + 1)
    targets = np.where(step[:-1] >= p, tokens[:, 1:], IGNORE)  # (B, T)
    return SequenceTask(tokens[:, :-1], targets, symbols, float(np.log(symbols)))


def _check_period(period: tuple[int, int], symbols: int, length: int) -> tuple[int, int]:
    whole("length", length, 1)
    whole("symbols", symbols, 2)
    try:
        low, high = period
    except (TypeError, ValueError):
        raise ValueProblem(
            "period must be a pair (lo, hi)", repr(period), "For one fixed period p write (p, p)."
        ) from None
    whole("the shortest period", low, 2)
    whole("the longest period", high, low, min(symbols, length - 1), _PERIOD_HINT)
    return low, high


_PERIOD_HINT = "A block holds different symbols and must start again before the end: raise symbols or length, lower hi."


def modular_addition(rng: np.random.Generator, batch_size: int, p: int = 31) -> SequenceTask:
    """Random sums modulo p: read a, b and "=" (token p), say (a + b) mod p after it. T = 3.

    Optimum 0 nats; an even guess costs log(p).
    """
    whole("batch_size", batch_size, 1)
    whole("p", p, 2)
    return _sums(generator(rng).integers(0, p, size=(batch_size, 2)), p)


def modular_table(
    rng: np.random.Generator, p: int = 31, train_fraction: float = 0.5
) -> tuple[SequenceTask, SequenceTask]:
    """All p² sums, each once, shuffled and cut into a part to train on and a part to test on.

    The two share no pair (a, b), so the test part shows whether the rule was found or the table was learned by heart.
    """
    whole("p", p, 2)
    cut = round(p * p * fraction("train_fraction", train_fraction))
    whole("the number of training sums", cut, 1, p * p - 1, "Move train_fraction away from 0 and 1, or raise p.")
    order = generator(rng).permutation(p * p)
    pairs = np.stack([order // p, order % p], axis=1)  # (p², 2)
    return _sums(pairs[:cut], p), _sums(pairs[cut:], p)


def _sums(pairs: np.ndarray, p: int) -> SequenceTask:
    inputs = np.concatenate([pairs, np.full((len(pairs), 1), p)], axis=1)  # (B, 3)
    targets = np.full_like(inputs, IGNORE)
    targets[:, -1] = pairs.sum(1) % p
    return SequenceTask(inputs, targets, p + 1, float(np.log(p)))
