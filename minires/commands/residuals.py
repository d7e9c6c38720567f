"""`minires residuals`: every residual recipe, what it does and what it costs."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any

from minires.commands.output import add_json, write_text

SIZES = {"blocks": "blocks of the model that is measured", "d": "its width", "rounds": "timings; the median counts"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="RECIPE", help="only these, in full (default: all, in short)")
    parser.add_argument("--list", action="store_true", help="names, equations and sources only; measure nothing")
    for name, line in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=argparse.SUPPRESS, metavar="N", help=line)
    parser.add_argument("--load", metavar="FILE", help="a Python file of yours that registers rules and recipes")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """List them; measure unless --list."""
    from minires.commands.setup import machine, run_file
    from minires.models import RECIPES, get_recipe

    run_file(args.load)
    chosen = [get_recipe(name) for name in args.names or RECIPES]
    if args.list:
        return _list(chosen, args.json, whole=bool(args.names))
    from minires.experiments import costs

    given = {name: value for name, value in vars(args).items() if name in SIZES}
    with machine(None, 1):
        result = costs.run(recipes=tuple(recipe.name for recipe in chosen), **given)
    if args.json:
        write_text(result.to_json(), args.json)
    if args.json != "-":
        _print(chosen, costs.caption(result), result.data["rows"], whole=bool(args.names))
    return 0


def _list(chosen: list, path: str | None, whole: bool) -> int:
    from minires.commands.output import write_json

    entries = [{"name": r.name, "equation": r.equation, "source": r.source, "parts": r.parts()} for r in chosen]
    write_json(entries, path)
    if path != "-":
        for recipe in chosen:
            print(_told(recipe) if whole else f"{recipe.name}\n    {recipe.equation}\n    {recipe.source}")
    return 0


def _told(recipe: Any) -> str:
    """Everything that is to be known of it: equation, derivative, initialisation, source, discrepancy."""
    parts = [f"{recipe.equation}    ({recipe.source})", *recipe.parts().values()]
    return recipe.name + "\n" + "\n".join(textwrap.indent(part, "    ") for part in parts)


def _print(chosen: list, caption: str, rows: list[dict[str, Any]], whole: bool) -> None:
    """What they are first, because that is too long for a column, then the table of costs."""
    from minires import ui

    for recipe in chosen:
        print(_told(recipe) if whole else f"{recipe.name:<28}{recipe.equation}")
    print()
    ui.table([{key: value for key, value in row.items() if key != "equation"} for row in rows])
    print(caption)
