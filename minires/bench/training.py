"""Training steps of the decoder language model: forward, backward and AdamW, beside PyTorch and JAX.

All begin with the same weights and take the same steps on the same batches in turn, so that the loss curves can be
compared as well.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from minires.bench.step_jax import jax_steps
from minires.bench.step_ours import Size, Step, batches, build, our_step
from minires.bench.step_torch import torch_steps
from minires.bench.timing import Times, side_by_side
from minires.data import CharCorpus, hamlet
from minires.kernels.matmul import matmul_simd
from minires.memory import minor_faults
from minires.models import DecoderLM
from minires.parallel import in_threads, sharded

STEPS, QUICK_STEPS = 50, 8
WARM = 3  # steps that are not timed
LIMIT = 12.5  # seconds for one size on two threads: on a busy machine there are fewer steps then
REST = 0.02  # seconds between two steps on two threads: PyTorch's threads spin for a while after theirs

SIZES = (Size(8, 32, 32, 2, 4), Size(16, 64, 64, 4, 4), Size(16, 64, 64, 12, 4), Size(16, 128, 128, 6, 4),
         Size(8, 256, 256, 6, 8))  # fmt: skip


def training(quick: bool) -> list[dict[str, Any]]:
    """A row per size, one thread each. All steps are taken however long they last, to compare whole loss curves."""
    corpus, steps = CharCorpus(hamlet()), QUICK_STEPS if quick else STEPS
    return [one_thread(size, corpus, steps) for size in SIZES[: 3 if quick else None]]


def one_thread(size: Size, corpus: CharCorpus, steps: int) -> dict[str, Any]:
    """Time of a step, and how far the loss curves are apart."""
    model = build(size, corpus)
    taken = {"minires": our_step(model), **torch_steps(model, size), **jax_steps(model, size)}
    times, losses = in_turns(taken, batches(size, corpus, steps))
    faults, (x, y) = minor_faults(), next(iter(batches(size, corpus, 1)))
    taken["minires"](x, y)
    row = {**described(size, model, times), "page faults": minor_faults() - faults}
    return row | {"steps": steps, "last loss": losses["minires"][-1]} | apart(losses)


def apart(losses: dict[str, list[float]]) -> dict[str, float]:
    """The largest difference of each other loss curve from ours at any step, relative to the loss."""
    ours = np.array(losses["minires"])
    others = {name: np.array(theirs) for name, theirs in losses.items() if name != "minires"}
    return {f"{name}'s loss off by": float(np.max(np.abs(theirs / ours - 1))) for name, theirs in others.items()}


def described(size: Size, model: DecoderLM, times: Times) -> dict[str, Any]:
    """Time, rate of operations (6 for each weight of a product and token, and attention's) and the others' ratios."""
    tables = model.tokens.table.size + model.positions.size
    tokens = size.batch * size.length
    flops = 6 * tokens * (model.count_parameters() - tables + size.layers * size.length * size.d)
    seconds = times.median("minires")
    return {
        "work": "training step", "size": str(tuple(size)), "parameters": model.count_parameters(), "ms": seconds * 1e3,
        "GFLOP/s": flops / seconds * 1e-9, **times.ratios("minires"),
    }  # fmt: skip


def threads(quick: bool) -> list[dict[str, Any]]:
    """The same on two threads each, with single threads beside it; first, what a second thread can bring."""
    corpus, steps = CharCorpus(hamlet()), QUICK_STEPS if quick else STEPS // 3
    rows = [two_threads(size, corpus, steps) for size in (SIZES[1:2] if quick else SIZES[1:])]
    with busy_machine():
        rows += [disturbed(size, corpus, steps) for size in (SIZES[:1] if quick else SIZES[:4])]
    return [second_core(quick), *rows]


def second_core(quick: bool) -> dict[str, Any]:
    """Two products, one after the other and at once: 2 on two free cores, 1 where others keep the second one busy."""
    a = np.ones((256, 256), np.float32)

    def multiply(_: Any = None) -> None:
        for _ in range(10):
            matmul_simd(a, a)

    works = {"minires": lambda: in_threads(multiply, (0, 1), 2), "one thread": lambda: (multiply(), multiply())}
    times = side_by_side(works, 0.2 if quick else 2.0)
    return {"work": "two products at once", "ms": times.median("minires") * 1e3, **times.ratios("minires")}


@contextmanager
def busy_machine(processes: int = 2) -> Iterator[None]:
    """Other programs that compute all the time, as many as the cores that this package would like to have."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def disturbed(size: Size, corpus: CharCorpus, steps: int) -> dict[str, Any]:
    """Two threads beside one while others want the cores too: a thread that waits for its share must not cost much."""
    models = [build(size, corpus) for _ in range(2)]
    taken = {"minires": our_step(models[0], sharded(models[0], threads=2)), "one thread": our_step(models[1])}
    times, _ = in_turns(taken, batches(size, corpus, max(steps, QUICK_STEPS)), limit=LIMIT)
    return {**described(size, models[0], times), "work": "beside two busy programs"}


def two_threads(size: Size, corpus: CharCorpus, steps: int) -> dict[str, Any]:
    """Models with the same weights: shards on two threads, one thread, PyTorch on two and on one, JAX on two."""
    models = [build(size, corpus) for _ in range(2)]
    taken = {"minires": our_step(models[0], sharded(models[0], threads=2)), "one thread": our_step(models[1])}
    taken |= torch_steps(models[0], size, 2)
    taken |= {f"{name}, one thread": step for name, step in torch_steps(models[0], size, 1).items()}
    taken |= jax_steps(models[0], size, 2)
    times, _ = in_turns(taken, batches(size, corpus, steps), REST, LIMIT)
    return {**described(size, models[0], times), "work": "training step, 2 threads"}


def in_turns(
    taken: dict[str, Step], pairs: list, rest: float = 0.0, limit: float = float("inf")
) -> tuple[Times, dict[str, list[float]]]:
    """Every contestant takes every step. Seconds of the steps after the first `WARM`, and all losses.

    rest: seconds of sleep before each. limit: seconds after which no more turns begin, but for the first few.
    """
    end = time.perf_counter() + limit
    times, losses, names = Times({name: [] for name in taken}), {name: [] for name in taken}, list(taken)
    for turn, (x, y) in enumerate(pairs):
        if turn > WARM and time.perf_counter() > end:
            break
        for name in names if turn % 2 else reversed(names):
            time.sleep(rest)
            began = time.perf_counter()
            losses[name].append(taken[name](x, y))
            times[name].append(time.perf_counter() - began)
    return Times({name: values[min(WARM, len(pairs) - 1) :] for name, values in times.items()}), losses
