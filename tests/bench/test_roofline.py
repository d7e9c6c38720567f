"""The roofline picture says what its data say, and its data are those of the kept measurement."""

import json

import pytest

from minires.experiments import get_experiment
from minires.experiments.roofline import NEEDED, load
from minires.messages import FileProblem

EXPERIMENT = get_experiment("roofline")


def test_it_is_drawn_from_the_kept_measurement():
    result, kept = EXPERIMENT.run(), load("docs/results/bench.json")
    assert len(result.data["moves"]) == len(kept["groups"]["kernels"])
    assert result.data["machine"] == kept["machine"]["processor"]
    assert not kept["settings"]["quick"] and not kept["machine"]["notes"]


def test_the_caption_s_shares_are_the_points():
    result = EXPERIMENT.run()
    peak = result.data["GFLOP/s"]["float32"]
    shares = [row["GFLOP/s"] / peak for row in load("docs/results/bench.json")["groups"]["matmul"]]
    assert f"fastest product reaches {max(shares):.0%} of it" in EXPERIMENT.caption(result)
    assert max(shares) < 1.1, "above the roof: then the roof is wrong"


def test_a_result_without_the_groups(tmp_path):
    file = tmp_path / "bench.json"
    file.write_text(json.dumps({"groups": {name: [] for name in NEEDED[1:]}}))
    with pytest.raises(FileProblem, match=r"needs the groups peak.*minires bench --json"):
        load(str(file))
    file.write_text("{")
    with pytest.raises(FileProblem, match="JSONDecodeError"):
        load(str(file))
