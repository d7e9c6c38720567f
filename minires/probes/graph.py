"""A small graph as a picture: one box per operation, from the leaves on the left to the result on the right."""

from __future__ import annotations

from typing import Any

from minires.messages import GraphError, ValueProblem
from minires.tensor import Node, Tensor, reachable

MOST_NODES = 60


def draw_graph(tensor: Tensor) -> Any:
    """A matplotlib Figure of everything that `tensor` depends on: operations, leaves by name, shapes.

    A column holds the nodes whose longest way back to a leaf is equally long. Raises GraphError for a tensor without
    a graph and ValueProblem for more than 60 nodes: draw one block, not the model.
    """
    if tensor.node is None:
        raise GraphError(
            "draw_graph needs a tensor that was computed from something with requires_grad=True",
            "a tensor without a graph",
            "Mark a leaf: Tensor(data, requires_grad=True, name='x'). Was it made inside no_grad()?",
        )
    nodes = reachable(tensor.node)
    if len(nodes) > MOST_NODES:
        given = f"{len(nodes)}"
        raise ValueProblem(f"a graph that is drawn has at most {MOST_NODES} nodes", given, "Draw one block or one op.")
    return _drawn(nodes, places(nodes))


def places(nodes: list[Node]) -> dict[Node, tuple[float, float]]:
    """(x, y) for every node: x is its depth, y keeps it near its parents with at least 1 between neighbours."""
    from minires.style import spread

    depth: dict[Node, int] = {}
    for node in nodes:  # oldest first: parents come before children
        depth[node] = 1 + max((depth[p] for p in node.parents if p is not None), default=-1)
    _pull_leaves(nodes, depth)
    height: dict[Node, float] = {}
    for column in range(max(depth.values()) + 1):
        members = [node for node in nodes if depth[node] == column]
        wished = [_wish(node, height, i) for i, node in enumerate(members)]
        height.update(zip(members, spread(wished, 1.0)))
    return {node: (depth[node], -height[node]) for node in nodes}


def _pull_leaves(nodes: list[Node], depth: dict[Node, int]) -> None:
    """A leaf stands one column before the first operation that uses it."""
    for node in reversed(nodes):
        users = [depth[n] for n in nodes if node in n.parents]
        if node.op is None and users:
            depth[node] = min(users) - 1


def _wish(node: Node, height: dict[Node, float], rank: int) -> float:
    known = [height[p] for p in node.parents if p is not None and p in height]
    return sum(known) / len(known) if known else float(rank)


def _drawn(nodes: list[Node], at: dict[Node, tuple[float, float]]) -> Any:
    import matplotlib.pyplot as plt
    from matplotlib.colors import to_hex

    from minires.style import BLUE, INK, VERMILLION, style

    xs, ys = zip(*at.values())
    with style():
        ink, leaf, add = map(to_hex, (INK, BLUE, VERMILLION))  # fixed now: the caller saves outside the style
        figure, axes = plt.subplots(figsize=(1.5 * (max(xs) + 1) + 0.6, 0.75 * (max(ys) - min(ys) + 1) + 0.6))
        boxes = {}
        for node in nodes:
            edge = leaf if node.op is None else add if node.op.name == "residual_add" else ink
            shape = "round,pad=0.4" if node.op is None else "square,pad=0.35"
            box = dict(boxstyle=shape, facecolor="white", edgecolor=edge, lw=2 if edge == add else 1.2)
            label = axes.text(*at[node], _label(node), ha="center", va="center", fontsize=8, zorder=3, bbox=box)
            boxes[node] = label.get_bbox_patch()
        for node, parent in [(n, p) for n in nodes for p in n.parents if p is not None]:
            bend = -0.26 if at[node][0] - at[parent][0] > 1 else 0  # a skip goes round what it skips
            arrow = dict(arrowstyle="->", color=ink, lw=0.9, connectionstyle=f"arc3,rad={bend}", shrinkA=2, shrinkB=2)
            ends = dict(patchA=boxes[parent], patchB=boxes[node])
            axes.annotate("", xy=at[node], xytext=at[parent], arrowprops=arrow | ends, zorder=2)
        axes.set(xlim=(min(xs) - 0.6, max(xs) + 0.6), ylim=(min(ys) - 0.6, max(ys) + 0.9))
        axes.axis("off")
    return figure


def _label(node: Node) -> str:
    shape = "×".join(map(str, node.shape)) or "number"
    return f"{node.op.name if node.op else node.name or 'leaf'}\n{shape}"
