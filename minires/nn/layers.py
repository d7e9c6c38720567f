"""The small layers: Linear, LayerNorm, RMSNorm, Embedding, Dropout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minires import ops
from minires.messages import UnknownName, ValueProblem, shown
from minires.nn.init import Init, get_init
from minires.nn.module import Module, Parameter
from minires.tensor import Tensor


@dataclass(frozen=True)
class Maker:
    """What every layer of one model shares while it is built: the random numbers, the initialiser, the dtype.

    rng: numpy Generator or a seed. init: a name or an `Init`. sublayers: K, how many sublayers the model has.
    """

    rng: np.random.Generator
    init: Init
    dtype: Any = np.float32
    sublayers: int = 1

    @classmethod
    def of(
        cls, rng: np.random.Generator | int, init: str | Init = "xavier", dtype: Any = np.float32, sublayers: int = 1
    ):
        return cls(np.random.default_rng(rng), get_init(init), np.dtype(dtype), sublayers)

    def weight(self, n_in: int, n_out: int, role: str) -> Parameter:
        """An (in, out) weight for `role`."""
        return Parameter(self.init.weight(self.rng, (n_in, n_out), role, self.sublayers).astype(self.dtype))

    def table(self, rows: int, d: int, role: str = "embedding") -> Parameter:
        """A (rows, d) embedding table."""
        return Parameter(self.init.embedding(self.rng, (rows, d), role, self.sublayers).astype(self.dtype), "embedding")

    def zeros(self, *shape: int, kind: str = "bias") -> Parameter:
        return Parameter(np.zeros(shape, self.dtype), kind)

    def ones(self, *shape: int, kind: str = "norm") -> Parameter:
        return Parameter(np.ones(shape, self.dtype), kind)


def check_positive(**sizes: int) -> None:
    """Raise ValueProblem unless every size is a whole number of at least 1."""
    for name, size in sizes.items():
        if not isinstance(size, int | np.integer) or size < 1:
            raise ValueProblem(
                f"{name} must be a whole number of at least 1", shown(size), "Sizes count things: 64, not 64.0."
            )


class Linear(Module):
    """y = x W + b over the last axis; weight (in, out), bias (out,)."""

    describes_own = True

    def __init__(self, n_in: int, n_out: int, make: Maker, bias: bool = True, role: str = "linear"):
        check_positive(n_in=n_in, n_out=n_out)
        self.weight = make.weight(n_in, n_out, role)
        self.bias = make.zeros(n_out) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return ops.linear(x, self.weight, self.bias)

    def describe(self) -> str:
        return "{} → {}".format(*self.weight.shape) + ("" if self.bias is not None else ", no bias")


class LayerNorm(Module):
    """y = γ (x - μ)/√(σ² + eps) + β over the last axis; γ starts at 1, β at 0."""

    describes_own = True

    def __init__(self, d: int, make: Maker, eps: float = 1e-5):
        check_positive(d=d)
        self.gamma, self.beta, self.eps = make.ones(d), make.zeros(d, kind="norm"), eps

    def forward(self, x: Tensor) -> Tensor:
        return ops.layernorm(x, self.gamma, self.beta, eps=self.eps)

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        """∂y/∂x of every row: (…, d) → (…, d, d)."""
        return layernorm_jacobian(x, self.gamma.data, self.eps)

    def describe(self) -> str:
        return str(self.gamma.size)


def layernorm_jacobian(x: np.ndarray, gamma: np.ndarray | None = None, eps: float = 1e-5) -> np.ndarray:
    """J_LN = diag(γ) r (I - 11ᵀ/d - x̂x̂ᵀ/d) for every row of x (…, d); result (…, d, d), J[…, i, j] = ∂y_i/∂x_j.

    For eps = 0 and γ = 1 it is symmetric with eigenvalues 0, 0 (directions 1 and x̂) and 1/σ (d - 2 times).
    """
    d = x.shape[-1]
    centred = x - x.mean(axis=-1, keepdims=True)
    r = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    xhat = centred * r
    core = np.eye(d) - 1 / d - xhat[..., :, None] * xhat[..., None, :] / d  # (…, d, d)
    return r[..., None] * core * (1 if gamma is None else gamma[:, None])


class RMSNorm(Module):
    """y = γ x/√(mean x² + eps) over the last axis; γ starts at 1."""

    describes_own = True

    def __init__(self, d: int, make: Maker, eps: float = 1e-5):
        check_positive(d=d)
        self.gamma, self.eps = make.ones(d), eps

    def forward(self, x: Tensor) -> Tensor:
        return ops.rmsnorm(x, self.gamma, eps=self.eps)

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        """diag(γ) r (I - x̂x̂ᵀ/d) for every row: (…, d) → (…, d, d)."""
        d = x.shape[-1]
        r = 1 / np.sqrt((x**2).mean(axis=-1, keepdims=True) + self.eps)
        xhat = x * r
        core = np.eye(d) - xhat[..., :, None] * xhat[..., None, :] / d
        return r[..., None] * core * self.gamma.data[:, None]

    def describe(self) -> str:
        return str(self.gamma.size)


class DyT(Module):
    """y = γ tanh(α x) + β, in the place of a norm; α, one number, starts at 0.5, γ at 1, β at 0.

    Source: Zhu et al. 2025, arXiv:2503.10622. Discrepancy: lucidrains/x-transformers starts at α = 1.
    """

    def __init__(self, d: int, make: Maker, alpha: float = 0.5):
        check_positive(d=d)
        self.alpha = Parameter(np.full((), alpha, make.dtype), "norm")
        self.gamma, self.beta = make.ones(d), make.zeros(d, kind="norm")

    def forward(self, x: Tensor) -> Tensor:
        return ops.dyt(x, self.alpha, self.gamma, self.beta)

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        """α diag(γ (1 - tanh²(αx))) for every row: (…, d) → (…, d, d)."""
        alpha = float(self.alpha.data)
        slope = alpha * self.gamma.data * (1 - np.tanh(alpha * x) ** 2)  # (…, d)
        return slope[..., :, None] * np.eye(x.shape[-1])

    def describe(self) -> str:
        return str(self.gamma.size)


NORMS: dict[str, Any] = {"layernorm": LayerNorm, "rmsnorm": RMSNorm, "dyt": DyT}


def get_norm(norm: str) -> Any:
    """A norm class by name. Raises UnknownName."""
    if norm not in NORMS:
        raise UnknownName("norm", norm, NORMS)
    return NORMS[norm]


class Embedding(Module):
    """Row i of a (rows, d) table for token id i."""

    describes_own = True

    def __init__(self, rows: int, d: int, make: Maker, role: str = "embedding"):
        check_positive(rows=rows, d=d)
        self.table = make.table(rows, d, role)

    def forward(self, ids: Any) -> Tensor:
        return ops.embedding(self.table, ids)

    def describe(self) -> str:
        return "{} × {}".format(*self.table.shape)


class Dropout(Module):
    """Random zeros while training; nothing in eval mode. The generator belongs to the model."""

    def __init__(self, p: float, rng: np.random.Generator):
        if not 0 <= p < 1:
            raise ValueProblem("the dropout probability must be in [0, 1)", shown(p), "Write 0.1 for ten percent.")
        self.p, self.rng = p, rng

    @property
    def silent(self) -> bool:
        return self.p == 0

    def forward(self, x: Tensor, rng: np.random.Generator | None = None) -> Tensor:
        if not self.training or self.p == 0:
            return x
        return ops.dropout(x, p=self.p, rng=rng or self.rng)

    def describe(self) -> str:
        return f"{self.p}"
