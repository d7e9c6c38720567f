"""What kernels ask of their arrays, said in our words instead of numba's typing errors."""

from __future__ import annotations

import numpy as np

from minires.messages import DtypeError, ShapeError, shown

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def same_float_dtype(**arrays) -> np.dtype:
    """The common dtype of the arrays (None is skipped); raises `DtypeError` unless all are float32 or all float64."""
    given = {name: a for name, a in arrays.items() if a is not None}
    dtypes = {getattr(a, "dtype", None) for a in given.values()}
    for dtype in FLOATS:
        if dtypes == {dtype}:
            return dtype
    raise DtypeError(
        f"a kernel needs {', '.join(given)} all in float32 or all in float64",
        ", ".join(f"{name} = {shown(a)}" for name, a in given.items()),
        "Integers: write 1. for 1, or use .astype(np.float32). Mixed: NumPy makes float64 unless told otherwise.",
    )


def product_room(a, b, out=None) -> np.ndarray:
    """The array that a product of two matrices is computed into: `out` itself where kernels can write to it.

    Raises `ShapeError` or `DtypeError` unless a is (m, k), b is (k, n), out is None or (m, n), all in one float format.
    """
    if a.dtype is not b.dtype or a.dtype not in FLOATS:
        same_float_dtype(a=a, b=b)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ShapeError(
            "the product of two matrices needs shapes (m, k) and (k, n)",
            f"a = {shown(a)}, b = {shown(b)}",
            "Did you forget a transpose (.T), or to reshape (batch, T, d) to (batch·T, d)?",
        )
    shape = a.shape[0], b.shape[1]
    if out is None:
        return np.empty(shape, a.dtype)
    need_out(out, shape, a.dtype)
    fits = out.strides[1] == out.itemsize or shape[1] == 1
    return out if fits and not overlap(out, a, b) else np.empty(shape, a.dtype)


def need_out(out: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Raises `ShapeError` unless `out` has this shape and dtype and can be written to."""
    if out.shape != shape or out.dtype != dtype or not out.flags.writeable:
        locked = "" if out.flags.writeable else ", which is read-only"
        must = f"out must be {dtype} of shape {shape}, and writable"
        raise ShapeError(must, shown(out) + locked, "Leave `out` away to get a new array.")


def overlap(out, a, b) -> bool:
    """Whether writing to `out` could change an input before it has been read."""
    if out.base is None and a.base is None and b.base is None:  # three owners of memory: the usual case, and quick
        return out is a or out is b
    return np.may_share_memory(out, a) or np.may_share_memory(out, b)
