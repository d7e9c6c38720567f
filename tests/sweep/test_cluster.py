"""The same sweep on a `distributed` cluster of two workers on this machine."""

import sys
from dataclasses import replace

import pytest

from minires.messages import FileProblem, ValueProblem
from minires.sweep import grid, read_lines, sweep

CELLS = grid(["pre_norm", "mhc"], [1], [8], [0, 1], steps=2, heads=2, length=8, batch=2)


def result(record):
    return {name: value for name, value in record.items() if name != "seconds"}


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed", reason="pip install 'minires[cluster]'")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as running:
        yield running


@pytest.mark.slow
def test_two_workers_compute_the_grid(cluster, tmp_path):
    path = tmp_path / "s.jsonl"
    remote = sweep(CELLS, path, scheduler=cluster.scheduler_address, progress=False)
    alone = sweep(CELLS, tmp_path / "alone.jsonl", progress=False)
    assert list(map(result, remote)) == list(map(result, alone))
    assert {r["key"] for r in read_lines([path])} == {c.key for c in CELLS}
    before = path.read_bytes()
    sweep(CELLS, path, scheduler=cluster.scheduler_address, progress=False)
    assert path.read_bytes() == before, "nothing is run twice"


@pytest.mark.slow
def test_a_cell_that_fails_there_is_told_here(cluster, tmp_path):
    rule = tmp_path / "wrong.py"
    rule.write_text("1 / 0\n")
    cell = replace(CELLS[0], load=str(rule))
    with pytest.raises(FileProblem, match="line 1: ZeroDivisionError"):
        sweep([cell], tmp_path / "s.jsonl", scheduler=cluster.scheduler_address, progress=False)
    assert not (tmp_path / "s.jsonl").read_bytes()


@pytest.mark.slow
def test_a_scheduler_that_is_not_there(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="pip install 'minires[cluster]'")
    client = distributed.Client
    monkeypatch.setattr(distributed, "Client", lambda address, timeout: client(address, timeout="1s"))
    with pytest.raises(ValueProblem, match="must answer"):
        sweep(CELLS, tmp_path / "s.jsonl", scheduler="tcp://127.0.0.1:9", progress=False)


def test_without_the_package_the_message_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueProblem, match=r"minires\[cluster\]"):
        sweep(CELLS, tmp_path / "s.jsonl", scheduler="tcp://127.0.0.1:8786", progress=False)
