"""`minires experiments`: what can be measured, and with which settings."""

from __future__ import annotations

import argparse

from minires.commands.output import add_json, write_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these (default: all)")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Each experiment's name, title, settings and their defaults."""
    from minires.experiments import EXPERIMENTS, get_experiment

    chosen = [get_experiment(name) for name in args.names or EXPERIMENTS]
    write_json([{"name": e.name, "title": e.title, "settings": e.settings} for e in chosen], args.json)
    if args.json != "-":
        for e in chosen:
            print(f"{e.name}\n    {e.title}")
            print("    " + " ".join(f"{name}={_written(value)}" for name, value in e.settings.items()))
        print("\nRun one: minires run NAME --set SETTING=VALUE")
    return 0


def _written(value: object) -> str:
    """A default in the form in which `--set` takes it."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
