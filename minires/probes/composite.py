"""Hyper-Connections: what the mixing matrices do together, and how far each is from doubly stochastic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from minires.messages import ValueProblem
from minires.nn import Context
from minires.probes.picture import curves
from minires.probes.running import Seen, as_input, rule_name, seen_through, stack_of
from minires.residual.hyper import HyperConnections
from minires.residual.mhc import MHC
from minires.tensor import Tensor, no_grad


@dataclass(frozen=True)
class Composite:
    """The product C = H_K ⋯ H_l of the mixing matrices from sublayer l to the end, (K,) each.

    forward: max_i |Σ_j C_ij|, a signal's gain; backward: max_j |Σ_i C_ij|, a gradient's; both are means over tokens.
    second: second singular value of C, largest over tokens (0: all copies have become one; NaN for one copy).
    row_error, column_error: max |sum - 1| of each single matrix, over tokens.
    """

    forward: np.ndarray
    backward: np.ndarray
    second: np.ndarray
    row_error: np.ndarray
    column_error: np.ndarray

    def draw(self) -> Any:
        series = {"forward gain": self.forward, "backward gain": self.backward}
        options: dict[str, Any] = dict(xlabel="from sublayer l to the end", ylabel="gain", log=True)
        return curves(series, title="Composite mixing", **options)


def composite_gain(model: Any, inputs: Any) -> Composite:
    """Amax gain magnitude of the product of all mixing matrices: sum each row (column), then take the largest size.

    The sum comes first, so entries of opposite sign cancel: a row sum is what a signal gets that is the same in all
    copies, as at the start. The norm of the matrix, with the sizes summed, can be larger. Attention and feed-forward
    count as a sublayer each. Source: mHC, arXiv:2512.24880, section 3.1 and figure 3.

    Raises ValueProblem for rules without mixing matrices.
    """
    return composite_of(mixing_matrices(model, inputs))


def composite_of(matrices: list[np.ndarray]) -> Composite:
    """The same for given matrices, each (tokens, n, n), first sublayer first, acting from the left."""
    product, found = np.eye(matrices[0].shape[-1]), []
    for H in reversed(matrices):
        product = product @ H  # (tokens, n, n)
        rows, columns = (np.abs(product.sum(axis)).max(-1).mean() for axis in (-1, -2))
        sigma = np.linalg.svd(product, compute_uv=False)
        second = sigma[:, 1].max() if sigma.shape[-1] > 1 else np.nan
        found.append((rows, columns, second, _error(H, -1), _error(H, -2)))
    return Composite(*np.array(found[::-1]).T)


def mixing_matrices(model: Any, inputs: Any) -> list[np.ndarray]:
    """H of every sublayer as it acts on the copies from the left, (tokens, n, n): A_rᵀ in HC, H_res in mHC."""
    rule = stack_of(model).connection
    if not isinstance(rule, HyperConnections | MHC):
        raise ValueProblem(
            "composite gain needs a rule that mixes several copies of the stream",
            rule_name(model),
            "Hyper-Connections and mHC have mixing matrices; here the skip path is known without measuring.",
        )
    found: list[np.ndarray] = []
    with no_grad():
        seen_through(model, _Spy(rule, found))(as_input(inputs), ctx=Context())
    return found


class _Spy(Seen):
    """Writes down the mixing matrix before every step."""

    def __init__(self, connection: Any, found: list[np.ndarray]):
        super().__init__(connection)
        self.found = found

    def step(self, stream: Tensor, site: Any, *F: Callable) -> Tensor:
        weights = self.connection.weights(stream, site)  # (read, write, mix) in mHC, (read, mix, write) in HC
        H = weights[2].data if isinstance(self.connection, MHC) else weights[1].data.swapaxes(-1, -2)
        H = H.astype(np.float64)
        self.found.append(H.reshape(-1, *H.shape[-2:]))
        return self.connection.step(stream, site, *F)


def _error(H: np.ndarray, axis: int) -> float:
    return float(np.abs(H.sum(axis) - 1).max())
