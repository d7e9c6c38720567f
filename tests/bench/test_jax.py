"""JAX takes the same training step as we do, on as many threads as it is given. Skipped where it is not installed."""

import os
import time

import numpy as np
import pytest

from minires.bench import step_jax, training
from minires.bench.peers import jax_or_none
from minires.bench.step_ours import Size, batches, build, our_step
from minires.data import CharCorpus, hamlet

pytest.importorskip("jax")
SIZE = Size(2, 8, 8, 1, 2)


def test_both_sides_take_the_same_steps():
    """The same losses over twelve steps: same weights, same gradients, same update, same weight decay."""
    corpus = CharCorpus(hamlet())
    model = build(SIZE, corpus)
    taken = {"minires": our_step(model), **step_jax.jax_steps(model, SIZE)}
    _, losses = training.in_turns(taken, batches(SIZE, corpus, 12))
    np.testing.assert_allclose(losses["minires"], losses["JAX"], rtol=1e-5)
    assert losses["minires"][-1] != losses["minires"][0]


def test_one_thread_is_one_thread():
    """All processor time is the caller's own, however busy the machine is; with a pool of two almost none is."""
    jax, before = jax_or_none(1), dict(os.environ)
    multiply = jax.jit(lambda a, b: jax.numpy.tanh(a @ b))
    a = jax.numpy.ones((512, 512))
    multiply(a, a).block_until_ready()
    own, busy = time.thread_time(), time.process_time()
    for _ in range(20):
        multiply(a, a).block_until_ready()
    assert time.thread_time() - own >= 0.9 * (time.process_time() - busy)
    assert dict(os.environ) == before


def test_another_number_of_threads_begins_anew():
    two = jax_or_none(2).devices()[0].client
    assert two is jax_or_none(2).devices()[0].client
    assert two is not jax_or_none(1).devices()[0].client
