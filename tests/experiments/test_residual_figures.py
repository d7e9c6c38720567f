"""The experiments behind the residual figures: exact values, laws, and data that say what the captions say."""

import numpy as np
import pytest

from minires.experiments import (
    composite_gain,
    depth_profiles,
    get_experiment,
    load_result,
    path_lengths,
    plus_i_table,
    residual_family,
    run_experiment,
    sinkhorn_error,
)
from minires.figures import figures_folder
from minires.messages import Explained
from minires.models import RECIPES
from minires.residual import CONNECTIONS, Connection, register

KEPT = (
    "residual_family", "plus_i_table", "depth_profiles", "path_lengths", "composite_gain", "sinkhorn_error",
    "exp_error",
)  # fmt: skip
SMALL = {
    "residual_family": dict(rules=("pre_norm", "mhc", "parallel", "denseformer", "plain", "residual_dual")),
    "plus_i_table": dict(rules=("pre_norm", "post_norm", "plain", "residual_dual"), blocks=2, d=8, length=3),
    "depth_profiles": dict(recipes=("pre_norm", "residual"), blocks=(1, 3), d=8, length=4),
    "path_lengths": dict(recipes=("pre_norm", "rezero"), blocks=2, d=8, length=4),
    "composite_gain": dict(recipes=("hyper_connections", "mhc"), sizes=(0.1,), blocks=3, steps=2, train_blocks=1, d=8),
    "sinkhorn_error": dict(points=4, draws=50, steps=(5, 20)),
    "exp_error": dict(functions=("exp", "tanh"), n=5000, bins=20),
}


@pytest.mark.parametrize("name", KEPT)
def test_small_runs_are_repeatable_drawn_and_told(name):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from minires.style import style

    experiment = get_experiment(name)
    first, again = (run_experiment(name, SMALL[name]) for _ in range(2))
    assert first == again and len(experiment.caption(first)) > 60 and experiment.table(first)
    for dark in (False, True):
        with style(dark):
            figure = experiment.draw(first)
            figure.canvas.draw()
            assert figure.axes
            plt.close(figure)


@pytest.mark.parametrize("name", KEPT)
def test_impossible_settings_are_explained(name):
    wrong = {"residual_family": {"d": 1}, "plus_i_table": {"rules": ("pre_nrom",)}, "sinkhorn_error": {"draws": 1},
             "exp_error": {"functions": ("exq",)}}  # fmt: skip
    with pytest.raises(Explained):
        run_experiment(name, wrong.get(name, {"d": 0}))


# -------------------------------------------------------------------------------------------------------- the family


def marks(name):
    return residual_family.features(name, 16, 0)


@pytest.mark.parametrize(("name", "before", "after", "behind_sum"), [
    ("pre_norm", True, False, False), ("post_norm", False, False, True), ("sandwich", True, True, False),
    ("residual", False, False, False), ("rezero", False, False, False), ("deepnorm", False, False, True),
    ("mhc", True, False, False), ("attention_residuals", True, False, False),
])  # fmt: skip
def test_norms_are_found_where_they_stand(name, before, after, behind_sum):
    found = marks(name)
    assert [found["norm before F"], found["norm after F"], found["norm after the sum"]] == [before, after, behind_sum]


def test_factors_on_skip_branch_and_reading_are_found():
    assert marks("plain")["skip"] == marks("none")["skip"] == 0 == marks("rezero")["branch"]
    assert np.isclose(marks("layerscale")["branch"], 0.1) and np.isclose(marks("inverse_sqrt_depth")["branch"], 1 / 4)
    assert np.isclose(marks("pre_norm")["skip"], 1, atol=1e-6) and np.isclose(marks("post_norm")["skip"], 1, atol=1e-4)
    assert np.isclose(marks("layernorm_scaling")["read"], 0.5**0.5, rtol=1e-3) and marks("pre_norm")["read"] > 0.999


def test_the_louder_skips_have_the_weights_of_their_equations():
    """DeepNorm: α = (2N)^¼. Admin: ω² is the variance of the input and of the branches before, each about 1."""
    assert np.isclose(marks("deepnorm")["skip"], (2 * residual_family.BLOCKS) ** 0.25, rtol=1e-4)
    assert np.isclose(marks("admin")["skip"], (1 + residual_family.AT) ** 0.5, rtol=0.05)


