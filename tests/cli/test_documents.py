"""Every command that README and lessons show is run, in a copy of the project, in the order in which a reader meets it.

A block is left out only with a comment right above it that says why, and only if it sets up an environment.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
READMES = ["README.md", "README.zh.md"]
FENCE = re.compile(r"(?:<!-- (?P<mark>[^>]*) -->\n)?```(?P<kind>\w+)\n(?P<code>.*?)```", re.S)


def blocks(text):
    """(kind, code, mark) of every fenced block."""
    return [(m["kind"], m["code"], m["mark"] or "") for m in FENCE.finditer(text)]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The project as a clone would have it, and a `minires` and a `python` on the PATH."""
    top = tmp_path_factory.mktemp("clone")
    unwanted = shutil.ignore_patterns(".git", ".venv", "__pycache__", "*.nbi", "*.nbc", ".*_cache")
    shutil.copytree(ROOT, top / "project", ignore=unwanted)
    tools = top / "bin"
    tools.mkdir()
    for name, words in (("python", ""), ("minires", " -m minires")):
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{words} "$@"\n')
        (tools / name).chmod(0o755)
    return top / "project"


def run_shell(script, folder, environment):
    path = os.pathsep.join([str(folder.parent / "bin"), os.environ["PATH"]])
    env = environment(PATH=path, PYTHONPATH=str(folder), MPLBACKEND="Agg")
    return subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", script], cwd=folder, env=env, capture_output=True, text=True, timeout=240
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", READMES)
def test_every_command_of_the_readme_runs(name, copy, environment):
    for kind, code, mark in blocks((copy / name).read_text("utf-8")):
        if mark.startswith("not run"):
            assert "venv" in code and "install" in code, f"only a set-up may be left out: {code}"
        elif kind == "python":
            (copy / "half.py").write_text(code, "utf-8")
            done = run_shell("python half.py", copy, environment)
            assert done.returncode == 0, done.stderr
        elif kind == "sh":
            wanted = 1 if mark.startswith("exits with 1") else 0
            done = run_shell(code, copy, environment)
            assert done.returncode == wanted, done.stdout + done.stderr


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
def test_every_minires_command_in_a_lesson_runs(copy, environment):
    """Lessons are percent cells: commands stand in fenced blocks behind `# `."""
    found = 0
    for lesson in sorted((copy / "lessons").glob("*/lesson.py")):
        prose = re.sub(r"(?m)^# ?", "", lesson.read_text("utf-8"))
        for kind, code, mark in blocks(prose):
            if kind == "sh" and not mark.startswith("not run"):
                found += 1
                wanted = 1 if mark.startswith("exits with 1") else 0
                done = run_shell(code, copy, environment)
                assert done.returncode == wanted, f"{lesson.parent.name}: {done.stdout}{done.stderr}"
