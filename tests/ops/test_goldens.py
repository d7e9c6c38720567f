"""Values and gradients of the operations against PyTorch's, in float64, on both backends."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import minires
from minires import Tensor, ops

GOLDENS = Path(__file__).parents[1] / "goldens"


def load_maker():
    spec = importlib.util.spec_from_file_location("make_ops_goldens", GOLDENS / "make_ops_goldens.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


maker = load_maker()


@pytest.fixture(scope="module")
def goldens():
    with np.load(GOLDENS / "ops_goldens.npz") as file:
        return dict(file)


def our_result(case):
    """Our result and leaves for a case."""
    operation, _, options = maker.CASES[case]
    leaves = {name: Tensor(x, requires_grad=True) for name, x in maker.inputs_of(case).items()}
    inputs = list(leaves.values())
    if operation in ("cross_entropy", "embedding"):
        ids = maker.targets() if options.get("ignore_index", -100) == -100 else np.maximum(maker.targets(), 0)
        inputs.append(np.maximum(ids, 0) if operation == "embedding" else ids)
    return getattr(ops, operation)(*inputs, **options), leaves


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("case", maker.CASES)
def test_equals_pytorch(case, backend, goldens):
    """‖ours - theirs‖ ≤ 1e-13 ‖theirs‖ for the result and for every gradient."""
    with minires.backend(backend):
        y, leaves = our_result(case)
        y.backward(maker.drawn(f"{case} upstream", y.shape))
    for name, ours in {"y": y.data, **{f"d{name}": x.grad for name, x in leaves.items()}}.items():
        theirs = goldens[f"{case}: {name}"]
        assert ours.shape == theirs.shape
        assert np.linalg.norm(ours - theirs) <= 1e-13 * np.linalg.norm(theirs), name


def test_every_golden_belongs_to_a_case(goldens):
    cases = {key.split(": ")[0] for key in goldens if ": " in key}
    assert cases == set(maker.CASES)
    assert str(goldens["torch version"])


@pytest.mark.oracle
@pytest.mark.parametrize("case", maker.CASES)
def test_goldens_are_what_pytorch_says_today(case, goldens):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    for name, array in maker.torch_results(case).items():
        np.testing.assert_allclose(array, goldens[name], rtol=1e-12, atol=1e-14)
