"""Layers and models: what they promise about the future, padding, parameters, modes and copies."""

import copy
import time

import numpy as np
import pytest

from minires import Tensor, no_grad, ops
from minires.models import DecoderLM, DeepMLP, Encoder
from minires.nn import INITS, Context, Dropout, Extras, LayerNorm, Maker, MultiHeadAttention
from minires.nn.init import WRITERS
from minires.residual import CONNECTIONS
from minires.train import SGD

SMALL = dict(vocab=11, d=16, heads=4, blocks=3, context=9)
RULES = sorted(CONNECTIONS)


def decoder(**settings):
    return DecoderLM(**{**SMALL, "dtype": np.float64, "init": "xavier", **settings})


def some_ids(shape=(2, 9), seed=0):
    return np.random.default_rng(seed).integers(1, 11, shape)


def stirred(model, seed=1):
    """The model with gates, gains and biases away from their tidy start, so that nothing hides behind a zero."""
    rng = np.random.default_rng(seed)
    for p in model.parameters():
        p.data += 0.1 * rng.standard_normal(p.shape)
        p.changed()
    return model


# ------------------------------------------------------------------------------------------ the future and padding


@pytest.mark.parametrize("connection", RULES)
def test_the_future_changes_nothing(connection):
    """Other symbols after position t leave every logit up to t bit for bit as it was, and do change those after."""
    model = stirred(decoder(connection=connection)).eval()
    ids = some_ids()
    with no_grad():
        before = model(ids).data
        for t in (0, 4, 7):
            other = ids.copy()
            other[:, t + 1 :] = ids[:, t + 1 :] % 10 + 1
            after = model(other).data
            np.testing.assert_array_equal(after[:, : t + 1], before[:, : t + 1])
            assert abs(after[:, t + 1 :] - before[:, t + 1 :]).max() > 1e-3


def test_the_test_of_the_future_would_notice_an_encoder():
    model = stirred(Encoder(**SMALL, dtype=np.float64)).eval()
    ids = some_ids()
    other = ids.copy()
    other[:, 5:] = ids[:, 5:] % 10 + 1
    with no_grad():
        assert abs(model(ids).data[:, :5] - model(other).data[:, :5]).max() > 1e-3


@pytest.mark.parametrize("connection", RULES)
def test_padding_is_not_looked_at(connection):
    """Its embedding may be anything, and there may be more of it: the real positions do not notice."""
    model = stirred(Encoder(**SMALL, padding=0, connection=connection, dtype=np.float64)).eval()
    ids = some_ids((3, 6))
    ids[0, 4:] = ids[1, 2:] = 0
    real = ids != 0
    with no_grad():
        before = model.encode(ids).data[real]
        longer = np.concatenate([ids, np.zeros((3, 3), int)], axis=1)
        np.testing.assert_allclose(model.encode(longer).data[:, :6][real], before, rtol=1e-9, atol=1e-11)
        model.tokens.table.data[0] = 100 * np.random.default_rng(5).standard_normal(16)
        np.testing.assert_array_equal(model.encode(ids).data[real], before)


def test_padding_gets_no_gradient_from_the_loss():
    model = stirred(Encoder(**SMALL, padding=0, tied=False, dtype=np.float64))
    ids, targets = some_ids((2, 6)), some_ids((2, 6), 1)
    ids[0, 3:] = 0
    targets[ids == 0] = -100
    model.loss(ids, targets).backward()
    np.testing.assert_array_equal(model.tokens.table.grad[0], 0)
    assert abs(model.tokens.table.grad[ids[0, 0]]).max() > 0


def test_a_row_of_nothing_but_padding_stays_finite():
    model = Encoder(**SMALL, padding=0, dtype=np.float64)
    ids = some_ids((2, 6))
    ids[1] = 0
    assert np.isfinite(model(ids).data).all()


def test_segments_matter_and_have_a_default():
    model = stirred(Encoder(**SMALL, dtype=np.float64)).eval()
    ids = some_ids((1, 6))
    with no_grad():
        np.testing.assert_array_equal(model(ids).data, model(ids, segments=np.zeros_like(ids)).data)
        assert abs(model(ids).data - model(ids, segments=np.ones_like(ids)).data).max() > 1e-3


# ------------------------------------------------------------------------------------------------------ parameters


