"""The training step in PyTorch's eager mode, on copies of our parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minires.bench.peers import torch_or_none, torch_threads
from minires.bench.step_ours import DECAY, LR, Size, Step
from minires.models import DecoderLM


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
