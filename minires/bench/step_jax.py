"""The training step in JAX: loss, gradients and AdamW in one compiled function, on copies of our parameters.

XLA compiles what is written, so that two ways of writing the same step differ in speed; here is the fastest that was
found. Tokens lie along one axis everywhere but in attention: with (B, T, d) the gradient by a weight sums over two
axes, and that product takes twice as long. Attention written out is faster than jax.nn.dot_product_attention.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minires.bench.peers import jax_or_none
from minires.bench.step_ours import DECAY, LR, Size, Step
from minires.models import DecoderLM

B1, B2, EPS = 0.9, 0.999, 1e-8  # as in our AdamW
Weights = dict[str, Any]


def jax_steps(model: DecoderLM, size: Size, threads: int = 1) -> dict[str, Step]:
    """{"JAX": a compiled step on a copy of the model}, or nothing where it is not installed.

    The first call compiles, which takes seconds. Only the steps made last may be taken once `threads` has changed.
    """
    jax = jax_or_none(threads)
    if jax is None:
        return {}
    weights, decoder = {name: jax.numpy.array(p.data) for name, p in model.named_parameters()}, Decoder(jax, size)
    decays = {name: DECAY * p.decays for name, p in model.named_parameters()}
    state = [weights, *(jax.tree.map(jax.numpy.zeros_like, weights) for _ in "mv"), jax.numpy.int32(0)]

    def update(state: list, x: Any, y: Any) -> tuple[Any, list]:
        loss, gradients = jax.value_and_grad(decoder.loss)(state[0], x, y)
        return loss, adamw(jax.numpy, state, gradients, decays)

    compiled = jax.jit(update, donate_argnums=0)  # the new weights may take the old ones' place

    def step(x: np.ndarray, y: np.ndarray) -> float:
        loss, state[:] = jax.block_until_ready(compiled(state, x, y))
        return float(loss)

    return {"JAX": step}


def adamw(jnp: Any, state: list, gradients: Weights, decays: dict[str, float]) -> list:
    """The state [weights, m, v, t] after one more update: `minires.train.updates.adamw_step`, one array at a time."""
    weights, m, v, t = *state[:3], state[3] + 1
    c1, c2 = (-1 / jnp.expm1(t * np.log(b)) for b in (B1, B2))  # 1/(1 - bᵗ), and no digits lost where bᵗ is near 1
    m = {name: B1 * m[name] + (1 - B1) * g for name, g in gradients.items()}
    v = {name: B2 * v[name] + (1 - B2) * g * g for name, g in gradients.items()}
    change = {name: c1 * m[name] / (jnp.sqrt(c2 * v[name]) + EPS) for name in weights}
    return [{name: p - LR * (decays[name] * p + change[name]) for name, p in weights.items()}, m, v, t]


class Decoder:
    """The Pre-Norm decoder as pure functions of the weights, which go by our names."""

    def __init__(self, jax: Any, size: Size):
        self.jax, self.jnp, self.size = jax, jax.numpy, size

    def loss(self, w: Weights, ids: Any, targets: Any) -> Any:
        """Mean cross-entropy. ids, targets: (B, T)."""
        x = (w["tokens.table"][ids] + w["positions"]).reshape(-1, self.size.d)  # (B T, d)
        for k in range(2 * self.size.layers):
            x = x + (self.feed if k % 2 else self.attend)(w, self.norm(w, x, f"norms.{k}"), f"stack.sublayers.{k}")
        logits = self.norm(w, x, "final_norm") @ w["head.weight"]  # (B T, vocab)
        log_p = self.jax.nn.log_softmax(logits)
        return -self.jnp.take_along_axis(log_p, targets.reshape(-1, 1), axis=-1).mean()

    def norm(self, w: Weights, x: Any, place: str) -> Any:
        at, centred = f"stack.connection.{place}", x - x.mean(-1, keepdims=True)
        rstd = self.jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)  # (B T, 1)
        return centred * rstd * w[f"{at}.gamma"] + w[f"{at}.beta"]

    def linear(self, w: Weights, x: Any, at: str) -> Any:
        return x @ w[f"{at}_weight"] + w[f"{at}_bias"]

    def attend(self, w: Weights, x: Any, at: str) -> Any:
        batch, length, _, _, heads = self.size
        split = self.linear(w, x, f"{at}.qkv").reshape(batch, length, 3, heads, -1)
        q, k, v = split.transpose(2, 0, 3, 1, 4)  # (B, heads, T, dh) each
        scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5  # (B, heads, T, T)
        seen = np.tril(np.ones((length, length), bool))
        mixed = self.jax.nn.softmax(self.jnp.where(seen, scores, -self.jnp.inf)) @ v  # (B, heads, T, dh)
        return self.linear(w, mixed.swapaxes(1, 2).reshape(x.shape), f"{at}.out")

    def feed(self, w: Weights, x: Any, at: str) -> Any:
        hidden = self.jax.nn.gelu(self.linear(w, x, f"{at}.in"), approximate=True)  # (B T, 4 d)
        return self.linear(w, hidden, f"{at}.out")
