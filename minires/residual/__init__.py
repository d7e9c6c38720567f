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
    Connection,
    Site,
    get_connection,
    mlp_sites,
    register,
    transformer_sites,
)

__all__ = ["CONNECTIONS", "Connection", "Site", "get_connection", "mlp_sites", "register", "transformer_sites"]
