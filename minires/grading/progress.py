"""What a learner has passed so far: one small JSON file beside the lessons.

Entries of exercises that no longer exist are kept, so that neither an upgrade nor a step back loses anything.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minires.files import atomic_write, read_bytes

if TYPE_CHECKING:
    from minires.grading.runner import Grade

VERSION = 1


@dataclass
class Progress:
    """exercises: id → {"passed": bool, "tries": int, "last": status, "mistake": name or None}.

    files: what `minires init` wrote, path → SHA-256, so that it knows a file that a learner has changed.
    notice: what to tell the learner about the file itself.
    """

    exercises: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    notice: str = ""

    @classmethod
    def read(cls, path: Path) -> Progress:
        """The progress in `path`; an empty one if there is none yet.

        A file that is not ours is put aside under another name, never deleted, and `notice` says so.
        """
        if not path.exists():
            return cls()
        try:
            data = json.loads(read_bytes(path).decode())
            return cls(_table(data["exercises"], dict), _table(data.get("files", {}), str))
        except (ValueError, KeyError, TypeError) as error:
            aside = _free_name(path.with_suffix(".broken.json"))
            os.replace(path, aside)
            return cls(
                notice=f"{path.name} could not be read ({error}). It is kept as {aside.name}; progress starts anew."
            )

    def write(self, path: Path) -> None:
        body = dict(version=VERSION, exercises=self.exercises, files=self.files)
        atomic_write(path, json.dumps(body, indent=1, ensure_ascii=False) + "\n")

    def note(self, grade: Grade) -> None:
        """Count one try. What was passed once stays passed."""
        entry = self.exercises.setdefault(grade.id, {"passed": False, "tries": 0})
        if grade.status != "not attempted":
            entry["tries"] += 1
        entry["passed"] = entry["passed"] or grade.status == "passed"
        entry["last"], entry["mistake"] = grade.status, grade.mistake

    @classmethod
    def update(cls, path: Path, grades: Iterable[Grade]) -> Progress:
        progress = cls.read(path)
        for grade in grades:
            progress.note(grade)
        progress.write(path)
        return progress


def _table(value: Any, kind: type) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(v, kind) for v in value.values()):
        raise TypeError("a table is missing")
    if kind is dict and not all(isinstance(v.get("tries", 0), int) for v in value.values()):
        raise TypeError("an entry is not as we write it")
    return {k: {"passed": False, "tries": 0, **v} if kind is dict else v for k, v in value.items()}


def _free_name(path: Path) -> Path:
    """`path`, or the first of path-1, path-2, … that is not taken."""
    names = (path, *(path.with_stem(f"{path.stem}-{i}") for i in range(1, 10_000)))
    return next(p for p in names if not p.exists())
