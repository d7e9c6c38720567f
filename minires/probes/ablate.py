"""What the model loses without a sublayer: directly, and through everything that would have read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minires.messages import Explained, UnknownName, ValueProblem
from minires.probes.lens import tail
from minires.probes.picture import curves
from minires.probes.running import (
    Pass,
    cross_entropy,
    enter,
    final_norm,
    forward,
    labels,
    require_additive,
    stack_of,
    unembedding,
)
from minires.tensor import Tensor, no_grad


@dataclass(frozen=True)
class Ablation:
    """Rise of the cross-entropy in nats when one sublayer's output is replaced, (K,) each.

    total: the whole model runs again behind it. direct: only the final stream changes, later sublayers keep what they
    returned; None where the stream is no plain sum, and then `why_no_direct` says so.
    """

    how: str
    labels: list[str]
    loss: float
    total: np.ndarray
    direct: np.ndarray | None
    why_no_direct: str = ""

    def draw(self) -> Any:
        series = {"total": self.total} | ({} if self.direct is None else {"direct": self.direct})
        title = f"Each sublayer's output replaced ({self.how})"
        return curves(series, xlabel="sublayer k", ylabel="rise of the loss (nats)", title=title)


HOW = {  # (what the sublayer returned, what it returned on the reference) → what takes its place
    "zero": lambda f, known: np.zeros_like(f),
    "mean": lambda f, known: np.broadcast_to(known.mean(tuple(range(known.ndim - 1))), f.shape),
    "resample": lambda f, known: np.roll(f, 1, axis=0),
}


def ablation(
    model: Any, inputs: Any, targets: Any, how: str = "zero", *, scale: str = "recompute", reference: Any = None
) -> Ablation:
    """Replace each sublayer's output in turn.

    how: "zero"; "mean", one vector, the mean over samples and tokens; "resample", another sample's output.
    reference: inputs to take that mean from; this batch if left out.
    scale: whether the final norm's statistics are computed anew ("recompute") or kept ("frozen") in the direct effect.
    Raises UnknownName, and ValueProblem for resampling a batch of one.
    """
    for kind, name, known in (("ablation", how, HOW), ("scale", scale, ("recompute", "frozen"))):
        if name not in known:
            raise UnknownName(kind, name, known)
    run = forward(model, inputs)
    if how == "resample" and len(run.output) < 2:
        raise ValueProblem("resampling takes another sample's output", "a batch of one", "Pass two samples or more.")
    known = run if reference is None else forward(model, reference)
    other = [HOW[how](f, g) for f, g in zip(run.written, known.written)]
    loss = cross_entropy(run.output, targets)
    total = [cross_entropy(_rerun(model, inputs, k, f), targets) - loss for k, f in enumerate(other)]
    direct, why = _direct(model, inputs, run, other, targets, scale)
    return Ablation(how, labels(model), loss, np.array(total), None if direct is None else direct - loss, why)


def _rerun(model: Any, inputs: Any, k: int, f: np.ndarray) -> np.ndarray:
    return forward(model, inputs, change=lambda site, old: f if site.k == k else old).output


def _direct(
    model: Any, inputs: Any, run: Pass, other: list[np.ndarray], targets: Any, scale: str
) -> tuple[np.ndarray | None, str]:
    """Losses with x_K + (what replaces) - (what was written), and why not if that means nothing."""
    try:
        W, b = unembedding(model)
        require_additive(model, *enter(model, inputs), "a direct effect")
        norm = final_norm(model, run.states[-1]) if scale == "frozen" else None
    except Explained as problem:
        return None, str(problem)
    losses = []
    for k, f in enumerate(other):
        x = run.states[-1] + _changed(model, run, k, f)
        y = tail(model, x) if norm is None else norm.linear(x) + norm.beta
        losses.append(cross_entropy(y @ W + b, targets))
    return np.array(losses), ""


def _changed(model: Any, run: Pass, k: int, f: np.ndarray) -> np.ndarray:
    """How x_{l+1} changes at its own step if sublayer k returns f."""
    stack = stack_of(model)
    arity = stack.connection.arity
    first = k - k % arity
    outputs = [f if j == k else run.written[j] for j in range(first, first + arity)]
    step, branches = first // arity, [lambda h, out=out: Tensor(out) for out in outputs]
    with no_grad():
        new = stack.connection.step(Tensor(run.states[step]), stack.sites[first], *branches)
    return new.data - run.states[step + 1]
