"""A sweep computes every cell once, whatever kills it, however it is cut into shards, and whoever computes it."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minires import sweep as module
from minires.cli import main
from minires.messages import FileProblem, UnknownName, ValueProblem
from minires.sweep import Cell, Lines, grid, read_lines, run_cell, shard, summary, sweep

TINY = dict(steps=2, heads=2, length=8, batch=2)
TINY_WORDS = [word for name, value in TINY.items() for word in (f"--{name}", str(value))]
CELLS = grid(["pre_norm", "post_norm"], [1, 2], [8], [0, 1], **TINY)


def result(record):
    """A record without what may differ from run to run."""
    return {name: value for name, value in record.items() if name != "seconds"}


def pretend(cell):
    """A cell that takes no time."""
    numbers = {"loss": 1.0 + cell.seed, "gradient": 1.0, "growth": 2.0, "seconds": 0.1}
    return {"key": cell.key, "settings": asdict(cell), **numbers}


@pytest.fixture
def quick(monkeypatch):
    """Cells that take no time, and the list of those that were run."""
    ran = []
    monkeypatch.setattr(module, "run_cell", lambda cell: (ran.append(cell), pretend(cell))[1])
    return ran


# ------------------------------------------------------------------------------------------------- cells and shards


def test_a_grid_holds_every_combination_once():
    assert len({cell.key for cell in CELLS}) == len(CELLS) == 8
    assert {(c.recipe, c.depth, c.width, c.seed) for c in CELLS} == {
        (r, n, 8, s) for r in ("pre_norm", "post_norm") for n in (1, 2) for s in (0, 1)
    }


def test_every_setting_is_in_the_key(tmp_path):
    cell = CELLS[0]
    others = dict(recipe="mhc", depth=3, width=16, seed=9, steps=3, lr=0.1, warmup=1, heads=1, length=9, batch=3)
    keys = {replace(cell, **{name: value}).key for name, value in others.items()}
    assert len(keys | {cell.key}) == len(others) + 1
    assert cell.key == Cell(**asdict(cell)).key
    file = tmp_path / "rule.py"
    file.write_text("a = 1")
    one = replace(cell, load=str(file)).key
    file.write_text("a = 2")
    assert one != cell.key and replace(cell, load=str(file)).key != one, "an edited rule is another cell"


def test_the_key_does_not_change_from_one_version_to_the_next():
    """Or a long sweep could not be resumed."""
    assert Cell("pre_norm", 6, 32, 0).key == KEY


@given(st.integers(0, 40), st.integers(1, 9))
def test_shards_are_a_partition(cells, n):
    everything = list(range(cells))
    parts = [shard(everything, f"{i}/{n}") for i in range(1, n + 1)]
    assert sorted(sum(parts, [])) == everything
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("part", ["0/2", "3/2", "1", "1/0", "a/b", "-1/2", "1/2/3", ""])
def test_a_wrong_shard_is_named(part):
    with pytest.raises(ValueProblem, match="i/n"):
        shard(CELLS, part)


def test_a_wrong_grid_is_refused_before_anything_runs():
    with pytest.raises(UnknownName, match="pre_norm"):
        grid(["prenorm"], [1], [8], [0])
    for places in (([0], [8], [0]), ([1], [0], [0]), ([1], [6], [0]), ([1], [8], [-1])):
        with pytest.raises(ValueProblem, match="heads must divide"):
            grid(["pre_norm"], *places)
    for options in (dict(lr=0), dict(steps=0), dict(warmup=-1), dict(batch=0)):
        with pytest.raises(ValueProblem):
            grid(["pre_norm"], [1], [8], [0], **options)


# --------------------------------------------------------------------------------------------------- the file of lines


def test_finished_cells_are_not_run_again(quick, tmp_path):
    path = tmp_path / "s.jsonl"
    sweep(CELLS[:3], path)
    records = sweep(CELLS, path)
    assert quick == CELLS and [r["key"] for r in records] == [c.key for c in CELLS]
    assert len(path.read_text().splitlines()) == len(CELLS)
    assert sweep(CELLS[::-1], path) == records[::-1] and len(quick) == len(CELLS)


def test_a_file_cut_at_any_byte_costs_at_most_one_cell(quick, tmp_path):
    path = tmp_path / "s.jsonl"
    sweep(CELLS[:2], path)
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for cut in range(len(whole)):
        quick.clear()
        path.write_bytes(whole[:cut])
        sweep(CELLS[:2], path)
        assert path.read_bytes() == whole and len(quick) == (1 if cut >= first else 2)


def test_the_line_is_on_the_disk_before_the_next_cell_begins(quick, tmp_path):
    path, seen = tmp_path / "s.jsonl", []
    sweep(CELLS[:3], path, on_record=lambda record: seen.append(len(path.read_text().splitlines())))
    assert seen == [1, 2, 3]


def test_a_stop_keeps_what_is_finished(quick, tmp_path):
    def stop(record):
        if record["key"] == CELLS[1].key:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(CELLS, tmp_path / "s.jsonl", on_record=stop)
    sweep(CELLS, tmp_path / "s.jsonl")
    assert quick == CELLS


@pytest.mark.parametrize("line", ["not json", "{}", "[]", '{"key": "a"}', '{"key": "a", "settings": {}}', "3"])
def test_a_foreign_line_is_named_and_nothing_is_written(quick, tmp_path, line):
    path = tmp_path / "s.jsonl"
    sweep(CELLS[:1], path)
    path.write_text(path.read_text() + line + "\n")
    before = path.read_bytes()
    with pytest.raises(FileProblem, match="line 2"):
        sweep(CELLS, path)
    assert path.read_bytes() == before


def test_folders_that_do_not_exist_are_named(tmp_path):
    with pytest.raises(FileProblem, match="create it first"):
        sweep(CELLS, tmp_path / "nowhere" / "s.jsonl")


@pytest.mark.skipif(sys.platform == "win32", reason="no advisory locks there")
def test_two_sweeps_do_not_write_to_one_file(tmp_path):
    path = tmp_path / "s.jsonl"
    with Lines(path), pytest.raises(FileProblem, match="one sweep at a time"), Lines(path):
        pass
    with Lines(path):
        pass


def test_shards_are_put_together(quick, tmp_path):
    paths = [tmp_path / f"{i}.jsonl" for i in (1, 2)]
    for i, path in enumerate(paths, 1):
        sweep(shard(CELLS, f"{i}/2"), path)
    assert {r["key"] for r in read_lines(paths)} == {c.key for c in CELLS}
    paths[0].write_bytes(paths[0].read_bytes()[:-5])  # still being written
    assert len(read_lines([*paths, paths[1]])) == len(CELLS) - 1


def test_the_summary_is_over_seeds_and_counts_runs_that_broke_off():
    records = [pretend(cell) for cell in CELLS]
    records[1]["loss"] = None
    rows = summary(records)
    assert [(r["recipe"], r["depth"], r["seeds"]) for r in rows] == [
        ("pre_norm", 1, 2), ("pre_norm", 2, 2), ("post_norm", 1, 2), ("post_norm", 2, 2)]  # fmt: skip
    assert (rows[0]["loss"], rows[0]["broke off"], rows[0]["spread"]) == (1.0, 1, 0.0)
    assert (rows[1]["loss"], rows[1]["broke off"], rows[1]["spread"]) == (1.5, 0, 1.0)


@pytest.mark.parametrize("setting", [{"lr": 0.1}, {"steps": 9}, {"warmup": 3}, {"batch": 1}, {"length": 4}])
def test_the_summary_never_averages_over_anything_but_seeds(setting):
    (name, value), (one, two) = *setting.items(), CELLS[:2]  # two seeds of one cell
    rows = summary([pretend(cell) for cell in (one, two, replace(one, **setting), replace(two, **setting))])
    assert [(row[name], row["seeds"], row["loss"]) for row in rows] == [(getattr(one, name), 2, 1.5), (value, 2, 1.5)]
    assert name not in summary([pretend(one)])[0], "a setting that all share needs no column"


# ---------------------------------------------------------------------------------------------------------- real cells


def test_a_cell_measures_what_it_says():
    record = run_cell(CELLS[0])
    assert 2 < record["loss"] < 6 and record["unigram"] < record["loss"] and len(record["losses"]) == 2
    assert record["gradient"] > 0 and record["growth"] > 1 and json.loads(json.dumps(record)) == record
    assert result(run_cell(CELLS[0])) == result(record), "the same cell has the same numbers"
    assert result(run_cell(CELLS[1])) != result(record), "another seed has others"


def test_training_that_breaks_off_is_a_result():
    broken = run_cell(replace(CELLS[0], recipe="residual", lr=1e30, steps=4))
    assert broken["loss"] is None and json.dumps(broken, allow_nan=False)


@pytest.mark.slow
def test_processes_give_the_same_numbers_and_know_the_users_rule(tmp_path):
    rule = tmp_path / "half.py"
    rule.write_text(RULE)
    from minires.commands.setup import run_file

    run_file(str(rule))
    cells = [*CELLS[:2], replace(CELLS[0], recipe="sweep_half", load=str(rule))]
    parallel = sweep(cells, tmp_path / "two.jsonl", workers=2, progress=False)
    alone = sweep(cells, tmp_path / "one.jsonl", workers=1, progress=False)
    assert list(map(result, parallel)) == list(map(result, alone))


@pytest.mark.slow
def test_a_worker_that_dies_is_reported_and_costs_nothing_that_was_finished(tmp_path):
    rule = tmp_path / "dies.py"
    rule.write_text("import os, multiprocessing\nif multiprocessing.parent_process():\n    os._exit(1)\n")
    path = tmp_path / "s.jsonl"
    kept = sweep(CELLS[:1], path, progress=False)
    with pytest.raises(ValueProblem, match="worker"):
        sweep([CELLS[0], *(replace(c, load=str(rule)) for c in CELLS[1:3])], path, workers=2, progress=False)
    assert read_lines([path]) == kept


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
def test_a_kill_in_the_middle_and_a_second_start_give_the_whole_grid(tmp_path):
    path = tmp_path / "s.jsonl"
    words = ["sweep", "--recipes", "pre_norm", "post_norm", "--depth", "1,2", "--width", "8", "--seeds", "0,1"]
    command = [sys.executable, "-m", "minires", *words, *TINY_WORDS, "--out", str(path), "--workers", "1"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (path.exists() and path.read_bytes().count(b"\n") >= 2):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = path.read_bytes()
    assert before.count(b"\n") >= 2
    path.write_bytes(before + b'{"key": "cut')  # as a kill in the middle of a line leaves it
    assert main([*words, *TINY_WORDS, "--out", str(path), "--workers", "1"]) == 0
    after = path.read_bytes()
    assert after.startswith(before[: before.rfind(b"\n") + 1]) and len(read_lines([path])) == len(CELLS)
    assert [result(r) for r in read_lines([path])] == [result(run_cell(c)) for c in CELLS]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no process groups there")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_is_quiet_and_keeps_what_is_finished(tmp_path, workers):
    path = tmp_path / "s.jsonl"
    words = ["sweep", "--depth", "1,24", "--width", "8", "--seeds", "0", *TINY_WORDS[2:], "--steps", "1000"]
    command = [sys.executable, "-m", "minires", *words, "--out", str(path), "--workers", workers]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (path.exists() and path.read_bytes().count(b"\n")):
        time.sleep(0.05)
    time.sleep(0.5)  # the next cell, of 24 blocks, is training now
    os.killpg(process.pid, signal.SIGINT)
    told = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and "Every file is whole" in told and "Traceback" not in told
    assert 1 <= len(read_lines([path])) < 4
    assert all(len(record["losses"]) == 1000 for record in read_lines([path]))


# ------------------------------------------------------------------------------------------------------ the command


def test_the_command(quick, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    places = ["--recipes", "mhc", "--depth", "1,2", "--width", "8", "--seeds", "0,1,2"]
    words = ["sweep", *places, *TINY_WORDS, "--workers", "1"]
    for part in ("1/2", "2/2"):
        assert main([*words, "--shard", part]) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["sweep-1-of-2.jsonl", "sweep-2-of-2.jsonl"]
    assert len(quick) == 6
    capsys.readouterr()
    assert main(["sweep", "--show", "sweep-1-of-2.jsonl", "sweep-2-of-2.jsonl", "--json", "all.json"]) == 0
    assert "mhc" in capsys.readouterr().out and len(json.loads((tmp_path / "all.json").read_text())) == 6
    assert main(words) == 0 and (tmp_path / "sweep.jsonl").exists()


@pytest.mark.parametrize(
    "words, told",
    [
        (["--depth", "6;12"], "--depth"), (["--seeds", "a"], "--seeds"), (["--recipes", "prenorm"], "pre_norm"),
        (["--shard", "3/2"], "i/n"), (["--workers", "0"], "at least 1"), (["--show", "missing.jsonl"], "missing.jsonl"),
        (["--load", "missing.py"], "missing.py"), (["--steps", "many"], "--steps"),
    ],
)  # fmt: skip
def test_wrong_words_have_an_answer(words, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", *words]) == 2
    told_by = capsys.readouterr().err
    assert told in told_by and "Traceback" not in told_by


RULE = '''
from minires.models import Recipe
from minires.models.recipes import add_recipe
from minires.residual import Connection, register


@register("sweep_half")
class Half(Connection):
    equation = "x ← x + F(x) / 2"

    def step(self, stream, site, F):
        return stream + 0.5 * F(stream)


add_recipe(Recipe("sweep_half", "sweep_half", "a test"))
'''
KEY = "2c3172ee3c85"
