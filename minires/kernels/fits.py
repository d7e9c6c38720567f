"""When a kernel can do a call, and the layout that kernels want.

A twin is tried first and may decline: it returns `NotImplemented` for whatever it was not written for (complex numbers,
integers, mixed dtypes, empty arrays, an unusual axis), and the NumPy function does the call, error messages included.
"""

from __future__ import annotations

import numpy as np

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def fits(first, *others) -> bool:
    """True if all are arrays of one dtype, float32 or float64, and `first` is not empty. None is skipped."""
    if type(first) is not np.ndarray or not first.size:
        return False
    dtype = first.dtype
    if dtype is not FLOAT32 and dtype is not FLOAT64:
        return False
    for a in others:  # noqa: SIM110  `all` with a generator takes three times as long
        if a is not None and (type(a) is not np.ndarray or a.dtype is not dtype):
            return False
    return True


def as_rows(x: np.ndarray) -> np.ndarray:
    """x (…, d) as contiguous rows (n, d): a view where x is contiguous, else a copy."""
    if x.flags.c_contiguous:
        return x if x.ndim == 2 else x.reshape(-1, x.shape[-1])
    return np.ascontiguousarray(x).reshape(-1, x.shape[-1])


def last_axis(x: np.ndarray, axis) -> bool:
    """True if `axis` names the last axis of x, the only one along which kernels run."""
    return x.ndim > 0 and (axis == -1 or axis == x.ndim - 1)
