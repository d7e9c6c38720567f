"""`minires claims [ID…]`: every claim of the articles with what was measured and the verdict."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from minires.commands.output import add_json, write_json
from minires.messages import ValueProblem


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="C76, or C76a; default: all")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--fast", action="store_true", help="measure now, at small size (all: a few minutes)")
    how.add_argument("--recompute", action="store_true", help="measure now, at full size (all: a quarter of an hour)")
    parser.add_argument("--keep", action="store_true", help="with --recompute: put the new numbers into the package")
    parser.add_argument("--write-docs", metavar="FOLDER", nargs="?", const="docs", help="write claims.md there (docs)")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Show the ledger; 1 if a measurement disagrees with the verdict that the row expects."""
    from minires.claims import get_claims, outcomes, perform_all

    chosen = get_claims(args.ids)
    if args.keep and not args.recompute:
        given = "--fast --keep" if args.fast else "--keep alone"
        hint = "Write `minires claims C76 --recompute --keep`."
        raise ValueProblem("--keep stores what --recompute measured, at full size", given, hint)
    found = perform_all(chosen, fast=args.fast) if args.fast or args.recompute else None
    if args.keep and found is not None:
        _keep(found)
    rows = outcomes(chosen, found)
    write_json(rows, args.json)
    if args.write_docs:
        _write_docs(Path(args.write_docs))
    elif args.json != "-":
        _print(rows, bool(args.ids))
    return int(any(row["verdict"] != row["expected"] for row in rows))


def _keep(found: dict[str, Any]) -> None:
    """Merge new measurements into the kept ones."""
    from minires.claims import ledger
    from minires.files import atomic_write

    path = Path(ledger.__file__).with_name(ledger.KEPT)
    old = ledger.from_json(path.read_text(encoding="utf-8")) if path.exists() else {}
    known = {claim.measure.__name__ for claim in ledger.CLAIMS.values() if claim.measure}
    atomic_write(path, ledger.to_json({name: m for name, m in {**old, **found}.items() if name in known}))
    ledger.kept.cache_clear()


def _write_docs(folder: Path) -> None:
    from minires.claims.document import document
    from minires.files import atomic_write

    for name, language in (("claims.md", "en"), ("claims.zh.md", "zh")):
        atomic_write(folder / name, document(language))
        print(folder / name)


def _print(rows: list[dict[str, Any]], whole: bool) -> None:
    """A few rows in full, or all of them in a table, and how many have each verdict."""
    from collections import Counter

    from minires import ui
    from minires.claims import VERDICTS

    if whole:
        print("\n\n".join(_told(row) for row in rows))
    else:
        names = ("id", "verdict", "claim", "measured")
        ui.table([{name: row[name] for name in names} for row in rows])
        counts = Counter(row["verdict"] for row in rows)
        print("\n".join(f"{counts[v]:4d} {v:<12}{meaning}" for v, meaning in VERDICTS.items() if counts[v]))
        print("One in full: `minires claims C76`. Measured again: `minires claims C76 --recompute`.")
    for row in rows:
        if row["verdict"] != row["expected"]:
            print(f"{row['id']}: the measurement says {row['verdict']}, the ledger expects {row['expected']}.")


def _told(row: dict[str, Any]) -> str:
    """One row in full."""
    settings = ", ".join(f"{name}={value}" for name, value in row["settings"].items())
    parts = {
        "verdict": row["verdict"], "article": f"{row['article']}, {row['section']}", "中文": row["claim_zh"],
        "finding": row["finding"], "measured": row["measured"],
        "settings": settings and f"{row['measurement']}: {settings}",
        "took": f"{row['seconds']:.1f} s" if row["measured"] else "", "planned": row["plan"], "source": row["source"],
    }  # fmt: skip
    lines = [f"  {name:<9} {text}" for name, text in parts.items() if text]
    return "\n".join([f"{row['id']}  {row['claim']}", *lines])
