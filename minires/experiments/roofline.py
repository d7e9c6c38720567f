"""How near the kernels come to what one thread of a machine can do: the roofline picture.

A kernel takes at least as long as its arithmetic at the peak rate and at least as long as its bytes at the bandwidth of
the memory they lie in (Williams, Waterman, Patterson 2009, doi:10.1145/1498765.1498785). The picture is drawn from a
file that `minires bench --json` wrote, because speeds belong to one machine: measured again elsewhere they would be
other numbers, while the file stays what it is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from minires.experiments.result import Result, measured
from minires.files import read_bytes
from minires.messages import FileProblem

NAME = "roofline"
TITLE = "How near the kernels come to what one thread of a machine can do"
NEEDED = ("peak", "kernels", "attention", "matmul")
FAMILIES = ("softmax", "layernorm", "gelu", "cross_entropy", "adamw")


@measured
def run(bench: str = "docs/results/bench.json") -> dict[str, Any]:
    """The roofs and the points. bench: a result of `minires bench`; "" measures this machine now (half a minute).

    A relative path is looked up from the current folder, then from the folder of the source tree.
    """
    result = load(bench) if bench else measure()
    groups = result["groups"]
    rates, streams = split(groups["peak"])
    return {
        "machine": result["machine"]["processor"], "vector unit": result["machine"]["vector unit"],
        "load": result["machine"]["load"], "GFLOP/s": rates, "streams": streams,
        "products": [product(row) for row in groups["matmul"] + groups["attention"] if "flops" in row],
        "moves": [{name: row[name] for name in ("work", "bytes", "GB/s")} for row in groups["kernels"]],
        "rows": [row for row in result["goals"] if row["group"] in NEEDED],
    }  # fmt: skip


def load(path: str) -> dict[str, Any]:
    """A bench result. Raises FileProblem for a missing file, or one without the groups that are drawn."""
    beside = Path(__file__).resolve().parents[2] / path
    try:
        found = json.loads(read_bytes(path if Path(path).exists() or not beside.exists() else beside))
        missing = [name for name in NEEDED if name not in found["groups"]]
    except (ValueError, KeyError, TypeError) as error:
        missing = [f"{type(error).__name__}: {error}"]
    if missing:
        must = f"a result of `minires bench` needs the groups {', '.join(NEEDED)}"
        raise FileProblem(must, f"{path}: {', '.join(missing)}", f"Write it with `minires bench --json {path}`.")
    return found


def measure() -> dict[str, Any]:
    """A quick look at this machine."""
    from minires import bench

    return bench.run(quick=True, only=NEEDED)


def split(rows: list[dict[str, Any]]) -> tuple[dict[str, float], list[list[float]]]:
    """{dtype: GFLOP/s} and [bytes, GB/s] from the rows of the peak."""
    rates = {row["what"].split()[-1]: row["GFLOP/s"] for row in rows if "GFLOP/s" in row}
    return rates, [[row["bytes"], max(row["copy GB/s"], row["triad GB/s"])] for row in rows if "bytes" in row]


def product(row: dict[str, Any]) -> dict[str, Any]:
    """A point of the left picture: operations per byte that must move, and operations per second."""
    kind = "attention" if row["work"].startswith("attention") else "matmul"
    return {"work": kind, "flops/byte": row["flops"] / row["bytes"], "GFLOP/s": row["GFLOP/s"]}


def caption(result: Result) -> str:
    """What was measured on, and the best points as shares of the roof."""
    data = result.data
    peak, busy = data["GFLOP/s"]["float32"], "" if data["load"] is None else f", {data['load']} programs at work"
    best = {kind: max(p["GFLOP/s"] for p in data["products"] if p["work"] == kind) for kind in ("matmul", "attention")}
    moved = max(move["GB/s"] for move in data["moves"])
    return (
        f"{data['machine']}, {data['vector unit']}, one thread, float32{busy}. Peak {peak:.0f} GFLOP/s; the fastest "
        f"product reaches {best['matmul'] / peak:.0%} of it, the fastest attention (forward and backward) "
        f"{best['attention'] / peak:.0%}. Right: arrays read and written per second, up to {moved:.0f} GB/s; a plain "
        f"copy, the line, has neither exp and division to do nor, for small arrays, a call from Python to wait for."
    )


def draw(result: Result) -> Any:
    """Left: operations per second by operations per byte. Right: bytes per second by the size of the arrays."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.2))
    _draw_products(left, result.data)
    _draw_moves(right, result.data)
    return figure


def _draw_products(axes: Any, data: dict[str, Any]) -> None:
    peak, bandwidths = data["GFLOP/s"]["float32"], np.array(data["streams"])[:, 1]
    intensity = np.logspace(-0.5, 3, 200)
    for bandwidth, line, name in ((bandwidths.max(), "-", "first cache"), (bandwidths[-1], "--", "main memory")):
        axes.loglog(intensity, np.minimum(peak, bandwidth * intensity), line, color="0.5", label=f"roof, {name}")
    for color, marker, kind in (("C0", "o", "matmul"), ("C1", "s", "attention")):
        points = np.array([[p["flops/byte"], p["GFLOP/s"]] for p in data["products"] if p["work"] == kind])
        axes.loglog(*points.T, marker, color=color, ms=4.5, alpha=0.8, label=kind)
    axes.set(xlabel="operations per byte", ylabel="GFLOP/s", title="Products", ylim=(2, 1.5 * peak))
    axes.legend(loc="lower right")


def _draw_moves(axes: Any, data: dict[str, Any]) -> None:
    axes.loglog(*np.array(data["streams"]).T, "-", color="0.5", label="roof: copy or triad")
    for i, (family, marker) in enumerate(zip(FAMILIES, "osv^D")):
        points = np.array([[p["bytes"], p["GB/s"]] for p in data["moves"] if p["work"].startswith(family)])
        axes.loglog(*points.T, marker, color=f"C{i}", ms=4.5, alpha=0.8, label=family)
    axes.set(xlabel="bytes read and written", ylabel="GB/s", title="Operations around them", ylim=(0.08, None))
    axes.legend(loc="lower center", ncols=2)
