"""What each residual recipe costs: parameters, operations, memory for the backward pass, and time.

Parameters are counted, operations and memory read off the graph of one forward pass; processor time is measured in
turns with Pre-Norm, so that a busy machine slows both. Everything is per training step of a small language model.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from minires import ui
from minires.experiments.result import Result, measured
from minires.messages import ValueProblem
from minires.models import RECIPES, DecoderLM, get_recipe
from minires.tensor import Node, Tensor, arrays_in, grad, reachable

NAME = "residuals"
TITLE = "What each residual recipe costs beside Pre-Norm"

VOCAB = 65


# ------------------------------------------------------------------------------------------ counting operations


def _linear(node: Any) -> int:
    return 2 * _size(node) * node.saved[1].shape[0]  # x W: one multiply and one add per term


def _matmul(node: Any) -> int:
    return 2 * _size(node) * node.saved[0].shape[-1]


def _ffn(node: Any) -> int:
    (x, w1, _), _, (_, w2, _), _ = node.saved
    rows = x.size // w1.shape[0]
    return 2 * rows * (w1.size + w2.size) + rows * w1.shape[1]


def _attention(node: Any) -> int:
    batch, heads, t, dh = node.saved[0].shape
    return 2 * 2 * batch * heads * t * t * dh  # q kᵀ and P v, counted in full also where a mask hides half


def _sinkhorn(node: Any) -> int:
    return 2 * len(node.saved[1]) * _size(node)  # one sum and one division per normalisation


def _depth_sum(node: Any) -> int:
    return 2 * len(node.saved[1]) * _size(node)


def _depth_attention(node: Any) -> int:
    return 6 * len(node.saved[5]) * _size(node)  # squares, scores and the weighted sum, two each per source


def _size(node: Any) -> int:
    return int(np.prod(node.shape))


COUNTS: dict[str, Callable[[Any], int]] = {
    "linear": _linear, "matmul": _matmul, "ffn": _ffn, "self_attention": _attention, "sinkhorn": _sinkhorn,
    "depth_sum": _depth_sum, "depth_attention": _depth_attention,
}  # fmt: skip
FREE = frozenset(("reshape", "transpose", "swapaxes", "broadcast_to", "expand_dims", "squeeze", "getitem", "embedding"))


def operations(output: Tensor) -> int:
    """Floating-point operations of the forward pass that made `output`, from its graph.

    Matrix products are exact (2 n k m). Every other operation counts one per number it returns, views none. A backward
    pass takes about twice as many.
    """
    made = [node for node in reachable(_node(output)) if node.op is not None]
    return sum(0 if n.op.name in FREE else COUNTS.get(n.op.name, _size)(n) for n in made)  # type: ignore[union-attr]


def saved_bytes(output: Tensor, parameters: list) -> int:
    """Memory that the graph of `output` holds for its backward pass, beyond the parameters: each array once."""
    own = {id(_owner(p.data)) for p in parameters}
    kept: dict[int, np.ndarray] = {}
    for node in reachable(_node(output)):
        for array in arrays_in(node.saved):
            kept[id(_owner(array))] = _owner(array)
    return sum(array.nbytes for key, array in kept.items() if key not in own)


def _owner(array: np.ndarray) -> np.ndarray:
    """The array whose memory a view looks at."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _node(output: Tensor) -> Node:
    if output.node is None:
        raise ValueProblem("costs are read off a graph", "a tensor without one", "Do not run it under no_grad().")
    return output.node


# ---------------------------------------------------------------------------------------------------- measuring


def seconds(model: DecoderLM, ids: np.ndarray, targets: np.ndarray) -> float:
    """Processor time of one forward and backward pass: what other programs take does not count."""
    began = time.process_time()
    grad(model.loss(ids, targets), model.parameters())
    return time.process_time() - began


