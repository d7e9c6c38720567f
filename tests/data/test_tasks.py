import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minires.data import IGNORE, copy_task, induction, modular_addition, modular_table, reversal
from minires.messages import DtypeError, ValueProblem

seeds = st.integers(0, 2**32 - 1)
RNG = np.random.default_rng


def check_shape(task, batch_size, length):
    assert task.inputs.shape == task.targets.shape == (batch_size, length)
    assert task.inputs.dtype == task.targets.dtype == np.int64
    assert task.inputs.min() >= 0 and task.inputs.max() < task.vocab_size
    asked = task.targets[task.asked]
    assert asked.size > 0 and asked.min() >= 0 and asked.max() < task.vocab_size
    assert not np.shares_memory(task.inputs, task.targets)


@given(seeds, st.integers(1, 5), st.integers(1, 12), st.integers(2, 20))
def test_copy_copies_and_reversal_reverses(seed, batch_size, n, symbols):
    for make, order in ((copy_task, slice(None)), (reversal, slice(None, None, -1))):
        task = make(RNG(seed), batch_size, n, symbols)
        check_shape(task, batch_size, 2 * n)
        source, answer = task.inputs[:, :n], task.targets[:, n:]
        assert source.max() < symbols  # the separator is no symbol
        assert np.all(task.inputs[:, n] == symbols) and np.all(task.targets[:, :n] == IGNORE)
        assert np.array_equal(answer, source[:, order])
        assert np.array_equal(task.inputs[:, n + 1 :], answer[:, :-1])  # each input is the previous answer
        assert task.chance == pytest.approx(np.log(symbols))


@given(seeds, st.integers(1, 5), st.integers(2, 8), st.integers(0, 6), st.integers(1, 20), st.integers(0, 5))
def test_induction_targets_follow_from_what_was_read(seed, batch_size, low, extra, tail, spare):
    """A reader that knows only 'what followed this token last time' is never wrong where an answer is asked."""
    high = low + extra
    task = induction(RNG(seed), batch_size, high + tail, high + spare, (low, high))
    check_shape(task, batch_size, high + tail)
    for tokens, targets in zip(task.inputs, task.targets):
        successor = {}
        for t, token in enumerate(tokens):
            if t:
                successor[tokens[t - 1]] = token
            if targets[t] == IGNORE:
                assert token not in tokens[:t]  # nothing repeats before the first answer: it could not be known
            else:
                assert targets[t] == successor[token]
            if t + 1 < len(tokens) and targets[t] != IGNORE:
                assert targets[t] == tokens[t + 1]


def test_induction_periods_are_even_and_differ_within_a_batch():
    """p is the first asked position. 4000 draws over 5 … 14: each share within 5 standard errors of 1/10."""
    task = induction(RNG(0), 4000, 32)
    p = task.asked.argmax(1)
    shares = np.bincount(p, minlength=15)[5:15] / 4000
    assert p.min() == 5 and p.max() == 14
    assert np.abs(shares - 0.1).max() < 5 * np.sqrt(0.1 * 0.9 / 4000)


def test_induction_blocks_use_every_symbol_evenly():
    task = induction(RNG(1), 4000, 9, symbols=8, period=(4, 4))
    share = np.bincount(task.inputs[:, :4].ravel(), minlength=8) / 16000
    assert np.abs(share - 1 / 8).max() < 5 * np.sqrt(1 / 8 * 7 / 8 / 16000)


@given(seeds, st.integers(1, 50), st.integers(2, 97))
def test_modular_sums_are_right(seed, batch_size, p):
    task = modular_addition(RNG(seed), batch_size, p)
    check_shape(task, batch_size, 3)
    a, b, equals = task.inputs.T
    assert np.all(equals == p) and max(a.max(), b.max()) < p
    assert np.all(task.targets[:, :2] == IGNORE)
    assert all((int(x) + int(y)) % p == z for x, y, z in zip(a, b, task.targets[:, 2]))


@given(seeds, st.integers(2, 31), st.floats(0.2, 0.8))
def test_modular_table_holds_each_pair_once(seed, p, share):
    train, test = modular_table(RNG(seed), p, share)
    pairs = [tuple(row) for part in (train, test) for row in part.inputs[:, :2].tolist()]
    assert sorted(pairs) == [(a, b) for a in range(p) for b in range(p)]
    assert len(train.inputs) == round(share * p * p)
    assert np.array_equal(test.targets[:, 2], test.inputs[:, :2].sum(1) % p)


@pytest.mark.parametrize(
    "make",
    [
        lambda r: copy_task(r, 4, 6),
        lambda r: reversal(r, 4, 6),
        lambda r: induction(r, 4, 32),
        lambda r: modular_addition(r, 4),
        lambda r: modular_table(r)[0],
    ],
)
def test_a_seed_fixes_the_batch_and_the_next_one_differs(make):
    first, again = make(RNG(7)), make(RNG(7))
    assert np.array_equal(first.inputs, again.inputs) and np.array_equal(first.targets, again.targets)
    rng = RNG(7)
    assert not np.array_equal(make(rng).inputs, make(rng).inputs)


def test_ignore_is_the_one_that_the_loss_leaves_out():
    from minires.ops.cross_entropy import IGNORE as in_the_loss

    assert in_the_loss == IGNORE


WRONG_USES = [
    (lambda r: copy_task(r, 0, 4), ValueProblem, r"batch_size must be a whole number, at least 1; got 0"),
    (lambda r: copy_task(r, 2, 0), ValueProblem, r"length must be"),
    (lambda r: copy_task(r, 2, 4, 1), ValueProblem, r"symbols must be .*at least 2; got 1\. With a single symbol"),
    (lambda r: reversal(r, 2, 2.5), DtypeError, r"length must be a whole number, at least 1; got 2\.5"),
    (lambda r: reversal(3, 2, 4), DtypeError, r"rng must be a numpy.random.Generator; got 3"),
    (lambda r: reversal(np.random.RandomState(0), 2, 4), DtypeError, r"rng must be a numpy.random.Generator"),
    (lambda r: induction(r, 2, 32, 8, (5, 14)), ValueProblem, r"longest period must be .*in 5 … 8; got 14\. A block"),
    (lambda r: induction(r, 2, 14), ValueProblem, r"longest period must be .*in 5 … 13; got 14"),
    (lambda r: induction(r, 2, 32, period=(9, 5)), ValueProblem, r"longest period must be .*in 9 … 31; got 5"),
    (lambda r: induction(r, 2, 32, period=(1, 5)), ValueProblem, r"shortest period must be .*at least 2; got 1"),
    (lambda r: induction(r, 2, 32, period=7), ValueProblem, r"period must be a pair \(lo, hi\); got 7\. For one fixed"),
    (lambda r: modular_addition(r, 2, 1), ValueProblem, r"p must be a whole number, at least 2; got 1"),
    (lambda r: modular_table(r, 2, 0.01), ValueProblem, r"number of training sums must be .*in 1 … 3; got 0"),
    (lambda r: modular_table(r, 5, 1.0), ValueProblem, r"train_fraction must lie strictly between 0 and 1; got 1\.0"),
]


@pytest.mark.parametrize(("use", "error", "message"), WRONG_USES)
def test_wrong_uses_are_explained(use, error, message):
    with pytest.raises(error, match=message):
        use(RNG(0))
