"""docs/choosing.md says what the measurements say: its tables, its sentences, and its commands."""

import importlib.util
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from minires.cli import parse
from minires.data import CharCorpus, hamlet
from minires.experiments import load_result
from minires.models import RECIPES
from minires.probes import rank_collapse
from tests.residual.common import make_connection

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")


def load_writer():
    spec = importlib.util.spec_from_file_location("write_choosing", ROOT / "tools" / "write_choosing.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WRITER = load_writer()


def seeds(file, **settings):
    """recipe → its losses, one per seed."""
    return {name: WRITER.losses(records) for name, records in WRITER.by_recipe(file, **settings).items()}


def learns(file):
    return {name: WRITER.learns(records) for name, records in WRITER.by_recipe(file).items()}


def rows(path):
    return {row["recipe"]: row for row in load_result(ROOT / path).data["rows"]}


def test_tables_are_those_of_the_committed_results():
    assert WRITER.filled(PAGE) == PAGE


def test_every_recipe_named_on_the_page_exists():
    named = set(re.findall(r"`(\w+)`", PAGE))
    assert named and named <= set(RECIPES) | {"figures"}


def test_every_recipe_has_a_line_in_both_large_tables():
    assert set(rows("docs/results/residuals.json")) == set(seeds("compare_12.jsonl")) == set(RECIPES)


def signs(name):
    """By rate: -1 if the recipe is below Pre-Norm with every seed, 1 if above with every seed, 0 between."""
    differences = {rate: WRITER.beside(groups, name) for rate, groups in WRITER.by_rate().items()}
    return {rate: int(np.all(d > 0)) - int(np.all(d < 0)) for rate, d in differences.items()}


@pytest.mark.parametrize("file", ["compare_12.jsonl", "compare_48.jsonl", "rates_12.jsonl", "warm_12.jsonl"])
def test_kept_sweeps_are_strict_json_with_three_seeds_and_a_reason_for_every_gap(file):
    lines = (ROOT / "docs/results" / file).read_text(encoding="utf-8").splitlines()
    records = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert all((r["gradient"] is None) == ("gradient first/last" in r["missing"]) for r in records)
    assert all((r["loss"] is None) == ("loss" in r["missing"]) for r in records)
    found = {tuple(r["settings"][name] for name in ("recipe", "lr", "seed")) for r in records}
    assert {seed for *_, seed in found} == {0, 1, 2} and len(found) == len(lines) == 3 * len({f[:2] for f in found})


def test_tables_are_made_from_what_the_records_hold(tmp_path, monkeypatch):
    """Means, ranges and differences by hand; a gap is a dash with its reason below."""

    def record(recipe, seed, loss, **more):
        place = {"key": f"{recipe}{seed}", "settings": {"recipe": recipe, "seed": seed}}
        return place | {"loss": loss, "gradient": 2.0, "growth": 1.0, "unigram": 3.0, "missing": {}} | more

    gap = {"gradient": None, "missing": {"gradient first/last": "no gradient"}}
    told = [record("pre_norm", 0, 2.0), record("pre_norm", 1, 2.2)]
    told += [record("rezero", 1, 2.0, **gap), record("rezero", 0, 1.9, **gap)]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(r) + "\n" for r in told))
    monkeypatch.setattr(WRITER, "RESULTS", tmp_path)
    first, _, rezero, pre_norm, _, reason = WRITER.compared("x.jsonl").splitlines()
    assert first.startswith("| recipe | gradient") and reason == "No gradient first/last for `rezero`: no gradient."
    assert rezero == "| `rezero` | – | 1 | 1.950 | 1.900 … 2.000 | -0.200 … -0.100 | learns |"
    assert pre_norm.startswith("| `pre_norm` | 2 | 1 | 2.100 | 2.000 … 2.200 |  | learns")

    told[2:] = [record("none", seed, None, missing={"loss": "it broke off"}) for seed in (0, 1)]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(r) + "\n" for r in told))
    *_, pre_norm, none, _, reason = WRITER.compared("x.jsonl").splitlines()
    assert none.endswith("| – | – | – | broke off |") and reason == "No loss for `none`: it broke off."


@pytest.mark.parametrize("line", [line for line in PAGE.splitlines() if line.startswith("minires ")])
def test_commands_are_understood(line):
    words = shlex.split(re.sub(r"\$\(.*?\)\s", "pre_norm ", line).split("#")[0])[1:]
    assert parse(words).command == words[0]


def test_what_the_page_says_about_deepnorm_and_post_norm():
    deep = WRITER.by_recipe("compare_48.jsonl")
    assert 0.5 < deep["deepnorm"][0]["gradient"] < 2 and deep["post_norm"][0]["gradient"] > 0.5
    thousand = rows("figures/thousand_layers.json")
    assert 0.5 < thousand["deepnorm"]["gradient first/last"] < 2
    assert all(row["finite"] and row["last loss"] < row["first loss"] for row in thousand.values())
    places, norms = zip(*load_result(ROOT / "figures/thousand_layers.json").data["curves"]["post_norm"]["gradient"])
    early = max(norm for k, norm in zip(places, norms) if k < 1000)
    assert early < 1e-7 * norms[-1]


