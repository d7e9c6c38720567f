"""exercise.py is made from solution.py: the same file, with the bodies of the exercises taken out.

So a stub's signature and docstring are always those of its solution. Everything else in the solution file (imports,
helpers, functions that the learner is given) stays. `python -m minires.grading.stubs` renews the course's stubs.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from minires.files import atomic_write, read_bytes
from minires.grading.course import Course, Lesson, shipped


def exercise_file(lesson: Lesson) -> str:
    """The text of a fresh exercise.py."""
    wanted = {e.function: e.id for e in lesson.exercises}
    text = stub_out(read_bytes(lesson.home / "solution.py").decode(), wanted)
    ids = "\n".join(f"    minires grade {e.id:<32} # {e.title}" for e in lesson.exercises)
    return text.replace(
        ast.get_docstring(ast.parse(text), clean=False) or "", _HEAD.format(title=lesson.title, ids=ids), 1
    )


_HEAD = """Exercises of the lesson: {title}.

Replace each `raise NotImplementedError(...)` by your own lines, then run

{ids}
"""


def stub_out(source: str, exercises: Mapping[str, str]) -> str:
    """`source` with the body of each function in `exercises` (name → id) replaced; docstrings stay."""
    lines = source.splitlines()
    functions = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name in exercises]
    for node in sorted(functions, key=lambda n: -n.lineno):
        first = node.body[1] if ast.get_docstring(node) else node.body[0]
        start = (node.body[0].end_lineno or 0) + 1 if ast.get_docstring(node) else first.lineno
        lines[start - 1 : node.end_lineno] = ["    " + _raise(exercises[node.name])]
    return "\n".join(lines) + "\n"


def renew() -> None:
    """Write every exercise.py of the course that ships, except those that somebody has begun to fill in."""
    for lesson in Course(shipped(), shipped()).lessons:
        path = lesson.home / "exercise.py"
        if not path.exists() or is_fresh(read_bytes(path).decode(), lesson):
            atomic_write(path, exercise_file(lesson))


def is_fresh(text: str, lesson: Lesson) -> bool:
    """No exercise in this text has been begun."""
    return all(_raise(e.id) in text for e in lesson.exercises)


def _raise(exercise_id: str) -> str:
    return f'raise NotImplementedError("{exercise_id}")'


if __name__ == "__main__":
    renew()
