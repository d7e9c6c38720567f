"""The loop: it learns, it is deterministic, it records what happened, and it ends cleanly."""

import gc
import os
import signal
import threading
import tracemalloc

import numpy as np
import pytest

from minires import Tensor
from minires.messages import ValueProblem
from minires.models import DeepMLP
from minires.nn import Module, Parameter
from minires.train import SGD, AdamW, evaluated, fit, load_checkpoint, loss_and_gradients, mean_loss, schedules


class Line(Module):
    """y = w x, loss (y - target)²: small enough to follow by hand."""

    def __init__(self, w=0.0):
        self.w = Parameter(np.array([w]))

    def loss(self, x, target):
        error = self.w * Tensor(x) - Tensor(target)
        return (error * error).mean()


ONE = (np.array([2.0]), np.array([6.0]))


def test_two_steps_by_hand():
    """w = 0: loss 36, gradient -24; after SGD with lr 1/16, w = 1.5: loss 9, gradient -12; then w = 2.25."""
    model = Line()
    h = fit(model, lambda rng: ONE, SGD(model.parameters(), lr=1 / 16), 2)
    assert (h.losses, h.grad_norms, model.w.data.tolist()) == ([36.0, 9.0], [24.0, 12.0], [2.25])
    assert h.learning_rates == [1 / 16] * 2 and h.clipped == [False, False]


def test_clipping_and_schedule_enter_the_step():
    model = Line()
    h = fit(model, lambda rng: ONE, SGD(model.parameters(), lr=0.5), 2, clip=1.0, schedule=lambda step: 1 / (step + 1))
    assert model.w.data.tolist() == [0.75] and h.clip_fraction == 1.0 and h.learning_rates == [0.5, 0.25]


def test_the_optimiser_gets_its_learning_rate_back():
    model = Line()
    optimizer = SGD(model.parameters(), lr=0.5)
    fit(model, lambda rng: ONE, optimizer, 3, schedule=schedules.warmup_cosine(1, 3), clip=0.1)
    assert optimizer.lr == 0.5


def test_loss_and_gradients_is_the_pass_and_touches_no_grad():
    model = Line(1.0)
    loss, (g,) = loss_and_gradients(model, *ONE, model.parameters())
    assert loss == 16.0 and g.tolist() == [-16.0] and model.w.grad is None


def test_it_learns_and_the_same_seed_gives_the_same_curve(small, batches, corpus):
    curves = []
    for _ in range(2):
        model, optimizer = small(seed=3)
        curves.append(fit(model, batches, optimizer, 60, rng=7, clip=1.0).losses)
    assert curves[0] == curves[1]
    assert np.mean(curves[0][-5:]) < np.mean(curves[0][:5]) - 0.5
    model, optimizer = small(seed=4)
    assert fit(model, batches, optimizer, 3, rng=7).losses != curves[0][:3]


def test_progress_and_evaluation_do_not_change_the_run(small, batches, corpus, equal_models):
    plain, optimizer = small()
    fit(plain, batches, optimizer, 8, progress=False)
    watched, optimizer = small()
    val = mean_loss([corpus.batch(np.random.default_rng(0), 4, 12, "val")])
    h = fit(watched, batches, optimizer, 8, evaluate=val, evaluate_every=3, on_step=lambda step, history: None)
    assert equal_models(plain, watched)
    assert [step for step, _ in h.evaluations] == [3, 6, 8]


def test_evaluation_is_without_dropout_and_graph_and_puts_the_mode_back(small):
    model, _ = small()
    seen = []
    assert evaluated(model, lambda m: seen.append((m.training, m(np.zeros((1, 3), int)).requires_grad)) or 1.0) == 1.0
    assert seen == [(False, False)] and model.training
    model.eval()
    with pytest.raises(RuntimeError):
        evaluated(model, lambda m: (_ for _ in ()).throw(RuntimeError()))
    assert not model.training


def test_on_step_sees_every_step_with_its_record():
    model, seen = Line(), []
    fit(model, lambda rng: ONE, SGD(model.parameters()), 4, on_step=lambda step, h: seen.append((step, len(h.losses))))
    assert seen == [(0, 1), (1, 2), (2, 3), (3, 4)]


def test_pairs_to_iterate_over_are_used_in_their_order():
    model = Line()
    pairs = [(np.array([x]), np.array([1.0])) for x in (1.0, 2.0)]
    assert fit(model, pairs, SGD(model.parameters(), lr=0.0), 2).losses == [1.0, 1.0]
    with pytest.raises(ValueProblem, match="an end after 2 of 3 steps"):
        fit(model, pairs, SGD(model.parameters(), lr=0.0), 3)


