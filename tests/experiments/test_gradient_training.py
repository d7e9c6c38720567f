"""The first optimiser steps of Post-Norm: a small run, and the committed one's finding."""

from pathlib import Path

import pytest

from minires.experiments import gradient_training as study
from minires.experiments import load_result, run_experiment
from minires.messages import ValueProblem


def test_a_small_run_has_every_course_from_the_same_start():
    result = run_experiment("gradient_training", dict(width=16, steps=4, warmup=2, batch=2, length=8, every=2))
    courses = study.by_run(result.data["rows"])
    assert len(courses) == 5 and all([row["step"] for row in rows] == [0, 2, 4] for rows in courses.values())
    post = list(courses.values())[:4]
    assert post[0][0]["layer 1"] == post[1][0]["layer 1"] != post[2][0]["layer 1"]  # warm-up changes no start
    assert post[0][-1]["layer 1"] != post[1][-1]["layer 1"]  # but the course
    assert study.caption(result) and study.table(result)


def test_the_verdict_reads_the_rows():
    courses = ((0, 1.0), (4, 0.001), (8, 0.2))
    rows = [{"run": "a", "step": step, "layer 1": value, "layer 6": 0.5, "loss": 3.0} for step, value in courses]
    assert "at step 4 (a); layer 6 then has 0.5" in study.verdict(rows)["first"]
    assert "a: 0.001 (step 4), 0.2" in study.verdict(rows)["text"]
    assert "never" in study.verdict(rows[:1])["first"]


def test_committed_course():
    """Large branches lose the gradient in their first steps; small ones dip and recover; Pre-Norm keeps it."""
    result = load_result(Path(__file__).resolve().parents[2] / "figures" / "gradient_training.json")
    ends = {name: rows[-1]["layer 1"] for name, rows in study.by_run(result.data["rows"]).items()}
    starts = {name: rows[0]["layer 1"] for name, rows in study.by_run(result.data["rows"]).items()}
    for name in ends:
        if name.startswith("Post-Norm, xavier"):
            assert ends[name] < 0.02 < 0.3 < starts[name]
        elif name.startswith("Post-Norm, gpt2"):
            assert 0.3 < ends[name] < 1.5
        else:
            assert ends[name] > 1


@pytest.mark.parametrize("settings", [{"steps": 0}, {"lr": 0.0}, {"warmup": 0}])
def test_impossible_settings_are_refused(settings):
    with pytest.raises(ValueProblem):
        run_experiment("gradient_training", settings)
