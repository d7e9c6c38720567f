"""The ledger: one row per claim, a rule that turns numbers into a verdict, and the results that are kept.

A row is data. If the claim can be measured here, the row names a *measurement*, a function that returns plain numbers,
and a *rule*, which reads nothing but those numbers. Several rows may share one measurement; it then runs once.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from types import SimpleNamespace
from typing import Any

from minires.experiments.result import plain, versions
from minires.messages import FileProblem, UnknownName, ValueProblem

HOLDS, COND, CONTRADICTS = "HOLDS", "COND", "CONTRADICTS"
INTERNAL, UNCHECKABLE, OPEN = "INTERNAL", "UNCHECKABLE", "OPEN"
VERDICTS = {
    HOLDS: "true as stated",
    COND: "true under some conditions, false under others",
    CONTRADICTS: "a measurement or the source says otherwise",
    INTERNAL: "the articles contradict each other",
    UNCHECKABLE: "nothing public to check it against, or not on a small machine",
    OPEN: "needs a longer training run; the experiment is planned",
}

Numbers = dict[str, Any]
Test = Callable[[SimpleNamespace], bool]


@dataclass(frozen=True)
class Rule:
    """From numbers to a verdict. holds: the claim was found true somewhere. fails: it was found false somewhere.

    Both: COND. Only the first: HOLDS. Not the first: CONTRADICTS. Without `fails`, whatever is not true is false.
    """

    holds: Test
    fails: Test = lambda m: False

    def __call__(self, numbers: Mapping[str, Any]) -> str:
        m = SimpleNamespace(**numbers)
        if not self.holds(m):
            return CONTRADICTS
        return COND if self.fails(m) else HOLDS


@dataclass(frozen=True)
class Claim:
    """One statement of an article.

    section: where it stands. claim: the statement in our words. expected: the verdict. finding: what is true. source:
    where that can be read. measure: returns numbers, `tell` puts them into words, `rule` judges them. plan: the
    experiment that an OPEN row waits for. Names in _zh: the same in Chinese; `tell_zh` shows the same numbers.
    """

    id: str
    article: str
    section: str
    claim: str
    claim_zh: str
    expected: str
    finding: str
    finding_zh: str
    source: str = ""
    measure: Callable[..., Numbers] | None = None
    tell: str = ""
    tell_zh: str = ""
    rule: Rule | None = None
    plan: str = ""
    plan_zh: str = ""


CLAIMS: dict[str, Claim] = {}


def add(claim: Claim) -> Claim:
    """Add a row. Raises ValueProblem for an id that is taken, an unknown verdict, or a row that has no grounds."""
    grounds = claim.source or claim.measure or claim.plan
    whole = len({bool(part) for part in (claim.measure, claim.rule, claim.tell, claim.tell_zh)}) == 1
    if claim.id in CLAIMS or claim.expected not in VERDICTS or not grounds or not whole:
        raise ValueProblem(
            "a claim has a new id, a known verdict, and a source, a plan, or a measurement with rule and words",
            f"{claim.id!r} with verdict {claim.expected!r}", "Copy the row beside it and change every field.",
        )  # fmt: skip
    CLAIMS[claim.id] = claim
    return claim


def get_claims(ids: Iterable[str] = ()) -> list[Claim]:
    """Rows by id, all of them if none is given; "C59" means C59a, C59b and so on. Raises UnknownName."""
    chosen: list[Claim] = []
    for wanted in ids:
        name = wanted.upper()[:1] + wanted[1:].lower()
        found = [c for c in CLAIMS.values() if c.id == name or c.id.rstrip("abcdef") == name]
        if not found:
            raise UnknownName("claim", wanted, CLAIMS)
        chosen += [c for c in found if c not in chosen]
    return chosen or list(CLAIMS.values())


# ------------------------------------------------------------------------------------------------- measurements


@dataclass(frozen=True)
class Measurement:
    """What a measurement returned, with everything that made it."""

    name: str
    settings: dict[str, Any]
    numbers: Numbers
    seconds: float
    versions: dict[str, str] = field(default_factory=versions)


def measurement(
    fast: Mapping[str, Any] | None = None, trains: bool = False, kernels: bool = False
) -> Callable[[Callable], Callable]:
    """Decorator: a function of settings that returns numbers. fast: settings for a quick look. trains: it trains.

    kernels: on the numba backend where there is one. Without it on NumPy: most models here are so small that compiling
    kernels would take longer than all the rest.
    """

    def mark(function: Callable[..., Numbers]) -> Callable[..., Numbers]:
        function.fast, function.trains, function.kernels = dict(fast or {}), trains, kernels  # type: ignore
        return function

    return mark


def perform(function: Callable[..., Numbers], fast: bool = False) -> Measurement:
    """Run one measurement with its own settings, or its fast ones, on one thread."""
    from minires.commands.setup import machine

    chosen = {name: p.default for name, p in inspect.signature(function).parameters.items()}
    chosen |= function.fast if fast else {}  # type: ignore[attr-defined]
    began = time.perf_counter()
    with machine(None if function.kernels else "numpy", 1):  # type: ignore[attr-defined]
        numbers = plain(function(**chosen))
    return Measurement(function.__name__, plain(chosen), numbers, round(time.perf_counter() - began, 3))


def perform_all(claims: Iterable[Claim], fast: bool = False, progress: bool = True) -> dict[str, Measurement]:
    """Every measurement that the rows need, once each, by name."""
    from minires import ui

    functions = {c.measure.__name__: c.measure for c in claims if c.measure}
    with ui.progress(len(functions), "measurements", enabled=progress) as bar:
        found = {}
        for name, function in functions.items():
            found[name] = perform(function, fast)
            bar.advance(note=name)
    return found


# ------------------------------------------------------------------------------------------------------ outcomes


def outcome(claim: Claim, found: Mapping[str, Measurement]) -> dict[str, Any]:
    """One row of the ledger as plain data: the claim, what was measured, and the verdict by the rule.

    A row without a measurement has the verdict that its source or its plan gives it.
    """
    row: dict[str, Any] = {
        "id": claim.id, "claim": claim.claim, "claim_zh": claim.claim_zh, "article": claim.article,
        "section": claim.section, "verdict": claim.expected, "expected": claim.expected, "measured": None,
        "measured_zh": None, "finding": claim.finding, "finding_zh": claim.finding_zh, "source": claim.source,
        "plan": claim.plan, "plan_zh": claim.plan_zh, "measurement": None, "settings": {}, "seed": None, "numbers": {},
        "seconds": 0.0,
    }  # fmt: skip
    if claim.measure is None or claim.rule is None:
        return row
    m = found.get(claim.measure.__name__)
    if m is None:
        hint = "Measure it: `minires claims --recompute`."
        raise FileProblem("every measured claim must have kept numbers", f"{claim.id} without any", hint)
    return row | {
        "verdict": claim.rule(m.numbers), "measured": told(claim.tell, m.numbers),
        "measured_zh": told(claim.tell_zh, m.numbers), "measurement": m.name,
        "settings": m.settings, "seed": m.settings.get("seed"), "numbers": m.numbers, "seconds": m.seconds,
    }  # fmt: skip


def told(tell: str, numbers: Numbers) -> str:
    """Numbers in words; an exact zero is written 0, whatever the format, and a percentage with a blank."""
    return re.sub(r"(?<=\d)%", " %", tell.format(**numbers).replace("0e+00", "0"))


def outcomes(claims: Iterable[Claim], found: Mapping[str, Measurement] | None = None) -> list[dict[str, Any]]:
    """Rows of the ledger, from kept results unless measurements are given."""
    known = kept() if found is None else found
    return [outcome(claim, known) for claim in claims]


# ------------------------------------------------------------------------------------------------- kept results

KEPT = "results.json"


@functools.cache
def kept() -> dict[str, Measurement]:
    """The measurements that are part of the package. Raises FileProblem if their file is damaged."""
    text = resources.files("minires.claims").joinpath(KEPT).read_text(encoding="utf-8")
    return from_json(text)


def to_json(found: Mapping[str, Measurement]) -> str:
    """One measurement per line, by name: a new number changes one line."""
    lines = [json.dumps(vars(found[name]), ensure_ascii=False, allow_nan=False) for name in sorted(found)]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def from_json(text: str) -> dict[str, Measurement]:
    """The inverse of `to_json`. Raises FileProblem for text that is not a list of measurements."""
    try:
        return {item["name"]: Measurement(**item) for item in json.loads(text)}
    except (ValueError, TypeError, KeyError) as error:
        hint = "Restore the file, or measure again with `minires claims --recompute --keep`."
        raise FileProblem("kept results are a JSON list of measurements", f"{error}", hint) from None
