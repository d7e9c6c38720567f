"""The referee finds planted mistakes, each with a message of its own, and lets right answers pass."""

import numpy as np
import pytest

import minires
from minires import Tensor
from minires.gradcheck import GradientError, check_pair, gradcheck, numerical_gradient
from minires.ops.activations import relu_backward, relu_forward
from minires.ops.attention import attention_backward, attention_forward
from minires.ops.norms import layernorm_backward, layernorm_forward
from minires.ops.softmax import softmax_backward, softmax_forward

RNG = np.random.default_rng(0)
X, GAMMA, BETA = RNG.standard_normal((4, 6)), RNG.standard_normal(6), RNG.standard_normal(6)
SQUARE, W = RNG.standard_normal((3, 3)), RNG.standard_normal((3, 3))


def layernorm_with(change):
    """LayerNorm's backward pass with one change: (dx, dγ, dβ, dy, saved) → gradients."""
    return lambda dy, saved: change(*layernorm_backward(dy, saved), dy, saved)


def without_variance_term(dx, dgamma, dbeta, dy, saved):
    _, rstd, gamma, _ = saved
    dxhat = dy * gamma
    return rstd * (dxhat - dxhat.mean(axis=-1, keepdims=True)), dgamma, dbeta


def without_mean_term(dx, dgamma, dbeta, dy, saved):
    xhat, rstd, gamma, _ = saved
    dxhat = dy * gamma
    return rstd * (dxhat - xhat * (dxhat * xhat).mean(axis=-1, keepdims=True)), dgamma, dbeta


def dy_changed(dx, dgamma, dbeta, dy, saved):
    dy *= 2
    return dx, dgamma, dbeta


def saved_changed(dx, dgamma, dbeta, dy, saved):
    saved[0][0] += 1
    return dx, dgamma, dbeta


def nan_in_dx(dx, dgamma, dbeta, dy, saved):
    return np.where(dx == dx.max(), np.nan, dx), dgamma, dbeta


MISTAKES = {
    "no variance term": (without_variance_term, "gradient of x .* No simple pattern"),
    "no mean term": (without_mean_term, "gradient of x "),
    "gamma forgotten": (lambda dx, dg, db, dy, s: (layernorm_backward(dy / s[2], s)[0], dg, db), "gradient of x "),
    "twice": (lambda dx, dg, db, dy, s: (2 * dx, dg, db), "Yours is 2 times the right one"),
    "sign": (lambda dx, dg, db, dy, s: (-dx, dg, db), "wrong sign"),
    "zero": (lambda dx, dg, db, dy, s: (0 * dx, dg, db), "zero everywhere"),
    "none": (lambda dx, dg, db, dy, s: (None, dg, db), "zero everywhere"),
    "nan": (nan_in_dx, "Yours has NaN"),
    "a mean over rows": (lambda dx, dg, db, dy, s: (dx / 4, dg, db), "1/4 of the right.*mean in the place of a sum"),
    "root of d": (lambda dx, dg, db, dy, s: (dx, dg * np.sqrt(6), db), "factor √6"),
    "no sum over the batch": (lambda dx, dg, db, dy, s: (dx, dg, dy), "gradient of beta must have its shape"),
    "float32": (lambda dx, dg, db, dy, s: (dx, dg, db.astype(np.float32)), "must keep its dtype"),
    "too few": (lambda dx, dg, db, dy, s: (dx, dg), "must return 3 gradients"),
    "order": (lambda dx, dg, db, dy, s: (dx, db, dg), "gradient of gamma must equal"),
    "dy changed": (dy_changed, "must leave dy as it was"),
    "saved changed": (saved_changed, "must leave `saved` as it was"),
    "saved returned": (lambda dx, dg, db, dy, s: (s[0], dg, db), "memory of saved"),
    "one array twice": (lambda dx, dg, db, dy, s: (dx, dg, dg), "memory of the gradient of gamma"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_named(mistake):
    change, words = MISTAKES[mistake]
    with pytest.raises(GradientError, match=f"(?s){words}") as caught:
        check_pair(layernorm_forward, layernorm_with(change), (X, GAMMA, BETA))
    assert caught.value.must and caught.value.given and caught.value.hint


def test_transpose_is_named():
    def backward(dy, saved):
        da, db = minires.ops.matmul.op.reference[1](dy, saved)
        return da.T.copy(), db

    with pytest.raises(GradientError, match="transpose"):
        check_pair(minires.ops.matmul.op.reference[0], backward, (SQUARE, W))


def test_a_factor_missing_in_attention_is_named():
    def without_scale(dy, saved):
        dq, dk, dv = attention_backward(dy, saved)
        return dq * 2, dk * 2, dv  # the factor 1/√4 left out

    q, k, v = RNG.standard_normal((3, 5, 4))
    check_pair(attention_forward, attention_backward, (q, k, v))
    with pytest.raises(GradientError, match=r"gradient of q .*(?s:.*)Yours is 2 times"):
        check_pair(attention_forward, without_scale, (q, k, v))


def test_softmax_with_a_diagonal_jacobian_is_wrong():
    """The usual mistake: dx = dy p (1 - p), which forgets that entries of a row share their denominator."""
    with pytest.raises(GradientError):
        check_pair(softmax_forward, lambda dy, saved: dy * saved[0] * (1 - saved[0]), (X,))
    assert check_pair(softmax_forward, softmax_backward, (X,)).worst < 1e-13


def test_a_forward_that_changes_its_input_is_found():
    def in_place(x):
        x -= x.mean()
        return x.copy(), None

    with pytest.raises(GradientError, match="forward must leave its inputs"):
        check_pair(in_place, lambda dy, saved: dy - dy.mean(), (X,))


def test_the_method_follows_the_function():
    assert check_pair(layernorm_forward, layernorm_backward, (X, GAMMA, BETA)).methods["x"] == "complex"
    absolute = minires.ops.abs.op.reference
    assert check_pair(*absolute, (X,)).methods["x"] == "central"
    assert check_pair(relu_forward, relu_backward, (X,)).worst < 1e-9


def test_numerical_gradient_of_a_known_function():
    dy = RNG.standard_normal(6)
    for method, tolerance in (("complex", 1e-15), ("central", 1e-9)):
        found, used = numerical_gradient(lambda x: np.sin(x), [GAMMA], 0, dy, method)
        assert used == method
        np.testing.assert_allclose(found, dy * np.cos(GAMMA), rtol=0, atol=tolerance * 10)


def test_gradcheck_on_tensors_and_its_failures():
    assert gradcheck(lambda x, g: minires.layernorm(x, g).tanh(), X, GAMMA).worst < 1e-13
    with pytest.raises(GradientError, match="zero everywhere"):
        gradcheck(lambda x, g: minires.layernorm(x, g.detach()) * x, X, GAMMA)
    with pytest.raises(minires.messages.GraphError, match="depend on the inputs"):
        gradcheck(lambda x: x.detach(), X)


def test_gradcheck_takes_float32_and_integers():
    table = Tensor(X.astype(np.float32))
    assert gradcheck(lambda t, ids: minires.embedding(t, ids), table, np.array([0, 0, 3])).worst < 1e-12
