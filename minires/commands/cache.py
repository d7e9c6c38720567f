"""`minires cache`: the compiled kernels that are kept on disk."""

from __future__ import annotations

import argparse

from minires.commands.output import add_json, write_json

ACTIONS = ("info", "tidy", "clear")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    about = "show (the default), delete what other versions left, or delete everything"
    parser.add_argument("action", nargs="?", default="info", metavar="|".join(ACTIONS), help=about)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Show where kernels are kept and how much there is, or delete them."""
    from minires.kernels.cache import cache_info, clear_cache
    from minires.messages import UnknownName

    if args.action not in ACTIONS:
        raise UnknownName("action", args.action, ACTIONS)
    if args.action != "info":
        tidy = args.action == "tidy"
        then = "What this version needs is kept." if tidy else "Kernels compile again when they are next used."
        print(f"{clear_cache(old_only=tidy)} files deleted. {then}")
    info = cache_info()
    write_json(info, args.json)
    if args.json != "-" and args.action == "info":
        show(info)
    return 0


def show(info: dict) -> None:
    print(f"folder   {info['folder'] or 'none that can be written: kernels compile in each process'}")
    print(f"files    {info['files']}, {info['bytes'] / 1e6:.1f} MB, by numba {info['numba']}")
    if info["old_files"]:
        print(f"old      {info['old_files']} of them, {info['old_bytes'] / 1e6:.1f} MB, are of other versions of the")
        print("         kernels. They go by themselves when nobody uses them, or with: minires cache tidy")
