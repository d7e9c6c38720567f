"""The `minires` command.

Exit codes: 0 all well · 1 the answer is no (an exercise failed, a figure is stale, the doctor found a problem) ·
2 wrong input or a full disk, explained in three parts · 130 stopped with Ctrl-C · 141 the reader of our output went
away.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NoReturn, TextIO

from minires import __version__
from minires.messages import Explained, FileProblem, UnknownName, ValueProblem, did_you_mean

COMMANDS = {
    "tour": "two minutes: checked gradients, the gradient table, a trained model",
    "init": "copy the course into a folder of your own",
    "grade": "grade your exercises, and name the mistake",
    "residuals": "list the residual recipes: equations, and what each costs",
    "compare": "measure residual recipes side by side, by depth",
    "claims": "every claim of three articles: what was measured, and the verdict",
    "sweep": "train a grid of recipes, depths, widths and seeds; resumable",
    "experiments": "list the experiments with their settings",
    "run": "run one experiment and print what it measured",
    "figures": "redraw the figures that are out of date, or check them",
    "train": "train a small Transformer on the shipped play or on a task",
    "generate": "write text with a trained model",
    "bench": "how fast this machine computes, beside NumPy and PyTorch",
    "doctor": "look at this installation and say what to do about problems",
    "cache": "show or clear the compiled kernels",
}

_NEXT = "New here? Run `minires tour`. Every command explains itself: `minires COMMAND --help`."


class Parser(argparse.ArgumentParser):
    """argparse, but its complaints become messages in three parts like all others."""

    def error(self, message: str) -> NoReturn:
        must = f"the arguments must be as `{self.prog} --help` lists them"
        raise ValueProblem(must, message, "Is a value missing or misspelled?")

    def print_help(self, file=None) -> None:
        """argparse itself says nothing if its help cannot be written."""
        print(self.format_help(), end="", file=file or sys.stdout)

    def option_names(self) -> list[str]:
        return [name for action in self._actions for name in action.option_strings if name.startswith("--")]


def build_parser(chosen: str | None) -> tuple[Parser, Parser]:
    """The parser of `minires`, and the one of the `chosen` command. Only that command's file is imported."""
    debug = Parser(add_help=False)
    debug.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help="show the traceback of an error")
    as_written = argparse.RawDescriptionHelpFormatter
    parser = Parser(
        "minires",
        usage="minires COMMAND [options]",
        description=_about(),
        epilog=_NEXT,
        parents=[debug],
        formatter_class=as_written,
    )
    parser.add_argument("--version", action="version", version=f"minires {__version__}")
    commands = parser.add_subparsers(dest="command", prog="minires", help=argparse.SUPPRESS)
    own = parser
    for name, line in COMMANDS.items():
        sub = commands.add_parser(name, description=line[0].upper() + line[1:] + ".", parents=[debug])
        if name == chosen:
            own = sub
            importlib.import_module(f"minires.commands.{name}").add_arguments(sub)
    return parser, own


def _about() -> str:
    lines = [f"  {name:<13}{line}" for name, line in COMMANDS.items()]
    return "\n".join(["Residual connections from scratch: y = x + F(x).", "", "commands:", *lines])


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments of a command line. Raises UnknownName for an unknown command, ValueProblem for the rest."""
    chosen = next((word for word in argv if not word.startswith("-")), None)
    if chosen is not None and chosen not in COMMANDS:
        raise UnknownName("command", chosen, COMMANDS)
    parser, own = build_parser(chosen)
    args, left = parser.parse_known_args(argv)
    if left:
        raise ValueProblem(*_not_understood(own, left))
    if chosen is None:
        parser.print_help()
    return args


def _not_understood(parser: Parser, left: Sequence[str]) -> tuple[str, str, str]:
    known = sorted(parser.option_names())
    word = left[0].split("=")[0]
    hint = did_you_mean(word, known) if word.startswith("-") else f"See `{parser.prog} --help`."
    return f"`{parser.prog}` takes the options {', '.join(known)}", " ".join(left), hint


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return the exit code. Everything a user can do wrong ends here, without a traceback."""
    argv = sys.argv[1:] if argv is None else list(argv)
    _print_any_character()
    try:
        return _run(argv)
    except Explained as problem:
        if "--debug" in argv:
            raise
        _complain(problem)
        return 2
    except KeyboardInterrupt:
        print("\nStopped. Every file is whole.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _drop(sys.stdout)
        return 141
    except OSError as error:
        if "--debug" in argv:
            raise
        _drop(sys.stdout)
        _complain(_no_room(error))
        return 2


def _run(argv: Sequence[str]) -> int:
    try:
        args = parse(argv)
        return importlib.import_module(f"minires.commands.{args.command}").run(args) if args.command else 0
    finally:
        sys.stdout.flush()  # a closed pipe or a full disk shows up here and not at exit


def _complain(problem: Explained) -> None:
    """The message on standard error, which may be as full as the rest."""
    try:
        print(explain(problem), file=sys.stderr)
    except OSError:
        _drop(sys.stderr)


def _drop(stream: TextIO) -> None:
    """What is left in the stream's buffer goes nowhere, or Python complains again at exit."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _no_room(error: OSError) -> FileProblem:
    """The three parts for a disk, a device or a folder that took no more."""
    place = "standard output" if error.filename is None else repr(error.filename)
    hint = "Is the disk full, or the place read-only? With --debug you see where it happened."
    return FileProblem("what is written must have somewhere to go", f"{place}: {error.strerror or error}", hint)


def explain(problem: Explained) -> str:
    """The three parts of an error on lines of their own."""
    return "\n".join(_labelled([("The rule", problem.must), ("Given", problem.given), ("Hint", problem.hint)]))


def _labelled(parts: Iterable[tuple[str, str]]) -> Iterable[str]:
    for label, text in parts:
        first, *rest = str(text).splitlines() or [""]
        yield f"{label + ':':<10}{first}"
        yield from (f"{'':<10}{line}" for line in rest)


def _print_any_character() -> None:
    """A terminal that knows no γ gets a question mark, not a crash."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
