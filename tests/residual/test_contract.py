"""Every recipe keeps one contract: shapes, every gradient, saved states, determinism, backends, dtypes."""

import re

import numpy as np
import pytest

import minires
from minires.models import RECIPES, DeepMLP
from minires.models.notes import NOTES
from minires.nn import Context
from minires.residual import CONNECTIONS, PARTS, parts_of
from minires.tensor import grad, no_grad
from tests.residual.common import BLOCKS, VOCAB, D, build, disturbed, ids_and_targets

NAMES = sorted(RECIPES)


RIGHTLY_QUIET = (
    ".experts.",  # an expert that no token chose
    "queries.0", "key_gains.0",  # the first sublayer has one source to look at: a softmax over one number
    "read_weights.0",  # all copies are still equal, and the norm behind takes the sum of the weights away
)  # fmt: skip


def projected(model, ids, seed=3):
    """⟨R, logits⟩ with a random R: one number that depends on every logit in its own way."""
    logits = model(ids)
    R = np.random.default_rng(seed).standard_normal(logits.shape).astype(logits.dtype)
    return (logits * R).sum()


def test_there_are_enough_recipes_and_every_rule_is_in_one():
    assert len(RECIPES) >= 30
    assert {recipe.connection for recipe in RECIPES.values()} == set(CONNECTIONS)


@pytest.mark.parametrize("name", NAMES)
def test_gradient_of_every_parameter(name):
    """Along a random direction per parameter, in float64, away from the special first values."""
    model, (ids, _) = disturbed(build(name)), ids_and_targets()
    gradients = grad(projected(model, ids), model.parameters())
    rng, h = np.random.default_rng(0), 1e-6
    for (where, p), g in zip(model.named_parameters(), gradients, strict=True):
        direction, start = rng.standard_normal(p.shape), p.data.copy()
        values = []
        with no_grad():
            for sign in (1, -1):
                p.data[...] = start + sign * h * direction
                values.append(projected(model, ids).item())
        p.data[...] = start
        numerical, ours = (values[0] - values[1]) / (2 * h), float((g * direction).sum())
        scale = np.linalg.norm(g) * np.linalg.norm(direction)
        assert abs(ours - numerical) <= 1e-6 * scale + 1e-7, where


@pytest.mark.parametrize("name", NAMES)
def test_gradient_check_would_notice_an_error_of_one_in_a_thousand(name):
    """Every parameter that a recipe adds has a gradient large enough for the comparison above to mean something."""
    model, (ids, _) = disturbed(build(name)), ids_and_targets()
    gradients = grad(projected(model, ids), model.parameters())
    quiet = [where for (where, _), g in zip(model.named_parameters(), gradients, strict=True)
             if 1e-3 * np.linalg.norm(g) < 1e-6]  # fmt: skip
    assert all(any(part in where for part in RIGHTLY_QUIET) for where in quiet), quiet


@pytest.mark.parametrize("name", NAMES)
def test_shapes_and_states(name):
    model, (ids, targets) = build(name), ids_and_targets()
    ctx = Context(trace=[])
    logits = model(ids, ctx)
    assert logits.shape == (*ids.shape, VOCAB)
    assert len(ctx.trace) == 1 + 2 * BLOCKS // model.stack.connection.arity
    assert {x.shape for x in ctx.trace} == {(*ids.shape, D)}
    assert np.isfinite(model.loss(ids, targets).item())


@pytest.mark.parametrize("name", NAMES)
def test_state_dict_round_trip(name):
    model, twin, (ids, _) = disturbed(build(name)), build(name, seed=9), ids_and_targets()
    assert not np.array_equal(model(ids).data, twin(ids).data)
    twin.load_state_dict(model.state_dict())
    np.testing.assert_array_equal(model(ids).data, twin(ids).data)


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_bits_and_nothing_changed_in_place(name):
    runs = []
    for _ in range(2):
        model, (ids, targets) = build(name, dtype=np.float32), ids_and_targets()
        before, asked = model.state_dict(), ids.copy()
        loss = model.loss(ids, targets)
        gradients = grad(loss, model.parameters())
        np.testing.assert_array_equal(ids, asked)
        for key, array in model.state_dict().items():
            np.testing.assert_array_equal(array, before[key], err_msg=key)
        runs.append([loss.data, *gradients])
    for a, b in zip(*runs, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", NAMES)
def test_float32_stays_float32_and_agrees_with_float64(name):
    model, exact, (ids, targets) = build(name, np.float32), build(name), ids_and_targets()
    exact.load_state_dict({k: v.astype(np.float64) for k, v in model.state_dict().items()})
    ctx = Context(trace=[])
    loss = model.loss(ids, targets, ctx)
    gradients = grad(loss, model.parameters())
    assert {x.dtype for x in [loss, *ctx.trace, *gradients]} == {np.dtype(np.float32)}
    assert loss.item() == pytest.approx(exact.loss(ids, targets).item(), rel=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_both_backends_agree(name):
    pytest.importorskip("numba")
    model, (ids, targets) = disturbed(build(name)), ids_and_targets()
    found = {}
    for backend in ("numpy", "numba"):
        with minires.backend(backend):
            found[backend] = grad(model.loss(ids, targets), model.parameters())
    whole = np.sqrt(sum((g**2).sum() for g in found["numpy"]))
    for ours, twin in zip(found["numpy"], found["numba"], strict=True):
        assert np.linalg.norm(ours - twin) <= 1e-10 * whole


@pytest.mark.parametrize("rule", sorted(CONNECTIONS))
def test_every_rule_carries_an_mlp(rule):
    """One sublayer per block: the rules know nothing about attention."""
    x = np.random.default_rng(0).standard_normal((3, 5))
    model = DeepMLP(5, 4, d=6, blocks=4, connection=rule, dtype=np.float64)
    loss = model.loss(x, np.array([0, 1, 3]))
    assert all(np.isfinite(g).all() for g in grad(loss, model.parameters()))


def test_a_rule_that_joins_two_sublayers_says_so_when_one_is_left_over():
    with pytest.raises(minires.messages.ValueProblem, match="even number of blocks"):
        DeepMLP(5, 4, d=6, blocks=3, connection="parallel")


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_says_what_it_is(name):
    recipe = RECIPES[name]
    rule = CONNECTIONS[recipe.connection]
    assert recipe.equation.startswith(rule.equation) and "(" in rule.equation
    parts = recipe.parts()
    assert list(parts) == ["equation", *PARTS]
    assert all(len(text) > len("Discrepancy: none") for text in parts.values())
    assert re.search(r"\bI\b|no \+I|_res ⊗ I|A_rᵀ", parts["derivative"]) and "=" in parts["derivative"]
    for number in re.findall(r"arXiv:\d+\.\d+", recipe.source):
        assert number in parts["source"]


def test_recipes_that_are_more_than_their_rule_have_their_own_text():
    assert set(NOTES) == {name for name, recipe in RECIPES.items() if name != recipe.connection}
    texts = [recipe.parts()["equation"] for recipe in RECIPES.values()]
    assert len(set(texts)) == len(texts)


def test_parts_that_a_docstring_lacks_are_left_out():
    found = parts_of("""x ← x + F(x)/2.

    ∂x'/∂x = I + J_F/2.
    Source: nobody;
    it was found here.
    """)
    assert found == {
        "equation": "x ← x + F(x)/2.",
        "derivative": "∂x'/∂x = I + J_F/2.",
        "source": "Source: nobody;\nit was found here.",
    }
