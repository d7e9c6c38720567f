"""SGD, Adam and AdamW."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from minires.backend import backend, numba_problem
from minires.messages import ShapeError, UnknownName, ValueProblem, shown
from minires.nn import Parameter
from minires.train import updates
from minires.train.flat import Flat, Run


class Optimizer:
    """What all optimisers share: flat arrays, the learning rate, and state that can be saved.

    A subclass names its memory in `slots` and defines `update`. `lr` may be changed between two steps; a parameter's
    own `lr_scale` multiplies it, and weight decay touches only parameters that decay (no norms, biases or gates).
    A parameter without a gradient is left alone, its memory too.
    """

    slots: tuple[str, ...] = ()

    def __init__(self, parameters: Iterable[Parameter], lr: float):
        self.flat = Flat(parameters)
        self.lr = at_least_zero("lr", lr)
        self.memory = {name: self.flat.zeros() for name in self.slots}
        self.steps = np.zeros(len(self.flat.parameters), np.int64)  # updates of each parameter so far

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters, each once, in the order they were given."""
        return self.flat.parameters

    def zero_grad(self) -> None:
        for p in self.parameters:
            p.zero_grad()

    def step(self, gradients: Sequence[np.ndarray | None] | None = None) -> None:
        """One update from each parameter's `.grad`, or from `gradients`, one per parameter and in their order.

        Raises ValueProblem if there is no gradient at all.
        """
        gradients = [p.grad for p in self.parameters] if gradients is None else gradients
        if all(g is None for g in gradients):
            raise ValueProblem(
                "step() needs gradients", "parameters whose .grad is None", "Call loss.backward() first, then step()."
            )
        self.flat.adopt()
        self.flat.gather(gradients)
        self.steps += [g is not None for g in gradients]
        for run in self.flat.runs(gradients, self.steps):
            arrays = {name: array[run.where] for name, array in self.memory.items()}
            self.update(self.flat.data[run.where], self.flat.gradient[run.where], run, **arrays)
        for p in self.parameters:
            p.changed()

    def update(self, p: np.ndarray, g: np.ndarray, run: Run, **memory: np.ndarray) -> None:
        """Update one run of alike parameters in place."""
        raise NotImplementedError

    # -- saving

    def state_dict(self) -> dict[str, np.ndarray]:
        """Everything but the settings, as arrays: `lr`, `steps` and the rule's memory."""
        packed = {name: self.flat.pack(array) for name, array in self.memory.items()}
        return {"lr": np.float64(self.lr), "steps": self.steps.copy(), **packed}  # type: ignore[dict-item]

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a saved state; nothing changes unless all of it fits.

        Raises ValueProblem for missing or unknown names and ShapeError for arrays of another size.
        """
        own = self.state_dict()
        if set(own) != set(state):
            hint = "Was it saved by another optimiser? Use the same class with the same momentum or betas."
            raise ValueProblem(f"the state of {type(self).__name__} holds {sorted(own)}", str(sorted(state)), hint)
        for name, array in own.items():
            if np.shape(state[name]) != np.shape(array):
                hint = "Was the model built with the same settings?"
                raise ShapeError(f"{name!r} must have shape {np.shape(array)}", shown(state[name]), hint)
        self.lr, self.steps[:] = float(state["lr"]), state["steps"]
        for name, array in self.memory.items():
            self.flat.unpack(np.asarray(state[name]), array)

    def settings(self) -> dict[str, Any]:
        """What the optimiser was made with, as plain data."""
        return {name: value for name, value in vars(self).items() if isinstance(value, int | float) and name != "lr"}

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value:g}" for name, value in {"lr": self.lr, **self.settings()}.items())
        return f"{type(self).__name__}({sum(p.size for p in self.parameters):,} numbers, {settings})"


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum if asked for; see `updates.sgd_step`.

    Here weight decay is a part of the gradient (L2), as is usual for SGD.
    """

    slots = ("velocity",)

    def __init__(
        self,
        parameters: Iterable[Parameter],
        lr: float = 0.1,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
    ):
        super().__init__(parameters, lr)
        self.momentum, self.nesterov = below_one("momentum", momentum), bool(nesterov)
        self.weight_decay = at_least_zero("weight_decay", weight_decay)
        if nesterov and not momentum:
            raise ValueProblem("nesterov needs momentum", "momentum = 0", "Write momentum=0.9, nesterov=True.")

    def update(self, p, g, run, velocity):
        decay = self.weight_decay * run.decays
        updates.sgd_step(p, g, velocity, self.lr * run.lr_scale, self.momentum, self.nesterov, decay)


class AdamW(Optimizer):
    """Adam with decoupled weight decay; see `updates.adamw_step`.

    betas: how slowly the means of g and g² forget. weight_decay: per step and per unit of learning rate.
    """

    slots = ("m", "v")

    def __init__(
        self,
        parameters: Iterable[Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ):
        super().__init__(parameters, lr)
        self.beta1, self.beta2 = (below_one("each of betas", beta) for beta in betas)
        self.eps = at_least_zero("eps", eps)
        if not eps:
            raise ValueProblem("eps must be above 0", "0", "It keeps 0/0 away where a gradient is 0; 1e-8 is usual.")
        self.weight_decay = at_least_zero("weight_decay", weight_decay)

    def update(self, p, g, run, m, v):
        decay, lr = self.weight_decay * run.decays, self.lr * run.lr_scale
        c1, c2 = 1 / (1 - self.beta1**run.steps), 1 / (1 - self.beta2**run.steps)
        adamw_in_force()(p, g, m, v, lr, self.beta1, self.beta2, self.eps, decay, c1, c2)


class Adam(AdamW):
    """Adam: AdamW without weight decay."""

    def __init__(
        self,
        parameters: Iterable[Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ):
        super().__init__(parameters, lr, betas, eps, weight_decay=0.0)


def adamw_in_force() -> Callable[..., None]:
    """`updates.adamw_step`, or its numba twin, which makes one pass over memory instead of nine."""
    if backend.name == "numba" and not numba_problem():
        from minires.kernels.optim import adamw_step

        return adamw_step
    return updates.adamw_step


OPTIMIZERS: dict[str, type[Optimizer]] = {"sgd": SGD, "adam": Adam, "adamw": AdamW}


def get_optimizer(name: str) -> type[Optimizer]:
    """An optimiser class by name. Raises UnknownName."""
    if name not in OPTIMIZERS:
        raise UnknownName("optimiser", name, OPTIMIZERS)
    return OPTIMIZERS[name]


def at_least_zero(name: str, value: float) -> float:
    """A finite number that is not negative."""
    if not _number(value) or not 0 <= value < float("inf"):
        raise ValueProblem(f"{name} must be a finite number, at least 0", shown(value), "Typical: lr 1e-3, decay 0.01.")
    return float(value)


def below_one(name: str, value: float) -> float:
    """A number in [0, 1)."""
    if not _number(value) or not 0 <= value < 1:
        raise ValueProblem(f"{name} must be in [0, 1)", shown(value), "Usual values are 0.9 and 0.999.")
    return float(value)


def _number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
