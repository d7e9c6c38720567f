"""Measurements on small Transformers that have learned the play: read, cut, rounded, reordered, distilled."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np

from minires import ops
from minires.claims.ledger import Numbers, measurement
from minires.claims.trained import train_play
from minires.data import CharCorpus, hamlet
from minires.models import DecoderLM
from minires.probes import ablation, logit_lens, memory_neurons, quantization
from minires.probes.lens import tail
from minires.probes.lesion import loss_of
from minires.probes.running import cross_entropy, enter, forward, log_softmax, unembedding
from minires.tensor import Tensor, grad, no_grad
from minires.train import Adam


@functools.cache
def the_play() -> CharCorpus:
    return CharCorpus(hamlet())


def fresh(blocks: int, d: int, seed: int, connection: str = "pre_norm") -> DecoderLM:
    return DecoderLM(len(the_play().vocab), d, 4, blocks, 32, connection=connection, init="xavier", rng=seed)


def unseen(size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Text that no model was trained on: ids and targets (size, 32)."""
    return the_play().batch(np.random.default_rng([seed, 11]), size, 32, "val")


@measurement(fast={"steps": 500, "seeds": 1}, trains=True, kernels=True)
def trained_stream(
    blocks: int = 6, d: int = 64, steps: int = 900, lr: float = 2e-3, seeds: int = 2, seed: int = 0
) -> Numbers:
    """A Pre-Norm model of the play, after training: logit lens, pairs of ablations, rounding, memory neurons.

    Means over seeds. loss: validation. See `_lens`, `_pairs`, `_rounding` and `_erasers` for the rest.
    """
    cells = []
    for s in range(seed, seed + seeds):
        start, model = fresh(blocks, d, s), fresh(blocks, d, s)
        loss = train_play(model, the_play(), steps, lr, 0, s)
        parts = _lens(model, s) | _pairs(model, s) | _rounding(model, s) | _erasers(start, model)
        cells.append(parts | {"loss": loss})
    means = {name: np.mean([cell[name] for cell in cells], axis=0) for name in cells[0]}
    return means | {"blocks": blocks, "steps": steps, "unigram": the_play().baselines().unigram}


def _lens(model: DecoderLM, seed: int) -> Numbers:
    """agreement, probability: of the final first choice, after 0, 1, … blocks. never_falls: at how many positions that
    probability never falls from one block to the next. keeps: where the first choice, once final, stays so.
    """
    found = logit_lens(model, *unseen(16, seed))
    logits = found.logits[::2]  # (blocks + 1, B, T, V)
    final = logits[-1].argmax(-1)
    p = np.take_along_axis(np.exp(log_softmax(logits)), final[None, ..., None], -1)[..., 0]  # (blocks + 1, B, T)
    agrees = logits.argmax(-1) == final
    agreement, probability = found.agreement[::2], found.final_probability[::2]
    return {
        "agreement": agreement, "probability": probability,
        "agreement_step": np.diff(agreement).min(), "probability_step": np.diff(probability).min(),
        "never_falls": np.mean(np.all(np.diff(p, axis=0) >= 0, axis=0)),
        "keeps": np.mean(np.all(np.diff(agrees.astype(int), axis=0) >= 0, axis=0)),
    }  # fmt: skip


def _pairs(model: DecoderLM, seed: int) -> Numbers:
    """Rise of the loss without two sublayers against the sum of the two single rises, over all pairs.

    pair_gap: median of |both - sum| / |both|. pair_close: share of pairs whose gap is below 10 %. pair_most: the pair
    that rises most beyond its sum, both / sum.
    """
    ids, targets = unseen(16, seed)
    alone = ablation(model, ids, targets)
    pairs = list(itertools.combinations(range(len(alone.total)), 2))
    both = np.array([_without(model, ids, targets, pair) for pair in pairs]) - alone.loss
    sums = np.array([alone.total[j] + alone.total[k] for j, k in pairs])
    gaps = np.abs(both - sums) / np.abs(both)
    return {"pair_gap": np.median(gaps), "pair_close": np.mean(gaps < 0.1), "pair_most": np.max(both / sums),
            "pairs": len(pairs)}  # fmt: skip


def _without(model: DecoderLM, ids: np.ndarray, targets: np.ndarray, gone: tuple[int, ...]) -> float:
    silent = forward(model, ids, change=lambda site, f: f * 0 if site.k in gone else f)
    return cross_entropy(silent.output, targets)


def _rounding(model: DecoderLM, seed: int) -> Numbers:
    """Rise of the loss with the stream, the branches or the weights rounded to 8 and to 4 bits."""
    found = quantization(model, *unseen(16, seed), bits=(8, 4))
    return {f"{what}_{bits}": getattr(found, what)[i] for what in ("stream", "branch", "weights")
            for i, bits in enumerate((8, 4))}  # fmt: skip


def _erasers(start: DecoderLM, model: DecoderLM) -> Numbers:
    """Who writes the negative of what it reads, before training and after.

    neurons: share with cos(w_in, w_out) < -0.5; neuron: the most negative of these cosines. heads: share with
    Σλ / Σ|λ| < -0.25, λ the eigenvalues of W_V W_O; head: mean of that score, -1 for a head that only erases.
    """
    found: Numbers = {}
    for when, m in (("before", start), ("after", model)):
        neurons, heads = memory_neurons(m), np.array(_head_scores(m))
        found |= {f"neurons_{when}": neurons.share().mean(), f"neuron_{when}": neurons.cosines.min(),
                  f"heads_{when}": np.mean(heads < -0.25), f"head_{when}": heads.mean()}  # fmt: skip
    return found


