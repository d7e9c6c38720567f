"""Measurements that are arithmetic: powers of one number, constants of papers, counts of parameters."""

from __future__ import annotations

import math

import numpy as np

from minires.claims.ledger import Numbers, measurement


@measurement()
def powers() -> Numbers:
    """The articles' toy: one number per layer, multiplied."""
    return {"p09": 0.9**50, "p11": 1.1**50, "p095": 0.95**100, "p105": 1.05**100}


@measurement()
def deepnorm_alpha(blocks: int = 1000) -> Numbers:
    """DeepNorm's α and β for a stack of N blocks, for the real network's halves, and the article's √(41 N)."""
    from minires.residual.deepnorm import deepnorm_constants

    alpha, beta = deepnorm_constants(decoder=blocks)["decoder"]
    half = deepnorm_constants(encoder=blocks // 2, decoder=blocks // 2)
    return {
        "alpha": alpha, "beta": beta, "article": math.sqrt(41 * blocks),
        "encoder": half["encoder"][0], "decoder": half["decoder"][0],
    }  # fmt: skip


@measurement()
def gpt2_factor() -> Numbers:
    """1/√N for the residual layers of GPT-2's four sizes, and where the factor sits: in fresh weights, or at run time.

    init_ratio: size of a fresh output projection, scaled relative to unscaled. runtime_difference: how far the scaled
    model's step is from x + F(LN(x)) without any factor.
    """
    blocks = {"small": 12, "medium": 24, "large": 36, "XL": 48}
    factors = {name: 1 / math.sqrt(2 * n) for name, n in blocks.items()}
    near = [name for name, f in factors.items() if abs(f - 0.14) < 0.005]
    ratio, runtime = _scaled_weight(12), _runtime_factor()
    return {"factors": factors, **factors, "near": near, "init_ratio": ratio, "runtime_difference": runtime}


def _scaled_weight(blocks: int) -> float:
    from minires.models import DecoderLM

    plain, scaled = (DecoderLM(8, 16, 2, blocks, 8, init=init, rng=0) for init in ("gpt2", "gpt2_scaled"))
    a, b = (float(np.std(m.stack.sublayers[0].out_weight.data)) for m in (plain, scaled))  # type: ignore[attr-defined]
    return b / a


def _runtime_factor() -> float:
    from minires.models import DecoderLM
    from minires.probes.gradient import record

    model = DecoderLM(8, 16, 2, 4, 8, init="gpt2_scaled", rng=0, dtype=np.float64)
    states, branches = record(model, np.arange(8)[None])
    return float(max(np.abs(y - x - f).max() for x, y, f in zip(states, states[1:], branches)))


@measurement()
def bandwidth(d: int = 64, blocks: int = 50, layer: int = 25) -> Numbers:
    """Neurons per layer and before a layer, beside the dimensions of the stream."""
    from minires.models import DecoderLM

    model = DecoderLM(8, d, 4, 1, 8, rng=0)
    hidden = model.stack.sublayers[1].in_weight.shape[1]  # type: ignore[attr-defined]
    return {"ratio": hidden / d, "before": layer * hidden / d, "layer": layer, "blocks": blocks}


@measurement()
def connection_counts(n: int = 4, depths: tuple = (2, 8)) -> Numbers:
    """Shapes and parameter counts of Hyper-Connections, by depth, beside DenseFormer's mix of all earlier layers.

    per_site: Hyper-Connection weights at one sublayer. dense: DenseFormer's weights at the last block. adds: residual
    additions in a block, sequential and parallel.
    """
    from minires.models import DecoderLM

    hyper = [DecoderLM(8, 16, 2, b, 8, connection="hyper_connections").stack.connection for b in depths]
    dense = [DecoderLM(8, 16, 2, b, 8, connection="denseformer").stack.connection for b in depths]
    one = hyper[0]
    shapes = [list(w[0].shape) for w in (one.read_weights, one.mix_weights, one.write_weights)]  # type: ignore
    gates = [[p.size for _, p in c.named_parameters() if p.kind == "gate"] for c in (*hyper, *dense)]
    sites = [2 * b for b in depths]
    return {
        "shapes": shapes, "n": n, "depths": list(depths),
        "per_site": [sum(g) / s for g, s in zip(gates[:2], sites)], "dense": [g[-1] for g in gates[2:]],
    }  # fmt: skip


@measurement()
def additions(blocks: int = 3) -> Numbers:
    """How many times something is added to the stream in a block: sequential and parallel."""
    from minires.models import DecoderLM

    def count(connection: str) -> float:
        from minires.nn import Context

        ctx = Context(trace=[])
        DecoderLM(8, 16, 2, blocks, 8, connection=connection)(np.arange(8)[None], ctx)
        return (len(ctx.trace or []) - 1) / blocks

    return {"sequential": count("pre_norm"), "post": count("post_norm"), "parallel": count("parallel")}
