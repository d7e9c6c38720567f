import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minires.data import minibatches
from minires.messages import DtypeError, ShapeError, ValueProblem

RNG = np.random.default_rng


@given(st.integers(1, 40), st.integers(1, 50), st.integers(0, 10**6))
def test_each_example_once_with_its_own_label(n, batch_size, seed):
    x = np.arange(2 * n, dtype=np.float32).reshape(n, 2)
    y = np.arange(n)
    pieces = list(minibatches(x, y, batch_size, RNG(seed)))
    assert [len(b) for _, b in pieces[:-1]] == [batch_size] * (len(pieces) - 1)
    assert sorted(np.concatenate([b for _, b in pieces])) == list(y)
    assert all(np.array_equal(a[:, 0], 2 * b) for a, b in pieces)


def test_drop_last_keeps_whole_pieces_only():
    sizes = [len(a) for a, _ in minibatches(np.zeros(10), np.zeros(10), 4, RNG(0), drop_last=True)]
    assert sizes == [4, 4]


def test_order_changes_from_pass_to_pass_and_repeats_with_the_seed():
    rng, y = RNG(0), np.arange(50)
    first, second = (next(minibatches(y, y, 50, rng))[0] for _ in range(2))
    assert not np.array_equal(first, second)
    assert np.array_equal(first, next(minibatches(y, y, 50, RNG(0)))[0])


def test_pieces_do_not_share_the_callers_memory():
    x = np.arange(6.0)
    for a, b in minibatches(x, x, 6, RNG(0)):
        a[:] = b[:] = -1
    assert np.array_equal(x, np.arange(6.0))


GOOD = np.ones(4)
BAD = np.ones((4, 3))
BAD[2, 1] = np.nan
INF = np.array([0, np.inf, 0, 0])
WRONG_USES = [
    ((np.ones((0, 3)), np.ones(0), 2, RNG(0)), ValueProblem, r"at least one example; got x of shape \(0, 3\)"),
    ((np.ones((4, 3)), np.ones(3), 2, RNG(0)), ShapeError, r"equally many; got shapes \(4, 3\) and \(3,\)"),
    ((np.float64(1), np.ones(1), 2, RNG(0)), ShapeError, r"one entry per example"),
    ((BAD, GOOD, 2, RNG(0)), ValueProblem, r"x must hold finite numbers; got nan at index \[2, 1\]"),
    ((GOOD, INF, 2, RNG(0)), ValueProblem, r"y must hold finite numbers; got inf at index \[1\]"),
    ((GOOD, GOOD, 0, RNG(0)), ValueProblem, r"batch_size must be a whole number, at least 1"),
    ((GOOD, GOOD, 5, RNG(0), True), ValueProblem, r"in 1 … 4; got 5\. With drop_last"),
    ((GOOD, GOOD, 2, 0), DtypeError, r"rng must be a numpy.random.Generator"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), WRONG_USES)
def test_wrong_uses_are_explained_at_the_call(arguments, error, message):
    with pytest.raises(error, match=message):
        minibatches(*arguments)
