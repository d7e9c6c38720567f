"""`minires residuals` and `minires compare` measure what they say."""

import json

import numpy as np
import pytest

from minires.cli import main
from minires.experiments import compare, costs, load_result, thousand_layers
from minires.messages import ValueProblem
from minires.models import RECIPES
from minires.nn import Linear, Maker
from minires.probes import gradient_flow
from minires.tensor import Tensor
from tests.residual.common import build, disturbed, ids_and_targets

SMALL = dict(depth=(2,), steps=3, d=8, heads=2, length=6, batch=2)


def test_operations_of_a_linear_layer_are_exact():
    layer = Linear(5, 7, Maker.of(0))
    assert costs.operations(layer(Tensor(np.ones((3, 4, 5), np.float32)))) == 2 * (3 * 4) * 5 * 7


def test_operations_of_pre_norm_follow_the_textbook():
    """24 B T d² N for the weights, 4 B T² d N for attention, 2 B T d V for the head; norms and adds are the rest."""
    blocks, d, batch, length, vocab = 3, 64, 2, 16, 10
    model = RECIPES["pre_norm"].build(vocab, blocks, d=d, heads=4, context=length)
    ids = np.zeros((batch, length), int)
    tokens = batch * length
    products = 24 * tokens * d * d * blocks + 4 * tokens * length * d * blocks + 2 * tokens * d * vocab
    assert products < costs.operations(model(ids)) < 1.03 * products


def test_saved_memory_counts_each_array_once_and_no_parameter():
    x = Tensor(np.ones((10, 100)), requires_grad=True)
    y = (x * x) * (x * 2.0)  # saves x several times, and two products
    assert costs.saved_bytes(y, []) == pytest.approx(3 * 8000, abs=100)
    assert costs.saved_bytes(y, [x]) == pytest.approx(2 * 8000, abs=100)


def test_costs_know_which_recipes_cost_nothing_and_which_do():
    recipes = ("residual", "pre_norm", "pre_norm_gpt2", "hyper_connections", "mhc")
    rows = {row["recipe"]: row for row in costs.run(recipes=recipes, blocks=2, d=32, rounds=1).data["rows"]}
    assert rows["residual"]["extra parameters"] == 0
    assert rows["pre_norm"]["extra parameters"] == 2 * 32 * (2 * 2 + 1)  # γ and β of each norm and of the final one
    for column in ("operations", "memory"):
        assert rows["pre_norm"][column] == rows["pre_norm_gpt2"][column] == 1
        assert 1 < rows["hyper_connections"][column] < rows["mhc"][column]
    assert all(row["time"] > 0 for row in rows.values())


def test_profile_is_the_gradient_at_the_stream_where_the_rule_adds():
    """For x + F(…), ∂L/∂F_k = ∂L/∂x_{k+1}: the profile must equal the gradient-flow instrument, shifted by one."""
    model, (ids, targets) = disturbed(build("pre_norm")), ids_and_targets()
    found = compare.profile(model, ids, targets)
    np.testing.assert_allclose(found["gradient"], gradient_flow(model, ids, targets).states[1:], rtol=1e-10)
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_profile_exists_for_every_recipe(name):
    model, (ids, targets) = build(name), ids_and_targets()
    found = compare.profile(model, ids, targets)
    assert len(found["gradient"]) == len(model.stack.sites)
    assert np.isfinite(found["gradient"]).all() and np.isfinite(found["stream"]).all()


def test_comparison_is_reproducible_and_draws(tmp_path):
    first, again = (compare.run(recipes=("pre_norm", "rezero"), seeds=2, **SMALL) for _ in range(2))
    assert first.to_json() == again.to_json()
    assert first.data["rows"][1]["gradient first/last"] is None  # ReZero's branches hear nothing at first
    assert [row["recipe"] for row in first.data["rows"]] == ["pre_norm", "rezero"]
    assert len(first.data["cells"][0]["losses"]) == 2 and len(first.data["cells"][0]["losses"][0]) == 3
    compare.draw(first).savefig(tmp_path / "compare.svg")
    (gap,) = first.data["missing"]
    assert gap["recipe"] == "rezero" and "starts at 0" in gap["gradient first/last"]
    assert "no gradient to draw: rezero" in compare.caption(first) and "band" in compare.caption(first)
    assert "no better" in first.data["rows"][0]["verdict"]


