"""The picture of a graph: what is on it, where, and when it is refused."""

import numpy as np
import pytest

from minires import Tensor, ops
from minires.messages import GraphError, ValueProblem
from minires.probes import draw_graph
from minires.probes.graph import places
from minires.tensor import reachable


def block():
    x = Tensor(np.ones((2, 8)), requires_grad=True, name="x")
    W = Tensor(np.eye(8), requires_grad=True, name="W")
    return x + ops.relu(ops.linear(x, W, None))


def test_every_operation_and_leaf_is_on_it_with_its_shape():
    import matplotlib.pyplot as plt

    figure = draw_graph(block())
    texts = {text.get_text() for text in figure.axes[0].texts}
    plt.close(figure)
    assert {"x\n2×8", "W\n8×8", "linear\n2×8", "relu\n2×8", "residual_add\n2×8"} <= texts
    assert len([t for t in texts if t]) == 5


def test_parents_stand_to_the_left_and_nothing_overlaps():
    nodes = reachable((block() * 2.0).sum().node)
    at = places(nodes)
    assert all(at[p][0] < at[n][0] for n in nodes for p in n.parents if p is not None)
    columns: dict = {}
    for x, y in at.values():
        columns.setdefault(x, []).append(y)
    assert all(np.all(np.diff(sorted(ys)) >= 1 - 1e-9) for ys in columns.values())


def test_a_large_graph_is_refused():
    x = Tensor(1.0, requires_grad=True)
    for _ in range(80):
        x = x * 2.0
    with pytest.raises(ValueProblem, match="60"):
        draw_graph(x)


def test_a_tensor_without_a_graph_is_refused():
    with pytest.raises(GraphError, match="no_grad"):
        draw_graph(Tensor(np.ones(3)))
