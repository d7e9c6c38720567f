"""`minires compare pre_norm deepnorm mhc --depth 12,48,96`: measure residual recipes side by side, and draw it."""

from __future__ import annotations

import argparse

from minires.commands.output import add_json, writable, write_text

# Names and meanings; the defaults are those of the experiment, and words become numbers there.
SETTINGS = {
    "depth": "blocks, several with commas: 12,48,96 (a block is attention and feed-forward)",
    "steps": "optimiser steps in each run",
    "seeds": "runs that are averaged",
    "lr": "learning rate of AdamW",
    "warmup": "steps until that learning rate",
    "d": "width",
    "heads": "attention heads",
    "length": "characters in one sequence",
    "batch": "sequences in one step",
    "seed": "the first seed",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="RECIPE", help="see `minires residuals --list`")
    for name, line in SETTINGS.items():
        parser.add_argument(f"--{name}", default=argparse.SUPPRESS, metavar="N", help=line)
    parser.add_argument("--load", metavar="FILE", help="a Python file of yours that registers rules and recipes")
    parser.add_argument("--figure", type=writable, metavar="FILE", help="draw it too (.svg, .png, .pdf)")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Measure, print, keep."""
    from minires.commands.run import print_result
    from minires.commands.setup import machine, run_file
    from minires.experiments import get_experiment

    run_file(args.load)
    experiment = get_experiment("compare")
    given = {name: value for name, value in vars(args).items() if name in SETTINGS}
    with machine(None, 1):
        result = experiment.run(**given, **({"recipes": tuple(args.names)} if args.names else {}))
    if args.json:
        write_text(result.to_json(), args.json)
    if args.figure:
        from minires.figures import save_picture

        save_picture(experiment, result, args.figure)
    if args.json != "-":
        print_result(experiment, result)
    return 0
