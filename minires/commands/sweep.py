"""`minires sweep --recipes pre_norm post_norm --depth 6,12 --width 32,64 --seeds 0,1,2`: a grid, resumable."""

from __future__ import annotations

import argparse
import os

from minires.commands.output import add_json, write_json
from minires.messages import ValueProblem

SIZES = {
    "steps": (int, "optimiser steps of each run (100)"),
    "lr": (float, "learning rate of AdamW (0.001)"),
    "warmup": (int, "steps until that learning rate (0)"),
    "heads": (int, "attention heads (4)"),
    "length": (int, "characters in one sequence (32)"),
    "batch": (int, "sequences in one step (8)"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--recipes", nargs="+", default=["pre_norm", "post_norm"], metavar="NAME", help="the rules")
    parser.add_argument("--depth", default="6", metavar="N,N", help="blocks, several with commas (6)")
    parser.add_argument("--width", default="32", metavar="N,N", help="widths (32)")
    parser.add_argument("--seeds", default="0", metavar="N,N", help="seeds (0)")
    for name, (kind, line) in SIZES.items():
        parser.add_argument(f"--{name}", type=kind, default=argparse.SUPPRESS, metavar="N", help=line)
    parser.add_argument("--out", metavar="FILE", help="one line per finished cell; run again to go on (sweep.jsonl)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (all cores)")
    parser.add_argument("--shard", default="1/1", metavar="I/N", help="only every n-th cell, beginning with the i-th")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="run on a `distributed` cluster, tcp://host:8786")
    parser.add_argument("--load", metavar="FILE", help="a Python file of yours that registers rules and recipes")
    parser.add_argument("--show", nargs="+", metavar="FILE", help="run nothing: show the cells of these files together")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Run what is missing, then show all cells."""
    from minires import ui
    from minires.commands.setup import run_file
    from minires.problems import check_seed
    from minires.sweep import grid, read_lines, shard, summary, sweep

    if args.show:
        records = read_lines(args.show)
    else:
        run_file(args.load)
        options = {name: value for name, value in vars(args).items() if name in SIZES}
        load = os.path.abspath(args.load) if args.load else None
        places = (numbers(name, getattr(args, name)) for name in ("depth", "width", "seeds"))
        for seed in numbers("seeds", args.seeds):
            check_seed(seed)
        cells = shard(grid(args.recipes, *places, **options, load=load), args.shard)
        records = sweep(cells, args.out or default_file(args.shard), args.workers, args.scheduler)
    write_json(records, args.json)
    if args.json != "-":
        ui.table(summary(records))
    return 0


def numbers(name: str, text: str) -> list[int]:
    """"6,12" → [6, 12]. Raises ValueProblem for other text."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        must, hint = f"--{name} takes whole numbers with commas between them", "Write 6,12 without blanks."
        raise ValueProblem(must, repr(text), hint) from None


def default_file(part: str) -> str:
    """Every shard has a file of its own."""
    return "sweep.jsonl" if part == "1/1" else f"sweep-{part.replace('/', '-of-')}.jsonl"
