"""Fill the tables of docs/speed.md and of the READMEs' part on speed from docs/results/bench.json.

    python tools/write_speed.py           write them
    python tools/write_speed.py --check   change nothing; exit code 1 if a table does not say what the file says

A table stands between `<!-- table: NAME -->` and `<!-- end of table -->`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from write_choosing import MARKED, markdown

from minires.files import atomic_write

HERE = Path(__file__).resolve().parent.parent
PAGES = [HERE / "docs" / "speed.md", HERE / "README.md", HERE / "README.zh.md"]
BENCH = json.loads((HERE / "docs" / "results" / "bench.json").read_text(encoding="utf-8"))
SIZE = "batch, T, d, layers, heads"
STEP = {"size": SIZE, "ms": "ms", "GFLOP/s": "GFLOP/s", "PyTorch": "PyTorch / ours", "JAX": "JAX / ours"}
LOSSES = {"steps": "steps", "PyTorch's loss off by": "loss off PyTorch's", "JAX's loss off by": "loss off JAX's"}


def machine() -> str:
    about, peak = BENCH["machine"], BENCH["groups"]["peak"]
    rows = [[name, str(about[name])] for name in ("processor", "vector unit", "cores", "system")]
    rows += [[name, version] for name, version in about["versions"].items()]
    rows += [[f"peak of {row['what']}", f"{row['GFLOP/s']:.0f} GFLOP/s"] for row in peak if "GFLOP/s" in row]
    return markdown(("", "value"), rows)


def goals() -> str:
    words = {True: "yes", False: "**no**", None: "not measured"}
    rows = [[g["group"], g["goal"], g["bar"], digits(g["measured"]), words[g["reached"]]] for g in BENCH["goals"]]
    return markdown(("group", "goal", "bar", "measured", "reached"), rows)


def steps() -> str:
    return chosen("training", STEP)


def losses() -> str:
    return chosen("training", {"size": SIZE, **LOSSES})


def threads() -> str:
    columns = {**STEP, "one thread": "our one thread / two"}
    return chosen("threads", columns, lambda row: row["work"].startswith("training"))


def busy() -> str:
    columns = {"size": SIZE, "one thread": "our one thread / two"}
    return chosen("threads", columns, lambda row: row["work"].startswith("beside"))


def kernels() -> str:
    """Geometric means over all shapes, for each kernel."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in BENCH["groups"]["kernels"]:
        groups.setdefault(row["work"], []).append(row)
    rows = [[work, len(found), mean(found, "NumPy"), mean(found, "PyTorch")] for work, found in groups.items()]
    return markdown(("kernel", "shapes", "NumPy / ours", "PyTorch / ours"), rows)


def attention() -> str:
    rows = [row for row in BENCH["groups"]["attention"] if row.get("PyTorch") is not None]
    lengths = sorted({row["T"] for row in rows})
    heads = sorted({row["head"] for row in rows})
    found = {(row["T"], row["head"]): digits(row["PyTorch"]) for row in rows}
    cells = [[t, *(found.get((t, h)) for h in heads)] for t in lengths]
    return markdown(("T", *(f"head of {h}" for h in heads)), cells)


def profile() -> str:
    rows = [{k: v for k, v in row.items() if k != "work"} for row in BENCH["groups"]["profile"]]
    return markdown((SIZE, *list(rows[0])[1:]), [[digits(value) for value in row.values()] for row in rows])


def overhead() -> str:
    rows = [row for row in BENCH["groups"]["overhead"] if row["work"].endswith("overhead")]
    cells = [[r["work"].split(",")[0], r["shape"], digits(r["best µs"]), digits(r["µs"])] for r in rows]
    return markdown(("operation", "arrays", "best µs", "median µs"), cells)


TABLES = {
    "machine": machine, "goals": goals, "steps": steps, "losses": losses, "profile": profile, "threads": threads,
    "busy": busy, "kernels": kernels, "attention": attention, "overhead": overhead,
}  # fmt: skip


def chosen(group: str, columns: dict[str, str], wanted: Any = lambda row: True) -> str:
    rows = [row for row in BENCH["groups"][group] if wanted(row)]
    return markdown(tuple(columns.values()), [[digits(row.get(name)) for name in columns] for row in rows])


def mean(rows: Sequence[dict[str, Any]], column: str) -> str | None:
    found = [row[column] for row in rows if row.get(column) is not None]
    return digits(float(np.exp(np.mean(np.log(found))))) if found else None


def digits(value: Any) -> Any:
    """Three digits: a fourth would be noise."""
    if not isinstance(value, float):
        return value
    return f"{value:.1e}" if 0 < abs(value) < 1e-3 else f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def main(argv: Sequence[str]) -> int:
    stale = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        new = MARKED.sub(lambda found: found[1] + TABLES[found[2]]() + found[3], text)
        if new != text:
            stale.append(page.name)
            if "--check" not in argv:
                atomic_write(page, new)
    if "--check" in argv:
        print(f"out of date: {', '.join(stale)}" if stale else "all tables of speed are up to date")
    return int(bool(stale) and "--check" in argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
