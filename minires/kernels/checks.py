"""What kernels ask of their arrays, said in our words instead of numba's typing errors."""

from __future__ import annotations

import numpy as np

from minires.messages import DtypeError, shown

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def same_float_dtype(**arrays) -> np.dtype:
    """The common dtype of the arrays (None is skipped); raises `DtypeError` unless all are float32 or all float64."""
    given = {name: a for name, a in arrays.items() if a is not None}
    dtypes = {getattr(a, "dtype", None) for a in given.values()}
    if len(dtypes) == 1 and (dtype := dtypes.pop()) in FLOATS:
        return dtype
    raise DtypeError(
        f"a kernel needs {', '.join(given)} all in float32 or all in float64",
        ", ".join(f"{name} = {shown(a)}" for name, a in given.items()),
        "Integers: write 1. instead of 1, or use .astype(np.float32). Mixed: NumPy makes float64 unless told otherwise.",
    )
