"""The gradient split by how many branches it passed: 2^K paths, counted by length.

At every step the Jacobian is a sum, J = S + B: S along the skip (the branch's output held fixed), B through the branch
(the skip held fixed). Walking back, the part that passed k branches is

    g_k ← g_k S + g_{k-1} B

which is exact, takes one backward pass per step and length, and adds up to the whole gradient. In Pre-Norm S = I and
B = J_F·J_LN; in Post-Norm S = J_LN and B = J_LN·J_F. Source of the path view: Veit, Wilber & Belongie 2016,
arXiv:1605.06431.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np

from minires.messages import ValueProblem
from minires.nn import Context
from minires.probes.picture import curves
from minires.probes.running import Seen, as_input, seen_through, stack_of
from minires.tensor import Tensor, grad

Parts = tuple[Tensor, ...]
Gradients = list[np.ndarray]


@dataclass(frozen=True)
class Paths:
    """norms[k]: ‖gradient at x_0 that passed exactly k branches‖, (K + 1,). total: ‖whole gradient at x_0‖.

    gradients: the parts themselves, (K + 1, …), which add up to the whole.
    """

    norms: np.ndarray
    total: float
    gradients: np.ndarray

    @property
    def shares(self) -> np.ndarray:
        """norms²/Σ norms²: how the energy is spread over lengths, as if lengths did not interfere."""
        return self.norms**2 / np.sum(self.norms**2)

    @property
    def counts(self) -> np.ndarray:
        """Which share of the 2^K paths has each length."""
        K = len(self.norms) - 1
        return np.array([comb(K, k) / 2**K for k in range(K + 1)])

    @property
    def per_path(self) -> np.ndarray:
        """Size of one path of each length if the paths of a length did not interfere, norms/√(number of paths)."""
        K = len(self.norms) - 1
        return self.norms / np.sqrt([float(comb(K, k)) for k in range(K + 1)])

    def draw(self) -> Any:
        series = {"gradient": self.shares, "number of paths": self.counts}
        return curves(series, xlabel="branches on the path", ylabel="share", title="Which paths the gradient takes")


def path_gradients(model: Any, inputs: Any, targets: Any = None, *, seed: int = 0) -> Paths:
    """Exact split of ∂L/∂x_0 by path length. Without targets the loss is ⟨R, output⟩ with a fixed random R.

    For a rule that joins two sublayers at once, a branch is the pair. Cost: K²/2 backward passes through one sublayer.
    """
    tape = _taped(model, inputs, targets, seed)
    rows: list[Gradients] = [tape.top]
    for step in reversed(tape.steps):
        passed = [step.skip(g) for g in rows] + [step.zeros()]
        through = [step.zeros()] + [step.branch(g) for g in rows]
        rows = [[a + b for a, b in zip(p, t)] for p, t in zip(passed, through)]
    found = np.array([tape.bottom(g) for g in rows])
    return Paths(_sizes(found), float(np.linalg.norm(found.sum(0))), found)


@dataclass(frozen=True)
class SampledPaths:
    """One random path per draw: length k, and the norm of the gradient that took it. norms: (lengths, draws)."""

    lengths: np.ndarray
    norms: np.ndarray

    def draw(self) -> Any:
        series = {"median": np.median(self.norms, 1), "largest": self.norms.max(1)}
        options: dict[str, Any] = dict(xlabel="branches on the path", ylabel="gradient at x_0", log=True)
        return curves(series, title="Single paths", x=self.lengths, **options)


def sampled_paths(
    model: Any, inputs: Any, targets: Any = None, *, lengths: Any = None, draws: int = 10, seed: int = 0
) -> SampledPaths:
    """Veit's own measurement: for k branches chosen at random the gradient goes only through them, else only past.

    lengths: the k to draw; all of them if left out. Raises ValueProblem for a k beyond the number of steps.
    """
    tape = _taped(model, inputs, targets, seed)
    K, rng = len(tape.steps), np.random.default_rng([seed, 2])
    lengths = np.arange(K + 1) if lengths is None else np.asarray(lengths)
    if lengths.size == 0 or lengths.min() < 0 or lengths.max() > K:
        raise ValueProblem(f"a path has 0 to {K} branches", f"lengths={lengths.tolist()}", "One per step of the stack.")
    chosen = [[set(rng.permutation(K)[:k].tolist()) for _ in range(draws)] for k in lengths]
    return SampledPaths(lengths, np.array([[_walk(tape, path) for path in paths] for paths in chosen]))


def _walk(tape: _Tape, through: set[int]) -> float:
    g = tape.top
    for i, step in reversed(list(enumerate(tape.steps))):
        g = step.branch(g) if i in through else step.skip(g)
    return float(np.linalg.norm(tape.bottom(g)))


def _sizes(parts: np.ndarray) -> np.ndarray:
    return np.linalg.norm(parts.reshape(len(parts), -1).astype(np.float64), axis=1)


# ------------------------------------------------------------------------------------- every step with its own graphs


@dataclass(frozen=True)
class _Step:
    """One step of the rule, twice: once with only the skip attached to `start`, once with only the branch."""

    start: Parts
    by_skip: Parts
    by_branch: Parts

    def skip(self, g: Gradients) -> Gradients:
        return _pull(self.by_skip, self.start, g)

    def branch(self, g: Gradients) -> Gradients:
        return _pull(self.by_branch, self.start, g)

    def zeros(self) -> Gradients:
        return [np.zeros(part.shape, part.dtype) for part in self.start]


class _Tape(Seen):
    """A connection that keeps every step's graphs apart, so that each can be walked back alone, many times."""

    def __init__(self, connection: Any):
        super().__init__(connection)
        self.steps: list[_Step] = []
        self.top: Gradients = []

    def open(self, x: Tensor) -> Any:
        self.x = _leaf(x)
        self.opened = self.connection.open(self.x)
        return self.opened

    def step(self, stream: Any, site: Any, *F: Callable) -> Any:
        start, outputs = _map(stream, _leaf), []

        def spy(branch: Callable) -> Callable:
            return lambda h: outputs.append(branch(h)) or outputs[-1]

        whole = self.connection.step(start, site, *map(spy, F))
        fixed = [lambda h, f=f: f.detach() for f in outputs]
        live = [lambda h, f=f: f for f in outputs]
        by_skip = self.connection.step(start, site, *fixed)
        by_branch = self.connection.step(_map(start, Tensor.detach), site, *live)
        self.steps.append(_Step(_parts(start), _parts(by_skip), _parts(by_branch)))
        return _map(whole, Tensor.detach)

    def close(self, stream: Any) -> Tensor:
        self.last = _map(stream, _leaf)
        return self.connection.close(self.last)

    def bottom(self, g: Gradients) -> np.ndarray:
        """From the gradient at the opened stream to the one at what entered the stack."""
        return _pull(_parts(self.opened), (self.x,), g)[0]


