"""The training loop."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from minires import ui
from minires.files import check_writable
from minires.messages import Explained, UnknownName, ValueProblem, at_edge, shown
from minires.nn import Module, Parameter
from minires.tensor import grad, no_grad
from minires.train.checkpoint import load_checkpoint, save_checkpoint
from minires.train.checks import check_batch, check_loss, diverged
from minires.train.clipping import check_max_norm, global_norm, scale_down
from minires.train.history import History
from minires.train.optimizers import Optimizer
from minires.train.schedules import Schedule, constant

Pair = tuple[Any, Any]
Batches = Callable[[np.random.Generator], Pair] | Iterable[Pair]


def loss_and_gradients(
    model: Any, inputs: np.ndarray, targets: np.ndarray, parameters: Sequence[Parameter]
) -> tuple[float, list[np.ndarray]]:
    """model.loss(inputs, targets) and its gradient by each parameter: the whole forward and backward pass."""
    loss = check_loss(model.loss(inputs, targets))
    return loss.item(), grad(loss, parameters)


def mean_loss(batches: Iterable[Pair]) -> Callable[[Any], float]:
    """An evaluation for `fit`: the model's loss averaged over fixed batches, equally weighted."""
    batches = list(batches)
    if not batches:
        raise ValueProblem("an evaluation needs at least one batch", "none", "[corpus.batch(rng, 16, 64, 'val')], say.")
    return lambda model: float(np.mean([model.loss(x, y).item() for x, y in batches]))


def evaluated(model: Any, evaluate: Callable[[Any], float]) -> float:
    """evaluate(model) in eval mode and without a graph; the mode is put back."""
    training = model.training
    model.eval()
    try:
        with no_grad():
            return float(evaluate(model))
    finally:
        model.train(training)


def fit(model: Any, batches: Batches, optimizer: Optimizer, steps: int, **options: Any) -> History:
    """Train `model` for `steps` steps in all and return the History.

    batches: a function of a numpy Generator that returns (inputs, targets), called once per step; or something to
    iterate over that yields such pairs (then the run cannot be resumed). Options are the fields of `Trainer`:

    rng: Generator or seed for `batches`. schedule: step → factor on the optimiser's lr. clip: largest global gradient
    norm, None for no clipping (the norm is recorded either way). evaluate(model) → number, every `evaluate_every`
    steps and at the end; on_step(step, history) after each step. progress: show it. checkpoint: a file, written every
    `checkpoint_every` steps, at the end, and at Ctrl-C, which ends the run after the current step.
    resume: a checkpoint to go on from; with the same arguments the run ends with the same bits as one without a stop.
    notes: JSON data kept in the checkpoint.

    Raises ValueProblem, ShapeError or DtypeError for an empty batch, NaN or a loss that diverged, naming the step, and
    FileProblem for files.
    """
    try:
        check_options(options)
        return Trainer(model, batches, optimizer, steps, **options).run()
    except Explained as error:
        raise at_edge(error) from None


