"""Instruments on a model: what its gradients do, how a block is wired, what its graph looks like."""

from minires.probes.gradient import (
    Decomposition,
    GradientFlow,
    gradient_flow,
    inverse_size_product,
    layernorm_jacobian,
    record,
    skip_branch_decomposition,
    skip_path_product,
    state_gradients,
)
from minires.probes.graph import draw_graph
from minires.probes.verdicts import Fault, Wiring
from minires.probes.wiring import wiring, wiring_of

__all__ = [
    "Decomposition", "Fault", "GradientFlow", "Wiring", "draw_graph", "gradient_flow", "inverse_size_product",
    "layernorm_jacobian", "record", "skip_branch_decomposition", "skip_path_product", "state_gradients", "wiring",
    "wiring_of",
]  # fmt: skip
