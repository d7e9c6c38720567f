"""`minires bench`: kernels and training steps on this machine, beside NumPy, PyTorch, JAX and the machine's peak."""

from __future__ import annotations

import argparse

from minires.commands.output import add_json, write_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from minires.bench import GROUPS

    about = "fewer sizes and rounds: under a minute once the kernels are compiled, rougher numbers"
    parser.add_argument("--quick", action="store_true", help=about)
    groups = f"only this group: {', '.join(GROUPS)}; may be given several times"
    parser.add_argument("--only", action="append", default=[], metavar="GROUP", help=groups)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Measure and print tables."""
    from minires import bench

    result = bench.run(args.quick, args.only)
    write_json(result, args.json)
    if args.json != "-":
        bench.print_report(result)
    return 0
