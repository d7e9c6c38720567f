"""Every checkable claim of three popular articles about residual connections, measured or sourced, with a verdict."""

from minires.claims import a0, a1, a2  # noqa: F401  (each adds its rows)
from minires.claims.ledger import (
    CLAIMS,
    VERDICTS,
    Claim,
    Measurement,
    Rule,
    from_json,
    get_claims,
    kept,
    measurement,
    outcome,
    outcomes,
    perform,
    perform_all,
    to_json,
)

__all__ = [
    "CLAIMS",
    "VERDICTS",
    "Claim",
    "Measurement",
    "Rule",
    "from_json",
    "get_claims",
    "kept",
    "measurement",
    "outcome",
    "outcomes",
    "perform",
    "perform_all",
    "to_json",
]
