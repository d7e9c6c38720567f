"""A step in shards: the right gradient, the same bits for any number of threads, and no way to hang."""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import minires
from minires import parallel
from minires.messages import DtypeError, ValueProblem
from minires.models import DecoderLM, DeepMLP
from minires.parallel import in_threads, sharded
from minires.train import AdamW, fit
from minires.train.loop import loss_and_gradients

B, T, VOCAB = 7, 8, 11  # 7 sequences in 4 shards: not all of one length


def model(dropout=0.0, dtype=np.float32):
    return DecoderLM(VOCAB, d=16, heads=2, blocks=2, context=T, dropout=dropout, rng=0, dtype=dtype)


def batch(seed=0, ignore=0.0):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, VOCAB, (2, B, T))
    return x, np.where(rng.random(y.shape) < ignore, -100, y)


def step(net, threads, shards=4, data=None):
    return sharded(net, threads, shards, least=1)(net, *(data or batch()), net.parameters())


def same(a, b):
    return a[0] == b[0] and all(np.array_equal(x, y) for x, y in zip(a[1], b[1], strict=True))


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_the_same_bits_for_any_number_of_threads(backend):
    with minires.backend(backend):
        one = step(model(0.2), 1)
        for threads in (2, 4, 9):
            for _ in range(3):
                assert same(one, step(model(0.2), threads)), threads


@pytest.mark.parametrize("ignore", [0.0, 0.6])
def test_it_is_the_gradient_of_the_whole_batch(ignore):
    net, data = model(dtype=np.float64), batch(3, ignore)
    data[1][0] = -100  # shards of unequal weight
    loss, gradients = step(net, 2, data=data)
    whole, expected = loss_and_gradients(net, *data, net.parameters())
    assert loss == pytest.approx(whole, rel=1e-13)
    for got, right in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-9, atol=1e-13)


def test_a_shard_without_targets_is_left_out():
    net, (x, y) = model(dtype=np.float64), batch()
    y[:1] = -100  # the whole first shard
    assert step(net, 2, data=(x, y))[0] == pytest.approx(loss_and_gradients(net, x, y, net.parameters())[0], rel=1e-13)


def test_more_shards_than_examples():
    net = model(dtype=np.float64)
    assert step(net, 2, shards=50)[0] == pytest.approx(step(net, 2, shards=1)[0], rel=1e-13)


