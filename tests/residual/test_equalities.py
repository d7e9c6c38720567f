"""What the rules claim about themselves: which of them start as Pre-Norm, what is exactly zero, what stays bounded."""

from functools import partial

import numpy as np
import pytest

from minires.models import RECIPES, DecoderLM
from minires.models.recipes import sub_ln_gain_constants
from minires.nn import Context, Extras, Maker, MixtureOfExperts
from minires.ops import layernorm
from minires.ops.sinkhorn import sinkhorn_forward
from minires.residual.admin import Admin
from minires.residual.deepnorm import deepnorm_constants
from minires.residual.hyper import HyperConnections
from minires.residual.mhc import MHC, MHCPermutations
from minires.tensor import Tensor, grad
from minires.train import Adam
from tests.residual.common import BLOCKS, CONTEXT, HEADS, VOCAB, D, build, disturbed, ids_and_targets, make_connection

SIZES = dict(vocab=VOCAB, d=D, heads=HEADS, blocks=BLOCKS, context=CONTEXT, dtype=np.float64, init="xavier")


def like(model, connection, norm="layernorm", eps=1e-5, **sizes):
    """The same sublayers, embeddings and head under another rule, with `eps` in every norm of both."""
    twin = DecoderLM(**(SIZES | sizes), connection=connection, norm=norm)
    shared = {k: v for k, v in model.state_dict().items() if "connection" not in k}
    twin.load_state_dict(twin.state_dict() | shared)
    for module in [*model.modules(), *twin.modules()]:
        if hasattr(module, "eps"):
            module.eps = eps
    return twin


# ------------------------------------------------------------------------------------- the same as Pre-Norm at first

STARTS_AS_PRE_NORM = {
    "hyper_connections": "hyper_connections",
    "hyper_connections, 3 copies": partial(HyperConnections, n=3),
    "dynamic_hyper_connections": "dynamic_hyper_connections",
    "mhc with zero gates": partial(MHC, gate=0.0),
    "mhc with zero gates, 3 copies": partial(MHC, n=3, gate=0.0),
    "mhc_permutations with zero gates": partial(MHCPermutations, gate=0.0),
    "attention_residuals": "attention_residuals",
    "denseformer": "denseformer",
    "laurel": "laurel",
    "laurel_pa": "laurel_pa",
}


@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
@pytest.mark.parametrize("name", STARTS_AS_PRE_NORM)
def test_starts_as_pre_norm(name, norm):
    """Logits, and the gradient of every shared weight.

    eps = 1e-12, because rules that read a mean or a sum of copies show it to their norms at another size.
    """
    pre = DecoderLM(**SIZES, connection="pre_norm", norm=norm)
    other, (ids, targets) = like(pre, STARTS_AS_PRE_NORM[name], norm, eps=1e-12), ids_and_targets()
    np.testing.assert_allclose(other(ids).data, pre(ids).data, atol=1e-9)
    for model in (pre, other):
        model.loss(ids, targets).backward()
    theirs = dict(pre.named_parameters())
    for where, p in other.named_parameters():
        if "connection" not in where:
            np.testing.assert_allclose(p.grad, theirs[where].grad, atol=1e-8, err_msg=where)


def test_block_attention_residuals_read_the_mean_of_block_sums():
    """Ten sublayers in blocks of two: the running sums add up to the stream, so it starts as Pre-Norm too."""
    pre = DecoderLM(**(SIZES | dict(blocks=5)), connection="pre_norm")
    other = like(pre, "block_attention_residuals", eps=1e-12, blocks=5)
    ids, _ = ids_and_targets()
    np.testing.assert_allclose(other(ids).data, pre(ids).data, atol=1e-9)


def test_mhc_with_its_default_gates_is_near_pre_norm_but_not_equal():
    pre = DecoderLM(**SIZES, connection="pre_norm")
    other, (ids, _) = like(pre, "mhc"), ids_and_targets()
    off = np.linalg.norm(other(ids).data - pre(ids).data) / np.linalg.norm(pre(ids).data)
    assert 1e-6 < off < 1e-2


# -------------------------------------------------------------------------------- Hyper-Connections with one copy


def one_copy(read, mix, write):
    """A step of Hyper-Connections with n = 1, given the three numbers, and its parts."""
    connection, sites = make_connection(partial(HyperConnections, n=1), d=8)
    connection.read_weights[0].data[...] = read
    connection.mix_weights[0].data[...] = mix
    connection.write_weights[0].data[...] = write
    connection.norms[0].eps = 1e-14
    return connection, sites[0]


