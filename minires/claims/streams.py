"""Measurements of forward passes at initialisation: what the stream carries, and what each rule does to it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from minires import ops
from minires.claims.flow import decoder, tokens
from minires.claims.ledger import Numbers, measurement
from minires.models import DecoderLM, DeepMLP, get_recipe
from minires.nn import Context
from minires.ops.sinkhorn import sinkhorn_forward
from minires.probes import logit_attribution
from minires.probes.gradient import record
from minires.tensor import Tensor, grad, no_grad


def rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(x))))


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Mean over tokens of cos(a, b)."""
    return float(np.mean((a * b).sum(-1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))))


def relative(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


# -------------------------------------------------------------------------------------------------- the stream itself


@measurement()
def unrolled_sum(blocks: int = 6, seed: int = 0) -> Numbers:
    """x_K against x_0 + Σ F_k, for three rules: relative difference.

    For Pre-Norm also cos_input, between x_0 and x_K, and middle: x_K minus the later writes against the middle state;
    logit_64, logit_32: a logit against the sum of its parts (direct logit attribution, the final norm's scale frozen),
    largest difference relative to the largest logit, for a model in float64 and in float32.
    """
    found: Numbers = {"blocks": blocks} | {f"logit_{bits}": logit_error(blocks, bits, seed) for bits in (64, 32)}
    for name in ("residual", "pre_norm", "post_norm"):
        model, ids, _ = decoder(name, blocks, seed=seed)
        states, branches = record(model, ids)
        found[name] = relative(states[0] + sum(branches), states[-1])
        if name == "pre_norm":
            found["cos_input"] = cosine(states[0], states[-1])
            found["middle"] = relative(states[-1] - sum(branches[blocks:]), states[blocks])
    return found


def logit_error(blocks: int, bits: int, seed: int) -> float:
    model = DecoderLM(32, 32, 4, blocks, 16, init="xavier", rng=seed, dtype=np.dtype(f"float{bits}"))
    found = logit_attribution(model, *tokens(32, 4, 16, seed), heads=True)
    return float(found.error / np.abs(found.logit).max())


@measurement()
def additive_writes(blocks: int = 6, seed: int = 0) -> Numbers:
    """Signed size of each write along the stream, ⟨F, x⟩/‖x‖², per token of a Pre-Norm decoder.

    negative: share of writes that reduce what is there. opposed: the most negative one. overlap: the share of a write's
    length that lies in the plane of the two writes before it at the same token, beside √(2/d) for random directions.
    """
    model, ids, _ = decoder("pre_norm", blocks, seed=seed)
    states, branches = record(model, ids)
    signed = [(f * x).sum(-1) / (x * x).sum(-1) for f, x in zip(branches, states)]
    shares = []
    for a, b, f in zip(branches, branches[1:], branches[2:]):
        Q = np.linalg.qr(np.stack([a, b], axis=-1).reshape(-1, model.d, 2))[0]  # (B·T, d, 2)
        flat = f.reshape(-1, model.d)
        shares.append(np.linalg.norm(np.einsum("rdk,rd->rk", Q, flat), axis=-1) / np.linalg.norm(flat, axis=-1))
    return {
        "negative": float(np.mean(np.array(signed) < 0)), "opposed": float(np.min(signed)),
        "overlap": float(np.mean(shares)), "random": float(np.sqrt(2 / model.d)),
        "additive": max(relative(x + f, y) for x, f, y in zip(states, branches, states[1:])),
    }  # fmt: skip


@measurement(fast={"d": 1024})
def activation_growth(blocks: int = 24, d: int = 4096, width: int = 64, seed: int = 0) -> Numbers:
    """Size of the Pre-Norm stream by depth, in a decoder and in the model the articles expand.

    slope: of mean ‖x_l‖²/d against the block l; Xiong et al. allow 1/2 … 3/2 per block. curvature: how much the second
    half of the growth exceeds the first (1: linear). error_iid: of LN(x_l) ≈ x_l/√(l+1) when x_0 and all branches are
    independent with unit variance (the largest of `blocks` layers), error_real: in the decoder.
    cos_first, cos_last: between neighbouring states.
    """
    model, ids, _ = decoder("pre_norm", blocks, d=width, seed=seed)
    states, _ = record(model, ids)
    squares = np.array([rms(x) ** 2 for x in states[::2]])
    half = blocks // 2
    slope = float(np.polyfit(np.arange(blocks + 1), squares, 1)[0])
    neighbours = [cosine(a, b) for a, b in itertools.pairwise(states)]
    return {
        "slope": slope, "curvature": float((squares[-1] - squares[half]) / (squares[half] - squares[0])),
        "growth": float(np.sqrt(squares[-1] / squares[0])), "error_iid": _iid_error(blocks, d, seed),
        "error_real": max(_norm_error(x, k) for k, x in enumerate(states[1:], 1)),
        "cos_first": neighbours[0], "cos_last": neighbours[-1], "sublayers": len(neighbours),
        "cos_model": float(np.sqrt(len(neighbours) / (len(neighbours) + 1))),
    }  # fmt: skip


def _norm_error(x: np.ndarray, layers: int) -> float:
    return relative(ops.layernorm(Tensor(x)).data, x / np.sqrt(layers + 1))


def _iid_error(layers: int, d: int, seed: int) -> float:
    rng = np.random.default_rng([seed, 3])
    x = np.cumsum(rng.standard_normal((layers + 1, 8, d)), axis=0)  # (layers + 1, rows, d)
    return max(_norm_error(x[k], k) for k in range(1, layers + 1))


@measurement()
def branch_sizes(blocks: int = 4, seed: int = 0) -> Numbers:
    """rms of each branch's output relative to the stream it joins, at initialisation, by init; and LN's factor 1/s."""
    found: Numbers = {}
    for init in ("xavier", "he", "gpt2", "gpt2_scaled"):
        model, ids, _ = decoder("post_norm", blocks, init=init, d=64, seed=seed)
        states, branches = record(model, ids)
        pairs = list(zip(states, branches))[1:]  # from the first normalised state on
        found[init] = float(np.sqrt(np.mean([rms(f) ** 2 / rms(x) ** 2 for x, f in pairs])))
        found[f"{init}_shrink"] = float(np.mean([1 / rms(x + f) for x, f in pairs]))
    return found


@measurement(fast={"rows": 64, "stacks": 2})
def norm_spectrum(d: int = 64, layers: int = 24, rows: int = 1000, stacks: int = 8, seed: int = 0) -> Numbers:
    """Eigenvalues of LayerNorm's Jacobian at x + F by the size s of F, and what `layers` of them do to a gradient.

    From the experiment `layernorm_spectrum`. value, spread: mean and standard deviation of 1/σ over `rows` random
    vectors; zeros: how many eigenvalues are 0 (fewest, most); law: 1/√(1 + s²). skip, total: size of a gradient behind
    the layers, along the skip alone and in all, mean over `stacks` stacks of random weights, and spread of the total.
    """
    from minires.experiments.layernorm_spectrum import post_norm_stack, spectrum

    rng = np.random.default_rng(seed)
    found: Numbers = {"d": d, "layers": layers, "rows": rows, "stacks": stacks}
    for key, s in (("small", 0.05), ("unit", 1.0)):
        values = np.array([spectrum(s, d, rng) for _ in range(rows)])  # (rows, d), ascending
        zeros = (np.abs(values) < 1e-3).sum(1)
        sizes = [post_norm_stack(s, layers, 256, 32, rng) for _ in range(stacks)]
        skip, total = ([size[name][-1] for size in sizes] for name in ("skip", "total"))
        found |= {f"{key}_value": float(values[:, -1].mean()), f"{key}_spread": float(values[:, -1].std()),
                  f"{key}_zeros": [int(zeros.min()), int(zeros.max())], f"{key}_law": (1 + s * s) ** -0.5,
                  f"{key}_skip": float(np.mean(skip)), f"{key}_total": float(np.mean(total)),
                  f"{key}_total_spread": float(np.std(total))}  # fmt: skip
    return found


# ---------------------------------------------------------------------------------------------- blocks as printed


@measurement()
def attention_pieces(d: int = 32, heads: int = 4, d_k: int = 64, seed: int = 0) -> Numbers:
    """Attention as the articles write it: variance of q·k, entropy of its softmax, and the heads put together.

    heads_error: our attention against Σ_i A_i (h W_V^i) W_O^i. entropy: of the softmax over 64 keys, with √d_k and
    without, as a share of log 64.
    """
    rng = np.random.default_rng(seed)
    q, k = rng.standard_normal((2, 256, 64, d_k))
    scores = np.einsum("rd,rkd->rk", q[:, 0], k)  # (256, 64)
    shares = [ops.softmax(Tensor(scores / scale)).data for scale in (np.sqrt(d_k), 1.0)]
    entropy = [float(np.mean(-(p * np.log(np.maximum(p, 1e-300))).sum(-1)) / np.log(64)) for p in shares]
    model, _, _ = decoder("pre_norm", 1, d=d, seed=seed)
    attention = model.stack.sublayers[0]
    h = Tensor(rng.standard_normal((2, 8, d)))
    return {"variance": float(scores.var()), "d_k": d_k, "scaled": entropy[0], "unscaled": entropy[1],
            "heads_error": relative(_by_heads(attention, h.data, heads), attention(h).data)}  # fmt: skip


def _by_heads(attention: Any, h: np.ndarray, heads: int) -> np.ndarray:
    """Σ_i softmax(Q_i K_iᵀ/√d_k) V_i W_O^i, head by head, causal: (B, T, d)."""
    T, size = h.shape[1], h.shape[2] // heads
    q, k, v = np.split(h @ attention.qkv_weight.data, 3, axis=-1)
    out = np.zeros_like(h)
    for i in range(heads):
        s = slice(i * size, (i + 1) * size)
        scores = q[..., s] @ k[..., s].swapaxes(1, 2) / np.sqrt(size)  # (B, T, T)
        scores = np.where(np.tri(T, dtype=bool), scores, -np.inf)
        out += ops.softmax(Tensor(scores)).data @ v[..., s] @ attention.out_weight.data[s]
    return out


@measurement()
def printed_blocks(seed: int = 0) -> Numbers:
    """One block of ours against what the articles print, relative differences of the outputs.

    post: LN(x + A(x)), then LN(x + M(x)). ffn: the same with M written out, Linear(ReLU(Linear(x))). pre: x + A(LN x),
    then x + M(LN x). diagram: "x + Attention(x) + FFN(x)"
    against the sequential Pre-Norm block, parallel: against the sequential block without norms.
    layerscale: the printed formula x + γ₁A(x) + γ₂F(x) against LayerScale; code: the printed code against LayerScale.
    """
    found: Numbers = {}
    for name in ("post_norm", "pre_norm", "residual", "layerscale"):
        model, ids, _ = decoder(name, 1, seed=seed, activation="relu")
        A, M = model.stack.sublayers
        states, _ = record(model, ids)
        x, y = Tensor(states[0]), states[-1]
        found |= {f"{name}.{key}": relative(value.data, y) for key, value in _printed(x, A, M).items()}
    wanted = {"post": "post_norm.post", "ffn": "post_norm.ffn", "pre": "pre_norm.pre", "diagram": "pre_norm.sum",
              "parallel": "residual.sum", "layerscale": "layerscale.scaled_sum",
              "code": "layerscale.scaled_pre"}  # fmt: skip
    return {key: found[name] for key, name in wanted.items()} | {"gain": _layerscale_gain()}


def _printed(x: Tensor, A: Any, M: Any) -> dict[str, Tensor]:
    """The articles' formulas for one block. The gain is the one our LayerScale starts with."""
    norm, gain = ops.layernorm, _layerscale_gain()
    post, pre, scaled = norm(x + A(x)), x + A(norm(x)), x + gain * A(norm(x))
    by_hand = ops.relu(post @ M.in_weight + M.in_bias) @ M.out_weight + M.out_bias
    return {
        "post": norm(post + M(post)), "ffn": norm(post + by_hand), "pre": pre + M(norm(pre)), "sum": x + A(x) + M(x),
        "scaled_sum": x + gain * A(x) + gain * M(x), "scaled_pre": scaled + gain * M(norm(scaled)),
    }  # fmt: skip


def _layerscale_gain() -> float:
    model = DecoderLM(8, 8, 2, 1, 8, connection="layerscale", dtype=np.float64)
    gains = [p.data for name, p in model.stack.connection.named_parameters() if p.data.ndim == 1 and p.kind == "gate"]
    return float(gains[0].mean())


@measurement()
def block_identities(seed: int = 0) -> Numbers:
    """Small exact facts: F = H - x, [I I] times [x, F], and a branch with weights zero is the identity."""
    rng = np.random.default_rng(seed)
    model = DeepMLP(8, 4, 16, 1, connection="residual", rng=seed, dtype=np.float64)
    block, x = model.stack.sublayers[0], Tensor(rng.standard_normal((5, 16)))
    H, F = model.stack(x).data, block(x).data
    stacked = np.concatenate([x.data, F], axis=1) @ np.concatenate([np.eye(16), np.eye(16)])
    for p in block.parameters():
        p.data[...] = 0
        p.changed()
    return {"residual": relative(H - x.data, F), "combination": relative(stacked, H),
            "lazy": float(np.abs(model.stack(x).data - x.data).max())}  # fmt: skip


@measurement()
def path_count(blocks: int = 5, d: int = 8, seed: int = 0) -> Numbers:
    """The 2^L paths: Σ over all subsets of blocks of the product of their weights, against the network's output.

    linear: for F(x) = x W. relu: for F(x) = relu(x W), where the same expansion is no longer true.
    """
    rng = np.random.default_rng(seed)
    W, x = 0.5 * rng.standard_normal((blocks, d, d)) / np.sqrt(d), rng.standard_normal((4, d))
    found: Numbers = {"blocks": blocks, "paths": 0}
    for name, f in (("linear", lambda h: h), ("relu", lambda h: np.maximum(h, 0))):
        y, total = x, np.zeros_like(x)
        for w in W:
            y = y + f(y @ w)
        for taken in itertools.product((False, True), repeat=blocks):
            part = x
            for w in (w for w, used in zip(W, taken) if used):
                part = f(part @ w)
            total = total + part
        found |= {name: relative(total, y), "paths": 2**blocks}
    return found


@measurement()
def rezero_start(blocks: int = 4, seed: int = 0) -> Numbers:
    """ReZero before the first step: difference of the stack's output from its input, gradients of weights and of α."""
    model, ids, targets = decoder("rezero", blocks, seed=seed)
    x = model.embed(ids)
    named = [(name, p) for name, p in model.named_parameters() if name.startswith("stack")]
    grads = grad(model.loss(ids, targets), [p for _, p in named])
    inside = max(np.abs(g).max() for (name, _), g in zip(named, grads) if "sublayers" in name)
    alpha = min(np.abs(g).max() for (name, _), g in zip(named, grads) if "connection" in name)
    return {"moved": float(np.abs(model.stack(x).data - x.data).max()), "weights": float(inside), "alpha": float(alpha)}


@measurement()
def expert_mixture(seed: int = 0) -> Numbers:
    """A mixture of experts for one token: gradients of the experts that were chosen and of those that were not.

    unselected: their largest gradient. selected: the smallest of the chosen ones' largest. passed: the gradient at x of
    x + Σ p_i E_i minus that of Σ p_i E_i, against the gradient above (the +I).
    """
    from minires.nn import Extras

    model = DecoderLM(8, 16, 2, 1, 8, extras=Extras(experts=4, top_k=2), rng=seed, dtype=np.float64)
    layer: Any = model.stack.sublayers[1]
    rng = np.random.default_rng(seed)
    x, g = Tensor(rng.standard_normal((1, 1, 16)), requires_grad=True), Tensor(rng.standard_normal((1, 1, 16)))
    weights = [p for _, p in layer.named_parameters()]
    grads = grad((layer(x) * g).sum(), weights)
    per_expert = _by_expert(layer, grads)
    inner, outer = grad((layer(x) * g).sum(), [x])[0], grad(((x + layer(x)) * g).sum(), [x])[0]
    silent = sorted(per_expert)[:2]
    return {"unselected": float(max(silent)), "selected": float(min(sorted(per_expert)[2:])),
            "passed": relative(outer - inner, g.data), "experts": len(per_expert)}  # fmt: skip


def _by_expert(layer: Any, grads: list[np.ndarray]) -> list[float]:
    """The largest gradient of each expert's weights."""
    names = [name for name, _ in layer.named_parameters()]
    found: dict[str, float] = {}
    for name, g in zip(names, grads):
        parts = name.split(".")
        if parts[0] == "experts":
            found[parts[1]] = max(found.get(parts[1], 0.0), float(np.abs(g).max()))
    return list(found.values())


@measurement()
def ablation(blocks: int = 4, seed: int = 0) -> Numbers:
    """Leave out one sublayer of a Pre-Norm decoder: x_K - F_k (direct effect) against running again without it (total).

    difference: of the two changes, relative to the total one; for every sublayer but the last, whose two are the same.
    """
    model, ids, _ = decoder("pre_norm", blocks, seed=seed)
    states, branches = record(model, ids)
    K, full, gaps = len(branches), states[-1], []
    for k in range(K):
        total = _without(model, ids, k) - full
        gaps.append(relative(-branches[k], total))
    return {"smallest": min(gaps[:-1]), "largest": max(gaps[:-1]), "last": gaps[-1]}


def _without(model: Any, ids: np.ndarray, k: int) -> np.ndarray:
    """x_K of a run in which sublayer k writes nothing."""
    trace: list[Tensor] = []
    ctx = Context(trace=trace, wrap=lambda site, F: (lambda h: F(h) * (0.0 if site.k == k else 1.0)))
    with no_grad():
        model(ids, ctx)
    return trace[-1].data


@measurement()
def virtual_weights(d: int = 16, seed: int = 0) -> Numbers:
    """x ← x + relu(x W_in) W_out three times, no norm. How a change of block 0's output reaches what block 2 reads.

    direct: along the skip alone, against its virtual weight W_out⁰ W_in². total: with block 1 in between.
    """
    rng = np.random.default_rng(seed)
    W_in, W_out = rng.standard_normal((2, 3, d, d)) / np.sqrt(d)
    x, change = rng.standard_normal((4, d)), rng.standard_normal((4, d))
    hidden = np.maximum(x @ W_in[0], 0)

    def read(hidden: np.ndarray, through: bool) -> np.ndarray:
        first = x + hidden @ W_out[0]
        middle = first if through else x + np.maximum(x @ W_in[0], 0) @ W_out[0]
        return (first + np.maximum(middle @ W_in[1], 0) @ W_out[1]) @ W_in[2]

    virtual = change @ W_out[0] @ W_in[2]
    return {key: relative(read(hidden + change, through) - read(hidden, through), virtual)
            for key, through in (("direct", False), ("total", True))}  # fmt: skip


@measurement()
def deepnorm_step(blocks: int = 24, seed: int = 0) -> Numbers:
    """How near a layer is to the identity: cos(x_k, x_{k+1}) for DeepNorm and Post-Norm, and skip against branch.

    ratio: rms(F) / (α rms(x)), with α = 1 in Post-Norm. Means over sublayers; lowest: the smallest cos. formula:
    DeepNorm's step against LN(αx + F(x)), largest relative difference.
    """
    found: Numbers = {"blocks": blocks}
    for name in ("deepnorm", "post_norm"):
        model = get_recipe(name).build(32, blocks, d=32, heads=4, context=16, rng=seed, dtype=np.float64)
        states, branches = record(model, np.random.default_rng(seed).integers(0, 32, (2, 16)))
        alpha = getattr(model.stack.connection, "alpha", 1.0)
        shares = [rms(f) / (alpha * rms(x)) for x, f in zip(states, branches)]
        near = [cosine(a, b) for a, b in itertools.pairwise(states)]
        printed = [ops.layernorm(Tensor(alpha * x + f)).data for x, f in zip(states, branches)]
        found |= {f"{name}_cos": float(np.mean(near)), f"{name}_lowest": min(near),
                  f"{name}_ratio": float(np.mean(shares)), f"{name}_alpha": float(alpha),
                  f"{name}_formula": max(map(relative, printed, states[1:]))}  # fmt: skip
    return found


# ----------------------------------------------------------------------------------------------- Hyper-Connections


@measurement(fast={"draws": 100})
def sinkhorn_error(n: int = 4, steps: int = 20, draws: int = 1000, seed: int = 0) -> Numbers:
    """Mean |column sum - 1| after Sinkhorn, by the spread of the logits (standard deviation).

    spread: where the mean error is 0.4 %, by bisection. default: the error at our starting values (0 and -8).
    """
    logits = np.random.default_rng(seed).standard_normal((draws, n, n))

    def error(spread: float) -> float:
        return float(np.mean(np.abs(sinkhorn_forward(spread * logits, steps)[0].sum(-2) - 1)))

    low, high = 0.0, 40.0
    for _ in range(40):
        low, high = (low, (low + high) / 2) if error((low + high) / 2) > 0.004 else ((low + high) / 2, high)
    start = sinkhorn_forward(np.where(np.eye(n), 0.0, -8.0)[None], steps)[0]
    rows = float(np.abs(sinkhorn_forward(8 * logits, steps)[0].sum(-1) - 1).max())
    return {"spread": low, "at_1": error(1.0), "at_4": error(4.0), "at_16": error(16.0), "rows": rows, "steps": steps,
            "default": float(np.abs(start.sum(-2) - 1).max())}  # fmt: skip


@measurement(fast={"draws": 5})
def mixing_products(layers: int = 60, n: int = 4, draws: int = 20, seed: int = 0) -> Numbers:
    """Products of `layers` mixing matrices: free ones near I (Hyper-Connections), and doubly stochastic ones (mHC).

    free, safe: gain of the product C, max_i |Σ_j C_ij| (median and largest over the draws). second: its second singular
    value; 0 means that all copies of the stream have become their average. expansion: the largest norm of one factor.
    mean: change of the average.
    """
    rng = np.random.default_rng(seed)
    free, safe, second, single, mean = [], [], [], [], []
    for _ in range(draws):
        A = np.eye(n) + 0.3 * rng.standard_normal((layers, n, n))
        M = sinkhorn_forward(rng.standard_normal((layers, n, n)), 100)[0]
        product = np.linalg.multi_dot(M)
        free.append(np.abs(np.linalg.multi_dot(A).sum(1)).max())
        safe.append(np.abs(product.sum(1)).max())
        second.append(np.linalg.svd(product)[1][1])
        single.append(np.linalg.norm(M, ord=2, axis=(1, 2)).max())
        x = rng.standard_normal((n, 16))
        mean.append(np.abs((product @ x).mean(0) - x.mean(0)).max())
    return {"free": float(np.median(free)), "safe": float(max(safe)), "second": float(max(second)),
            "expansion": float(max(single)), "mean": float(max(mean)), "layers": layers}  # fmt: skip


@measurement()
def dynamic_weights(seed: int = 0) -> Numbers:
    """Whether Hyper-Connections' mixing weights depend on the input: their change from one token to another.

    Dynamic weights start with W = 0, so these have been drawn at random first.
    """
    rng, found = np.random.default_rng(seed), {}
    for key, name in (("static", "hyper_connections"), ("dynamic", "dynamic_hyper_connections")):
        model = DecoderLM(8, 16, 2, 1, 8, connection=name, rng=seed, dtype=np.float64)
        connection: Any = model.stack.connection
        for p in connection.parameters():
            p.data[...] = p.data + 0.5 * rng.standard_normal(p.shape)
        H = Tensor(rng.standard_normal((1, 2, 4, 16)))
        A_r = np.broadcast_to(connection.weights(H, model.stack.sites[0])[1].data, (1, 2, 4, 4))
        found[key] = float(np.abs(A_r[0, 0] - A_r[0, 1]).max())
    return found
