"""The 12-layer table: what must hold in every cell, and what the article's numbers would need."""

import numpy as np
import pytest

from minires import Tensor
from minires.experiments import gradient_table as study
from minires.experiments import run_experiment
from minires.messages import UnknownName, ValueProblem
from minires.nn import LayerNorm, Maker

SMALL = dict(widths=(32,), seeds=(2,), batch=2, length=16, dtype="float64")


@pytest.fixture(scope="module")
def result():
    return run_experiment("gradient_table", SMALL)


def profiles(result, norm):
    return [p for p in result.data["profiles"] if p["norm"] == norm]


def test_there_is_a_row_for_every_norm_initialisation_and_layer(result):
    keys = {(r["model"], r["norm"], r["init"], r["width"], r["layer"]) for r in result.data["rows"]}
    assert len(keys) == len(result.data["rows"]) == 2 * 2 * 5 * 1 * 3
    article = {(r["norm"], r["layer"]): r["article"] for r in result.data["rows"]}
    assert article["post_norm", 1] == 0.0012 and article["pre_norm", 6] == 0.9912
    assert all(r["total"] == 1 and r["branches"] == 0 for r in result.data["rows"] if r["layer"] == 12)


def test_skip_alone_is_exactly_one_in_pre_norm(result):
    assert all(value == 1 for p in profiles(result, "pre_norm") for value in p["skip"])


def test_skip_alone_is_the_product_of_jacobians_in_post_norm(result):
    assert result.data["product_error"] < 1e-12
    for p in profiles(result, "post_norm"):
        assert all(s <= i * 1.001 for s, i in zip(p["skip"], p["inverse_s"]))


def test_smaller_branches_lose_less_on_the_skip_path(result):
    found = sorted((p["branch_size"], p["skip"][1]) for p in profiles(result, "post_norm") if p["model"] == "decoder")
    assert [skip for _, skip in found] == sorted((skip for _, skip in found), reverse=True)


def test_the_verdict_is_computed_from_the_cells(result):
    verdict, cells = result.data["verdict"], profiles(result, "post_norm")
    assert verdict["post_norm"]["within 10 %"] == 0
    assert verdict["post_norm"]["total at layer 1"] == [f(p["total"][1] for p in cells) for f in (min, max)]
    assert "0 of 10" in verdict["text"]


def test_a_table_with_the_articles_numbers_would_be_called_reproduced():
    def cell(norm):
        profile = np.interp(np.arange(13), *zip(*study.ARTICLE[norm].items()))
        return dict(model="decoder", norm=norm, init="x", width=8, branch_size=0.5, total=profile, skip=profile)

    verdict = study.verdict([cell("post_norm"), cell("pre_norm")])
    assert verdict["post_norm"]["within 10 %"] == verdict["pre_norm"]["within 10 %"] == 1
    assert verdict["post_norm"]["off by a factor"] == pytest.approx(1)


def test_branch_sizes_for_the_articles_numbers():
    found = {(row["sublayers"]): row for row in study.needed()}
    assert {m: round(row["branch_size"], 3) for m, row in found.items()} == {
        22: 0.918, 12: 0.707, 24: 0.867, 14: 0.645, 11: 1.548, 6: 1.119,
    }  # fmt: skip
    for m, row in found.items():
        assert (1 + row["branch_size"] ** 2) ** (-m / 2) == pytest.approx(row["ratio"], rel=1e-12)


@pytest.mark.parametrize(("sublayers", "ratio"), [(22, 0.0012), (12, 0.0876)])
def test_a_stack_with_that_branch_size_really_has_the_articles_number(sublayers, ratio):
    """Post-Norm's skip path with random branches of exactly the size that the formula asks for, at d = 4096."""
    rng, d = np.random.default_rng(0), 4096
    norm = LayerNorm(d, Maker.of(0, dtype=np.float64))
    x = x0 = norm(Tensor(rng.standard_normal((1, d)), requires_grad=True)).detach()
    x0.requires_grad = True
    x = x0
    for _ in range(sublayers):
        x = norm(x + Tensor(study.needed_branch_size(ratio, sublayers) * rng.standard_normal((1, d))))
    g = rng.standard_normal((1, d))
    x.backward(g)
    assert np.linalg.norm(x0.grad) / np.linalg.norm(g) == pytest.approx(ratio, rel=0.05)


def test_other_depths_have_no_article_to_compare_with():
    one = dict(blocks=3, models=("decoder",), inits=("xavier",), seeds=(1,))
    result = run_experiment("gradient_table", SMALL | one)
    assert {r["article"] for r in result.data["rows"]} == {None}
    assert {r["layer"] for r in result.data["rows"]} == {1, 2, 3}
    assert study.caption(result)


@pytest.mark.parametrize(
    ("settings", "error"),
    [({"models": ("gpt",)}, UnknownName), ({"inits": ("xaver",)}, UnknownName), ({"seeds": (1, 2, 3)}, ValueProblem),
     ({"blocks": 0}, ValueProblem)],
)  # fmt: skip
def test_impossible_settings_are_refused(settings, error):
    with pytest.raises(error):
        run_experiment("gradient_table", settings)


def test_a_range_is_told_as_one_number_where_its_ends_read_the_same():
    assert study.told([2.6482, 2.6482], 3) == study.told([2.6482, 2.6483], 3) == "2.65"
    assert study.told([0.4696, 2.3385], 2) == "0.47 to 2.3"
