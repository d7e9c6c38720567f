"""What a function did on one set of arguments, and whether two functions did the same."""

from __future__ import annotations

import contextlib
import copy
import io
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minires.gradcheck import arrays_in
from minires.messages import shown

TOLERANCE = {"float64": 1e-8, "float32": 3e-4}


@dataclass(frozen=True)
class Case:
    """Arguments to try. `note` says what is special about them, `hint` what to look at if only such cases fail."""

    args: tuple
    note: str = ""
    hint: str = ""

    def __str__(self) -> str:
        return ", ".join(_brief(a) for a in self.args)


@dataclass
class Outcome:
    """What came back from one call: the values by name, or the exception; and what else the call did."""

    values: dict[str, Any] = field(default_factory=dict)
    structure: str = ""  # not empty if the wrong number of values came back
    error: BaseException | None = None
    changed: list[int] = field(default_factory=list)  # positions of arguments that were written to
    shared: list[tuple[str, str]] = field(default_factory=list)  # pairs that share memory
    repeats: bool = True  # a second call gave the same

    @property
    def arrays(self) -> frozenset[str]:
        """The names of the values that are arrays."""
        return frozenset(name for name, value in self.values.items() if isinstance(value, np.ndarray))


def run(
    function: Callable, case: Case, names: Sequence[str], twice: bool = False, arrays: Set[str] = frozenset()
) -> Outcome:
    """Call `function` on copies of the case's arguments and note everything that can be judged.

    arrays: names of values that should be arrays. A list of rows or of numbers is accepted in their place.
    """
    args = copy.deepcopy(case.args)
    outcome = Outcome()
    try:
        result = function(*args)
        _unpack(result, names, outcome, arrays)
        outcome.changed = [i for i, (a, b) in enumerate(zip(args, case.args, strict=True)) if _bits(a) != _bits(b)]
        outcome.shared = list(_shared(outcome.values, args))
        if twice and not outcome.changed:
            outcome.values = copy.deepcopy(outcome.values)
            outcome.repeats = _again(function, args, names, outcome, arrays)
    except (Exception, SystemExit) as error:
        outcome.error = error
    return outcome


def _again(function: Callable, args: tuple, names: Sequence[str], first: Outcome, arrays: Set[str]) -> bool:
    second = Outcome()
    with contextlib.redirect_stdout(io.StringIO()):
        _unpack(function(*args), names, second, arrays)
    return first.values.keys() == second.values.keys() and all(
        same(first.values[n], second.values[n]) for n in first.values
    )


def _unpack(result: Any, names: Sequence[str], outcome: Outcome, arrays: Set[str]) -> None:
    if len(names) == 1:
        outcome.values = dict(_leaves(names[0], result, arrays))
    elif isinstance(result, tuple | list) and len(result) == len(names):
        pairs = zip(names, result, strict=True)
        outcome.values = dict(leaf for name, value in pairs for leaf in _leaves(name, value, arrays))
    else:
        came = f"{len(result)} values" if isinstance(result, tuple | list) else shown(result)
        outcome.structure = came


def _leaves(name: str, value: Any, arrays: Set[str]) -> Iterator[tuple[str, Any]]:
    """("saved[0]", array), … for tuples, the value itself for everything else."""
    value = _as_array(value) if name in arrays else value
    if isinstance(value, tuple | list):
        for i, part in enumerate(value):
            yield from _leaves(f"{name}[{i}]", part, arrays)
    else:
        yield name, value


def _as_array(value: Any) -> Any:
    """A list or tuple of numbers or rows as the array that it stands for; everything else as it is."""
    if isinstance(value, list | tuple):
        with contextlib.suppress(ValueError):  # rows of different lengths
            array = np.asarray(value)
            return array if array.dtype.kind in "fiub" else value
    return value


def _shared(values: dict[str, Any], args: tuple) -> Iterator[tuple[str, str]]:
    arrays = [(name, v) for name, v in values.items() if isinstance(v, np.ndarray)]
    for i, (name, a) in enumerate(arrays):
        yield from ((name, other) for other, b in arrays[i + 1 :] if np.may_share_memory(a, b))
        yield from ((name, f"argument {j}") for j, arg in enumerate(args) if _touches(a, arg))


def _touches(a: np.ndarray, arg: Any) -> bool:
    return any(np.may_share_memory(a, b) for b in arrays_in(arg))


def _bits(value: Any) -> Any:
    return [(a.shape, a.tobytes()) for a in arrays_in(value)]


# ------------------------------------------------------------------------------------------------- same or not


def same(yours: Any, right: Any) -> bool:
    """Equal in shape and, up to rounding, in value. dtypes are judged elsewhere."""
    if not isinstance(right, np.ndarray | np.floating):
        return type(yours) is type(right) and yours == right
    return is_numeric(yours) and np.shape(yours) == np.shape(right) and distance(yours, right) <= tolerance(right)


def tolerance(right: Any) -> float:
    return TOLERANCE.get(str(np.asarray(right).dtype), 0.0)


def is_numeric(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.number | float | int) and np.asarray(value).dtype.kind in "fiub"


def distance(yours: Any, right: Any) -> float:
    """‖yours - right‖ / ‖right‖; infinite unless NaN and infinity stand in the same places."""
    a, b = np.asarray(yours, float), np.asarray(right, float)
    finite = np.isfinite(b)
    if (
        not np.array_equal(np.where(finite, 0, a), np.where(finite, 0, b), equal_nan=True)
        or not np.isfinite(a[finite]).all()
    ):
        return np.inf
    error = np.linalg.norm(a[finite] - b[finite])
    return float(error / max(np.linalg.norm(b[finite]), 1e-6 * max(np.sqrt(b.size), 1.0)))


def _brief(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_brief, value))})"
    if isinstance(value, list):
        return f"[{', '.join(map(_brief, value[:3]))}{', …' if len(value) > 3 else ''}]"
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)
