"""Clipping, schedules and spikes: the arithmetic around the loop."""

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minires.nn import Parameter
from minires.train import History, clip_grad_norm, clip_gradients, find_spikes, get_schedule, global_norm, schedules

# ------------------------------------------------------------------------------------------------------ clipping


def some_gradients(scale=1.0):
    rng = np.random.default_rng(0)
    return [scale * rng.standard_normal(shape) for shape in ((3, 4), (5,), ())]


def test_the_norm_is_that_of_all_entries_together():
    g = some_gradients()
    whole = np.concatenate([np.ravel(a) for a in g])
    assert global_norm(g) == pytest.approx(np.linalg.norm(whole), rel=1e-14)
    assert global_norm([None, *g, None]) == global_norm(g)
    assert global_norm([]) == 0.0


def test_clipping_keeps_the_direction_and_reports_the_norm_before():
    g = [np.array(a) for a in some_gradients()]
    before = [a.copy() for a in g]
    norm = clip_gradients(g, 0.5)
    assert norm == pytest.approx(global_norm(before)) and global_norm(g) == pytest.approx(0.5)
    for a, b in zip(g, before):
        np.testing.assert_allclose(a, b * (0.5 / norm), rtol=1e-14)


@pytest.mark.parametrize("max_norm", [None, 1e6])
def test_small_gradients_keep_their_bits(max_norm):
    g = some_gradients()
    before = [np.copy(a) for a in g]
    clip_gradients(g, max_norm)
    assert all(np.array_equal(a, b) for a, b in zip(g, before))


def test_squares_that_overflow_float32_do_not_make_the_norm_infinite():
    g = [np.full(4, 1e30, np.float32)]
    assert clip_gradients(g, 1.0) == pytest.approx(2e30, rel=1e-6)
    np.testing.assert_allclose(g[0], 0.5, rtol=1e-6)


def test_clip_grad_norm_works_on_the_parameters():
    p, unused = Parameter(np.ones(4)), Parameter(np.ones(2))
    p.grad = np.full(4, 3.0)
    assert clip_grad_norm([p, unused], 1.0) == 6.0
    np.testing.assert_allclose(p.grad, 0.5)


# ----------------------------------------------------------------------------------------------------- schedules

NAMES = sorted(schedules.SCHEDULES)


@given(st.sampled_from(NAMES), st.integers(0, 60), st.integers(0, 200))
def test_schedules_rise_once_and_never_leave_zero_to_one(name, warmup, rest):
    steps = warmup + rest + 1
    factors = [get_schedule(name, warmup, steps)(step) for step in range(steps)]
    assert all(0 <= f <= 1 for f in factors)
    assert all(a <= b for a, b in pairwise(factors[:warmup]))
    assert all(a >= b - 1e-12 for a, b in pairwise(factors[warmup:]))
    if warmup:
        assert factors[0] == pytest.approx(1 / warmup) and factors[warmup - 1] == 1


def test_where_the_schedules_end():
    assert schedules.warmup_linear(10, 100)(99) == pytest.approx(0.0)
    assert schedules.warmup_cosine(10, 100, floor=0.1)(99) == pytest.approx(0.1)
    assert schedules.warmup_cosine(0, 101, floor=0.0)(50) == pytest.approx(0.5)
    assert schedules.warmup_inverse_sqrt(100)(399) == pytest.approx(0.5)
    assert schedules.warmup_cosine(10, 100)(10_000) == pytest.approx(0.1)  # trained on after the end


def test_the_cosine_is_the_formula():
    f = schedules.warmup_cosine(0, 201, floor=0.0)
    for step in (0, 17, 100, 160):
        assert f(step) == pytest.approx(0.5 * (1 + math.cos(math.pi * step / 200)), rel=1e-12)


# -------------------------------------------------------------------------------------------------------- spikes


def noisy(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return 2 + np.exp(-np.arange(n) / 60) + 0.02 * rng.standard_normal(n)


def test_a_jump_is_found_and_only_the_jump():
    curve = noisy()
    assert find_spikes(curve) == []
    curve[137] += 0.5
    assert find_spikes(curve) == [137]


def test_the_rule_is_median_plus_k_mad_of_the_window_before():
    curve = np.random.default_rng(1).standard_normal(120)
    window, k = 20, 1.5
    expected = []
    for t in range(window, len(curve)):
        last = curve[t - window : t]
        median = np.median(last)
        if curve[t] > median + k * np.median(abs(last - median)):
            expected.append(t)
    assert 0 < len(expected) < 50 and find_spikes(curve, window, k) == expected


def test_short_curves_and_falling_curves_have_no_spikes():
    assert find_spikes([]) == find_spikes([1.0] * 50) == []
    assert find_spikes(np.linspace(5, 1, 400)) == []


def test_history_counts_clips_joins_spikes_and_survives_json():
    losses, norms = noisy(), noisy(seed=3)
    losses[200] += 1
    norms[80] += 1
    h = History(losses.tolist(), norms.tolist(), [1e-3] * 300, [i % 4 == 0 for i in range(300)], [[100, 2.5]], 1.5)
    assert h.spikes == [80, 200] and h.clip_fraction == 0.25 and h.steps == 300
    assert History.from_dict(json.loads(json.dumps(h.to_dict()))) == h