def _head_scores(model: DecoderLM) -> list[float]:
    """Σ Re λ / Σ |λ| of γ W_V W_O for every head, γ the gain of the norm that it reads through."""
    connection: Any = model.stack.connection
    scores = []
    for k in range(0, len(model.stack.sublayers), 2):
        A: Any = model.stack.sublayers[k]
        read = connection.norms[k].gamma.data[:, None] * A.qkv_weight.data[:, 2 * model.d :]  # (d, d)
        for V, O in zip(np.split(read, A.heads, axis=1), np.split(A.out_weight.data, A.heads)):
            values = np.linalg.eigvals(O @ V)  # (dh,): those of V O that are not 0
            scores.append(float(values.real.sum() / np.abs(values).sum()))
    return scores


# --------------------------------------------------------------------------------------------- depth or width?


@measurement(fast={"blocks": 8, "steps": 150, "seeds": 1}, trains=True, kernels=True)
def neighbours(
    blocks: int = 12, d: int = 32, steps: int = 500, lr: float = 2e-3, seeds: int = 2, seed: int = 0
) -> Numbers:
    """A trained Pre-Norm model with two neighbouring blocks exchanged, or reading the same state; means over seeds.

    swapped, together: rise of the loss, (blocks - 1,). gone: rise without one block, (blocks,). first: the first pair.
    deep: mean over the pairs of the upper half. gone_deep: mean over the blocks of the upper half.
    """
    cells = []
    for s in range(seed, seed + seeds):
        model = fresh(blocks, d, s)
        loss = train_play(model, the_play(), steps, lr, 0, s)
        cells.append(_rises(model, blocks, s) | {"loss": loss})
    found = {name: np.mean([cell[name] for cell in cells], axis=0) for name in cells[0]}
    half = blocks // 2
    for name in ("swapped", "together", "gone"):
        found |= {f"{name}_first": found[name][0], f"{name}_deep": found[name][half:].mean()}
    return found | {"blocks": blocks, "steps": steps}


def _rises(model: DecoderLM, blocks: int, seed: int) -> Numbers:
    ids, targets = unseen(16, seed)
    whole = loss_of(model, ids, targets, range(2 * blocks))
    pairs = range(blocks - 1)
    return {
        "swapped": np.array([loss_of(model, ids, targets, _exchanged(blocks, b)) for b in pairs]) - whole,
        "together": np.array([cross_entropy(_together(model, ids, b), targets) for b in pairs]) - whole,
        "gone": np.array([_without(model, ids, targets, (2 * b, 2 * b + 1)) for b in range(blocks)]) - whole,
    }  # fmt: skip


def _exchanged(blocks: int, b: int) -> list[int]:
    """The order of the sublayers with blocks b and b + 1 exchanged."""
    order = list(range(2 * blocks))
    order[2 * b : 2 * b + 4] = order[2 * b + 2 : 2 * b + 4] + order[2 * b : 2 * b + 2]
    return order


def _together(model: DecoderLM, ids: np.ndarray, first: int) -> np.ndarray:
    """Logits with blocks `first` and `first` + 1 side by side: both read the same state, and both changes are added."""
    x, ctx = enter(model, ids)
    stack = model.stack

    def block(b: int, x: np.ndarray) -> np.ndarray:
        for k in (2 * b, 2 * b + 1):
            branch = functools.partial(stack.sublayers[k], ctx=ctx)
            x = stack.connection.step(Tensor(x), stack.sites[k], branch).data
        return x

    with no_grad():
        for b in (b for b in range(len(stack.sites) // 2) if b != first + 1):
            x = block(b, x) + (block(b + 1, x) - x if b == first else 0)
    W, bias = unembedding(model)
    return tail(model, x) @ W + bias


# ---------------------------------------------------------------------------------------------------- distillation


@measurement(fast={"steps": 150, "seeds": 1}, trains=True, kernels=True)
def distillation(blocks: int = 6, d: int = 32, steps: int = 600, lr: float = 3e-3, seeds: int = 2, seed: int = 0):
    """A teacher with skips, and students that learn its distribution: validation losses, means over seeds.

    student: half as many blocks, with skips. skipless: the same without, x ← LN(F(x)). one: one block without skips.
    """
    students = {"student": (blocks // 2, "pre_norm"), "skipless": (blocks // 2, "none"), "one": (1, "none")}
    cells: list[dict[str, float]] = []
    for s in range(seed, seed + seeds):
        teacher = fresh(blocks, d, s)
        cell = {"teacher": train_play(teacher, the_play(), steps, lr, 0, s)}
        for name, (n, connection) in students.items():
            cell[name] = _distilled(fresh(n, d, s, connection), teacher, steps, lr, s)
        cells.append(cell)
    means = {name: float(np.mean([cell[name] for cell in cells])) for name in cells[0]}
    return means | {"blocks": blocks, "half": blocks // 2, "steps": steps, "unigram": the_play().baselines().unigram}


def _distilled(student: DecoderLM, teacher: DecoderLM, steps: int, lr: float, seed: int) -> float:
    """Validation loss after Adam on -Σ p_teacher log p_student, the cross-entropy with the teacher's distribution."""
    rng, parameters = np.random.default_rng([seed, 1]), list(student.parameters())
    optimizer = Adam(parameters, lr=lr)
    for _ in range(steps):
        ids, _ = the_play().batch(rng, 12, 32)
        with no_grad():
            p = ops.softmax(teacher(ids)).data  # (B, T, V)
        loss = -(ops.log_softmax(student(ids)) * p).sum(axis=-1).mean()
        optimizer.step(grad(loss, parameters))
    ids, targets = unseen(64, seed)
    return cross_entropy(forward(student, ids).output, targets)
