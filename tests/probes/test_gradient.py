"""Gradient norms by layer: against the engine, against explicit Jacobians, and with losses that show nothing."""

import numpy as np
import pytest

from minires import Tensor
from minires.messages import ValueProblem
from minires.models import DecoderLM, DeepMLP, Encoder, Stack
from minires.models.mlp import MLPBlock
from minires.nn import Context, Maker
from minires.probes import (
    gradient_flow,
    inverse_size_product,
    record,
    skip_branch_decomposition,
    skip_path_product,
    state_gradients,
)
from minires.residual import CONNECTIONS, mlp_sites

MODELS = {"decoder": DecoderLM, "encoder": Encoder}


def text(seed=0, batch=2, length=8, vocab=13):
    return np.random.default_rng(seed).integers(0, vocab, (2, batch, length))


def model(kind="decoder", d=16, blocks=3, length=8, **settings):
    return MODELS[kind](13, d, 2, blocks, length, **{"init": "xavier", "dtype": np.float64, "rng": 1, **settings})


def stack(connection, norm="layernorm", d=16, dtype=np.float64):
    make = Maker.of(3, "xavier", dtype, 4)
    return Stack(mlp_sites(4), [MLPBlock(d, make) for _ in range(4)], d, connection, norm, make)


# ------------------------------------------------------------------------------------------------- gradient_flow


@pytest.mark.parametrize("kind", MODELS)
def test_norms_are_those_of_an_ordinary_backward_pass(kind):
    net, (x, y) = model(kind), text()
    found = gradient_flow(net, x, y)
    ctx = Context(trace=[])
    loss = net.loss(x, y, ctx)
    for state in ctx.trace:
        state.retain_grad()
    loss.backward()
    assert np.allclose(found.states, [np.linalg.norm(state.grad) for state in ctx.trace], rtol=1e-12)
    for name, p in net.named_parameters():
        if p.grad is not None:
            assert np.isclose(found.parameters[name], np.linalg.norm(p.grad), rtol=1e-12, atol=1e-15), name


def test_layers_gather_the_parameters_of_each_sublayer():
    net, (x, y) = model(), text()
    found = gradient_flow(net, x, y)
    own = [size for name, size in found.parameters.items() if name.startswith("stack.sublayers.3.")]
    assert len(own) == 4
    assert np.isclose(found.layers[3], np.sqrt(np.sum(np.square(own))))
    assert found.labels[:2] == ["0 attention", "1 ffn"]
    assert found.relative[-1] == 1


def test_nothing_in_the_model_changes():
    net, (x, y) = model(), text()
    before = net.state_dict()
    gradient_flow(net, x, y)
    skip_branch_decomposition(net, x, y)
    assert all(p.grad is None for p in net.parameters())
    assert all(np.array_equal(before[name], now) for name, now in net.state_dict().items())


def test_without_targets_the_cotangent_is_random_and_fixed():
    net, (x, _) = model(), text()
    first, again, other = gradient_flow(net, x), gradient_flow(net, x), gradient_flow(net, x, seed=5)
    assert np.array_equal(first.states, again.states)
    assert not np.allclose(first.states, other.states)


def test_dropout_is_the_same_in_both_passes():
    net, (x, y) = model(dropout=0.3, connection="pre_norm"), text()
    parts = skip_branch_decomposition(net, x, y)
    assert np.all(parts.skip == parts.skip[-1])


def test_inputs_that_are_not_parameters_get_a_gradient_too():
    x = np.random.default_rng(0).standard_normal((2, 5, 16))
    assert gradient_flow(stack("residual"), x).states.shape == (5,)
    assert gradient_flow(stack("residual"), Tensor(x)).states[0] > 0


@pytest.mark.parametrize("connection", sorted(CONNECTIONS))
def test_every_rule_gives_norms_or_says_why_not(connection):
    net, (x, y) = model(connection=connection, blocks=2, dtype=np.float32), text()
    try:
        states = gradient_flow(net, x, y).states
    except ValueProblem as problem:
        assert "states" in problem.must
    else:
        assert np.all(np.isfinite(states)) and np.all(states > 0)


# ------------------------------------------------------------------------------------- losses that show nothing