def test_one_copy_with_ones_is_pre_norm():
    rng = np.random.default_rng(0)
    x, W = rng.standard_normal((3, 8)), rng.standard_normal((8, 8))
    connection, site = one_copy(1, 1, 1)
    H = connection.step(Tensor(x[:, None, :]), site, lambda h: h @ W)
    np.testing.assert_allclose(H.data[:, 0], x + layernorm(x, eps=1e-14).data @ W, rtol=1e-12)


def test_one_copy_divided_by_the_sums_deviation_is_post_norm():
    """[[0, 1/s], [1, 1/s]] with s² = σ_h² + σ_o² + 2 σ_ho, token by token; the mean is the only difference."""
    rng = np.random.default_rng(1)
    W, centre = rng.standard_normal((8, 8)), np.eye(8) - 1 / 8
    for x in rng.standard_normal((4, 8)) @ centre:  # one token at a time: s differs, and a Post-Norm stream has mean 0
        o = layernorm(Tensor(x), eps=1e-14).data @ W @ centre
        s = np.sqrt(x.var() + o.var() + 2 * np.mean((x - x.mean()) * (o - o.mean())))
        connection, site = one_copy(1, 1 / s, 1 / s)
        H = connection.step(Tensor(x[None, None]), site, lambda h: h @ W @ centre)
        np.testing.assert_allclose(H.data[0, 0], layernorm(Tensor(x + o), eps=1e-14).data, atol=1e-9)


def test_the_transpose_of_the_mixing_matrix():
    """H'_m = Σ_n A_r[n, m] H_n: a mixing matrix with one entry moves copy n to copy m, not the other way round."""
    connection, sites = make_connection("hyper_connections", d=4)
    connection.mix_weights[0].data[...] = 0
    connection.mix_weights[0].data[1, 3] = 1
    H = np.random.default_rng(0).standard_normal((2, 4, 4))
    out = connection.step(Tensor(H), sites[0], lambda h: h * 0).data
    np.testing.assert_array_equal(out[:, 3], H[:, 1])
    assert not out[:, :3].any()


# -------------------------------------------------------------------------------------------------------- mHC


def mixing_logits_gradient(connection, sites, x):
    """‖∂L/∂b_res‖ over all sites, off-diagonal, for a random linear loss of the last state."""
    rng = np.random.default_rng(3)
    d, n = x.shape[-1], connection.n
    weights = [rng.standard_normal((d, d)) * 0.5 for _ in sites]
    stream = connection.open(Tensor(x))
    for site in sites:
        stream = connection.step(stream, site, lambda h, W=weights[site.k]: h @ W)
    loss = (stream * rng.standard_normal(stream.shape)).sum()
    return max(np.abs(g[2 * n :]).max() for g in grad(loss, connection.biases))


def test_static_mhc_on_equal_copies_is_a_saddle():
    """Static weights and equal copies: mixing changes nothing, so nothing tells the mixing logits where to go."""
    connection, sites = make_connection(partial(MHC, gate=0.0), d=6, norm="rmsnorm")
    for p in connection.phis:
        p.data[...] = 0
    x = np.random.default_rng(2).standard_normal((2, 3, 6))
    assert mixing_logits_gradient(connection, sites, x) < 1e-15


def test_nonzero_phi_leaves_the_saddle_and_zero_phi_does_not():
    """Training: with φ ≠ 0 the copies come apart, with φ = 0 they stay equal for ever."""
    spreads = {}
    for name, size in (("zero", 0.0), ("random", 1.0)):
        model = DecoderLM(**SIZES, connection="mhc", norm="rmsnorm")
        for p in model.stack.connection.phis:
            p.data[...] *= size
        spreads[name] = spread_of_copies_after_training(model, steps=20)
    assert spreads["zero"] < 1e-6
    assert spreads["random"] > 1e-2


def spread_of_copies_after_training(model, steps):
    ids, targets = ids_and_targets()
    optimizer = Adam(model.parameters(), lr=0.02)
    for _ in range(steps):
        optimizer.step(grad(model.loss(ids, targets), optimizer.parameters))
    found = []
    model.stack.connection.close = lambda stream: found.append(stream.data) or stream.mean(axis=-2)
    model(ids)
    return float((found[0] - found[0].mean(axis=-2, keepdims=True)).std() / found[0].std())