def test_parameter_counts_are_the_formulas():
    """Per block 4d² + 4d for attention, 2dh + h + d for the FFN; norms 2d each."""
    V, d, N, T, h = 11, 16, 3, 9, 64
    block = 4 * d * d + 4 * d + 2 * d * h + h + d
    stack = N * block + 2 * d * 2 * N
    assert decoder().count_parameters() == V * d + T * d + stack + 2 * d + d * V
    assert decoder(tied=True).count_parameters() == V * d + T * d + stack + 2 * d
    assert decoder(connection="post_norm").count_parameters() == V * d + T * d + stack + d * V
    assert decoder(connection="residual").count_parameters() == V * d + T * d + N * block + d * V
    rms = N * block + d * 2 * N
    assert decoder(norm="rmsnorm").count_parameters() == V * d + T * d + rms + d + d * V
    encoder = V * d + T * d + 2 * d + 2 * d + stack + d * d + d + 2 * d + V
    assert Encoder(**SMALL).count_parameters() == encoder
    assert DeepMLP(6, 3, d=8, blocks=4).count_parameters() == 6 * 8 + 8 + 4 * 2 * (64 + 8) + 8 * 3 + 3


def test_tied_weights_are_one_parameter_with_both_gradients():
    model = decoder(tied=True)
    assert [n for n in model.state_dict() if "head" in n] == []
    ids, targets = some_ids(), some_ids(seed=1)
    model.loss(ids, targets).backward()
    both = model.tokens.table.grad
    untied = decoder()
    untied.load_state_dict({**model.state_dict(), "head.weight": model.tokens.table.data.T})
    untied.loss(ids, targets).backward()
    np.testing.assert_allclose(both, untied.tokens.table.grad + untied.head.weight.grad.T, rtol=1e-10, atol=1e-14)


def test_a_state_dict_makes_two_models_equal():
    one, other = stirred(decoder()), decoder(rng=7)
    ids = some_ids()
    assert abs(one(ids).data - other(ids).data).max() > 1e-3
    state = one.state_dict()
    other.load_state_dict(state)
    np.testing.assert_array_equal(one(ids).data, other(ids).data)
    state["positions"] += 1
    assert not np.array_equal(one.positions.data, state["positions"])  # a copy, not a window into the model


def test_the_seed_decides_the_weights():
    a, b, c = decoder(rng=1), decoder(rng=1), decoder(rng=2)
    assert all(np.array_equal(p.data, q.data) for p, q in zip(a.parameters(), b.parameters(), strict=True))
    assert not np.array_equal(a.tokens.table.data, c.tokens.table.data)


def test_every_trained_thing_moves_in_one_step():
    """All of it: gains, shifts, positions. Only a key bias may stay, because its true gradient is 0."""
    model = decoder()
    before = model.state_dict()
    model.loss(some_ids(), some_ids(seed=1)).backward()
    SGD(model.parameters(), lr=1.0).step()
    for name, p in model.named_parameters():
        moved = p.data != before[name]
        if name.endswith("qkv_bias"):
            assert moved[:16].any() and moved[32:].any()
            np.testing.assert_allclose(p.data[16:32], before[name][16:32], atol=1e-15)
        else:
            assert moved.any(), name
    assert all((p.data != before[n]).all() for n, p in model.named_parameters() if n.endswith(("gamma", "beta")))


# ------------------------------------------------------------------------------------------------- initialisers


def weights_by_role(model):
    """Every weight by role, packed projections split: the ones that write to the stream are attn_out and ffn_out."""
    found = {}
    for sublayer in model.stack.sublayers:
        for role, weight in (
            ("qkv", getattr(sublayer, "qkv_weight", None)),
            ("attn_out" if isinstance(sublayer, MultiHeadAttention) else "ffn_out", sublayer.out_weight),
            ("ffn_in", getattr(sublayer, "in_weight", None)),
        ):
            if weight is not None:
                found.setdefault(role, []).append(weight.data)
    return found


