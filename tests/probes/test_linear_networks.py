"""Instruments on networks of matrices, where every answer is known by hand."""

import itertools
import math

import numpy as np
import pytest

from minires import Tensor, grad, ops
from minires.messages import UnknownName, ValueProblem
from minires.models import RECIPES, DecoderLM
from minires.nn import layernorm_jacobian
from minires.probes import (
    ablation,
    activation_growth,
    composed_norms,
    contribution,
    delete_random,
    forward,
    jacobian_spectrum,
    kendall_tau,
    lesions,
    logit_attribution,
    logit_lens,
    path_gradients,
    prune,
    quantization,
    rank_collapse,
    rounded,
    sampled_paths,
    shuffle,
    similarity,
    state_gradients,
)
from minires.probes.running import cross_entropy
from tests.probes.linear import VOCAB, D, LinearNet, inputs, states_of

# ------------------------------------------------------------------------------------------------- the forward pass


def test_forward_keeps_what_was_read_and_written():
    net, (x, _) = LinearNet(), inputs()
    run, by_hand = forward(net, x), states_of(net, x)
    assert np.allclose(run.states, by_hand, atol=1e-14)
    assert np.allclose(run.read, by_hand[:-1]) and np.allclose(
        run.written, [s @ W for s, W in zip(by_hand, net.weights)]
    )
    assert np.allclose(run.output, by_hand[-1] @ net.head.weight.data + net.head.bias.data)


def test_cross_entropy_is_the_models_own_and_leaves_out_what_is_not_asked():
    net, (x, y) = LinearNet(), inputs()
    y[0, 0] = -100
    assert np.isclose(cross_entropy(forward(net, x).output, y), net.loss(x, y).item(), rtol=1e-13)
    with pytest.raises(ValueError, match="one per output row"):
        cross_entropy(forward(net, x).output, y.T)


# ------------------------------------------------------------------------------------------------------- the stream


def test_growth_rms_and_a_line_that_is_a_line():
    net, (x, _) = LinearNet(blocks=4), inputs(length=200)
    for k, F in enumerate(net.stack.sublayers):  # x_{l+1} = √((l+2)/(l+1)) x_l, so Var x_l = (l + 1) Var x_0
        F.weight.data[...] = (math.sqrt((k + 2) / (k + 1)) - 1) * np.eye(D)
    growth = activation_growth(net, x)
    assert np.allclose(growth.std**2, np.arange(1, 6) * x.var())
    assert np.isclose(growth.slope, x.var()) and np.isclose(growth.intercept, x.var())
    assert np.allclose(growth.rms, [np.sqrt(np.mean(s * s)) for s in states_of(net, x)])


def rotation(angle):
    R = np.eye(D)
    R[:2, :2] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    return R


def test_similarity_of_known_rotations():
    angles = (0.3, 0.5)
    net, x = LinearNet(blocks=2), np.zeros((3, 2, D))
    x[..., 0] = 2.0
    for F, angle in zip(net.stack.sublayers, angles):
        F.weight.data[...] = rotation(angle) - np.eye(D)
    found = similarity(net, x)
    assert np.allclose(found.mean, np.cos(angles)) and np.allclose(found.median, np.cos(angles))
    assert np.allclose(found.block_influence, 1 - np.cos(angles))
    assert np.allclose(found.angular[0] * np.pi, [0, 0.3, 0.8], atol=1e-7) and np.isclose(
        found.angular[1, 2] * np.pi, 0.5
    )
    assert found.cheapest(1) == 0


def test_the_angle_is_that_of_the_last_token_only():
    net, (x, _) = LinearNet(blocks=1), inputs()
    changed = x.copy()
    changed[:, 0] *= -3
    changed[:, 0, 1] += 5
    assert np.allclose(similarity(net, x).angular, similarity(net, changed).angular, atol=1e-12)
    assert not np.allclose(similarity(net, x).mean, similarity(net, changed).mean)


def test_contribution_of_branches_that_only_scale():
    net, (x, _) = LinearNet(blocks=2), inputs()
    for F, c in zip(net.stack.sublayers, (0.5, -0.25)):
        F.weight.data[...] = c * np.eye(D)
    found = contribution(net, x)
    assert np.allclose(found.ratio, [0.5, 0.25]) and np.allclose(found.along, [0.5, -0.25])
    assert np.allclose(found.branch, [0.5, 0.25])


