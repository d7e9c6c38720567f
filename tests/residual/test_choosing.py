"""docs/choosing.md says what the measurements say: its tables, its sentences, and its commands."""

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from minires.cli import parse
from minires.experiments import load_result
from minires.models import RECIPES
from tests.residual.common import make_connection

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")


def load_writer():
    spec = importlib.util.spec_from_file_location("write_choosing", ROOT / "tools" / "write_choosing.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(path):
    return {row["recipe"]: row for row in load_result(ROOT / path).data["rows"]}


def test_tables_are_those_of_the_committed_results():
    assert load_writer().filled(PAGE) == PAGE


def test_every_recipe_named_on_the_page_exists():
    named = set(re.findall(r"`(\w+)`", PAGE))
    assert named and named <= set(RECIPES) | {"figures"}


def test_every_recipe_has_a_line_in_both_large_tables():
    for file in ("docs/results/residuals.json", "docs/results/compare_12.json"):
        assert set(rows(file)) == set(RECIPES), file


@pytest.mark.parametrize("line", [line for line in PAGE.splitlines() if line.startswith("minires ")])
def test_commands_are_understood(line):
    words = shlex.split(re.sub(r"\$\(.*?\)\s", "pre_norm ", line).split("#")[0])[1:]
    assert parse(words).command == words[0]


def test_what_the_page_says_about_deepnorm_and_post_norm():
    deep = rows("docs/results/compare_48.json")
    assert 0.5 < deep["deepnorm"]["gradient first/last"] < 2
    thousand = rows("figures/thousand_layers.json")
    assert 0.5 < thousand["deepnorm"]["gradient first/last"] < 2
    assert all(row["finite"] and row["last loss"] < row["first loss"] for row in thousand.values())
    places, norms = zip(*load_result(ROOT / "figures/thousand_layers.json").data["curves"]["post_norm"]["gradient"])
    early = max(norm for k, norm in zip(places, norms) if k < 1000)
    assert early < 1e-7 * norms[-1]


def test_what_the_page_says_about_learning():
    shallow, deep = rows("docs/results/compare_12.json"), rows("docs/results/compare_48.json")
    stuck = {name for name, row in shallow.items() if row["verdict"] != "learns"}
    assert stuck == {"none", "none_identity", "plain", "residual", "post_norm"}
    assert {name for name, row in deep.items() if row["verdict"] != "learns"} == {"post_norm"}
    assert deep["post_norm"]["gradient first/last"] > 0.5
    spread = max(row["spread"] for row in rows("docs/results/compare_seeds.json").values())
    for name in ("rezero", "skipinit", "fixup", "t_fixup"):
        assert shallow[name]["loss"] < shallow["pre_norm"]["loss"] + spread


def test_what_the_page_says_about_costs():
    cost = rows("docs/results/residuals.json")
    assert cost["mhc"]["time"] > cost["mhc_permutations"]["time"] > cost["pre_norm"]["time"]
    assert cost["hyper_connections"]["memory"] > 1.2 and cost["hyper_connections"]["time"] > 1.1
    assert cost["pre_norm_gpt2"]["extra parameters"] == cost["pre_norm"]["extra parameters"]


def test_what_the_page_says_about_looking_back():
    """At the measured depth blocks of sublayers are cheaper than the full rule; up to four blocks they are the same."""
    cost = rows("docs/results/residuals.json")
    blocks = load_result(ROOT / "docs/results/residuals.json").settings["blocks"]
    full, grouped = cost["attention_residuals"], cost["block_attention_residuals"]
    assert all(grouped[column] < full[column] for column in ("operations", "memory", "time"))
    assert max(cost[name]["time"] for name in ("denseformer", "laurel_pa")) < full["time"]

    def group(blocks):
        return make_connection("block_attention_residuals", blocks=blocks)[0].size

    assert [group(n) for n in (1, 4, 5, blocks)] == [1, 1, 2, 3]
    assert f"{blocks} blocks, d = 64" in PAGE and "24\nsublayers" in PAGE and blocks == 12
