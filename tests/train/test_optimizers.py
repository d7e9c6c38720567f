"""SGD, Adam and AdamW: against PyTorch's trajectories, and what they promise about parameters."""

import copy
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from minires import Tensor, backend, no_grad
from minires.messages import GraphError
from minires.models import DecoderLM
from minires.nn import Parameter
from minires.train import SGD, Adam, AdamW, optimizers, updates

GOLDENS = Path(__file__).parents[1] / "goldens"
_spec = importlib.util.spec_from_file_location("goldens", GOLDENS / "make_transformer_goldens.py")
maker = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(maker)


def pair(dtype=np.float64):
    weight, bias = maker.start()
    return Parameter(weight.astype(dtype), "weight"), Parameter(bias.astype(dtype), "bias")


@pytest.fixture(params=["numpy", "numba"])
def either_backend(request):
    if request.param == "numba":
        pytest.importorskip("numba")
    with backend(request.param):
        yield


@pytest.mark.parametrize("key", maker.OPTIMIZERS)
def test_trajectories_equal_pytorchs(key, either_backend):
    name, settings = maker.OPTIMIZERS[key]
    weight, bias = pair()
    optimizer = getattr(optimizers, name)([weight, bias], **settings)
    with np.load(GOLDENS / "optimizer_goldens.npz") as stored:
        theirs = stored[key]
    for step in range(maker.STEPS):
        weight.grad, bias.grad = maker.gradients_at(step)
        optimizer.step()
        ours = np.concatenate([weight.data.reshape(-1), bias.data])
        np.testing.assert_allclose(ours, theirs[step], rtol=1e-12, atol=1e-13)


def test_what_does_not_decay_is_what_pytorch_was_told_not_to_decay():
    """If the bias decayed too, the trajectory test would notice."""
    weight, bias = pair()
    bias.kind = "weight"
    optimizer = AdamW([weight, bias], **maker.OPTIMIZERS["adamw"][1])
    for step in range(5):
        weight.grad, bias.grad = maker.gradients_at(step)
        optimizer.step()
    with np.load(GOLDENS / "optimizer_goldens.npz") as stored:
        assert abs(bias.data - stored["adamw"][4, 20:]).max() > 1e-3


def test_only_weights_and_embeddings_decay():
    model = DecoderLM(7, d=8, heads=2, blocks=1, context=4, connection="pre_norm")
    before = model.state_dict()
    optimizer = AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
    optimizer.step([np.zeros_like(p.data) for p in optimizer.parameters])
    for name, p in model.named_parameters():
        expected = before[name] * (1 - 0.1 * 0.5) if p.kind in ("weight", "embedding") else before[name]
        np.testing.assert_allclose(p.data, expected, rtol=1e-6, err_msg=name)
    kinds = {p.kind for p in model.parameters()}
    assert {"weight", "embedding", "bias", "norm"} <= kinds


@pytest.mark.parametrize("make", [lambda p: SGD(p, 0.1, momentum=0.9), lambda p: Adam(p, 0.1), lambda p: AdamW(p, 0.1)])
def test_lr_scale_is_a_learning_rate_of_its_own(make):
    scaled, plain = Parameter(np.ones(3), "bias"), Parameter(np.ones(3), "bias")
    scaled.lr_scale = 0.25
    one, other = make([scaled]), make([plain])
    other.lr *= 0.25
    for step in range(4):
        g = np.random.default_rng(step).standard_normal(3)
        one.step([g])
        other.step([g])
    np.testing.assert_allclose(scaled.data, plain.data, rtol=1e-15)
    assert not np.allclose(plain.data, 1)


def test_a_parameter_without_a_gradient_is_left_alone_and_counts_its_own_steps():
    """The Adam correction of a parameter that is used first at step 5 is that of a first step."""
    late, early, alone = (Parameter(np.ones(3)) for _ in range(3))
    g = np.array([0.3, -2.0, 5.0])
    together = AdamW([early, late], lr=0.1)
    for _ in range(4):
        early.grad = g
        together.step()
    np.testing.assert_array_equal(late.data, 1)
    late.grad = g
    together.step()
    AdamW([alone], lr=0.1).step([g])
    np.testing.assert_array_equal(late.data, alone.data)
    assert together.steps.tolist() == [5, 1]


def test_a_skipped_parameter_between_two_others_is_not_touched():
    a, b, c = (Parameter(np.ones(3)) for _ in range(3))
    SGD([a, b, c], lr=1.0).step([np.ones(3), None, np.ones(3)])
    assert (a.data.sum(), b.data.sum(), c.data.sum()) == (0.0, 3.0, 0.0)


def test_a_tied_weight_is_updated_once():
    p = Parameter(np.ones(3))
    optimizer = SGD([p, p], lr=1.0)
    optimizer.step([np.ones(3)])
    np.testing.assert_array_equal(p.data, 0)
    model = DecoderLM(7, d=8, heads=2, blocks=1, context=4, tied=True)
    tied = AdamW(model.parameters())
    assert sum(p.size for p in tied.parameters) == model.count_parameters()
    assert "head.weight" not in model.state_dict()


