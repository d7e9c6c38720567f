"""Forward passes for instruments: with every number kept, with something changed, with the stack taken apart.

Nothing in the model changes. A changed stream or another order of sublayers is a shallow copy of the model whose
weights are the same arrays.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minires.messages import ShapeError, ValueProblem, shown
from minires.nn import Context
from minires.nn.layers import LayerNorm, RMSNorm
from minires.tensor import Tensor, no_grad

Change = Callable[[Any, np.ndarray], np.ndarray]  # (site, the branch's output) → what takes its place


@dataclass(frozen=True)
class Pass:
    """One forward pass. output: what the model returned. states: x_0 … x_K. read: what each sublayer was given.

    written: what each sublayer returned. A rule that joins two sublayers at once has a state per pair.
    """

    output: np.ndarray
    states: list[np.ndarray]
    read: list[np.ndarray]
    written: list[np.ndarray]


def forward(model: Any, inputs: Any, change: Change | None = None, seed: int = 0) -> Pass:
    """Run once without a graph. change: replaces what a sublayer returns. Dropout as the model's mode says."""
    read: list[np.ndarray] = []
    written: list[np.ndarray] = []

    def spy(site: Any, F: Callable) -> Callable:
        def branch(h: Tensor) -> Tensor:
            f = F(h).data
            f = f if change is None else np.asarray(change(site, f), f.dtype)
            read.append(h.data)
            written.append(f)
            return Tensor(f)

        return branch

    ctx = Context(rng=np.random.default_rng(seed), wrap=spy, trace=[])
    with no_grad():
        output = model(as_input(inputs), ctx=ctx).data
    return Pass(output, [x.data for x in ctx.trace or []], read, written)


def as_input(inputs: Any) -> Any:
    """Floating-point inputs as a tensor (a bare stack needs one); token ids as they are."""
    data = inputs.data if isinstance(inputs, Tensor) else np.asarray(inputs)
    return Tensor(data) if data.dtype.kind == "f" else data


def stack_of(model: Any) -> Any:
    """The stack of a model: its attribute `stack`, or the model itself."""
    return getattr(model, "stack", model)


def labels(model: Any) -> list[str]:
    """ "0 attention", "1 ffn", …: one per sublayer."""
    return [f"{site.k} {site.kind}" for site in stack_of(model).sites]


def cross_entropy(logits: np.ndarray, targets: Any) -> float:
    """Mean over the places whose target is not negative, in nats. Raises ShapeError if the shapes do not fit."""
    targets = np.asarray(targets)
    if targets.shape != logits.shape[:-1]:
        raise ShapeError(f"targets must be {logits.shape[:-1]}, one per output row", shown(targets), "Transpose?")
    logp = log_softmax(logits)[targets >= 0]  # (asked, V)
    return float(-np.mean(np.take_along_axis(logp, targets[targets >= 0][:, None], -1)))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    z = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def norm_of(x: np.ndarray, axis: int | None = -1) -> np.ndarray:
    """‖x‖ along an axis in float64."""
    return np.linalg.norm(x.astype(np.float64, copy=False), axis=axis)


# ----------------------------------------------------------------------------------- the same weights, run differently


class Seen:
    """A connection seen through an instrument: what is not redefined here is the connection's own."""

    def __init__(self, connection: Any):
        self.connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


class Streamed(Seen):
    """Every carried state passes `change(array) → array` before the next sublayer sees it."""

    def __init__(self, connection: Any, change: Callable[[np.ndarray], np.ndarray]):
        super().__init__(connection)
        self.change = change

    def open(self, x: Tensor) -> Any:
        return each(self.connection.open(x), lambda part: Tensor(self.change(part.data)))

    def step(self, stream: Any, site: Any, *F: Callable) -> Any:
        return each(self.connection.step(stream, site, *F), lambda part: Tensor(self.change(part.data)))


