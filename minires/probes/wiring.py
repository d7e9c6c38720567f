"""What a block is, found out by running it: which value goes where, whatever the code looks like.

Wrong wiring passes every gradient check and every shape test, because each wrong block is a fine function with a right
derivative. So the norms and the branches are replaced by spies. A spy writes down what it was given and returns a fixed
random array that nothing else in the block has. Random arrays are independent, so every value in the block is a sum
of such arrays in one way only, and least squares finds the coefficients. From them the block's equation can be read:

    attention got norm1, ffn got norm2, norm2 got x + attention, the result is x + attention + ffn: Pre-Norm.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from minires.messages import ValueProblem
from minires.nn.layers import NORMS
from minires.nn.module import Module, Parameter
from minires.probes.verdicts import OTHER, Call, Evidence, Sum, Wiring, judge
from minires.tensor import Tensor, no_grad

BRANCHES, NORM_NAMES = ("attention", "ffn"), ("norm1", "norm2")
Norm = tuple(NORMS.values())

# ------------------------------------------------------------------------------------------------------- tracing


class Tracer:
    """Makes spies, and writes every value as a sum of x and of what the spies returned."""

    def __init__(self, x: np.ndarray, rng: np.random.Generator):
        self.rng, self.calls = rng, []
        self.atoms: dict[str, np.ndarray] = {"x": x.copy()}

    def spy(self, name: str) -> Callable:
        """A function that takes whatever a branch or a norm takes; only its first argument counts."""

        def called(h: Any, *args: Any, **options: Any) -> Any:
            again = sum(call.who == name for call in self.calls)
            label = name + "'" * again
            self.calls.append(Call(label, self.read(h)))
            self.atoms[label] = self.rng.standard_normal(np.shape(_array(h)))
            fresh = self.atoms[label].copy()
            return Tensor(fresh) if isinstance(h, Tensor) else fresh

        return called

    def read(self, value: Any) -> Sum:
        """The coefficients of a value, small ones left out; OTHER is the share that is no such sum."""
        array = np.asarray(_array(value), dtype=np.float64)
        atoms = {name: atom for name, atom in self.atoms.items() if atom.shape == array.shape}
        if not atoms:
            return {OTHER: 1.0}
        matrix = np.stack([atom.ravel() for atom in atoms.values()], axis=1)  # (size, atoms)
        weights = np.linalg.lstsq(matrix, array.ravel(), rcond=None)[0]
        rest = np.linalg.norm(array.ravel() - matrix @ weights) / max(np.linalg.norm(array), 1e-30)
        found = {name: round(float(w), 6) for name, w in zip(atoms, weights) if abs(w) > 1e-6}
        return found | ({OTHER: round(float(rest), 6)} if rest > 1e-6 else {})


def _array(value: Any) -> np.ndarray:
    return value.data if isinstance(value, Tensor) else np.asarray(value)


def wiring(block: Callable, *, tensors: bool = False, shape: tuple[int, ...] = (2, 4, 16), seed: int = 0) -> Wiring:
    """Find out what `block(x, attention, ffn, norm1, norm2)` is. It is run once.

    tensors: give it a Tensor instead of an array. shape: of x; it needs more numbers than the block has steps.
    Errors that the block itself raises come through.
    """
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    tracer = Tracer(x, rng)
    spies = [tracer.spy(name) for name in (*BRANCHES, *NORM_NAMES)]
    with no_grad():
        result = block(Tensor(x) if tensors else x, *spies)
    if result is None:
        raise ValueProblem("a block must return the new stream", "None", "Is the last line `return …` missing?")
    changed = not np.array_equal(x, tracer.atoms["x"])
    return judge(Evidence(tracer.calls, tracer.read(result), BRANCHES, NORM_NAMES, changed))


def wiring_of(model: Module, block: int = 0) -> Wiring:
    """What two sublayers of a model are, from block `block` on: its connection is run on spies.

    Its norms are spies too, and every gate is set to 0.5, so that a gate which starts at 0 does not hide its branch.
    """
    stack: Any = getattr(model, "stack", model)
    first = next(site.k for site in stack.sites if site.block == block)
    sites = stack.sites[first : first + 2]
    names = BRANCHES if sites[0].kind == "attention" else ("first", "second")[: len(sites)]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 4, stack.connection.d))
    tracer = Tracer(x, rng)
    connection, F = _with_spies(stack.connection, tracer), [tracer.spy(name) for name in names]
    with no_grad():
        stream = connection.open(Tensor(x))
        for k in range(0, len(sites), connection.arity):
            stream = connection.step(stream, sites[k], *F[k : k + connection.arity])
        result = tracer.read(connection.read(stream))
    return judge(_renamed(Evidence(tracer.calls, result, names)))


def _with_spies(connection: Module, tracer: Tracer) -> Any:
    """A copy of the connection in which every norm is a spy, and every gate is 0.5."""
    twin: Any = copy.deepcopy(connection)
    for module in list(twin.modules()):
        for name, value in vars(module).items():
            if isinstance(value, Norm):
                setattr(module, name, tracer.spy(f"{name}"))
            elif isinstance(value, list):
                spied = [tracer.spy(f"{name}.{i}") if isinstance(v, Norm) else v for i, v in enumerate(value)]
                setattr(module, name, spied)
    for parameter in twin.parameters():
        if isinstance(parameter, Parameter) and parameter.kind == "gate":
            parameter.data[...] = 0.5
    return twin


def _renamed(evidence: Evidence) -> Evidence:
    """The model's norms as norm1, norm2, … in the order in which they were first used."""
    norms = dict.fromkeys(call.who for call in evidence.calls if call.who not in evidence.branches)
    names = {old: f"norm{i + 1}" for i, old in enumerate(norms)}

    def new(label: str) -> str:
        who = label.rstrip("'")
        return names.get(who, who) + "'" * (len(label) - len(who))

    def renamed(total: Sum) -> Sum:
        return {new(name): weight for name, weight in total.items()}

    calls = [Call(new(call.name), renamed(call.given)) for call in evidence.calls]
    return Evidence(calls, renamed(evidence.result), evidence.branches)
