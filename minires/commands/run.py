"""`minires run NAME`: measure, print what came out, and keep it as JSON if asked."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from minires.commands.output import add_json, writable, write_text
from minires.messages import ValueProblem


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="see `minires experiments`")
    parser.add_argument("--set", nargs="+", action="extend", default=[], metavar="SETTING=VALUE", help="its settings")
    add_json(parser)
    parser.add_argument("--load", metavar="FILE", help="a Python file of yours that registers an experiment")
    parser.add_argument("--figure", type=writable, metavar="FILE", help="also draw it, as .svg, .png or .pdf")


def run(args: argparse.Namespace) -> int:
    """Run one experiment."""
    from minires.commands.setup import run_file
    from minires.experiments import get_experiment

    run_file(args.load)
    experiment = get_experiment(args.name)
    result = experiment.run(**settings_from(args.set))
    if args.json:
        write_text(result.to_json(), args.json)
    if args.figure:
        from minires.figures import save_picture

        save_picture(experiment, result, args.figure)
    if args.json != "-":
        print_result(experiment, result)
    return 0


def settings_from(pairs: Sequence[str]) -> dict[str, str]:
    """["width=64", …] → {"width": "64"}. Raises ValueProblem for a word without `=`."""
    for pair in pairs:
        if "=" not in pair:
            raise ValueProblem("a setting is written NAME=VALUE", repr(pair), "Leave no blanks around the `=`.")
    return dict(pair.split("=", 1) for pair in pairs)


def print_result(experiment, result, stream=None) -> None:
    """The rows as a table, the verdict if there is one, and the caption, which states the finding."""
    from minires import ui

    out = stream or sys.stdout
    print(experiment.title, file=out)
    rows = experiment.table(result)
    if rows:
        ui.table(rows, stream=out)
    if verdict := result.data.get("verdict"):
        print(verdict["text"], file=out)
    print(experiment.caption(result), file=out)
