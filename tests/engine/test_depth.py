"""Depth without fear: time and memory grow linearly with the number of residual layers, and nothing leaks."""

import gc
import time
import tracemalloc

import numpy as np
import pytest

from minires import Tensor, ops
from minires.models import DecoderLM

WIDTH = 64


def residual_stack(depth, x, w, gain):
    """`depth` residual layers x + tanh(x W) / depth; every layer holds rows × WIDTH numbers."""
    h = x
    for _ in range(depth):
        h = h + ops.tanh(h @ w) * gain
    return h


def forward_and_backward(depth, rows=32):
    rng = np.random.default_rng(0)
    x = Tensor(rng.standard_normal((rows, WIDTH)).astype(np.float32), requires_grad=True)
    w = Tensor(rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 8, requires_grad=True)
    residual_stack(depth, x, w, np.float32(1 / depth)).backward(np.ones((rows, WIDTH), np.float32))
    return x, w


def seconds(depth):
    start = time.process_time()
    x, w = forward_and_backward(depth)
    assert np.isfinite(x.grad).all() and np.isfinite(w.grad).all() and x.grad.any()
    return time.process_time() - start


def peak_bytes(depth):
    gc.collect()
    tracemalloc.start()
    forward_and_backward(depth)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.slow
def test_time_grows_linearly_from_100_to_10000_layers():
    """The slope of log time over log depth is at most 1.1. Each layer holds at least 16 KB: four arrays of 8 KB.

    Shallow stacks are run many times and averaged, so that the noise of a busy machine meets every depth alike. One
    round in five must do: noise may spoil some, and work that grows faster than depth would spoil all of them.
    """
    depths = np.array([100, 300, 1000, 3000, 10_000])
    slopes = []
    while not slopes or (min(slopes) > 1.1 and len(slopes) < 5):
        times = [np.mean([seconds(d) for _ in range(max(1, 3000 // d))]) for d in depths]
        slopes.append(np.polyfit(np.log(depths), np.log(times), 1)[0])
    assert min(slopes) <= 1.1, (slopes, times)


def test_memory_per_layer_is_constant():
    """Peak memory per layer at 1000 layers and at 4000 is within 10 % of that at 100."""
    peak_bytes(10)
    per_layer = {d: peak_bytes(d) / d for d in (100, 1000, 4000)}
    assert all(abs(b / per_layer[100] - 1) <= 0.1 for b in per_layer.values()), per_layer
    assert per_layer[1000] >= 16 * 1024


def test_memory_is_given_back_on_the_way():
    """Backward frees saved arrays as it goes: its peak is hardly above that of the forward pass."""
    rng = np.random.default_rng(0)
    x = Tensor(rng.standard_normal((64, WIDTH)), requires_grad=True)
    w = Tensor(rng.standard_normal((WIDTH, WIDTH)) / 8, requires_grad=True)
    tracemalloc.start()
    y = residual_stack(300, x, w, 1 / 300)
    forward = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    y.backward(np.ones(y.shape))
    peak = tracemalloc.get_traced_memory()[1]
    del y
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert peak <= 1.1 * forward and after <= 0.05 * forward


def blocks_and_batch(blocks):
    model = DecoderLM(32, d=32, heads=2, blocks=blocks, context=16)
    ids = np.random.default_rng(0).integers(0, 32, (4, 16))
    return model, ids


def one_pass(model, ids):
    model.zero_grad()
    model.loss(ids, np.roll(ids, -1, axis=1)).backward()


def test_field_05_twice_the_blocks_twice_the_time():
    """100 forward and backward passes of 12 and 24 blocks: the ratio of the times is below 2.5."""
    stacks = [blocks_and_batch(12), blocks_and_batch(24)]
    for model, ids in stacks:
        one_pass(model, ids)
    spent = [[], []]
    for _ in range(100):  # side by side, so that a busy machine slows both
        for times, (model, ids) in zip(spent, stacks, strict=True):
            start = time.process_time()
            one_pass(model, ids)
            times.append(time.process_time() - start)
    short, long = map(np.median, spent)
    assert long / short < 2.5


def test_field_12_memory_is_flat_over_200_steps():
    """With the garbage collector off, 200 training steps drift by less than 1 MB: there are no reference cycles."""
    model, ids = blocks_and_batch(2)
    for _ in range(20):
        one_pass(model, ids)
    gc.collect()
    gc.disable()
    try:
        tracemalloc.start()
        one_pass(model, ids)
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(200):
            one_pass(model, ids)
            for p in model.parameters():
                p.data -= np.float32(0.01) * p.grad
                p.changed()
        drift = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
    finally:
        gc.enable()
    assert drift < 1_000_000
