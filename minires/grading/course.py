"""The course: which lessons and exercises there are, and where their files lie.

A course is a folder that holds `lessons/NN_name/` and `tests/lessons/test_NN_name.py`. One ships with minires;
`minires init` copies it, and learners write into their copy. A lesson is content only:

    lesson.toml   name, title, claims, and its exercises with what each returns
    lesson.py     the text, a script of percent cells
    exercise.py   what the learner fills in (generated from solution.py)
    solution.py   a right answer
    mistakes.py   known wrong answers, each with the message it deserves

The solution, the mistakes and the grader are always those that came with minires, so that an upgrade never leaves
a learner with old ones; a lesson that somebody added to their own folder brings its own.
"""

from __future__ import annotations

import importlib.util
import itertools
import re
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import minires
from minires.files import read_bytes
from minires.messages import FileProblem, UnknownName

_FOLDER = re.compile(r"\d\d_\w+")
_loads = itertools.count()


def shipped() -> Path:
    """The root of the course that came with minires: inside an installed package, or the repository around it."""
    package = Path(minires.__file__).resolve().parent
    inside = package / "_course"
    return inside if inside.is_dir() else package.parent


@dataclass(frozen=True)
class Exercise:
    """One function to write. `id` is lesson/exercise; `home` holds the referee's files, `answer` is the learner's.

    returns: a name for each value that the function returns. shows: other functions of the same file that the
    learner gets complete. seconds: how long grading may take.
    """

    id: str
    title: str
    function: str
    returns: tuple[str, ...]
    home: Path
    grader: Path
    answer: Path
    seconds: float = 20.0

    @cached_property
    def solution(self) -> ModuleType:
        return load_module(self.home / "solution.py")

    @cached_property
    def mistakes(self) -> ModuleType:
        return load_module(self.home / "mistakes.py")


@dataclass(frozen=True)
class Lesson:
    """A folder of the course, as its lesson.toml describes it."""

    folder: str
    name: str
    title: str
    claims: tuple[str, ...]
    home: Path
    exercises: tuple[Exercise, ...]


class Course:
    """The lessons of `root` (a learner's folder), refereed by those of `referee` (by default what minires ships)."""

    def __init__(self, root: str | Path | None = None, referee: str | Path | None = None):
        self.referee = Path(referee) if referee else shipped()
        self.root = Path(root).resolve() if root else self.referee
        if not (self.root / "lessons").is_dir():
            raise FileProblem(
                "a course is a folder with lessons/ in it",
                f"{str(self.root)!r}",
                "Make one with `minires init DIR`, or go to the folder where yours is.",
            )
        folders = {p.name for r in (self.referee, self.root) for p in _lesson_folders(r)}
        self.lessons = [self._read(folder) for folder in sorted(folders)]

    @property
    def exercises(self) -> dict[str, Exercise]:
        return {e.id: e for lesson in self.lessons for e in lesson.exercises}

    @property
    def progress_file(self) -> Path:
        return self.root / "lessons" / "progress.json"

    def select(self, wanted: Iterable[str] = ()) -> list[Exercise]:
        """Exercises by id, or all of a lesson by its name, folder or number; everything if nothing is asked for.

        Raises UnknownName, with the closest name there is.
        """
        wanted = list(wanted)
        if not wanted:
            return list(self.exercises.values())
        found = {e.id: e for word in wanted for e in self._matching(word)}
        return [e for e in self.exercises.values() if e.id in found]

    def _matching(self, word: str) -> tuple[Exercise, ...]:
        if word in self.exercises:
            return (self.exercises[word],)
        for lesson in self.lessons:
            if word in (lesson.name, lesson.folder, lesson.folder[:2], lesson.folder[:2].lstrip("0")):
                return lesson.exercises
        raise UnknownName("exercise", word, [*self.exercises, *(lesson.name for lesson in self.lessons)])

    def _read(self, folder: str) -> Lesson:
        source = self.referee if (self.referee / "lessons" / folder).is_dir() else self.root
        home = source / "lessons" / folder
        spec = _toml(home / "lesson.toml")
        exercises = tuple(self._exercise(e, spec["name"], source, folder) for e in spec["exercise"])
        return Lesson(folder, spec["name"], spec["title"], tuple(spec.get("claims", ())), home, exercises)

    def _exercise(self, entry: dict[str, Any], lesson: str, source: Path, folder: str) -> Exercise:
        return Exercise(
            id=f"{lesson}/{entry['id']}",
            title=entry["title"],
            function=entry["function"],
            returns=tuple(entry["returns"]),
            home=source / "lessons" / folder,
            grader=source / "tests" / "lessons" / f"test_{folder}.py",
            answer=self.root / "lessons" / folder / "exercise.py",
            seconds=float(entry.get("seconds", 20.0)),
        )


def find_course(start: str | Path = ".") -> Path:
    """The nearest folder at or above `start` that holds lessons/NN_name/lesson.toml; else the course that ships."""
    here = Path(start).resolve()
    return next((p for p in (here, *here.parents) if any(_lesson_folders(p))), shipped())


def load_module(path: Path) -> ModuleType:
    """Run a file afresh, under a name of its own, without writing bytecode beside it."""
    spec = importlib.util.spec_from_file_location(f"_minires_course_{next(_loads)}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)  # type: ignore[union-attr]
    finally:
        sys.dont_write_bytecode = before
    return module


def _lesson_folders(root: Path) -> list[Path]:
    return [p.parent for p in sorted((root / "lessons").glob("*/lesson.toml")) if _FOLDER.fullmatch(p.parent.name)]


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_bytes(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileProblem(
            "lesson.toml must be TOML", f"{str(path)!r}: {error}", "Compare it with the shipped lessons."
        ) from None