def _taped(model: Any, inputs: Any, targets: Any, seed: int) -> _Tape:
    """One forward pass, step by step, and the gradient at the last stream."""
    tape = _Tape(stack_of(model).connection)
    twin, ctx = seen_through(model, tape), Context(rng=np.random.default_rng(seed))
    if targets is not None:
        out = twin.loss(as_input(inputs), targets, ctx)
        upstream = np.ones(out.shape, out.dtype)
    else:
        out = twin(as_input(inputs), ctx=ctx)
        upstream = np.random.default_rng([seed, 1]).standard_normal(out.shape).astype(out.dtype)
    tape.top = grad(out, _parts(tape.last), upstream, retain_graph=True)
    return tape


def _pull(outputs: Parts, inputs: Parts, g: Gradients) -> Gradients:
    """Σ_i g_i ∂output_i/∂inputs; zeros for what the outputs do not depend on."""
    attached = [(o, gradient) for o, gradient in zip(outputs, g) if o.node is not None]
    total = [np.zeros(x.shape, x.dtype) for x in inputs]
    for output, gradient in attached:
        for i, part in enumerate(grad(output, inputs, gradient, retain_graph=True)):
            total[i] = total[i] + part
    return total


def _leaf(x: Tensor) -> Tensor:
    return Tensor(x.data, requires_grad=True)


def _parts(stream: Any) -> Parts:
    return (stream,) if isinstance(stream, Tensor) else tuple(stream)


def _map(stream: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """The function of every part. A tensor that stands in two places becomes two: each place has its own gradient."""
    return function(stream) if isinstance(stream, Tensor) else tuple(function(part) for part in stream)
