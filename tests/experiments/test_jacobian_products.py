"""Products of (I + J): exact values where there are any, and the law where there is one."""

import numpy as np
import pytest

from minires.experiments import jacobian_products as study
from minires.experiments import run_experiment
from minires.messages import ValueProblem


@pytest.fixture(scope="module")
def data():
    return run_experiment("jacobian_products", {"d": 32, "draws": 12}).data


def gain(data, kind):
    return next(row for row in data["rows"] if row["kind"] == kind)


def test_the_articles_powers(data):
    products = {(row["factor"], row["layers"]): row["product"] for row in data["scalars"]}
    assert products[0.9, 50] == pytest.approx(0.005154, abs=1e-6)
    assert products[1.1, 50] == pytest.approx(117.39, abs=1e-2)
    assert products[0.95, 100] == pytest.approx(0.00592, abs=1e-5)
    assert products[1.05, 100] == pytest.approx(131.5, abs=0.1)


def test_the_extremes_are_the_bounds_and_all_others_lie_between(data):
    low, high = data["bounds"]
    assert (low, high) == pytest.approx((2.656e-5, 1.378e4), rel=1e-3)
    assert gain(data, "-0.1 I")["gain"] == pytest.approx(low, rel=1e-12)
    assert gain(data, "+0.1 I")["gain"] == pytest.approx(high, rel=1e-12)
    assert all(low * 0.999 <= row["lowest"] <= row["highest"] <= high * 1.001 for row in data["rows"])


@pytest.mark.parametrize("kind", [kind for kind, (make, shared) in study.KINDS.items() if not shared])
def test_independent_branches_follow_the_law(data, kind):
    row = gain(data, kind)
    if kind.startswith("QR"):
        assert row["law"] is None
    else:
        assert row["gain"] == pytest.approx(row["law"], rel=0.1)


@pytest.mark.parametrize("kind", ["skew, shared", "orthogonal, shared", "negative, shared", "positive, shared"])
def test_a_shared_normal_branch_follows_its_eigenvalues(data, kind):
    assert gain(data, kind)["gain"] == pytest.approx(gain(data, kind)["law"], rel=0.35)


def test_what_the_relation_between_layers_does(data):
    gains = {row["kind"]: row["gain"] for row in data["rows"]}
    assert 0.9 < gains["Gaussian, independent"] < 1.5
    assert gains["Gaussian, shared"] > 10 and gains["orthogonal, shared"] > 1000
    assert gains["positive, independent"] > 5 and gains["negative, independent"] < 0.2
    assert 1 < gains["skew, shared"] < 1.7


def test_without_the_skip_nothing_is_left(data):
    assert data["without_skip"]["gain"] < data["without_skip"]["norms_alone"] == pytest.approx(1e-100)


@pytest.mark.parametrize("kind", study.KINDS)
def test_every_jacobian_has_the_norm_it_should(kind):
    J = study.jacobians(kind, np.random.default_rng(0), 4, 10, 0.1)
    assert J.shape == (4, 10, 10)
    assert np.allclose(np.linalg.norm(J, 2, axis=(1, 2)), 0.1)
    assert np.array_equal(J[0], J[1]) == study.KINDS[kind][1]


def test_gains_are_those_of_the_multiplied_matrices():
    rng = np.random.default_rng(0)
    J, g = 0.3 * rng.standard_normal((5, 4, 4)), rng.standard_normal(4)
    product = np.linalg.multi_dot([np.eye(4) + J_l for J_l in J])
    assert study.gains(J, g)[-1] == pytest.approx(np.linalg.norm(g @ product) / np.linalg.norm(g), rel=1e-12)


def test_the_sign_trap():
    """Q as LAPACK returns it has a trace below 0; with the signs of R the mean trace is 0."""
    rng = np.random.default_rng(0)
    plain, fixed = (np.trace(make(rng, 400, 32), axis1=1, axis2=2) for make in (study.unsigned_qr, study.haar))
    assert plain.mean() < -2
    assert abs(fixed.mean()) < 4 / np.sqrt(400)
    Q = study.haar(rng, 1, 32)[0]
    assert np.allclose(Q @ Q.T, np.eye(32))


@pytest.mark.parametrize("settings", [{"size": 1.5}, {"layers": 0}, {"draws": 0}, {"d": 1}])
def test_impossible_settings_are_refused(settings):
    with pytest.raises(ValueProblem):
        run_experiment("jacobian_products", settings)


def test_labels_keep_their_order_and_their_distance_and_stay_inside():
    for values in ([0.5] * 13, [1.0] * 13, [0.0] * 5, list(np.linspace(0, 1, 13))):
        places = study._label_heights(values)
        assert min(places) >= 0 and max(places) <= 1
        assert np.diff(np.sort(places)).min() > 0.0749


@pytest.mark.parametrize("settings", [{"layers": 1, "d": 2, "draws": 1}, {"layers": 2, "d": 3, "size": 0.5}])
def test_a_tiny_run_is_drawn_without_a_collapsed_layout(settings, recwarn):
    from minires.style import png_bytes, style

    result = run_experiment("jacobian_products", settings)
    with style():
        assert png_bytes(study.draw(result), "light")
    assert not [w for w in recwarn if "layout" in str(w.message)]
    assert "e+00" not in study.caption(result)
