"""Reports about layers and blocks, on the models themselves."""

import numpy as np
import pytest

from minires import Tensor, ops
from minires.models import DecoderLM, DeepMLP
from minires.nn import Context
from minires.train import SGD

IDS = np.random.default_rng(0).integers(0, 11, (2, 8))


def model(**settings):
    return DecoderLM(11, d=16, heads=2, blocks=2, context=8, **{"dtype": np.float64, **settings})


@pytest.mark.parametrize("connection", ["residual", "pre_norm", "post_norm"])
def test_field_09_a_block_leaves_its_input_as_it_was(connection):
    """No in-place add and no in-place ReLU on the stream: every state is bit for bit the same after the pass."""
    m = model(connection=connection, activation="relu")
    ctx = Context(trace=[])
    stream = Tensor(np.random.default_rng(1).standard_normal((2, 8, 16)), requires_grad=True)
    kept = stream.data.tobytes()
    y = m.stack(stream, ctx)
    states = [state.data.tobytes() for state in ctx.trace]
    y.backward(np.ones(y.shape))
    assert stream.data.tobytes() == kept
    assert [state.data.tobytes() for state in ctx.trace] == states


def test_field_18_gamma_and_beta_learn():
    """After one SGD step every parameter has changed, in norms that are not the first layer and have random γ.

    Two exceptions, and they are right: a key's bias adds the same number to all scores of a query, so its true
    gradient is 0; and rows of the token table whose symbol did not occur.
    """
    m = model()
    rng = np.random.default_rng(2)
    for p in m.parameters():
        if p.kind == "norm":
            p.data += 0.3 * rng.standard_normal(p.shape)
    before = {name: array.copy() for name, array in m.state_dict().items()}
    m.loss(IDS, np.roll(IDS, -1, axis=1)).backward()
    SGD(m.parameters(), lr=0.1).step()
    after = m.state_dict()
    d = 16
    for name, old in before.items():
        moved = np.abs(after[name] - old)
        if name.endswith("qkv_bias"):
            assert moved[d : 2 * d].max() < 1e-15
            assert moved[:d].min() > 1e-12 and moved[2 * d :].min() > 1e-12
        elif name == "tokens.table":
            assert ((moved > 0).all(axis=1) == np.isin(np.arange(11), IDS)).all()
        else:
            assert (moved > 0).all(), name


def test_field_18_parameter_count_is_the_formula():
    """V d + T d tables; per block 4 d² + 4 d for attention, 8 d² + 5 d for the FFN, two norms 4 d; 2 d; head d V."""
    v, t, d, n = 11, 8, 16, 2
    assert model().count_parameters() == v * d + t * d + n * (12 * d * d + 13 * d) + 2 * d + d * v
    assert model(tied=True).count_parameters() == v * d + t * d + n * (12 * d * d + 13 * d) + 2 * d
    layers = DeepMLP(5, 3, d=16, blocks=4)
    assert layers.count_parameters() == 5 * d + d + 4 * 2 * (d * d + d) + d * 3 + 3


def test_field_19_two_calls_double_gamma_and_beta():
    m = model()
    loss = m.loss(IDS, np.roll(IDS, -1, axis=1))
    loss.backward(retain_graph=True)
    once = [p.grad.copy() for p in m.parameters()]
    loss.backward()
    for p, g in zip(m.parameters(), once, strict=True):
        np.testing.assert_array_equal(p.grad, 2 * g)


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_field_11_float32_everywhere(backend):
    """float32 parameters: float32 activations, gradients and loss, through every block."""
    import minires

    m = model(dtype=np.float32, connection="pre_norm")
    ctx = Context(trace=[])
    with minires.backend(backend):
        loss = m.loss(IDS, np.roll(IDS, -1, axis=1), ctx)
        loss.backward()
    assert loss.dtype == np.float32 and {s.dtype for s in ctx.trace} == {np.dtype(np.float32)}
    assert {p.grad.dtype for p in m.parameters()} == {np.dtype(np.float32)}


def test_backward_of_the_residual_add_hands_on_the_whole_gradient():
    """With a branch of zeros the gradient passes any number of layers unchanged: that is the +I."""
    x = Tensor(np.random.default_rng(0).standard_normal((3, 4)), requires_grad=True)
    h = x
    for _ in range(50):
        h = h + ops.relu(h) * 0.0
    dy = np.random.default_rng(1).standard_normal((3, 4))
    h.backward(dy)
    np.testing.assert_array_equal(x.grad, dy)
