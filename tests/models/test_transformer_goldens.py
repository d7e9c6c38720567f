"""Gradients of 12-block Transformers against PyTorch's, in float64."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

GOLDENS = Path(__file__).parents[1] / "goldens"


def load_maker():
    spec = importlib.util.spec_from_file_location("make_transformer_goldens", GOLDENS / "make_transformer_goldens.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


maker = load_maker()


def our_gradients(kind, connection):
    model = maker.our_model(kind, connection)
    ids, targets, segments = maker.batch()
    if kind == "decoder":
        loss = model.loss(ids, targets)
    else:
        from minires.ops import cross_entropy

        loss = cross_entropy(model(ids, segments=segments), targets)
    loss.backward()
    return loss.item(), {name: p.grad for name, p in model.named_parameters()}


@pytest.fixture(scope="module")
def goldens():
    with np.load(GOLDENS / "transformer_goldens.npz") as stored:
        return dict(stored)


@pytest.mark.parametrize("kind, connection", maker.CASES)
def test_every_gradient_equals_pytorchs(goldens, kind, connection):
    loss, gradients = our_gradients(kind, connection)
    theirs = {name: goldens[f"{kind}/{connection}/{name}"] for name in gradients}
    assert len(theirs) + 1 == sum(key.startswith(f"{kind}/{connection}/") for key in goldens)
    assert loss == pytest.approx(float(goldens[f"{kind}/{connection}/loss"]), rel=1e-12)
    whole = np.sqrt(sum((g**2).sum() for g in theirs.values()))
    for name, g in gradients.items():
        allowed = 1e-10 * np.linalg.norm(theirs[name]) + 1e-14 * whole
        assert np.linalg.norm(g - theirs[name]) <= allowed, name


@pytest.mark.parametrize("kind, connection", maker.CASES)
def test_a_key_bias_has_no_gradient(kind, connection):
    """q·(k + b) adds the same q·b to every score of a query, and softmax does not see it."""
    _, gradients = our_gradients(kind, connection)
    d = maker.SIZES["d"]
    whole = np.sqrt(sum((g**2).sum() for g in gradients.values()))
    biases = [g for name, g in gradients.items() if name.endswith("qkv_bias")]
    assert len(biases) == maker.SIZES["blocks"]
    for g in biases:
        assert np.linalg.norm(g[d : 2 * d]) <= 1e-14 * whole
        assert np.linalg.norm(g[:d]) > 1e-8 * whole and np.linalg.norm(g[2 * d :]) > 1e-8 * whole


def test_the_comparison_notices_a_wrong_gradient(goldens):
    """A gradient that is off by one part in 10⁹ must not pass: the bound is tight enough to mean something."""
    _, gradients = our_gradients("decoder", "pre_norm")
    name = "stack.sublayers.5.in_weight"
    theirs = goldens[f"decoder/pre_norm/{name}"]
    assert np.linalg.norm(gradients[name] * (1 + 1e-9) - theirs) > 1e-10 * np.linalg.norm(theirs)


@pytest.mark.oracle
@pytest.mark.parametrize("kind, connection", maker.CASES)
def test_the_goldens_are_what_pytorch_says_today(goldens, kind, connection):
    pytest.importorskip("torch")
    loss, gradients = maker.torch_gradients(kind, connection)
    assert loss == pytest.approx(float(goldens[f"{kind}/{connection}/loss"]), rel=1e-12)
    for name, g in gradients.items():
        np.testing.assert_allclose(g, goldens[f"{kind}/{connection}/{name}"], rtol=1e-9, atol=1e-12)