def test_sinkhorn_rows_are_exact_and_columns_converge():
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((50, 4, 4)) * 2
    errors = []
    for steps in (1, 5, 20):
        M, _ = sinkhorn_forward(logits, steps=steps)
        np.testing.assert_allclose(M.sum(axis=-1), 1, atol=1e-14)
        errors.append(np.abs(M.sum(axis=-2) - 1).max())
    assert errors[0] > 5 * errors[1] > 15 * errors[2]


def test_products_of_doubly_stochastic_matrices_converge_to_the_mean():
    """∏ H_res → 11ᵀ/n: through depth the copies are averaged; the identity is not kept."""
    rng = np.random.default_rng(0)
    M, _ = sinkhorn_forward(rng.standard_normal((60, 4, 4)), steps=200)
    gaps = [np.abs(np.linalg.multi_dot(M[:n]) - 1 / 4).max() for n in (2, 10, 60)]
    assert gaps[0] > 1e-2 and gaps[1] < gaps[0] / 10 and gaps[2] < 1e-12
    assert np.linalg.norm(M, ord=2, axis=(1, 2)).max() < 1 + 1e-8


def test_permutation_mixtures_are_exactly_doubly_stochastic():
    connection, _ = make_connection("mhc_permutations", d=4)
    logits = np.random.default_rng(0).standard_normal((7, 24)) * 3
    H = connection.mixing(Tensor(logits)).data
    np.testing.assert_allclose(H.sum(axis=-1), 1, atol=1e-14)
    np.testing.assert_allclose(H.sum(axis=-2), 1, atol=1e-14)
    assert H.min() > 0


# ------------------------------------------------------------------------------------------- gates that start at 0


@pytest.mark.parametrize("name", ["rezero", "skipinit", "fixup"])
def test_is_the_identity_at_first(name):
    model, (ids, _) = build(name), ids_and_targets()
    ctx = Context(trace=[])
    model(ids, ctx)
    for x in ctx.trace[1:]:
        np.testing.assert_array_equal(x.data, ctx.trace[0].data)


@pytest.mark.parametrize("name", ["rezero", "skipinit"])
def test_only_the_gates_have_a_gradient_in_the_first_step(name):
    model, (ids, targets) = build(name), ids_and_targets()
    model.loss(ids, targets).backward()
    for where, p in model.named_parameters():
        if where.startswith("stack."):
            assert bool(np.any(p.grad)) == ("alphas" in where), where


def test_rezero_shares_its_gate_inside_a_block_and_skipinit_does_not():
    assert [len(build(n).stack.connection.alphas) for n in ("rezero", "skipinit")] == [BLOCKS, 2 * BLOCKS]


def test_layerscale_starts_smaller_in_deeper_models():
    found = {n: float(make_connection("layerscale", blocks=n)[0].gammas[0].data[0]) for n in (18, 24, 25)}
    assert found == {18: 0.1, 24: 1e-5, 25: 1e-6}


# ----------------------------------------------------------------------------------------------- Fixup and T-Fixup


def first_update(name, blocks, lr, **options):
    """‖F(θ_1) - F(θ_0)‖/√size of the last state after one SGD step of the weights."""
    model, (ids, targets) = build(name, blocks=blocks, d=16, **options), ids_and_targets()
    if name == "fixup":  # a head of 0 lets no gradient into the stack in the first step
        model.head.weight.data[...] = np.random.default_rng(0).standard_normal(model.head.weight.shape) / 4
    states = []
    for _ in range(2):
        ctx = Context(trace=[])
        loss = model.loss(ids, targets, ctx)
        states.append(ctx.trace[-1].data - ctx.trace[0].data)
        weights = [p for p in model.stack.parameters() if p.kind == "weight"]
        for p, g in zip(weights, grad(loss, weights), strict=True):
            p.data[...] -= lr * g
    return np.sqrt(np.mean((states[1] - states[0]) ** 2))


def test_fixups_first_update_does_not_grow_with_depth():
    """‖ΔF‖ = Θ(lr): ten times the depth, about the same change, and proportional to the learning rate."""
    shallow, deep = first_update("fixup", 2, 1e-3), first_update("fixup", 20, 1e-3)
    assert 1 / 2 < deep / shallow < 2
    assert first_update("fixup", 20, 2e-3) / deep == pytest.approx(2, rel=0.1)


