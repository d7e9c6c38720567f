"""A thousand blocks, two thousand sublayers: forward, backward, and ten optimiser steps.

DeepNorm was made for this depth (arXiv:2203.00555, "Scaling Transformers to 1,000 Layers"). Post-Norm and Pre-Norm run
beside it with the same text, the same batch in every step and the same optimiser, so that the loss can only be held up
by the gradient. Blocks are counted as the paper counts layers: attention and feed-forward together are one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minires import ui
from minires.data import CharCorpus, hamlet
from minires.experiments.compare import profile
from minires.experiments.result import Result, measured
from minires.messages import ValueProblem
from minires.models import DecoderLM, get_recipe
from minires.tensor import grad
from minires.train import AdamW

NAME = "thousand_layers"
TITLE = "1000 blocks: forward, backward and ten steps, DeepNorm beside Post-Norm and Pre-Norm"
RTOL, ATOL = 0.05, 0.05  # float32 through 2000 sublayers: the same conclusion, not the same digits


def steps_of(model: DecoderLM, ids: np.ndarray, targets: np.ndarray, steps: int, lr: float) -> list[float]:
    """The loss before each of `steps` updates and after the last one, always on the same batch."""
    optimizer, losses = AdamW(model.parameters(), lr=lr, betas=(0.9, 0.98)), []
    for _ in range(steps):
        loss = model.loss(ids, targets)
        losses.append(loss.item())
        optimizer.step(grad(loss, optimizer.parameters))
    return [*losses, model.loss(ids, targets).item()]


@measured
def run(
    recipes: tuple = ("deepnorm", "post_norm", "pre_norm"), blocks: int = 1000, steps: int = 10, lr: float = 1e-4,
    d: int = 16, heads: int = 2, length: int = 16, batch: int = 2, seed: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """Losses over `steps` updates on one batch, and the gradient at every sublayer before the first.

    blocks: two sublayers each. lr: of AdamW, constant, no warm-up. d, heads: small, so that depth is what costs.
    """
    if min(blocks, steps, d, length, batch) < 1:
        given = f"blocks={blocks}, steps={steps}, d={d}, length={length}, batch={batch}"
        raise ValueProblem("all sizes must be at least 1", given, "The defaults take a minute or two.")
    corpus = CharCorpus(hamlet())
    ids, targets = corpus.batch(np.random.default_rng(seed), batch, length)
    sizes: dict[str, Any] = dict(d=d, heads=heads, context=length, rng=seed, hidden=2 * d)
    rows, curves = [], {}
    for name in ui.progress(list(recipes), f"{blocks} blocks"):
        model = get_recipe(name).build(len(corpus.vocab), blocks, ids=ids, **sizes)
        curves[name] = study(model, ids, targets, steps, lr)
        rows.append(_row(name, 2 * blocks, curves[name]["losses"], curves[name].pop("whole gradient")))
    return {"rows": rows, "curves": curves}


def study(model: DecoderLM, ids: np.ndarray, targets: np.ndarray, steps: int, lr: float) -> dict[str, Any]:
    """The gradient before training, and the losses."""
    gradient = np.array(profile(model, ids, targets)["gradient"])
    losses = steps_of(model, ids, targets, steps, lr)
    return {"losses": losses, "gradient": _thinned(gradient), "whole gradient": gradient}


def _row(name: str, sublayers: int, losses: list[float], gradient: np.ndarray) -> dict[str, Any]:
    return {
        "recipe": name, "sublayers": sublayers, "first loss": losses[0], "last loss": losses[-1],
        "steps that lowered it": int((np.diff(losses) < 0).sum()),
        "gradient first/last": float(gradient[0] / gradient[-1]), "smallest": float(gradient.min()),
        "finite": bool(np.isfinite(losses).all() and np.isfinite(gradient).all()),
    }  # fmt: skip


def _thinned(values: np.ndarray, most: int = 200) -> list[list[float]]:
    """At most `most` points as [place, value], evenly spread, the ends among them."""
    places = np.unique(np.linspace(0, len(values) - 1, most).round().astype(int))
    return [[int(k), float(values[k])] for k in places]


def caption(result: Result) -> str:
    """The losses and gradients in words."""
    s, rows = result.settings, result.data["rows"]
    told = "; ".join(
        f"{r['recipe']}: loss {r['first loss']:.2f} → {r['last loss']:.2f}, gradient at the first sublayer "
        f"{r['gradient first/last']:.2g} times that at the last"
        for r in rows
    )
    return (
        f"{s['blocks']} blocks ({2 * s['blocks']} sublayers), d = {s['d']}, {s['steps']} steps of AdamW at "
        f"lr {s['lr']:g} on one batch, no warm-up. {told}."
    )


def draw(result: Result) -> Any:
    """Left: the gradient at each sublayer's output before training. Right: the loss."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8))
    for i, (name, curve) in enumerate(result.data["curves"].items()):
        line = dict(color=f"C{i}", ls=("-", "--", ":")[i % 3])
        places, values = np.array(curve["gradient"]).T
        left.semilogy(places, np.where(values > 0, values, np.nan), **line)
        right.plot(curve["losses"], marker="o", ms=3, label=name, **line)
    left.set(xlabel="sublayer k", ylabel="‖∂L/∂F_k‖", title="Gradient before training")
    title = f"{result.settings['steps']} steps on one batch"
    right.set(xlabel="optimiser step", ylabel="loss on the batch (nats)", title=title)
    right.legend()
    return figure
