"""Direct logit attribution: which part of the stream said how much of a logit."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from minires.messages import ValueProblem
from minires.nn import MultiHeadAttention
from minires.probes.heads import head_outputs
from minires.probes.picture import bars
from minires.probes.running import (
    Pass,
    enter,
    final_norm,
    forward,
    norm_of,
    require_additive,
    stack_of,
    unembedding,
    write,
)


@dataclass(frozen=True)
class Attribution:
    """names: the components. values: (components, …) contribution of each to the logit of `tokens`, (…).

    constant: what β of the final norm and the head's bias add, (…). logit: as the model computed it.
    """

    names: list[str]
    values: np.ndarray
    constant: np.ndarray
    tokens: np.ndarray
    logit: np.ndarray

    @property
    def error(self) -> float:
        """The largest difference between the sum of all parts and the logit.

        It is the rounding of the model's dtype, so judge it relative to the largest logit: near 1e-16 of it in
        float64 and 1e-7 in float32. `minires claims C16` measures both.
        """
        return float(np.max(np.abs(self.values.sum(0) + self.constant - self.logit)))

    def draw(self) -> Any:
        means = self.values.reshape(len(self.values), -1).mean(1)
        return bars(self.names, means, ylabel="mean share of the logit", title="Who wrote the logit")


def logit_attribution(model: Any, inputs: Any, tokens: Any = None, *, heads: bool = False) -> Attribution:
    """With the final norm's scale frozen, a logit is a sum over everything that was added to the stream:

        logit_t = Σ_c (centre(u_c)/s · γ)·W_U[:, t] + β·W_U[:, t] + b_U[t],    u_0 = x_0, u_k = x_k - x_{k-1}

    tokens: symbols t to explain, shaped like the rows of the logits; the most likely ones if left out. heads: every
    attention sublayer is split into its heads and its bias.
    Raises ValueProblem where the stream is no such sum: Post-Norm and its kin rescale it at every layer,
    Hyper-Connections and rules that look back have several streams; and for an Encoder's head, which is not linear.
    """
    W, b = unembedding(model)
    x, ctx = enter(model, inputs)
    require_additive(model, x, ctx, "direct logit attribution")
    run = forward(model, inputs)
    parts = _components(model, run, ctx.mask, heads)
    norm = final_norm(model, run.states[-1])
    tokens = run.output.argmax(-1) if tokens is None else np.asarray(tokens)
    direction = W.T[tokens].astype(np.float64)  # (…, d)
    values = np.array([(norm.linear(u) * direction).sum(-1) for u in parts.values()])
    constant = (norm.beta * direction).sum(-1) + b[tokens]
    logit = np.take_along_axis(run.output, tokens[..., None], -1)[..., 0]
    return Attribution(list(parts), values, constant, tokens, logit)


def _components(model: Any, run: Pass, mask: Any, heads: bool) -> dict[str, np.ndarray]:
    """What was added to the stream, by name; together exactly x_K."""
    stack, states = stack_of(model), [x.astype(np.float64) for x in run.states]
    arity, parts = stack.connection.arity, {"input": states[0]}
    for step, (x, y) in enumerate(itertools.pairwise(states)):
        group = slice(step * arity, (step + 1) * arity)
        name = " + ".join(f"{site.k} {site.kind}" for site in stack.sites[group])
        F = stack.sublayers[group.start]
        if heads and arity == 1 and isinstance(F, MultiHeadAttention):
            parts |= _by_head(model, run, group.start, name, y - x, mask)
        else:
            parts[name] = y - x
    return parts


def _by_head(model: Any, run: Pass, k: int, name: str, change: np.ndarray, mask: Any) -> dict[str, np.ndarray]:
    """One attention sublayer's change of the stream, head by head; what no head wrote is the bias."""
    stack = stack_of(model)
    pieces = head_outputs(stack.sublayers[k], run.read[k], mask)
    bias = run.written[k] - pieces.sum(0)
    written = [write(stack, run.states[k], k, piece) for piece in [*pieces, bias]]
    if norm_of(sum(written) - change, None) > 1e-3 * norm_of(change, None):
        raise ValueProblem(
            "heads can be told apart if the rule adds their sum, perhaps scaled",
            f"{type(stack.connection).__name__}, which bends it first (a norm behind the sublayer)",
            "Leave out heads=True.",
        )
    names = [*(f"{name} head {i}" for i in range(len(pieces))), f"{name} bias"]
    return dict(zip(names, written))
