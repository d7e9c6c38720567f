"""Instruments on every recipe: exact sums where they apply, a reason where they do not."""

from functools import partial

import numpy as np
import pytest

from minires import probes
from minires.messages import Explained, ValueProblem
from minires.models import RECIPES, DecoderLM, DeepMLP, Encoder, Stack
from minires.nn import Maker, Module
from minires.ops.attention import split_heads
from minires.ops.sinkhorn import sinkhorn_forward
from minires.residual import mlp_sites
from minires.residual.deepnorm import DeepNorm
from minires.tensor import Tensor
from minires.train import SGD
from tests.probes.linear import D, LinearNet, inputs
from tests.residual.common import disturbed

VOCAB, LENGTH = 7, 6


def text(seed=0, batch=2):
    return np.random.default_rng(seed).integers(0, VOCAB, (2, batch, LENGTH))


def build(recipe="pre_norm", blocks=2, d=8, dtype=np.float64, **options):
    ids, _ = text()
    return RECIPES[recipe].build(VOCAB, blocks, ids=ids, d=d, heads=2, context=LENGTH, dtype=dtype, rng=0, **options)


# --------------------------------------------------------------------------------- every recipe: an answer or a reason

TOOLS = {
    "growth": lambda m, x, y: probes.activation_growth(m, x),
    "similarity": lambda m, x, y: probes.similarity(m, x),
    "contribution": lambda m, x, y: probes.contribution(m, x),
    "collapse": lambda m, x, y: probes.rank_collapse(m, x),
    "spectrum": lambda m, x, y: probes.jacobian_spectrum(m, x, token=0),
    "norms": lambda m, x, y: probes.composed_norms(m, x, 1),
    "lens": lambda m, x, y: probes.logit_lens(m, x, y),
    "attribution": lambda m, x, y: probes.logit_attribution(m, x, y),
    "ablation": lambda m, x, y: probes.ablation(m, x, y, "mean"),
    "paths": lambda m, x, y: probes.path_gradients(m, x, y),
    "sampled": lambda m, x, y: probes.sampled_paths(m, x, y, draws=2),
    "lesions": lambda m, x, y: probes.lesions(m, x, y),
    "deleted": lambda m, x, y: probes.delete_random(m, x, y, [1], 2),
    "pruned": lambda m, x, y: probes.prune(m, x, y, most=1),
    "bits": lambda m, x, y: probes.quantization(m, x, y, (4,)),
    "heads": lambda m, x, y: probes.head_patterns(m, x),
    "composition": lambda m, x, y: probes.composition_scores(m),
    "memory": lambda m, x, y: probes.memory_neurons(m),
    "gains": lambda m, x, y: probes.composite_gain(m, x),
    "update": lambda m, x, y: probes.update_size(m, x, m.state_dict()),
    "bound": lambda m, x, y: probes.update_bound(m, m.state_dict()),
    "dependency": lambda m, x, y: probes.layer_dependency(m, x),
}
EVERYWHERE = {"growth", "similarity", "contribution", "collapse", "spectrum", "ablation", "paths", "sampled", "bits",
              "heads", "update"}  # fmt: skip
NO_SUM = {"plain", "none", "none_identity", "highway", "post_norm", "residual_dual", "deepnorm", "admin",
          "hyper_connections", "dynamic_hyper_connections", "mhc", "mhc_permutations", "attention_residuals",
          "block_attention_residuals", "denseformer", "laurel_pa", "pre_norm_dyt"}  # fmt: skip
SEVERAL = {name for name in NO_SUM if "hyper" in name or "mhc" in name or "attention" in name} | {
    "residual_dual", "denseformer", "laurel_pa"}  # fmt: skip