def test_what_the_page_says_about_learning():
    stuck, deep = ({name for name, ok in learns(f"compare_{n}.jsonl").items() if not ok} for n in (12, 48))
    assert stuck == {"none", "none_identity", "plain", "residual", "post_norm"} and deep == {"post_norm"}
    shallow = seeds("compare_12.jsonl")
    assert all(losses.min() > 2.44 for name, losses in shallow.items())
    for name in ("rezero", "skipinit", "fixup", "t_fixup"):
        assert shallow[name].mean() < shallow["pre_norm"].mean()


def test_what_the_page_says_about_rates():
    found = {rate: {name: WRITER.losses(r).mean() for name, r in g.items()} for rate, g in WRITER.by_rate().items()}
    names = set(seeds("rates_12.jsonl"))
    assert list(found) == [0.001, 0.002, 0.004, 0.008, 0.016] and len(names) == 18
    assert all(WRITER.learns(groups["pre_norm"]) for groups in WRITER.by_rate().values())
    assert round(found[0.001]["pre_norm"] - found[0.008]["pre_norm"], 2) == 0.22
    calm = [found[0.008][name] for name in names if WRITER.learns(WRITER.by_rate()[0.008][name])]
    assert len(calm) == 16 and max(calm) == found[0.008]["pre_norm_gpt2"] and np.ptp(sorted(calm)[:-1]) < 0.10
    assert found[0.008]["pre_norm_gpt2"] > found[0.004]["pre_norm_gpt2"] + 0.2
    assert not any(WRITER.learns(groups["post_norm"]) for groups in WRITER.by_rate().values())
    warm = seeds("warm_12.jsonl")["post_norm"]
    assert f"{warm.min():.3f} to {warm.max():.3f}" == "3.237 to 3.239" and "(3.237 to 3.239)" in PAGE


def test_what_the_page_says_about_the_order_at_other_rates():
    means = {rate: {n: WRITER.losses(r).mean() for n, r in g.items()} for rate, g in WRITER.by_rate().items()}
    names = set(seeds("rates_12.jsonl"))
    for rate in (0.001, 0.002):
        assert set(sorted(names, key=means[rate].get)[:2]) == {"fixup", "t_fixup"}
    assert max(means[0.004][n] for n in ("rezero", "skipinit", "layerscale")) < means[0.004]["t_fixup"]
    assert not any(WRITER.learns(WRITER.by_rate()[0.016][name]) for name in ("fixup", "t_fixup", "deepnorm"))
    for name in ("rezero", "skipinit", "layerscale", "inverse_sqrt_depth"):
        assert [signs(name)[rate] for rate in (0.001, 0.004, 0.008, 0.016)] == [1, -1, -1, -1]
    always = {name for name in names if set(signs(name).values()) == {-1}}
    assert always == {"residual_inverse_sqrt_depth", "parallel", "denseformer", "block_attention_residuals"}
    ahead = np.array([-WRITER.beside(groups, name) for groups in WRITER.by_rate().values() for name in always])
    assert f"by {ahead.min():.3f} to {ahead.max():.3f}" in PAGE
    assert signs("deepnorm")[0.001] == 1 and signs("deepnorm")[0.004] == -1
    assert [signs("hyper_connections")[rate] for rate in (0.004, 0.008, 0.016)] == [-1] * 3


def test_what_the_page_says_about_48_blocks():
    groups = WRITER.by_recipe("compare_48.jsonl")
    for name in ("rezero", "inverse_sqrt_depth", "hyper_connections"):
        ahead = -WRITER.beside(groups, name)
        assert (ahead > 0).all() and ahead.mean() < np.ptp(WRITER.losses(groups[name]))
    for name in ("deepnorm", "pre_norm_gpt2"):
        assert np.ptp(np.sign(WRITER.beside(groups, name))) == 2  # on both sides of Pre-Norm


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


# ---------------------------------------------------------------------------------- what stops those that do not learn


def test_the_example_prints_the_table_of_cosines(capsys):
    section = PAGE.split("## What stops")[1].split("## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.S)
    exec(compile(code, "choosing.md", "exec"), {})
    printed = [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()]
    written = [float(number) for number in re.findall(r"\| (\d\.\d\d)", section)]
    assert len(written) == 8 and np.allclose(printed, written, atol=0.011)


def test_tokens_are_alike_in_those_that_learn_nothing():
    corpus, alike = CharCorpus(hamlet()), set()
    ids, _ = corpus.batch(np.random.default_rng(0), 8, 32)
    for name, recipe in RECIPES.items():
        model = recipe.build(len(corpus.vocab), 12, d=32, heads=4, context=32, rng=0, ids=ids)
        alike |= {name} if rank_collapse(model, ids).cosine[-1] > 0.85 else set()
    nothing = {name for name, learned in learns("compare_12.jsonl").items() if not learned}
    assert alike - {"residual_dual"} == nothing - {"residual"}
    means = {name: np.mean(losses) for name, losses in seeds("compare_12.jsonl").items() if name not in nothing}
    assert max(means, key=means.get) == "residual_dual" and "residual_dual" in alike
