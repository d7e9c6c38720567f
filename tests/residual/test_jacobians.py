"""Every rule's formula for ∂(next state)/∂(this state) against the numerical Jacobian of `step`, entry by entry."""

import numpy as np
import pytest

from minires.residual import CONNECTIONS
from minires.tensor import Tensor
from tests.residual.common import Branch, as_arrays, disturbed, flat, make_connection, unflat

ROWS, D = (1, 2), 4
RULES = sorted(CONNECTIONS)


def numerical_jacobian(function, x, h=1e-6):
    """(outputs, inputs) by central differences."""
    columns = []
    for j in range(x.size):
        up, down = x.copy(), x.copy()
        up[j], down[j] = x[j] + h, x[j] - h
        columns.append((function(up) - function(down)) / (2 * h))
    return np.array(columns).T


def numerical(connection, stream, site, branches):
    return numerical_jacobian(lambda v: flat(connection.step(unflat(v, stream), site, *branches)), flat(stream))


def walk(connection, sites):
    """Every step of a model: (stream, site, its branches), the stream as the earlier steps left it."""
    rng = np.random.default_rng(5)
    stream = connection.open(Tensor(rng.standard_normal((*ROWS, D)) + 0.3))
    for k in range(0, len(sites), connection.arity):
        branches = [Branch(int(np.prod(ROWS)) * D, seed=k + i) for i in range(connection.arity)]
        yield stream, sites[k], branches
        stream = connection.step(stream, sites[k], *branches)


def formula(connection, stream, site, branches):
    """The rule's own Jacobian; the step runs once first, so that each branch knows its f and its J_F."""
    connection.step(stream, site, *branches)
    J_F, f = [b.jacobian for b in branches], [b.f.reshape(*ROWS, D) for b in branches]
    several = connection.arity > 1
    return connection.jacobian(as_arrays(stream), site, J_F if several else J_F[0], f if several else f[0])


@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm", "dyt"])
@pytest.mark.parametrize("rule", RULES)
def test_formula_equals_numerical_jacobian(rule, norm):
    connection, sites = make_connection(rule, blocks=2 if "block" not in rule else 5, d=D, norm=norm)
    disturbed(connection)
    for stream, site, branches in walk(connection, sites):
        J, right = formula(connection, stream, site, branches), numerical(connection, stream, site, branches)
        assert J.shape == right.shape
        np.testing.assert_allclose(J, right, atol=2e-8 * max(1, np.abs(right).max()))


@pytest.mark.parametrize("rule", RULES)
def test_the_comparison_would_notice_a_lost_identity(rule):
    """Zero branches leave the skip path alone; it is not zero, except in the rules that have none."""
    connection, sites = make_connection(rule, d=D)
    disturbed(connection)
    stream, site, branches = next(walk(connection, sites))
    for branch in branches:
        branch.weight[...] = 0
    J = formula(connection, stream, site, branches)
    assert (np.abs(J).max() > 0.1) == (rule not in ("none", "plain"))


def test_growing_states_have_rectangular_jacobians():
    connection, sites = make_connection("attention_residuals", d=D)
    n = int(np.prod(ROWS)) * D
    shapes = [formula(connection, *step).shape for step in walk(connection, sites)]
    assert shapes == [(n * (k + 2), n * (k + 1)) for k in range(len(sites))]


def test_a_block_keeps_one_running_sum():
    connection, sites = make_connection("block_attention_residuals", blocks=8, d=D)  # 16 sublayers in 8 blocks of 2
    counts = [len(stream) for stream, _, _ in walk(connection, sites)]
    assert counts == [1, *np.repeat(np.arange(2, 9), 2).tolist(), 9]
