"""Writing files so that a killed run, a full disk or a wrong folder never costs the old file.

Everything is written to a temporary file in the same folder and put in place by one `os.replace`, which either
happens or does not. A reader therefore sees the old file or the new one, never half of one.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from minires.messages import FileProblem

_HINTS = {
    errno.ENOENT: "The folder does not exist: create it first, or correct the path.",
    errno.ENOTDIR: "A part of the path is a file, not a folder.",
    errno.EISDIR: "The path is a folder: add a file name.",
    errno.EACCES: "You may not write there: choose a folder of your own.",
    errno.EPERM: "You may not write there: choose a folder of your own.",
    errno.EROFS: "The file system is read-only: choose another folder.",
    errno.ENOSPC: "The disk is full. The old file, if there was one, is whole.",
    errno.EDQUOT: "Your disk quota is used up. The old file, if there was one, is whole.",
    errno.EFBIG: "The file is larger than this system allows. The old file, if there was one, is whole.",
    errno.ENAMETOOLONG: "The name is too long.",
}


@contextmanager
def atomic_path(path: str | os.PathLike) -> Iterator[Path]:
    """A temporary path beside `path` to write to; at the end of the block it becomes `path`, on an error it goes.

    with atomic_path("run.npz") as temporary:
        np.savez(temporary, **arrays)

    The temporary name keeps the suffix, because savez and savefig look at it. A link is followed, so that the
    file it points to is replaced. Raises FileProblem if the folder is missing or not writable, the file is
    marked read-only, or the disk is full.
    """
    target = Path(os.path.realpath(path))
    temporary = _beside(target)
    try:
        _refuse_to_replace(target)
        temporary.open("xb").close()
        yield temporary
        _flush(temporary)
        os.replace(temporary, target)
    except Exception as error:
        if type(error) is FileProblem or not isinstance(error, OSError):
            raise
        raise write_problem(path, error) from None
    finally:
        with suppress(OSError):  # gone already, if all went well
            temporary.unlink()


def atomic_write(path: str | os.PathLike, data: bytes | str) -> None:
    """Write `data` (text as UTF-8, line ends as given) so that `path` holds all of it or what it held before.

    Raises FileProblem as `atomic_path` does.
    """
    raw = data.encode() if isinstance(data, str) else data
    with atomic_path(path) as temporary:
        temporary.write_bytes(raw)


def check_writable(path: str | os.PathLike) -> None:
    """Raise now the FileProblem that `atomic_path` would raise after hours of work; `path` stays as it is."""
    target = Path(os.path.realpath(path))
    temporary = _beside(target)
    try:
        _refuse_to_replace(target)
        temporary.open("xb").close()
        temporary.unlink()
    except FileProblem:
        raise
    except OSError as error:
        raise write_problem(path, error) from None


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.stem[:60]}.{os.getpid()}-{secrets.token_hex(4)}{target.suffix}")


def read_bytes(path: str | os.PathLike) -> bytes:
    """The whole file. Raises FileProblem if it is missing, a folder, or may not be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        hint = "Is the path right, seen from the folder you are in?" if error.errno == errno.ENOENT else _hint(error)
        raise FileProblem("the file must exist and be readable", _given(path, error), hint) from None


def write_problem(path: Any, error: OSError) -> FileProblem:
    """The three-part message for a file that could not be written."""
    must = "the file must be in a folder that exists and can be written to"
    return FileProblem(must, _given(path, error), _hint(error))


def _given(path: Any, error: OSError) -> str:
    return f"{os.fspath(path)!r}: {error.strerror or error}"


def _hint(error: OSError) -> str:
    return _HINTS.get(error.errno or 0, "Check the path and the permissions of its folder.")


def _refuse_to_replace(target: Path) -> None:
    """A rename would replace a read-only file, or a device such as /dev/null, without asking. So we ask."""
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder")
    if target.exists() and not target.is_file():
        raise FileProblem(
            "a file that is to be replaced must be an ordinary file",
            f"{str(target)!r}, which is a device or a pipe",
            "Choose the name of a file; what a command prints can be sent elsewhere with > or |.",
        )
    if target.exists() and not target.stat().st_mode & stat.S_IWUSR:
        raise FileProblem(
            "a file that is to be replaced must be writable",
            f"{str(target)!r}, which is marked read-only",
            "Somebody protected it: choose another name, or make it writable first.",
        )


def _flush(path: Path) -> None:
    """Ask the disk to have the bytes before the name points to them."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
