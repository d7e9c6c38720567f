"""The two experiments of the first lessons: paths through a residual stack, and LayerNorm's Jacobian."""

import itertools

import numpy as np
import pytest

from minires.experiments import layernorm_spectrum, plus_i
from minires.messages import ValueProblem
from minires.nn import layernorm_jacobian
from minires.ops.norms import layernorm_forward


def test_paths_sorted_by_length_are_those_found_one_by_one():
    rng = np.random.default_rng(3)
    J, g = rng.standard_normal((5, 4, 4)), rng.standard_normal((2, 4))
    expected = np.zeros((6, 2, 4))
    for taken in itertools.product((False, True), repeat=5):
        one = g
        for jacobian, branch in zip(J[::-1], taken[::-1], strict=True):
            one = one @ jacobian if branch else one
        expected[sum(taken)] += one
    np.testing.assert_allclose(plus_i.by_path_length(J, g), expected, rtol=1e-12, atol=1e-12)


def test_gradients_and_their_path_lengths_follow_the_laws():
    data = plus_i.run(layers=20, d=48, taus=(0.2, 0.6), draws=20).data
    for row in data["rows"]:
        assert row["gain_with_skip"] == pytest.approx(row["law_with_skip"], rel=0.1)
        assert row["gain_without_skip"] == pytest.approx(row["law_without_skip"], rel=0.3)
        assert row["mean_branches_on_a_path"] == pytest.approx(row["law_mean_branches"], rel=0.05)


def test_layernorms_spectrum_is_two_zeros_and_one_over_sigma():
    rng = np.random.default_rng(0)
    x = 3 * rng.standard_normal(16)
    values = np.linalg.eigvalsh(layernorm_jacobian(x, eps=0.0))
    np.testing.assert_allclose(values, [0, 0] + [1 / x.std()] * 14, atol=1e-12)
    for row in layernorm_spectrum.run(d=64, layers=4, rows=8).data["rows"]:
        assert row["zero_eigenvalues"] == 2
        assert row["other_eigenvalues"] == pytest.approx(row["law_eigenvalue"], rel=0.1)


def test_the_skip_of_a_post_norm_stack_is_the_product_of_jacobians():
    d, s, layers = 12, 0.7, 3
    found = layernorm_spectrum.post_norm_stack(s, layers, d, 1, np.random.default_rng(5))
    rng = np.random.default_rng(5)  # the same draws in the same order
    x = layernorm_forward(rng.standard_normal((1, d)))[0]
    skip, total = np.eye(d), np.eye(d)
    for _ in range(layers):
        W = s / np.sqrt(d) * rng.standard_normal((d, d))
        J = layernorm_jacobian((x + x @ W)[0], eps=layernorm_spectrum.EPS)
        skip, total = J @ skip, J @ (np.eye(d) + W.T) @ total
        x = layernorm_forward(x + x @ W)[0]
    g = rng.standard_normal((1, d))
    assert found["skip"][-1] == pytest.approx(np.linalg.norm(g @ skip) / np.linalg.norm(g), rel=1e-10)
    assert found["total"][-1] == pytest.approx(np.linalg.norm(g @ total) / np.linalg.norm(g), rel=1e-10)


def test_the_skip_alone_shrinks_and_the_whole_does_not():
    small, _, large = layernorm_spectrum.run().data["rows"]
    assert small["skip_gain"] > 0.85 and large["skip_gain"] == pytest.approx(2**-12, rel=0.05)
    assert all(0.9 < row["total_gain"] < 1.1 for row in (small, large))


@pytest.mark.parametrize(
    ("experiment", "settings"),
    [
        (plus_i, {"layers": 0}),
        (plus_i, {"taus": ()}),
        (layernorm_spectrum, {"spectrum_d": 2}),
        (layernorm_spectrum, {"sizes": (-1.0,)}),
    ],
)
def test_impossible_settings_are_explained(experiment, settings):
    with pytest.raises(ValueProblem) as problem:
        experiment.run(**settings)
    assert str(next(iter(settings))) in problem.value.given


@pytest.mark.parametrize("experiment", [plus_i, layernorm_spectrum])
def test_the_pictures_can_be_drawn(experiment):
    import matplotlib

    matplotlib.use("agg")
    result = experiment.run(layers=3)
    figure = experiment.draw(result)
    assert len(figure.axes) == 2 and all(axes.get_xlabel() and axes.get_ylabel() for axes in figure.axes)
    assert "3" in experiment.caption(result)
