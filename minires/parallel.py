"""Several cores for one training step: the batch is cut into shards, and Python threads compute their gradients.

Kernels and NumPy's products let go of the interpreter lock, so that threads run at once; each product stays on one
core, because two pools of threads that wait for each other cost far more than they give. What a step returns depends
on the number of shards and not on the number of threads: each shard is computed whole by one thread, and the results
are added in the order of the shards. So a run has the same bits on any machine's number of cores.

    fit(model, batches, optimizer, steps, gradients=sharded(model, threads=2))

`minires bench --only threads` measures what a second thread brings here.
"""

from __future__ import annotations

import contextvars
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from minires.messages import Explained, ValueProblem, at_edge, shown
from minires.nn import Context, Dropout, Module, Parameter
from minires.ops.cross_entropy import IGNORE
from minires.tensor import grad

SHARDS = 4  # at most; fewer would leave a core of four idle
LEAST = 512  # targets per shard: in smaller ones the engine's own work, once per shard, costs more than a core brings
Gradients = tuple[float, list[np.ndarray]]


class Shard(NamedTuple):
    """A piece of a batch. weight: its share of the targets that count; rng: its own random numbers, for dropout."""

    inputs: np.ndarray
    targets: np.ndarray
    weight: float
    rng: np.random.Generator | None


