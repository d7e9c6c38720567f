"""Residual connections: one file per rule for how a sublayer's output joins the stream."""

from minires.residual import (  # noqa: F401  each file registers its rules
    admin,
    deepnorm,
    dual,
    fixup,
    highway,
    hyper,
    laurel,
    mhc,
    none,
    over_depth,
    parallel,
    post_norm,
    pre_norm,
    residual,
    sandwich,
    scaled,
)
from minires.residual.connection import (
    CONNECTIONS,
    PARTS,
    Connection,
    Site,
    get_connection,
    mlp_sites,
    parts_of,
    register,
    transformer_sites,
)

__all__ = [
    "CONNECTIONS", "PARTS", "Connection", "Site", "get_connection", "mlp_sites", "parts_of", "register",
    "transformer_sites",
]  # fmt: skip