def test_rank_collapse_of_equal_and_of_orthogonal_tokens():
    net = LinearNet(blocks=1)
    net.stack.sublayers[0].weight.data[...] = 0
    equal, orthogonal = np.ones((1, 4, D)), np.eye(D)[None, :4]
    same, apart = rank_collapse(net, equal), rank_collapse(net, orthogonal)
    assert np.allclose(same.rest, 0, atol=1e-15) and np.allclose(same.cosine, 1) and np.allclose(same.rank, 1)
    assert np.allclose(apart.rest, np.sqrt(1 - 1 / 4)) and np.allclose(apart.cosine, 0) and np.allclose(apart.rank, 4)


# -------------------------------------------------------------------------------------------------------- jacobians


def test_jacobian_is_the_product_of_one_plus_w():
    net, (x, _) = LinearNet(), inputs(batch=1, length=1)
    by_hand = np.linalg.multi_dot([np.eye(D) + W for W in net.weights]).T
    found = jacobian_spectrum(net, x)
    assert np.allclose(found.matrix, by_hand, atol=1e-14)
    assert np.allclose(found.values, np.linalg.svd(by_hand, compute_uv=False))
    assert np.isclose(found.rms, np.linalg.norm(by_hand) / np.sqrt(D))
    assert np.array_equal(jacobian_spectrum(net, x, skip_only=True).matrix, np.eye(D))


def test_a_tokens_block_is_part_of_the_whole():
    model = DecoderLM(7, 8, 2, 2, 4, init="xavier", dtype=np.float64)
    ids = np.array([[3, 1, 4]])
    whole, block = jacobian_spectrum(model, ids).matrix, jacobian_spectrum(model, ids, token=1).matrix
    assert whole.shape == (24, 24) and np.allclose(block, whole[8:16, 8:16])
    assert np.all(whole[:8, 8:] == 0)  # the future has no say
    with pytest.raises(ValueProblem, match="2048"):
        jacobian_spectrum(model, np.zeros((65, 4), int))


def test_rezero_starts_with_all_singular_values_one():
    model = RECIPES["rezero"].build(7, 3, d=8, heads=2, context=4, dtype=np.float64)
    assert np.array_equal(jacobian_spectrum(model, np.array([[3, 1, 4]])).values, np.ones(24))


def test_composed_norms_are_the_product_of_layernorm_jacobians():
    net, (x, _) = LinearNet("post_norm"), inputs()
    gains = [norm.gamma.data for norm in net.stack.connection.norms]
    for k, gamma in enumerate(gains):  # with γ = 1 every factor is symmetric, and their order would not matter
        gamma[...] = np.random.default_rng(k).uniform(0.5, 2, D)
    found, run = composed_norms(net, x, tokens=2), forward(net, x)
    for token in range(2):
        sums = [(s + f).reshape(-1, D)[token] for s, f in zip(run.states, run.written)]
        factors = [layernorm_jacobian(z, gamma) for z, gamma in zip(sums, gains)]
        product = np.linalg.multi_dot(factors[::-1])
        assert np.allclose(found.values[token], np.linalg.svd(product, compute_uv=False), atol=1e-12)
        sizes = [np.median(np.linalg.svd(J, compute_uv=False)) for J in factors]
        assert np.isclose(found.inverse_s[token], np.prod(sizes), rtol=1e-9)
    block = jacobian_spectrum(net, x[:1], token=1, skip_only=True)
    assert np.allclose(block.values, found.values[1], atol=1e-12)


@pytest.mark.parametrize("blocks", [1, 2])
def test_without_gains_the_norms_remove_directions_and_divide_by_sizes(blocks):
    net, (x, _) = LinearNet("post_norm", blocks), inputs()
    found, run = composed_norms(net, x, tokens=6), forward(net, x)
    sizes = np.prod([1 / np.sqrt((s + f).reshape(-1, D).var(-1) + 1e-5) for s, f in zip(run.states, run.written)], 0)
    assert np.allclose(found.inverse_s, sizes, rtol=1e-9)
    assert np.all(found.gain < found.inverse_s)


