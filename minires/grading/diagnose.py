"""From wrong numbers to the name of the mistake.

A lesson's `mistakes.py` holds, for each exercise, a function of the same name with one more argument in front:
`wrong`, a set of mistakes to make. With an empty set it is a right answer. So every known wrong answer, and every
combination of them, can be computed and compared with what the learner's function returned on random inputs.
For each returned value that is wrong, the smallest set of mistakes that explains it in all cases is the diagnosis.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from minires.gradcheck import looks_like
from minires.grading.compare import Case, Outcome, distance, is_numeric, run, same
from minires.messages import Explained, shown

MOST = 3  # mistakes made at once that are still looked for


@dataclass(frozen=True)
class Mistake:
    """A known wrong answer. must: the rule; yours: what this mistake does; look: where to look."""

    name: str
    must: str
    yours: str
    look: str


@dataclass(frozen=True)
class Finding:
    """What is wrong with one returned value. `mistake` is the known mistake's name, or a general kind."""

    where: str
    mistake: str
    must: str
    yours: str
    look: str

    def __str__(self) -> str:
        return f"{self.where}: {self.must}\n  yours: {self.yours}\n  look:  {self.look}"

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


class Diagnosed(Explained, AssertionError):
    """An answer that is wrong, with what was found out about it."""

    def __init__(self, findings: Sequence[Finding]):
        first = findings[0]
        super().__init__(first.must, first.yours, first.look)
        self.findings = list(findings)

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings))


@dataclass(frozen=True)
class Trial:
    """The learner's outcomes beside the right ones, case by case, and the known ways to be wrong."""

    cases: Sequence[Case]
    names: Sequence[str]
    yours: Sequence[Outcome]
    right: Sequence[Outcome]
    wrong_way: Callable
    mistakes: Sequence[Mistake]
    tried: dict[tuple[frozenset[str], int], Outcome] = field(default_factory=dict)

    def findings(self) -> list[Finding]:
        """Everything that is wrong; empty if nothing is."""
        structure = self._structure()
        if structure:
            return [structure]
        wrong = [name for name in self.right_names() if not self._is_right(name)]
        found = self._named(wrong)
        for name in [] if found else wrong:
            found += self._named([name]) or [self._special(name) or self._imprecise(name) or self._unnamed(name)]
        return _first_by(found, "mistake") or _first_by(self._conduct(), "where", "mistake")

    # -- the numbers

    def right_names(self) -> list[str]:
        return list(dict.fromkeys(name for o in self.right for name in o.values))

    def _is_right(self, name: str) -> bool:
        return all(_agrees(y, r, [name]) for y, r in zip(self.yours, self.right, strict=True))

    def _named(self, names: Sequence[str]) -> list[Finding]:
        """The smallest set of known mistakes that gives all of the learner's `names` in every case."""
        if not names:
            return []
        order = sorted(range(len(self.cases)), key=lambda i: _agrees(self.yours[i], self.right[i], names))
        for wrong in _subsets(self.mistakes):
            made = {m.name for m in wrong}
            if all(_agrees_or_both_fail(self.yours[i], self._making(made, i), names) for i in order):
                return [Finding(self._touched(m, made, names), m.name, m.must, m.yours, m.look) for m in wrong]
        return []

    def _making(self, made: set[str], i: int) -> Outcome:
        """What these mistakes give in case i."""
        key = (frozenset(made), i)
        if key not in self.tried:
            with np.errstate(all="ignore"):
                self.tried[key] = run(lambda *args: self.wrong_way(made, *args), self.cases[i], self.names)
        return self.tried[key]

    def _touched(self, mistake: Mistake, made: set[str], names: Sequence[str]) -> str:
        """Which of `names` would be another value without this mistake."""
        pairs = [(self._making(made, i), self._making(made - {mistake.name}, i)) for i in range(len(self.cases))]
        return ", ".join(name for name in names if not all(_agrees_or_both_fail(a, b, [name]) for a, b in pairs))

    def _special(self, name: str) -> Finding | None:
        """Right on ordinary arguments, wrong on special ones."""
        bad = [i for i, (y, r) in enumerate(zip(self.yours, self.right)) if not _agrees(y, r, [name])]
        case = self.cases[bad[0]]
        if not all(self.cases[i].note for i in bad):
            return None
        given = f"right on ordinary arguments, but here {_shortly(self.yours[bad[0]].values.get(name))}"
        return Finding(name, "special_case", f"{name} must also be right with {case.note}", given, case.hint)

    def _imprecise(self, name: str) -> Finding | None:
        """Right but for rounding to a shorter number format than the arguments have."""
        pairs = [(y.values.get(name), r.values.get(name)) for y, r in zip(self.yours, self.right)]
        pairs = [(y, r) for y, r in pairs if isinstance(r, np.ndarray) and r.dtype == np.float64]
        if not pairs or not all(_rounded(y, r) for y, r in pairs):
            return None
        worst, dtype = max(distance(y, r) for y, r in pairs), np.asarray(pairs[0][0]).dtype
        given = f"{dtype}, off by {worst:.1g} of its size: right but for rounding, as if computed in {_short(dtype)}"
        look = "Look for an astype, a dtype= or a constant that makes the numbers shorter on the way."
        return Finding(name, "low_precision", f"{name} must have the precision of the arguments, float64", given, look)

    def _unnamed(self, name: str) -> Finding:
        i = next(i for i, (y, r) in enumerate(zip(self.yours, self.right)) if not _agrees(y, r, [name]))
        yours, right = self.yours[i].values.get(name), self.right[i].values.get(name)
        must = f"{name} must equal the right values for {self.cases[i]}"
        if not isinstance(right, np.ndarray) or not is_numeric(yours):
            return Finding(
                name,
                "wrong_type",
                must,
                f"{_shortly(yours)} instead of {_shortly(right)}",
                "Compare with the docstring.",
            )
        yours = np.asarray(yours)
        if yours.shape != right.shape:
            return Finding(
                name,
                "wrong_shape",
                f"{name} must have the shape {right.shape}",
                f"shape {yours.shape}",
                shape_hint(yours, right),
            )
        return Finding(name, "unknown", must, side_by_side(yours, right), looks_like(yours, right))

    # -- everything else

    def _structure(self) -> Finding | None:
        for case, o, r in zip(self.cases, self.yours, self.right, strict=True):
            if o.structure or (not o.error and o.values.keys() != r.values.keys()):
                look = "Look at the return line. A missing return gives None."
                given = o.structure or _listed(o.values)
                return Finding(
                    "return",
                    "wrong_return",
                    f"return {', '.join(r.values)}, in this order",
                    f"{given} for {case}",
                    look,
                )
        return None

    def _conduct(self) -> Iterable[Finding]:
        """Right numbers from a function that does something it should not."""
        for y, r in zip(self.yours, self.right, strict=True):
            if y.changed:
                which = f"argument {y.changed[0]} was written to"
                look = (
                    "An in-place operation (x -= …, x[...] = …, out=x) writes into the caller's array: make a new one."
                )
                yield Finding(
                    "arguments", "changed_argument", "every argument must stay as it was, bit for bit", which, look
                )
            elif not y.repeats:
                look = "Something is kept between calls: a global, a default argument, a counter."
                yield Finding(
                    "calls",
                    "not_repeatable",
                    "the same arguments must give the same result twice",
                    "another result",
                    look,
                )
            extra = [pair for pair in y.shared if pair not in r.shared]
            if extra:
                given = f"{extra[0][0]} shares memory with {extra[0][1]}"
                look = "Writing into one would change the other. Return a new array, or a copy."
                yield Finding(extra[0][0], "shared_memory", f"{extra[0][0]} must have memory of its own", given, look)
            yield from self._dtypes(y, r)

    @staticmethod
    def _dtypes(y: Outcome, r: Outcome) -> Iterable[Finding]:
        for name, right in r.values.items():
            mine = getattr(y.values[name], "dtype", None)
            if isinstance(right, np.ndarray) and mine != right.dtype:
                look = "A float64 constant array (np.eye, np.zeros, np.ones without dtype) turns float32 into float64."
                given = f"{mine}" if mine else shown(y.values[name])
                yield Finding(name, "wrong_dtype", f"{name} must keep the arguments' dtype, {right.dtype}", given, look)


