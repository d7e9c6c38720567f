"""PyTorch as a peer: imported only if it is installed, and held to as many threads as we use."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


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
