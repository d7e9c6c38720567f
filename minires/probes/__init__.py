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

__all__ = [
    "Decomposition", "GradientFlow", "gradient_flow", "inverse_size_product", "layernorm_jacobian", "record",
    "skip_branch_decomposition", "skip_path_product", "state_gradients",
]  # fmt: skip