def test_a_run_that_breaks_off_is_told_and_does_not_end_the_comparison():
    """Without a norm and with Xavier weights, twelve blocks overflow at a large learning rate."""
    found = compare.run(recipes=("residual", "pre_norm"), **(SMALL | dict(depth=(24,), lr=30.0)))
    rows, (gap,) = found.data["rows"], found.data["missing"]
    assert rows[0]["verdict"] == "broke off" and rows[0]["loss"] is None and np.isfinite(rows[1]["loss"])
    assert gap["recipe"] == "residual" and "no longer finite" in gap["loss"]
    json.loads(found.to_json(), parse_constant=pytest.fail)
    assert "have not learned" in compare.caption(found) or "nothing has learned" in compare.caption(found)


def test_command_writes_what_it_printed(tmp_path, capsys):
    out, picture = tmp_path / "c.json", tmp_path / "c.svg"
    words = [f"--{key}={value[0] if isinstance(value, tuple) else value}" for key, value in SMALL.items()]
    assert main(["compare", "pre_norm", "mhc", *words, "--json", str(out), "--figure", str(picture)]) == 0
    rows = load_result(out).data["rows"]
    printed = capsys.readouterr().out
    assert all(f"{row['loss']:.4g}" in printed for row in rows)
    assert picture.read_text(encoding="utf-8").lstrip().startswith("<?xml")


def test_listing_measures_nothing(capsys):
    assert main(["residuals", "--list", "--json", "-"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in listed] == list(RECIPES)
    assert all(entry["equation"] and entry["source"] for entry in listed)


def test_named_recipes_are_told_in_full(capsys):
    assert main(["residuals", "normformer", "admin", "--list"]) == 0
    told = capsys.readouterr().out
    for name in ("normformer", "admin"):
        assert name in told
        for part in RECIPES[name].parts().values():
            assert part.splitlines()[-1] in told
    assert told.count("∂x_{l+1}/∂x_l") == told.count("Discrepancy:") == told.count("Source:") == 2


IMPOSSIBLE = [
    (costs, dict(rounds=0)), (compare, dict(steps=0)), (compare, dict(recipes=())), (compare, dict(depth=())),
    (thousand_layers, dict(blocks=0)),
]  # fmt: skip


@pytest.mark.parametrize("experiment, wrong", IMPOSSIBLE)
def test_impossible_settings_are_explained(experiment, wrong):
    with pytest.raises(ValueProblem):
        experiment.run(**wrong)


# ------------------------------------------------------------------------------------------------- a thousand layers


def check_thousand(result):
    """All finite; DeepNorm's loss falls in every step, and its gradient reaches the first sublayer."""
    rows = {row["recipe"]: row for row in result.data["rows"]}
    deep, post = rows["deepnorm"], rows["post_norm"]
    assert deep["finite"] and deep["steps that lowered it"] == result.settings["steps"]
    assert 0.1 < deep["gradient first/last"] < 10
    assert post["gradient first/last"] < 1e-3 * deep["gradient first/last"]
    return rows


def test_deepnorm_with_a_hundred_blocks():
    rows = check_thousand(thousand_layers.run(recipes=("deepnorm", "post_norm"), blocks=100, steps=4))
    assert rows["deepnorm"]["sublayers"] == 200


@pytest.mark.science
def test_deepnorm_with_a_thousand_blocks():
    rows = check_thousand(thousand_layers.run())
    assert rows["deepnorm"]["sublayers"] == 2000
    assert rows["post_norm"]["gradient first/last"] < 1e-10
