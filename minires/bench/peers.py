"""PyTorch and JAX as peers: imported only if they are installed, and held to as many threads as we use."""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock


def torch_or_none() -> Any:
    """PyTorch on one thread, or None."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch  # type: ignore[import-not-found]

    torch.set_num_threads(1)
    return torch


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """PyTorch on several threads for a while."""
    torch = torch_or_none()
    if torch is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        if torch is not None:
            torch.set_num_threads(1)


@functools.lru_cache(maxsize=1)  # a process has one pool: another number of threads begins another one
def jax_or_none(threads: int, /) -> Any:
    """JAX on the CPU with a pool of so many threads, or None. What was compiled for another number is gone then.

    XLA, its compiler, asks these variables how many processors there are, once, when its pool begins. The switch that
    is often named, XLA_FLAGS=--xla_cpu_multi_thread_eigen=false, does not hold it: 1.9 processor seconds per second
    with JAX 0.10.2 on two cores, and 0.99 with PJRT_NPROC=1; `tests/bench/test_jax.py` measures that. Without
    asynchronous dispatch the caller's own thread computes, so that no time goes into handing over.
    """
    if importlib.util.find_spec("jax") is None:
        return None
    import jax  # type: ignore[import-not-found]
    from jax.extend.backend import clear_backends  # type: ignore[import-not-found]

    clear_backends()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    count = str(threads)
    with mock.patch.dict(os.environ, PJRT_NPROC=count, NPROC=count):  # the second is the name in older releases
        jax.devices()
    return jax
