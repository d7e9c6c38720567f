"""Which code a measurement comes from: the modules that it imports, directly or through others, without their prose.

A number can change because an instrument, a rule or an initialiser has, and not its experiment. So the stamp of a
figure covers what an experiment imports itself, and all that this imports in turn within its own row of the package
and the rows of `FOLLOWED`. The engine below them (tensor, operations, kernels) is left out unless an experiment names a
part of it: tests of its own hold its results, and a faster kernel must not make every figure old.
`minires figures --recompute` proves the rest.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
FOLLOWED = ("data", "experiments", "models", "nn", "probes", "residual", "train")
SILENT = {  # what they do changes no number; figures of speed are drawn from a kept file, which has its own stamp
    "bench/__init__", "files", "kernels/cache", "messages", "models/notes", "nn/printing", "probes/picture", "problems",
    "style/__init__", "tensor", "ui",
}  # fmt: skip


def imported_code(source: str) -> str:
    """The code of all modules of the package that count for a file with this source, one after the other by path."""
    return "".join(f"# {path.relative_to(PACKAGE).as_posix()}\n{code_of(_text(path))}" for path in modules(source))


def modules(source: str) -> list[Path]:
    """The files of those modules, sorted."""
    found: set[Path] = set()
    todo = list(_imports(source))
    while todo:
        path = todo.pop()
        if path not in found and path.relative_to(PACKAGE).with_suffix("").as_posix() not in SILENT:
            found.add(path)
            todo += [used for used in _uses(path) if _row(used) in (*FOLLOWED, _row(path))]
    return sorted(found)


@functools.lru_cache(maxsize=512)
def code_of(source: str) -> str:
    """Source without docstrings, without blank lines and without lines that are comments only."""
    lines = source.splitlines()
    for node in ast.walk(_tree(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            first, last = node.body[0].lineno, node.body[0].end_lineno or node.body[0].lineno
            if not lines[first - 1][: node.body[0].col_offset].strip():
                lines[first - 1 : last] = [""] * (last - first + 1)
    return "".join(f"{line.rstrip()}\n" for line in lines if line.strip() and not line.lstrip().startswith("#"))


def _uses(path: Path) -> list[Path]:
    """What a module imports, and its whole package if it keeps a register: that is asked by a name in a string."""
    registers = any(isinstance(n, ast.FunctionDef) and n.name == "register" for n in _tree(_text(path)).body)
    return [*_imports(_text(path)), *(path.parent.glob("*.py") if registers else ())]


@functools.lru_cache(maxsize=512)
def _imports(source: str) -> tuple[Path, ...]:
    """The files of the package behind all imports of a source, also of those inside functions."""
    found: list[Path] = []
    for node in ast.walk(_tree(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "minires":
            found += [path for alias in node.names for path in _defining(node.module or "", alias.name)]
        elif isinstance(node, ast.Import):
            found += [path for a in node.names if a.name.startswith("minires.") for path in _file(a.name)]
    return tuple(dict.fromkeys(found))


def _defining(module: str, name: str) -> Iterator[Path]:
    """The file that `from module import name` reads `name` from, through packages that only pass it on."""
    submodule = list(_file(f"{module}.{name}"))
    if submodule:
        yield from submodule
        return
    for path in _file(module):
        passed = [n for n in _tree(_text(path)).body if isinstance(n, ast.ImportFrom) and path.name == "__init__.py"]
        origin = [n.module or "" for n in passed for alias in n.names if (alias.asname or alias.name) == name]
        yield from _defining(origin[0], name) if origin else [path]


def _file(module: str) -> Iterator[Path]:
    """The file of a module of the package, if there is one."""
    base = PACKAGE.joinpath(*module.split(".")[1:])
    yield from (path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file())


def _row(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@functools.lru_cache(maxsize=512)
def _tree(source: str) -> ast.Module:
    return ast.parse(source)
