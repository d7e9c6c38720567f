"""Rules with hand-written coefficients against PyTorch: output and every gradient, in float64."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

GOLDENS = Path(__file__).parents[1] / "goldens"


def load_maker():
    spec = importlib.util.spec_from_file_location("make_residual_goldens", GOLDENS / "make_residual_goldens.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


maker = load_maker()


@pytest.fixture(scope="module")
def goldens():
    with np.load(GOLDENS / "residual_goldens.npz") as stored:
        return {key: stored[key] for key in stored.files}


def disagreements(found, right):
    """Names whose arrays differ by more than rounding, beside the size of all gradients."""
    whole = np.sqrt(sum((g**2).sum() for name, g in right.items() if name != "output"))
    return [name for name, g in found.items()
            if np.linalg.norm(g - right[name]) > 1e-10 * np.linalg.norm(right[name]) + 1e-13 * whole]  # fmt: skip


@pytest.mark.parametrize("case", maker.CASES)
def test_output_and_every_gradient_equal_pytorchs(goldens, case):
    right = {key.split("/", 1)[1]: array for key, array in goldens.items() if key.startswith(f"{case}/")}
    found = maker.gradients(case)
    assert set(found) == set(right)
    assert disagreements(found, right) == []


@pytest.mark.parametrize("case", maker.CASES)
def test_every_kind_of_parameter_takes_part(goldens, case):
    """No parameter's golden gradient is zero at every site: a comparison of zeros would prove nothing."""
    sizes = {}
    for key, array in goldens.items():
        if key.startswith(f"{case}/"):
            kind = key.split("/")[1].split(".")[0]
            sizes[kind] = max(sizes.get(kind, 0.0), float(np.abs(array).max()))
    assert min(sizes.values()) > 1e-6, sizes


def test_a_transposed_mixing_matrix_would_be_noticed(goldens, monkeypatch):
    """The commonest mistake in Hyper-Connections."""
    from minires.residual.hyper import HyperConnections

    weights = HyperConnections.weights
    monkeypatch.setattr(HyperConnections, "weights", lambda self, H, site: transposed(*weights(self, H, site)))
    right = {key.split("/", 1)[1]: a for key, a in goldens.items() if key.startswith("hyper_connections/")}
    assert "output" in disagreements(maker.gradients("hyper_connections"), right)


def transposed(A_m, A_r, B):
    return A_m, A_r.swapaxes(-1, -2), B


@pytest.mark.oracle
@pytest.mark.parametrize("case", maker.CASES)
def test_the_goldens_are_what_pytorch_says_today(goldens, case):
    pytest.importorskip("torch")
    for name, g in maker.torch_gradients(case).items():
        np.testing.assert_allclose(g, goldens[f"{case}/{name}"], rtol=1e-9, atol=1e-12)