def test_the_highways_gate_is_that_of_its_docstring():
    found = marks("highway")
    assert np.isclose(found["branch"], 0.12, atol=0.02) and np.isclose(found["skip"] + found["branch"], 1, atol=0.01)


def test_copies_second_streams_and_kept_outputs_are_found():
    assert marks("mhc")["copies"] == marks("hyper_connections")["copies"] == 4
    keys = ("carries more", "F reads it", "the next x reads it", "makes a new one")
    expected = {
        "residual_dual": [True, False, False, False], "denseformer": [True, False, True, True],
        "attention_residuals": [True, True, True, True], "block_attention_residuals": [True, True, True, False],
    }  # fmt: skip
    assert {name: [marks(name)[key] for key in keys] for name in expected} == expected
    assert marks("parallel")["arity"] == 2


def test_norms_at_the_ends_are_found():
    assert marks("peri_ln")["norm at the start"] and not marks("sandwich")["norm at the start"]
    with_one = {name: marks(name)["norm at the end"] for name in ("pre_norm", "residual_dual", "post_norm", "rezero")}
    assert with_one == {"pre_norm": True, "residual_dual": True, "post_norm": False, "rezero": False}


def test_no_two_rules_are_drawn_alike():
    """Every pair differs in a measured mark or in the names of its factors; the equation below does not count."""
    rows = load_result(figures_folder() / "residual_family.json").data["rows"]
    told = set()
    for row in rows:
        numbers = [f"{row[key]:.2g}" for key in ("skip", "branch", "read")]
        marks = [value for key, value in row.items() if isinstance(value, bool)]
        names = residual_family.NAMES.get(row["rule"], {})
        told.add(str([numbers, marks, row["copies"], row["arity"], sorted(names.items())]))
    assert len(told) == len(rows)


def test_a_rule_from_a_file_of_ones_own_joins_the_family_when_asked(monkeypatch):
    monkeypatch.setitem(CONNECTIONS, "tenth", None)
    del CONNECTIONS["tenth"]

    @register("tenth")
    class Tenth(Connection):
        equation = "x ← x + F(x)/10"

        def step(self, stream, site, F):
            return stream + F(stream) * 0.1

    (row,) = run_experiment("residual_family", {"rules": ("tenth",)}).data["rows"]
    assert np.isclose(row["branch"], 0.1) and np.isclose(row["skip"], 1, atol=1e-6)


# ---------------------------------------------------------------------------------------------------------- +I table


def test_every_rule_that_is_no_variant_has_its_line():
    variants = {"dynamic_hyper_connections", "mhc_permutations", "block_attention_residuals"}
    own = {name for name, rule in CONNECTIONS.items() if rule.__module__.startswith("minires.")}
    assert set(plus_i_table.FORMULAS) == own - variants
    assert set(plus_i_table.FORMULAS) <= set(RECIPES)


def test_the_identity_is_kept_where_the_formula_has_it_alone():
    kept = {row["rule"]: row for row in load_result(figures_folder() / "plus_i_table.json").data["rows"]}
    for name, row in kept.items():
        alone = row["∂x_{l+1}/∂x_l"].startswith("I +")
        if alone:
            assert row["skip, smallest"] == row["skip, largest"] == 1, name
    assert kept["residual_dual, d"]["skip, smallest"] == 1 > kept["residual_dual"]["skip, largest"]
    assert kept["plain"]["skip, largest"] == 0 and kept["rezero"]["whole, rms"] == 1
    for name in ("post_norm", "deepnorm", "admin"):  # J_LN removes the direction of ones
        assert kept[name]["skip, smallest"] < 1e-9 and kept[name]["skip, median"] < 1


# --------------------------------------------------------------------------------------- depth, paths, gains, sinkhorn


def test_the_kept_depth_profiles_reach_a_thousand_sublayers():
    rows = load_result(figures_folder() / "depth_profiles.json").data["rows"]
    deep = {row["recipe"]: row for row in rows if row["sublayers"] == 1000}
    assert deep["post_norm"]["gradient first/last"] < 1e-4 < 0.5 < deep["deepnorm"]["gradient first/last"] < 2
    assert not deep["residual"]["finite"] and all(row["finite"] for name, row in deep.items() if name != "residual")


