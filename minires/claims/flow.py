"""Measurements of gradients at initialisation: who vanishes, who explodes, and what the skip path alone does."""

from __future__ import annotations

from typing import Any

import numpy as np

from minires import ops
from minires.claims.ledger import Numbers, measurement
from minires.models import DecoderLM, DeepMLP
from minires.probes.gradient import gradient_flow, record, skip_branch_decomposition, state_gradients
from minires.tensor import Tensor, grad


def tokens(vocab: int, batch: int, length: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random ids and targets: at initialisation the text does not matter."""
    ids, targets = np.random.default_rng([seed, 5]).integers(0, vocab, (2, batch, length))
    return ids, targets


def decoder(connection: str, blocks: int, init: str = "xavier", d: int = 32, seed: int = 0, **options: Any):
    """A small float64 decoder with a batch for it."""
    model = DecoderLM(32, d, 4, blocks, 16, connection=connection, init=init, rng=seed, dtype=np.float64, **options)
    return model, *tokens(32, 4, 16, seed)


# ------------------------------------------------------------------------------------------------------ plain nets


@measurement(fast={"seeds": 2})
def plain_gradients(depths: tuple = (8, 20, 32, 56), d: int = 64, seeds: int = 5, seed: int = 0) -> Numbers:
    """‖∂L/∂x_0‖ / ‖∂L/∂x_K‖ in a plain ReLU MLP on the digits, geometric mean over seeds, by init and depth.

    Not ‖∂L/∂W_1‖ / ‖∂L/∂W_out‖ (kept as `weights`): where forward signal and gradient both shrink by 2^(-K/2), that
    ratio is about 1 although both norms are gone.
    """
    runs = range(seed, seed + seeds)
    found = {init: [_plain_ratio(depth, init, d, runs) for depth in depths] for init in ("he", "lecun")}
    states = {init: [cell[0] for cell in cells] for init, cells in found.items()}
    return {
        "depths": list(depths), **states, "weights": {init: [c[1] for c in cells] for init, cells in found.items()},
        "he_20": states["he"][1], "he_56": states["he"][-1], "lecun_20": states["lecun"][1],
        "lecun_56": states["lecun"][-1],
    }  # fmt: skip


def _plain_ratio(depth: int, init: str, d: int, seeds: range) -> list[float]:
    from minires.data import digits

    logs = []
    for seed in seeds:
        data = digits(seed)
        model = DeepMLP(
            64, 10, d, depth - 2, connection="plain", init=init, layers_per_block=1, rng=seed, dtype=np.float64
        )
        flow = gradient_flow(model, data.x_train[:128].astype(np.float64), data.y_train[:128])
        weights = flow.parameters["entry.weight"] / flow.parameters["head.weight"]
        logs.append(np.log([flow.states[0] / flow.states[-1], weights]))
    return np.exp(np.mean(logs, axis=0)).tolist()


@measurement(fast={"draws": 3})
def products(layers: int = 100, d: int = 64, size: float = 0.1, draws: int = 8, seed: int = 0) -> Numbers:
    """Gains of ∏ (I + J) with ‖J‖ = 0.1 by the kind of J, and of ∏ J, from the experiment `jacobian_products`."""
    from minires.experiments import run_experiment

    data = run_experiment("jacobian_products", dict(layers=layers, d=d, size=size, draws=draws, seed=seed)).data
    by_kind = {row["kind"]: row["gain"] for row in data["rows"]}
    gains = list(by_kind.values())
    return {
        "without": data["without_skip"]["gain"], "norms": data["without_skip"]["norms_alone"],
        "lowest": min(gains), "highest": max(gains), "independent": by_kind["Gaussian, independent"],
        "shared": by_kind["Gaussian, shared"], "by_kind": by_kind,
    }  # fmt: skip


# --------------------------------------------------------------------------------- Post-Norm and Pre-Norm compared


@measurement(fast={"inits": ("xavier", "gpt2_scaled"), "widths": (64,), "seeds": (1,)})
def twelve_layers(
    inits: tuple = ("xavier", "lecun", "he", "gpt2", "gpt2_scaled"), widths: tuple = (32, 64, 128),
    seeds: tuple = (3, 3, 3), seed: int = 0,
) -> Numbers:  # fmt: skip
    """Gradients through 12 layers, from the experiment `gradient_table`: totals and the skip path alone.

    Decoder and encoder. post_1, post_6, pre_1, pre_6: lowest and highest total relative to layer 12 of all networks,
    and by model; skip: of the skip path alone, geometric means over seeds. post_fit: settings (means over seeds) within
    10 % of what the article prints. needed: the branch size that the skip path alone would need for each number.
    """
    from minires.experiments import run_experiment

    models = ("decoder", "encoder")
    settings = dict(models=models, inits=inits, widths=widths, seeds=seeds, seed=seed)
    data = run_experiment("gradient_table", settings).data
    found: Numbers = {"cells": data["verdict"]["post_norm"]["cells"], "widths": list(widths), "seeds": min(seeds)}
    for norm in ("post", "pre"):
        cells, judged = [p for p in data["profiles"] if p["norm"] == f"{norm}_norm"], data["verdict"][f"{norm}_norm"]
        found[f"{norm}_fit"], found[f"{norm}_fit_size"] = judged["within 10 %"], judged["their largest s_F"] or 0.0
        for layer in (1, 6):
            found |= _span(f"{norm}_{layer}", cells, layer)
        for model in models:
            found |= _span(f"{norm}_{model}", [p for p in cells if p["model"] == model], 1)
        found[f"{norm}_skip_low"], found[f"{norm}_skip_high"] = (f(p["skip"][1] for p in cells) for f in (min, max))
    sizes = [row["branch_size"] for row in data["needed_branch_size"][:2]]
    return found | {"needed_1": sizes[0], "needed_6": sizes[1]}


def _span(name: str, cells: list[dict], layer: int) -> dict[str, float]:
    """Lowest and highest total at a layer, over all networks of these cells."""
    return {f"{name}_low": min(p["total_low"][layer] for p in cells),
            f"{name}_high": max(p["total_high"][layer] for p in cells)}  # fmt: skip


@measurement(fast={"depths": (6, 24), "seeds": 1})
def norm_placement(depths: tuple = (6, 12, 24, 48), seeds: int = 3, d: int = 32, seed: int = 0) -> Numbers:
    """Pre-Norm, Post-Norm and Pre-Norm without its final norm, by depth.

    last: norm of the gradient of the last FFN's output weight. hidden: ‖∂L/∂x_0‖ / ‖∂L/∂x_K‖. size: rms of the stream
    before any final norm. Geometric means over seeds.
    """
    found: Numbers = {"depths": list(depths)}
    for name in ("post_norm", "pre_norm", "pre_norm_without_final"):
        cells = [[_placed(name, blocks, d, seed + i) for i in range(seeds)] for blocks in depths]
        means = np.exp(np.mean(np.log(cells), axis=1))  # (depths, 3)
        found |= {f"{name}_{key}": means[:, i].tolist() for i, key in enumerate(("last", "hidden", "size"))}
    return found | {
        "post_slope": _slope(depths, found["post_norm_last"]), "pre_slope": _slope(depths, found["pre_norm_last"]),
        "bare_slope": _slope(depths, found["pre_norm_without_final_last"]), "deep_post": found["post_norm_last"][-1],
        "deep_pre": found["pre_norm_last"][-1], "deep_hidden": found["post_norm_hidden"][-1],
        "post_size": found["post_norm_size"][-1], "pre_size": found["pre_norm_size"][-1], "deepest": depths[-1],
        "deep_hidden_pre": found["pre_norm_hidden"][-1],
    }  # fmt: skip


def _placed(name: str, blocks: int, d: int, seed: int) -> list[float]:
    connection = name.removesuffix("_without_final")
    model, ids, targets = decoder(connection, blocks, d=d, seed=seed)
    if name != connection:
        model.stack.connection.close = lambda stream: stream  # type: ignore[method-assign]
    flow = gradient_flow(model, ids, targets)
    last = flow.parameters[f"stack.sublayers.{2 * blocks - 1}.out_weight"]
    states, _ = record(model, ids)
    return [last, flow.states[0] / flow.states[-1], float(np.sqrt(np.mean(states[-1] ** 2)))]


def _slope(sizes: Any, values: Any) -> float:
    """The exponent p of values ∝ sizes^p, by least squares."""
    return float(np.polyfit(np.log(np.asarray(sizes, float)), np.log(values), 1)[0])


@measurement()
def skip_path(blocks: int = 12, seed: int = 0) -> Numbers:
    """What the skip path alone carries from x_K to x_0: relative sizes, and Pre-Norm's difference from ∂L/∂x_K."""
    found: Numbers = {"blocks": blocks}
    for name in ("pre_norm", "post_norm"):
        model, ids, targets = decoder(name, blocks, seed=seed)
        parts = skip_branch_decomposition(model, ids, targets)
        for column in ("skip", "branches", "total"):
            found[f"{name}_{column}"] = float(getattr(parts, column)[0] / parts.total[-1])
    model, ids, targets = decoder("pre_norm", blocks, seed=seed)
    g = state_gradients(model, ids, targets, skip_only=True)
    return found | {"changed": float(np.abs(g[0] - g[-1]).max())}


@measurement()
def summed_output(blocks: int = 4, seed: int = 0) -> Numbers:
    """Gradients of the first FFN's weight under the article's loss, output.sum(), and under ⟨R, output⟩.

    bare: Pre-Norm without a final norm. pre: with it. post: Post-Norm. Each as sum-loss relative to random direction.
    """
    ratios = {}
    for name in ("bare", "pre", "post"):
        model, ids, _ = decoder("post_norm" if name == "post" else "pre_norm", blocks, seed=seed)
        if name == "bare":
            model.stack.connection.close = lambda stream: stream  # type: ignore[method-assign]
        weight = model.stack.sublayers[1].in_weight  # type: ignore[attr-defined]
        R = np.random.default_rng([seed, 1]).standard_normal((*ids.shape, model.d))
        summed, random = (_weight_gradient(model, ids, weight, c) for c in (np.ones_like(R), R))
        ratios[name] = summed / random
    return ratios


def _weight_gradient(model: Any, ids: np.ndarray, weight: Any, cotangent: np.ndarray) -> float:
    """‖∂⟨cotangent, stack output⟩/∂weight‖."""
    loss = (model.stack(model.embed(ids)) * Tensor(cotangent)).sum()
    return float(np.linalg.norm(grad(loss, [weight])[0]))


@measurement()
def clipping(blocks: int = 12, seed: int = 0) -> Numbers:
    """A residual stack without norms at initialisation: forward size, loss, and what clipping does to its gradients.

    The ratio between first and last layer is the same before and after: clipping has one factor for all of them.
    """
    from minires.train import clip_grad_norm

    model, ids, targets = decoder("residual", blocks, seed=seed)
    loss = model.loss(ids, targets)
    loss.backward()
    first, last = model.stack.sublayers[0].out_weight, model.stack.sublayers[-1].out_weight  # type: ignore
    before = float(np.linalg.norm(first.grad) / np.linalg.norm(last.grad))
    total = clip_grad_norm(model.parameters(), 1.0)
    after = float(np.linalg.norm(first.grad) / np.linalg.norm(last.grad))
    clipped = float(np.sqrt(sum(np.sum(p.grad**2) for p in model.parameters() if p.grad is not None)))
    states, _ = record(model, ids)
    return {"rms": float(np.sqrt(np.mean(states[-1] ** 2))), "loss": loss.item(), "chance": float(np.log(32)),
            "total": float(total), "clipped": clipped, "before": before, "after": after}  # fmt: skip


# ----------------------------------------------------------------------------------------- formulas of the articles


@measurement()
def backward_formulas(d: int = 6, seed: int = 0) -> Numbers:
    """Gradients through one sublayer F(x) = gelu(x W) V against the articles' printed formulas, largest difference.

    residual: g'(I + J_F). post: g' J_Norm (I + J_F). pre: g'(I + J_F J_Norm). plain: g' J_2 J_1 for two plain
    layers; reversed: with the factors in the other order.
    """
    rng = np.random.default_rng(seed)
    x, g = rng.standard_normal((2, 1, d))
    W, V = rng.standard_normal((2, d, d))
    norm = ops.layernorm

    def F(h: Tensor) -> Tensor:
        return ops.gelu(h @ W) @ V

    def J(f: Any, at: np.ndarray) -> np.ndarray:
        return np.concatenate([_pull(f, at, row[None]) for row in np.eye(d)])  # (d, d)

    at_norm, summed = norm(Tensor(x)).data, x + F(Tensor(x)).data
    eye, J_F = np.eye(d), J(F, x)
    printed = {
        "residual": (lambda h: h + F(h), g @ (eye + J_F)),
        "post": (lambda h: norm(h + F(h)), g @ J(norm, summed) @ (eye + J_F)),
        "pre": (lambda h: h + F(norm(h)), g @ (eye + J(F, at_norm) @ J(norm, x))),
        "plain": (lambda h: F(F(h)), g @ J(F, F(Tensor(x)).data) @ J_F),
        "reversed": (lambda h: F(F(h)), g @ J_F @ J(F, F(Tensor(x)).data)),
    }
    return {name: _relative(_pull(f, x, g), by_hand) for name, (f, by_hand) in printed.items()}


def _pull(f: Any, at: np.ndarray, g: np.ndarray) -> np.ndarray:
    """g ∂f/∂x at a point, by the engine's backward pass."""
    x = Tensor(at, requires_grad=True)
    return grad((f(x) * Tensor(g)).sum(), [x])[0]


def _relative(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


# ------------------------------------------------------------------------------------------------- model updates


@measurement(fast={"depths": (3, 12, 48), "seeds": 2})
def updates(
    depths: tuple = (3, 12, 48, 192), d: int = 32, lr: float = 1e-7, seeds: int = 4, seed: int = 0
) -> Numbers:  # fmt: skip
    """How far one optimiser step moves the model's output, ‖ΔF‖ = rms of the change of the stack's output, by depth.

    sgd: θ - lr g. adam: θ - lr/100 sign(g), which is Adam's first step. Only one group moves: the sublayers' matrices,
    which is what DeepNet's theorem speaks of, their biases, or the norms' gains and shifts. theta: ‖Δθ‖ of the
    matrices. Geometric means over seeds; slope: exponent p of N^p over all depths.

    lr is so small that ‖ΔF‖ is proportional to it. With a large one ‖ΔF‖ ends at √2, where the old and the new output
    have nothing in common, and no law of growth can be seen. bend: logarithm of Post-Norm's growth between the last two
    depths over that between the first two; of_power and of_exponential: what it is for N^p and for e^{cN}.
    """
    found: Numbers = {"depths": list(depths), "first": depths[0], "last": depths[-1]}
    for recipe in ("deepnorm", "post_norm"):
        runs = [[_update(recipe, n, d, lr, seed + i) for i in range(seeds)] for n in depths]
        for key in runs[0][0]:
            values = np.exp([np.mean([np.log(cell[key]) for cell in cells]) for cells in runs])  # (depths,)
            found |= {f"{recipe}_{key}": values.tolist(), f"{recipe}_{key}_slope": _slope(depths, values)}
    post, deep = found["post_norm_sgd_matrices"], found["deepnorm_sgd_matrices"]
    bends = {"bend": np.log(post), "of_power": np.log(depths), "of_exponential": np.array(depths, float)}
    found |= {name: float((y[-1] - y[-2]) / (y[1] - y[0])) for name, y in bends.items()}
    return found | {"post_growth": post[-1] / post[0], "deep_growth": deep[-1] / deep[0]}


def _update(recipe: str, blocks: int, d: int, lr: float, seed: int) -> dict[str, float]:
    """‖ΔF‖ by optimiser and group, and ‖Δθ‖ of the matrices, all from the same point."""
    from minires.models import get_recipe

    options: dict[str, Any] = dict(d=d, heads=4, context=16, rng=seed, dtype=np.float64)
    model = get_recipe(recipe).build(32, blocks, **options)
    ids, targets = tokens(32, 4, 16, seed)
    named = [(name, p) for name, p in model.named_parameters() if name.startswith("stack")]
    before, gradients = model.stack(model.embed(ids)).data, grad(model.loss(ids, targets), [p for _, p in named])
    found: dict[str, float] = {}
    for rule, step in (("sgd", lambda g: lr * g), ("adam", lambda g: lr / 100 * np.sign(g))):
        for group in ("matrices", "biases", "norms"):
            steps = [(p, step(g)) for (name, p), g in zip(named, gradients) if _group(name, p) == group]
            _shift(steps, -1)
            found[f"{rule}_{group}"] = float(np.sqrt(np.mean((model.stack(model.embed(ids)).data - before) ** 2)))
            _shift(steps, 1)
            if group == "matrices":
                found[f"{rule}_theta"] = float(np.sqrt(sum(np.sum(s**2) for _, s in steps)))
    return found


def _group(name: str, p: Any) -> str:
    return "norms" if "sublayers" not in name else "matrices" if p.data.ndim == 2 else "biases"


def _shift(steps: list, sign: int) -> None:
    for p, step in steps:
        p.data[...] += sign * step
        p.changed()
