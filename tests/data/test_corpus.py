from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minires.data import CharCorpus, hamlet
from minires.messages import DtypeError, UnknownName, ValueProblem


@pytest.fixture(scope="module")
def corpus():
    return CharCorpus(hamlet())


def test_hamlet_is_the_play_and_nothing_else():
    text = hamlet()
    assert text.startswith("HAMLET, PRINCE OF DENMARK\n") and text.endswith("ordnance is shot off.]\n")
    assert "To be, or not to be,--that is the question:--" in text
    assert text.count("\nScene ") == 20  # 5 + 2 + 4 + 7 + 2, the modern numbering
    assert len(text) == 173_897 and len(set(text)) == 65
    for leftover in ("\r", "\t", "\n\n\n", " \n", "Gutenberg", "http"):
        assert leftover not in text


def test_round_trip_of_the_whole_play(corpus):
    assert corpus.decode(corpus.encode(hamlet())) == hamlet()
    assert corpus.decode(np.concatenate([corpus.train, corpus.val])) == hamlet()
    assert len(corpus.val) == round(0.1 * len(hamlet()))


@given(st.text(min_size=40, max_size=200), st.data())
def test_round_trip_of_any_text(text, data):
    """Also for symbols outside the first Unicode plane, newlines and combining marks."""
    corpus = CharCorpus(text)
    assert list(corpus.vocab) == sorted(set(text))
    piece = "".join(data.draw(st.lists(st.sampled_from(text))))
    ids = corpus.encode(piece)
    assert ids.dtype == np.int64 and ids.shape == (len(piece),)
    assert corpus.decode(ids) == piece


def test_targets_are_the_next_characters(corpus):
    for split in ("train", "val"):
        x, y = corpus.batch(np.random.default_rng(0), 5, 30, split)
        assert x.shape == y.shape == (5, 30) and x.dtype == y.dtype == np.int64
        assert np.array_equal(x[:, 1:], y[:, :-1])
        part = corpus.decode(getattr(corpus, split))
        for row, target in zip(x, y):
            assert corpus.decode(row) + corpus.decode(target[-1:]) in part


@settings(max_examples=30)
@given(st.integers(2, 9), st.integers(0, 10**6))
def test_every_window_can_be_drawn_and_none_leaves_the_split(size, seed):
    """A corpus of distinct symbols tells each window's start; longest windows leave exactly one start."""
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    corpus = CharCorpus(alphabet[: 2 * size], val_fraction=0.5)
    rng = np.random.default_rng(seed)
    x, y = corpus.batch(rng, 200, 1, "val")
    assert set(x.ravel()) == set(range(size, 2 * size - 1)) and set(y.ravel()) == set(range(size + 1, 2 * size))
    x, _ = corpus.batch(rng, 3, size - 1, "train")
    assert np.array_equal(x, np.tile(np.arange(size - 1), (3, 1)))


def test_batches_own_their_memory(corpus):
    x, y = corpus.batch(np.random.default_rng(0), 2, 8)
    assert not np.shares_memory(x, y) and not np.shares_memory(x, corpus.train)


def test_baselines_against_a_slow_count():
    """The same numbers from dictionaries and a loop, on a text where they can be followed by hand."""
    text = "abracadabra-abracadabra!" * 3
    corpus = CharCorpus(text, val_fraction=0.25)
    train, val = text[: len(corpus.train)], text[len(corpus.train) :]
    size = len(set(text))
    uni = [(train.count(b) + 0.1) / (len(train) + 0.1 * size) for b in val[1:]]
    bi = [
        (sum(train[i : i + 2] == a + b for i in range(len(train))) + 0.1) / (train[:-1].count(a) + 0.1 * size)
        for a, b in pairwise(val)
    ]
    got = corpus.baselines()
    assert got.unigram == pytest.approx(-np.log(uni).mean(), rel=1e-12)
    assert got.bigram == pytest.approx(-np.log(bi).mean(), rel=1e-12)


def test_baselines_of_hamlet_are_ordered(corpus):
    """More context helps: log 65 = 4.17 nats for an even guess, then the unigram, then the bigram."""
    unigram, bigram = corpus.baselines()
    assert 2.2 < bigram < 2.7 < 3.0 < unigram < 3.5 < np.log(len(corpus.vocab))


def test_symbol_seen_only_in_validation_costs_much_but_not_infinity():
    got = CharCorpus("ab" * 20 + "zz" * 4, val_fraction=8 / 48).baselines()
    assert 3 < got.unigram < 10 and 1 < got.bigram < 10


def test_unknown_symbol_is_named_with_its_place(corpus):
    with pytest.raises(ValueProblem, match=r"one of the corpus's 65 symbols.*; got 'é' at position 3\. Curly quotes"):
        corpus.encode("caféé")


WRONG_USES = [
    (lambda c, r: c.batch(r, 0, 8), ValueProblem, r"batch_size must be a whole number, at least 1; got 0"),
    (lambda c, r: c.batch(r, 4, 0), ValueProblem, r"length must be a whole number"),
    (lambda c, r: c.batch(r, 4, len(c.val), "val"), ValueProblem, r"got 17390\. 'val' holds 17390 characters"),
    (lambda c, r: c.batch(r, 4, 8.0), DtypeError, r"length must be a whole number.*got 8\.0"),
    (lambda c, r: c.batch(r, 4, 8, "valid"), UnknownName, r"split must be one of: train, val; got 'valid'\. Did you"),
    (lambda c, r: c.batch(0, 4, 8), DtypeError, r"rng must be a numpy.random.Generator; got 0\. Make one before"),
    (lambda c, r: c.decode([65]), ValueProblem, r"ids must be in 0 … 64; got values from 65 to 65"),
    (lambda c, r: c.decode([-1]), ValueProblem, r"ids must be in 0 … 64"),
    (lambda c, r: c.decode(np.zeros(3)), DtypeError, r"ids must be integers; got a float64 array of shape \(3,\)"),
    (lambda c, r: c.baselines(0.0), ValueProblem, r"smoothing must be above 0"),
    (lambda c, r: CharCorpus(""), ValueProblem, r"at least 2 characters.*got 0 for training and 0 for validation"),
    (lambda c, r: CharCorpus("abc" * 20, 10), ValueProblem, r"val_fraction must lie strictly between 0 and 1; got 10"),
    (lambda c, r: CharCorpus(b"abc" * 20), DtypeError, r"text must be a str.*Decode bytes first"),
]


@pytest.mark.parametrize(("use", "error", "message"), WRONG_USES)
def test_wrong_uses_are_explained(corpus, use, error, message):
    with pytest.raises(error, match=message):
        use(corpus, np.random.default_rng(0))


def test_decoding_nothing_is_an_empty_string(corpus):
    assert corpus.decode([]) == "" and corpus.encode("").shape == (0,)