def test_an_unscaled_residual_stream_has_an_update_that_grows_with_depth():
    """The control: without the rule the same measurement explodes."""
    assert first_update("residual", 12, 1e-3) > 30 * first_update("residual", 2, 1e-3)


def test_fixup_and_t_fixup_first_weights():
    blocks, d, vocab = 8, 64, 50
    fixup = RECIPES["fixup"].build(vocab, blocks, d=d, heads=4, context=8)
    assert not fixup.head.weight.data.any()
    for attention, ffn in zip(fixup.stack.sublayers[::2], fixup.stack.sublayers[1::2], strict=True):
        assert not attention.out_weight.data.any() and not ffn.out_weight.data.any()
        assert ffn.in_weight.data.std() == pytest.approx(np.sqrt(2 / d) * (2 * blocks) ** -0.5, rel=0.05)
    t_fixup = RECIPES["t_fixup"].build(vocab, blocks, d=d, heads=4, context=64)
    assert t_fixup.tokens.table.data.std() == pytest.approx(d**-0.5 * (9 * blocks) ** -0.25, rel=0.05)
    attention = t_fixup.stack.sublayers[0]
    q, k, v = np.split(attention.qkv_weight.data, 3, axis=1)
    xavier = np.sqrt(2 / (d + d))
    assert q.std() == pytest.approx(xavier, rel=0.05) and k.std() == pytest.approx(xavier, rel=0.05)
    assert v.std() == pytest.approx(xavier * 0.67 * blocks**-0.25, rel=0.05)


# ------------------------------------------------------------------------------------------------------- constants


def test_deepnorm_constants():
    """The values of the paper's table; encoder-decoder with 500 blocks each."""
    for blocks, alpha, beta in ((6, 1.861, 0.3799), (12, 2.213, 0.3195), (24, 2.632, 0.2686), (48, 3.130, 0.2259),
                                (96, 3.722, 0.1900), (1000, 6.687, 0.1057)):  # fmt: skip
        for side in ("encoder", "decoder"):
            found = deepnorm_constants(**{side: blocks})
            assert found == {side: (pytest.approx(alpha, abs=6e-4), pytest.approx(beta, abs=6e-5))}
    both = deepnorm_constants(encoder=500, decoder=500)
    assert both["encoder"] == (pytest.approx(5.648, abs=6e-4), pytest.approx(0.1248, abs=6e-5))
    assert both["decoder"] == (pytest.approx(6.223, abs=6e-4), pytest.approx(0.1136, abs=6e-5))


def test_deepnorm_scales_values_and_not_queries():
    model = RECIPES["deepnorm"].build(20, 8, d=64, heads=4, context=8)
    q, k, v = np.split(model.stack.sublayers[0].qkv_weight.data, 3, axis=1)
    beta, xavier = (8 * 8) ** -0.25, np.sqrt(2 / 128)
    assert [part.std() / xavier for part in (q, k, v)] == pytest.approx([1, 1, beta], rel=0.05)
    assert model.stack.sublayers[0].out_weight.data.std() == pytest.approx(beta * xavier, rel=0.05)


def test_sub_ln_constants():
    assert sub_ln_gain_constants(encoder=12) == {"encoder": pytest.approx(np.sqrt(np.log(24)))}
    assert sub_ln_gain_constants(decoder=18) == {"decoder": pytest.approx(np.sqrt(np.log(36)))}
    both = sub_ln_gain_constants(encoder=12, decoder=6)
    assert both["decoder"] == pytest.approx(np.sqrt(np.log(18)))
    assert both["encoder"] == pytest.approx(np.sqrt(np.log(18) * np.log(24) / 3))


def test_sub_ln_has_a_norm_before_every_projection_and_normformer_where_it_says():
    attention, ffn = build("sub_ln").stack.sublayers[:2]
    assert attention.head_norm and ffn.inner_norm and not attention.output_norm and attention.head_gains is None
    attention, ffn = build("normformer").stack.sublayers[:2]
    assert attention.output_norm and ffn.inner_norm and not attention.head_norm
    assert attention.head_gains.shape == (HEADS,)


def test_depth_mup_slows_the_stack_and_nothing_else():
    model = build("depth_mup", blocks=8)
    for where, p in model.named_parameters():
        assert p.lr_scale == (0.25 if where.startswith("stack.sublayers") else 1.0)


