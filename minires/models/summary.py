"""What a model costs: parameters, floating-point operations and memory, part by part, measured on one forward pass.

Operations are those of matrix products, 2·m·n·k for (m, k) @ (k, n); everything else is of lower order and left out.
A linear layer's backward pass makes two products of the same size (for its input and its weight), attention's four for
its two, so that a training step is three times the forward pass. For a decoder with N blocks, width d, FFN width h,
vocabulary V, on B sequences of T symbols:

    forward = N (8 B T d² + 4 B T² d + 4 B T d h) + 2 B T d V

The whole square of attention is counted; a kernel that skips its masked half does less.

Activation memory is every array that the graph of the loss holds for the backward pass, each memory block once, without
the parameters themselves: what `loss` keeps alive until `backward()` frees it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from minires import ui
from minires.nn import Context
from minires.tensor import Node, reachable


@dataclass(frozen=True)
class Part:
    """One part of the model: trained numbers, operations of a forward pass and of a step, bytes kept for backward."""

    name: str
    parameters: int
    forward_flops: int
    step_flops: int
    activation_bytes: int


@dataclass(frozen=True)
class Summary:
    """Parts and totals for one batch; plain data."""

    model: str
    batch: int
    length: int | None
    parts: list[Part]
    parameter_bytes: int

    @property
    def total(self) -> Part:
        columns = [[getattr(part, name) for part in self.parts] for name in list(Part.__annotations__)[1:]]
        return Part("in all", *map(sum, columns))

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "total": asdict(self.total)}

    def show(self) -> None:
        """Print the table."""
        rows = [
            {
                "part": part.name,
                "parameters": part.parameters,
                "forward, MFLOP": part.forward_flops / 1e6,
                "training step, MFLOP": part.step_flops / 1e6,
                "activations, MB": part.activation_bytes / 1e6,
            }
            for part in [*self.parts, self.total]
        ]
        size = f"batch {self.batch}" + (f" × length {self.length}" if self.length else "")
        ui.table(rows, f"{self.model}, {size}, parameters {self.parameter_bytes / 1e6:.3g} MB")


def summary(model: Any, batch: int = 1, length: int | None = None) -> Summary:
    """Measure `model` on one batch of `batch` examples (of `length` symbols: the whole context unless given).

    Runs one forward pass in train mode on `model.example(batch, length)`; nothing is trained and no random state moves
    unless the model has dropout. Parts: what comes before the stack (entry), the kinds of sublayers, what joins them
    (connection), and what comes after them (head, with the loss).
    """
    x, targets = model.example(batch, length)
    spans: list[Span] = []
    loss = model.loss(x, targets, Context(wrap=_marking(spans)))
    nodes = reachable(loss.node)
    parts = _parts(model, nodes, spans)
    seen = {id(_owner(p.data)) for p in model.parameters()}
    counted = {name: [0, 0, 0] for name in ("entry", *dict.fromkeys(span.kind for span in spans), "connection", "head")}
    for p in model.parameters():
        counted[parts.get(p.node, "head")][0] += p.size
    for node in nodes:
        entry = counted[parts[node]]
        entry[1] += node_flops(node)
        entry[2] += sum(array.nbytes for array in _new_blocks(node.saved, seen))
    rows = [Part(name, n, flops, 3 * flops, kept) for name, (n, flops, kept) in counted.items()]
    length = None if x.dtype.kind == "f" else x.shape[1]
    return Summary(type(model).__name__, batch, length, rows, sum(p.data.nbytes for p in model.parameters()))


# ------------------------------------------------------------------------------------------------ which part


class Span(NamedTuple):
    """The nodes that one sublayer made: nodes are numbered in the order of their creation."""

    kind: str
    first: int
    last: int


def _marking(spans: list[Span]) -> Callable:
    """An instrument that notes which nodes each sublayer makes."""

    def wrap(site: Any, F: Callable) -> Callable:
        def branch(h: Any) -> Any:
            first = _now()
            out = F(h)
            spans.append(Span(site.kind, first, _now()))
            return out

        return branch

    return wrap


def _now() -> int:
    """The number of a node made now."""
    return Node(None, (), None, np.empty(())).order


def _parts(model: Any, nodes: Sequence[Node], spans: list[Span]) -> dict[Node, str]:
    """The part of every node. A parameter outside the stack belongs where it is first used."""
    rule = {p.node for p in model.stack.connection.parameters()}
    parts: dict[Node, str] = {node: "connection" for node in rule if node is not None}
    for node in nodes:
        if node.op is None:
            continue
        parts[node] = "connection" if rule.intersection(node.parents) else _place(node.order, spans)
        for parent in node.parents:
            if parent is not None and parent.op is None:
                parts.setdefault(parent, parts[node])
    return parts


def _place(order: int, spans: list[Span]) -> str:
    inside = [span.kind for span in spans if span.first < order < span.last]
    if inside:
        return inside[0]
    if order < spans[0].first:
        return "entry"
    return "connection" if order < spans[-1].last else "head"


# ------------------------------------------------------------------------------------------------- operations


def node_flops(node: Node) -> int:
    """The operations of one node's forward pass, by what made it; 0 for everything without a matrix product."""
    if node.op is None or node.op.name not in FLOPS:
        return 0
    shapes = [None if parent is None else parent.shape for parent in node.parents]
    return FLOPS[node.op.name](node, shapes)


def _linear(node: Node, shapes: list) -> int:
    return 2 * math.prod(node.shape) * shapes[1][0]


def _matmul(node: Node, shapes: list) -> int:
    inner = shapes[0][-1] if shapes[0] else shapes[1][-2 if len(shapes[1]) > 1 else 0]
    return 2 * math.prod(node.shape) * inner


def _ffn(node: Node, shapes: list) -> int:
    rows = math.prod(node.shape[:-1])
    return 2 * rows * (math.prod(shapes[1]) + math.prod(shapes[3]))


def _self_attention(node: Node, shapes: list) -> int:
    b, t, d = node.shape
    return 4 * b * t * t * d


def _attention(node: Node, shapes: list) -> int:
    dh, keys = shapes[1][-1], shapes[1][-2]
    return 2 * math.prod(node.shape[:-1]) * keys * (dh + node.shape[-1])


FLOPS: dict[str, Callable[[Node, list], int]] = {
    "linear": _linear,
    "matmul": _matmul,
    "ffn": _ffn,
    "self_attention": _self_attention,
    "attention": _attention,
}


# ----------------------------------------------------------------------------------------------------- memory


def _new_blocks(saved: Any, seen: set[int]) -> Iterator[np.ndarray]:
    """The arrays in `saved` whose memory has not been met yet, as the arrays that own it."""
    for array in _arrays(saved):
        owner = _owner(array)
        if id(owner) not in seen:
            seen.add(id(owner))
            yield owner


def _arrays(saved: Any) -> Iterator[np.ndarray]:
    if isinstance(saved, np.ndarray):
        yield saved
    elif isinstance(saved, tuple | list):
        for item in saved:
            yield from _arrays(item)


def _owner(array: np.ndarray) -> np.ndarray:
    """The array that holds the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
