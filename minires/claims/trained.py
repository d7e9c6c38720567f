"""Measurements that train something for a few seconds: digits for deep MLPs, the play for small Transformers."""

from __future__ import annotations

import itertools
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from minires import ops
from minires.claims.ledger import Numbers, measurement
from minires.data import CharCorpus, digits, hamlet, minibatches
from minires.experiments.compare import completed
from minires.messages import ValueProblem
from minires.models import DecoderLM, DeepMLP
from minires.nn import Context
from minires.probes.gradient import gradient_flow, record
from minires.tensor import Tensor, grad, no_grad
from minires.train import Adam, AdamW, fit, get_schedule, mean_loss

# ---------------------------------------------------------------------------------------------------------- digits


def digit_net(kind: str, depth: int, seed: int, d: int = 64) -> DeepMLP:
    """A net of `depth` weight layers. plain: He init. identity: the same net, started as a copy of a shallow one.

    residual: branches of two layers times 1/√K, without a norm.
    """
    build = partial(DeepMLP, 64, 10, d, rng=seed)
    if kind == "residual":
        return build((depth - 2) // 2, connection="residual_inverse_sqrt_depth")
    model = build(depth - 2, connection="plain", layers_per_block=1, init="he")
    if kind == "identity":
        rng = np.random.default_rng([seed, 9])
        for layer in model.stack.sublayers:
            weight = layer.linear.weight  # type: ignore[attr-defined]
            weight.data[...] = np.eye(d) + 0.02 * rng.standard_normal((d, d))
            weight.changed()
    return model


def train_digits(model: DeepMLP, data: Any, epochs: int, seed: int, lr: float = 1e-3, batch: int = 64) -> DeepMLP:
    """Adam, a constant learning rate, shuffled minibatches."""
    pairs = [
        pair
        for epoch in range(epochs)
        for pair in minibatches(data.x_train, data.y_train, batch_size=batch, rng=np.random.default_rng([seed, epoch]))
    ]
    with suppress(ValueProblem):  # it diverged: the errors show it
        completed(fit(model, pairs, Adam(model.parameters(), lr=lr), len(pairs), progress=False), len(pairs))
    return model


def errors(model: Any, data: Any, ctx: Context | None = None) -> tuple[float, float]:
    """Share of wrong answers on the training and on the test images."""
    with no_grad():
        wrong = [model(x, ctx).data.argmax(-1) != y
                 for x, y in ((data.x_train, data.y_train), (data.x_test, data.y_test))]  # fmt: skip
    return float(wrong[0].mean()), float(wrong[1].mean())


@measurement(fast={"depths": (8, 20, 56), "epochs": 6, "seeds": 1}, trains=True)
def degradation(depths: tuple = (8, 20, 32, 56), epochs: int = 20, seeds: int = 3, seed: int = 0) -> Numbers:
    """Errors of plain He-initialised nets on the digits by depth, means over seeds; and three nets beside the deepest.

    identity: the same architecture, started as identity layers. residual: the same depth with skips. gradient: the
    deepest plain net's ‖∂L/∂x_0‖ / ‖∂L/∂x_K‖ before training, geometric mean.
    """
    runs, deepest = range(seed, seed + seeds), depths[-1]
    plain = np.array([[_digit_errors("plain", depth, epochs, s) for s in runs] for depth in depths]).mean(1)
    beside = {kind: np.mean([_digit_errors(kind, deepest, epochs, s) for s in runs], axis=0)
              for kind in ("identity", "residual")}  # fmt: skip
    return {
        "depths": list(depths), "train": plain[:, 0], "test": plain[:, 1], "shallow": depths[0], "deepest": deepest,
        "shallow_train": plain[0, 0], "shallow_test": plain[0, 1],
        "deep_train": plain[-1, 0], "deep_test": plain[-1, 1],
        "identity_train": beside["identity"][0], "residual_train": beside["residual"][0],
        "residual_test": beside["residual"][1], "gradient": float(np.exp(np.mean([_start(deepest, s) for s in runs]))),
    }  # fmt: skip


def _digit_errors(kind: str, depth: int, epochs: int, seed: int) -> tuple[float, float]:
    data = digits(seed)
    return errors(train_digits(digit_net(kind, depth, seed), data, epochs, seed), data)


def _start(depth: int, seed: int) -> float:
    """log ‖∂L/∂x_0‖ / ‖∂L/∂x_K‖ of a fresh plain net."""
    data = digits(seed)
    flow = gradient_flow(digit_net("plain", depth, seed), data.x_train[:128], data.y_train[:128])
    return float(np.log(flow.states[0] / flow.states[-1]))


@measurement()
def copied_layers(depth: int = 56, extra: int = 48, seed: int = 0) -> Numbers:
    """A plain net of 8 layers with identity layers put behind its ReLU, against the shallow net: largest difference."""
    shallow, deep = (DeepMLP(64, 10, 64, n, connection="plain", layers_per_block=1, rng=seed, dtype=np.float64)
                     for n in (depth - extra - 2, depth - 2))  # fmt: skip
    own = shallow.state_dict()
    for name, p in deep.named_parameters():
        p.data[...] = own[name] if name in own else (np.eye(64) if p.data.ndim == 2 else 0)
        p.changed()
    x = digits(seed).x_test.astype(np.float64)
    return {"difference": float(np.abs(deep(x).data - shallow(x).data).max()), "depth": depth, "shallow": depth - extra}


@measurement(fast={"seeds": 1}, trains=True)
def lesions(depth: int = 56, plain_depth: int = 20, epochs: int = 20, seeds: int = 3, seed: int = 0) -> Numbers:
    """Leave out one block of a trained net, and several: error on the test images, residual beside plain.

    Means over seeds. one: over all blocks; worst: the largest. several: by how many random blocks are left out, up to
    all of them. cut: when one block keeps its branch and loses its skip; cut_best: the smallest. plain: a plain net,
    where a block that is left out is replaced by the identity. ratio: ‖F‖/‖x‖ of the residual net's blocks;
    start_ratio: their median before training.
    """
    cells = [_lesions_of(depth, plain_depth, epochs, s) for s in range(seed, seed + seeds)]
    means = {name: np.mean([cell[name] for cell in cells], axis=0) for name in cells[0]}
    return means | {"depth": depth, "plain_depth": plain_depth, "blocks": (depth - 2) // 2, "seeds": seeds,
                    "counts": _counts((depth - 2) // 2)}  # fmt: skip


def _counts(blocks: int) -> list[int]:
    """How many blocks are left out together."""
    return [1, 2, 4, 8, 16, blocks]


def _lesions_of(depth: int, plain_depth: int, epochs: int, seed: int) -> Numbers:
    data = digits(seed)
    residual, plain = digit_net("residual", depth, seed), digit_net("plain", plain_depth, seed)
    found: Numbers = {"start_ratio": np.median(_ratios(residual, data.x_test))}
    for name, net in (("residual", residual), ("plain", plain)):
        train_digits(net, data, epochs, seed)
        single = [_error_without(net, data, [k]) for k in range(len(net.stack.sites))]
        found |= {f"{name}_error": errors(net, data)[1], f"{name}_one": np.mean(single), f"{name}_worst": max(single)}
    rng, blocks = np.random.default_rng([seed, 4]), len(residual.stack.sites)
    draws = [[rng.permutation(blocks)[:k] for _ in range(8)] for k in _counts(blocks)]
    cut, ratios = [_error_cut(residual, data, k) for k in range(blocks)], _ratios(residual, data.x_test)
    return found | {
        "several": np.array([np.mean([_error_without(residual, data, gone) for gone in same]) for same in draws]),
        "cut": np.mean(cut), "cut_best": min(cut), "median_ratio": np.median(ratios), "largest_ratio": max(ratios),
    }  # fmt: skip


def _ratios(net: DeepMLP, x: np.ndarray) -> list[float]:
    """‖x_(k+1) - x_k‖ / ‖x_k‖ of every block, mean over examples."""
    states, _ = record(net, x)
    return [float(np.mean(np.linalg.norm(b - a, axis=-1) / np.linalg.norm(a, axis=-1)))
            for a, b in itertools.pairwise(states)]  # fmt: skip


def _error_without(net: DeepMLP, data: Any, left_out: Any) -> float:
    """Test error with some sublayers writing nothing; in a plain net they hand on their input."""
    gone, adds = set(map(int, left_out)), net.stack.connection.__class__.__name__ != "Plain"

    def wrap(site: Any, F: Any) -> Any:
        return F if site.k not in gone else (lambda h: F(h) * 0.0) if adds else (lambda h: h)

    return errors(net, data, Context(wrap=wrap))[1]


def _error_cut(net: DeepMLP, data: Any, k: int) -> float:
    """Test error if sublayer k's branch replaces the stream: x ← s F(x) in the place of x + s F(x), s = 1/√K."""
    root = len(net.stack.sites) ** 0.5

    def wrap(site: Any, F: Any) -> Any:
        return F if site.k != k else (lambda h: F(h) - h * root)

    return errors(net, data, Context(wrap=wrap))[1]


# ------------------------------------------------------------------------------------------ fitting the identity


@measurement(fast={"steps": 300, "seeds": 1}, trains=True, kernels=True)
def identity_fit(
    layers: tuple = (2, 4, 8), d: int = 16, steps: int = 400, seeds: int = 3, seed: int = 0
) -> Numbers:  # fmt: skip
    """Fit H(x) = x by ReLU layers, with a skip around them and without: mean square error before and after Adam.

    Layers are 2d wide inside, which is what ReLUs need to hand on both signs. He init, and small init (std 0.02).
    Geometric means over seeds.
    """
    found: Numbers = {"layers": list(layers), "steps": steps, "seeds": seeds}
    runs = range(seed, seed + seeds)
    for name, skip, scale in (("plain", False, None), ("residual", True, None), ("residual_small", True, 0.02)):
        cells = [[_fit_identity(n, d, skip, scale, steps, s) for s in runs] for n in layers]
        before, after = np.exp(np.mean(np.log(cells), axis=1)).T  # (layers,) each
        found |= {f"{name}_before": before.tolist(), f"{name}_after": after.tolist()}
    return found | {"shallow_plain": found["plain_after"][0], "deep_plain": found["plain_after"][-1],
                    "he_before": found["residual_before"][0], "small_before": found["residual_small_before"][0],
                    "deep_residual": found["residual_after"][-1], "deepest": layers[-1]}  # fmt: skip


def _fit_identity(layers: int, d: int, skip: bool, scale: float | None, steps: int, seed: int) -> tuple[float, float]:
    """Mean square error of one net before and after training. The last layer has no ReLU."""
    from minires.nn import Maker
    from minires.nn.layers import Linear

    make = Maker.of(seed, "he", np.float64, layers)
    widths = [d, *[2 * d] * (layers - 1), d]
    nets = [Linear(n, m, make) for n, m in itertools.pairwise(widths)]
    for net, n in zip(nets, widths) if scale else ():
        net.weight.data[...] *= scale / np.sqrt(2 / n)
    parameters = [p for net in nets for p in net.parameters()]
    optimizer, rng = Adam(parameters, lr=3e-3), np.random.default_rng([seed, 2])

    def error(x: np.ndarray) -> Tensor:
        h = Tensor(x)
        for i, net in enumerate(nets):
            h = net(h) if i == len(nets) - 1 else ops.relu(net(h))
        gap = h if skip else h - Tensor(x)
        return (gap * gap).mean()

    check = rng.standard_normal((512, d))
    before = error(check).item()
    for _ in range(steps):
        optimizer.step(grad(error(rng.standard_normal((64, d))), parameters))
    return before, error(check).item()


# ------------------------------------------------------------------------------------------------- language models


def train_play(model: DecoderLM, corpus: CharCorpus, steps: int, lr: float, warmup: int, seed: int, **options: Any):
    """Validation loss after AdamW on the play; infinity if training broke off."""
    shape = (12, 32)
    checks = [corpus.batch(np.random.default_rng([7, i]), *shape, "val") for i in range(6)]
    try:
        history = fit(
            model, lambda rng: corpus.batch(rng, *shape), AdamW(model.parameters(), lr=lr, betas=(0.9, 0.98)), steps,
            rng=np.random.default_rng([seed, 1]), schedule=get_schedule("constant", warmup, steps), progress=False,
            evaluate=mean_loss(checks), **options,
        )  # fmt: skip
    except ValueProblem:
        return float("inf")
    return completed(history, steps).evaluations[-1][1]


@measurement(fast={"depths": (1, 6), "steps": 80, "seeds": 1}, trains=True, kernels=True)
def without_addition(
    depths: tuple = (1, 2, 4, 6), steps: int = 200, d: int = 32, seeds: int = 3, seed: int = 0
) -> Numbers:  # fmt: skip
    """A character model with LN(F(x)) for a layer, and with Pre-Norm: validation loss by depth, means over seeds."""
    corpus = CharCorpus(hamlet())
    base = corpus.baselines()
    found: Numbers = {"depths": list(depths), "steps": steps, "seeds": seeds, "unigram": base.unigram,
                      "bigram": base.bigram}  # fmt: skip
    for name in ("none", "pre_norm"):
        found[name] = [
            float(np.mean([_stacked(corpus, name, n, d, steps, s) for s in range(seed, seed + seeds)])) for n in depths
        ]
    return found | {"shallow_none": found["none"][0], "deep_none": found["none"][-1],
                    "deep_pre": found["pre_norm"][-1], "deepest": depths[-1]}  # fmt: skip


def _stacked(corpus: CharCorpus, connection: str, blocks: int, d: int, steps: int, seed: int) -> float:
    model = DecoderLM(len(corpus.vocab), d, 4, blocks, 32, connection=connection, init="xavier", rng=seed)
    return train_play(model, corpus, steps, 3e-3, 0, seed)


@measurement(fast={"steps": 140, "seeds": 1}, trains=True, kernels=True)
def warm_up(blocks: int = 6, steps: int = 200, lr: float = 6e-3, d: int = 32, seeds: int = 3, seed: int = 0) -> Numbers:
    """Post-Norm and Pre-Norm without warm-up (cold) and with half the steps of it (warm): mean validation loss.

    Xavier's weights; small_cold: Post-Norm with GPT-2's N(0, 0.02²), which are small at this width.
    """
    corpus = CharCorpus(hamlet())
    found: Numbers = {"blocks": blocks, "steps": steps, "lr": lr, "seeds": seeds,
                      "unigram": corpus.baselines().unigram}  # fmt: skip
    runs = {"post_cold": ("post_norm", "xavier", 0), "post_warm": ("post_norm", "xavier", steps // 2),
            "pre_cold": ("pre_norm", "xavier", 0), "pre_warm": ("pre_norm", "xavier", steps // 2),
            "small_cold": ("post_norm", "gpt2", 0)}  # fmt: skip
    for key, (name, init, warm) in runs.items():
        losses = [
            train_play(
                DecoderLM(len(corpus.vocab), d, 4, blocks, 32, connection=name, init=init, rng=seed + i),
                corpus, steps, lr, warm, seed + i,
            )
            for i in range(seeds)
        ]  # fmt: skip
        found[key] = float(np.mean(losses))
    return found


@measurement(fast={"steps": 100, "seeds": 1}, trains=True, kernels=True)
def init_grid(
    blocks: int = 6, d: int = 32, steps: int = 200, lr: float = 3e-3, seeds: int = 2, seed: int = 0
) -> Numbers:  # fmt: skip
    """Post-Norm and Pre-Norm from four initialisations, without warm-up: mean validation losses, and their range."""
    corpus, inits = CharCorpus(hamlet()), ("gpt2_scaled", "gpt2", "xavier", "he")
    found: Numbers = {"blocks": blocks, "steps": steps, "lr": lr, "unigram": corpus.baselines().unigram}
    for key in ("post", "pre"):
        for init in inits:
            losses = []
            for s in range(seed, seed + seeds):
                options: dict[str, Any] = dict(connection=f"{key}_norm", init=init, rng=s)
                model = DecoderLM(len(corpus.vocab), d, 4, blocks, 32, **options)
                losses.append(train_play(model, corpus, steps, lr, 0, s))
            found[f"{key}_{init}"] = float(np.mean(losses))
        values = [found[f"{key}_{init}"] for init in inits]
        found |= {f"{key}_range": max(values) - min(values), f"{key}_best": min(values), f"{key}_worst": max(values)}
    return found


@measurement(fast={"seeds": 1}, trains=True, kernels=True)
def collapse(
    blocks: int = 12, d: int = 32, steps: int = 300, warmup: int = 100, lr: float = 1e-3, seeds: int = 3, seed: int = 0
) -> Numbers:  # fmt: skip
    """‖∂L/∂x_l‖ at layer 1 relative to the last layer while Post-Norm (Xavier) trains, every five steps, by seed.

    cold: without warm-up. warm: on the way up to the same learning rate, and after it. lowest, last: that ratio, and
    last_low, last_high: its range over seeds at the end. at: the step of the lowest. loss: validation, at the end.
    """
    corpus = CharCorpus(hamlet())
    found: Numbers = {"blocks": blocks, "steps": steps, "lr": lr, "warmup": warmup, "seeds": seeds,
                      "unigram": corpus.baselines().unigram}  # fmt: skip
    for key, warm in (("cold", 0), ("warm", warmup)):
        cells = [_collapsing(corpus, blocks, d, steps, lr, warm, s) for s in range(seed, seed + seeds)]
        for name in cells[0]:
            values = [cell[name] for cell in cells]
            found |= {f"{key}_{name}": values, f"{key}_{name}_low": min(values), f"{key}_{name}_high": max(values)}
    return found


def _collapsing(
    corpus: CharCorpus, blocks: int, d: int, steps: int, lr: float, warmup: int, seed: int
) -> dict[str, float]:
    """One run: the lowest ratio and its step, the last ratio, and the validation loss."""
    probe = corpus.batch(np.random.default_rng([seed, 3]), 2, 32)
    model = DecoderLM(len(corpus.vocab), d, 4, blocks, 32, connection="post_norm", init="xavier", rng=seed)
    seen: dict[int, float] = {}

    def look(step: int, history: Any) -> None:
        if step % 5 == 0:
            states = gradient_flow(model, *probe).states
            seen[step] = float(states[2] / states[-1])

    loss = train_play(model, corpus, steps, lr, warmup, seed, on_step=look)
    at = min(seen, key=seen.__getitem__)
    return {"lowest": seen[at], "at": at, "last": seen[max(seen)], "loss": loss}
