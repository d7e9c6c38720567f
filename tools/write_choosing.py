"""Fill the tables of docs/choosing.md from the measurements in docs/results.

    python tools/write_choosing.py           write them
    python tools/write_choosing.py --check   change nothing; exit code 1 if a table does not say what its file says

A table stands between `<!-- table: NAME -->` and `<!-- end of table -->`.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minires.experiments import load_result
from minires.experiments.compare import verdict
from minires.files import atomic_write
from minires.sweep import read_lines

HERE = Path(__file__).resolve().parent.parent
PAGE, RESULTS, FIGURES = HERE / "docs" / "choosing.md", HERE / "docs" / "results", HERE / "figures"
MARKED = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def costs() -> str:
    rows = sorted(rows_of(RESULTS / "residuals.json"), key=lambda row: row["time"])
    columns = ("recipe", "extra parameters", "operations", "memory", "time")
    return markdown(columns, [[f"`{row['recipe']}`", *(row[c] for c in columns[1:])] for row in rows])


def thousand() -> str:
    columns = ("recipe", "sublayers", "first loss", "last loss", "steps that lowered it", "gradient first/last")
    rows = rows_of(FIGURES / "thousand_layers.json")
    return markdown(columns, [[f"`{row['recipe']}`", *(row[c] for c in columns[1:])] for row in rows])


# ------------------------------------------------------------------------------------------------ tables from sweeps

Groups = dict[str, list[dict[str, Any]]]  # recipe → its records, one per seed


def compared(file: str) -> str:
    """One row per recipe, best first, and why numbers are missing."""
    groups = by_recipe(file)
    order = sorted(groups, key=lambda name: np.nan_to_num(losses(groups[name]).mean(), nan=np.inf))
    rows = summaries({name: groups[name] for name in order})
    return markdown(tuple(rows[0]), [list(row.values()) for row in rows]) + reasons(groups)


def by_recipe(file: str, **settings: Any) -> Groups:
    """The records of a sweep whose settings are these, by recipe, in the order of their seeds."""
    groups: Groups = defaultdict(list)
    for record in sorted(read_lines([RESULTS / file]), key=lambda r: r["settings"]["seed"]):
        if all(record["settings"][name] == value for name, value in settings.items()):
            groups[record["settings"]["recipe"]].append(record)
    return groups


def summaries(groups: Groups) -> list[dict[str, Any]]:
    return [
        {
            "recipe": f"`{name}`", "gradient first/last": records[0]["gradient"],
            "stream last/first": records[0]["growth"], "mean loss": told(losses(records).mean(), "{:.3f}"),
            "lowest … highest": span(losses(records), "{:.3f}"),
            "minus `pre_norm`, same seed": "" if name == "pre_norm" else span(beside(groups, name), "{:+.3f}"),
            "verdict": verdict(losses(records), records[0]["unigram"]),
        }
        for name, records in groups.items()
    ]  # fmt: skip


def losses(records: Sequence[dict[str, Any]]) -> np.ndarray:
    """One validation loss per seed, NaN where training broke off."""
    return np.array([np.nan if r["loss"] is None else r["loss"] for r in records])


def beside(groups: Groups, name: str) -> np.ndarray:
    """Loss minus Pre-Norm's from the same seed: the same batches in the same order."""
    return losses(groups[name]) - losses(groups["pre_norm"])


def span(values: np.ndarray, form: str) -> str | None:
    low, high = told(values.min(), form), told(values.max(), form)
    return low and f"{low} … {high}"


def told(value: float, form: str) -> str | None:
    return None if np.isnan(value) else form.format(value)


def reasons(groups: Groups) -> str:
    """A line for every reason that a number is missing, with the recipes that have it."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, records in groups.items():
        for what, why in records[0]["missing"].items():
            found[what, why].append(f"`{name}`")
    return "".join(f"\nNo {what} for {', '.join(names)}: {why}.\n" for (what, why), names in found.items())


def chance() -> str:
    """How much one seed differs from the next, and who is on one side of Pre-Norm with every seed."""
    groups = {name: r for name, r in by_recipe("compare_12.jsonl").items() if learns(r)}
    spreads = [np.ptp(losses(records)) for records in groups.values()]
    differences = {name: beside(groups, name) for name in groups if name != "pre_norm"}
    lower, higher = ([f"`{n}`" for n, d in differences.items() if (sign * d < 0).all()] for sign in (1, -1))
    seeds = len(groups["pre_norm"])
    return (
        f"From one of the {seeds} seeds to another a recipe's loss moves by {np.median(spreads):.3f} (median of the "
        f"{len(groups)} that learn; up to {max(spreads):.3f}). With every seed lower than `pre_norm`: "
        f"{', '.join(lower)}. With every seed higher: {', '.join(higher)}. If nothing but chance were at work, "
        f"{2 * 0.5**seeds:.0%} of all recipes would still stand on one side with every seed.\n"
    )


def rates() -> str:
    """Mean loss by learning rate, each over the same seeds; in bold the best rate of a recipe."""
    found = by_rate()
    rows, gaps = [], ""
    for name in next(iter(found.values())):
        parts = [losses(groups[name]) for groups in found.values()]
        means = [np.nan_to_num(part.mean(), nan=np.inf) for part in parts]
        best = int(np.argmin(means))
        shown = [f"**{m:.3f}**" if i == best else f"{m:.3f}" if m < np.inf else None for i, m in enumerate(means)]
        rows.append((means[best], [f"`{name}`", *shown, span(parts[best], "{:.3f}")]))
        gaps += "".join(gap(name, rate, groups[name]) for rate, groups in found.items())
    columns = ("recipe", *(f"lr {rate:g}" for rate in found), "at its best: lowest … highest")
    return markdown(columns, [row for _, row in sorted(rows)]) + gaps


def by_rate() -> dict[float, Groups]:
    """The sweeps at 12 blocks, by learning rate from the lowest on."""
    tried = {record["settings"]["lr"] for record in read_lines([RESULTS / "rates_12.jsonl"])}
    found = {rate: by_recipe("rates_12.jsonl", lr=rate) for rate in tried} | {0.002: by_recipe("compare_12.jsonl")}
    return dict(sorted(found.items()))


def gap(name: str, rate: float, records: Sequence[dict[str, Any]]) -> str:
    """Why there is no mean, or nothing."""
    why = [r["missing"]["loss"] for r in records if r["loss"] is None]
    return f"\nNo mean for `{name}` at lr {rate:g}: {why[0]} ({len(why)} of {len(records)} seeds).\n" if why else ""


def learns(records: Sequence[dict[str, Any]]) -> bool:
    return verdict(losses(records), records[0]["unigram"]) == "learns"


TABLES: dict[str, Callable[[], str]] = {
    "costs": costs,
    "compare_12": lambda: compared("compare_12.jsonl"),
    "chance": chance,
    "rates": rates,
    "compare_48": lambda: compared("compare_48.jsonl"),
    "thousand": thousand,
}


# -------------------------------------------------------------------------------------------------------- writing them


def rows_of(path: Path) -> list[dict[str, Any]]:
    return load_result(path).data["rows"]


def markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [columns, ["---"] + ["--:"] * (len(columns) - 1), *[[cell(value) for value in row] for row in rows]]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def cell(value: Any) -> str:
    """Numbers with three or four digits; a dash for what is missing."""
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
