"""What an experiment returns: plain data with the settings that made it, and a way to JSON and back."""

from __future__ import annotations

import functools
import inspect
import json
import math
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from minires.files import atomic_write, read_bytes
from minires.messages import DtypeError, FileProblem, shown

_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}  # JSON itself has no such numbers


def versions() -> dict[str, str]:
    """The versions that can change a number's last digits."""
    from minires import __version__

    return {"minires": __version__, "numpy": np.__version__, "python": platform.python_version()}


@dataclass(frozen=True)
class Result:
    """Plain data: numbers, strings, lists and dicts. `data["rows"]`, if there, is a list of flat dicts for a table."""

    name: str
    settings: dict[str, Any]
    data: dict[str, Any]
    versions: dict[str, str] = field(default_factory=versions)

    @property
    def seed(self) -> int | None:
        return self.settings.get("seed")

    def to_json(self) -> str:
        """Strict JSON, one item per line where it helps; NaN and infinities are written as strings."""
        return _dump({**asdict(self), "seed": self.seed}) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Result:
        """The inverse of `to_json`. Raises FileProblem for text that is not a result."""
        try:
            found = json.loads(text)
            parts = {key: _revive(found[key]) for key in ("name", "settings", "data", "versions")}
        except (ValueError, KeyError, TypeError) as error:
            raise FileProblem(
                "a result is JSON with name, settings, data and versions",
                f"text where {type(error).__name__}: {error}",
                "Was the file cut short, or written by something else? Run the experiment again to replace it.",
            ) from None
        return cls(**parts)


def measured(run: Callable[..., dict[str, Any]]) -> Callable[..., Result]:
    """Decorator for an experiment's `run`: its dict becomes a `Result` that knows every setting, defaults too."""
    signature = inspect.signature(run)

    @functools.wraps(run)
    def recorded(**settings: Any) -> Result:
        bound = signature.bind(**settings)
        bound.apply_defaults()
        return Result(run.__globals__["NAME"], plain(bound.arguments), plain(run(**settings)))

    return recorded


def save_result(result: Result, path: str | Path) -> None:
    """Write JSON in one step: the old file stays whole until the new one is."""
    atomic_write(path, result.to_json())


def load_result(path: str | Path) -> Result:
    """Read what `save_result` wrote. Raises FileProblem for a missing, cut or foreign file."""
    try:
        return Result.from_json(read_bytes(path))
    except FileProblem as error:
        raise FileProblem(error.must, f"{path}: {error.given}", error.hint) from None


def plain(value: Any) -> Any:
    """NumPy arrays and scalars, tuples and mappings as Python values that JSON has. Raises DtypeError for others."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise DtypeError("a result holds numbers, text, lists and dicts", shown(value), "Convert it, or leave it out.")


def _dump(value: Any, indent: str = "") -> str:
    """JSON with dicts and lists of dicts spread over lines, and lists of numbers kept on one."""
    deeper = indent + " "
    if isinstance(value, dict) and any(isinstance(item, dict | list) for item in value.values()):
        items = [f"{json.dumps(key)}: {_dump(item, deeper)}" for key, item in value.items()]
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        items = [_dump(item, deeper) for item in value]
    else:
        return json.dumps(_speak(value), ensure_ascii=False, allow_nan=False)
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}\n{deeper}" + f",\n{deeper}".join(items) + f"\n{indent}{last}"


def _speak(value: Any) -> Any:
    """NaN and infinities as words."""
    if isinstance(value, float) and not math.isfinite(value):
        return next(word for word, number in _WORDS.items() if number == value or (number != number and value != value))
    if isinstance(value, dict):
        return {key: _speak(item) for key, item in value.items()}
    return [_speak(item) for item in value] if isinstance(value, list) else value


def _revive(value: Any) -> Any:
    """Words back to numbers."""
    if isinstance(value, dict):
        return {key: _revive(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_revive(item) for item in value]
    return _WORDS.get(value, value) if isinstance(value, str) else value