@pytest.mark.parametrize("blocks", [1, 2])
def test_two_null_directions_stay_two_in_a_whole_transformer(blocks):
    model = DecoderLM(7, 16, 2, blocks, 4, connection="post_norm", init="xavier", dtype=np.float64)
    found = composed_norms(model, np.array([[3, 1, 4]]))
    # eps leaves the direction x̂ a factor of about eps/(2σ²): tiny, not zero; the direction 1 is exactly zero
    assert np.all(found.values[:, -2] < 1e-4 * found.values[:, 0]) and np.all(found.null_directions >= 1)
    assert np.all(found.values[:, -3] > 1e-2 * found.values[:, 0])
    assert np.array_equal(composed_norms(DecoderLM(7, 16, 2, 1, 4), np.array([[3]])).values, np.ones((1, 16)))


# ------------------------------------------------------------------------------------------------ lens, attribution


def test_lens_reads_every_state_with_the_head():
    net, (x, y) = LinearNet(), inputs()
    found = logit_lens(net, x, y)
    by_hand = [s @ net.head.weight.data + net.head.bias.data for s in states_of(net, x)]
    assert np.allclose(found.logits, by_hand)
    final = by_hand[-1].argmax(-1)
    assert np.allclose(found.agreement, [np.mean(z.argmax(-1) == final) for z in by_hand]) and found.agreement[-1] == 1
    p = [np.exp(z) / np.exp(z).sum(-1, keepdims=True) for z in by_hand]
    assert np.isclose(found.kl[0], np.mean((p[-1] * np.log(p[-1] / p[0])).sum(-1))) and found.kl[-1] == 0
    assert np.isclose(found.final_probability[1], np.mean(np.take_along_axis(p[1], final[..., None], -1)))
    assert np.isclose(found.cross_entropy[-1], net.loss(x, y).item())


def test_attribution_by_hand():
    net, (x, y) = LinearNet(), inputs()
    found, states = logit_attribution(net, x, y), states_of(net, x)
    direction = net.head.weight.data.T[y]
    assert found.names == ["input", "0 mlp", "1 mlp", "2 mlp"]
    assert np.allclose(found.values[0], (x * direction).sum(-1))
    assert np.allclose(found.values[2], (states[1] @ net.weights[1] * direction).sum(-1))
    assert np.allclose(found.constant, net.head.bias.data[y])
    assert found.error < 1e-12


def test_ablation_by_hand_directly_and_in_all():
    net, (x, y) = LinearNet(), inputs()
    found, states = ablation(net, x, y, "zero"), states_of(net, x)
    I, (W0, W1, W2), logits = np.eye(D), net.weights, lambda s: s @ net.head.weight.data + net.head.bias.data
    loss = cross_entropy(logits(states[-1]), y)
    assert np.isclose(found.loss, loss)
    total = [x @ (I + W1) @ (I + W2), x @ (I + W0) @ (I + W2), x @ (I + W0) @ (I + W1)]
    direct = [states[-1] - s @ W for s, W in zip(states, net.weights)]
    assert np.allclose(found.total, [cross_entropy(logits(s), y) - loss for s in total])
    assert np.allclose(found.direct, [cross_entropy(logits(s), y) - loss for s in direct])
    assert np.isclose(found.total[-1], found.direct[-1])  # nothing comes after the last one


def test_mean_and_resample_replace_by_the_right_thing():
    net, (x, y) = LinearNet(blocks=1), inputs()
    (f,) = forward(net, x).written
    head = lambda s: s @ net.head.weight.data + net.head.bias.data  # noqa: E731
    loss = cross_entropy(head(x + f), y)
    assert np.isclose(ablation(net, x, y, "mean").total[0], cross_entropy(head(x + f.mean((0, 1))), y) - loss)
    assert np.isclose(ablation(net, x, y, "resample").total[0], cross_entropy(head(x + f[::-1]), y) - loss)
    elsewhere, _ = inputs(seed=9, batch=7, length=2)
    (g,) = forward(net, elsewhere).written
    found = ablation(net, x, y, "mean", reference=elsewhere).total[0]
    assert np.isclose(found, cross_entropy(head(x + g.mean((0, 1))), y) - loss)
    with pytest.raises(UnknownName, match="mean"):
        ablation(net, x, y, "meen")
    with pytest.raises(ValueProblem, match="two samples"):
        ablation(net, x[:1], y[:1], "resample")


