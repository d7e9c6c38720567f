"""Small things to train, shared by the tests of the loop, of checkpoints and of messages."""

import numpy as np
import pytest

from minires.data import CharCorpus
from minires.models import DecoderLM
from minires.train import AdamW

TEXT = "to be, or not to be: that is the question. whether 'tis nobler in the mind to suffer " * 6


@pytest.fixture(scope="session")
def corpus():
    return CharCorpus(TEXT)


@pytest.fixture
def small(corpus):
    """make(seed) → (model, optimizer): a decoder with dropout, so that the model's own random numbers matter."""

    def make(seed=0, **settings):
        settings = dict(d=16, heads=2, blocks=2, context=12, dropout=0.1, rng=seed) | settings
        model = DecoderLM(len(corpus.vocab), **settings)
        return model, AdamW(model.parameters(), lr=3e-3)

    return make


@pytest.fixture
def batches(corpus):
    return lambda rng: corpus.batch(rng, 4, 12)


def same_bits(one, other):
    """Two models whose every parameter has the same bits."""
    a, b = one.state_dict(), other.state_dict()
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


@pytest.fixture
def equal_models():
    return same_bits
