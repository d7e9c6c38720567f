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
    """The exponent p in time ~ depth^p, in CPU time: one deep run, and as many sublayers in shallow ones around it.

    A best of several would favour the shallow runs, which fit between two disturbances of a busy machine.
    """
    towers = Tower(rule, shallow, **sizes), Tower(rule, deep, **sizes)
    halves = [towers[0].cpu_seconds() for _ in range(deep // shallow // 2)]
    slow = towers[1].cpu_seconds()
    halves += [towers[0].cpu_seconds() for _ in range(deep // shallow // 2)]
    return np.log(slow / np.mean(halves)) / np.log(deep / shallow)


def slope_is_at_most(bar, rule, **sizes):
    """True if one trial in six says so: a busy machine may spoil some; work that grows faster would spoil them all."""
    return any(slope(rule, **sizes) <= bar for _ in range(6))


WIDE = dict(rows=64, d=32)  # the graph of 250 sublayers does not fit into a cache either, so that depth alone differs


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["residual_inverse_sqrt_depth", "post_norm", "hyper_connections"])
def test_time_is_linear_in_depth(rule):
    assert slope_is_at_most(1.1, rule, **WIDE)


@pytest.mark.slow
def test_time_is_at_most_quadratic_where_all_outputs_are_read():
    assert slope_is_at_most(2.2, "denseformer", shallow=100, deep=400)


@pytest.mark.science
@pytest.mark.parametrize("rule", sorted(CONNECTIONS))
def test_time_by_depth_for_every_rule(rule):
    if rule in LOOKS_AT_ALL:
        assert slope_is_at_most(2.2, rule)
    else:
        assert slope_is_at_most(1.1, rule, **WIDE)