@pytest.mark.parametrize("blocks", [2, 12])
def test_exactly_the_weights_that_write_to_the_stream_are_scaled(blocks):
    """gpt2: 0.02 everywhere. gpt2_scaled: 0.02/√(2N) for the writers and 0.02 for all others, measured."""
    size = dict(vocab=300, d=96, heads=4, blocks=blocks, context=64)
    plain, scaled = (weights_by_role(DecoderLM(**size, init=init)) for init in ("gpt2", "gpt2_scaled"))
    assert plain.keys() == scaled.keys() == {"qkv", "attn_out", "ffn_in", "ffn_out"}
    for role in plain:
        factor = 1 / np.sqrt(2 * blocks) if role in WRITERS else 1.0
        for ours, expected in ((plain[role], 0.02), (scaled[role], 0.02 * factor)):
            for weight in ours:
                assert weight.std() == pytest.approx(expected, rel=0.03), role
                assert abs(weight.mean()) < 4 * expected / np.sqrt(weight.size)


def test_embeddings_and_head_are_not_scaled():
    size = dict(vocab=300, d=96, heads=4, blocks=12, context=64, init="gpt2_scaled")
    model = DecoderLM(**size)
    for p in (model.tokens.table, model.positions, model.head.weight):
        assert p.data.std() == pytest.approx(0.02, rel=0.03)


SPREAD = {
    "xavier": np.sqrt(2 / 450),
    "xavier_normal": np.sqrt(2 / 450),
    "he": np.sqrt(2 / 300),
    "lecun": np.sqrt(1 / 300),
    "gpt2": 0.02,
    "gpt2_scaled": 0.02,
}


def drawn(name):
    return INITS[name].weight(np.random.default_rng(0), (300, 150), "linear", 8)


@pytest.mark.parametrize("name", SPREAD)
def test_schemes_have_the_spread_they_name(name):
    assert drawn(name).std() == pytest.approx(SPREAD[name], rel=0.02)
    assert abs(drawn(name).mean()) < 4 * SPREAD[name] / np.sqrt(300 * 150)


def test_xavier_is_uniform_and_identity_is_nearly_the_identity():
    assert abs(drawn("xavier")).max() <= np.sqrt(6 / 450)
    assert (drawn("identity") - np.eye(300, 150)).std() == pytest.approx(0.02, rel=0.03)


# --------------------------------------------------------------------------------------------- modes and copies


def test_dropout_is_on_in_train_mode_only():
    model, ids = decoder(dropout=0.5), some_ids()
    first, second = model(ids).data, model(ids).data
    assert not np.array_equal(first, second)
    model.eval()
    np.testing.assert_array_equal(model(ids).data, model(ids).data)
    assert not any(m.training for m in model.modules())
    plain = decoder()
    plain.load_state_dict(model.state_dict())
    np.testing.assert_array_equal(model(ids).data, plain(ids).data)
    model.train()
    assert all(m.training for m in model.modules())