def test_a_frozen_scale_and_a_recomputed_one_differ_and_agree_without_a_norm():
    net, (x, y) = LinearNet("pre_norm"), inputs()
    frozen, fresh = (ablation(net, x, y, scale=scale) for scale in ("frozen", "recompute"))
    assert np.allclose(frozen.total, fresh.total) and not np.allclose(frozen.direct, fresh.direct)
    assert np.isclose(fresh.direct[-1], fresh.total[-1])
    net = LinearNet("residual")
    assert np.allclose(ablation(net, x, y, scale="frozen").direct, ablation(net, x, y).direct)


# ------------------------------------------------------------------------------------------------------------ paths


def test_path_gradients_are_the_sums_over_all_subsets():
    net, (x, _) = LinearNet(), inputs()
    found = path_gradients(net, x, seed=4)
    R = np.random.default_rng([4, 1]).standard_normal((*x.shape[:2], VOCAB))
    top = R @ net.head.weight.data.T
    for k in range(4):
        by_hand = np.zeros_like(top)
        for through in itertools.combinations(range(3), k):
            g = top
            for i in reversed(range(3)):
                g = g @ net.weights[i].T if i in through else g
            by_hand += g
        assert np.allclose(found.gradients[k], by_hand, atol=1e-13)
        assert np.isclose(found.norms[k], np.linalg.norm(by_hand))
    assert np.isclose(found.shares.sum(), 1) and np.allclose(found.counts, [1 / 8, 3 / 8, 3 / 8, 1 / 8])
    assert np.allclose(found.per_path, found.norms / np.sqrt([1, 3, 3, 1]))


@pytest.mark.parametrize("rule", ["pre_norm", "post_norm", "deepnorm", "highway", "residual_dual", "parallel", "mhc",
                                  "denseformer", "attention_residuals", "block_attention_residuals"])  # fmt: skip
def test_all_lengths_together_are_the_whole_gradient(rule):
    model = DecoderLM(7, 8, 2, 2, 4, connection=rule, init="xavier", dtype=np.float64, rng=2)
    ids = np.random.default_rng(0).integers(0, 7, (2, 2, 4))
    found = path_gradients(model, *ids)
    x = Tensor(model.embed(ids[0]).data, requires_grad=True)
    (whole,) = grad(_loss_from(model, x, ids[1]), [x])
    assert np.allclose(found.gradients.sum(0), whole, atol=1e-13 + 1e-12 * np.abs(whole).max())
    if rule == "pre_norm":
        skip = state_gradients(model, *ids, skip_only=True)
        assert np.allclose(found.gradients[0], skip[0], atol=1e-15)


def _loss_from(model, x, targets):
    return ops.cross_entropy(model.head(model.stack(x)), targets)


def test_single_paths_have_the_norm_of_their_product():
    net, (x, _) = LinearNet(), inputs()
    found = sampled_paths(net, x, draws=6, seed=4)
    top = np.random.default_rng([4, 1]).standard_normal((*x.shape[:2], VOCAB)) @ net.head.weight.data.T
    ones = [np.linalg.norm(top @ W.T) for W in net.weights]
    assert np.allclose(found.norms[0], np.linalg.norm(top))
    assert all(np.isclose(n, ones).any() for n in found.norms[1])
    W0, W1, W2 = net.weights
    assert np.allclose(found.norms[3], np.linalg.norm(top @ W2.T @ W1.T @ W0.T))
    with pytest.raises(ValueProblem, match="0 to 3"):
        sampled_paths(net, x, lengths=[4])


# ---------------------------------------------------------------------------------------------- lesions and shuffles


