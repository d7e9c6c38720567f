"""When Post-Norm does lose its gradient: not at initialisation, but in its first steps, if its branches are large.

The article's 0.0012 at layer 1 of 12 does not come out of a network at initialisation (see `gradient_table`). It does
come out of one with Xavier's large branches that has taken some dozens of Adam steps. Then LayerNorm divides by a large
s, and no branch gives back what the skip path loses. Warm-up delays this. With GPT-2's small initialisation the same
network passes through a dip and comes out of it. Every run has the same seed and the same batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minires.data import CharCorpus, hamlet
from minires.experiments.result import Result, measured
from minires.messages import ValueProblem
from minires.models import DecoderLM
from minires.probes import state_gradients
from minires.train import Adam
from minires.ui import progress

NAME = "gradient_training"
TITLE = "When Post-Norm does lose its gradient: the first Adam steps, by initialisation and warm-up"
RTOL, ATOL = 0.3, 0.05  # training amplifies last digits: the same course, not the same numbers

ARTICLE = {1: 0.0012, 6: 0.0876}  # layer: gradient norm relative to layer 12


def ratios(net: DecoderLM, x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Gradient norms at the outputs of layers 1 and 6, relative to the last layer, and the loss, on a fixed batch."""
    norms = [np.linalg.norm(g) for g in state_gradients(net, x, y)]
    found = {f"layer {layer}": float(norms[2 * layer] / norms[-1]) for layer in ARTICLE}
    return found | {"loss": net.loss(x, y).item()}


def course(norm: str, init: str, warmup: int, corpus: CharCorpus, settings: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Train one network; yield what `ratios` says every few steps, before the step."""
    size, length, seed, lr = settings["batch"], settings["length"], settings["seed"], settings["lr"]
    net = DecoderLM(len(corpus.vocab), settings["width"], 4, 12, length, connection=norm, init=init, rng=seed)
    optimizer, rng = Adam(net.parameters(), lr=lr), np.random.default_rng([seed, 1])
    probe = corpus.batch(np.random.default_rng([seed, 2]), size, length)
    name = named(norm, init, warmup)
    for step in progress(range(settings["steps"] + 1), name):
        if step % settings["every"] == 0:
            yield {"run": name, "step": step, **ratios(net, *probe)}
        optimizer.lr = lr * min(1.0, (step + 1) / max(warmup, 1))
        optimizer.zero_grad()
        net.loss(*corpus.batch(rng, size, length)).backward()
        optimizer.step()


def named(norm: str, init: str, warmup: int) -> str:
    """A run in words."""
    return f"{'Post' if norm == 'post_norm' else 'Pre'}-Norm, {init}, {f'warm-up {warmup}' if warmup else 'no warm-up'}"


@measured
def run(
    width: int = 64, steps: int = 120, warmup: int = 60, lr: float = 1e-3, batch: int = 8, length: int = 32,
    every: int = 4, seed: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """12 layers and Adam: Post-Norm with two initialisations, with warm-up and without, and Pre-Norm without.

    width: d. steps, warmup: optimiser steps. lr: full learning rate. batch, length: of the text. every: steps between
    two measurements.
    """
    if min(width, steps, warmup, batch, length, every) < 1 or lr <= 0:
        given = f"width={width}, steps={steps}, warmup={warmup}, batch={batch}, length={length}, every={every}, lr={lr}"
        raise ValueProblem("sizes, steps and lr must be positive", given, "Try the defaults.")
    settings = dict(width=width, steps=steps, lr=lr, batch=batch, length=length, every=every, seed=seed)
    corpus = CharCorpus(hamlet())
    runs = [("post_norm", init, warm) for init in ("xavier", "gpt2") for warm in (0, warmup)]
    rows = [row for one in [*runs, ("pre_norm", "xavier", 0)] for row in course(*one, corpus, settings)]
    return {"rows": rows, "unigram": corpus.baselines().unigram, "verdict": verdict(rows)}


def by_run(rows: list[dict]) -> dict[str, list[dict]]:
    """The rows of each run, in order."""
    return {name: [row for row in rows if row["run"] == name] for name in dict.fromkeys(row["run"] for row in rows)}


def table(result: Result) -> list[dict[str, Any]]:
    """Every fifth measurement."""
    return [row for rows in by_run(result.data["rows"]).values() for row in rows[::5]]


def verdict(rows: list[dict]) -> dict[str, str]:
    """Where the article's number for layer 1 is reached, and how every run goes."""
    reached = [row for row in rows if row["layer 1"] <= ARTICLE[1]]
    first = (
        f"Layer 1 reaches the article's 0.0012 at step {reached[0]['step']} ({reached[0]['run']}); layer 6 then has "
        f"{reached[0]['layer 6']:.2g}, not 0.0876."
        if reached
        else "Layer 1 never reaches the article's 0.0012."
    )
    courses = [_course(name, own) for name, own in by_run(rows).items()]
    return {"first": first, "text": f"{first} Lowest and last value at layer 1: {'; '.join(courses)}."}


def _course(name: str, rows: list[dict]) -> str:
    low = min(rows, key=lambda row: row["layer 1"])
    return f"{name}: {low['layer 1']:.2g} (step {low['step']}), {rows[-1]['layer 1']:.2g}"


def caption(result: Result) -> str:
    """The finding, with what was trained."""
    s, data = result.settings, result.data
    ends = ", ".join(f"{rows[-1]['layer 1']:.2g} ({name})" for name, rows in by_run(data["rows"]).items())
    return (
        f"A 12-layer character model (d = {s['width']}, Adam, learning rate {s['lr']:g}) in its first {s['steps']} "
        f"steps. {data['verdict']['first']} After the last step layer 1 has {ends}. Grey lines: 0.0012, and the loss "
        f"of letter frequencies alone ({data['unigram']:.2f})."
    )


def draw(result: Result) -> Any:
    """Left: the gradient norm at layer 1 over the steps. Right: the losses."""
    import matplotlib.pyplot as plt

    from minires.style import BLUE, GREEN, INK, ORANGE, SKY, VERMILLION

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.4, 4.6), width_ratios=(1.2, 1))
    looks = [(VERMILLION, "-"), (ORANGE, "--"), (BLUE, "-"), (SKY, "--"), (GREEN, ":")]
    for (name, rows), (colour, dashes) in zip(by_run(result.data["rows"]).items(), looks):
        steps = [row["step"] for row in rows]
        left.semilogy(steps, [row["layer 1"] for row in rows], color=colour, ls=dashes)
        right.plot(steps, [row["loss"] for row in rows], color=colour, ls=dashes, label=name)
    left.axhline(ARTICLE[1], color=INK, alpha=0.5, lw=1)
    right.axhline(result.data["unigram"], color=INK, alpha=0.5, lw=1)
    left.set(xlabel="optimiser step", ylabel="gradient norm, layer 1 / layer 12", title="What reaches the first layer")
    right.set(xlabel="optimiser step", ylabel="cross-entropy, nats per character", title="The loss", ylim=(2.3, 4.9))
    right.legend(loc="upper right", fontsize=7.5)
    return figure
