"""A rule from a user's own file: registered, built, checked, trained and listed without a change of the package."""

import json

import numpy as np
import pytest

from minires.cli import main
from minires.messages import UnknownName, ValueProblem
from minires.models import RECIPES, add_recipe, get_recipe
from minires.residual import CONNECTIONS, register
from minires.tensor import grad
from minires.train import AdamW
from tests.residual.common import ids_and_targets

RULE = '''
"""My rule: the branch is divided by the number of sublayers so far."""

import numpy as np

from minires.models import Recipe, add_recipe
from minires.residual import Connection, register


@register("fading")
class Fading(Connection):
    """x ← x + F(LN(x))/(k + 1)."""

    equation = "x ← x + F(LN(x))/(k+1), y = LN_f(x)"

    def __init__(self, sites, d, norm, make):
        super().__init__(sites, d, norm, make)
        self.norms = [norm(d, make) for _ in sites]
        self.final_norm = norm(d, make)

    def step(self, stream, site, F):
        x = stream
        return x + F(self.norms[site.k](x)) * (1 / (site.k + 1))

    def close(self, stream):
        return self.final_norm(stream)


add_recipe(Recipe("fading", "fading", "my own idea"))
'''


@pytest.fixture
def own_file(tmp_path):
    """The file; afterwards the registries are as they were."""
    connections, recipes = dict(CONNECTIONS), dict(RECIPES)
    path = tmp_path / "fading.py"
    path.write_text(RULE, encoding="utf-8")
    yield path
    for registry, before in ((CONNECTIONS, connections), (RECIPES, recipes)):
        registry.clear()
        registry.update(before)


def test_it_trains_a_step(own_file):
    exec(compile(own_file.read_text(encoding="utf-8"), str(own_file), "exec"), {"__name__": "mine"})
    model = get_recipe("fading").build(7, 2, d=8, heads=2, context=4)
    ids, targets = ids_and_targets()
    optimizer = AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(5):
        loss = model.loss(ids, targets)
        losses.append(loss.item())
        optimizer.step(grad(loss, optimizer.parameters))
    assert losses[-1] < losses[0]


def test_the_commands_take_it(own_file, tmp_path, capsys):
    out = tmp_path / "costs.json"
    sizes = ["--blocks", "1", "--d", "8", "--rounds", "1"]
    assert main(["residuals", "fading", *sizes, "--load", str(own_file), "--json", str(out)]) == 0
    assert "x ← x + F(LN(x))/(k+1)" in capsys.readouterr().out
    (row,) = json.loads(out.read_text(encoding="utf-8"))["data"]["rows"]
    assert row["recipe"] == "fading" and row["operations"] == pytest.approx(1, abs=0.05)
    small = ["--depth", "1,2", "--steps", "3", "--d", "8", "--heads", "2", "--length", "6", "--batch", "2"]
    assert main(["compare", "fading", "pre_norm", *small, "--load", str(own_file)]) == 0
    assert capsys.readouterr().out.count("fading") >= 2


def test_a_name_that_is_taken_is_refused(own_file):
    with pytest.raises(ValueProblem, match="new"):

        @register("pre_norm")
        class Another(CONNECTIONS["residual"]):
            pass

    with pytest.raises(ValueProblem, match="new"):
        add_recipe(RECIPES["rezero"].__class__("pre_norm", "rezero", "a thief"))


def test_a_misspelled_name_is_answered_with_the_closest_one():
    with pytest.raises(UnknownName, match="deepnorm"):
        get_recipe("depnorm")


def test_settings_of_a_rule_are_fixed_with_partial():
    """A function that makes a connection stands wherever a rule's name does."""
    from functools import partial

    from minires.models import DecoderLM
    from minires.residual.scaled import LayerScale

    model = DecoderLM(7, d=8, heads=2, blocks=2, context=4, connection=partial(LayerScale, start=0.25))
    assert {float(v) for gamma in model.stack.connection.gammas for v in gamma.data} == {np.float32(0.25)}
