"""Gradient norms layer by layer, and how much of each came through the skip path.

With row vectors, a gradient g' at x_{l+1} becomes g at x_l:

    Post-Norm  g = g'·J_LN·(I + J_F)        Pre-Norm  g = g'·(I + J_F·J_LN)

The *skip path* is what remains when every branch's backward pass is set to zero (J_F = 0): a product of J_LN's in
Post-Norm, and exactly g' in Pre-Norm. The *branches* are the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from minires.messages import ValueProblem
from minires.nn import Context, Module
from minires.nn.layers import layernorm_jacobian
from minires.tensor import Node, Tensor, backpropagate, no_grad, reachable

__all__ = [
    "Decomposition", "GradientFlow", "gradient_flow", "inverse_size_product", "layernorm_jacobian", "record",
    "skip_branch_decomposition", "skip_path_product", "state_gradients",
]  # fmt: skip

Loss = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class GradientFlow:
    """Norms of one backward pass.

    states: ‖∂L/∂x_l‖ for x_0 … x_K, (K + 1,). parameters: ‖∂L/∂W‖ by name. layers: the norm of all gradients of
    sublayer k's parameters, (K,). labels: "0 attention", "1 ffn", …, one per sublayer.
    """

    states: np.ndarray
    parameters: dict[str, float]
    layers: np.ndarray
    labels: list[str]

    @property
    def relative(self) -> np.ndarray:
        """‖∂L/∂x_l‖ / ‖∂L/∂x_K‖: what people plot. Look at `states` too: the last one can be tiny."""
        return self.states / self.states[-1]


@dataclass(frozen=True)
class Decomposition:
    """Three columns over x_0 … x_K, each (K + 1,), and a fourth to compare.

    total: ‖g‖. skip: ‖g_skip‖, every branch's backward pass set to zero. branches: ‖g - g_skip‖.
    difference: ‖g‖ - ‖g_skip‖, which is smaller than `branches` unless the two parts point the same way.
    """

    total: np.ndarray
    skip: np.ndarray
    branches: np.ndarray

    @classmethod
    def of(cls, total: list[np.ndarray], skip: list[np.ndarray]) -> Decomposition:
        """From the gradients at every state, whole and through the skip path alone."""
        columns = [total, skip, [g - s for g, s in zip(total, skip)]]
        return cls(*(np.array([_norm(g) for g in column]) for column in columns))

    @property
    def difference(self) -> np.ndarray:
        return self.total - self.skip


def gradient_flow(
    model: Module, inputs: Any, targets: Any = None, *, loss: Loss | None = None, seed: int = 0
) -> GradientFlow:
    """Norms of the gradients at every state of the stream and of every parameter.

    The loss is the model's own cross-entropy if `targets` are given, `loss(output)` if that is given, and else
    ⟨R, output⟩ with a fixed random R of unit rms (from `seed`). Nothing in the model changes, no `.grad` either.
    Dropout is as the model's mode says, with numbers from `seed`.

    Raises ValueProblem for a loss that the last norm makes constant (the sum or the mean square of a normalised
    output): its gradients are rounding errors, and every ratio of them is noise.
    """
    states, parameters = _pass(model, inputs, targets, loss, seed)
    norms = {name: _norm(g) for name, g in parameters.items()}
    stack = _stack(model)
    layers = np.zeros(len(stack.sites))
    for name, size in norms.items():
        if at := re.search(r"(?:^|\.)sublayers\.(\d+)\.", name):
            layers[int(at[1])] = np.hypot(layers[int(at[1])], size)
    labels = [f"{site.k} {site.kind}" for site in stack.sites]
    return GradientFlow(np.array([_norm(g) for g in states]), norms, layers, labels)


def skip_branch_decomposition(
    model: Module, inputs: Any, targets: Any = None, *, loss: Loss | None = None, seed: int = 0
) -> Decomposition:
    """Total, skip path alone, branches alone, at every state. Arguments and errors as in `gradient_flow`."""
    total = state_gradients(model, inputs, targets, loss=loss, seed=seed)
    return Decomposition.of(total, state_gradients(model, inputs, targets, loss=loss, seed=seed, skip_only=True))


def state_gradients(
    model: Module, inputs: Any, targets: Any = None, *, loss: Loss | None = None, seed: int = 0, skip_only: bool = False
) -> list[np.ndarray]:
    """∂L/∂x_0 … ∂L/∂x_K themselves, each (B, T, d); with skip_only, every branch's backward pass is zero.

    Other arguments and errors as in `gradient_flow`.
    """
    return _pass(model, inputs, targets, loss, seed, _forward_only if skip_only else None)[0]


def _forward_only(site: Any, F: Callable) -> Callable:
    """The branch with the same output and no backward pass."""
    return lambda h: F(h).detach()


def _norm(g: np.ndarray) -> float:
    return float(np.linalg.norm(g.astype(np.float64, copy=False)))


# --------------------------------------------------------------------------------------------- one backward pass


def _pass(
    model: Module, inputs: Any, targets: Any, loss: Loss | None, seed: int, wrap: Callable | None = None
) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """The gradients at x_0 … x_K and of every parameter that the loss depends on."""
    ctx = Context(rng=np.random.default_rng(seed), wrap=wrap, trace=[])
    root, cotangent = _root(model, _differentiable(inputs), targets, loss, seed, ctx)
    last_norm = _last_norm(root)
    states = [x.node for x in ctx.trace or []]
    for node in filter(None, [*states, last_norm and last_norm[0]]):
        node.keeps_grad = True
    found = dict(backpropagate(root, cotangent))
    if last_norm:
        _refuse_constant_loss(*last_norm, found)
    if not states or any(node not in found for node in states):
        raise ValueProblem(
            "gradient norms by layer need states x_0 … x_K that the loss depends on",
            f"{sum(node in found for node in states)} such states of {len(states)}",
            "This rule does not carry its stream in one tensor: look at the gradients of its parameters instead.",
        )
    wanted = [(name, p.node) for name, p in model.named_parameters() if p.node is not None]
    return [found[node] for node in states if node], {name: found[node] for name, node in wanted if node in found}


def _differentiable(inputs: Any) -> Any:
    """Floating-point inputs as a leaf, so that x_0 has a gradient even where no embedding comes before it."""
    data = inputs.data if isinstance(inputs, Tensor) else np.asarray(inputs)
    return Tensor(data, requires_grad=True) if data.dtype.kind == "f" else inputs


def _root(model, inputs, targets, loss, seed, ctx) -> tuple[Node, np.ndarray]:
    """Where the backward pass starts, and with what."""
    if targets is not None:
        out = model.loss(inputs, targets, ctx)
    else:
        out = model(inputs, ctx=ctx)
        out = loss(out) if loss else out
    if out.node is None or (loss and out.size != 1):
        raise ValueProblem("a loss must be one number that depends on the model", repr(out)[:60], "Take a mean.")
    if targets is not None or loss:
        return out.node, np.ones(out.shape, out.dtype)
    return out.node, np.random.default_rng([seed, 1]).standard_normal(out.shape).astype(out.dtype)


# ------------------------------------------------------------------------------------ losses that show nothing


def _last_norm(root: Node) -> tuple[Node, Any] | None:
    """The newest normalisation that the loss depends on, with what it saved; None if there is none."""
    norms = [node for node in reachable(root) if node.op and node.op.name in ("layernorm", "rmsnorm")]
    return (norms[-1], norms[-1].saved) if norms else None


def _refuse_constant_loss(node: Node, saved: Any, found: dict[Node, np.ndarray]) -> None:
    """Raise if the gradient at the norm's output lies in the directions that the norm maps to zero.

    Those are 1 and x̂ for LayerNorm and x̂ for RMSNorm, on the gradient times γ.
    """
    xhat, _, gamma = saved[:3]
    g = found.get(node)
    if g is None or not (size := _norm(g if gamma is None else g * gamma)):
        return
    u = (g if gamma is None else g * gamma).astype(np.float64)
    centre = node.op.name == "layernorm"  # type: ignore[union-attr]
    rest = u - u.mean(-1, keepdims=True) if centre else u
    length2 = np.maximum((xhat * xhat).sum(-1, keepdims=True), 1e-300)
    rest = rest - xhat * ((rest * xhat).sum(-1, keepdims=True) / length2)
    if _norm(rest) < 1e3 * np.finfo(node.dtype).eps * size:
        what = "sum or the mean square" if centre else "mean square"
        raise ValueProblem(
            f"a loss must depend on what comes before the last norm; the {what} of a normalised output is a constant",
            f"a gradient of which a share of {_norm(rest) / size:.0e} passes the norm: the rest of the way is rounding",
            "Give targets for the cross-entropy, or leave `loss` out for a fixed random direction.",
        )


# ------------------------------------------------------------------------------------- the skip path by hand


def record(model: Module, inputs: Any, *, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The states x_0 … x_K and the branch outputs F_0 … F_{K-1} of one forward pass, as arrays."""
    branches: list[np.ndarray] = []

    def spy(site: Any, F: Callable) -> Callable:
        def branch(h: Tensor) -> Tensor:
            f = F(h)
            branches.append(f.data)
            return f

        return branch

    ctx = Context(rng=np.random.default_rng(seed), wrap=spy, trace=[])
    with no_grad():
        model(_differentiable(inputs), ctx=ctx)
    return [x.data for x in ctx.trace or []], branches


