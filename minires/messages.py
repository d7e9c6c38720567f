"""Errors that help: what must hold, what was given, what people usually meant.

Every error that a user can meet is one of the classes below. They keep the three parts as attributes, so
that tools (the grader, the command line) can show them separately, and they are ordinary Python errors too:
a `ShapeError` is a `ValueError`, a `DtypeError` a `TypeError`, and so on.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class Explained(Exception):
    """An error in three parts: `must` (the rule), `given` (what came), `hint` (what people usually meant)."""

    def __init__(self, must: str, given: str, hint: str):
        super().__init__(must, given, hint)
        self.must, self.given, self.hint = must, given, hint

    def __str__(self) -> str:
        return f"{self.must}; got {self.given}. {self.hint}"


class ShapeError(Explained, ValueError):
    """Arrays whose shapes do not fit each other."""


class DtypeError(Explained, TypeError):
    """A value of the wrong type or number format."""


class ValueProblem(Explained, ValueError):
    """A value outside its allowed range."""


class GraphError(Explained, RuntimeError):
    """A wrong use of the graph: backward twice, a changed saved array, and so on."""


class FileProblem(Explained, OSError):
    """A file that cannot be read or written, or that is not what its name says."""


class UnknownName(Explained, LookupError):
    """A name that does not exist; the hint names the closest one that does."""

    def __init__(self, kind: str, name: object, known: Iterable[str]):
        known = sorted(str(k) for k in known)
        super().__init__(f"the {kind} must be one of: {', '.join(known)}", repr(name), did_you_mean(str(name), known))
        self.kind, self.name, self.known = kind, name, known


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint that names the known word closest to `name`, or says that none is close."""
    lowered = {k.lower(): k for k in known}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    return f"Did you mean {lowered[close[0]]!r}?" if close else "Names are spelled as in the list."


def shown(value: object, limit: int = 60) -> str:
    """A short text for a value in a message: arrays by dtype and shape, other things by (cut) repr."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None:
        return f"a {dtype} array of shape {tuple(shape)}"
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def at_edge(error: Explained) -> Explained:
    """The same error without the frames below: `raise at_edge(e) from None` shows one message, not our insides."""
    return error.with_traceback(None)
