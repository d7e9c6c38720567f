"""pytest grades the course: a fixture `answer` for graders, and a report for `minires grade`.

Graders are ordinary tests. Without options `answer` is the solution, so the default test run proves that graders
accept it. `minires grade` runs one grader in a process of its own:

    pytest -p minires.grading.plugin --exercise ID --answer FILE --report FILE test_NN_name.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minires.files import atomic_write
from minires.grading.answer import Answer, LearnerError, NotAttempted
from minires.grading.course import Course, find_course
from minires.grading.diagnose import Diagnosed


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("minires")
    group.addoption("--exercise", help="grade only this exercise")
    group.addoption("--answer", type=Path, help="the file with the learner's answer (default: the solution)")
    group.addoption("--report", type=Path, help="write the verdict as JSON to this file")
    group.addoption("--course", type=Path, help="the course that holds the graders (default: the one that ships)")


def pytest_collection_modifyitems(config: Any, items: list) -> None:
    wanted = config.getoption("--exercise", None)
    if wanted:
        items[:] = [item for item in items if getattr(item.function, "exercise_id", None) == wanted]


@pytest.fixture
def answer(request: pytest.FixtureRequest) -> Answer:
    """The function under test for a grader marked with `grades(id)`."""
    course = Course(find_course(request.path), request.config.getoption("--course", None))
    exercise = course.exercises[request.function.exercise_id]
    file = request.config.getoption("--answer", None)
    return Answer.from_file(exercise, file or exercise.home / "solution.py")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Iterator[Any]:
    report = yield
    path = item.config.getoption("--report", None)
    failed = call.excinfo is not None
    if path and (failed or call.when == "call"):
        atomic_write(path, json.dumps(verdict(call.excinfo.value if failed else None, report.longreprtext)))
    return report


def verdict(error: BaseException | None, text: str = "") -> dict[str, Any]:
    """What a grader's end means: status, and what was found."""
    if error is None:
        return {"status": "passed"}
    if isinstance(error, NotAttempted):
        return {"status": "not attempted"}
    if isinstance(error, Diagnosed):
        return {"status": "failed", "findings": [f.as_dict() for f in error.findings]}
    if isinstance(error, LearnerError):
        return {"status": "error", "findings": [_code(error)]}
    fault = "a grader must reach a verdict"
    return {
        "status": "error",
        "findings": [_finding("grader", "grader_fault", fault, text, "This is a fault of minires, not yours.")],
    }


def _code(error: LearnerError) -> dict[str, str]:
    return _finding("code", "exception", error.must, error.given, error.hint)


def _finding(where: str, mistake: str, must: str, yours: str, look: str) -> dict[str, str]:
    return dict(where=where, mistake=mistake, must=must, yours=yours, look=look)