def test_a_small_batch_stays_in_one_piece():
    """The engine's own work would cost more than the second core brings; the count depends on the batch alone."""
    net, rngs, data = model(0.1), [], batch()
    net.train()
    net.loss = lambda x, y, ctx: rngs.append(ctx.rng) or DecoderLM.loss(net, x, y, ctx)
    pieces = {}
    for least in (B * T, B * T // 2, 1):
        sharded(net, 4, least=least)(net, *data, net.parameters())
        pieces[least] = len(rngs)
        rngs.clear()
    assert pieces == {B * T: 1, B * T // 2: 2, 1: 4}


def test_vectors_and_classes():
    net = DeepMLP(5, 3, d=8, blocks=2, rng=0, dtype=np.float64)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((10, 5)), rng.integers(0, 3, 10)
    got, right = step(net, 3, data=(x, y)), loss_and_gradients(net, x, y, net.parameters())
    assert got[0] == pytest.approx(right[0], rel=1e-13)
    for a, b in zip(got[1], right[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-13)


def test_every_shard_and_every_step_drops_other_entries():
    net = model(0.5)
    net.train()
    (piece, other, *_), again = (parallel.cut(*batch(), 4, parallel.generator_of(net)) for _ in range(2))
    draws = [shard.rng.random(8).tolist() for shard in (piece, other, again[0])]
    assert len({tuple(draw) for draw in draws}) == 3
    net.eval()
    assert parallel.generator_of(net) is None


def test_training_and_resuming_with_other_threads(tmp_path):
    def run(threads, steps, **options):
        net = model(0.1)
        history = fit(
            net, lambda rng: batch(int(rng.integers(99))), AdamW(net.parameters()), steps,
            gradients=sharded(net, threads, least=1), progress=False, **options,
        )  # fmt: skip
        return history.losses, net.state_dict()

    losses, weights = run(1, 6)
    run(4, 3, checkpoint=tmp_path / "half.npz")
    resumed, after = run(2, 6, resume=tmp_path / "half.npz")
    assert resumed == losses
    assert all(np.array_equal(weights[name], after[name]) for name in weights)


@pytest.mark.parametrize("threads", [1, 4])
def test_an_error_in_a_worker_is_our_message(threads):
    net, (x, y) = model(), batch()
    y[-1, 0] = VOCAB  # in the last shard only
    with pytest.raises(ValueProblem, match="targets must be in 0 … 10") as caught:
        step(net, threads, data=(x, y))
    assert caught.value.hint
    assert np.isfinite(step(net, threads)[0])  # and the pool is as good as before
    y[:] = -100
    with pytest.raises(ValueProblem, match="at least one target that is not ignored"):
        step(net, threads, data=(x, y))


def test_the_first_error_counts_whatever_the_threads_did():
    def work(i):
        if i >= 2:
            raise ValueError(str(i))
        return i

    for _ in range(20):
        with pytest.raises(ValueError, match=r"^2$"):
            in_threads(work, range(8), 4)


@pytest.mark.parametrize("name", ["threads", "shards", "least"])
@pytest.mark.parametrize("value", [0, 1.5, True])
def test_counts(name, value):
    with pytest.raises(ValueProblem, match="whole number, at least 1"):
        sharded(model(), **{name: value})


def test_a_loss_that_is_no_mean():
    net = model()
    net.loss = lambda x, y: 3.0
    with pytest.raises(DtypeError, match="a loss must be a Tensor"):
        step(net, 2)


def test_work_really_overlaps():
    meeting = threading.Barrier(3, timeout=10)  # passes only if three threads are inside at once
    assert in_threads(lambda i: meeting.wait() >= 0, range(3), 3) == [True] * 3


def test_a_call_inside_a_call():
    expected = [sum(range(5)) + i for i in range(200)]
    assert in_threads(lambda i: sum(in_threads(int, range(5), 4)) + i, range(200), 8) == expected


def test_four_python_threads_at_once_and_blas_is_put_back():
    from threadpoolctl import threadpool_info

    before = [lib["num_threads"] for lib in threadpool_info()]
    expected = step(model(), 1)
    with ThreadPoolExecutor(4) as callers:
        found = list(callers.map(lambda _: step(model(), 2), range(12)))
    assert all(same(expected, one) for one in found)
    assert [lib["num_threads"] for lib in threadpool_info()] == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_after_a_fork():
    expected = step(model(), 4)
    child = os.fork()
    if not child:
        os._exit(0 if same(expected, step(model(), 4)) else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_no_warning_leaks_from_a_worker():
    """NumPy's error state is per context: a worker must have its caller's."""
    with np.errstate(all="raise"):
        states = in_threads(lambda i: np.geterr()["over"], range(4), 4)
    assert states == ["raise"] * 4


def test_the_command_line_option(tmp_path, capsys):
    from minires.cli import main

    sizes = {"steps": 3, "batch": 5, "length": 8, "blocks": 1, "d": 16, "heads": 2, "dropout": 0.2, "backend": "numpy"}
    small = ["train", *(word for name, value in sizes.items() for word in (f"--{name}", str(value)))]
    found = []
    for threads in (1, 3):
        assert main([*small, "--threads", str(threads), "--json", str(tmp_path / "run.json")]) == 0
        found.append(json.loads((tmp_path / "run.json").read_text())["history"]["losses"])
    assert found[0] == found[1]
    assert main([*small, "--threads", "0"]) == 2
    assert "threads must be a whole number" in capsys.readouterr().err