def each(stream: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """The function of every tensor that the stream consists of."""
    return function(stream) if isinstance(stream, Tensor) else tuple(function(part) for part in stream)


def seen_through(model: Any, connection: Any) -> Any:
    """The same model under another connection object."""
    stack = copy.copy(stack_of(model))
    stack.connection = connection
    return _with_stack(model, stack)


def rearranged(model: Any, order: Sequence[int]) -> Any:
    """The same model with only the steps in `order`, in that order; the others are left out, stream unchanged.

    A step is one sublayer, or as many as the rule joins at once. Every step keeps its norms, gates and weights.
    """
    stack = copy.copy(stack_of(model))
    arity = stack.connection.arity
    chosen = [step * arity + i for step in order for i in range(arity)]
    stack.sites, stack.sublayers = [stack.sites[k] for k in chosen], [stack.sublayers[k] for k in chosen]
    return _with_stack(model, stack)


def steps_of(model: Any) -> int:
    """How many steps the stack takes."""
    stack = stack_of(model)
    return len(stack.sites) // stack.connection.arity


def _with_stack(model: Any, stack: Any) -> Any:
    if stack_of(model) is model:
        return stack
    twin = copy.copy(model)
    twin.stack = stack
    return twin


# ------------------------------------------------------------------------------------- what an instrument may ask for


def enter(model: Any, inputs: Any, seed: int = 0) -> tuple[np.ndarray, Context]:
    """What enters the stack, (B, T, d), and a context with the model's own mask, to run the stack by itself."""
    seen: list[Tensor] = []

    class Door(Seen):
        def open(self, x: Tensor) -> Any:
            seen.append(x)
            return self.connection.open(x)

    ctx = Context(rng=np.random.default_rng(seed))
    with no_grad():
        seen_through(model, Door(stack_of(model).connection))(as_input(inputs), ctx=ctx)
    return seen[0].data, Context(mask=ctx.mask, rng=np.random.default_rng(seed))


def single_stream(model: Any, x: np.ndarray) -> bool:
    """Whether the rule carries one tensor shaped like x."""
    with no_grad():
        stream = stack_of(model).connection.open(Tensor(x))
    return isinstance(stream, Tensor) and stream.shape == x.shape


def require_one_stream(model: Any, x: np.ndarray, what: str) -> None:
    """Raise ValueProblem unless the rule carries one tensor shaped like x."""
    if not single_stream(model, x):
        with no_grad():
            stream = stack_of(model).connection.open(Tensor(x))
        carried = f"one tensor {stream.shape}" if isinstance(stream, Tensor) else f"{len(stream)} tensors or more"
        raise ValueProblem(
            f"{what} needs a rule with a single stream shaped like its input, {x.shape}",
            f"{rule_name(model)}, which carries {carried}",
            "Several streams are mixed on the way, so no sum of what was written is what is read at the end.",
        )


def require_additive(model: Any, x: np.ndarray, ctx: Context, what: str) -> None:
    """Raise ValueProblem unless the stream is a plain sum: x_l passes on to x_{l+1} unchanged, whatever it is.

    Found out by running: with every branch's output frozen, a shift of x_0 must arrive as the same shift everywhere.
    """
    require_one_stream(model, x, what)
    rng = np.random.default_rng(0)
    size = float(np.std(x))
    shift = (size * rng.standard_normal(x.shape)).astype(x.dtype)
    here, there = (frozen_states(model, start, ctx, size) for start in (x, x + shift))
    first = there[0] - here[0]
    worst = max(float(norm_of(b - a - first, None) / norm_of(first, None)) for a, b in zip(here, there))
    if worst > 1e-3:
        raise ValueProblem(
            f"{what} needs a stream that is the sum of what was written to it, x_0 + Σ F",
            f"{rule_name(model)}, where a shift of x_0 arrives {worst:.0%} different",
            "Here a norm or a gate rescales the whole stream after every sublayer; use Pre-Norm, or look at ablations.",
        )


def write(stack: Any, x: np.ndarray, k: int, f: np.ndarray) -> np.ndarray:
    """What reaches the stream if sublayer k returns f: step(x, F = f) - step(x, F = 0), in float64.

    Under a rule that joins two sublayers at once, the other one returns 0.
    """
    first = k - k % stack.connection.arity
    start, zero = Tensor(x.astype(np.float64)), np.zeros_like(f)

    def stepped(output: np.ndarray) -> np.ndarray:
        outputs = [output if j == k else zero for j in range(first, first + stack.connection.arity)]
        branches = [lambda h, out=out: Tensor(out) for out in outputs]
        return stack.connection.step(start, stack.sites[first], *branches).data

    with no_grad():
        return stepped(f) - stepped(zero)


def frozen_states(model: Any, x: np.ndarray, ctx: Context, size: float = 1.0) -> list[np.ndarray]:
    """The states if every branch returns a fixed random array, as large as `size`, whatever it reads."""
    fixed = np.random.default_rng(1)

    def wrap(site: Any, F: Callable) -> Callable:
        return lambda h: Tensor((size * fixed.standard_normal(h.shape)).astype(h.dtype))

    frozen = Context(mask=ctx.mask, rng=ctx.rng, wrap=wrap, trace=[])
    with no_grad():
        stack_of(model)(Tensor(x), frozen)
    return [state.data for state in frozen.trace or []]


def rule_name(model: Any) -> str:
    connection = stack_of(model).connection
    return f"{type(connection).__name__} ({connection.equation})"


@dataclass(frozen=True)
class FinalNorm:
    """A norm with its scale frozen, first of all the one in front of the head: y = (centre(x)·scale)·γ + β."""

    centred: bool
    scale: np.ndarray | float  # (B, T, 1)
    gamma: np.ndarray | float
    beta: np.ndarray | float

    def linear(self, x: np.ndarray) -> np.ndarray:
        """The linear part: what one component of the stream contributes to y, without β."""
        x = x.astype(np.float64)
        return (x - x.mean(-1, keepdims=True) if self.centred else x) * self.scale * self.gamma


def final_norm(model: Any, x: np.ndarray) -> FinalNorm:
    """The rule's final norm at the stream x, frozen there; the identity if it has none.

    Raises ValueProblem for a norm that is not a division by a size (DyT).
    """
    norm = getattr(stack_of(model).connection, "final_norm", None)
    return FinalNorm(False, 1.0, 1.0, 0.0) if norm is None else frozen_norm(norm, x)


def frozen_norm(norm: Any, x: np.ndarray) -> FinalNorm:
    """A norm with the scale that it has at x. Raises ValueProblem as `final_norm` does."""
    x = x.astype(np.float64)
    if isinstance(norm, LayerNorm):
        scale = 1 / np.sqrt(x.var(-1, keepdims=True) + norm.eps)
        return FinalNorm(True, scale, norm.gamma.data, norm.beta.data)
    if isinstance(norm, RMSNorm):
        return FinalNorm(False, 1 / np.sqrt((x * x).mean(-1, keepdims=True) + norm.eps), norm.gamma.data, 0.0)
    raise ValueProblem(
        "a norm can be frozen if it divides by one number per token",
        type(norm).__name__,
        "LayerNorm and RMSNorm do; tanh bends every entry by itself.",
    )


def unembedding(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """(W_U, b_U): logits = y W_U + b_U, (d, V) and (V,), for what the stack returns.

    Raises ValueProblem for a model without a head, or with more than a head behind its stack.
    """
    if hasattr(model, "transform"):
        raise ValueProblem(
            "reading logits off the stream needs a linear head right behind the stack",
            f"{type(model).__name__}, which has a dense layer with GELU and another norm before its head",
            "Use a DecoderLM or a DeepMLP.",
        )
    if hasattr(model, "head") and model.head is not None:
        bias = model.head.bias
        return model.head.weight.data, np.zeros(model.head.weight.shape[1]) if bias is None else bias.data
    if hasattr(model, "tokens"):
        return model.tokens.table.data.T, np.zeros(model.tokens.table.shape[0])
    raise ValueProblem("logits need a model with a head", type(model).__name__, "A bare stack has none.")
