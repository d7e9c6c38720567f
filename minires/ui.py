"""What people see while they wait, and tables.

Progress goes to stderr and results to stdout, so that `minires … > file` holds results only. Work that ends within
two seconds shows nothing; longer work shows a bar on a terminal and a calm line every few seconds in a log.
rich is imported when something is shown.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

PATIENCE = 2.0  # seconds of silence before anything is shown
LOG_EVERY = 5.0  # seconds between two lines in a log


@dataclass
class Progress:
    """How far some work is. Iterate over it, or call `advance` inside a `with` block.

    for batch in progress(batches, "training"): …
    with progress(300, "training") as bar: bar.advance(note="loss 2.31")
    """

    items: Iterable | None
    total: int | None
    label: str
    stream: TextIO
    clock: Callable[[], float] = time.monotonic
    enabled: bool = True
    done: int = field(default=0, init=False)
    note: str = field(default="", init=False)
    _bar: Any = field(default=None, init=False)
    _spoke: bool = field(default=False, init=False)
    _first: tuple[int, float] | None = field(default=None, init=False)  # after the first piece, which may compile

    def __post_init__(self) -> None:
        self.started = self.shown_at = self.clock()

    def __iter__(self) -> Iterator[Any]:
        with self:
            for item in range(self.total or 0) if self.items is None else self.items:
                yield item
                self.advance()

    def __enter__(self) -> Progress:
        self.started = self.shown_at = self.clock()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        elif self._spoke and exception[0] is None:
            self._say_line()

    def advance(self, n: int = 1, note: str | None = None) -> None:
        """`n` more pieces are done; `note` (a loss, say) stands at the end of the line."""
        self.done += n
        self.note = self.note if note is None else note
        now = self.clock()
        self._first = self._first or (self.done, now)
        if self.enabled and now - self.started >= PATIENCE:
            self._show_bar() if self.stream.isatty() else self._show_line(now)

    # -- a terminal

    def _show_bar(self) -> None:
        if self._bar is None:
            self._bar = _rich_bar(self.stream)
            self._task = self._bar.add_task(self.label, total=self.total, note="", left="")
            self._bar.start()
        self._bar.update(self._task, completed=self.done, note=self.note, left=self._left())

    # -- a log

    def _show_line(self, now: float) -> None:
        wait = LOG_EVERY if self._spoke else PATIENCE
        if now - self.shown_at >= wait and self.done != self.total:
            self.shown_at, self._spoke = now, True
            self._say_line()

    def _say_line(self) -> None:
        print(self.line(), file=self.stream, flush=True)

    def line(self) -> str:
        """The state in one line: "training 120/400, 30 %, 12 s left, loss 2.31"."""
        count = f"{self.done}/{self.total}" if self.total else f"{self.done}"
        share = f"{100 * self.done / self.total:.0f} %" if self.total else ""
        return ", ".join(part for part in (f"{self.label} {count}", share, self._left(), self.note) if part)

    def _left(self) -> str:
        """The time that the rest takes at the speed since the first piece, or all the time used once all is done."""
        now = self.clock()
        if not self.total or self.done >= self.total:
            return f"{duration(now - self.started)} in all"
        if self._first is None or self.done == self._first[0]:
            return ""
        return f"{duration((now - self._first[1]) / (self.done - self._first[0]) * (self.total - self.done))} left"


def progress(
    work: Iterable | int,
    label: str,
    *,
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
    enabled: bool = True,
) -> Progress:
    """Progress over `work`: something to iterate over, or how many steps there are.

    Shown on stderr (or `stream`), and only for work of more than two seconds. enabled=False never shows anything.
    """
    out = sys.stderr if stream is None else stream
    if isinstance(work, int):
        return Progress(None, work, label, out, clock, enabled)
    total = len(work) if hasattr(work, "__len__") else None  # type: ignore[arg-type]
    return Progress(work, total, label, out, clock, enabled)


def _rich_bar(stream: TextIO) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    texts = [TextColumn("{task.fields[%s]}" % name, markup=False) for name in ("left", "note")]  # noqa: UP031
    label = TextColumn("{task.description}", markup=False)
    return Bar(label, BarColumn(), MofNCompleteColumn(), *texts, console=Console(file=stream), refresh_per_second=5)


def duration(seconds: float) -> str:
    """Seconds as people say them: "0.4 s", "12 s", "3 min 5 s", "2 h 10 min"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if round(seconds) < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def table(
    rows: Iterable[Mapping[str, Any] | Sequence[Any]],
    title: str | None = None,
    columns: Sequence[str] | None = None,
    stream: TextIO | None = None,
) -> None:
    """Print rows as a table on stdout. Rows are mappings (their keys name the columns) or sequences with `columns`.

    Numbers stand on the right: integers with thousands marks, floats with four significant digits.
    """
    from rich.console import Console
    from rich.table import Table

    rows = list(rows)
    names = list(columns or (rows[0] if rows and isinstance(rows[0], Mapping) else ()))
    cells = [[row.get(name, "") for name in names] if isinstance(row, Mapping) else list(row) for row in rows]
    grid = Table(show_header=bool(names), box=_quiet_lines(), pad_edge=False)
    for i in range(max([len(names), *map(len, cells)], default=0)):
        numeric = cells and all(_is_number(row[i]) or row[i] in ("", None) for row in cells if i < len(row))
        grid.add_column(names[i] if names else "", justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        grid.add_row(*map(cell, row))
    out = sys.stdout if stream is None else stream
    console = Console(file=out, width=None if out.isatty() else 200, markup=False, highlight=False, emoji=False)
    console.print(*[title] * bool(title), grid, sep="\n")


def cell(value: Any) -> str:
    """A value as it stands in a table."""
    if value is None:
        return ""
    if isinstance(value, bool) or not _is_number(value):
        return str(value)
    return f"{value:,d}" if isinstance(value, int) else f"{value:.4g}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _quiet_lines() -> Any:
    from rich import box

    return box.SIMPLE_HEAD
