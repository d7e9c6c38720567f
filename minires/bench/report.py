"""The result of `minires bench` as tables."""

from __future__ import annotations

from typing import Any

from minires import ui

HIDDEN = ("flops", "bytes")
ABOUT = {
    "peak": "What one thread of this machine can do",
    "kernels": "Operations around the products (NumPy, PyTorch: their time / ours)",
    "attention": "Causal attention, forward + backward (NumPy, PyTorch: their time / ours)",
    "matmul": "Matrix products on one thread (OpenBLAS: its time / ours)",
    "training": "Training steps (batch, T, d, layers, heads), one thread (PyTorch, JAX: their time / ours)",
    "profile": "Where the time of a training step goes, percent",
    "threads": "Training steps on two threads (the others' time / ours)",
    "overhead": "What the engine adds to NumPy per operation, forward + backward (µs: median of the rounds; best µs: "
    "the shortest, when nobody else used the core)",
    "start": "How long it takes to begin",
}


def report(result: dict[str, Any]) -> None:
    """Print the machine, a table per group, and the goals."""
    machine = result["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    what = ("processor", "vector unit", "cores", "load")
    print(", ".join(f"{name} {machine[name]}" for name in what), versions, sep="\n")
    for note in machine["notes"]:
        print(f"Note: {note}")
    for name, rows in result["groups"].items():
        print()
        ui.table([tidy(row) for row in rows], ABOUT[name], columns(rows))
    print()
    ui.table([{**row, "reached": WORDS[row["reached"]]} for row in result["goals"]], "Goals")


WORDS = {True: "yes", False: "no", None: "not measured"}


def columns(rows: list[dict[str, Any]]) -> list[str]:
    """Every column that some row has, in the order in which they first appear."""
    return list({name: None for row in rows for name in row if name not in HIDDEN})


def tidy(row: dict[str, Any]) -> dict[str, Any]:
    """Three digits: a fourth would be noise."""
    return {name: float(f"{value:.3g}") if isinstance(value, float) else value for name, value in row.items()}