def test_parameters_move_into_the_flat_array_and_keep_their_values():
    model = DecoderLM(7, d=8, heads=2, blocks=1, context=4)
    before, ids = model.state_dict(), np.arange(4)[None]
    with no_grad():
        logits = model(ids).data.copy()
    flat = AdamW(model.parameters()).flat
    for name, p in model.named_parameters():
        assert np.shares_memory(p.data, flat.data) and p.data.ctypes.data % 64 == 0, name
        np.testing.assert_array_equal(p.data, before[name])
    with no_grad():
        np.testing.assert_allclose(model(ids).data, logits, rtol=1e-6)


def test_two_optimisers_over_the_same_parameters_and_a_rebound_array():
    """The second takes the memory over; the first one's next step still starts from the values of now."""
    p = Parameter(np.ones(3))
    first, second = SGD([p], lr=1.0), SGD([p], lr=1.0)
    for optimizer, expected in ((first, 0), (second, -1), (first, -2)):
        optimizer.step([np.ones(3)])
        np.testing.assert_array_equal(p.data, expected)
    p.data = np.full(3, 10.0)
    second.step([np.ones(3)])
    np.testing.assert_array_equal(p.data, 9)


def test_a_deepcopy_trains_apart():
    model = DecoderLM(7, d=8, heads=2, blocks=1, context=4)
    AdamW(model.parameters())
    twin, before = copy.deepcopy(model), model.state_dict()
    optimizer = SGD(twin.parameters(), lr=1.0)
    optimizer.step([np.ones_like(p.data) for p in optimizer.parameters])
    for name, p in model.named_parameters():
        np.testing.assert_array_equal(p.data, before[name])


def test_a_step_between_forward_and_backward_is_noticed():
    w = Parameter(np.ones((3, 3)))
    optimizer = SGD([w], lr=0.1)
    loss = (Tensor(np.ones((2, 3))) @ w).sum()
    optimizer.step([np.ones((3, 3))])
    with pytest.raises(GraphError, match="changed in place"):
        loss.backward()


@pytest.mark.parametrize("make", [lambda p: SGD(p, 0.1, momentum=0.9), lambda p: Adam(p, 0.1), lambda p: AdamW(p, 0.1)])
def test_a_saved_state_goes_on_with_the_same_bits(make):
    weight, bias = pair(np.float32)
    optimizer = make([weight, bias])
    for step in range(7):
        optimizer.step(maker.gradients_at(step))
    twins = Parameter(weight.data.copy(), "weight"), Parameter(bias.data.copy(), "bias")
    other = make(list(twins))
    other.load_state_dict(optimizer.state_dict())
    for step in range(7, 12):
        optimizer.step(maker.gradients_at(step))
        other.step(maker.gradients_at(step))
    np.testing.assert_array_equal(weight.data, twins[0].data)
    np.testing.assert_array_equal(bias.data, twins[1].data)


def test_float32_stays_float32():
    weight, bias = pair(np.float32)
    optimizer = AdamW([weight, bias])
    optimizer.step(maker.gradients_at(0))
    assert weight.dtype == bias.dtype == optimizer.memory["v"].dtype == np.float32


def test_zero_d_parameters():
    gate = Parameter(np.array(2.0), "gate")
    loss = gate * gate * gate
    loss.backward()
    SGD([gate], lr=0.5).step()
    assert gate.shape == () and gate.item() == 2 - 0.5 * 12


def test_adam_moves_by_the_learning_rate_at_the_first_step():
    """m̂/√v̂ is the sign of the gradient at t = 1, whatever its size: the bias correction at work."""
    p = np.zeros(3)
    g = np.array([1e-3, -7.0, 1e4])
    updates.adamw_step(p, g, np.zeros(3), np.zeros(3), 0.1, 0.9, 0.999, 0.0, 0.0, 1 / 0.1, 1 / 0.001)
    np.testing.assert_allclose(p, -0.1 * np.sign(g), rtol=1e-12)


def test_both_adamw_steps_agree_on_float32_and_in_the_gaps_between_parameters():
    """Odd sizes leave gaps in the flat array; after many steps they are still zero in both."""
    after = {}
    for name in ("numpy", "numba"):
        with backend(name):
            weights = [Parameter(np.linspace(-1, 1, n, dtype=np.float32)) for n in (3, 17, 1)]
            optimizer = AdamW(weights, lr=0.1, weight_decay=0.1)
            for step in range(30):
                rng = np.random.default_rng(step)
                optimizer.step([rng.standard_normal(p.shape).astype(np.float32) for p in weights])
            assert np.count_nonzero(optimizer.flat.data) == 3 + 17 + 1
            after[name] = np.concatenate([p.data for p in weights])
    np.testing.assert_allclose(after["numpy"], after["numba"], rtol=1e-4, atol=3e-5)


def test_the_printed_optimiser_says_what_it_is():
    assert repr(SGD([Parameter(np.ones(3))], 0.1, momentum=0.9)) == (
        "SGD(3 numbers, lr=0.1, momentum=0.9, nesterov=0, weight_decay=0)"
    )
