"""Parameters, and modules that hold them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from minires.messages import ShapeError, ValueProblem, did_you_mean, shown
from minires.tensor import Tensor

DECAYING = frozenset(("weight", "embedding"))


class Parameter(Tensor):
    """A leaf tensor that is trained.

    kind: "weight", "embedding", "bias", "norm" or "gate". Weight decay applies to the first two only: pulling
    a norm's gain, a bias or a gate towards 0 changes what the network is, not how smooth it is.
    lr_scale: a factor on the learning rate of this parameter alone.
    """

    __slots__ = ("kind", "lr_scale")

    def __init__(self, data: Any, kind: str = "weight", name: str | None = None):
        super().__init__(data, requires_grad=True, name=name)
        self.kind, self.lr_scale = kind, 1.0

    @property
    def decays(self) -> bool:
        return self.kind in DECAYING

    def __deepcopy__(self, memo: dict) -> Parameter:
        twin: Any = super().__deepcopy__(memo)
        twin.kind, twin.lr_scale = self.kind, self.lr_scale
        return twin


class Module:
    """Something with parameters. Sub-modules, parameters and lists of either are found among its attributes.

    Subclasses define `forward`; calling the module calls it. `training` is True until `eval()`.
    """

    training = True
    describes_own = False  # True: `describe` says enough about the module's own parameters to print none of them
    silent = False  # True: not worth a line when the model is printed

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no forward pass")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    # -- what is inside

    def children(self) -> Iterator[tuple[str, Module]]:
        """Direct sub-modules with their attribute names; entries of lists are named by position."""
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield name, value
            elif isinstance(value, list | tuple):
                yield from ((f"{name}.{i}", v) for i, v in enumerate(value) if isinstance(v, Module))

    def own_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """The parameters that belong to this module itself, not to a sub-module."""
        for name, value in vars(self).items():
            if isinstance(value, Parameter):
                yield name, value
            elif isinstance(value, list | tuple):
                yield from ((f"{name}.{i}", v) for i, v in enumerate(value) if isinstance(v, Parameter))

    def modules(self) -> Iterator[Module]:
        """This module and every module inside it."""
        yield self
        for _, child in self.children():
            yield from child.modules()

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Every parameter once, with its dotted name; a tied weight goes by the name under which it is met first."""
        met: set[int] = set()
        for name, parameter in self._walk(""):
            if id(parameter) not in met:
                met.add(id(parameter))
                yield name, parameter

    def _walk(self, prefix: str) -> Iterator[tuple[str, Parameter]]:
        yield from ((prefix + name, p) for name, p in self.own_parameters())
        for name, child in self.children():
            yield from child._walk(f"{prefix}{name}.")

    def parameters(self) -> list[Parameter]:
        return [p for _, p in self.named_parameters()]

    def count_parameters(self) -> int:
        """How many numbers are trained; tied weights count once."""
        return sum(p.size for p in self.parameters())

    # -- modes

    def train(self, mode: bool = True) -> Module:
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Module:
        return self.train(False)

    def zero_grad(self) -> None:
        for p in self.parameters():
            p.zero_grad()

    # -- saving

    def state_dict(self) -> dict[str, np.ndarray]:
        """Copies of all parameter arrays by name."""
        return {name: p.data.copy() for name, p in self.named_parameters()}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Copy arrays into the parameters; nothing is changed unless every name and shape fits.

        Raises ValueProblem for missing or unknown names and ShapeError for arrays of another shape.
        """
        own = dict(self.named_parameters())
        self._check_names(own, state)
        for name, p in own.items():
            if np.shape(state[name]) != p.shape:
                raise ShapeError(
                    f"{name} must have shape {p.shape}",
                    shown(state[name]),
                    "Was the model built with the same settings?",
                )
        for name, p in own.items():
            p.data[...] = state[name]
            p.changed()

    @staticmethod
    def _check_names(own: Mapping, state: Mapping) -> None:
        missing, unknown = [n for n in own if n not in state], [n for n in state if n not in own]
        if missing or unknown:
            parts = [f"{len(missing)} missing ({', '.join(missing[:3])})"] * bool(missing)
            parts += [f"{len(unknown)} unknown ({', '.join(unknown[:3])})"] * bool(unknown)
            hint = (
                did_you_mean(unknown[0], missing)
                if missing and unknown
                else "Was the model built with the same settings?"
            )
            raise ValueProblem("a state must have exactly the model's parameter names", "; ".join(parts), hint)

    # -- showing

    def describe(self) -> str:
        """The settings shown on this module's line when it is printed."""
        return ""

    def __repr__(self) -> str:
        from minires.nn.printing import show

        return show(self)