CONSTANT = {
    "sum": lambda y: y.sum(),
    "mean": lambda y: y.mean(),
    "mean square": lambda y: (y * y).mean(),
    "sum plus mean square": lambda y: 3 * y.sum() - (y * y).sum(),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("connection", ["post_norm", "pre_norm"])
@pytest.mark.parametrize("name", CONSTANT)
def test_a_loss_that_the_last_norm_makes_constant_is_refused(name, connection, dtype):
    x = np.random.default_rng(0).standard_normal((2, 5, 16)).astype(dtype)
    with pytest.raises(ValueProblem, match="constant") as caught:
        gradient_flow(stack(connection, dtype=dtype), x, loss=CONSTANT[name])
    assert "cross-entropy" in caught.value.hint


def test_the_refusal_is_right_the_gradients_are_rounding_errors():
    x = Tensor(np.random.default_rng(0).standard_normal((2, 5, 16)), requires_grad=True)
    stack("post_norm")(x).sum().backward()
    assert np.abs(x.grad).max() < 1e-13


def test_rmsnorm_makes_the_mean_square_constant_but_not_the_sum():
    x = np.random.default_rng(0).standard_normal((2, 5, 16))
    with pytest.raises(ValueProblem, match="mean square"):
        gradient_flow(stack("post_norm", "rmsnorm"), x, loss=CONSTANT["mean square"])
    assert gradient_flow(stack("post_norm", "rmsnorm"), x, loss=CONSTANT["sum"]).states[0] > 1e-3


def test_losses_that_do_depend_on_the_model_pass():
    x, rng = np.random.default_rng(0).standard_normal((2, 5, 16)), np.random.default_rng(1)
    net = stack("post_norm")
    assert gradient_flow(net, x, loss=lambda y: (y**3).mean()).states[0] > 1e-6
    assert gradient_flow(stack("residual"), x, loss=CONSTANT["sum"]).states[0] > 1e-3
    net.connection.norms[-1].gamma.data[:] = rng.uniform(0.5, 2, 16)  # then Σ γ x̂ is no constant
    assert gradient_flow(net, x, loss=CONSTANT["sum"]).states[0] > 1e-3
    with pytest.raises(ValueProblem):
        gradient_flow(net, x, loss=lambda y: (y / net.connection.norms[-1].gamma.data).sum())


def test_a_loss_must_be_one_number():
    with pytest.raises(ValueProblem, match="one number"):
        gradient_flow(stack("residual"), np.ones((2, 3, 16)), loss=lambda y: y)


# --------------------------------------------------------------------------------------------- the decomposition


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("init", ["xavier", "he", "gpt2"])
@pytest.mark.parametrize("kind", MODELS)
def test_the_skip_path_of_pre_norm_is_exactly_one(kind, init, dtype):
    net, (x, y) = model(kind, init=init, dtype=dtype, blocks=12, connection="pre_norm"), text()
    gradients = state_gradients(net, x, y, skip_only=True)
    assert all(np.array_equal(g, gradients[-1]) for g in gradients)
    parts = skip_branch_decomposition(net, x, y)
    assert len(set(parts.skip)) == 1 and parts.skip[0] == parts.total[-1]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("d", [16, 64])
def test_the_skip_path_of_post_norm_is_the_product_of_layernorm_jacobians(kind, d):
    net, (x, y) = model(kind, d=d, blocks=12, connection="post_norm"), text()
    for norm in net.stack.connection.norms:
        norm.gamma.data[:] = np.random.default_rng(7).uniform(0.5, 1.5, d)
    gradients = state_gradients(net, x, y, skip_only=True)
    product = skip_path_product(net, x, gradients[-1])
    for g, p in zip(gradients, product):
        assert np.linalg.norm(g.reshape(-1, d) - p) <= 1e-12 * np.linalg.norm(g)


def test_at_width_512_the_product_is_exact_and_close_to_one_over_s():
    net, (x, y) = model(d=512, blocks=12, connection="post_norm"), text(batch=1, length=4)
    total, skip = state_gradients(net, x, y), state_gradients(net, x, y, skip_only=True)
    for g, p in zip(skip, skip_path_product(net, x, skip[-1], rows=1)):
        assert np.linalg.norm(g[0, :1] - p) <= 1e-12 * np.linalg.norm(g[0, :1])
    sizes = np.array([np.linalg.norm(g) for g in skip])
    ratio = sizes / inverse_size_product(*record(net, x), total[-1])
    assert np.all((ratio > 0.97) & (ratio < 1.001)), ratio


def test_at_width_64_the_removed_directions_show():
    net, (x, y) = model(d=64, blocks=12, connection="post_norm"), text(batch=8)
    skip = state_gradients(net, x, y, skip_only=True)
    ratio = np.linalg.norm(skip[0]) / inverse_size_product(*record(net, x), skip[-1])[0]
    assert 0.8 < ratio < 0.97


def test_parts_add_up_and_norms_obey_the_triangle():
    net, (x, y) = model(connection="post_norm", blocks=6), text()
    total, skip = state_gradients(net, x, y), state_gradients(net, x, y, skip_only=True)
    parts = skip_branch_decomposition(net, x, y)
    assert np.allclose(parts.branches, [np.linalg.norm(g - s) for g, s in zip(total, skip)])
    assert parts.branches[-1] == 0 and np.all(parts.branches[:-1] > 0)
    assert np.all(np.abs(parts.difference) <= parts.branches + 1e-12)


def test_one_branch_gives_what_the_formula_says():
    """One Pre-Norm sublayer: branches alone are g'·J_F·J_LN, here from an explicit Jacobian by central differences."""
    net = stack("pre_norm")
    x = np.random.default_rng(2).standard_normal((1, 1, 16))
    total, skip = state_gradients(net, x), state_gradients(net, x, skip_only=True)
    states, _ = record(net, x)
    site, F, step = net.sites[-1], net.sublayers[-1], 1e-6

    def branch(v):
        return F(net.connection.norms[site.k](Tensor(v))).data.ravel()

    columns = [(branch(states[-2] + h) - branch(states[-2] - h)) / (2 * step) for h in step * np.eye(16)[:, None, None]]
    J = np.stack(columns, axis=1)  # ∂F_i/∂x_j
    assert np.allclose(total[-2] - skip[-2], total[-1] @ J, atol=1e-8)


def test_record_returns_what_the_rule_adds():
    net, (x, _) = model(connection="residual"), text()
    states, branches = record(net, x)
    for before, f, after in zip(states, branches, states[1:]):
        assert np.array_equal(before + f, after)


def test_a_deep_mlp_works_too():
    net = DeepMLP(6, 3, 16, 5, connection="pre_norm", dtype=np.float64)
    found = gradient_flow(net, np.random.default_rng(0).standard_normal((4, 6)), np.array([0, 1, 2, 0]))
    assert found.states.shape == (6,) and found.layers.shape == (5,)