@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_every_recipe_gets_an_answer_or_a_reason(recipe):
    model, (x, y) = build(recipe), text()
    before = {name: array.copy() for name, array in model.state_dict().items()}
    refused = set()
    for name, tool in TOOLS.items():
        try:
            tool(model, x, y)
        except Explained as problem:
            assert problem.must and problem.given and problem.hint
            refused.add(name)
    assert not refused & EVERYWHERE
    assert ("attribution" in refused) == (recipe in NO_SUM)
    assert ("gains" in refused) == ("hyper" not in recipe and "mhc" not in recipe)
    assert ("bound" in refused) == (recipe not in ("post_norm", "deepnorm"))
    assert ("dependency" in refused) == (recipe == "highway" or recipe in SEVERAL)
    assert all(np.array_equal(before[name], array) for name, array in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("model", [LinearNet("pre_norm"), DeepMLP(D, 4, 6, 3), Encoder(7, 8, 2, 2, 6)],
                         ids=["stack", "mlp", "encoder"])  # fmt: skip
def test_other_models_are_measured_too(model):
    x, y = inputs() if isinstance(model, LinearNet) else text()
    if isinstance(model, DeepMLP):
        x, y = np.random.default_rng(0).standard_normal((6, D)), np.arange(6) % 4
    for name in EVERYWHERE - {"heads", "update"}:
        TOOLS[name](model, x, y)
    if isinstance(model, Encoder):
        with pytest.raises(ValueProblem, match="linear head"):
            probes.logit_attribution(model, x)
        assert "linear head" in probes.ablation(model, x, y).why_no_direct


def test_an_encoders_padding_is_respected():
    model = Encoder(7, 8, 2, 1, 6, padding=0, init="xavier")
    (A,) = probes.attention_maps(model, np.array([[3, 4, 5, 0, 0]]))
    assert np.all(A[..., 3:] == 0) and np.allclose(A.sum(-1), 1)


# -------------------------------------------------------------------------------------------------------- attribution

SUMS = sorted(set(RECIPES) - NO_SUM - {"moe", "laurel", "peri_ln"})


@pytest.mark.parametrize("recipe", SUMS)
def test_parts_add_up_to_the_logit_with_every_parameter_off_its_start(recipe):
    model, (x, y) = disturbed(build(recipe)), text()
    found = probes.logit_attribution(model, x, y)
    assert found.error < 1e-6 and np.abs(found.values).max() > 1e-3
    assert len(found.names) == len(found.values) == 1 + len(probes.forward(model, x).states) - 1


@pytest.mark.parametrize("recipe", ["pre_norm", "layerscale", "rezero", "layernorm_scaling", "residual", "t_fixup"])
def test_heads_add_up_to_their_sublayer(recipe):
    model, (x, y) = disturbed(build(recipe)), text()
    whole, split = (probes.logit_attribution(model, x, y, heads=heads) for heads in (False, True))
    own = [i for i, name in enumerate(split.names) if name.startswith("0 attention")]
    assert [split.names[i] for i in own] == ["0 attention head 0", "0 attention head 1", "0 attention bias"]
    assert np.allclose(split.values[own].sum(0), whole.values[1], atol=1e-10)
    assert split.error < 1e-6


def test_a_norm_behind_the_sublayer_forbids_heads_and_says_so():
    with pytest.raises(ValueProblem, match="bends it first"):
        probes.logit_attribution(build("sandwich"), text()[0], heads=True)
    with pytest.raises(ValueProblem, match="told apart"):
        probes.logit_attribution(build("normformer"), text()[0], heads=True)


@pytest.mark.parametrize(("recipe", "reason"), [
    ("post_norm", "arrives"), ("hyper_connections", "single stream"), ("residual_dual", "single stream"),
    ("highway", "arrives"), ("pre_norm_dyt", "DyT"),
])  # fmt: skip
def test_where_attribution_means_nothing_it_says_why(recipe, reason):
    with pytest.raises(ValueProblem, match=reason):
        probes.logit_attribution(build(recipe), text()[0])


def test_a_rule_that_was_a_sum_at_first_is_refused_once_its_skip_was_trained():
    probes.logit_attribution(build("laurel"), text()[0])
    with pytest.raises(ValueProblem, match="arrives"):
        probes.logit_attribution(disturbed(build("laurel")), text()[0])


def test_without_tokens_the_most_likely_symbol_is_explained():
    model, (x, _) = build(), text()
    found = probes.logit_attribution(model, x)
    assert np.array_equal(found.logit, model(x).data.max(-1))


def test_a_lens_on_the_last_state_is_the_model_also_with_copies_of_the_stream():
    for recipe in ("pre_norm", "post_norm", "rezero", "hyper_connections", "denseformer"):
        model, (x, y) = build(recipe), text()
        found = probes.logit_lens(model, x, y)
        assert np.allclose(found.logits[-1], model(x).data, atol=1e-4 * np.abs(model(x).data).max()), recipe
        assert found.kl[-1] == 0 and found.agreement[-1] == 1
    with pytest.raises(ValueProblem, match="x_K alone"):
        probes.logit_lens(build("residual_dual"), x)


# -------------------------------------------------------------------------------------------------------------- heads


@pytest.mark.parametrize("recipe", ["pre_norm", "sub_ln"])
def test_maps_are_those_of_the_engine(recipe):
    model, (x, _) = build(recipe), text()
    run, F = probes.forward(model, x), model.stack.sublayers[2]
    A = probes.attention_maps(model, x)[1]
    q, k, _ = split_heads(run.read[2] @ F.qkv_weight.data + F.qkv_bias.data, 2)
    assert np.allclose(A.sum(-1), 1) and np.allclose(np.triu(A[0, 0], 1), 0)
    scores = (q @ k.swapaxes(-1, -2) / 2)[0, 1, 3, :4]
    assert np.allclose(A[0, 1, 3, :4], np.exp(scores) / np.exp(scores).sum())
    if recipe == "pre_norm":
        heads = probes.head_outputs(F, run.read[2])
        assert np.allclose(heads.sum(0) + F.out_bias.data, run.written[2], atol=1e-12)


def constant_attention(look_back):
    """A decoder whose heads look `look_back` tokens back (0 where there are not so many), by its positions."""
    model = DecoderLM(5, 16, 1, 1, 12, connection="residual", dtype=np.float64)
    F = model.stack.sublayers[0]
    model.tokens.table.data[...] = 0
    model.positions.data[...] = np.eye(12, 16)
    F.qkv_weight.data[...] = 0
    F.qkv_weight.data[:, :16] = 400 * np.eye(16)
    for key in range(12):  # position `key` answers the query of position `key + look_back`
        F.qkv_weight.data[key, 16 + min(key + look_back, 15)] = 1
    return model


@pytest.mark.parametrize(("look_back", "pattern"), [(1, "previous"), (0, "current"), (3, "induction")])
def test_patterns_of_a_head_that_was_made_to_look_there(look_back, pattern):
    ids = np.tile(np.arange(4), 3)[None]  # period 4: induction looks 3 back
    found = probes.head_patterns(constant_attention(look_back), ids, period=4)
    for name in ("previous", "current", "induction"):
        value = getattr(found, name)[0, 0]
        assert value > 0.99 if name == pattern else value < 0.3, (name, value)


def test_a_head_that_sinks_into_the_first_token():
    model = constant_attention(1)
    weight = model.stack.sublayers[0].qkv_weight.data
    weight[:, 16:32] = 0
    weight[0, 16:32] = 1  # the key of position 0 answers every query
    found = probes.head_patterns(model, np.zeros((1, 8), int))
    assert found.first[0, 0] > 0.99 and found.previous[0, 0] < 0.3


def test_an_induction_score_needs_its_period():
    with pytest.raises(ValueProblem, match="repeat themselves"):
        probes.head_patterns(build(), text()[0], period=2)
    assert probes.head_patterns(build(), text()[0]).induction is None


def test_no_attention_no_maps():
    with pytest.raises(ValueProblem, match="DeepMLP"):
        probes.attention_maps(DeepMLP(5, 4, 6, 2), np.zeros((2, 5)))


# ------------------------------------------------------------------------------------------------------------ weights


def test_virtual_weights_are_what_one_sublayer_reads_of_another():
    model = disturbed(build())
    F, G = model.stack.sublayers[1], model.stack.sublayers[2]
    gamma = model.stack.connection.norms[2].gamma.data
    by_hand = F.out_weight.data @ np.diag(gamma) @ G.qkv_weight.data[:, 8:16]
    assert np.allclose(probes.virtual_weight(model, 1, 2, "key"), by_hand, atol=1e-12)
    unfolded = F.out_weight.data @ G.qkv_weight.data
    assert np.allclose(probes.virtual_weight(model, 1, 2, fold_norm=False), unfolded, atol=1e-12)
    with pytest.raises(ValueProblem, match="forward"):
        probes.virtual_weight(model, 2, 1)


def test_a_gate_on_the_branch_is_part_of_the_virtual_weight():
    model = disturbed(build("layerscale"))
    gain = model.stack.connection.gammas[0].data
    F, G = model.stack.sublayers[0], model.stack.sublayers[1]
    by_hand = F.out_weight.data @ np.diag(gain * model.stack.connection.norms[1].gamma.data) @ G.in_weight.data
    assert np.allclose(probes.virtual_weight(model, 0, 1), by_hand, atol=1e-12)


def test_composition_scores_are_normalised_products_and_chance_is_chance():
    model = build(d=64)
    found = probes.composition_scores(model, "value")
    product = probes.virtual_weight(model, 0, 2, "value")
    size = np.linalg.norm(model.stack.sublayers[0].out_weight.data) * np.linalg.norm(
        model.stack.sublayers[2].qkv_weight.data[:, 128:]
    )
    assert np.isclose(found.scores[0, 2], np.linalg.norm(product) / size)
    assert np.all(np.isnan(found.scores[np.tril_indices(4)]))
    assert np.allclose(found.scores[np.triu_indices(4, 1)], found.chance, rtol=0.15) and found.chance == 1 / 8


@pytest.mark.parametrize("recipe", ["sandwich", "post_norm", "moe", "normformer"])
def test_virtual_weights_say_where_something_stands_between(recipe):
    with pytest.raises(ValueProblem):
        probes.composition_scores(build(recipe))


def test_memory_neurons_that_erase_and_that_copy():
    model = build()
    F = model.stack.sublayers[1]
    F.out_weight.data[...] = F.in_weight.data.T
    F.out_weight.data[:8] *= -2
    found = probes.memory_neurons(model)
    assert np.allclose(found.cosines[0, :8], -1) and np.allclose(found.cosines[0, 8:], 1)
    assert found.share()[0] == 8 / 32 and found.cosines.shape == (2, 32)


# -------------------------------------------------------------------------------------------------- hyper-connections


def test_composite_gain_by_hand():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((2, 3, 4, 4))  # first and second sublayer, 3 tokens
    found = probes.composite_of([A, B])
    both = B @ A
    for gains, axis in ((found.forward, 1), (found.backward, 0)):
        expected = [np.mean([np.abs(C.sum(axis)).max() for C in product]) for product in (both, B)]
        assert np.allclose(gains, expected)
    assert np.isclose(found.second[0], np.linalg.svd(both, compute_uv=False)[:, 1].max())
    assert np.isclose(found.column_error[0], np.abs(A.sum(-2) - 1).max())


def test_a_gain_sums_before_it_takes_the_size_and_averages_over_tokens():
    """Two tokens: rows of the first sum to 3 and 0, columns to 0 and 3; those of the second to 2 and 1, 1 and 2."""
    C = np.array([[[1.0, 2.0], [-1.0, 1.0]], [[0.0, 2.0], [1.0, 0.0]]])
    found = probes.composite_of([C])
    assert found.forward[0] == (3 + 2) / 2 and found.backward[0] == (3 + 2) / 2
    mirrored = probes.composite_of([C * np.array([1.0, -1.0])])  # row sums -1, -2 and -2, 1; columns 0, -3 and 1, -2
    assert mirrored.forward[0] == (2 + 2) / 2 and mirrored.backward[0] == (3 + 2) / 2


def test_the_matrices_are_those_that_act_on_the_copies():
    for recipe in ("hyper_connections", "dynamic_hyper_connections", "mhc", "mhc_permutations"):
        model, x = disturbed(build(recipe)), np.random.default_rng(0).standard_normal((1, 1, 8))
        stack = model.stack
        rule, site = stack.connection, stack.sites[0]
        copies = rule.open(Tensor(x))
        spy = probes.mixing_matrices(stack, x)[0][0]
        moved = rule.step(copies, site, lambda h: Tensor(np.zeros(h.shape))).data
        assert np.allclose(moved[0, 0], spy @ copies.data[0, 0]), recipe
        assert spy.shape == (4, 4) and not np.allclose(spy, np.eye(4))


def test_mhc_keeps_its_gain_near_one_and_a_disturbed_hc_does_not():
    free, bound = (disturbed(build(name, blocks=12), size=0.5) for name in ("hyper_connections", "mhc"))
    free, bound = probes.composite_gain(free, text()[0]), probes.composite_gain(bound, text()[0])
    assert free.forward[0] > 10 and bound.forward[0] < 1.1
    assert bound.row_error.max() < 1e-9


def test_sinkhorns_error_is_read_off_the_model():
    model = disturbed(build("mhc"), size=2.0)
    found = probes.composite_gain(model, text()[0])
    H = sinkhorn_forward(np.zeros((4, 4)))[0]
    assert found.column_error.max() > 1e-6 and probes.composite_of([H[None]]).column_error[0] < 1e-12


# ------------------------------------------------------------------------------------------------------------- updates


def test_an_update_is_measured_and_told_apart():
    model, (x, y) = build(), text()
    optimizer = SGD(model.parameters(), lr=0.1)

    def train():
        model.loss(x, y).backward()
        optimizer.step()
        optimizer.zero_grad()

    before = {name: array.copy() for name, array in model.state_dict().items()}
    old = probes.update.stack_output(model, x)
    found = probes.expected_update(model, x, train)
    new = probes.update.stack_output(model, x)
    assert np.isclose(found.total, np.mean(np.linalg.norm(new - old, axis=-1)) / np.sqrt(8))
    assert set(found.by_group) == {"sublayers", "norms", "connection", "ends"}
    assert min(found.by_group[group] for group in ("sublayers", "norms", "ends")) > 0 == found.by_group["connection"]
    assert probes.update_size(model, x, model.state_dict()).total == 0
    only_ends = dict(model.state_dict())
    only_ends["tokens.table"] = before["tokens.table"] + 1.0
    moved = probes.update_size(model, x, only_ends)
    assert moved.by_group["sublayers"] == moved.by_group["connection"] == 0 < moved.by_group["ends"]
    assert np.isclose(moved.total, moved.by_group["ends"])


def test_norms_and_gates_are_told_apart():
    """A gain inside a sublayer (NormFormer) counts as a norm, LayerScale's γ as the connection's."""
    x, _ = text()
    for recipe, part, group in (("normformer", "inner_norm", "norms"), ("layerscale", "gammas", "connection")):
        model = build(recipe)
        before = {name: a + 0.1 * (part in name) for name, a in model.state_dict().items()}
        found = probes.update_size(model, x, before)
        assert {name for name, size in found.by_group.items() if size} == {group}
        assert np.isclose(found.total, found.by_group[group])


def test_deepnets_bound_by_hand():
    """d = 4, hidden 16. Attention: W_V = 0.5, W_O = 0.25 everywhere; feed-forward: W_1 = 0.1, W_2 = 0.2."""
    model = DecoderLM(7, 4, 2, 1, 6, connection="deepnorm", dtype=np.float64)
    attention, ffn = model.stack.sublayers
    weights = (attention.qkv_weight, attention.out_weight, ffn.in_weight, ffn.out_weight)
    for W, size in zip(weights, (0.5, 0.25, 0.1, 0.2)):
        W.data[...] = size
    before = model.state_dict()
    attention.qkv_weight.data[:, :8] += 5  # queries and keys do not enter
    attention.qkv_weight.data[0, 8] += 0.3  # one entry of W_V, and one of W_O: ‖Δθ‖ = 0.5
    attention.out_weight.data[0, 0] += 0.4
    ffn.in_weight.data[...] += 0.01  # 64 entries: ‖Δθ‖ = 0.08
    found = probes.update_bound(model, before)
    assert np.allclose(found.v, [0.5 * 2, 0.1 * np.sqrt(10)]) and np.allclose(found.w, [0.25 * 2, 0.2 * np.sqrt(10)])
    assert np.allclose(found.moved, [0.5, 0.08]) and found.alpha == 2**0.25
    assert np.isclose(found.total, (np.sqrt(1.25) * 0.5 + np.sqrt(0.5) * 0.08) / 2**0.25)
    post = DecoderLM(7, 4, 2, 1, 6, connection="post_norm", dtype=np.float64)
    assert probes.update_bound(post, post.state_dict()).alpha == 1


@pytest.mark.parametrize(("recipe", "blocks", "low", "high"), [
    ("deepnorm", 3, 0.2, 0.4), ("deepnorm", 12, 0.2, 0.4), ("deepnorm", 48, 0.2, 0.4),
    ("post_norm", 3, 0.5, 1), ("post_norm", 48, 1, 3),
])  # fmt: skip
def test_a_step_beside_deepnets_bound(recipe, blocks, low, high):
    """One step of SGD on the sublayers' weights: constant beside it in DeepNorm, beyond it in a deep Post-Norm."""
    model, (x, y) = build(recipe, blocks, d=32), text()
    before = model.state_dict()
    for name, p in model.named_parameters():
        p.lr_scale = float("weight" in name and "stack" in name)
    model.loss(x, y).backward()
    SGD(model.parameters(), lr=1e-3).step()
    moved, bound = probes.update_size(model, x, before).total, probes.update_bound(model, before).total
    assert low < moved / bound < high


@pytest.mark.parametrize(("recipe", "low", "high", "collapsed"), [
    ("deepnorm", 1, 1.1, False), ("post_norm", 8, 50, True),
])  # fmt: skip
def test_why_a_deep_post_norm_moves_beyond_the_bound(recipe, low, high, collapsed):
    """The bound takes later layers to pass any change on alike; Post-Norm's prefer the direction of the gradient."""
    model, (x, y) = build(recipe, 48, d=32), text()
    x_0, rng = probes.forward(model, x).states[0], np.random.default_rng(0)

    def gain(direction):
        change = 1e-6 * direction / np.linalg.norm(direction)
        return np.linalg.norm((model.stack(Tensor(x_0 + change)) - model.stack(Tensor(x_0))).data)

    along, random = gain(probes.state_gradients(model, x, y)[0]), gain(rng.standard_normal(x_0.shape))
    assert low < along / random < high
    assert (probes.rank_collapse(model, x).cosine[-1] > 0.99) == collapsed


def test_xavier_has_size_one_and_deepnorm_beta():
    for recipe, size in (("post_norm", 1.0), ("deepnorm", (8 * 2) ** -0.25)):
        found = probes.update_bound(model := build(recipe, d=64), model.state_dict())
        assert np.allclose([found.v, found.w], size, rtol=0.05) and found.total == 0


# ---------------------------------------------------------------------------------------------------- layer dependency

WALSH = np.array([[1.0, 1, 1, 1, -1, -1, -1, -1], [1, 1, -1, -1, 1, 1, -1, -1], [1, -1, 1, -1, 1, -1, 1, -1]])


class Fixed(Module):
    """A branch that returns the same array whatever it reads."""

    def __init__(self, f):
        self.f = f

    def forward(self, h, ctx=None):
        return Tensor(np.broadcast_to(self.f, h.shape).astype(float))


@pytest.mark.parametrize(("rule", "second", "third"), [
    ("pre_norm", [1, 1], [1, 1, 1]),
    ("post_norm", [1, 1], [0.5, 0.5, np.sqrt(0.5)]),  # (a + b)/√2, then ((a + b)/√2 + c)/√2
    (partial(DeepNorm, alpha=2.0), [2, 1], [4 / np.sqrt(5), 2 / np.sqrt(5), 1]),
    ("inverse_sqrt_depth", [1, np.sqrt(0.5)], [1, np.sqrt(0.5), np.sqrt(0.5)]),
])  # fmt: skip
def test_layer_dependency_of_three_orthogonal_writes_by_hand(rule, second, third):
    a, b, c = WALSH  # mean 0, size 1, orthogonal
    make = Maker.of(0, "xavier", np.float64, 2)
    stack = Stack(mlp_sites(2), [Fixed(b), Fixed(c)], 8, rule, "layernorm", make)
    found = probes.layer_dependency(stack, a[None, None])
    for row, sizes in zip(found.shares[1:], (second, third)):
        assert np.allclose(row[: len(sizes)], np.array(sizes) / np.linalg.norm(sizes), atol=1e-4)
    assert found.shares[0].tolist() == [1, 0, 0] and found.shares[1, 2] == 0
    assert np.isclose(found.amplification, np.sum(np.square(found.own)))


def test_the_sum_is_checked_with_every_parameter_off_its_start():
    for recipe in ("post_norm", "admin", "sandwich", "layerscale", "laurel", "parallel", "fixup"):
        assert np.isfinite(probes.layer_dependency(disturbed(build(recipe)), text()[0]).shares).all(), recipe
    x = np.random.default_rng(0).standard_normal((1, 3, 8))
    make = Maker.of(0, "xavier", np.float64, 2)
    bent = Stack(mlp_sites(2), [Fixed(WALSH[0]), Fixed(WALSH[1])], 8, "post_norm", "dyt", make)
    with pytest.raises(ValueProblem, match="linear once"):
        probes.layer_dependency(bent, x)


def test_post_norm_depends_on_its_branches_more_than_pre_norm_and_admin():
    """Admin's point: Σ a_ii² grows like N in Post-Norm, like log N in Pre-Norm, and Admin turns the one into the other.

    From 4 to 16 blocks and from 16 to 64: the same *factor* of about 4 is a law N, the same *difference* a law log N.
    """
    found = {name: [probes.layer_dependency(build(name, n, d=32), text()[0]).amplification for n in (4, 16, 64)]
             for name in ("post_norm", "pre_norm", "admin")}  # fmt: skip
    small, middle, large = found["post_norm"]
    assert np.allclose([middle / small, large / middle], 4, atol=0.5)
    for small, middle, large in (found["pre_norm"], found["admin"]):
        assert np.isclose(large - middle, middle - small, rtol=0.5) and large < 4 * small


def test_amplification_grows_with_depth_in_post_norm_faster_than_in_pre_norm():
    def growth(recipe):
        shallow, deep = (probes.amplification(build(recipe, blocks), text()[0]) for blocks in (2, 16))
        return deep / shallow

    small, large = (probes.amplification(build(), text()[0], size) for size in (1e-4, 1e-3))
    assert np.isclose(small, large, rtol=0.05)  # relative to the square of the disturbance
    assert growth("post_norm") > 1.5 * growth("pre_norm")


# ------------------------------------------------------------------------------------------------------------- pictures


def test_everything_can_be_drawn():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    x, y = text()
    for name, tool in TOOLS.items():
        model = build({"gains": "mhc", "norms": "post_norm", "bound": "deepnorm"}.get(name, "pre_norm"))
        figure = tool(model, x, y).draw()
        figure.canvas.draw()
        assert figure.axes[0].get_title(loc="left") and figure.axes[0].has_data(), name
        plt.close(figure)