def test_curves_are_cut_where_numbers_end():
    assert depth_profiles._thinned([1.0, 2.0, float("inf"), float("nan")]) == [[0.0, 1.0], [1 / 3, 2.0]]
    kept = depth_profiles._thinned(list(range(1, 1001)))
    assert len(kept) == depth_profiles.POINTS and kept[0] == [0.0, 1.0] and kept[-1] == [1.0, 1000.0]


def test_rezero_has_only_the_empty_path_at_its_start():
    found = run_experiment("path_lengths", {"recipes": ("rezero",), "blocks": 2, "d": 8, "length": 4}).data
    assert found["studies"][0]["shares"] == [1, 0, 0, 0, 0] and found["counts"] == [
        1 / 16,
        4 / 16,
        6 / 16,
        4 / 16,
        1 / 16,
    ]
    assert found["rows"][0]["95 % of the gradient within"] == 0


def test_the_kept_paths_are_shorter_than_most_paths():
    data = load_result(figures_folder() / "path_lengths.json").data
    means = {row["recipe"]: row["mean length of the gradient"] for row in data["rows"]}
    assert means["deepnorm"] < means["pre_norm"] < means["post_norm"] < 12
    assert all(np.isclose(sum(study["shares"]), 1) for study in data["studies"])
    assert path_lengths.caption(load_result(figures_folder() / "path_lengths.json")).count("mean") == len(means)


def test_the_kept_errors_of_exp():
    rows = {row["dtype"]: row for row in load_result(figures_folder() / "exp_error.json").data["rows"]}
    assert set(rows) == {"float32", "float64"}
    assert all(0.5 < row["ours worst (ulp)"] < 1.25 and row["ours nearest"] > 0.9 for row in rows.values())


def test_free_matrices_amplify_and_doubly_stochastic_ones_do_not():
    rows = load_result(figures_folder() / "composite_gain.json").data["rows"]
    worst = {row["recipe"]: max(r["forward gain"] for r in rows if r["recipe"] == row["recipe"]) for row in rows}
    assert worst["hyper_connections"] > 5 and worst["dynamic_hyper_connections"] > 5
    assert worst["mhc"] < 1.01 and worst["mhc_permutations"] < 1.0001


def test_a_disturbance_changes_gates_only():
    model = composite_gain.get_recipe("mhc").build(5, 1, d=8, heads=2, context=4)
    before = {name: p.data.copy() for name, p in model.named_parameters()}
    composite_gain.disturb(model, 0.1, 0)
    for name, p in model.named_parameters():
        assert np.array_equal(p.data, before[name]) == (p.kind != "gate"), name


def test_sinkhorn_more_steps_less_error_and_a_two_by_two_by_hand():
    logits = 3 * np.random.default_rng(0).standard_normal((200, 4, 4))
    errors = [np.median(sinkhorn_error.column_error(logits, t)) for t in (1, 5, 20, 100)]
    assert errors == sorted(errors, reverse=True) and errors[0] > 10 * errors[-1]
    e = np.exp([[0.0, 1.0], [0.0, 0.0]] - np.array(1.0))
    columns = e / e.sum(0)
    rows = columns / columns.sum(1, keepdims=True)
    assert np.isclose(
        sinkhorn_error.column_error(np.array([[[0.0, 1.0], [0.0, 0.0]]]), 1)[0], abs(rows.sum(0) - 1).max()
    )


def test_letters_in_boxes_can_be_read_on_light_and_dark_pages():
    """A box has the page's own colour; a page that turns dark by itself turns the boxes in an SVG as well."""
    from minires.style import PAPER, paper, style

    for dark, page in ((False, "light"), (True, "dark")):
        with style(dark):
            assert paper() == PAPER[page]
    text = (figures_folder() / "residual_family.svg").read_text(encoding="utf-8")
    light, dark = PAPER["light"], PAPER["dark"]
    assert f"fill: {light}" in text and f'[style*="fill: {light}"] {{ fill: {dark} !important }}' in text
