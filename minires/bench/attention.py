"""Causal attention, forward and backward together, beside its NumPy twin and PyTorch's fused one."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from minires.bench.peak import roofs
from minires.bench.peers import torch_or_none
from minires.bench.timing import side_by_side
from minires.tensor import OPS

LENGTHS, HEADS = (64, 128, 256, 512, 1024), (16, 32, 64)
QUICK_LENGTHS, QUICK_HEADS = (64, 256), (16, 64)
LONG = (2048, 4096)  # memory is compared between these two lengths


def attention(quick: bool) -> list[dict[str, Any]]:
    """A row per length and head size, then the memory of a long sequence."""
    lengths, heads = (QUICK_LENGTHS, QUICK_HEADS) if quick else (LENGTHS, HEADS)
    return [row(t, dh, quick) for t in lengths for dh in heads] + [memory(16)]


def row(t: int, dh: int, quick: bool) -> dict[str, Any]:
    """One size: as many heads as keep the work between rows comparable, but at least 4."""
    count = max(4, 4096 // t)
    q, k, v, dy = inputs(count, t, dh)
    works = {"minires": lambda: both(q, k, v, dy), "NumPy": lambda: both(q, k, v, dy, reference=True)}
    theirs = torch_both(q, k, v, dy)
    times = side_by_side(works | ({"PyTorch": theirs} if theirs else {}), 0.1 if quick else 0.3)
    flops, size = 6 * count * t * (t + 1) * dh, 8 * q.nbytes
    seconds = times.median("minires")
    return {
        "work": "attention both", "T": t, "head": dh, "heads": count, "µs": seconds * 1e6,
        "flops": flops, "bytes": size,
        "GFLOP/s": flops / seconds * 1e-9, "share of roof": roofs(quick).roof(flops, size) / seconds,
        **times.ratios("minires"),
    }  # fmt: skip


def inputs(heads: int, t: int, dh: int) -> np.ndarray:
    """q, k, v and dy: (4, 1, heads, t, dh)."""
    return np.random.default_rng(0).standard_normal((4, 1, heads, t, dh)).astype(np.float32)


def both(q: Any, k: Any, v: Any, dy: Any, reference: bool = False) -> Any:
    """(dq, dk, dv) of causal attention.

    Operations: q kᵀ and P v forward, four products of that size backward, each 2 dh for each of T (T + 1)/2 pairs.
    """
    op = OPS["attention"]
    forward, backward = op.reference if reference else (op.forward, op.backward)
    return backward(dy, forward(q, k, v, causal=True)[1])


def torch_both(*arrays: np.ndarray) -> Callable[[], Any] | None:
    """The same with scaled_dot_product_attention, or None without PyTorch."""
    torch = torch_or_none()
    if torch is None:
        return None
    q, k, v, dy = (torch.from_numpy(a.copy()) for a in arrays)
    leaves = [a.requires_grad_() for a in (q, k, v)]
    attend = torch.nn.functional.scaled_dot_product_attention
    return lambda: torch.autograd.grad(attend(*leaves, is_causal=True), leaves, dy)


def memory(dh: int) -> dict[str, Any]:
    """The most memory that forward and backward hold beyond their inputs (one head), and for twice the length."""
    low, high = (most_memory(t, dh) for t in LONG)
    return {"work": "attention memory", "T": LONG[0], "head": dh, "MB": low / 2**20, "twice T": high / low}


def most_memory(t: int, dh: int) -> int:
    """Bytes, as NumPy reports them to Python."""
    q, k, v, dy = inputs(1, t, dh)
    both(q, k, v, dy)
    tracemalloc.start()
    try:
        both(q, k, v, dy)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