def test_layernorm_scaling_counts_blocks_from_one():
    """What the branch of block b reads has variance 1/b, for both of its sublayers."""
    connection, sites = make_connection("layernorm_scaling", blocks=4, d=64)
    x, read = Tensor(np.random.default_rng(0).standard_normal((5, 64))), []
    for site in sites:
        connection.step(x, site, lambda h: read.append(h.data) or h)
    np.testing.assert_allclose([r.var() for r in read], np.repeat(1 / np.arange(1, 5), 2), rtol=1e-4)


# ----------------------------------------------------------------------------------------------- norms and streams


def test_sandwich_does_not_see_the_scale_of_a_branch():
    model, (ids, _) = build("sandwich"), ids_and_targets()
    for module in model.modules():
        if hasattr(module, "eps"):
            module.eps = 1e-14
    before = model(ids).data
    for sublayer in model.stack.sublayers:
        for p in (sublayer.out_weight, sublayer.out_bias):
            p.data[...] *= 7
    np.testing.assert_allclose(model(ids).data, before, atol=1e-10)


def test_residual_dual_keeps_the_plain_sum_beside_the_normed_stream():
    connection, sites = make_connection("residual_dual", d=6)
    x = Tensor(np.random.default_rng(0).standard_normal((2, 6)))
    branches, stream = [], connection.open(x)
    for site in sites:
        stream = connection.step(stream, site, lambda h: branches.append(np.tanh(h.data)) or Tensor(branches[-1]))
    np.testing.assert_allclose(stream[1].data, x.data + sum(branches), rtol=1e-14)
    np.testing.assert_allclose(stream[0].data.mean(axis=-1), 0, atol=1e-14)


def test_admins_profile_is_the_running_variance():
    """ω_1 = 1 and ω_l = √(Var x_0 + Σ_{j<l} Var F_j), measured where the model runs."""
    model, (ids, _) = build("admin"), ids_and_targets()
    connection = model.stack.connection
    assert isinstance(connection, Admin)
    outputs = []
    spy = Context(wrap=lambda site, F: lambda h: outputs.append(F(h)) or outputs[-1], trace=[])
    model(ids, spy)
    variances = np.cumsum([spy.trace[0].data.var(), *[f.data.var() for f in outputs]])
    omegas = [float(w.data[0]) for w in connection.omegas]
    assert omegas == pytest.approx([1.0, *np.sqrt(variances[1:-1])], rel=1e-12)
    assert all(np.ptp(w.data) == 0 for w in connection.omegas)


def test_attention_residuals_are_bounded_by_their_largest_source():
    connection, _ = make_connection("attention_residuals", d=6)
    disturbed(connection, size=2.0)
    rng = np.random.default_rng(0)
    sources = tuple(Tensor(rng.standard_normal((3, 6)) * s) for s in (1, 5, 0.1))
    h = connection.attend(2, sources).data
    largest = np.max([np.linalg.norm(v.data, axis=-1) for v in sources], axis=0)
    assert (np.linalg.norm(h, axis=-1) <= largest * (1 + 1e-12)).all()


@pytest.mark.parametrize("rule", ["attention_residuals", "denseformer", "laurel_pa"])
def test_a_state_over_all_outputs_takes_one_graph_node_per_read(rule):
    """Nodes in the graph grow by the same number at every depth, although each read looks at one source more."""
    counts = []
    for blocks in (4, 8, 12):
        model, (ids, targets) = build(rule, blocks=blocks), ids_and_targets()
        counts.append(number_of_nodes(model.loss(ids, targets)))
    assert counts[2] - counts[1] == counts[1] - counts[0]


def number_of_nodes(loss):
    from minires.tensor import reachable

    return sum(node.op is not None for node in reachable(loss.node))


def test_laurel_pa_is_its_equation_with_h_applied_to_every_earlier_state():
    connection, sites = make_connection("laurel_pa", d=6)
    disturbed(connection)
    states = connection.open(Tensor(np.random.default_rng(0).standard_normal((2, 6))))
    for site in sites[:3]:
        states = connection.step(states, site, lambda h: h.tanh())
    x_0, x_1, x_2, x_3 = (x.data for x in states)
    A, B, gamma = (parts[1].data for parts in (connection.down, connection.up, connection.gammas))
    branch = np.tanh(connection.norms[2](Tensor(x_2)).data)
    np.testing.assert_allclose(x_3, branch + x_2 + gamma[0] * (x_0 @ A @ B) + gamma[1] * (x_1 @ A @ B), rtol=1e-12)