def test_a_classifier_on_features_trains_too():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 5)).astype(np.float32)
    y = (x[:, 0] > 0).astype(int)
    model = DeepMLP(5, 2, d=16, blocks=3)
    h = fit(model, lambda rng: (x, y), AdamW(model.parameters(), lr=1e-2), 40)
    assert h.losses[-1] < 0.1 < h.losses[0]


def test_a_diverging_run_stops_before_it_spoils_the_weights():
    model = Line()
    with pytest.raises(
        ValueProblem, match=r"the (loss|gradient norm) must stay finite; got (inf|nan) at step \d+"
    ) as caught:
        fit(model, lambda rng: ONE, SGD(model.parameters(), lr=1e30), 50)
    assert "clip" in caught.value.hint and "loss before" in caught.value.given
    assert np.isfinite(model.w.data).all()


def test_a_spike_is_in_the_history():
    """One batch of 300 is 100 times as steep as the others."""
    model = Line(3.0)
    rng = np.random.default_rng(0)
    pairs = [(np.array([2.0]), np.array([6.0 + 0.01 * rng.standard_normal()])) for _ in range(120)]
    pairs[90] = (np.array([2.0]), np.array([600.0]))
    assert 90 in fit(model, pairs, SGD(model.parameters(), lr=1e-6), 120).spikes


def test_matrix_products_run_in_one_thread_while_training():
    from threadpoolctl import threadpool_info, threadpool_limits

    def threads():
        return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}

    model, during = Line(), []
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        fit(model, lambda rng: ONE, SGD(model.parameters()), 1, on_step=lambda step, h: during.append(threads()))
        assert during == [{1}] and threads() == before


# --------------------------------------------------------------------------------------------------------- Ctrl-C


def test_ctrl_c_ends_after_the_step_and_saves(small, batches, tmp_path, capsys, equal_models):
    def press(step, history):
        if step == 4:
            os.kill(os.getpid(), signal.SIGINT)

    path = tmp_path / "run.npz"
    model, optimizer = small()
    before = signal.getsignal(signal.SIGINT)
    h = fit(model, batches, optimizer, 50, rng=1, on_step=press, checkpoint=path)
    assert h.interrupted and h.steps == 5 and signal.getsignal(signal.SIGINT) is before
    assert "stopped after 5 of 50 steps" in capsys.readouterr().err
    resumed, other = small(seed=99)
    h = fit(resumed, batches, other, 12, rng=55, resume=path)
    straight, third = small()
    whole = fit(straight, batches, third, 12, rng=1)
    assert h.losses == whole.losses and not h.interrupted and equal_models(resumed, straight)


def test_a_second_ctrl_c_is_an_ordinary_one(small, batches, tmp_path):
    """The learner is in a hurry: the exception comes at once, and no half-done state is written."""

    def press(step, history):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    model, optimizer = small()
    with pytest.raises(KeyboardInterrupt):
        fit(model, batches, optimizer, 5, on_step=press, checkpoint=tmp_path / "run.npz")
    assert not list(tmp_path.iterdir()) and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_training_in_a_thread_leaves_signals_alone(small, batches):
    model, optimizer = small()
    result = []
    thread = threading.Thread(target=lambda: result.append(fit(model, batches, optimizer, 2)))
    thread.start()
    thread.join()
    assert result[0].steps == 2


# --------------------------------------------------------------------------------------------------------- memory


def test_two_hundred_steps_without_the_garbage_collector_keep_memory_flat(small, batches):
    """Nothing in a step may form a cycle: with the collector off, memory must not drift by 1 MB."""
    model, optimizer = small()
    fit(model, batches, optimizer, 20)
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        fit(model, batches, optimizer, 200)
        drift = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        gc.enable()
    assert abs(drift) < 1e6


def test_the_checkpoint_at_the_end_is_the_model(small, batches, tmp_path, equal_models):
    model, optimizer = small()
    fit(model, batches, optimizer, 6, checkpoint=tmp_path / "a.npz", checkpoint_every=4, notes={"vocab": "abc"})
    saved = load_checkpoint(tmp_path / "a.npz")
    assert saved.step == 6 and saved.notes == {"vocab": "abc"} and equal_models(saved.build_model(), model)