def time_ratio(model: DecoderLM, beside: DecoderLM, ids: np.ndarray, targets: np.ndarray, rounds: int) -> float:
    """How much longer `model` takes than `beside`: the median over rounds that time one right after the other."""
    for warm in (model, beside):
        seconds(warm, ids, targets)
    return float(np.median([seconds(model, ids, targets) / seconds(beside, ids, targets) for _ in range(rounds)]))


def counted(model: DecoderLM, ids: np.ndarray, targets: np.ndarray) -> dict[str, int]:
    """Parameters, operations of a forward pass and bytes kept for the backward pass."""
    loss = model.loss(ids, targets)
    parameters = model.parameters()
    return {"parameters": model.count_parameters(), "flops": operations(loss), "bytes": saved_bytes(loss, parameters)}


@measured
def run(
    recipes: tuple = (), blocks: int = 12, d: int = 64, heads: int = 4, length: int = 64, batch: int = 8,
    rounds: int = 7, seed: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """One row per recipe (all of them if none is named), with ratios to Pre-Norm.

    blocks, d, heads: the model. length, batch: of the token ids. rounds: timings; the median counts.
    """
    if min(blocks, d, length, batch, rounds) < 1:
        given = f"blocks={blocks}, d={d}, length={length}, batch={batch}, rounds={rounds}"
        raise ValueProblem("all sizes must be at least 1", given, "The defaults take a minute or two.")
    chosen = [get_recipe(name) for name in recipes or RECIPES]
    ids, targets = np.random.default_rng(seed).integers(0, VOCAB, (2, batch, length))
    sizes: dict[str, Any] = dict(d=d, heads=heads, context=length, rng=seed)
    pre, bare = (RECIPES[name].build(VOCAB, blocks, **sizes) for name in ("pre_norm", "residual"))
    base = counted(pre, ids, targets)
    rows = []
    for recipe in ui.progress(chosen, "recipes"):
        model = recipe.build(VOCAB, blocks, ids=ids, **sizes)
        cost = counted(model, ids, targets)
        rows.append({
            "recipe": recipe.name,
            "equation": recipe.equation,
            "extra parameters": cost["parameters"] - bare.count_parameters(),
            "operations": round(cost["flops"] / base["flops"], 4),
            "memory": round(cost["bytes"] / base["bytes"], 4),
            "time": round(time_ratio(model, pre, ids, targets, rounds), 3),
        })  # fmt: skip
    return {"rows": rows, "pre_norm": base, "bare parameters": bare.count_parameters()}


def caption(result: Result) -> str:
    """What the columns mean, with the numbers they are relative to."""
    s, base = result.settings, result.data["pre_norm"]
    return (
        f"{s['blocks']} blocks, d = {s['d']}, {s['batch']} × {s['length']} tokens. Extra parameters: beyond the "
        f"{result.data['bare parameters']:,} of x + F(x) without a norm. Operations (forward), memory kept for the "
        f"backward pass, and time of a step: relative to Pre-Norm's {base['flops'] / 1e6:.0f} million, "
        f"{base['bytes'] / 2**20:.1f} MiB and its own processor time, measured in turns."
    )


def draw(result: Result) -> Any:
    """Time and memory beside Pre-Norm, one line per recipe."""
    import matplotlib.pyplot as plt

    rows = sorted(result.data["rows"], key=lambda row: row["time"])
    figure, axes = plt.subplots(figsize=(8, 0.24 * len(rows) + 1.5))
    places = np.arange(len(rows))
    axes.axvline(1, lw=1, color="C6", alpha=0.5)
    axes.plot([row["time"] for row in rows], places, "o", label="time of a step")
    axes.plot([row["memory"] for row in rows], places, "x", label="memory for the backward pass")
    axes.plot([row["operations"] for row in rows], places, "|", ms=9, label="operations")
    axes.set_yticks(places, [row["recipe"] for row in rows])
    axes.set(xscale="log", xlabel="relative to Pre-Norm")
    axes.set_xticks([1, 1.5, 2, 3, 4, 6], ["1", "1.5", "2", "3", "4", "6"])
    axes.minorticks_off()
    axes.legend(loc="lower right")
    return figure
