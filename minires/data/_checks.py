"""What every generator and loader asks of its arguments, said once."""

from __future__ import annotations

import operator
from collections.abc import Iterable

import numpy as np

from minires.messages import DtypeError, ValueProblem, shown


def whole(name: str, value: object, least: int, most: int | None = None, hint: str = "") -> int:
    """`value` as an int in `least … most`; a message that names it otherwise."""
    limit = f"at least {least}" if most is None else f"in {least} … {most}"
    rule = f"{name} must be a whole number, {limit}"
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise DtypeError(rule, shown(value), hint or f"Write {name} as an int, without a decimal point.") from None
    if number < least or (most is not None and number > most):
        raise ValueProblem(rule, str(number), hint or f"Is {name} computed from a size that is smaller than expected?")
    return number


def fraction(name: str, value: float) -> float:
    """`value` strictly between 0 and 1."""
    if not 0 < value < 1:
        raise ValueProblem(
            f"{name} must lie strictly between 0 and 1",
            shown(value),
            "It is a share such as 0.1, not a count or a percentage.",
        )
    return float(value)


def generator(rng: object) -> np.random.Generator:
    """`rng` if it is a NumPy Generator: a seed here would give the same batch at every call."""
    if not isinstance(rng, np.random.Generator):
        raise DtypeError(
            "rng must be a numpy.random.Generator",
            shown(rng),
            "Make one before the loop, rng = np.random.default_rng(seed), and pass it to every call.",
        )
    return rng


def finite(names_and_arrays: Iterable[tuple[str, np.ndarray]]) -> None:
    """No NaN and no infinity in any of the float arrays."""
    for name, array in names_and_arrays:
        if array.dtype.kind not in "fc" or np.isfinite(array).all():
            continue
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueProblem(
            f"{name} must hold finite numbers",
            f"{array[where]} at index {list(where)}",
            "A pixel or feature that never varies gives 0/0 when it is divided by its standard deviation.",
        )