def sharded(
    model: Module, threads: int | None = None, shards: int = SHARDS, least: int = LEAST
) -> Callable[..., Gradients]:
    """A function for `fit(gradients=…)`: the loss and the gradients of `model`, from a few pieces of each batch.

    L = Σ_s w_s L_s and ∂L/∂θ = Σ_s w_s ∂L_s/∂θ, where L_s is the mean loss of piece s and w_s its share of the targets
    that are not ignored (-100). That is the mean loss of the whole batch, but for a model that adds something else
    to it, as a mixture of experts does with its balance: that is then balanced within each piece.

    threads: how many work at once, all cores if None. The result has the same bits for any number.
    shards, least: at most so many pieces, of at least so many targets; both change the last digits, and the random
    numbers of dropout. The function may be called from several threads, after a fork, and inside another such call.

    Raises ValueProblem for counts below 1. An error inside a piece is raised as if the whole batch had caused it.
    """
    threads = usable_cores() if threads is None else count("threads", threads)
    for name, value in (("shards", shards), ("least", least)):
        count(name, value)

    def loss_and_gradients(
        model: Any, inputs: np.ndarray, targets: np.ndarray, parameters: Sequence[Parameter]
    ) -> Gradients:
        pieces = cut(inputs, targets, min(shards, max(1, targets.size // least)), generator_of(model))
        with one_blas_thread():
            return total(in_threads(lambda piece: one_shard(model, piece, parameters), pieces, threads))

    return loss_and_gradients


def one_shard(model: Any, shard: Shard, parameters: Sequence[Parameter]) -> Gradients:
    """One piece's part of the loss and of the gradients: both already times its weight."""
    from minires.train.checks import check_loss

    context = () if shard.rng is None else (Context(rng=shard.rng),)
    loss = check_loss(model.loss(shard.inputs, shard.targets, *context))
    return loss.item() * shard.weight, grad(loss * shard.weight, parameters)


def total(parts: Sequence[Gradients]) -> Gradients:
    """The sums over the pieces, in their order. Writes into the first one's arrays."""
    (loss, gradients), *others = parts
    for more, arrays in others:
        loss += more
        for into, array in zip(gradients, arrays):
            np.add(into, array, out=into)
    return loss, gradients


# ------------------------------------------------------------------------------------------------- the pieces


def cut(inputs: np.ndarray, targets: np.ndarray, shards: int, rng: np.random.Generator | None) -> list[Shard]:
    """The batch in at most `shards` pieces of equal length, or nearly; those without a target that counts are left out.

    One draw from `rng` per batch seeds the pieces, so that a run that is resumed goes on with the same numbers.
    """
    ends = [len(inputs) * i // min(shards, len(inputs)) for i in range(min(shards, len(inputs)) + 1)]
    pieces = [(inputs[i:j], targets[i:j]) for i, j in itertools.pairwise(ends)]
    counts = [counted(y) for _, y in pieces]
    if not sum(counts):
        return [Shard(inputs, targets, 1.0, rng)]  # the loss itself knows best what to say about this batch
    weights = [n / sum(counts) for n in counts]
    return [Shard(*piece, w, own) for piece, w, own in zip(pieces, weights, children(rng, len(pieces))) if w]


def children(rng: np.random.Generator | None, number: int) -> list[np.random.Generator | None]:
    """Independent generators from one draw of `rng`; Nones without one."""
    if rng is None:
        return [None] * number
    return [np.random.default_rng(seed) for seed in np.random.SeedSequence(int(rng.integers(2**63))).spawn(number)]


def counted(targets: np.ndarray) -> int:
    """How many targets a mean loss counts: class ids but for the ignored ones, or all numbers of a regression."""
    return int(np.count_nonzero(targets != IGNORE)) if targets.dtype.kind in "iu" else targets.size


def generator_of(model: Module) -> np.random.Generator | None:
    """The random numbers that dropout would use; None for a model that drops nothing now."""
    active = (m.rng for m in model.modules() if isinstance(m, Dropout) and m.p and m.training)
    return next(active, None)


# ------------------------------------------------------------------------------------------------ the threads


def in_threads(work: Callable[[Any], Any], items: Sequence[Any], threads: int) -> list[Any]:
    """[work(item) for item in items], by this thread and `threads - 1` others. The first item's error is raised.

    Each thread takes the next item when it is free, so that a core that others keep busy does less. This thread works
    too, and cancels helpers that have not begun when nothing is left: so a call inside a call cannot wait for ever.
    """
    results: list[Any] = [None] * len(items)
    errors: dict[int, BaseException] = {}
    places = iter(range(len(items)))  # `next` on it is one step of the interpreter: no two threads get the same place

    def take() -> None:
        for i in places:
            try:
                results[i] = work(items[i])
            except Exception as error:
                errors[i] = error

    helpers = [pool().submit(contextvars.copy_context().run, take) for _ in range(min(threads, len(items)) - 1)]
    take()
    for helper in helpers:
        if not helper.cancel():
            helper.result()
    if errors:
        first = errors[min(errors)]
        raise at_edge(first) if isinstance(first, Explained) else first
    return results


class _Shared:
    """What all calls of one process share: the pool of threads, and who has limited BLAS to one thread."""

    def __init__(self) -> None:
        self.lock, self.inside = threading.Lock(), 0
        self.limit: Any = None
        self.controller: Any = None
        self.pool: ThreadPoolExecutor | None = None


_shared = _Shared()


def pool() -> ThreadPoolExecutor:
    """The threads that help, made when they are first needed; idle ones are used again."""
    with _shared.lock:
        _shared.pool = _shared.pool or ThreadPoolExecutor(64, thread_name_prefix="minires-shard")
        return _shared.pool


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """NumPy's products on one thread each until the last of all callers has left. The limit holds for the process."""
    shared = _shared
    with shared.lock:
        shared.inside += 1
        if shared.inside == 1:
            shared.limit = _controller(shared).limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with shared.lock:
            shared.inside -= 1
            if not shared.inside:
                shared.limit.restore_original_limits()


def _controller(shared: _Shared) -> Any:
    """threadpoolctl's view of the loaded libraries. To look for them takes milliseconds, so it is kept."""
    if shared.controller is None:
        from threadpoolctl import ThreadpoolController

        shared.controller = ThreadpoolController()
    return shared.controller


def _start_anew() -> None:
    """A forked child has one thread only; locks and pools of its parent's others would never answer."""
    global _shared
    _shared = _Shared()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


def usable_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count(name: str, value: Any) -> int:
    """A whole number, at least 1. Raises ValueProblem."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        hint = "2 or 4 threads are usual, and 4 shards of at least 512 targets."
        raise ValueProblem(f"{name} must be a whole number, at least 1", shown(value), hint)
    return int(value)
