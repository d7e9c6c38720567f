"""Jacobians of the whole stack: singular values of ∂x_K/∂x_0, of its skip path, and of the norms on that path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from minires.messages import ValueProblem
from minires.probes.picture import curves
from minires.probes.running import enter, forward, require_one_stream, single_stream, stack_of
from minires.tensor import Tensor, grad

LARGEST = 2048  # rows: a matrix of 2048² float64 takes 32 MB, and its SVD half a minute


@dataclass(frozen=True)
class Spectrum:
    """Singular values of a Jacobian, largest first. matrix: itself, (n, n), rows are outputs."""

    matrix: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, matrix: np.ndarray) -> Spectrum:
        return cls(matrix, np.linalg.svd(matrix, compute_uv=False))

    @property
    def rms(self) -> float:
        """√(mean σ²): the factor on a random gradient."""
        return float(np.sqrt(np.mean(self.values**2)))

    @property
    def summary(self) -> dict[str, float]:
        v = self.values
        return {"largest": float(v[0]), "median": float(np.median(v)), "smallest": float(v[-1]), "rms": self.rms}

    @property
    def null_directions(self) -> int:
        """How many singular values are 0, up to 1e-10 of the largest (1e-5 in float32)."""
        tiny = 1e-5 if self.matrix.dtype == np.float32 else 1e-10
        return int(np.sum(self.values <= tiny * self.values[0]))

    def draw(self) -> Any:
        title = "Singular values of the Jacobian"
        return curves({"σ": self.values}, xlabel="number", ylabel="singular value", title=title, log=True)


def jacobian_spectrum(
    model: Any, inputs: Any, *, skip_only: bool = False, token: int | None = None, closed: bool = False
) -> Spectrum:
    """∂x_K/∂x_0, by one backward pass per row. Under a rule with several streams x_0 is what enters the stack.

    token: only the block of that token with itself (of the first sample), (d, d); else all of (B·T·d)². skip_only:
    every branch's backward pass is zero. closed: the output behind the final norm instead of x_K.
    Dynamical isometry is all σ near 1; ReZero at its start has σ = 1 exactly. Raises ValueProblem above 2048 rows.
    """
    data, ctx = enter(model, inputs)
    x = Tensor(data, requires_grad=True)
    ctx.trace, ctx.wrap = [], _skip if skip_only else None
    y = stack_of(model)(x, ctx)
    start = ctx.trace[0] if single_stream(model, data) else x
    y = y if closed else ctx.trace[-1]
    rows = _rows(data.shape, token)
    if y.node is None:  # no path at all: plain networks without branches
        return Spectrum.of(np.zeros((len(rows), len(rows)), data.dtype))
    found = [grad(y, [start], _unit(row, data), retain_graph=True)[0].ravel()[rows] for row in rows]
    return Spectrum.of(np.array(found))


def _skip(site: Any, F: Callable) -> Callable:
    return lambda h: F(h).detach()


def _rows(shape: tuple[int, ...], token: int | None) -> np.ndarray:
    """Places in the flattened state."""
    places = np.arange(int(np.prod(shape))).reshape(shape)
    rows = places.ravel() if token is None else places.reshape(-1, shape[-1])[token]
    if len(rows) > LARGEST:
        hint = "Pass token=0 for one token's own block, or fewer and shorter sequences."
        raise ValueProblem(f"a Jacobian is built row by row, up to {LARGEST} rows", f"{len(rows)} rows", hint)
    return rows


def _unit(row: int, like: np.ndarray) -> np.ndarray:
    e = np.zeros(like.size, like.dtype)
    e[row] = 1
    return e.reshape(like.shape)


# --------------------------------------------------------------------------------------------- norms on the skip path


@dataclass(frozen=True)
class ComposedNorms:
    """The product of all factors on the skip path, token by token.

    values: singular values, (tokens, d). gain: rms factor on a random gradient, (tokens,). inverse_s: product of the
    factors' own sizes (each factor's median singular value), (tokens,): the gain if no factor removed directions.
    """

    values: np.ndarray
    gain: np.ndarray
    inverse_s: np.ndarray

    @property
    def null_directions(self) -> np.ndarray:
        """Zero singular values per token, up to 1e-9 of the largest."""
        return (self.values <= 1e-9 * self.values[:, :1]).sum(-1)

    def draw(self) -> Any:
        series = {f"token {i}": row for i, row in enumerate(self.values[:4])}
        title = "The norms of the skip path, multiplied"
        return curves(series, xlabel="number", ylabel="singular value", title=title, log=True)


def composed_norms(model: Any, inputs: Any, tokens: int = 4) -> ComposedNorms:
    """∏ (∂x_{l+1}/∂x_l with J_F = 0) for the first `tokens` tokens: in Post-Norm ∏ J_LN, in Pre-Norm exactly I.

    Uses each connection's own `jacobian`. Raises ValueProblem for rules with more than one stream.
    """
    stack, run = stack_of(model), forward(model, inputs)
    require_one_stream(model, enter(model, inputs)[0], "the product of the norms on the skip path")
    if stack.connection.arity > 1:
        raise ValueProblem(
            "the skip path's factors are read one sublayer at a time",
            "a rule that joins two at once", "Its skip path passes no norm: see jacobian_spectrum(skip_only=True).",
        )  # fmt: skip
    d = run.states[0].shape[-1]
    states, written = (
        [a.astype(np.float64).reshape(-1, d)[:tokens] for a in part] for part in (run.states, run.written)
    )
    products = np.broadcast_to(np.eye(d), (len(states[0]), d, d))
    inverse_s = np.ones(len(products))
    for x, f, site in zip(states, written, stack.sites):
        zero = np.zeros((d, d))
        factors = np.array([stack.connection.jacobian(x_t, site, zero, f_t) for x_t, f_t in zip(x, f)])
        products = factors @ products  # (tokens, d, d)
        inverse_s = inverse_s * np.median(np.linalg.svd(factors, compute_uv=False), axis=-1)
    values = np.linalg.svd(products, compute_uv=False)
    return ComposedNorms(values, np.sqrt(np.mean(values**2, axis=-1)), inverse_s)