def test_dropout_from_the_contexts_generator_can_be_repeated():
    model, ids = decoder(dropout=0.3), some_ids()
    runs = [model(ids, Context(rng=np.random.default_rng(seed))).data for seed in (4, 4, 5)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_dropout_keeps_the_mean_and_drops_the_share():
    x = Tensor(np.ones((400, 400)))
    y = Dropout(0.25, np.random.default_rng(0))(x).data
    assert (y == 0).mean() == pytest.approx(0.25, abs=0.01) and y.mean() == pytest.approx(1, abs=0.01)


def test_a_deepcopy_is_a_model_of_its_own():
    model, ids = stirred(decoder(dropout=0.2)), some_ids()
    model.positions.lr_scale = 0.5
    twin = copy.deepcopy(model)
    assert twin.positions.lr_scale == 0.5 and twin.positions.kind == "embedding"
    np.testing.assert_array_equal(twin(ids).data, model(ids).data)  # the generator was copied in its state
    twin.positions.data[...] = 0
    twin.positions.changed()
    assert model.positions.data.any()
    tied = copy.deepcopy(decoder(tied=True))
    assert len(tied.parameters()) == len(decoder(tied=True).parameters())


def test_float32_stays_float32_everywhere():
    for model in (DecoderLM(**SMALL), Encoder(**SMALL), DeepMLP(6, 3, d=8, blocks=2)):
        x, targets = model.example(2)
        loss = model.loss(x, targets)
        loss.backward()
        assert loss.dtype == np.float32 and {p.grad.dtype for p in model.parameters()} == {np.dtype(np.float32)}


# ------------------------------------------------------------------------------------------------- the stream


@pytest.mark.parametrize("connection", RULES)
def test_no_rule_writes_into_its_input(connection):
    """x_l is bit for bit the same after the sublayers have read it: no in-place add on the stream."""
    model = stirred(decoder(connection=connection))
    ctx = Context(trace=[])
    before = []
    ctx.trace = type("Watched", (list,), {"append": lambda s, x: (list.append(s, x), before.append(x.data.copy()))})()
    model(some_ids(), ctx)
    assert len(before) == len(ctx.trace) > 2
    for x, copied in zip(ctx.trace, before, strict=True):
        np.testing.assert_array_equal(x.data, copied)


def test_the_trace_holds_every_state_and_its_gradient():
    model = decoder()
    ctx = Context(trace=[])
    loss = model.loss(some_ids(), some_ids(seed=1), ctx)
    assert len(ctx.trace) == 2 * 3 + 1
    for x in ctx.trace:
        x.retain_grad()
    loss.backward()
    assert all(x.grad.shape == (2, 9, 16) and x.grad.any() for x in ctx.trace)


def test_a_branch_replaced_by_zero_leaves_the_skip():
    """With F = 0 everywhere, Pre-Norm is its final norm of the embedding."""
    model, ids = decoder(), some_ids()
    y = model.stack(model.embed(ids), Context(wrap=lambda site, F: lambda h: h * 0.0))
    np.testing.assert_allclose(y.data, model.stack.connection.final_norm(model.embed(ids)).data, rtol=1e-12)


@pytest.mark.parametrize(
    "connection, equation",
    [
        ("pre_norm", lambda x, F, norm: x + F(norm(x))),
        ("post_norm", lambda x, F, norm: norm(x + F(x))),
        ("residual", lambda x, F, norm: x + F(x)),
        ("none", lambda x, F, norm: norm(F(x))),
        ("plain", lambda x, F, norm: F(x)),
    ],
)
def test_the_first_step_is_what_the_printed_equation_says(connection, equation):
    model = stirred(decoder(connection=connection)).eval()
    ctx = Context(trace=[])
    with no_grad():
        model(some_ids(), ctx)
        x = model.embed(some_ids())
        norm = model.stack.connection.norms[0] if hasattr(model.stack.connection, "norms") else None
        expected = equation(x, model.stack.sublayers[0], norm)
    np.testing.assert_allclose(ctx.trace[1].data, expected.data, rtol=1e-13)


def test_a_hidden_norm_has_the_gradient_of_its_formula():
    """LayerNorm with random gains as a layer in the middle: γ and β gradients by central differences."""
    rng = np.random.default_rng(0)
    norm = LayerNorm(6, Maker.of(0, dtype=np.float64))
    norm.gamma.data[...], norm.beta.data[...] = rng.standard_normal((2, 6))
    w, x = rng.standard_normal((6, 4)), rng.standard_normal((5, 6))

    def loss():
        return (ops.tanh(norm(ops.tanh(Tensor(x))) @ Tensor(w)) * Tensor(rng_weights)).sum()

    rng_weights = rng.standard_normal((5, 4))
    loss().backward()
    for p in (norm.gamma, norm.beta):
        for i in range(6):
            values = []
            for shift in (1e-6, -2e-6):
                p.data[i] += shift
                values.append(loss().item())
            p.data[i] += 1e-6
            assert p.grad[i] == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-6, abs=1e-9)


def test_time_grows_in_proportion_to_depth():
    """24 blocks take less than 2.5 times as long as 12, forward and backward, by the median of pairs."""
    models = [DecoderLM(11, d=16, heads=2, blocks=n, context=8) for n in (12, 24)]
    x, y = models[0].example(2)

    def seconds(model):
        started = time.perf_counter()
        for _ in range(3):
            model.loss(x, y).backward()
        return time.perf_counter() - started

    for model in models:
        seconds(model)
    ratios = sorted(seconds(models[1]) / seconds(models[0]) for _ in range(9))
    assert ratios[4] < 2.5


@pytest.mark.parametrize("model", [DecoderLM, Encoder])
def test_a_mixture_of_experts_adds_its_balance_loss_in_training_only(model):
    def losses(balance):
        net = model(9, d=8, heads=2, blocks=1, context=4, extras=Extras(experts=4, balance=balance))
        ids = np.arange(8).reshape(2, 4)
        return net.loss(ids, ids).item(), net.eval().loss(ids, ids).item()

    (plain, plain_eval), (balanced, balanced_eval) = losses(0.0), losses(5.0)
    assert balanced > plain + 1
    assert balanced_eval == plain_eval
