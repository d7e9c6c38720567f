"""Grades as people read them."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from typing import Any, TextIO

from minires.grading.runner import Grade

_STYLE = {"passed": "green", "failed": "red", "not attempted": "dim", "error": "yellow"}


def print_grades(grades: Sequence[Grade], stream: TextIO | None = None) -> None:
    """One line per exercise with its verdict, under it what was printed and found; then a summary and what is next."""
    for grade in grades:
        print_grade(grade, stream)
    passed = sum(g.status == "passed" for g in grades)
    console = _console(stream)
    console.print(f"\n{passed} of {len(grades)} passed.", style="bold")
    step = next((g for g in grades if g.status != "passed"), None)
    if step:
        console.print(f"Next: {'fill in' if step.status == 'not attempted' else 'look again at'} {step.id}.")


def print_grade(grade: Grade, stream: TextIO | None = None) -> None:
    """One verdict. Works while grading is going on, too (`grade(..., on_grade=print_grade)`)."""
    from rich.text import Text

    console = _console(stream)
    seconds = f"{grade.seconds:6.1f} s" if grade.status != "not attempted" else ""
    console.print(Text.assemble((f"{grade.status:<14}", _STYLE[grade.status]), f"{grade.id:<32}", (seconds, "dim")))
    if grade.output.strip():
        console.print(Text(textwrap.indent("printed by your code:\n" + grade.output.rstrip(), "    "), style="dim"))
    for finding in grade.findings:
        _print_finding(console, finding)


def _print_finding(console: Any, finding: dict[str, str]) -> None:
    from rich.table import Table
    from rich.text import Text

    console.print(Text(f"    {finding['where']}: {finding['mistake'].replace('_', ' ')}", style="bold"))
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=12, style="dim")
    grid.add_column(overflow="fold")
    for label in ("must", "yours", "look"):
        grid.add_row(f"      {label}", Text(finding[label]))
    console.print(grid)


def _console(stream: TextIO | None) -> Any:
    from rich.console import Console

    out = stream or sys.stdout
    return Console(file=out, width=None if out.isatty() else 110, highlight=False, markup=False, emoji=False)
