"""Every command once, with tiny settings: what it prints, what it writes, and what it leaves behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from minires.residual.connection import CONNECTIONS
from minires.train import load_checkpoint

ROOT = Path(__file__).resolve().parents[2]
SMALL = ["--blocks", "1", "--d", "16", "--heads", "2", "--length", "16", "--batch", "4"]


def read(path):
    return json.loads(path.read_text("utf-8"))


# ------------------------------------------------------------------------------------------------- experiments


def test_experiments_are_listed_with_their_settings(call, tmp_path):
    done = call("experiments", "--json", tmp_path / "list.json")
    names = [e["name"] for e in read(tmp_path / "list.json")]
    assert done.code == 0 and {"gradient_table", "jacobian_products"} <= set(names)
    assert all(name in done.out for name in names) and "seed=0" in done.out


def test_a_setting_as_listed_is_a_setting_as_taken(call):
    """What `experiments` prints can be given back to `run --set`, word for word."""
    from minires.commands.experiments import _written
    from minires.experiments import EXPERIMENTS

    for experiment in EXPERIMENTS.values():
        written = {name: _written(value) for name, value in experiment.settings.items()}
        assert experiment.parse(written) == experiment.settings


def test_run_prints_the_finding_and_writes_the_same_data_every_time(call, tmp_path):
    words = ["run", "jacobian_products", "--set", "layers=5", "d=4", "draws=2", "--json"]
    first, second = call(*words, tmp_path / "a.json"), call(*words, tmp_path / "b.json")
    written = read(tmp_path / "a.json")
    assert first.code == second.code == 0 and first.out == second.out != ""
    assert written["settings"]["layers"] == 5 and written == read(tmp_path / "b.json")


def test_run_draws_if_asked(call, tmp_path):
    words = ["run", "plus_i", "--set", "layers=6", "d=8", "draws=2", "--figure"]
    assert call(*words, tmp_path / "a.png").code == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    done = call(*words, tmp_path / "a.docx")
    assert done.code == 2 and ".svg" in done.err and not (tmp_path / "a.docx").exists()


def test_figures_are_checked(call, tmp_path):
    folder = tmp_path / "figures"
    shutil.copytree(ROOT / "figures", folder)
    assert call("figures", "jacobian_products", "--folder", folder, "--check").code == 0
    with (folder / "jacobian_products.svg").open("a") as file:
        file.write("<!-- changed by hand -->")
    done = call("figures", "jacobian_products", "--folder", folder, "--check", "--json", tmp_path / "check.json")
    assert done.code == 1 and [o["name"] for o in read(tmp_path / "check.json")] == ["jacobian_products"]


# ---------------------------------------------------------------------------------------- training and writing


@pytest.mark.parametrize(
    ("data", "words", "seen"),
    [
        ("play", SMALL, "letter pairs (bigram)"),
        ("copy", SMALL, "of the asked tokens are right"),
        ("reversal", SMALL, "of the asked tokens are right"),
        ("induction", SMALL, "of the asked tokens are right"),
        ("modular", SMALL[:-4], "of the asked tokens are right"),
        ("digits", ["--blocks", "1", "--d", "16"], "of 450 test images are right"),
    ],
)
def test_every_kind_of_data_trains(call, tmp_path, data, words, seen):
    done = call("train", "--data", data, *words, "--steps", 3, "--json", tmp_path / "run.json")
    written = read(tmp_path / "run.json")
    assert done.code == 0 and seen in done.out
    assert len(written["history"]["losses"]) == 3 and np.isfinite(written["loss"])
    assert written["loss"] == written["history"]["evaluations"][-1][1]


def test_training_learns(call, tmp_path):
    call(
        "train",
        "--data",
        "digits",
        "--steps",
        60,
        "--d",
        32,
        "--blocks",
        2,
        "--lr",
        0.01,
        "--json",
        tmp_path / "run.json",
    )
    assert read(tmp_path / "run.json")["loss"] < 0.9 < np.log(10)


def test_a_text_of_ones_own(call, tmp_path):
    (tmp_path / "mine.txt").write_text("残差连接 y = x + F(x)\n" * 60, "utf-8")
    file = tmp_path / "run.npz"
    done = call("train", "--data", "text", "--text", tmp_path / "mine.txt", *SMALL, "--steps", 2, "--checkpoint", file)
    assert done.code == 0
    written = call("generate", file, "--prompt", "残差", "--length", 5)
    assert written.code == 0 and written.out.startswith("残差") and len(written.out.rstrip("\n")) <= 7


def test_a_text_needs_no_second_option(call, tmp_path):
    (tmp_path / "mine.txt").write_text("abcdefg\n" * 60, "utf-8")
    file = tmp_path / "run.npz"
    assert call("train", "--text", tmp_path / "mine.txt", *SMALL, "--steps", 2, "--checkpoint", file).code == 0
    notes = load_checkpoint(file).notes
    assert notes["settings"]["data"] == "text" and sorted(notes["vocab"]) == sorted("abcdefg\n")


def test_a_resumed_run_ends_with_the_same_bits(call, tmp_path):
    once, twice = tmp_path / "once.npz", tmp_path / "twice.npz"
    fixed = ["train", *SMALL, "--dropout", "0.1", "--schedule", "constant", "--warmup", "0"]
    assert call(*fixed, "--steps", 6, "--checkpoint", once).code == 0
    assert call(*fixed, "--steps", 3, "--checkpoint", twice).code == 0
    assert call("train", "--resume", twice, "--steps", 6).code == 0
    a, b = load_checkpoint(once), load_checkpoint(twice)
    assert a.step == b.step == 6
    assert all(np.array_equal(a.model_state[name], b.model_state[name]) for name in a.model_state)


def test_generate_repeats_itself_for_a_seed(call, tmp_path):
    file = tmp_path / "run.npz"
    call("train", *SMALL, "--steps", 2, "--checkpoint", file)
    words = ["generate", file, "--prompt", "HAMLET", "--length", 30, "--top-k", 5]
    first, again, other = call(*words), call(*words), call(*words, "--seed", 7)
    assert first.out == again.out != other.out and len(first.out) == 6 + 30 + 1


def test_a_rule_of_ones_own(call, tmp_path, monkeypatch):
    (tmp_path / "third.py").write_text(
        "from minires.residual import Connection, register\n@register('third')\nclass Third(Connection):\n"
        "    equation = 'x + F(x) / 3'\n    def step(self, stream, site, F):\n        return stream + F(stream) / 3\n"
    )
    file = tmp_path / "run.npz"
    words = ["--load", tmp_path / "third.py"]
    done = call("train", *words, "--connection", "third", *SMALL, "--steps", 2, "--checkpoint", file)
    assert done.code == 0 and "x + F(x) / 3" in done.out
    assert call("generate", file, *words, "--length", 3).code == 0
    monkeypatch.delitem(CONNECTIONS, "third")  # as in a new process
    for without in (["generate", file], ["train", "--resume", file, "--steps", 4]):
        done = call(*without)
        assert done.code == 2 and "'third'" in done.err and "--load FILE" in done.err


@pytest.mark.parametrize(
    ("text", "seen"), [("x = (", "line 1: SyntaxError"), ("x = 1\ny = x / 0", "line 2: ZeroDivisionError")]
)
def test_a_broken_file_of_ones_own_is_told_its_line(call, tmp_path, text, seen):
    (tmp_path / "broken.py").write_text(text)
    done = call("train", "--load", tmp_path / "broken.py")
    assert done.code == 2 and f"broken.py, {seen}" in done.err and "Traceback" not in done.err


def test_both_backends_train_alike(call, tmp_path):
    for backend in ("numpy", "numba"):
        assert call("train", *SMALL, "--steps", 3, "--backend", backend, "--json", tmp_path / backend).code == 0
    losses = [read(tmp_path / backend)["history"]["losses"] for backend in ("numpy", "numba")]
    assert np.allclose(*losses, rtol=1e-5)


WRONG = [
    (["train", "--data", "plya"], "data must be one of", "Did you mean 'play'?"),
    (["train", "--connection", "pre-norm"], "residual connection must be one of", "Did you mean 'pre_norm'?"),
    (["train", "--recipe", "deepnrom"], "recipe must be one of", "Did you mean 'deepnorm'?"),
    (["train", "--recipe", "mhc", "--norm", "rmsnorm"], "brings its own connection and norm", "--norm"),
    (["train", "--optimizer", "adamv"], "optimiser must be one of", "Did you mean 'adam"),
    (["train", "--backend", "nunpy"], "backend must be one of", "Did you mean 'numpy'?"),
    (["train", "--data", "digits", "--heads", "2"], "must mean something for the data 'digits'", "--heads"),
    (["train", "--data", "modular", "--text", "x"], "must mean something for the data 'modular'", "--text"),
    (["train", "--data", "text"], "needs a file", "--text FILE"),
    (["train", "--heads", "3"], "heads must divide d", "3 heads"),
    (["train", "--steps", "two"], "minires train --help", "'two'"),
    (["train", "--steps", "0"], "at least 1", "0"),
    (["train", "--steps", "-3"], "--steps must be at least 1", "-3"),
    (["train", "--seed", "-1"], "seed must be a whole number, at least 0", "-1"),
    (["train", "--text", "missing.txt"], "must exist", "missing.txt"),
    (["train", "--data", "play", "--text", "x"], "must mean something for the data 'play'", "--data text"),
    (["generate", "missing.npz", "--seed", "-1"], "seed must be a whole number, at least 0", "-1"),
    (["sweep", "--seeds", "0,-1"], "seed must be a whole number, at least 0", "-1"),
    (["train", "--load", "missing.py"], "takes a Python file", "missing.py"),
    (["train", "--resume", "missing.npz"], "must exist", "missing.npz"),
    (["generate", "missing.npz"], "must exist", "missing.npz"),
    (["generate"], "minires generate --help", "CHECKPOINT"),
    (["figures", "gradient_tabel"], "experiment must be one of", "Did you mean 'gradient_table'?"),
    (["grade", "layernorm/backwards", "--solutions"], "exercise must be one of", "Did you mean 'layernorm/backward'?"),
    (["grade", "--course", "missing"], "a folder with lessons/", "minires init"),
    (["tour", "--steps", "0"], "at least 1", "0"),
]


@pytest.mark.parametrize(("words", "rule", "seen"), WRONG, ids=[" ".join(words) for words, *_ in WRONG])
def test_wrong_settings_are_explained(call, tmp_path, monkeypatch, words, rule, seen):
    monkeypatch.chdir(tmp_path)
    done = call(*words)
    assert done.code == 2 and rule in done.err and seen in done.err and "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_resumed_run_refuses_other_settings(call, tmp_path):
    file = tmp_path / "run.npz"
    call("train", *SMALL, "--steps", 2, "--checkpoint", file)
    done = call("train", "--resume", file, "--lr", 1)
    assert done.code == 2 and "--lr 1.0 (was 0.003)" in done.err


def test_generate_wants_a_model_of_text(call, tmp_path):
    file = tmp_path / "run.npz"
    call("train", "--data", "modular", *SMALL[:-4], "--steps", 2, "--checkpoint", file)
    assert "trained on text" in call("generate", file).err


@pytest.mark.skipif(not (ROOT / ".git").exists() or not shutil.which("git"), reason="needs a clone and git")
def test_the_course_of_a_learner_stays_out_of_the_repository():
    """`minires init course` in the clone, as the README has it."""
    command = ["git", "-C", ROOT, "check-ignore", "course/lessons/layernorm/exercise.py"]
    assert subprocess.run(command, capture_output=True).returncode == 0


# -------------------------------------------------------------------------------------------- logs and Ctrl-C


@pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")
def test_ctrl_c_ends_the_training_with_a_whole_checkpoint(environment, tmp_path):
    file = tmp_path / "run.npz"
    words = ["train", *SMALL, "--steps", "1000000", "--warmup", "0", "--checkpoint", str(file)]
    process = subprocess.Popen(
        [sys.executable, "-m", "minires", *words], env=environment(), stdout=-1, stderr=-1, text=True
    )
    assert "parameters" in process.stdout.readline()
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130 and "stopped after" in err and "Traceback" not in err
    assert load_checkpoint(file).step > 0
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]


@pytest.fixture
def short_tour(monkeypatch):
    from minires.commands import tour

    monkeypatch.setattr(tour, "TABLE", {**tour.TABLE, "inits": ("gpt2",), "seeds": (1,), "length": 16})
    monkeypatch.setattr(tour, "TRAINING", {**tour.TRAINING, "blocks": 1, "d": 16})


def test_the_tour_in_a_log_is_calm_and_keeps_its_results(call, short_tour, tmp_path):
    done = call("tour", "--steps", 12, "--out", tmp_path / "kept")
    assert done.code == 0, done.err
    assert not [c for c in done.out + done.err if ord(c) < 32 and c != "\n"]
    for seen in ("LayerNorm", "post_norm", "0.0012", "letter pairs (bigram)", "minires grade layernorm/backward"):
        assert seen in done.out
    kept = sorted(p.name for p in (tmp_path / "kept").iterdir())
    assert kept == ["gradient_table.json", "gradient_table.svg", "gradients.json", "model.npz", "training.json"]
    assert all(entry["error"] < 1e-6 for entry in read(tmp_path / "kept" / "gradients.json"))


def test_the_tour_leaves_nothing_unless_asked(call, short_tour, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("tour", "--steps", 2).code == 0
    assert list(tmp_path.iterdir()) == []


def test_matrix_products_keep_to_the_threads_that_were_asked_for():
    """Only a library that is loaded can be limited: this must hold in a fresh process, too."""
    code = (
        "from minires.commands.setup import machine\nfrom threadpoolctl import threadpool_info\n"
        "with machine(None, 1): print([lib['num_threads'] for lib in threadpool_info() if lib['user_api'] == 'blas'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) <= {1}


def test_the_cache_is_shown_and_cleared(minires, environment, tmp_path):
    folder = {"NUMBA_CACHE_DIR": str(tmp_path)}
    code = "import numpy as np, minires\nminires.softmax(minires.Tensor(np.ones((99, 99), np.float32)))"
    subprocess.run([sys.executable, "-c", code], env=environment(**folder), check=True)
    before = json.loads(minires("cache", "--json", "-", **folder).stdout)
    assert before["folder"].startswith(str(tmp_path)) and before["files"] > 0
    (tmp_path / "minires" / "flat.nbi").write_bytes(b"of an older version")
    assert "old      1 of them" in minires("cache", **folder).stdout
    assert "1 files deleted" in minires("cache", "tidy", **folder).stdout
    assert f"{before['files']} files deleted" in minires("cache", "clear", **folder).stdout
    assert json.loads(minires("cache", "--json", "-", **folder).stdout)["files"] == 0
