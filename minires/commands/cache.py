"""`minires cache`: the compiled kernels that are kept on disk."""

from __future__ import annotations

import argparse

from minires.commands.output import add_json, write_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", default="info", metavar="info|clear", help="show (the default) or delete")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Show where kernels are kept and how much there is, or delete them."""
    from minires.kernels.cache import cache_info, clear_cache
    from minires.messages import UnknownName

    if args.action not in ("info", "clear"):
        raise UnknownName("action", args.action, ("info", "clear"))
    if args.action == "clear":
        print(f"{clear_cache()} files deleted. Kernels compile again when they are next used.")
    info = cache_info()
    write_json(info, args.json)
    if args.json != "-" and args.action == "info":
        print(f"folder   {info['folder'] or 'none that can be written: kernels compile in each process'}")
        print(f"files    {info['files']}, {info['bytes'] / 1e6:.1f} MB, by numba {info['numba']}")
    return 0
