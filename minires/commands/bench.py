"""`minires bench`: how fast the kernels are on this machine, beside NumPy and beside what the machine could do."""

from __future__ import annotations

import argparse

from minires.commands.output import add_json, write_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--quick", action="store_true", help="fewer sizes and repetitions: half a minute, rougher numbers"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Measure and print a table."""
    from minires import bench

    result = bench.run(quick=args.quick)
    write_json(result, args.json)
    if args.json != "-":
        bench.print_report(result)
    return 0
