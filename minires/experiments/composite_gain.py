"""Hyper-Connections against mHC: how much the mixing matrices of many layers amplify together.

At their start both mix by (nearly) the identity. What happens when training moves the mixing weights is imitated by
random numbers of growing size on every parameter of the rule, the same size for both, and shown after real training
steps as well. The gain is that of the product C from sublayer l to the end, max_i |Σ_j C_ij| for a signal and
max_j |Σ_i C_ij| for a gradient, averaged over tokens (mHC's "Amax gain magnitude").
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minires.data import CharCorpus, hamlet
from minires.experiments.result import Result, measured
from minires.messages import ValueProblem
from minires.models import DecoderLM, get_recipe
from minires.probes.composite import Composite, composite_gain
from minires.tensor import grad
from minires.train import AdamW
from minires.ui import progress

NAME = "composite_gain"
TITLE = "What the mixing matrices of many layers do together: Hyper-Connections against mHC"
RTOL, ATOL = 0.05, 0.05  # training in float32: the same conclusion, not the same digits


@measured
def run(
    recipes: tuple = ("hyper_connections", "dynamic_hyper_connections", "mhc", "mhc_permutations"),
    sizes: tuple = (0.02, 0.05, 0.1, 0.2), blocks: int = 30, steps: int = 20, train_blocks: int = 6, lr: float = 3e-3,
    d: int = 16, length: int = 16, batch: int = 4, seed: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """Gains by sublayer for each rule and each size of disturbance, and after `steps` of AdamW in a smaller model."""
    if not recipes or not sizes or min(blocks, train_blocks, d, length, batch) < 1 or steps < 0:
        given = f"recipes={recipes}, sizes={sizes}, blocks={blocks}, steps={steps}, d={d}"
        raise ValueProblem("there must be recipes and sizes, and every number must be at least 1", given, "Try d=8.")
    corpus = CharCorpus(hamlet())
    text = [corpus.batch(np.random.default_rng([seed, i]), batch, length) for i in range(max(1, steps))]
    studies, rows = [], []
    for name in progress(list(recipes), "rules"):
        for size in sizes:
            model = _model(name, blocks, corpus, text, d, length, seed)
            disturb(model, size, seed)
            studies.append({"recipe": name, "size": size, **_gains(composite_gain(model, text[0][0][:1]))})
            rows.append(_row(name, f"disturbed by {size:g}", studies[-1]))
        model = _model(name, train_blocks, corpus, text, d, length, seed)
        train(model, text[:steps], lr)
        rows.append(_row(name, f"{steps} steps, {train_blocks} blocks", _gains(composite_gain(model, text[0][0]))))
    return {"studies": studies, "rows": rows}


def _model(name: str, blocks: int, corpus: CharCorpus, text: list, d: int, length: int, seed: int) -> DecoderLM:
    return get_recipe(name).build(
        len(corpus.vocab), blocks, ids=text[0][0], d=d, heads=2, context=length, rng=seed, hidden=2 * d
    )


def disturb(model: DecoderLM, size: float, seed: int) -> None:
    """Add size·N(0, 1) to every gate of the rule: static weights, biases and projections alike."""
    rng = np.random.default_rng([seed, 9])
    for p in model.stack.connection.parameters():
        if p.kind == "gate":
            p.data[...] += size * rng.standard_normal(p.shape)
            p.changed()


def train(model: DecoderLM, text: list, lr: float) -> None:
    optimizer = AdamW(model.parameters(), lr=lr)
    for ids, targets in text:
        optimizer.step(grad(model.loss(ids, targets), optimizer.parameters))


def _gains(found: Composite) -> dict[str, Any]:
    columns = ("forward", "backward", "second", "row_error", "column_error")
    return {name: getattr(found, name) for name in columns}


def _row(name: str, what: str, gains: dict[str, Any]) -> dict[str, Any]:
    return {
        "recipe": name, "weights": what, "forward gain": float(gains["forward"].max()),
        "backward gain": float(gains["backward"].max()), "second singular value": float(gains["second"][0]),
        "column error": float(gains["column_error"].max()),
    }  # fmt: skip


def caption(result: Result) -> str:
    """The largest gains in words."""
    s, last = result.settings, {}
    for study in result.data["studies"]:
        last[study["recipe"]] = max(study["forward"])
    each = ", ".join(f"{name} {gain:.3g}" for name, gain in last.items())
    return (
        f"Gain of the product C of all mixing matrices from sublayer l to the end ({2 * s['blocks']} sublayers, 4 "
        f"copies): max_i |Σ_j C_ij|, mean over tokens, with N(0, s²) added to every gate. At s = {s['sizes'][-1]:g} it "
        f"reaches: {each}. mHC's matrices are nearly doubly stochastic and cannot amplify; free ones can."
    )


def draw(result: Result) -> Any:
    """One panel per rule, one curve per size."""
    import matplotlib.pyplot as plt

    from minires.style import CYCLE, INK

    recipes, studies = result.settings["recipes"], result.data["studies"]
    figure, grid = plt.subplots(1, len(recipes), figsize=(2.7 * len(recipes) + 0.6, 3.4), sharey=True, squeeze=False)
    for axes, name in zip(grid[0], recipes):
        for i, study in enumerate(s for s in studies if s["recipe"] == name):
            line = dict(color=CYCLE[i % 6], ls=("-", "--", ":", "-.")[i % 4])
            axes.semilogy(study["forward"], label=f"s = {study['size']:g}", **line)
        axes.axhline(1, color=INK, lw=0.6)
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("from sublayer l to the end")
    grid[0][0].set_ylabel("gain of a signal")
    grid[0][0].legend(loc="upper right")
    return figure
