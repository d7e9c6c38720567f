"""The bench measures what it says: known times, known work, and goals that can be missed."""

import json
import time

import numpy as np
import pytest

import minires
from minires import bench
from minires.bench import (
    attention,
    goals,
    kernels,
    machine,
    overhead,
    products,
    profile,
    step_jax,
    step_torch,
    training,
)
from minires.bench.step_ours import Size, batches, build, our_step
from minires.bench.timing import Times, side_by_side
from minires.data import CharCorpus, hamlet
from minires.messages import UnknownName


def test_known_times_come_back():
    works = {"short": lambda: time.sleep(0.004), "long": lambda: time.sleep(0.012)}
    times = side_by_side(works, 0.2)
    assert 0.004 <= times.median("short") < 0.008 < times.median("long")
    assert 1.5 < times.ratio("long", "short") < 3.5
    assert times.ratios("short") == {"long": times.ratio("long", "short")}


def test_a_ratio_survives_a_busy_round():
    """Both are slow while others work: the ratio is taken within a round, so it does not move."""
    assert Times(ours=[1.0, 9.0, 1.1], theirs=[2.0, 18.0, 2.2]).ratio("theirs", "ours") == 2.0


def test_the_best_round_is_not_the_median():
    times = Times(ours=[3.0, 1.0, 8.0])
    assert (times.best("ours"), times.median("ours")) == (1.0, 3.0)


def test_every_round_begins_with_another():
    order = []
    side_by_side({name: lambda name=name: order.append(name) or time.sleep(0.002) for name in "ab"}, 0.0)
    assert order[-6:] == ["a", "b", "b", "a", "a", "b"]


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_contestants_do_the_same_work(backend):
    """Every hand of every contest gives the same numbers, so that no ratio compares different things."""
    with minires.backend(backend):
        for contest in kernels.contests(16, 24):
            if contest.name.startswith("adamw"):
                continue  # it writes in place and returns nothing
            found = [first_array(work()) for work in (contest.minires, contest.numpy, contest.torch) if work]
            for other in found[1:]:
                np.testing.assert_allclose(other, found[0], rtol=2e-4, atol=2e-5, err_msg=contest.name)


def first_array(result):
    while isinstance(result, tuple | list):
        result = result[0]
    return np.asarray(result)


def test_attention_of_both_sides_agrees():
    pytest.importorskip("torch")
    arrays = attention.inputs(2, 9, 4)
    for ours, theirs in zip(attention.both(*arrays), attention.torch_both(*arrays)(), strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=1e-5)


def test_traffic_counts_each_array_once():
    x = np.zeros((4, 4), np.float32)
    assert len(kernels.distinct([x, x, x[:0], None, np.ones(3)])) == 2


@pytest.mark.parametrize("layout", ["a b", "aᵀ b", "a bᵀ", "aᵀ bᵀ"])
def test_layouts(layout):
    a, b = products.factors(layout, 3, 4, 5)
    assert (a.shape, b.shape) == ((3, 4), (4, 5))
    assert (a.flags.f_contiguous, b.flags.f_contiguous) == ("aᵀ" in layout, "bᵀ" in layout)


def test_the_models_of_both_sides_are_the_same():
    """The same losses over twelve steps: same weights, same gradients, same update, same weight decay."""
    pytest.importorskip("torch")
    size, corpus = Size(2, 8, 8, 2, 2), CharCorpus(hamlet())
    model = build(size, corpus)
    taken = {"minires": our_step(model), **step_torch.torch_steps(model, size)}
    _, losses = training.in_turns(taken, batches(size, corpus, 12))
    np.testing.assert_allclose(losses["minires"], losses["PyTorch"], rtol=1e-5)
    assert losses["minires"][-1] != losses["minires"][0]


def test_without_the_others_their_columns_are_empty(monkeypatch):
    monkeypatch.setattr(step_torch, "torch_or_none", lambda: None)
    monkeypatch.setattr(step_jax, "jax_or_none", lambda threads: None)
    row = training.one_thread(Size(2, 8, 8, 1, 2), CharCorpus(hamlet()), 5)
    assert row["ms"] > 0 and row["steps"] == 5 and not [name for name in row if "PyTorch" in name or "JAX" in name]
    found = goals.goals({"training": [row]})
    assert len(found) == 5 and all(goal["reached"] is None for goal in found)


