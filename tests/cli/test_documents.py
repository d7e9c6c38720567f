"""Every command that README and lessons show is run, beside a copy of the lessons, in the order in which it is met.

A block is left out only with a comment right above it that says why, and only if it sets up an environment.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
READMES = ["README.md", "README.zh.md"]
STUB = '    raise NotImplementedError("layernorm/backward")\n'
FENCE = re.compile(r"(?:<!-- (?P<mark>[^>]*) -->\n)?```(?P<kind>\w+)\n(?P<code>.*?)```", re.S)


def blocks(text):
    """(kind, code, mark) of every fenced block."""
    return [(m["kind"], m["code"], m["mark"] or "") for m in FENCE.finditer(text)]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """What a reader works on, where nothing else is changed; and a `minires` and a `python` on the PATH."""
    top = tmp_path_factory.mktemp("clone")
    for folder in ("lessons", "figures"):
        shutil.copytree(ROOT / folder, top / "project" / folder, ignore=shutil.ignore_patterns("__pycache__"))
    tools = top / "bin"
    tools.mkdir()
    for name, words in (("python", ""), ("minires", " -m minires")):
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{words} "$@"\n')
        (tools / name).chmod(0o755)
    return top / "project"


def run_shell(script, folder, environment):
    path = os.pathsep.join([str(folder.parent / "bin"), os.environ["PATH"]])
    env = environment(PATH=path, PYTHONPATH=str(ROOT), MPLBACKEND="Agg")
    return subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", script], cwd=folder, env=env, capture_output=True, text=True, timeout=600
    )


@pytest.mark.slow
def test_every_command_of_the_readme_runs(copy, environment):
    """The Chinese README shows the same commands, see below."""
    for kind, code, mark in blocks((ROOT / READMES[0]).read_text("utf-8")):
        if mark.startswith("not run"):
            assert "venv" in code and "install" in code, f"only a set-up may be left out: {code}"
        elif kind == "python" and not mark.startswith("the body of"):
            (copy / "half.py").write_text(code, "utf-8")
            done = run_shell("python half.py", copy, environment)
            assert done.returncode == 0, done.stderr
        elif kind == "sh":
            wanted = 1 if mark.startswith("exits with 1") else 0
            done = run_shell(code, copy, environment)
            assert done.returncode == wanted, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", READMES)
def test_the_wrong_answer_in_the_readme_gets_the_grade_shown_there(name, minires, tmp_path):
    found = blocks((ROOT / name).read_text("utf-8"))
    (body,) = [code for _, code, mark in found if mark == "the body of layernorm_backward"]
    (shown,) = [code for kind, code, _ in found if kind == "text"]
    minires("init", tmp_path / "course")
    file = tmp_path / "course" / "lessons" / "02_layernorm" / "exercise.py"
    stub = file.read_text("utf-8")
    assert STUB in stub
    file.write_text(stub.replace(STUB, body), "utf-8")
    done = minires("grade", "layernorm/backward", cwd=tmp_path / "course")
    said = [" ".join(line.split()) for line in done.stdout.splitlines()]
    wanted = [" ".join(line.split()) for line in shown.splitlines()[1:]]
    assert done.returncode == 1 and wanted != [] and [line for line in wanted if line not in said] == []


@pytest.mark.parametrize("name", READMES)
def test_the_numbers_in_the_readme_are_those_of_the_figure(name):
    text = (ROOT / name).read_text("utf-8")
    data = json.loads((ROOT / "figures" / "gradient_table.json").read_text("utf-8"))["data"]
    labels = {"post_norm": "Post-Norm", "pre_norm": "Pre-Norm"}
    rows = [r for r in data["rows"] if (r["model"], r["init"], r["width"]) == ("decoder", "xavier", 512)]
    rows = [r for r in rows if r["layer"] in (1, 6)]
    assert len(rows) == 4
    for r in rows:
        numbers = " | ".join(f"{r[column]:.3g}" for column in ("skip", "branches", "total"))
        assert f"| {labels[r['norm']]} | {r['layer']} | {r['article']} | {numbers} |" in text
    low, high = data["verdict"]["post_norm"]["total at layer 1"]
    assert f"{low:.2g} {'到' if 'zh' in name else 'to'} {high:.2g}" in text
    first = json.loads((ROOT / "figures" / "gradient_training.json").read_text("utf-8"))["data"]["verdict"]["first"]
    (step,) = re.findall(r"0\.0012 at step (\d+) \(Post-Norm, xavier, no warm-up\)", first)
    assert (f"第 {step} 步" if "zh" in name else f"after {step} steps") in text


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_the_examples_of_extending_run(kind, environment, tmp_path):
    found = [code for _, code, _ in blocks((ROOT / "docs" / "extending.md").read_text("utf-8"))]
    (tmp_path / "mine.py").write_text(found[kind], "utf-8")
    words = [sys.executable, "mine.py"]
    done = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout != "" and done.stderr == ""


def test_an_experiment_of_ones_own_runs_from_the_command_line(call, tmp_path):
    code = [c for _, c, _ in blocks((ROOT / "docs" / "extending.md").read_text("utf-8")) if "run_experiment" in c]
    (tmp_path / "mine.py").write_text(code[0], "utf-8")
    done = call("run", "growth", "--load", tmp_path / "mine.py", "--set", "layers=3", "--figure", tmp_path / "a.svg")
    assert done.code == 0 and "square root" in done.out and (tmp_path / "a.svg").exists()


def test_both_readmes_show_the_same_commands():
    english, chinese = ([(k, c) for k, c, _ in blocks((ROOT / name).read_text("utf-8"))] for name in READMES)
    commands = [[(k, c) for k, c in found if k in ("sh", "powershell")] for found in (english, chinese)]
    assert commands[0] == commands[1] != []


@pytest.mark.parametrize("name", READMES)
def test_every_linked_or_shown_file_exists(name):
    text = (ROOT / name).read_text("utf-8")
    named = re.findall(r'\]\(([^)#]+)\)|(?:src|srcset)="([^"]+)"', text)
    paths = [a or b for a, b in named if "://" not in (a or b)]
    assert paths and [p for p in paths if not (ROOT / p).exists()] == []


@pytest.mark.parametrize("name", READMES)
def test_the_map_names_what_is_there(name):
    table = (ROOT / name).read_text("utf-8").split("## ")
    paths = re.findall(r"`((?:minires|lessons)/[\w/.]*)`", "".join(table))
    assert len(paths) >= 12 and [p for p in set(paths) if not (ROOT / p).exists()] == []


@pytest.mark.slow
def test_every_command_in_a_lesson_runs(copy, environment):
    """Lessons show commands on indented lines of their prose. An exercise may be graded "not attempted"."""
    lessons = sorted((copy / "lessons").glob("*/lesson.py"))
    commands = {
        c for path in lessons for c in re.findall(r"(?m)^# {5}((?:minires|python) .*)$", path.read_text("utf-8"))
    }
    assert len(commands) >= len(lessons) >= 2
    for command in sorted(commands):
        done = run_shell(command, copy, environment)
        graded = command.startswith("minires grade")
        assert done.returncode in ((0, 1) if graded else (0,)), f"{command}: {done.stdout}{done.stderr}"
        assert not graded or "not attempted" in done.stdout
