"""Models remember the settings they were built with, so that a file can say how to build them again."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from typing import Any, TypeVar

import numpy as np

from minires.messages import UnknownName, ValueProblem
from minires.nn import Extras, Init, Module
from minires.residual import CONNECTIONS

M = TypeVar("M", bound=Module)
MODELS: dict[str, type[Module]] = {}


def remembers_settings(cls: type[M]) -> type[M]:
    """Class decorator: `model.settings` is the dict of the constructor's arguments (without rng), ready for JSON."""
    construct = cls.__init__
    signature = inspect.signature(construct)

    @functools.wraps(construct)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        construct(self, *args, **kwargs)
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        self.settings = {k: plain(v) for k, v in list(bound.arguments.items())[1:] if k != "rng"}

    cls.__init__ = __init__  # type: ignore[method-assign]
    MODELS[cls.__name__] = cls
    return cls


def plain(value: Any) -> Any:
    """A setting as JSON can hold it. What has no name becomes {"object": its repr}, which cannot be rebuilt.

    An initialiser is stored by name only: a checkpoint brings its own weights.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.integer | np.floating):
        return value.item()
    if isinstance(value, Extras):
        return {"extras": dataclasses.asdict(value)}
    if isinstance(value, Init):
        return value.name
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return np.dtype(value).name
    named = [name for name, rule in CONNECTIONS.items() if rule is value]
    return named[0] if named else {"object": repr(value)}


def build(name: str, settings: dict[str, Any] | None) -> Module:
    """A new model of the class called `name`. Raises UnknownName, and ValueProblem if the settings are not plain."""
    if name not in MODELS:
        raise UnknownName("model", name, MODELS)
    strange = [key for key, value in (settings or {}).items() if isinstance(value, dict) and "object" in value]
    if settings is None or strange:
        raise ValueProblem(
            "a model can be rebuilt if all its settings are names and numbers",
            f"{name} with an object of its own for {', '.join(strange) or 'its settings'}",
            "Build the model yourself, then call checkpoint.restore(model).",
        )
    return MODELS[name](**{key: _revived(value) for key, value in settings.items()})


def _revived(value: Any) -> Any:
    return Extras(**value["extras"]) if isinstance(value, dict) else value
