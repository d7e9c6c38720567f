"""The parts that new measurements are made of, each on a case whose answer is known."""

import numpy as np
import pytest

from minires.claims import CLAIMS, play, printed
from minires.claims.flow import _slope, _update
from minires.claims.ledger import CONTRADICTS, HOLDS, perform
from minires.claims.trained import _error_cut, digit_net, errors
from minires.data import digits


def small(blocks=3):
    return play.fresh(blocks, 16, seed=0)


def test_neighbouring_blocks_change_places_whole():
    assert play._exchanged(3, 1) == [0, 1, 4, 5, 2, 3]


def test_a_silent_block_may_run_beside_its_neighbour():
    model, (ids, _) = small(), play.unseen(2, 0)
    whole = model(ids).data
    assert not np.allclose(play._together(model, ids, 1), whole, atol=1e-3), "the second block reads something else"
    for F in model.stack.sublayers[2:4]:
        F.out_weight.data[...] = 0
        F.out_weight.changed()
    assert np.allclose(play._together(model, ids, 1), model(ids).data, atol=1e-5)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_head_that_writes_what_it_reads_or_its_negative(sign):
    model = small(1)
    A = model.stack.sublayers[0]
    A.qkv_weight.data[:, 32:] = np.eye(16)
    A.out_weight.data[...] = sign * np.eye(16)
    assert np.allclose(play._head_scores(model), sign)


def test_effects_of_two_sublayers_that_do_not_touch_add_up():
    """Without one of two the loss is that without this one: a silent sublayer adds nothing to any pair."""
    model, (ids, targets) = small(), play.unseen(2, 0)
    model.stack.sublayers[0].out_weight.data[...] = 0
    one, both = (play._without(model, ids, targets, gone) for gone in ((3,), (0, 3)))
    assert both == pytest.approx(one, abs=1e-6)


def test_distilling_brings_the_student_to_the_teacher():
    teacher, (ids, targets) = small(1), play.unseen(64, 0)
    own = play.cross_entropy(teacher(ids).data, targets)
    student = play.fresh(1, 16, seed=1)
    before = play.cross_entropy(student(ids).data, targets)
    assert abs(play._distilled(student, teacher, 60, 1e-2, 0) - own) < abs(before - own) / 2


def test_cutting_the_only_skip_leaves_the_branch():
    """One block: x + F(x)/√1 without its skip is F(x)."""
    net, data = digit_net("residual", 4, seed=0), digits(0)
    found, whole = _error_cut(net, data, 0), errors(net, data)[1]
    net.stack.connection.step = lambda x, site, F: F(x)
    assert found == errors(net, data)[1] != whole


def test_an_update_leaves_the_model_where_it_was_and_adam_moves_by_a_fixed_step():
    found = [_update("post_norm", n, 16, 1e-3, 0) for n in (1, 4)]
    assert _slope((1, 4), [f["adam_theta"] for f in found]) == pytest.approx(0.5, abs=1e-6)
    assert _update("post_norm", 1, 16, 2e-3, 0)["sgd_theta"] == pytest.approx(2 * found[0]["sgd_theta"])


def verdict(id):
    return CLAIMS[id].rule(perform(CLAIMS[id].measure).numbers)


def test_attention_along_the_second_axis_would_be_noticed(monkeypatch):
    along_first = printed._along_first
    monkeypatch.setattr(printed, "_along_first", lambda A, M, x: along_first(A, M, x.swapaxes(0, 1)).swapaxes(0, 1))
    assert verdict("C42") == CONTRADICTS


def test_gates_over_all_experts_would_be_noticed(monkeypatch):
    gated = printed._gated
    monkeypatch.setattr(printed, "_gated", lambda layer, h, chosen: gated(layer, h, 4))
    assert verdict("C30") == CONTRADICTS


def test_the_step_of_the_update_rows_is_so_small_that_the_change_is_proportional_to_it():
    """A large one ends at √2, and then nothing could look exponential."""
    small, smaller, large = (_update("post_norm", 24, 32, lr, 1)["sgd_matrices"] / lr for lr in (1e-7, 1e-8, 1e-2))
    assert np.isclose(small, smaller, rtol=1e-3) and large < small / 2


@pytest.mark.parametrize(("law", "found"), [(lambda n: n**1.4, CONTRADICTS), (lambda n: 1.1**n, HOLDS)])
def test_an_exponential_growth_of_updates_would_be_noticed(monkeypatch, law, found):
    def grown(recipe, blocks, d, lr, seed):
        return {f"{rule}_{group}": law(blocks) for rule in ("sgd", "adam") for group in ("matrices", "theta")}

    monkeypatch.setattr("minires.claims.flow._update", grown)
    claim = CLAIMS["C95"]
    assert claim.rule(perform(claim.measure, fast=True).numbers) == claim.rule(perform(claim.measure).numbers) == found
