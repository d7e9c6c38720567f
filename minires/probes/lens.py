"""The logit lens: what the model would say if it stopped after layer l."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minires.messages import ValueProblem
from minires.probes.picture import curves
from minires.probes.running import (
    cross_entropy,
    forward,
    log_softmax,
    norm_of,
    rule_name,
    single_stream,
    stack_of,
    unembedding,
)
from minires.tensor import Tensor, no_grad


@dataclass(frozen=True)
class Lens:
    """Over x_0 … x_K, (K + 1,), means over tokens.

    agreement: share of tokens whose most likely symbol is already the final one. final_probability: p_l of that
    symbol. kl: KL(p_K ‖ p_l) in nats. cross_entropy: with the targets, None without. logits: (K + 1, …, V).
    """

    agreement: np.ndarray
    final_probability: np.ndarray
    kl: np.ndarray
    cross_entropy: np.ndarray | None
    logits: np.ndarray

    def draw(self) -> Any:
        series = {"same first choice": self.agreement, "probability of the final choice": self.final_probability}
        return curves(series, xlabel="state l", ylabel="share", title="Logit lens")


def logit_lens(model: Any, inputs: Any, targets: Any = None) -> Lens:
    """p_l = softmax(LN_f(x_l) W_U + b_U), the norm's statistics computed anew at every layer.

    A rule without a final norm (Post-Norm, ReZero) is read directly. Raises ValueProblem where x_K read like this is
    not the model's own output: then the states are not what the head reads. Source: nostalgebraist 2020.
    """
    W, b = unembedding(model)
    run = forward(model, inputs)
    logits = np.array([tail(model, x) @ W + b for x in run.states])
    wrong = float(norm_of(logits[-1] - run.output, None) / max(norm_of(run.output, None), 1e-300))
    if wrong > 1e-2:
        raise ValueProblem(
            "a logit lens needs a rule whose output is computed from the state x_K alone",
            f"{rule_name(model)}: logits from x_K miss the model's by {wrong:.0%}",
            "This rule closes several streams at once; one of them alone says too little.",
        )
    logp = log_softmax(logits)
    final = logits[-1].argmax(-1)
    rows = tuple(range(1, final.ndim + 1))
    chosen = np.take_along_axis(np.exp(logp), np.broadcast_to(final[..., None], (len(logp), *final.shape, 1)), -1)
    return Lens(
        np.mean(logits.argmax(-1) == final, axis=rows),
        chosen[..., 0].mean(rows),
        np.mean((np.exp(logp[-1]) * (logp[-1] - logp)).sum(-1), axis=rows),
        None if targets is None else np.array([cross_entropy(z, targets) for z in logits]),
        logits,
    )


def tail(model: Any, x: np.ndarray) -> np.ndarray:
    """From a state to what the head reads: the rule's `close`, or only its final norm if it closes several streams."""
    connection = stack_of(model).connection
    with no_grad():
        norm = connection.close if single_stream(model, x) else getattr(connection, "final_norm", lambda state: state)
        return norm(Tensor(x)).data
