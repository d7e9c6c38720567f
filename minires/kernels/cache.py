"""Where compiled kernels are kept, and when they are thrown away.

Numba can keep machine code on disk, but its own rules are not enough for a library:

* Its freshness test looks at one file only. A kernel that calls `exp` from `exp.py` would keep the old `exp`
  after an edit. Here the stamp is a hash of the kernel's file *and of every kernel file that it imports*.
* Without a writable folder it raises at the decorator, so that a read-only install cannot even be imported.
  Here such an install compiles afresh in each process and says so once.
* Two processes that compile different signatures of one function at the same moment can leave an index that points to
  the wrong machine code. Here what is loaded must have the signature that was asked for, else it is compiled again.
* A kernel that is made inside a function is told apart from its relatives by a pickle of what it closes over, and a
  pickle of another kernel is different in each process, so that such code is never found again. Here the names,
  numbers and types that it closes over tell it apart.
* A full disk or a damaged file stops the kernel. Here both mean "not kept".
* It never deletes. Here each version of a kernel file has a folder of its own, named after the hash above and numba's
  version, so that two versions of the package do not overwrite each other's code, and `forget_unused` can tell what
  nobody loads any more.
* It gets ready to compile (0.4 s) before it looks for code that needs no compiling. Here that waits until it must be.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
import types
from collections.abc import Iterator
from pathlib import Path

import numba
from numba.core import config, sigutils
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.runtime.nrt import rtsys
from numba.misc.appdirs import AppDirs

KERNELS = Path(__file__).resolve().parent
# Settings that change the machine code but that numba leaves out of its key.
SETTINGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "ENABLE_AVX")
IMPORT = re.compile(r"^\s*from minires\.kernels\.(\w+) import ", re.MULTILINE)
VERSION = re.compile(r"\w+-[0-9a-f]{8}-[0-9a-f]{12}")  # the folder of one version of one file: see `version`
DAY = 24 * 3600.0  # seconds


@functools.cache
def say_once(text: str) -> None:
    """Print a notice on stderr, each text once per process."""
    print(f"minires: {text}", file=sys.stderr, flush=True)


def keepable(function) -> bool:
    """Only the package's own files are kept: a learner's kernel changes between two runs of a notebook cell."""
    return KERNELS in Path(function.__code__.co_filename).resolve().parents


def cache_folder() -> Path | None:
    """The folder for compiled kernels, or None where nothing can be written.

    The first writable one of: `$NUMBA_CACHE_DIR`, `__pycache__` beside the kernels, the user's cache folder.
    """
    return _first_writable(getattr(config, "CACHE_DIR", ""))


@functools.cache
def _first_writable(chosen: str) -> Path | None:
    folders = [Path(chosen) / "minires"] if chosen else []
    folders += [KERNELS / "__pycache__", Path(AppDirs("minires").user_cache_dir)]
    return next((f for f in folders if f.is_absolute() and _writable(f)), None)


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()  # permission bits do not tell: mounts can be read-only
    except OSError:
        return False
    return True


def imported_kernels(source: str) -> set[str]:
    """Names of the kernel modules that a source text imports (`from minires.kernels.NAME import …`)."""
    return set(IMPORT.findall(source))


@functools.cache
def source_stamp(path: Path) -> str:
    """A hash of `path` and of all kernel files that it imports, directly or not."""
    found, todo = {}, [path]
    while todo:
        file = todo.pop()
        if file not in found and file.exists():
            found[file] = file.read_text("utf-8")
            todo += [KERNELS / f"{name}.py" for name in imported_kernels(found[file])]
    return digest("".join(sorted(digest(text) for text in found.values())))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def version(path: Path) -> str:
    """The folder name of one kernel file as it stands: its name, its place, and what its machine code is made from."""
    made_from = digest(f"{numba.__version__} {source_stamp(path)}")
    return f"{path.stem}-{digest(str(path))[:8]}-{made_from[:12]}"


class KernelLocator(_CacheLocator):
    """Tells numba the folder, the stamp and the file name of one kernel."""

    def __init__(self, folder: Path, path: Path, line: int):
        self._folder, self._path, self._line, self._py_file = folder, path, line, str(path)

    @classmethod
    def from_function(cls, py_func, py_file):
        folder, path = cache_folder(), Path(py_file).resolve()
        return folder and cls(folder / version(path), path, py_func.__code__.co_firstlineno)

    def get_cache_path(self):
        return str(self._folder)

    def get_source_stamp(self):
        return source_stamp(self._path)

    def get_disambiguator(self):
        return f"{self._line}-{digest(repr([getattr(config, name, None) for name in SETTINGS]))[:12]}"


class KernelImpl(CompileResultCacheImpl):
    _locator_classes = [KernelLocator]


def described(value, inside: tuple = ()) -> str:
    """A text that is the same in every process, for what a kernel closes over."""
    value = getattr(value, "py_func", getattr(value, "_defn", value))  # a dispatcher's or an intrinsic's function
    if isinstance(value, types.FunctionType):
        name = f"{value.__module__}.{value.__qualname__}"
        cells = [] if value in inside else [cell.cell_contents for cell in value.__closure__ or ()]
        return f"{name}({', '.join(described(c, (*inside, value)) for c in cells)})"
    if isinstance(value, tuple | list):
        return f"[{', '.join(described(v, inside) for v in value)}]"
    if hasattr(value, "__dict__") and type(value).__module__.startswith("minires."):
        return f"{type(value).__qualname__}{described(sorted(vars(value).items()), inside)}"
    return f"{type(value).__qualname__} {value!r}"


class KernelCache(FunctionCache):
    """Numba's cache with our locator, which never trusts and never fails."""

    _impl_class = KernelImpl

    def _index_key(self, sig, codegen):
        return sig, codegen.magic_tuple(), described(self._py_func)

    def load_overload(self, sig, target_context):
        try:
            rtsys.initialize(target_context)  # all that loaded code needs; `super()` would get ready for compiling too
            kept = self._load_overload(sig, target_context)
        except Exception:  # a damaged file can raise anything: start this kernel's index afresh
            self._quietly(self.flush)
            return None
        asked, _ = sigutils.normalize_signature(sig)
        return kept if kept is not None and tuple(kept.signature.args) == tuple(asked) else None

    def save_overload(self, sig, data):
        self._quietly(super().save_overload, sig, data)
        forget_unused()

    @staticmethod
    def _quietly(action, *args):
        try:
            action(*args)
        except OSError as problem:
            say_once(f"a compiled kernel could not be kept ({problem.strerror})")