def skip_path_product(model: Module, inputs: Any, gradient: np.ndarray, rows: int | None = None) -> list[np.ndarray]:
    """The skip path's gradient at x_0 … x_K as an explicit product of Jacobians, token by token.

    gradient: ∂L/∂x_K, (…, d). Every factor is the connection's own `jacobian` with J_F = 0, so this checks the
    backward pass with another piece of code. rows: only the first so many tokens. Each result is (rows, d).
    """
    stack, (states, branches) = _stack(model), record(model, inputs)
    d, zero = gradient.shape[-1], np.zeros((gradient.shape[-1],) * 2)
    g = gradient.reshape(-1, d)[:rows]  # (rows, d)
    path = [g]
    for x, f, site in reversed(list(zip(states[:-1], branches, stack.sites))):
        tokens = zip(g, x.reshape(-1, d), f.reshape(-1, d))
        g = np.array([g_t @ stack.connection.jacobian(x_t, site, zero, f_t) for g_t, x_t, f_t in tokens])
        path.append(g)
    return path[::-1]


def inverse_size_product(states: list[np.ndarray], branches: list[np.ndarray], gradient: np.ndarray) -> np.ndarray:
    """‖∂L/∂x_K‖·∏ 1/s from every state to the end, (K + 1,): Post-Norm's skip path if J_LN only divided by s.

    states, branches: from `record`. gradient: ∂L/∂x_K. s is the standard deviation of x + F(x) at each token, and
    each token counts with its own gradient. The true skip path is smaller: each J_LN also removes two of d directions.
    """
    s = np.array([np.std(x + f, axis=-1, dtype=np.float64) for x, f in zip(states, branches)])  # (K, B, T)
    shrink = np.cumprod(np.concatenate([np.ones_like(s[:1]), 1 / s[::-1]]), axis=0)[::-1]  # (K + 1, B, T)
    return np.sqrt(np.sum((shrink * np.linalg.norm(gradient, axis=-1)) ** 2, axis=(1, 2)))


def _stack(model: Any) -> Any:
    """The stack of a model: its attribute `stack`, or the model itself."""
    return getattr(model, "stack", model)
