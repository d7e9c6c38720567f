"""`minires figures`: redraw what is out of date, or prove that pictures and data belong together."""

from __future__ import annotations

import argparse

from minires.commands.output import add_json, write_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these (default: all)")
    parser.add_argument("--check", action="store_true", help="change nothing; say whether each picture fits its data")
    parser.add_argument("--recompute", action="store_true", help="change nothing; measure again and compare the data")
    parser.add_argument("--folder", metavar="DIR", help="where the figures are (default: figures/)")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """0 if every figure is as it should be, 1 otherwise."""
    from dataclasses import asdict

    from minires import ui
    from minires.figures import make

    outcomes = make(args.names, check=args.check, recompute=args.recompute, folder=args.folder)
    write_json([asdict(outcome) for outcome in outcomes], args.json)
    if args.json != "-":
        ui.table([(o.status, o.name, o.message) for o in outcomes], columns=["", "figure", ""])
    return 0 if all(outcome.ok for outcome in outcomes) else 1
