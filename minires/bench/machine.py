"""What was measured on, and settings of it that would mislead."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

# OpenBLAS's own switches: with one of them its products, and so NumPy's, are not at their usual speed.
BLAS_SWITCHES = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def describe() -> dict[str, Any]:
    """Processor, cores, load, versions, and notes on settings."""
    from threadpoolctl import threadpool_info

    from minires.kernels.vector import host_unit
    from minires.parallel import usable_cores

    libraries = [f"{lib['prefix']} {lib['version']} ({lib.get('architecture', '?')})" for lib in threadpool_info()]
    return {
        "processor": processor(), "vector unit": host_unit().name, "cores": usable_cores(), "load": load(),
        "system": f"{platform.system()} {platform.machine()}", "versions": versions(), "libraries": libraries,
        "notes": notes(),
    }  # fmt: skip


def processor() -> str:
    """The processor's name as the system tells it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def load() -> float | None:
    """How many programs wanted to run in the last minute, on average; above the number of cores, times are rough."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def versions() -> dict[str, str]:
    """Versions of everything that is timed here; only what is installed."""
    found = {"python": platform.python_version()}
    for name in ("minires", "numpy", "numba", "torch", "jax", "autograd"):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def notes() -> list[str]:
    """A sentence for each setting that changes what NumPy can do here."""
    return [
        f"{name}={os.environ[name]} is set: OpenBLAS may be slower than by itself. Unset it for a fair comparison."
        for name in BLAS_SWITCHES
        if name in os.environ
    ]
