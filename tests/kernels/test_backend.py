"""The switch between NumPy and numba, alone and together with `minires.use`."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import minires
from minires import ops
from minires.messages import UnknownName
from minires.tensor import OPS, Tensor

pytest.importorskip("numba")


@pytest.fixture(autouse=True)
def as_before():
    with minires.backend(minires.backend.name):
        yield


def calls(monkeypatch, name="softmax_forward"):
    """A list that grows by one whenever the numba twin is asked."""
    from minires.kernels import softmax

    seen, kernel = [], getattr(softmax, name)
    twin = OPS["softmax"].forward
    monkeypatch.setattr(twin, "fast", lambda *a, **k: seen.append(1) or kernel(*a, **k))
    return seen


def test_plain_call_and_context(monkeypatch):
    seen, x = calls(monkeypatch), Tensor(np.ones((2, 3)))
    minires.backend("numpy")
    ops.softmax(x)
    assert not seen and minires.backend.name == "numpy"
    with minires.backend("numba"):
        ops.softmax(x)
        with minires.backend("numpy"):
            ops.softmax(x)
        ops.softmax(x)
    assert len(seen) == 2 and minires.backend.name == "numpy"


def test_an_exception_switches_back():
    with pytest.raises(KeyError), minires.backend("numpy"):
        raise KeyError
    assert minires.backend.name == "numba"


def test_unknown_backend_names_the_close_one():
    with pytest.raises(UnknownName, match="Did you mean 'numba'"):
        minires.backend("nunba")


@pytest.mark.parametrize("inner", ["use", "backend"])
@pytest.mark.parametrize("name", ["numpy", "numba"])
def test_a_replacement_stays_in_either_order(inner, name):
    asked = []

    def mine(dy, saved):
        asked.append(1)
        p, axis = saved
        return p * (dy - (dy * p).sum(axis=axis, keepdims=True))

    contexts = [lambda: minires.use(softmax_backward=mine), lambda: minires.backend(name)]
    x = Tensor(np.array([[1.0, 2.0, 4.0]]), requires_grad=True)
    with contexts[inner == "use"](), contexts[inner != "use"]():
        (ops.softmax(x) * np.array([1.0, 0.0, 2.0])).sum().backward()
    assert asked == [1]
    _, saved = OPS["softmax"].reference[0](x.data)
    np.testing.assert_allclose(x.grad, OPS["softmax"].reference[1](np.array([[1.0, 0.0, 2.0]]), saved))
    assert OPS["softmax"].backward is not mine


def test_forward_on_one_and_backward_on_the_other():
    grads = []
    for first, second in (("numpy", "numba"), ("numba", "numpy")):
        x = Tensor(np.linspace(-1, 2, 12).reshape(3, 4), requires_grad=True)
        with minires.backend(first):
            loss = (ops.gelu_tanh(ops.layernorm(x)) * np.arange(4.0)).sum()
        with minires.backend(second):
            loss.backward()
        grads.append(x.grad)
    np.testing.assert_allclose(*grads, rtol=1e-12)


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def test_numba_is_imported_at_the_first_kernel_only():
    run(
        "import sys, minires, numpy as np; x = minires.Tensor(np.ones(3)); assert 'numba' not in sys.modules;"
        "minires.softmax(x); assert 'numba' in sys.modules"
    )


WITHOUT = "import sys; sys.modules['numba'] = None; import minires, numpy as np; x = minires.Tensor(np.ones(3));"


def test_a_numba_that_cannot_be_imported_gives_numpy_and_one_notice():
    done = run(WITHOUT + "minires.backend.name = 'numba'; minires.softmax(x); minires.gelu(x); print(minires.backend)")
    assert done.stdout.strip() == "minires.backend('numpy')"
    assert done.stderr.count("minires: ") == 1 and "NumPy" in done.stderr


def test_asking_for_a_numba_that_is_not_there_is_an_error():
    done = run(WITHOUT + "\ntry: minires.backend('numba')\nexcept ValueError as e: print(e)")
    assert "pip install numba" in done.stdout
