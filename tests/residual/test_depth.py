"""A thousand sublayers: finite, without recursion, in time that grows linearly with depth.

(With the square of the depth for the rules that look at all earlier outputs.)
"""

import gc
import sys
import time

import numpy as np
import pytest

from minires.residual import CONNECTIONS
from minires.tensor import Tensor, grad
from tests.residual.common import make_connection

LOOKS_AT_ALL = ("attention_residuals", "denseformer", "laurel_pa")  # block_attention_residuals look at about eight sums


class Tower:
    """K sublayers tanh(h W)/√K under one rule; W is shared, so that memory is the graph's."""

    def __init__(self, rule, sublayers, rows=4, d=8):
        self.connection, self.sites = make_connection(rule, blocks=sublayers // 2, d=d)
        rng = np.random.default_rng(0)
        self.weight = Tensor(rng.standard_normal((d, d)) * d**-0.5, requires_grad=True)
        self.x = Tensor(rng.standard_normal((rows, d)), requires_grad=True)
        self.upstream = rng.standard_normal((rows, d))

    def branch(self, h):
        return (h @ self.weight).tanh() * len(self.sites) ** -0.5

    def forward(self):
        stream, arity = self.connection.open(self.x), self.connection.arity
        for site in self.sites[::arity]:
            stream = self.connection.step(stream, site, *[self.branch] * arity)
        return self.connection.close(stream)

    def run(self):
        """One forward and backward pass: the gradients at the input, of W, and of the rule's own parameters."""
        y = self.forward()
        return y.data, grad((y * self.upstream).sum(), [self.x, self.weight, *self.connection.parameters()])

    def cpu_seconds(self):
        gc.collect()
        began = time.process_time()
        self.run()
        return time.process_time() - began


@pytest.fixture
def shallow_stack():
    """Python may go only 60 calls deeper than here: any recursion over layers fails."""
    frames, frame = 0, sys._getframe()
    while frame is not None:
        frames, frame = frames + 1, frame.f_back
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(frames + 60)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.parametrize("rule", sorted(CONNECTIONS))
def test_a_thousand_sublayers_are_finite_and_need_no_recursion(rule, shallow_stack):
    y, gradients = Tower(rule, 1000).run()
    assert np.isfinite(y).all()
    assert all(np.isfinite(g).all() for g in gradients)
    if rule not in ("none", "plain"):  # the product of a thousand branches, and nothing else, underflows
        assert np.linalg.norm(gradients[0]) > 0


def slope(rule, shallow=250, deep=1000, **sizes):
    """The exponent p in time ~ depth^p, from the best of three runs at either depth, in CPU time."""
    towers = Tower(rule, shallow, **sizes), Tower(rule, deep, **sizes)
    times = [[tower.cpu_seconds() for tower in towers] for _ in range(3)]
    quick, slow = np.min(times, axis=0)
    return np.log(slow / quick) / np.log(deep / shallow)


WIDE = dict(rows=64, d=32)  # the graph of 250 sublayers does not fit into a cache either, so that depth alone differs


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["residual_inverse_sqrt_depth", "post_norm", "hyper_connections"])
def test_time_is_linear_in_depth(rule):
    assert any(slope(rule, **WIDE) <= 1.1 for _ in range(3))  # a busy machine may spoil a trial, not all of them


@pytest.mark.slow
def test_time_is_at_most_quadratic_where_all_outputs_are_read():
    assert any(slope("denseformer", shallow=100, deep=400) <= 2.2 for _ in range(3))


@pytest.mark.science
@pytest.mark.parametrize("rule", sorted(CONNECTIONS))
def test_time_by_depth_for_every_rule(rule):
    if rule in LOOKS_AT_ALL:
        assert slope(rule) <= 2.2
    else:
        assert any(slope(rule, **WIDE) <= 1.1 for _ in range(3))  # a busy machine may spoil a trial, not all of them
