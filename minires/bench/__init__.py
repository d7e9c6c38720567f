"""`minires bench`: how fast this package is on this machine, beside NumPy, PyTorch, JAX and the machine's peak.

    timing.py     how two programs are compared on a machine that others use too
    machine.py    what was measured on, and which settings of it would mislead
    peers.py      PyTorch and JAX, where they are installed, held to the same number of threads
    kernels.py    softmax, LayerNorm, GELU, cross-entropy, AdamW
    attention.py  causal attention, and its memory for long sequences
    products.py   the top of the matmul ladder beside OpenBLAS
    training.py   whole training steps on one thread and on two; step_ours.py, step_torch.py and step_jax.py take them
    profile.py    where the time of a training step goes
    overhead.py   what the engine adds to bare NumPy, and how long an import takes
    goals.py      geometric means beside the goals
    report.py     the tables

Every group is a function of `quick` that returns rows of plain data. PyTorch and JAX are never required: without
one of them the columns that need it are empty.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from minires.messages import UnknownName

GROUPS = {
    "peak": "peak",
    "kernels": "kernels",
    "attention": "attention",
    "matmul": "products",
    "training": "training",
    "profile": "profile",
    "threads": "training",
    "overhead": "overhead",
    "start": "overhead",
}  # group → the module with the function of that name


def run(quick: bool = False, only: Sequence[str] = ()) -> dict[str, Any]:
    """Measure the groups in `only`, all of them if it is empty, and return plain data.

    {"settings", "machine", "groups": {group: rows}, "goals": rows}. quick: fewer sizes and rounds, under a minute on
    warm kernels. All groups but `threads` run on one thread. Raises UnknownName for a group that does not exist.
    """
    for name in only:
        if name not in GROUPS:
            raise UnknownName("group", name, GROUPS)
    import minires
    from minires import ui
    from minires.bench import machine
    from minires.bench.goals import goals
    from minires.parallel import one_blas_thread

    chosen = [name for name in GROUPS if name in only or not only]
    result: dict[str, Any] = {"settings": {"quick": quick, "only": list(only)}, "machine": machine.describe()}
    with one_blas_thread(), minires.backend("numba"):
        groups = {name: group(name)(quick) for name in ui.progress(chosen, "bench")}
    return {**result, "load after": machine.load(), "groups": groups, "goals": goals(groups)}


def group(name: str) -> Callable[[bool], list[dict[str, Any]]]:
    """The function that measures a group: quick → rows."""
    return getattr(importlib.import_module(f"minires.bench.{GROUPS[name]}"), name)


def print_report(result: dict[str, Any]) -> None:
    """Print every group as a table, then what was reached of the goals."""
    from minires.bench.report import report

    report(result)
