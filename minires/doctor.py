"""What this installation is, and what to do about it if something is wrong.

Every check is a small generator of findings. A check that itself breaks is a finding too: the doctor is called when
things are broken, so it must never fall over.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from minires import __version__

PACKAGES = {
    "numpy": (2, 0),
    "numba": (0, 61),
    "matplotlib": (3, 9),
    "pytest": (8, 3),
    "rich": (13, 0),
    "threadpoolctl": (3, 5),
}
_BLAS_SWITCHES = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OPENBLAS_VERBOSE")
_THREAD_SWITCHES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Finding:
    """One line of the report. status: "ok", "note" (good to know) or "problem" (with `advice`)."""

    about: str
    value: str
    status: str = "ok"
    advice: str = ""


def examine() -> list[Finding]:
    """Every finding, in the order in which a person would ask."""
    return [finding for check in CHECKS for finding in _guarded(check)]


def report(findings: list[Finding]) -> dict:
    """The findings as plain data for `--json`: {"healthy": bool, "findings": [...]}."""
    return {"healthy": healthy(findings), "findings": [asdict(f) for f in findings]}


def healthy(findings: list[Finding]) -> bool:
    return all(f.status != "problem" for f in findings)


def _guarded(check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from check()
    except Exception as error:
        name = check.__name__.strip("_").replace("_", " ")
        advice = "Please report this line; the rest of the report still holds."
        yield Finding(name, f"the check stopped with {type(error).__name__}: {error}", "problem", advice)


# ------------------------------------------------------------------------------------------------ the checks


def _python() -> Iterator[Finding]:
    yield Finding("minires", __version__)
    value = f"{platform.python_version()}, {platform.python_implementation()}, {platform.system()} {platform.machine()}"
    old = sys.version_info < (3, 11)
    yield Finding("Python", value, "problem" if old else "ok", "Install Python 3.11 or newer." if old else "")


def _packages() -> Iterator[Finding]:
    for name, least in PACKAGES.items():
        needed = ".".join(map(str, least))
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, "not installed", "problem", f'Run: python -m pip install "{name}>={needed}"')
            continue
        old = _numbers(version) < least
        advice = f'At least {needed} is needed. Run: python -m pip install --upgrade "{name}>={needed}"' if old else ""
        yield Finding(name, version, "problem" if old else "ok", advice)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in version.split(".")[:2])


def _blas() -> Iterator[Finding]:
    import numpy  # noqa: F401  (threadpoolctl sees only libraries that are loaded)
    from threadpoolctl import threadpool_info

    found = [lib for lib in threadpool_info() if lib["user_api"] == "blas"]
    for lib in found:
        kernels = lib.get("architecture", "unknown")
        yield Finding(
            "BLAS", f"{lib['internal_api']} {lib['version']}, {kernels} kernels, {lib['num_threads']} threads"
        )
    if not found:
        advice = "Matrix products still work, but how many threads they use cannot be limited."
        yield Finding("BLAS", "none that threadpoolctl knows (Apple's Accelerate, for example)", "note", advice)
    for switch in _BLAS_SWITCHES:
        if switch in os.environ:
            advice = f"It changes speed and last digits. Before you measure anything: unset {switch}"
            yield Finding(switch, os.environ[switch], "note", advice)


def _threads() -> Iterator[Finding]:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Finding("processors", f"{usable} of {os.cpu_count()} usable")
    for switch in _THREAD_SWITCHES:
        if switch in os.environ:
            yield Finding(
                switch,
                os.environ[switch],
                "note",
                "An upper limit. Training uses one thread for matrix products anyway.",
            )


def _processor() -> Iterator[Finding]:
    if importlib.util.find_spec("llvmlite") is None:
        return
    import llvmlite.binding as llvm

    wanted = ("avx2", "fma", "avx512f", "neon", "sve")
    has = [name for name, there in llvm.get_host_cpu_features().items() if there and name in wanted]
    yield Finding("vector instructions", f"{llvm.get_host_cpu_name()}: {', '.join(has) or 'none that we use'}")


def _kernels() -> Iterator[Finding]:
    if importlib.util.find_spec("numba") is None:
        return
    from minires.kernels.cache import cache_info

    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        advice = "Kernels run as slow plain Python. Run: unset NUMBA_DISABLE_JIT"
        yield Finding("NUMBA_DISABLE_JIT", "set", "problem", advice)
    info = cache_info()
    if info["folder"] is None:
        advice = "Kernels are compiled anew in each process. Set NUMBA_CACHE_DIR to a folder that you can write to."
        yield Finding("kernel cache", "no writable folder", "problem", advice)
        return
    yield Finding("kernel cache", info["folder"])
    files, size = info["files"] - info["old_files"], info["bytes"] - info["old_bytes"]
    warm = f"warm: {files} files, {size / 1e6:.1f} MB"
    yield Finding("compiled kernels", warm if files else "cold: each compiles when it is first used")


def _engine() -> Iterator[Finding]:
    """Not only is it installed: it computes right gradients here."""
    import numpy as np

    from minires import gradcheck, layernorm

    rng = np.random.default_rng(0)
    error = gradcheck(layernorm, *(rng.standard_normal(s) for s in [(3, 8), 8, 8])).worst
    yield Finding("LayerNorm backward", f"agrees with the numerical derivative to {error:.0e}")


def _folders() -> Iterator[Finding]:
    for name, folder in (("current folder", Path.cwd()), ("temporary folder", Path(tempfile.gettempdir()))):
        try:
            tempfile.TemporaryFile(dir=folder).close()
            yield Finding(name, "writable")
        except OSError as error:
            advice = "Results cannot be saved there: change to another folder."
            yield Finding(name, f"not writable ({error.strerror})", "note", advice)


def _terminal() -> Iterator[Finding]:
    encoding = (sys.stdout.encoding or "?").lower()
    fits = encoding.replace("-", "") == "utf8"
    yield Finding("terminal encoding", encoding, *(() if fits else ("note", "To see γ and √ set PYTHONUTF8=1.")))


CHECKS = [_python, _packages, _blas, _threads, _processor, _kernels, _engine, _folders, _terminal]
