"""`minires.use`: a learner's function in the engine, honoured by everything that contains it."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import minires
from minires import Tensor, ops
from minires.messages import DtypeError, GraphError, UnknownName
from minires.tensor import OPS

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 12))


def recorder(name, side):
    """The engine's own function, that counts its calls."""
    function = OPS[name].reference[side == "backward"]

    def mine(*args, **options):
        mine.calls += 1
        return function(*args, **options)

    mine.calls = 0
    return mine


def gradients(f, *arrays):
    leaves = [Tensor(a, requires_grad=True) for a in arrays]
    y = f(*leaves)
    y.backward(np.random.default_rng(1).standard_normal(y.shape))
    return [x.grad for x in leaves]


def test_a_replacement_is_used_and_taken_out_again():
    before = OPS["relu"].forward, OPS["relu"].backward
    with minires.use(relu_backward=lambda dy, x: 7 * dy):
        (dx,) = gradients(ops.relu, -np.ones(3))
        assert (dx != 0).all()
    (dx,) = gradients(ops.relu, -np.ones(3))
    assert not dx.any() and (OPS["relu"].forward, OPS["relu"].backward) == before


def test_forward_and_backward_of_ones_own():
    """A learner may save what they like, as long as their own backward reads it."""
    with minires.use(
        tanh_forward=lambda x: (np.tanh(x), {"t": np.tanh(x)}), tanh_backward=lambda dy, s: dy - dy * s["t"] ** 2
    ):
        assert minires.gradcheck(ops.tanh, X).worst < 1e-6


CONTAINERS = {
    "linear": (lambda x: ops.linear(x, np.ones((12, 2)), np.ones(2)), ["matmul", "add"]),
    "ffn": (
        lambda x: ops.ffn(x, np.ones((12, 4)), None, np.ones((4, 2)), None),
        ["linear", "matmul", "gelu_tanh", "tanh"],
    ),
    "attention": (lambda x: ops.attention(x, x, x, causal=True), ["softmax", "matmul", "exp", "where"]),
    "self_attention": (lambda x: ops.self_attention(x, heads=2), ["attention", "softmax", "matmul", "exp"]),
    "cross_entropy": (lambda x: ops.cross_entropy(x, np.ones((2, 3), int)), ["log_softmax", "exp", "log"]),
    "layernorm": (lambda x: ops.layernorm(x, np.ones(12), np.ones(12)), ["mul", "mean", "sqrt", "add"]),
    "rmsnorm": (lambda x: ops.rmsnorm(x, np.ones(12)), ["mul", "mean", "sqrt"]),
    "softmax": (ops.softmax, ["exp", "div"]),
    "log_softmax": (ops.log_softmax, ["exp", "log"]),
    "silu": (ops.silu, ["sigmoid"]),
    "embedding": (lambda x: ops.embedding(x[0], np.array([0, 2])), ["getitem"]),
}
PAIRS = [(whole, part) for whole, (_, parts) in CONTAINERS.items() for part in parts]


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize(("whole", "part"), PAIRS, ids=[f"{part}-in-{whole}" for whole, part in PAIRS])
@pytest.mark.parametrize("side", ["forward", "backward"])
def test_fused_operations_honour_a_replaced_part(whole, part, side, backend):
    f = CONTAINERS[whole][0]
    mine = recorder(part, side)
    with minires.backend(backend):
        (usual,) = gradients(f, X)
        with minires.use(**{f"{part}_{side}": mine}):
            (replaced,) = gradients(f, X)
    assert mine.calls > 0
    np.testing.assert_allclose(replaced, usual, rtol=1e-9, atol=1e-12)


def test_all_blocks_are_among_the_containers():
    assert {name for name, op in OPS.items() if op.composed} - set(CONTAINERS) <= {
        "gelu_tanh", "depth_sum", "depth_attention", "dyt", "sinkhorn",
    }  # fmt: skip


def test_nested_blocks():
    """The inner block may replace a part of what the outer one replaced, and the other way round."""
    norm, mul = recorder("layernorm", "backward"), recorder("mul", "backward")
    f = lambda x: ops.layernorm(x, np.ones(12)) * x  # noqa: E731
    for outer, inner in (
        ({"layernorm_backward": norm}, {"mul_backward": mul}),
        ({"mul_backward": mul}, {"layernorm_backward": norm}),
    ):
        with minires.use(**outer):
            gradients(f, X)
            with minires.use(**inner):
                gradients(f, X)
            gradients(f, X)
    with minires.use(layernorm_backward=norm, mul_backward=mul):
        gradients(f, X)
    assert norm.calls >= 4 and mul.calls >= 4
    assert all(op.detours == 0 for op in OPS.values())


def test_it_reaches_worker_threads():
    mine = recorder("softmax", "backward")
    with minires.use(softmax_backward=mine), ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: gradients(ops.softmax, X), range(4)))
    assert mine.calls == 4


def test_a_replacement_that_was_never_called_is_an_error():
    with (
        pytest.raises(GraphError, match="layernorm_backward, which was never called"),
        minires.use(layernorm_backward=lambda dy, saved: None),
    ):
        ops.layernorm(X)
    assert OPS["layernorm"].detours == 0


def test_an_error_inside_comes_out_as_it_is():
    before = OPS["exp"].backward
    with pytest.raises(ZeroDivisionError), minires.use(exp_backward=lambda dy, y: 1 / 0):
        gradients(ops.exp, X)
    assert OPS["exp"].backward is before


@pytest.mark.parametrize(
    ("key", "hint"), [("layernrom_backward", "layernorm_backward"), ("softmax", "softmax_"), ("", "")]
)
def test_an_unknown_name_is_explained(key, hint):
    with (
        pytest.raises(UnknownName, match=f"Did you mean '{hint}" if hint else "must be one of"),
        minires.use(**{key: np.exp}),
    ):
        pass


def test_not_a_function():
    with pytest.raises(DtypeError, match="must be a function"), minires.use(exp_backward=np.ones(3)):
        pass


def test_what_a_learner_returns_is_copied():
    """A list of gradients, the same array twice, or dy itself written to later: the engine works on copies."""

    def lazy(dy, saved):
        return [dy, dy]

    a, b = Tensor(np.ones(2), requires_grad=True), Tensor(np.ones(2), requires_grad=True)
    with minires.use(mul_backward=lazy):
        (a * b + a * b).sum().backward()
    np.testing.assert_array_equal(a.grad, [2, 2])
    assert not np.shares_memory(a.grad, b.grad)


@pytest.mark.parametrize(
    ("backward", "words"),
    [
        (lambda dy, s: (dy,), "one gradient per input, 2 in all"),
        (lambda dy, s: (dy, dy, dy), "one gradient per input"),
        (lambda dy, s: (dy.sum(0), dy), r"gradient 0 of matmul must have the shape of its input.*forget to sum"),
    ],
)  # fmt: skip
def test_what_a_learner_returns_is_checked(backward, words):
    a, b = (Tensor(RNG.standard_normal((3, 3)), requires_grad=True) for _ in range(2))
    with pytest.raises((GraphError, minires.messages.ShapeError), match=words), minires.use(matmul_backward=backward):
        (a @ b).sum().backward()