def test_how_far_loss_curves_are_apart():
    """At any step, in either direction."""
    found = training.apart({"minires": [4.0, 2.0], "PyTorch": [4.0, 2.0], "JAX": [3.0, 2.1]})
    assert found == {"PyTorch's loss off by": 0.0, "JAX's loss off by": 0.25}


def test_a_limit_ends_the_turns_but_not_the_first_ones():
    steps = []
    training.in_turns({"one": lambda x, y: steps.append(x) or 0.0}, [(i, i) for i in range(50)], limit=0.0)
    assert len(steps) == training.WARM + 1


@pytest.mark.parametrize("name", list(overhead.OPERATIONS))
def test_the_bare_chain_is_the_engine_s_work(name):
    """The same gradients by hand, so that only the engine is the difference."""
    f = np.eye(3) * 1.001
    engine = overhead.engine_chain(overhead.OPERATIONS[name][0], f)
    bare = overhead.bare_chain(*overhead.OPERATIONS[name][1:], f)
    for got, right in zip(engine, bare, strict=True):
        np.testing.assert_allclose(got.sum(), right.sum(), rtol=1e-9)


def test_goals_can_be_reached_missed_and_left_open():
    row = {"work": "training step", "size": "(8, 32, 32, 2, 4)"}
    row |= {"PyTorch's loss off by": 1e-3, "JAX's loss off by": 1e-5}
    rows = [{**row, "PyTorch": ratio, "JAX": ratio} for ratio in (1.0, 4.0)]
    found = {row["goal"]: row for row in goals.goals({"training": rows, "threads": rows})}
    assert found["PyTorch's time / ours, geometric mean"]["measured"] == pytest.approx(2.0)
    assert found["PyTorch's time / ours, geometric mean"]["reached"] is True
    assert found["PyTorch's loss curves off ours by, largest"]["reached"] is False
    assert found["JAX's loss curves off ours by, largest"]["reached"] is True
    assert found["JAX's time / ours, smallest"]["measured"] == 1.0
    assert found["our time on one thread / on two, d ≥ 128"]["reached"] is None


def test_one_group_as_json_and_as_a_table(tmp_path, capsys):
    from minires.cli import main

    file = tmp_path / "bench.json"
    assert main(["bench", "--quick", "--only", "overhead", "--json", str(file)]) == 0
    result, printed = json.loads(file.read_text()), capsys.readouterr().out
    assert list(result["groups"]) == ["overhead"] and result["settings"] == {"quick": True, "only": ["overhead"]}
    assert all(row["µs"] > 0 and row["best µs"] > 0 for row in result["groups"]["overhead"])
    assert "add, overhead" in printed and result["machine"]["processor"] in printed and "Goals" in printed
    assert main(["bench", "--json", str(tmp_path / "no" / "bench.json")]) == 2  # before anything is measured
    assert "does not exist" in capsys.readouterr().err


def test_an_unknown_group():
    with pytest.raises(UnknownName, match="Did you mean 'kernels'"):
        bench.run(only=["kernel"])


def test_every_group_has_its_function():
    assert all(callable(bench.group(name)) for name in bench.GROUPS)


def test_a_setting_that_misleads_is_named(monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    assert any("OPENBLAS_CORETYPE=Haswell" in note for note in machine.notes())
    monkeypatch.delenv("OPENBLAS_CORETYPE")
    monkeypatch.delenv("OPENBLAS_L2_SIZE", raising=False)
    assert machine.notes() == []


def test_the_list_of_groups_costs_no_import():
    """`minires bench --help` must not wait for NumPy."""
    import subprocess
    import sys

    code = "import sys, minires.commands.bench, minires.bench; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_parts_of_a_step_are_the_whole_of_it():
    row = profile.parts(training.SIZES[0], steps=2)
    shares = [row[part] for part in (*profile.PARTS.values(), profile.REST)]
    assert sum(shares) == pytest.approx(100) and all(share > 0 for share in shares)
