"""`grade`: each exercise in a process of its own, with a time limit.

The process keeps an endless loop, a crash or a call of exit() away from us. It is no sandbox: an exercise file is a
Python program with all your rights, so grade only files that you would run.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import minires
from minires.grading.course import Course, Exercise, find_course
from minires.grading.progress import Progress
from minires.messages import FileProblem, ValueProblem

STATUSES = ("passed", "failed", "not attempted", "error")
_DAY = 24 * 60 * 60


@dataclass(frozen=True)
class Grade:
    """The verdict on one exercise. status: one of STATUSES.

    mistake: names of what was found, joined by " + ", or None. message: the three parts of every finding as text.
    output: what the learner's code printed, equal lines once. findings: where, mistake, must, yours, look of each.
    """

    id: str
    status: str
    mistake: str | None = None
    message: str = ""
    seconds: float = 0.0
    output: str = ""
    findings: list[dict[str, str]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def grade(
    ids: Iterable[str] = (), course_dir: str | Path | None = None, solutions: bool = False, *,
    course: Course | None = None, seconds: float | None = None, on_grade: Callable[[Grade], None] | None = None,
) -> list[Grade]:  # fmt: skip
    """Grade exercises (all, if no ids are given) of the course in `course_dir` (default: found from here upwards).

    ids: "layernorm/backward", or a lesson by name or number. solutions: grade the solutions instead of your files.
    seconds: time limit per exercise instead of the exercise's own. on_grade: called with each grade as it comes.
    The result is remembered in lessons/progress.json, except for solutions.

    Raises UnknownName for an id that does not exist, FileProblem for a folder without a course of the learner's,
    ValueProblem for a time limit that is none.
    """
    _check_limit(seconds)
    course = course or Course(course_dir or find_course())
    if not solutions:
        _refuse_package(course)
    grades: list[Grade] = []
    try:
        for exercise in course.select(ids):
            file = exercise.home / "solution.py" if solutions else exercise.answer
            grades.append(grade_file(exercise, file, course, seconds))
            if on_grade:
                on_grade(grades[-1])
    finally:  # after Ctrl-C, too
        if grades and not solutions:
            _remember(course, grades)
    return grades


def _check_limit(seconds: float | None) -> None:
    if seconds is not None and not 0 < seconds <= _DAY:  # false for NaN, too
        raise ValueProblem(
            f"the time limit must be more than 0 and at most {_DAY} seconds",
            f"seconds = {seconds:g}",
            "Leave it out for the exercise's own limit, or say how long one exercise may take, such as 60.",
        )


def _refuse_package(course: Course) -> None:
    if course.root.is_relative_to(Path(minires.__file__).resolve().parent):
        raise FileProblem(
            "grading needs a course of your own, with your exercise files",
            f"the folder {str(Path.cwd())!r}, where neither it nor a folder above it holds one",
            "Make one with `minires init course`, or go to yours. `--solutions` works anywhere.",
        )


def _remember(course: Course, grades: list[Grade]) -> None:
    """A progress file that cannot be read or written is said, and costs nobody their grades."""
    try:
        notice = Progress.update(course.progress_file, grades).notice
    except FileProblem as problem:
        notice = f"Progress was not kept: {problem}"
    if notice:
        print(notice, file=sys.stderr)


def grade_file(exercise: Exercise, file: Path, course: Course, seconds: float | None = None) -> Grade:
    """The verdict on one file."""
    limit = seconds or exercise.seconds
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        code, output = _run(_command(exercise, file, course, Path(scratch)), limit, course.root)
        verdict = json.loads(report.read_text()) if report.exists() else _no_verdict(code, limit, output)
    output = _once(output)
    findings = verdict.get("findings", [])
    return Grade(
        exercise.id,
        verdict["status"],
        " + ".join(f["mistake"] for f in findings) or None,
        "\n".join(f"{f['where']}: {f['must']}\n  yours: {f['yours']}\n  look:  {f['look']}" for f in findings),
        round(time.perf_counter() - started, 2),
        output if len(output) <= 4000 else f"{output[:4000]}\n… ({len(output) - 4000} more characters)",
        findings,
    )


def _once(output: str) -> str:
    """Each line once, in the order they came: the function runs on many arguments, and prints again on each."""
    times = Counter(output.splitlines())
    return "".join(f"{line}  ({n} times)\n" if n > 1 and line.strip() else f"{line}\n" for line, n in times.items())


def _command(exercise: Exercise, file: Path, course: Course, scratch: Path) -> list[str]:
    (scratch / "pytest.ini").write_text("[pytest]\n")  # no settings of the folder we happen to be in
    options = ["-s", "--noconftest", "--import-mode=importlib", "-p", "no:terminal", "-p", "no:cacheprovider"]
    options += ["-p", "no:faulthandler"]  # after a crash it would print our frames, not the learner's reason
    options += ["-p", "minires.grading.plugin", "-c", str(scratch / "pytest.ini"), "--rootdir", str(scratch)]
    options += ["--course", str(course.referee if exercise.home.is_relative_to(course.referee) else course.root)]
    options += ["--exercise", exercise.id, "--answer", str(file), "--report", str(scratch / "report.json")]
    return [sys.executable, "-m", "pytest", *options, str(exercise.grader)]


def _run(command: list[str], limit: float, folder: Path) -> tuple[int | None, str]:
    """Exit code (None if the time was up) and everything printed."""
    package = str(Path(minires.__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    quiet = dict(
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", PYTEST_ADDOPTS="", PYTHONUNBUFFERED="1", PYTHONDONTWRITEBYTECODE="1"
    )
    child = subprocess.Popen(
        command, cwd=folder, env={**os.environ, **quiet, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        encoding="utf-8", errors="replace",
    )  # fmt: skip
    try:
        output, _ = child.communicate(timeout=limit)
        return child.returncode, output
    except subprocess.TimeoutExpired:
        _kill(child)
        return None, child.communicate()[0]
    except BaseException:  # Ctrl-C: take the child along
        _kill(child)
        raise


def _kill(child: subprocess.Popen) -> None:
    """The child and everything that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL) if hasattr(os, "killpg") else child.kill()


def _ending(code: int) -> str:
    """An exit code in words: below 0 it is the signal that ended the process."""
    names = {-s.value: s.name for s in signal.Signals}
    return f"by the signal {names[code]}" if code in names else f"with exit code {code}"


def _no_verdict(code: int | None, limit: float, output: str) -> dict[str, Any]:
    if code is None:
        where, mistake, must = "time", "time_limit", f"an answer must be there within {limit:g} s"
        given, look = (
            f"it was still running after {limit:g} s and was stopped",
            "Look for a loop that never ends, or for far more work than the task needs.",
        )
    else:
        where, mistake, must = "process", "crash", "the function must return"
        given, look = (
            f"its process ended early, {_ending(code)}",
            "Something below Python crashed, or os._exit was called.",
        )
    finding = dict(where=where, mistake=mistake, must=must, yours=given, look=look)
    return {"status": "error", "findings": [finding]}
