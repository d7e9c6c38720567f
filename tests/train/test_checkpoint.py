"""Checkpoints: the same bits after a resume, and a whole file whatever happens."""

import io
import os
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest

from minires.messages import FileProblem, ShapeError, ValueProblem
from minires.models import DecoderLM
from minires.residual import Connection
from minires.train import SGD, AdamW, fit, load_checkpoint, save_checkpoint, schedules


@pytest.mark.parametrize("momentum", [None, 0.9])
def test_a_resumed_run_has_the_bits_of_an_uninterrupted_one(small, batches, tmp_path, momentum, equal_models):
    """Weights, optimiser memory, dropout, batches and the schedule all go on where they stopped."""

    def run(seed, rng, steps, **options):
        model, optimizer = small(seed)
        if momentum:
            optimizer = SGD(model.parameters(), lr=0.05, momentum=momentum)
        schedule = schedules.warmup_cosine(3, 20)
        return model, fit(model, batches, optimizer, steps, rng=rng, schedule=schedule, clip=1.2, **options)

    whole, history = run(0, 5, 20)
    path = tmp_path / "half.npz"
    run(0, 5, 11, checkpoint=path)
    resumed, second = run(123, 456, 20, resume=path)
    assert equal_models(whole, resumed)
    fields = ("losses", "grad_norms", "learning_rates", "clipped")
    assert all(getattr(history, f) == getattr(second, f) for f in fields) and 0 < second.clip_fraction < 1


def test_a_checkpoint_in_the_middle_of_a_run_is_as_good(small, batches, tmp_path, equal_models):
    path, model_optimizer = tmp_path / "a.npz", small()
    kept = []

    def keep(step, history):
        if step == 7:  # after the checkpoint at 6 steps
            kept.append(path.read_bytes())

    fit(model_optimizer[0], batches, model_optimizer[1], 10, rng=2, checkpoint=path, checkpoint_every=6, on_step=keep)
    path.write_bytes(kept[0])
    model, optimizer = small(9)
    assert load_checkpoint(path).step == 6
    fit(model, batches, optimizer, 10, resume=path)
    assert equal_models(model, model_optimizer[0])


def test_the_file_can_be_read_without_running_code(small, tmp_path):
    model, optimizer = small()
    save_checkpoint(tmp_path / "a.npz", model, optimizer)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as stored:
        assert all(stored[name].dtype != object for name in stored.files)
        assert "model/tokens.table" in stored.files and "optimizer/m" in stored.files


def test_a_model_is_rebuilt_from_the_file_alone(tmp_path):
    model = DecoderLM(7, d=8, heads=2, blocks=1, context=4, connection="post_norm", tied=True, dtype=np.float64, rng=5)
    save_checkpoint(tmp_path / "model", model)  # no suffix: the name stays as given
    twin = load_checkpoint(tmp_path / "model").build_model()
    ids = np.arange(4)[None]
    np.testing.assert_array_equal(twin(ids).data, model(ids).data)
    assert twin.settings == model.settings and twin.tokens.table.dtype == np.float64


def test_the_generators_of_other_kinds_survive(small, tmp_path):
    model, optimizer = small()
    rng = np.random.Generator(np.random.MT19937(3))
    rng.random(7)
    save_checkpoint(tmp_path / "a.npz", model, optimizer, generators=[rng])
    expected, other = rng.random(5), np.random.Generator(np.random.MT19937(1))
    load_checkpoint(tmp_path / "a.npz").restore(model, optimizer, [other])
    np.testing.assert_array_equal(other.random(5), expected)


class Mine(Connection):
    """A learner's own rule, without a registered name."""

    def step(self, stream, site, F):
        return stream + F(stream)


def test_a_model_with_an_object_of_its_own_is_restored_but_not_rebuilt(tmp_path, equal_models):
    model = DecoderLM(7, d=8, heads=2, blocks=1, context=4, connection=Mine)
    save_checkpoint(tmp_path / "a.npz", model)
    saved = load_checkpoint(tmp_path / "a.npz")
    with pytest.raises(ValueProblem, match="for connection"):
        saved.build_model()
    twin = DecoderLM(7, d=8, heads=2, blocks=1, context=4, connection=Mine, rng=1)
    saved.restore(twin)
    assert equal_models(twin, model)


# ------------------------------------------------------------------------------------------------ what does not fit


def test_nothing_changes_when_the_state_does_not_fit(small, tmp_path):
    model, optimizer = small()
    save_checkpoint(tmp_path / "a.npz", model, optimizer)
    wide, other = small(d=24)
    before = wide.state_dict()
    with pytest.raises(ShapeError, match="must have shape"):
        load_checkpoint(tmp_path / "a.npz").restore(wide, other)
    assert all(np.array_equal(before[name], array) for name, array in wide.state_dict().items())


def test_another_optimiser_is_refused(small, tmp_path):
    model, optimizer = small()
    save_checkpoint(tmp_path / "a.npz", model, optimizer)
    with pytest.raises(ValueProblem, match=r"was saved with AdamW; got SGD"):
        load_checkpoint(tmp_path / "a.npz").restore(model, SGD(model.parameters()))