@dataclass
class Trainer:
    """One training run; see `fit`."""

    model: Any
    batches: Batches
    optimizer: Optimizer
    steps: int
    rng: Any = 0
    schedule: Schedule | None = None
    clip: float | None = None
    evaluate: Callable[[Any], float] | None = None
    evaluate_every: int | None = None
    on_step: Callable[[int, History], None] | None = None
    progress: bool = True
    checkpoint: str | os.PathLike | None = None
    checkpoint_every: int = 200
    resume: str | os.PathLike | None = None
    notes: Mapping[str, Any] | None = None
    gradients: Callable = loss_and_gradients
    history: History = field(default_factory=History, init=False)

    def __post_init__(self) -> None:
        for name in ("steps", "checkpoint_every", "evaluate_every"):
            check_steps(name, getattr(self, name))
        check_max_norm(self.clip)
        self.rng = np.random.default_rng(self.rng)
        self.factor = self.schedule or constant()
        self.base_lr = self.optimizer.lr
        self.pairs = None if callable(self.batches) else iter(self.batches)

    def run(self) -> History:
        """All steps that are left, then the last evaluation and checkpoint."""
        self.begin()
        started, before = time.monotonic(), self.history.seconds
        try:
            with one_blas_thread(), asked_to_stop() as stop, self.bar() as bar:
                while self.history.steps < self.steps and not stop:
                    self.one_step()
                    self.history.seconds = before + time.monotonic() - started
                    self.afterwards()
                    bar.advance(note=self.note())
                self.history.interrupted = bool(stop)
            self.finish()
        finally:
            self.optimizer.lr = self.base_lr
        return self.history

    def begin(self) -> None:
        """Look for trouble before hours are spent, take over a checkpoint if there is one, and go into train mode."""
        check_same_parameters(self.model, self.optimizer)
        if self.checkpoint is not None:
            check_writable(self.checkpoint)
        if self.resume is not None:
            if self.pairs is not None:
                hint = "Give batches as a function: batches=lambda rng: corpus.batch(rng, 16, 64)."
                raise ValueProblem("a resumed run needs batches it can draw again", shown(self.batches), hint)
            saved = load_checkpoint(self.resume)
            saved.restore(self.model, self.optimizer, [self.rng])
            self.history = saved.history
        self.model.train()

    def one_step(self) -> None:
        """Forward, backward, clip, update."""
        step, history = self.history.steps, self.history
        self.optimizer.lr = lr = self.base_lr * self.factor(step)
        x, y = check_batch(self.next_batch(), step, self.optimizer.flat.dtype)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # what these lead to is checked below
            loss, gradients = self.gradients(self.model, x, y, self.optimizer.parameters)
            norm = global_norm(gradients)
        for what, value in (("loss", loss), ("gradient norm", norm)):
            if not math.isfinite(value):
                raise diverged(what, value, history, lr)
        clipped = scale_down(gradients, norm, self.clip)
        self.optimizer.step(gradients)
        history.record(loss, norm, lr, clipped)

    def next_batch(self) -> Pair:
        if self.pairs is None:
            return self.batches(self.rng)  # type: ignore[operator]
        try:
            return next(self.pairs)
        except StopIteration:
            hint = "Use itertools.cycle, a function of rng, or as many steps as there are batches."
            given = f"an end after {self.history.steps} of {self.steps} steps"
            raise ValueProblem("there must be a batch for every step", given, hint) from None

    def afterwards(self) -> None:
        """Evaluation, the caller's function, checkpoint: what happens between two steps."""
        done = self.history.steps
        if self.evaluate_every and done % self.evaluate_every == 0 and done < self.steps:
            self.evaluation()
        if self.on_step is not None:
            self.on_step(done - 1, self.history)
        if self.checkpoint is not None and done % self.checkpoint_every == 0 and done < self.steps:
            self.save()

    def finish(self) -> None:
        if not self.history.interrupted:
            self.evaluation()
        if self.checkpoint is not None:
            self.save()
        if self.history.interrupted:
            where = f", saved in {os.fspath(self.checkpoint)}" if self.checkpoint is not None else ""
            print(f"stopped after {self.history.steps} of {self.steps} steps{where}", file=sys.stderr)

    def evaluation(self) -> None:
        already = self.history.evaluations and self.history.evaluations[-1][0] == self.history.steps
        if self.evaluate is not None and not already:
            self.history.evaluations.append([self.history.steps, evaluated(self.model, self.evaluate)])

    def save(self) -> None:
        save_checkpoint(
            self.checkpoint,  # type: ignore[arg-type]
            self.model,
            self.optimizer,
            history=self.history,
            generators=[self.rng],
            notes=self.notes,
        )

    def bar(self) -> ui.Progress:
        return ui.progress(self.steps - self.history.steps, "training", enabled=self.progress)

    def note(self) -> str:
        last = f", evaluation {self.history.evaluations[-1][1]:.3f}" if self.history.evaluations else ""
        return f"loss {self.history.losses[-1]:.3f}{last}"


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """NumPy's matrix products in one thread each: the same bits on every run, and no two thread pools that spin.

    At the sizes of the lessons it is also the fastest; on busy cores several threads can be many times slower.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        yield


@contextmanager
def asked_to_stop() -> Iterator[list[int]]:
    """A list that is filled at the first Ctrl-C, so that the loop ends between two steps; the second one is as usual.

    Only the main thread can be interrupted; elsewhere the list stays empty.
    """
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = signal.getsignal(signal.SIGINT) or signal.default_int_handler

    def remember(number: int, frame: object) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, remember)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def check_options(options: Mapping[str, Any]) -> None:
    """Only what a Trainer knows. Raises UnknownName."""
    known = [f.name for f in fields(Trainer) if f.init][4:]
    for name in options:
        if name not in known:
            raise UnknownName("option of fit", name, known)


def check_same_parameters(model: Module, optimizer: Optimizer) -> None:
    """Other parameters would get gradients of 0 and nothing would be learned."""
    own = {id(p) for p in model.parameters()}
    foreign = sum(id(p) not in own for p in optimizer.parameters)
    if foreign:
        hint = "Make the optimiser after the model: AdamW(model.parameters()). A deepcopy has parameters of its own."
        given = f"{foreign} of {len(optimizer.parameters)} that are not"
        raise ValueProblem("an optimiser's parameters must be the model's", given, hint)


def check_steps(name: str, value: Any) -> None:
    """A whole number, at least 1; `evaluate_every` may be None."""
    if value is None and name == "evaluate_every":
        return
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise ValueProblem(f"{name} must be a whole number, at least 1", shown(value), "It counts optimiser steps.")
