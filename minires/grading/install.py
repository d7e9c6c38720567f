"""`minires init DIR`: a copy of the course to write in.

A learner's file is never overwritten silently. What `init` wrote is remembered by hash; when it runs again (after an
upgrade, say) it renews the files that are still as it wrote them, keeps those that changed, and says which.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from minires.files import atomic_write, read_bytes, write_problem
from minires.grading.course import shipped
from minires.grading.progress import Progress, _free_name
from minires.messages import FileProblem

_README = """# The minires course

Every folder in `lessons/` is one lesson. Read and run its `lesson.py` (a plain script; editors that know `# %%` show
it as cells), then fill in its `exercise.py`. Then, in this folder:

    minires grade                        # everything
    minires grade layernorm/backward     # one exercise

`solution.py` holds the answers, `mistakes.py` the known wrong ones. Your progress is in `lessons/progress.json`.
After an upgrade run `minires init .` here again: files that you changed stay as they are.
"""


@dataclass
class Copied:
    """What `init_course` did, by relative path. backups: path → where the learner's version now is."""

    folder: Path
    written: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    backups: dict[str, str] = field(default_factory=dict)
    notice: str = ""

    def __str__(self) -> str:
        lines = [
            f"The course is in {self.folder}: {len(self.written)} files written, {len(self.unchanged)} up to date."
        ]
        lines += [f"Kept as you left it: {name}" for name in self.kept]
        lines += [f"Renewed: {name}; your version is now {backup}" for name, backup in self.backups.items()]
        if self.kept:
            lines.append(
                "To get these in their original form, run init again with --force; yours are kept beside them."
            )
        return "\n".join([*lines, self.notice] if self.notice else lines)


def init_course(folder: str | Path, force: bool = False) -> Copied:
    """Copy the course into `folder` (made if it is missing).

    force: also renew files that were changed, after moving the changed ones to NAME.mine.py.
    Raises FileProblem if the folder is a file, cannot be written to, or is where minires itself lives.
    """
    root = Path(folder).resolve()
    _refuse_home(root)
    progress_file = root / "lessons" / "progress.json"
    try:
        (root / "lessons").mkdir(parents=True, exist_ok=True)
        progress = Progress.read(progress_file)
        result = Copied(root, notice=progress.notice)
        for name, data in _course_files():
            _place(root / name, name, data, progress, result, force)
        progress.write(progress_file)
    except FileProblem:
        raise
    except OSError as error:
        raise write_problem(root, error) from None
    return result


def _place(target: Path, name: str, data: bytes, progress: Progress, result: Copied, force: bool) -> None:
    old = read_bytes(target) if target.exists() else None
    if old == data:
        result.unchanged.append(name)
    elif old is None or progress.files.get(name) == _hash(old):
        _write(target, data, result, name)
    elif force:
        backup = _free_name(target.with_suffix(f".mine{target.suffix}"))
        atomic_write(backup, old)
        _write(target, data, result, name)
        result.backups[name] = backup.relative_to(result.folder).as_posix()
    else:
        result.kept.append(name)
        return
    progress.files[name] = _hash(data)


def _write(target: Path, data: bytes, result: Copied, name: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(target, data)
    result.written.append(name)


def _course_files() -> Iterator[tuple[str, bytes]]:
    """(path inside the course, content) of everything a learner gets; stubs are always fresh ones."""
    from minires.grading.course import Course
    from minires.grading.stubs import exercise_file

    yield "README.md", _README.encode()
    root = shipped()
    fresh = {f"lessons/{lesson.folder}/exercise.py": exercise_file(lesson) for lesson in Course(root, root).lessons}
    for path in sorted(p for top in ("lessons", "tests/lessons") for p in (root / top).rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.suffix in (".py", ".toml", ".md") and "__pycache__" not in path.parts:
            yield name, fresh[name].encode() if name in fresh else read_bytes(path)


def _refuse_home(root: Path) -> None:
    if root == shipped():
        raise FileProblem(
            "the course is copied into a folder of your own",
            f"{str(root)!r}, which is where it comes from",
            "Here you can work in lessons/ directly; for a copy choose another folder: minires init course",
        )


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
