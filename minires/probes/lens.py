"""The logit lens: what the model would say if it stopped after layer l; the tuned lens: after a learned correction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from minires import ops
from minires.messages import ValueProblem
from minires.nn import Parameter
from minires.probes.picture import curves
from minires.probes.running import (
    Pass,
    cross_entropy,
    forward,
    log_softmax,
    norm_of,
    rule_name,
    single_stream,
    stack_of,
    unembedding,
)
from minires.tensor import Tensor, grad, no_grad
from minires.train import AdamW


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

    def draw(self, title: str = "Logit lens") -> Any:
        series = {"same first choice": self.agreement, "probability of the final choice": self.final_probability}
        return curves(series, xlabel="state l", ylabel="share", title=title)


def logit_lens(model: Any, inputs: Any, targets: Any = None) -> Lens:
    """p_l = softmax(LN_f(x_l) W_U + b_U), the norm's statistics computed anew at every layer.

    A rule without a final norm (Post-Norm, ReZero) is read directly. Raises ValueProblem where x_K read like this is
    not the model's own output: then the states are not what the head reads. Source: nostalgebraist 2020.
    """
    return _lens(_logits(model, readable(model, inputs)), targets)


def readable(model: Any, inputs: Any) -> Pass:
    """A forward pass, once it is sure that x_K read by the final norm and the head is what the model says."""
    run = forward(model, inputs)
    last = _logits(model, run, only=-1)[0]
    wrong = float(norm_of(last - run.output, None) / max(norm_of(run.output, None), 1e-300))
    if wrong > 1e-2:
        raise ValueProblem(
            "a lens needs a rule whose output is computed from the state x_K alone",
            f"{rule_name(model)}: logits from x_K miss the model's by {wrong:.0%}",
            "This rule closes several streams at once; one of them alone says too little.",
        )
    return run


def _logits(model: Any, run: Pass, only: int | None = None) -> np.ndarray:
    """Every state, or only one, through the final norm and the head: (K + 1, …, V)."""
    W, b = unembedding(model)
    return np.array([tail(model, x) @ W + b for x in (run.states if only is None else [run.states[only]])])


def _lens(logits: np.ndarray, targets: Any) -> Lens:
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
    with no_grad():
        return closing(model, x)(Tensor(x)).data


def closing(model: Any, x: np.ndarray) -> Callable[[Tensor], Tensor]:
    connection = stack_of(model).connection
    return connection.close if single_stream(model, x) else getattr(connection, "final_norm", lambda state: state)


# ------------------------------------------------------------------------------------------------------ the tuned lens


@dataclass(frozen=True)
class TunedLens:
    """One affine map per state x_0 … x_{K-1}. weights: A, (K, d, d). biases: c, (K, d). losses: of every step."""

    model: Any
    weights: np.ndarray
    biases: np.ndarray
    losses: list[float]

    def read(self, inputs: Any, targets: Any = None) -> Lens:
        """What the corrected states say: p_l = softmax(LN_f(x_l A_l + c_l) W_U + b_U). Best on text not used to fit."""
        run = readable(self.model, inputs)
        maps = zip(run.states, self.weights, self.biases)  # the last state has no map: it needs no correction
        corrected = [(x @ A + c).astype(x.dtype) for x, A, c in maps]
        moved = Pass(run.output, [*corrected, run.states[-1]], run.read, run.written)
        return _lens(_logits(self.model, moved), targets)


def tuned_lens(model: Any, inputs: Any, steps: int = 200, lr: float = 3e-3) -> TunedLens:
    """Fit the maps on `inputs` by AdamW to the mean over l of KL(p_K ‖ p_l), from A = I and c = 0: the logit lens.

    A state that is the final one in other coordinates agrees after the map, where the logit lens sees nothing; what
    stays wrong is not known at layer l in any linear way. The model's own weights do not move. Raises ValueProblem as
    `logit_lens` does, and for fewer than one step. Source: Belrose et al. 2023, arXiv:2303.08112, eq. 7-8.
    """
    if steps < 1:
        raise ValueProblem("a lens is tuned in at least one step", f"steps={steps}", "Without any it is `logit_lens`.")
    run, (W, b) = readable(model, inputs), unembedding(model)
    d, close = run.states[0].shape[-1], closing(model, run.states[0])
    states = Tensor(np.array([x.reshape(-1, d) for x in run.states[:-1]]))  # (K, R, d)
    final = np.exp(log_softmax(run.output)).reshape(-1, run.output.shape[-1]).astype(states.dtype)  # (R, V)
    A = Parameter(np.tile(np.eye(d, dtype=states.dtype), (len(states.data), 1, 1)))
    c = Parameter(np.zeros((len(states.data), 1, d), states.dtype), "bias")
    optimizer, losses, entropy = AdamW([A, c], lr=lr, weight_decay=0.0), [], _entropy(final)
    for _ in range(steps):
        logp = ops.log_softmax(close(states @ A + c) @ W + b)  # (K, R, V)
        loss = -(logp * final).sum(axis=-1).mean()
        losses.append(loss.item() - entropy)
        optimizer.step(grad(loss, [A, c]))
    return TunedLens(model, A.data.copy(), c.data[:, 0].copy(), losses)


def _entropy(p: np.ndarray) -> float:
    """Mean of -Σ p log p in nats: what cross-entropy has more than KL."""
    return float(-np.mean((p * np.log(np.maximum(p, 1e-300, dtype=np.float64))).sum(-1)))
