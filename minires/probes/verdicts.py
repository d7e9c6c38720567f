"""From a measured wiring to its name, or to what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

OTHER = "something else"  # the part of a value that is no sum of what the spies returned

Sum = dict[str, float]  # a value as a sum: {"x": 1, "attention": 1} is x + attention


@dataclass(frozen=True)
class Call:
    """One call of a spy: its label ("norm1", and "norm1'" for a second call) and what it was given."""

    name: str
    given: Sum

    @property
    def who(self) -> str:
        return self.name.rstrip("'")


@dataclass(frozen=True)
class Evidence:
    """Everything that was seen: the calls in their order, the result, and whether the input was changed.

    branches: the names of the two sublayers. norms: the norms that the block was offered; none for a model, whose
    norms and coefficients are its own affair.
    """

    calls: list[Call]
    result: Sum
    branches: tuple[str, ...]
    norms: tuple[str, ...] = ()
    mutated: bool = False

    def given(self, label: str) -> Sum:
        return next(call.given for call in self.calls if call.name == label)

    def uses(self, label: str) -> list[tuple[str, Sum]]:
        """(by whom, the sum) wherever a spy's output went; "result" for the block's own result."""
        everywhere = [(call.name, call.given) for call in self.calls] + [("result", self.result)]
        return [(who, total) for who, total in everywhere if label in total]


@dataclass(frozen=True)
class Fault:
    """Something wrong with a block: a short name for tests and graders, and a sentence for people."""

    name: str
    message: str


@dataclass(frozen=True)
class Wiring:
    """What a block does. `kind` is one of KINDS or "unknown"; `equation` is the block in one line.

    faults: empty for a sound block. evidence: the measured wiring itself.
    """

    kind: str
    equation: str
    faults: list[Fault]
    evidence: Evidence = field(repr=False)

    def __str__(self) -> str:
        return "\n".join([f"{self.kind}: {self.equation}", *(f"  {f.name}: {f.message}" for f in self.faults)])


_PRE_F, _POST_F = "F(norm(x))", "norm(x + F(x))"
KINDS: dict[str, str] = {
    "pre_norm": f"x + {_PRE_F} + G(norm(x + {_PRE_F}))",
    "post_norm": f"norm({_POST_F} + G({_POST_F}))",
    "parallel": f"x + {_PRE_F} + G(norm(x))",
    "residual": "x + F(x) + G(x + F(x))",
    "sandwich": f"x + norm({_PRE_F}) + norm(G(norm(x + norm({_PRE_F}))))",
    "none": "norm(G(norm(F(x))))",
    "plain": "G(F(x))",
}


def judge(evidence: Evidence) -> Wiring:
    """Name the block, and list what is wrong with it."""
    equation = written(evidence, evidence.result)
    form = structure(equation, evidence)
    kind = next((kind for kind, known in KINDS.items() if form == known), "unknown")
    faults = list(_input_faults(evidence))
    if kind == "unknown" and evidence.norms and "not a sum" not in [fault.name for fault in faults]:
        faults += [fault for branch in evidence.branches for fault in _branch_faults(evidence, branch)]
    if evidence.norms:
        faults = _no_skip_at_all(faults, evidence, kind) + list(_norm_faults(evidence, kind))
    if kind == "unknown" and not faults:
        faults = [Fault("unknown wiring", f"The block is {equation}, which is no rule that this probe knows.")]
    return Wiring(kind, f"x ← {equation}", list(dict.fromkeys(faults)), evidence)


# ------------------------------------------------------------------------------------------------ as an equation


def written(evidence: Evidence, total: Sum) -> str:
    """A sum as text, with every spy's input written inside it: "x + attention(norm1(x))"."""
    order = ["x", *sorted(n for n in total if n.startswith("norm")), *evidence.branches]
    names = sorted(total, key=lambda name: order.index(name.rstrip("'")) if name.rstrip("'") in order else len(order))
    text = " ".join(_term(evidence, name, total[name]) for name in names) or "+ 0"
    return text.removeprefix("+ ")


def _term(evidence: Evidence, name: str, weight: float) -> str:
    inside = name if name in ("x", OTHER) else f"{name.rstrip(chr(39))}({written(evidence, evidence.given(name))})"
    factor = "" if abs(weight) == 1 or name == OTHER else f"{abs(weight):.3g}·"
    return f"{'-' if weight < 0 else '+'} {factor}{inside}"


def structure(equation: str, evidence: Evidence) -> str:
    """The equation without the names of its norms and branches; for a model also without its coefficients."""
    form = re.sub(r"norm\d+", "norm", equation)
    for branch, letter in zip(evidence.branches, "FG"):
        form = form.replace(f"{branch}(", f"{letter}(")
    return form if evidence.norms else re.sub(r"[0-9.]+·", "", form)


# ------------------------------------------------------------------------------------------------ what is wrong


