"""Writing with a model: what temperature, top-k and the seed do, and what the model gets to see."""

import numpy as np
import pytest

from minires.messages import ValueProblem
from minires.models import DecoderLM
from minires.train import AdamW, fit, generate, generate_ids
from minires.train.generate import draw

LOGITS = np.array([0.0, 1.0, 2.0, -1.0, 2.0])


class Counter:
    """A model that always says "one more than the last id", and remembers what it was shown."""

    vocab, context, training = 7, 4, True

    def __init__(self):
        self.seen = []

    def __call__(self, ids):
        self.seen.append(ids.copy())
        logits = np.full((1, ids.shape[1], self.vocab), -5.0)
        logits[0, np.arange(ids.shape[1]), (ids[0] + 1) % self.vocab] = 5.0
        return type("Out", (), {"data": logits})()

    def eval(self):
        self.training = False

    def train(self, mode=True):
        self.training = mode


def test_it_goes_on_where_the_prompt_ends_and_looks_at_the_last_context():
    model = Counter()
    assert generate_ids(model, [3, 4], 5, temperature=0).tolist() == [3, 4, 5, 6, 0, 1, 2]
    assert [seen.tolist() for seen in model.seen[:4]] == [[[3, 4]], [[3, 4, 5]], [[3, 4, 5, 6]], [[4, 5, 6, 0]]]
    assert model.training is True


def test_nothing_more_is_the_prompt():
    assert generate_ids(Counter(), [3, 4], 0).tolist() == [3, 4]


def test_the_seed_decides(corpus, small):
    model, _ = small()
    texts = [generate(model, corpus, "to be", 40, rng=seed) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2] and texts[0].startswith("to be") and len(texts[0]) == 45
    again = np.random.default_rng(1)
    assert generate(model, corpus, "to be", 40, rng=again) == texts[0]
    assert generate(model, corpus, "to be", 40, rng=again) != texts[0]  # the generator has moved on


def test_a_trained_model_writes_what_it_has_learned(corpus):
    model = DecoderLM(len(corpus.vocab), d=32, heads=4, blocks=2, context=12, init="xavier", rng=0)
    fit(model, lambda rng: corpus.batch(rng, 16, 12), AdamW(model.parameters(), lr=1e-2), 150, clip=1.0)
    text = generate(model, corpus, "to be, or not", 60, temperature=0)
    assert text.startswith("to be, or not to be: that is the question.")


def frequencies(n=20_000, **settings):
    rng = np.random.default_rng(0)
    options = dict(temperature=1.0, top_k=None) | settings
    drawn = [draw(LOGITS, options["temperature"], options["top_k"], rng) for _ in range(n)]
    return np.bincount(drawn, minlength=5) / n


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_frequencies_are_the_softmax_of_logits_over_temperature(temperature):
    p = np.exp(LOGITS / temperature)
    np.testing.assert_allclose(frequencies(temperature=temperature), p / p.sum(), atol=0.012)


def test_top_k_draws_among_the_k_likeliest_in_their_proportion():
    p = np.where(np.isin(np.arange(5), (1, 2, 4)), np.exp(LOGITS), 0)
    np.testing.assert_allclose(frequencies(top_k=3), p / p.sum(), atol=0.012)
    assert set(np.flatnonzero(frequencies(200, top_k=1))) <= {2, 4}


def test_the_greedy_limit_and_extreme_logits():
    rng = np.random.default_rng(0)
    assert draw(np.array([1.0, 3.0, 2.0]), 0, None, rng) == 1
    assert draw(np.array([1e4, -1e4, 0.0], np.float32), 1e-3, None, rng) == 0
    assert {draw(np.array([1e30, 1e30, -1e30]), 1.0, 2, rng) for _ in range(30)} == {0, 1}


def test_the_mode_is_put_back_after_an_error(corpus, small):
    model, _ = small()
    model.tokens.table.data[...] = np.nan
    with pytest.raises(ValueProblem, match="finite"):
        generate(model, corpus, "to", 3)
    assert model.training


def test_dropout_is_off_while_writing(corpus, small):
    model, _ = small(dropout=0.9)
    assert generate(model, corpus, "to", 20, 0) == generate(model, corpus, "to", 20, 0)