def _first_by(findings: Iterable[Finding], *keys: str) -> list[Finding]:
    """Each finding once: the first of those that are equal in `keys`."""
    first: dict[tuple, Finding] = {}
    for finding in findings:
        first.setdefault(tuple(getattr(finding, key) for key in keys), finding)
    return list(first.values())


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:6]) + (f", … ({len(names)} values)" if len(names) > 6 else "")


def _short(dtype: np.dtype) -> str:
    """The format shorter than float64 that a value has, or (if it was made long again) has probably had."""
    return "float16" if dtype == np.float16 else "float32"


def _rounded(yours: Any, right: np.ndarray) -> bool:
    """Equal up to some roundings of the shorter format."""
    if not is_numeric(yours) or np.shape(yours) != right.shape:
        return False
    return bool(distance(yours, right) <= 50 * np.finfo(_short(np.asarray(yours).dtype)).eps)


def _agrees(yours: Outcome, right: Outcome, names: Sequence[str]) -> bool:
    """The same values under these names."""
    if yours.error:
        return False
    for name in names:
        if (name in yours.values) != (name in right.values):
            return False
        if name in right.values and not same(yours.values[name], right.values[name]):
            return False
    return True


def _agrees_or_both_fail(yours: Outcome, other: Outcome, names: Sequence[str]) -> bool:
    """A mistake explains an exception if it raises one too, on the same arguments."""
    return bool(yours.error) if other.error else _agrees(yours, other, names)


def _subsets(mistakes: Sequence[Mistake]) -> Iterable[tuple[Mistake, ...]]:
    return itertools.chain.from_iterable(itertools.combinations(mistakes, size) for size in range(1, MOST + 1))


def shape_hint(yours: np.ndarray, right: np.ndarray) -> str:
    """What a wrong shape looks like, in words."""
    if yours.shape == right.shape[::-1]:
        return "It is the transpose: swap the two axes, or the two sides of the product."
    if yours.ndim > right.ndim and yours.shape[yours.ndim - right.ndim :] == right.shape:
        return (
            "Axes are left over in front: sum over them (every row used the same parameter, so their gradients add up)."
        )
    if yours.size == right.size:
        return "The number of entries is right: an axis of length 1 too many or too few, or a missing reshape."
    return "Write the shape behind every line and find the first line that differs."


def side_by_side(yours: np.ndarray, right: np.ndarray) -> str:
    """The first five values of both, and the entry with the largest error."""
    error = np.nan_to_num(np.abs(yours - right), nan=np.inf)
    at = np.unravel_index(int(error.argmax()), error.shape)
    rows = [f"\n      {y:>13.6g}  right {r:>13.6g}" for y, r in zip(yours.flat[:5], right.flat[:5])]
    worst = f"\n    largest error at {list(map(int, at))}: {yours[at]:.6g} instead of {right[at]:.6g}"
    return f"relative error {distance(yours, right):.2g}; the first values:{''.join(rows)}{worst}"


def _shortly(value: Any) -> str:
    array = np.asarray(value) if is_numeric(value) else None
    return shown(value) if array is None or array.size > 6 else np.array2string(array, precision=4)
