"""Training steps of the decoder language model: forward, backward and AdamW, beside PyTorch with the same weights.

Both sides take the same step on the same batch in turn, so that the two loss curves can be compared as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from minires.bench.peers import torch_or_none, torch_threads
from minires.bench.timing import Times, side_by_side
from minires.data import CharCorpus, hamlet
from minires.kernels.matmul import matmul_simd
from minires.memory import minor_faults
from minires.models import DecoderLM
from minires.parallel import in_threads, sharded
from minires.train import AdamW
from minires.train.loop import loss_and_gradients

LR, DECAY = 1e-3, 0.01
STEPS, QUICK_STEPS = 50, 8
WARM = 3  # steps that are not timed
LIMIT = 25.0  # seconds for one size: on a busy machine there are fewer steps then
REST = 0.02  # seconds between two steps on two threads: PyTorch's threads spin for a while after theirs


class Size(NamedTuple):
    """(batch, T, d, layers, heads) of a model and its batch."""

    batch: int
    length: int
    d: int
    layers: int
    heads: int


SIZES = (Size(8, 32, 32, 2, 4), Size(16, 64, 64, 4, 4), Size(16, 64, 64, 12, 4), Size(16, 128, 128, 6, 4),
         Size(8, 256, 256, 6, 8))  # fmt: skip
Step = Callable[[np.ndarray, np.ndarray], float]


def training(quick: bool) -> list[dict[str, Any]]:
    """A row per size, one thread each."""
    corpus, steps = CharCorpus(hamlet()), QUICK_STEPS if quick else STEPS
    return [one_thread(size, corpus, steps) for size in SIZES[: 3 if quick else None]]


def one_thread(size: Size, corpus: CharCorpus, steps: int) -> dict[str, Any]:
    """Time of a step, and how far the two loss curves are apart, relative to the loss."""
    model = build(size, corpus)
    taken = {"minires": our_step(model), **torch_steps(model, size)}
    times, losses = in_turns(taken, batches(size, corpus, steps), limit=LIMIT)
    faults, (x, y) = minor_faults(), next(iter(batches(size, corpus, 1)))
    taken["minires"](x, y)
    row = described(size, model, times)
    row["page faults"] = minor_faults() - faults
    if "PyTorch" in losses:
        ours, theirs = np.array(losses["minires"]), np.array(losses["PyTorch"])
        apart = float(np.max(np.abs(ours / theirs - 1)))
        row |= {"steps": len(ours), "last loss": float(ours[-1]), "loss differs by": apart}
    return row


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
    """The same on two threads each, with both single threads beside it; first, what a second thread can bring."""
    corpus, steps = CharCorpus(hamlet()), QUICK_STEPS if quick else STEPS // 3
    rows = [two_threads(size, corpus, steps) for size in (SIZES[1:2] if quick else SIZES[1:])]
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


def two_threads(size: Size, corpus: CharCorpus, steps: int) -> dict[str, Any]:
    """Models with the same weights: shards on two threads, one thread, PyTorch on two and on one."""
    models = [build(size, corpus) for _ in range(2)]
    taken = {"minires": our_step(models[0], sharded(models[0], threads=2)), "one thread": our_step(models[1])}
    taken |= torch_steps(models[0], size, 2)
    taken |= {f"{name}, one thread": step for name, step in torch_steps(models[0], size, 1).items()}
    times, _ = in_turns(taken, batches(size, corpus, steps), REST, LIMIT / 2)
    return {**described(size, models[0], times), "work": "training step, 2 threads"}


def build(size: Size, corpus: CharCorpus) -> DecoderLM:
    return DecoderLM(len(corpus.vocab), size.d, size.heads, size.layers, size.length, rng=0)


def batches(size: Size, corpus: CharCorpus, steps: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The same batches for every contestant."""
    rng = np.random.default_rng(1)
    return [corpus.batch(rng, size.batch, size.length) for _ in range(steps)]


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


def our_step(model: DecoderLM, gradients: Callable = loss_and_gradients) -> Step:
    """One step through the ordinary engine."""
    optimizer = AdamW(model.parameters(), lr=LR, weight_decay=DECAY)

    def step(x: np.ndarray, y: np.ndarray) -> float:
        loss, found = gradients(model, x, y, optimizer.parameters)
        optimizer.step(found)
        return loss

    return step


# --------------------------------------------------------------------------------------------- the same in PyTorch


def torch_steps(model: DecoderLM, size: Size, threads: int = 1) -> dict[str, Step]:
    """{"PyTorch": a step of its eager mode on a copy of the model}, or nothing where it is not installed."""
    torch = torch_or_none()
    if torch is None:
        return {}
    forward, parameters = torch_model(torch, model, size)
    decaying = [p for p, ours in zip(parameters, model.parameters()) if ours.decays]
    others = [p for p, ours in zip(parameters, model.parameters()) if not ours.decays]
    groups = [{"params": decaying, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, LR, foreach=True)

    def step(x: np.ndarray, y: np.ndarray) -> float:
        with torch_threads(threads):
            return one(x, y)

    def one(x: np.ndarray, y: np.ndarray) -> float:
        logits = forward(torch.from_numpy(x)).flatten(0, 1)  # (B T, vocab)
        loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(y).flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return {"PyTorch": step}


def torch_model(torch: Any, model: DecoderLM, size: Size) -> tuple[Callable, list]:
    """The Pre-Norm decoder as functions of PyTorch on copies of our parameters, which it takes by our names."""
    f = torch.nn.functional
    # A linear layer of PyTorch holds its weight as (out, in): copied that way, both sides have their own layout.
    own = {name: torch.from_numpy(p.data.T.copy() if p.kind == "weight" else p.data.copy()).requires_grad_()
           for name, p in model.named_parameters()}  # fmt: skip

    def norm(x: Any, place: str) -> Any:
        at = f"stack.connection.{place}"
        return f.layer_norm(x, (size.d,), own[f"{at}.gamma"], own[f"{at}.beta"])

    def linear(x: Any, k: int, name: str) -> Any:
        at = f"stack.sublayers.{k}.{name}"
        return f.linear(x, own[f"{at}_weight"], own[f"{at}_bias"])

    def attend(x: Any, k: int) -> Any:
        split = linear(x, k, "qkv").unflatten(-1, (3, size.heads, -1)).permute(2, 0, 3, 1, 4)  # (3, B, heads, T, dh)
        mixed = f.scaled_dot_product_attention(*split, is_causal=True).transpose(1, 2).flatten(-2)  # (B, T, d)
        return linear(mixed, k, "out")

    def feed(x: Any, k: int) -> Any:
        return linear(f.gelu(linear(x, k, "in"), approximate="tanh"), k, "out")

    def forward(ids: Any) -> Any:
        x = f.embedding(ids, own["tokens.table"]) + own["positions"]  # (B, T, d)
        for k in range(2 * size.layers):
            x = x + (feed if k % 2 else attend)(norm(x, f"norms.{k}"), k)
        return norm(x, "final_norm") @ own["head.weight"].T  # (B, T, vocab)

    return forward, list(own.values())
