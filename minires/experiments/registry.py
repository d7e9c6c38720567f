"""The list of experiments. A line here is all that a listing needs; the module is imported when it is used."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from minires.experiments.result import Result
from minires.messages import UnknownName, ValueProblem, shown

_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True)
class Experiment:
    """One experiment: its name, one line about it, and the module that holds `run`, `draw` and `caption`.

    figure: whether `figures/NAME.svg` is kept. png: also a light and a dark PNG, for pages that show it.
    """

    name: str
    title: str
    module: str
    figure: bool = True
    png: bool = False

    def load(self) -> ModuleType:
        return importlib.import_module(self.module)

    @property
    def settings(self) -> dict[str, Any]:
        """Every setting with its default. Imports the module, but not matplotlib."""
        return {name: p.default for name, p in inspect.signature(self.load().run).parameters.items()}

    def parse(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Settings checked against the defaults; strings are converted to the default's type.

        Raises UnknownName for a setting that does not exist and ValueProblem for one that cannot be converted, for an
        empty list, and for a negative seed.
        """
        defaults = self.settings
        for name in given:
            if name not in defaults:
                raise UnknownName(f"setting of {self.name}", name, defaults)
        settings = {name: _convert(name, value, defaults[name]) for name, value in given.items()}
        for name, value in settings.items():
            _check(name, value, defaults[name])
        return settings

    def run(self, **settings: Any) -> Result:
        return self.load().run(**self.parse(settings))

    def table(self, result: Result) -> list[dict[str, Any]]:
        """The rows worth printing: the module's `table(result)` if it has one, else `data["rows"]`, else none."""
        chosen = getattr(self.load(), "table", None)
        return chosen(result) if chosen else result.data.get("rows", [])

    def draw(self, result: Result) -> Any:
        return self.load().draw(result)

    def caption(self, result: Result) -> str:
        return self.load().caption(result)


EXPERIMENTS: dict[str, Experiment] = {}


def register(name: str, title: str, module: str, **options: Any) -> Experiment:
    """Add an experiment, from the package or from a file of your own (any importable module)."""
    if name in EXPERIMENTS and EXPERIMENTS[name].module != module:
        must, hint = "an experiment's name must be new", "Choose another name for yours."
        raise ValueProblem(must, f"{name!r}, which exists", hint)
    EXPERIMENTS[name] = Experiment(name, title, module, **options)
    return EXPERIMENTS[name]


def get_experiment(name: str) -> Experiment:
    """An experiment by name. Raises UnknownName with the closest one."""
    if name not in EXPERIMENTS:
        raise UnknownName("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]


def run_experiment(name: str, settings: Mapping[str, Any] | None = None) -> Result:
    """Run one by name. Settings may be strings, as they come from a command line ("width=64", "widths=64,512")."""
    return get_experiment(name).run(**(settings or {}))


def _convert(name: str, value: Any, default: Any) -> Any:
    """A string as the type of the default; a tuple's items are separated by commas. Other values pass through."""
    if not isinstance(value, str) or isinstance(default, str):
        return value
    try:
        if isinstance(default, tuple):
            items = [part.strip() for part in value.strip("()[]").split(",") if part.strip()]
            return tuple(_convert(name, item, default[0]) if default else item for item in items)
        return _TRUTH[value.lower()] if isinstance(default, bool) else type(default)(value)
    except (ValueError, KeyError):
        kind = type(default).__name__
        raise ValueProblem(
            f"the setting {name!r} must be {'an' if kind[0] in 'aeiou' else 'a'} {kind}, like its default {default!r}",
            shown(value),
            "Write it as NAME=VALUE, a list as NAME=A,B,C.",
        ) from None


def _check(name: str, value: Any, default: Any) -> None:
    """What must hold in every experiment, before it measures for minutes."""
    from minires.problems import check_seed

    if default and isinstance(value, tuple | list) and not value:
        written = ",".join(map(str, default))
        hint = f"Leave the setting out for its default: {name}={written}."
        raise ValueProblem(f"the setting {name!r} needs at least one value", "an empty list", hint)
    if name == "seed" and isinstance(value, int):
        check_seed(value)


# ------------------------------------------------------------------------------------------- one line for each

register(
    "jacobian_products",
    "What 100 layers do to a gradient: products of (I + J), by how the J are related",
    "minires.experiments.jacobian_products",
)
register("residuals", "What each residual recipe costs beside Pre-Norm", "minires.experiments.costs", figure=False)
register(
    "compare",
    "Residual recipes side by side: gradients, growth of the stream, early loss",
    "minires.experiments.compare",
    figure=False,
)
register(
    "thousand_layers",
    "1000 blocks: forward, backward and ten steps, DeepNorm beside Post-Norm and Pre-Norm",
    "minires.experiments.thousand_layers",
)
register(
    "gradient_table",
    "Gradient norms through 12 layers, Post- and Pre-Norm: total, skip path alone, branches alone",
    "minires.experiments.gradient_table",
    png=True,
)
register(
    "gradient_training",
    "When Post-Norm does lose its gradient: the first Adam steps, by initialisation and warm-up",
    "minires.experiments.gradient_training",
)
register(
    "plus_i",
    "The +I in a stack of layers: gradients with and without the skip, and the lengths of their paths",
    "minires.experiments.plus_i",
)
register(
    "layernorm_spectrum",
    "The Jacobian of LayerNorm: its spectrum, and what a stack of Post-Norm layers does to a gradient",
    "minires.experiments.layernorm_spectrum",
)
register(
    "residual_family",
    "The residual family: how each rule joins a sublayer to the stream",
    "minires.experiments.residual_family",
)
register(
    "plus_i_table",
    "The +I table: ∂x_{l+1}/∂x_l by rule, and what is left of the identity after 24 sublayers",
    "minires.experiments.plus_i_table",
)
register(
    "depth_profiles",
    "Gradient profile and growth of the stream by rule and depth, to 1000 sublayers",
    "minires.experiments.depth_profiles",
)
register(
    "path_lengths",
    "How long the paths are that a gradient takes through a Transformer, rule by rule",
    "minires.experiments.path_lengths",
)
register(
    "composite_gain",
    "What the mixing matrices of many layers do together: Hyper-Connections against mHC",
    "minires.experiments.composite_gain",
)
register(
    "exp_error",
    "The error of the vectorised exp over its whole range, beside NumPy's",
    "minires.experiments.exp_error",
)
register(
    "roofline",
    "How near the kernels come to what one thread of a machine can do",
    "minires.experiments.roofline",
)
register(
    "sinkhorn_error",
    "Sinkhorn's error against the spread of its logits: twenty steps are exact only for narrow logits",
    "minires.experiments.sinkhorn_error",
)
