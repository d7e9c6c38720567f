"""Fill the tables of docs/choosing.md from the measurements in docs/results.

    python tools/write_choosing.py           write them
    python tools/write_choosing.py --check   change nothing; exit code 1 if a table does not say what its file says

A table stands between `<!-- table: NAME -->` and `<!-- end of table -->`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from minires.experiments import load_result
from minires.files import atomic_write

HERE = Path(__file__).resolve().parent.parent
PAGE, RESULTS, FIGURES = HERE / "docs" / "choosing.md", HERE / "docs" / "results", HERE / "figures"
MARKED = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def costs() -> str:
    rows = sorted(rows_of(RESULTS / "residuals.json"), key=lambda row: row["time"])
    columns = ("recipe", "extra parameters", "operations", "memory", "time")
    return markdown(columns, [[f"`{row['recipe']}`", *(row[c] for c in columns[1:])] for row in rows])


def compared(file: str) -> str:
    rows = sorted(rows_of(RESULTS / file), key=lambda row: (row["loss"] != row["loss"], row["loss"]))
    columns = ("recipe", "gradient first/last", "stream last/first", "loss", "verdict")
    return markdown(columns, [[f"`{row['recipe']}`", *(row[c] for c in columns[1:])] for row in rows])


def seeds() -> str:
    rows = [[f"`{row['recipe']}`", row["loss"], row["spread"]] for row in rows_of(RESULTS / "compare_seeds.json")]
    return markdown(("recipe", "mean loss", "highest - lowest"), rows)


def thousand() -> str:
    columns = ("recipe", "sublayers", "first loss", "last loss", "steps that lowered it", "gradient first/last")
    rows = rows_of(FIGURES / "thousand_layers.json")
    return markdown(columns, [[f"`{row['recipe']}`", *(row[c] for c in columns[1:])] for row in rows])


TABLES: dict[str, Callable[[], str]] = {
    "costs": costs,
    "compare_12": lambda: compared("compare_12.json"),
    "compare_48": lambda: compared("compare_48.json"),
    "seeds": seeds,
    "thousand": thousand,
}


def rows_of(path: Path) -> list[dict[str, Any]]:
    return load_result(path).data["rows"]


def markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [columns, ["---"] + ["--:"] * (len(columns) - 1), *[[cell(value) for value in row] for row in rows]]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def cell(value: Any) -> str:
    """Numbers with three or four digits; nothing for NaN."""
    if value is None or value != value:
        return "–"
    if isinstance(value, float):
        return f"{value:.2e}" if abs(value) >= 1e4 or 0 < abs(value) < 1e-3 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def filled(text: str) -> str:
    return MARKED.sub(lambda found: found[1] + TABLES[found[2]]() + found[3], text)


def main(argv: Sequence[str]) -> int:
    text = PAGE.read_text(encoding="utf-8")
    new = filled(text)
    if "--check" in argv:
        print("docs/choosing.md is up to date" if new == text else "docs/choosing.md is out of date")
        return int(new != text)
    atomic_write(PAGE, new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
