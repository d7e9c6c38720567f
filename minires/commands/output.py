"""What several commands share: writing a result as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any


def add_json(parser: argparse._ActionsContainer) -> None:
    """The option `--json`, for a parser or a group of one."""
    about = "also write the result to FILE; `-` is standard output"
    parser.add_argument("--json", type=writable, metavar="FILE", help=about)


def writable(path: str) -> str:
    """`path` itself, once it is sure that it can be written: nobody should measure for minutes and lose the result.

    Raises FileProblem.
    """
    if path != "-":
        from minires.files import check_writable

        check_writable(path)
    return path


def write_json(data: Any, path: str | None) -> None:
    """Write `data` to `path`, if one was given. NaN and infinities become strings: JSON has no word for them.

    This needs nothing but Python itself, so that the doctor can write although NumPy is missing.
    """
    if path is not None:
        write_text(json.dumps(_plain(data), indent=1, ensure_ascii=False, allow_nan=False) + "\n", path)


def write_text(text: str, path: str) -> None:
    """Write a file whole or not at all, or to standard output if `path` is `-`."""
    if path == "-":
        sys.stdout.write(text)
        return
    from minires.files import atomic_write

    atomic_write(path, text)


def _plain(value: Any) -> Any:
    """Arrays and NumPy numbers as lists and Python numbers."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    finite = not isinstance(value, float) or abs(value) < float("inf")
    return value if finite else str(value)