# -------------------------------------------------------------------------------------------------- damaged files


@pytest.fixture
def stored(small, tmp_path):
    model, optimizer = small()
    save_checkpoint(tmp_path / "a.npz", model, optimizer)
    return tmp_path / "a.npz"


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_a_clear_error(stored, share):
    raw = stored.read_bytes()
    stored.write_bytes(raw[: int(share * len(raw))])
    with pytest.raises(FileProblem, match=r"whole \.npz file"):
        load_checkpoint(stored)


def test_flipped_bytes_never_load_as_something_else(stored):
    """Every member has a checksum: damage in the arrays is found when it is read."""
    raw = bytearray(stored.read_bytes())
    for place in np.random.default_rng(0).integers(0, len(raw), 40):
        damaged = bytearray(raw)
        damaged[place] ^= 0xFF
        stored.write_bytes(damaged)
        try:
            saved = load_checkpoint(stored)
        except FileProblem:
            continue
        stored.write_bytes(raw)
        whole = load_checkpoint(stored)  # the byte was padding or a date: then nothing may differ
        assert all(np.array_equal(saved.model_state[n], a) for n, a in whole.model_state.items())
        assert all(np.array_equal(saved.optimizer_state[n], a) for n, a in whole.optimizer_state.items())


def foreign_npz():
    buffer = io.BytesIO()
    np.savez(buffer, weights=np.ones(3))
    return buffer.getvalue()


def pickled_npz():
    buffer = io.BytesIO()
    np.savez(buffer, meta=np.array([{"format": "minires checkpoint"}], dtype=object))
    return buffer.getvalue()


def zip_of_text():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("meta.npy", "not an array")
    return buffer.getvalue()


@pytest.mark.parametrize(
    "raw", [b"hello", b"\x93NUMPY", foreign_npz(), pickled_npz(), zip_of_text()], ids=lambda raw: repr(raw[:6])
)
def test_foreign_files_are_refused(tmp_path, raw):
    (tmp_path / "x.npz").write_bytes(raw)
    with pytest.raises(FileProblem):
        load_checkpoint(tmp_path / "x.npz")


def test_a_later_version_is_refused_by_name(stored):
    with np.load(stored) as file:
        arrays = dict(file)
    text = arrays["meta"].tobytes().replace(b'"version": 1', b'"version": 9')
    np.savez(stored, **{**arrays, "meta": np.frombuffer(text, np.uint8)})
    with pytest.raises(FileProblem, match="version 9"):
        load_checkpoint(stored)


# ------------------------------------------------------------------------------------------------- interrupted saves


def test_a_failed_save_keeps_the_old_file_and_leaves_no_litter(stored, small, monkeypatch):
    """The disk fills up in the middle of the third array."""
    old, written = stored.read_bytes(), []
    real = np.lib.format.write_array

    def full_disk(*args, **kwargs):
        written.append(1)
        if len(written) == 3:
            raise OSError(28, "No space left on device")
        return real(*args, **kwargs)

    monkeypatch.setattr(np.lib.format, "write_array", full_disk)
    monkeypatch.setattr("numpy.lib._npyio_impl.format.write_array", full_disk, raising=False)
    with pytest.raises(FileProblem, match="disk is full"):
        save_checkpoint(stored, *small(1))
    assert stored.read_bytes() == old and os.listdir(stored.parent) == ["a.npz"]


KILLED = """
import sys, numpy as np
from minires.models import DecoderLM
from minires.train import AdamW, save_checkpoint
model = DecoderLM(50, d=192, heads=2, blocks=3, context=8)
optimizer = AdamW(model.parameters())
save_checkpoint(sys.argv[1], model, optimizer, notes={"round": 0})
print("ready", flush=True)
for number in range(1, 10_000):
    save_checkpoint(sys.argv[1], model, optimizer, notes={"round": number})
"""


def test_kill_in_the_middle_of_saving_leaves_a_whole_file(tmp_path):
    """A process that does nothing but save is killed at four random moments; the file is always whole."""
    path = tmp_path / "run.npz"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"}
    for delay in (0.013, 0.057, 0.11, 0.18):
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, env=environment)
        assert process.stdout.readline() == b"ready\n"
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        saved = load_checkpoint(path)
        assert saved.optimizer_state["m"].size == saved.build_model().count_parameters()


def test_resuming_needs_batches_that_can_be_drawn_again(stored, small):
    model, optimizer = small()
    with pytest.raises(ValueProblem, match="draw again"):
        fit(model, [(np.zeros((1, 3), int), np.zeros((1, 3), int))], optimizer, 2, resume=stored)


def test_the_optimiser_state_keeps_its_own_learning_rate_when_used_alone(small, tmp_path):
    model, optimizer = small()
    optimizer.lr = 0.123
    save_checkpoint(tmp_path / "a.npz", model, optimizer)
    twin, other = small(1)
    load_checkpoint(tmp_path / "a.npz").restore(twin, other)
    assert other.lr == 0.123 and isinstance(other, AdamW)