def _input_faults(evidence: Evidence) -> Iterator[Fault]:
    if evidence.mutated:
        yield Fault("mutated input", "The caller's array is changed: write x = x + …, not x += …")
    if any(OTHER in total for total in [evidence.result, *(call.given for call in evidence.calls)]):
        message = "Some value is no sum of the input and of what the norms and branches returned: is it multiplied?"
        yield Fault("not a sum", message)


def _no_skip_at_all(faults: list[Fault], evidence: Evidence, kind: str) -> list[Fault]:
    """Where every skip is missing, one fault says so."""
    missing = [fault for fault in faults if fault.name == "skip overwritten"]
    if len(missing) < len(evidence.branches) and kind not in ("none", "plain"):
        return faults
    rest = [fault for fault in faults if fault not in missing]
    return [*rest, Fault("no skip", "The stream never goes round a branch: write x + F(…), not F(…).")]


def _branch_faults(evidence: Evidence, branch: str) -> Iterator[Fault]:
    """What is wrong with how one sublayer reads the stream and joins it."""
    count = sum(call.who == branch for call in evidence.calls)
    if count != 1:
        yield Fault("branch count", f"{branch} is called {count} times; once is right.")
    elif not (uses := evidence.uses(branch)):
        where = "its result was added to a variable that nothing reads afterwards"
        yield Fault("branch lost", f"What {branch} returns reaches nothing: {where}.")
    else:
        reader, total = uses[0]
        if total[branch] != 1:
            yield Fault("branch scaled", f"{branch} joins with the factor {total[branch]:g}; 1 is right.")
        yield from _skip_faults(evidence, branch, reader, {k: w for k, w in total.items() if k != branch})


def _skip_faults(evidence: Evidence, branch: str, reader: str, skip: Sum) -> Iterator[Fault]:
    """Compare what the branch was added to with the stream that it read (through a norm or not)."""
    read = evidence.given(branch)
    norm = next(iter(read)) if len(read) == 1 and next(iter(read)).startswith("norm") else None
    stream = evidence.given(norm) if norm else read  # what a Pre-Norm branch belongs to
    sound = [stream, read] if _joins(evidence, read) and reader.startswith("norm") else [stream]
    if skip in sound:
        return
    if not skip:
        yield Fault("skip overwritten", f"Nothing is added to what {branch} returns: its skip is overwritten.")
    elif skip in [_times(2, known) for known in sound]:
        yield Fault("skip added twice", f"The stream is added twice around {branch}: {written(evidence, skip)}.")
    elif norm and skip == read:
        after = f"Around {branch} the skip starts after {norm.rstrip(chr(39))}"
        yield Fault("skip after the norm", f"{after}: with a zero branch the block returns a norm of its input.")
    elif skip in [_plus(known, {"x": 1.0}) for known in sound]:
        again = f"The block's input is added again beside {branch}: {written(evidence, skip)}."
        yield Fault("input added twice", again)
    elif skip == {"x": 1.0}:
        yield Fault("second skip from the wrong place", f"The skip around {branch} starts at the block's input, "
                    f"but {branch} read {written(evidence, stream)}.")  # fmt: skip
    else:
        was = f"{branch} read {written(evidence, stream)} and was added to {written(evidence, skip)}."
        yield Fault("wrong skip", was)


def _joins(evidence: Evidence, total: Sum) -> bool:
    """Whether a value is the block's input, or the norm of a place where a branch has joined (Post-Norm's stream)."""
    if total == {"x": 1.0}:
        return True
    name = next(iter(total))
    return name.startswith("norm") and any(branch in evidence.given(name) for branch in evidence.branches)


def _times(factor: float, total: Sum) -> Sum:
    return {name: factor * weight for name, weight in total.items()}


def _plus(a: Sum, b: Sum) -> Sum:
    return {name: a.get(name, 0) + b.get(name, 0) for name in [*a, *b]}


def _norm_faults(evidence: Evidence, kind: str) -> Iterator[Fault]:
    """Norms that were offered and not used, used twice, or used in each other's place."""
    calls = [call.name for call in evidence.calls if call.who in evidence.norms]
    twice = [name.rstrip("'") for name in calls if name.endswith("'")]
    shared = kind == "parallel" and len(set(map(str, (evidence.given(n) for n in calls)))) == 1
    for name in dict.fromkeys(twice):
        if not shared:
            yield Fault("same norm twice", f"{name} is used in two places; each place needs a norm of its own.")
    for name in evidence.norms:
        if not any(call.rstrip("'") == name and evidence.uses(call) for call in calls) and not shared:
            seen = "called, but its result is not used" if name in calls else "never called"
            yield Fault("norm unused", f"{name} is {seen}.")
    if kind in ("pre_norm", "post_norm") and calls == list(reversed(evidence.norms)):
        yield Fault("norms swapped", f"{calls[0]} stands where {calls[1]} belongs, and the other way round.")
