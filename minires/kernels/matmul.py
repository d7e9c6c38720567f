"""Matrix products on the compiled `gemm`: two matrices, several threads, and everything that `np.matmul` accepts.

`ladder.py` leads up to here step by step from three plain loops; `python -m minires.kernels.ladder` measures all of it.
On the numba backend the linear layers, the FFN and attention run on its micro-kernel anyway. To send every other `@` of
the engine here too, and linear layers through `@`:

    with minires.use(**minires.kernels.matmul.ENGINE):
        loss = model.loss(x, y)
        loss.backward()
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np

from minires.kernels.checks import need_out, product_room, same_float_dtype
from minires.kernels.gemm import compiled, work_bytes
from minires.kernels.vector import host_unit
from minires.messages import ShapeError, shown
from minires.ops.matmul import matmul_backward

THREADS_FROM = 100**3  # multiplications; below, waking a thread costs more than it saves
_products: dict = {}  # dtype → compiled product


class Local(threading.local):
    """Each thread packs into its own room, kept between calls: fresh memory would cost a page fault per 4 KB."""

    def __init__(self):
        self.work = np.empty(work_bytes(), np.uint8)


local = Local()


def compiled_product(dtype: np.dtype):
    """The compiled product of this machine for float32 or float64; the first call compiles it."""
    if dtype not in _products:
        _products[dtype] = compiled(host_unit(), str(dtype))
    return _products[dtype]


def matmul_simd(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """(m, k) · (k, n) → (m, n): packed panels around a micro-kernel in vector instructions, on one thread.

    New: the tile of C is in registers by construction instead of by the compiler's luck, each number of A is spread
    over a register once per tile, and the last rows and columns have micro-kernels of their own size.
    Any strides; raises `ShapeError` and `DtypeError` as `product_room` says.
    """
    c = product_room(a, b, out)
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]  # vector instructions exist for the compiler only
        np.matmul(a, b, out=c)
    else:
        product = _products.get(a.dtype) or compiled_product(a.dtype)
        product(a, b, c, 1, 0, 0, 0, local.work)
    return delivered(c, out)


def delivered(c: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """`out` if there is one, filled from c in case that c is another array."""
    if out is None or out is c:
        return c
    out[...] = c
    return out


def matmul_threads(
    a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None, threads: int | None = None
) -> np.ndarray:
    """(m, k) · (k, n) → (m, n): `matmul_simd` on several Python threads, each with its own rows or columns of C.

    New: kernels release the interpreter lock, so that threads really run at once. Each number of C is summed in the
    same order whatever `threads` is (all cores if None): the same bits. Small products stay on one thread.
    """
    c = product_room(a, b, out)
    count = min(threads or usable_cores(), max(1, a.shape[0] * a.shape[1] * b.shape[1] // THREADS_FROM))
    first, *others = shares(a, b, c, count)
    jobs = [workers().submit(matmul_simd, *share) for share in others]
    matmul_simd(*first)
    for job in jobs:
        job.result()
    return delivered(c, out)


def shares(a, b, c, count: int) -> list[tuple]:
    """The product cut into `count` products along the longer side of C."""
    length = max(c.shape)
    cuts = itertools.pairwise([length * i // count for i in range(count + 1)])
    if c.shape[0] == length:
        return [(a[i:j], b, c[i:j]) for i, j in cuts]
    return [(a, b[:, i:j], c[:, i:j]) for i, j in cuts]


def usable_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_workers: ThreadPoolExecutor | None = None


def workers() -> ThreadPoolExecutor:
    """The pool of threads, made at the first use."""
    global _workers
    _workers = _workers or ThreadPoolExecutor(usable_cores(), thread_name_prefix="minires-matmul")
    return _workers


def _forget_workers() -> None:
    global _workers
    _workers = None


if hasattr(os, "register_at_fork"):  # a forked child has no threads but this one, and must make its own
    os.register_at_fork(after_in_child=_forget_workers)


def matmul(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """`np.matmul` for float32 and float64 with any number of dimensions, on one thread.

    Raises `DtypeError` for other or mixed formats, `ShapeError` where the shapes do not fit.
    """
    if a.ndim == b.ndim == 2:
        return matmul_simd(a, b, out)
    same_float_dtype(a=a, b=b)
    if out is not None:
        c = matmul(a, b)
        need_out(out, c.shape, c.dtype)
        return delivered(c, out)
    if a.ndim <= 1 or b.ndim <= 1:
        return with_vectors(a, b)
    if b.ndim == 2 and a.flags.c_contiguous and a.size:
        return matmul_simd(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[1])
    return batched(a, b)


def with_vectors(a, b):
    """A vector on the left is a row, on the right a column; its axis is missing in the result."""
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError("a matrix product needs at least one axis on each side", f"a = {shown(a)}, b = {shown(b)}",
                         "For a number times an array write `*`.")
    product = matmul(a[None] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b)
    product = product[..., 0] if b.ndim == 1 else product
    return product[..., 0, :] if a.ndim == 1 and b.ndim > 1 else product[..., 0] if a.ndim == 1 else product


def batched(a, b):
    """A stack of products. The last axis of the stack is walked in compiled code, the others here: no copies."""
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return np.matmul(a, b)
    a, b = stacks(a, b)
    c = np.empty((*a.shape[:-1], b.shape[-1]), a.dtype)
    product = compiled_product(a.dtype)
    for at in np.ndindex(c.shape[:-3]):
        x, y, z = a[at], b[at], c[at]
        if len(z):
            product(x[0], y[0], z[0], len(z), x.strides[0], y.strides[0], z.strides[0], local.work)
    return c


def stacks(a, b):
    """a and b with their batch axes broadcast against each other."""
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        batch = None
    if batch is None or a.shape[-1] != b.shape[-2]:
        raise ShapeError("stacks of matrices need shapes (…, m, k) and (…, k, n) with batch axes that broadcast",
                         f"a = {shown(a)}, b = {shown(b)}", "Did you forget to swap the last two axes of b?")
    a, b = np.broadcast_to(a, batch + a.shape[-2:]), np.broadcast_to(b, batch + b.shape[-2:])
    return a, b


def matmul_forward(a, b):
    """y = a @ b. saved = (a, b)."""
    return matmul(a, b), (a, b)


ENGINE = {"matmul_forward": matmul_forward, "matmul_backward": functools.partial(matmul_backward, product=matmul)}