def test_lesions_by_hand():
    net, (x, y) = LinearNet(), inputs()
    found, zeroed = lesions(net, x, y), ablation(net, x, y, "zero")
    assert np.allclose(found.rise, zeroed.total)  # without a norm, leaving out is the same as returning 0
    whole = np.array([found.loss])
    assert np.allclose(delete_random(net, x, y, [0], 3).losses, whole)
    assert np.allclose(delete_random(net, x, y, [3], 2).losses, cross_entropy(net.head(Tensor(x)).data, y))
    with pytest.raises(ValueProblem, match="0 to 3"):
        delete_random(net, x, y, [4])


def test_shuffling_commuting_branches_changes_nothing_and_others_do():
    net, (x, y) = LinearNet(blocks=6), inputs()
    found = shuffle(net, x, y, swaps=(0, 1, 5))
    assert found.amount[0] == 1 and np.isclose(found.losses[0, 0], found.whole)
    assert np.all(np.diff(found.amount) <= 0) and not np.allclose(found.losses, found.whole)
    for F, c in zip(net.stack.sublayers, np.linspace(-0.3, 0.4, 6)):
        F.weight.data[...] = c * np.eye(D)
    assert np.allclose(shuffle(net, x, y, swaps=(3, 5)).losses, shuffle(net, x, y).whole)


def test_kendall_tau():
    assert kendall_tau(range(5)) == 1 and kendall_tau([4, 3, 2, 1, 0]) == -1 and kendall_tau([0]) == 1
    assert np.isclose(kendall_tau([1, 0, 2]), 1 / 3)  # 2 pairs in order, 1 not


@pytest.mark.parametrize("measure", ["loss", "influence", "angle", "contribution"])
def test_pruning_starts_with_the_branch_that_does_nothing(measure):
    net, (x, y) = LinearNet(blocks=4), inputs()
    y = forward(net, x).output.argmax(-1)  # what it says is right, so that leaving out costs something
    net.stack.sublayers[2].weight.data[...] *= 1e-9
    found = prune(net, x, y, measure)
    if measure != "loss":
        assert found.order[0] == 2
    at = found.order.index(2)
    assert np.isclose(found.losses[at], found.losses[at + 1], atol=1e-6)
    assert np.isclose(found.losses[-1], cross_entropy(net.head(Tensor(x)).data, y)) and len(found.losses) == 5
    assert prune(net, x, y, measure, most=1).losses.shape == (2,)


def test_a_step_left_out_keeps_every_other_steps_own_norm():
    net, (x, y) = LinearNet("pre_norm"), inputs()
    for k, norm in enumerate(net.stack.connection.norms):
        norm.gamma.data[...] = k + 1
    assert np.allclose(lesions(net, x, y).rise, ablation(net, x, y).total)
    assert [site.k for site in net.stack.sites] == [0, 1, 2]  # nothing in the model changed


# ------------------------------------------------------------------------------------------------------------- bits


def test_rounding_to_bits():
    x = np.array([[-1.0, -0.26, 0.26, 0.4]])
    assert np.array_equal(rounded(x, 2), [[-1, 0, 0, 0]])
    assert np.array_equal(rounded(x, 3), [[-1, -1 / 3, 1 / 3, 1 / 3]])
    assert np.array_equal(rounded(np.zeros((2, 3)), 4), np.zeros((2, 3)))
    assert np.abs(rounded(x, 16) - x).max() <= 0.5 / (2**15 - 1)
    with pytest.raises(ValueProblem, match="2 bits"):
        rounded(x, 1)


def test_quantization_rounds_what_it_says():
    net, (x, y) = LinearNet(), inputs()
    found = quantization(net, x, y, (30, 3))
    assert np.allclose([found.stream[0], found.branch[0], found.weights[0]], 0, atol=1e-7)
    s = rounded(x, 3)
    for W in net.weights:
        s = rounded(s + s @ W, 3)
    assert np.isclose(found.stream[1], cross_entropy(net.head(Tensor(s)).data, y) - found.loss)
    s = x
    for W in net.weights:
        s = s + rounded(s @ W, 3)
    assert np.isclose(found.branch[1], cross_entropy(net.head(Tensor(s)).data, y) - found.loss)
    s = x
    for W in net.weights:
        s = s + s @ rounded(W, 3, axis=0)
    assert np.isclose(found.weights[1], cross_entropy(net.head(Tensor(s)).data, y) - found.loss)