def test_laurel_pa_leaves_its_start():
    """Only B has a gradient at first; one step later γ and A have one as well."""
    model, (ids, targets) = build("laurel_pa"), ids_and_targets()
    rule = model.stack.connection

    def heard():
        kinds = (rule.gammas, rule.down, rule.up)
        return [bool(np.any(g)) for p in kinds for g in grad(model.loss(ids, targets), p)]

    count = len(rule.up)
    assert heard() == [False] * (2 * count) + [True] * count
    optimizer = Adam(rule.up, lr=0.01)
    optimizer.step(grad(model.loss(ids, targets), rule.up))
    assert all(heard())


# --------------------------------------------------------------------------------------------- mixtures of experts


def mixture(balance=0.0, experts=4):
    make = Maker.of(0, "xavier", np.float64)
    return MixtureOfExperts(6, 8, make, experts=experts, top_k=2, balance=balance)


def test_experts_that_were_not_chosen_have_exactly_no_gradient():
    moe = mixture()
    h = np.random.default_rng(1).standard_normal((1, 6))
    chosen = set(np.argsort(-(h @ moe.router.data))[0, :2].tolist())
    y = moe(Tensor(h))
    gradients = grad((y * np.arange(1.0, 7.0)).sum(), moe.parameters())
    by_name = dict(zip([name for name, _ in moe.named_parameters()], gradients, strict=True))
    for i in range(4):
        assert bool(by_name[f"experts.{i}.out_weight"].any()) == (i in chosen)
        assert bool(by_name["router"][:, i].any()) == (i in chosen)


def test_the_gates_of_the_chosen_experts_sum_to_one_and_weigh_them():
    moe, h = mixture(), np.random.default_rng(2).standard_normal((5, 6))
    y = moe(Tensor(h)).data
    for token, out in zip(h, y, strict=True):
        logits = token @ moe.router.data
        best = np.argsort(-logits)[:2]
        p = np.exp(logits[best] - logits[best].max())
        expected = sum(w * moe.experts[i](Tensor(token[None])).data[0] for w, i in zip(p / p.sum(), best, strict=True))
        np.testing.assert_allclose(out, expected, rtol=1e-12)


def test_the_balance_loss_is_least_when_all_experts_are_used_alike():
    """experts · Σ f_i P_i is 1 for a router that treats all alike, more for one with a favourite."""
    moe = mixture(balance=1.0)
    h = Tensor(np.concatenate([np.random.default_rng(0).standard_normal((200, 5)), np.ones((200, 1))], axis=1))
    values = {}
    for name, favour in (("alike", 0.0), ("favourite", 5.0)):
        moe.router.data[...] = np.random.default_rng(1).standard_normal((6, 4)) * 0.01
        moe.router.data[5, 0] += favour
        ctx = Context()
        moe(h, ctx)
        values[name] = ctx.memo["balance_loss"].item()
    assert values["alike"] == pytest.approx(1, abs=0.05)
    assert values["favourite"] > 1.5


def test_the_balance_loss_joins_the_loss_in_training_only():
    sizes = SIZES | dict(extras=Extras(experts=4, top_k=2, balance=0.5))
    model, (ids, targets) = DecoderLM(**sizes), ids_and_targets()
    with_it = model.loss(ids, targets).item()
    without = model.eval().loss(ids, targets).item()
    assert with_it - without > 0.5 * 2 * 0.9  # two mixtures, each near 1 or above


# ----------------------------------------------------------------------------------------------------- value residual


def test_value_residual_mixes_the_first_values_into_every_later_attention():
    model, (ids, _) = build("value_residual"), ids_and_targets()
    first, later = model.stack.sublayers[0], model.stack.sublayers[2]
    assert first.value_weights is None and later.value_weights.shape == (2,)
    before = model(ids).data
    later.value_weights.data[...] = (0.0, 1.0)  # its own values only: plain Pre-Norm
    plain = DecoderLM(**SIZES, connection="pre_norm")
    state = {k: v for k, v in model.state_dict().items() if "value_weights" not in k}
    plain.load_state_dict(state)
    np.testing.assert_allclose(model(ids).data, plain(ids).data, atol=1e-12)
    assert np.abs(before - plain(ids).data).max() > 1e-3