def keep(dispatcher) -> None:
    """Let numba keep what `dispatcher` compiles, where that is possible."""
    if cache_folder() is None:
        say_once("no writable folder for compiled kernels, so they are compiled in each process. Set NUMBA_CACHE_DIR.")
    else:
        dispatcher._cache = KernelCache(dispatcher.py_func)
        mark_used(dispatcher._cache.cache_path)


# ------------------------------------------------------------------------------------------------- old versions


@functools.cache
def mark_used(folder: str) -> None:
    """The time stamp of a version's folder says when a process last asked for it."""
    with contextlib.suppress(OSError):  # not there yet
        os.utime(folder)


@functools.cache
def forget_unused() -> None:
    """Delete versions that nobody asked for lately: for a day those that an edit here replaced, others for 30 days.

    Others may belong to another copy of the package that shares the folder. A process that still runs with a deleted
    version loses nothing but time: it compiles again what it has not loaded yet. Called once per process, when
    something new is kept.
    """
    current = current_versions()
    here = {name.rpartition("-")[0] for name in current}
    for folder in _version_folders():
        days = 1 if folder.name.rpartition("-")[0] in here else 30
        if folder.name not in current and _idle(folder) > days * DAY:
            shutil.rmtree(folder, ignore_errors=True)


def current_versions() -> set[str]:
    """Folder names of all kernel files as they stand."""
    return {version(path) for path in KERNELS.glob("*.py")}


def _version_folders() -> Iterator[Path]:
    folder = cache_folder()
    return (p for p in folder.iterdir() if VERSION.fullmatch(p.name)) if folder else iter(())


def _idle(folder: Path) -> float:
    """Seconds since somebody asked for it; 0 if another process has just deleted it."""
    try:
        return time.time() - folder.stat().st_mtime
    except OSError:
        return 0.0


def _kept_files() -> list[Path]:
    folder = cache_folder()
    return sorted(p for p in folder.rglob("*.nb[ic]") if p.is_file()) if folder else []


def cache_info() -> dict:
    """Where compiled kernels are kept, how much that is, and how much of it this version of the package does not need.

    `folder` (str or None), `files` (count), `bytes`, `old_files`, `old_bytes`, `numba` (version).
    """
    files, current = _kept_files(), current_versions()
    old = [p for p in files if p.parent.name not in current]
    return {
        "folder": str(cache_folder()) if cache_folder() else None,
        "files": len(files),
        "bytes": _bytes(files),
        "old_files": len(old),
        "old_bytes": _bytes(old),
        "numba": numba.__version__,
    }


def _bytes(files: list[Path]) -> int:
    return sum(p.stat().st_size for p in files if p.exists())


def clear_cache(old_only: bool = False) -> int:
    """Delete every kept kernel, or those that this version of the package does not need; return how many files.

    Kernels are compiled again when they are next used.
    """
    spared = current_versions() if old_only else set()
    files = [p for p in _kept_files() if p.parent.name not in spared]
    for path in files:
        path.unlink(missing_ok=True)
    for folder in _version_folders():
        if folder.name not in spared:
            shutil.rmtree(folder, ignore_errors=True)
    return len(files)
