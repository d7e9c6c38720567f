"""minires: residual connections from scratch, in NumPy, with every backward pass written by hand.

Importing this file loads nothing else, not even NumPy, so that `minires --help` answers at once. The first name that
is asked for (`minires.Tensor`, `minires.nn`, …) loads what it needs. `minires/api.py` lists the public names.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from minires.api import *  # noqa: F403

# Public functions that live in a file of their own name: here the name means the function.
_FUNCTIONS = frozenset(("backend", "gradcheck"))


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name != "__all__":
        raise AttributeError(name)
    if name not in _FUNCTIONS and importlib.util.find_spec(f"minires.{name}"):
        return importlib.import_module(f"minires.{name}")
    from minires import api

    if name == "__all__" or name in api.__all__:
        return getattr(api, name)
    from minires.messages import did_you_mean

    raise AttributeError(f"minires has no {name!r}. {did_you_mean(name, api.__all__)}")


def __dir__() -> list[str]:
    from minires import api

    return sorted(["__version__", *api.__all__])


class _Package(types.ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        """Python puts every imported file on its package; a file must not hide the function of the same name."""
        if not (name in _FUNCTIONS and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
