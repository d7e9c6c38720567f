import numpy as np
import pytest

from minires.data import digits
from minires.data.digits import load_raw
from minires.messages import DtypeError, ValueProblem

PUBLISHED_COUNTS = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]  # UCI's own description, testing set


def test_counts_per_class_are_the_published_ones():
    pixels, labels = load_raw()
    assert np.bincount(labels).tolist() == PUBLISHED_COUNTS
    assert pixels.shape == (1797, 64) and pixels.min() == 0 and pixels.max() == 16


def test_first_picture_is_a_zero():
    """The hole in the middle of the 0 is empty, its ring is inked: rows are not transposed or shuffled."""
    pixels, labels = load_raw()
    picture = pixels[0].reshape(8, 8)
    assert labels[0] == 0
    assert picture[4, 3:5].tolist() == [0, 0] and picture[4, [2, 5]].min() > 4
    assert picture[0, 2:5].min() > 4 and picture[:, 0].max() == 0


def test_shapes_types_and_split_sizes():
    d = digits()
    assert [a.shape for a in d] == [(1347, 64), (1347,), (450, 64), (450,)]
    assert {a.dtype for a in (d.x_train, d.x_test)} == {np.dtype(np.float32)}
    assert {a.dtype for a in (d.y_train, d.y_test)} == {np.dtype(np.int64)}
    assert digits(test=100).x_train.shape == (1697, 64)


def test_split_loses_and_repeats_nothing():
    pixels, labels = load_raw()
    d = digits(seed=5, normalise=False)
    ours = np.column_stack([np.vstack([d.x_train, d.x_test]), np.hstack([d.y_train, d.y_test])])  # (1797, 65)
    theirs = np.column_stack([pixels, labels]).astype(float)
    assert sorted(map(tuple, ours)) == sorted(map(tuple, theirs))


def test_normalised_by_training_statistics_only():
    plain, d = digits(seed=12, normalise=False), digits(seed=12)  # some pixels vary in this seed's test part only
    deviation = plain.x_train.std(0, dtype=np.float64)
    varies = deviation > 0
    assert plain.x_test[:, ~varies].any()
    np.testing.assert_allclose(d.x_train.mean(0, dtype=np.float64), 0, atol=1e-6)
    np.testing.assert_allclose(d.x_train[:, varies].std(0, dtype=np.float64), 1, rtol=1e-5)
    assert np.all(d.x_train[:, ~varies] == 0) and np.all(d.x_test[:, ~varies] == 0)
    mean = plain.x_train.mean(0, dtype=np.float64)
    expected = (plain.x_test[:, varies] - mean[varies]) / deviation[varies]
    np.testing.assert_allclose(d.x_test[:, varies], expected, rtol=1e-4, atol=1e-5)


def test_seed_decides_everything():
    same, again, other = digits(seed=1), digits(seed=1), digits(seed=2)
    assert all(np.array_equal(a, b) for a, b in zip(same, again))
    assert not np.array_equal(same.y_test, other.y_test)


@pytest.mark.parametrize("test", [0, 1797, -3])
def test_impossible_test_sizes(test):
    with pytest.raises(ValueProblem, match=r"test must be a whole number, in 1 … 1796; got"):
        digits(test=test)


def test_share_instead_of_count():
    with pytest.raises(DtypeError, match=r"got 0\.25\. It is a number of images, not a share"):
        digits(test=0.25)  # type: ignore[arg-type]
