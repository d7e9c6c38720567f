"""Grids of recipe × depth × width × seed, on the cores of this machine or on a cluster.

Every finished cell is one line of JSON, written as soon as it is finished and named by a hash of its settings. Run the
same command again after a kill and it goes on with the cells that are missing. Cells are independent and have their
own seeds, so it does not matter who computes them, in which order, or in how many shards.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import multiprocessing
import os
import signal
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from minires.files import read_bytes, write_problem
from minires.messages import Explained, FileProblem, ValueProblem

Record = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One run: a recipe with `depth` blocks of width `width`, trained on the shipped play.

    steps of AdamW at lr after `warmup` steps, on `batch` sequences of `length` characters. load: a Python file of the
    user's that registers the recipe.
    """

    recipe: str
    depth: int
    width: int
    seed: int
    steps: int = 100
    lr: float = 1e-3
    warmup: int = 0
    heads: int = 4
    length: int = 32
    batch: int = 8
    load: str | None = None

    @property
    def key(self) -> str:
        """Twelve hexadecimal digits of a hash of all settings, and of what is in the loaded file, not of its path."""
        settings = asdict(self)
        if self.load is not None:
            settings["load"] = hashlib.sha256(read_bytes(self.load)).hexdigest()
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]


def grid(
    recipes: Sequence[str], depths: Sequence[int], widths: Sequence[int], seeds: Sequence[int], **options: Any
) -> list[Cell]:
    """All combinations; options are the other fields of `Cell`.

    Raises ValueProblem for sizes below 1 or heads that do not divide a width, UnknownName for an unknown recipe.
    """
    from minires.models import get_recipe

    for name in recipes:
        get_recipe(name)
    cells = [Cell(*place, **options) for place in itertools.product(recipes, depths, widths, seeds)]
    for c in cells:
        sizes = min(c.depth, c.width, c.steps, c.heads, c.length, c.batch)
        if sizes < 1 or c.width % c.heads or c.lr <= 0 or min(c.seed, c.warmup) < 0:
            must = "sizes must be at least 1, lr above 0, a seed at least 0, and heads must divide every width"
            raise ValueProblem(must, _settings_text(c), "Try --width 32 --heads 4.")
    return cells


def shard(cells: Sequence[Cell], part: str) -> list[Cell]:
    """Part i of n, written "i/n" and counted from 1: every n-th cell. Raises ValueProblem for anything else."""
    try:
        i, n = map(int, part.split("/"))
        if not 1 <= i <= n:
            raise ValueError
    except ValueError:
        must, hint = "a shard is written i/n with 1 ≤ i ≤ n", "The second of four is 2/4."
        raise ValueProblem(must, repr(part), hint) from None
    return list(cells[i - 1 :: n])


def _settings_text(cell: Cell) -> str:
    return ", ".join(f"{name}={value}" for name, value in asdict(cell).items() if value is not None)


# ---------------------------------------------------------------------------------------------------------- one cell


def run_cell(cell: Cell) -> Record:
    """Train one cell and return its line. One BLAS thread, so that as many cells run side by side as there are cores.

    loss: on validation text. gradient: ‖∂L/∂F‖ of the first sublayer relative to the last. growth: rms of the last
    state relative to the first. unigram: the loss of letter frequencies, to compare. missing: why a number is None.
    """
    import time

    from minires.commands.setup import machine, run_file
    from minires.data import CharCorpus, hamlet
    from minires.experiments.compare import missing, study
    from minires.experiments.result import versions
    from minires.models import get_recipe

    began = time.perf_counter()
    run_file(cell.load)
    corpus, one_seed = CharCorpus(hamlet()), range(cell.seed, cell.seed + 1)
    sizes = dict(d=cell.width, heads=cell.heads, context=cell.length)
    train = dict(steps=cell.steps, lr=cell.lr, warmup=cell.warmup)
    with machine(None, 1):
        found = study(get_recipe(cell.recipe), cell.depth, corpus, sizes, (cell.batch, cell.length), one_seed, train)
    gradient, stream = found["start"]["gradient"], found["start"]["stream"]
    return {
        "key": cell.key, "settings": asdict(cell), "loss": _number(found["final"][0]),
        "gradient": _number(gradient[0] / gradient[-1] if gradient[-1] else float("nan")),
        "growth": _number(stream[-1] / stream[0]), "unigram": _number(corpus.baselines().unigram),
        "losses": [_number(x) for x in found["losses"][0]], "missing": missing(found),
        "seconds": round(time.perf_counter() - began, 2),
        "versions": versions(),
    }  # fmt: skip


def _number(value: float) -> float | None:
    """Six significant digits; None for NaN and infinities, for which JSON has no word."""
    return float(f"{value:.6g}") if abs(value) < float("inf") else None


# ------------------------------------------------------------------------------------------------- the file of lines


class Lines:
    """The file of finished cells, one line each, open for appending. Use it in a `with` block.

    A last line that a kill has cut short is removed at the start. The file is locked while it is open (where the system
    has locks), so that two sweeps cannot write to it at once; the lock ends with the process, however that ends.
    Raises FileProblem for a file that cannot be written, is in use, or holds a line that is no record.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)

    def __enter__(self) -> Lines:
        try:
            self.file: BinaryIO = open(self.path, "a+b")
        except OSError as error:
            raise write_problem(self.path, error) from None
        try:
            _lock(self.file, self.path)
            self.file.seek(0)
            raw = self.file.read()
            whole = raw[: raw.rfind(b"\n") + 1]
            self.records = parse(whole, self.path)
            self.file.truncate(len(whole))
        except BaseException:
            self.file.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.file.close()

    def add(self, record: Record) -> None:
        """Append one line, and have it on the disk before the next one."""
        try:
            self.file.write(json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n")
            self.file.flush()
            os.fsync(self.file.fileno())
        except OSError as error:
            raise write_problem(self.path, error) from None
        self.records[record["key"]] = record


def parse(raw: bytes, path: str | os.PathLike) -> dict[str, Record]:
    """Whole lines as records by key. Raises FileProblem that names the first line that is no record."""
    found: dict[str, Record] = {}
    for number, line in enumerate(raw.splitlines(), 1):
        try:
            record = json.loads(line)
            found[record["key"]] = record
            record["settings"]["recipe"]
        except (ValueError, TypeError, KeyError):
            given, hint = f"line {number} of {os.fspath(path)!r}", "Was it written by a sweep? Name another file."
            raise FileProblem("every line must be a finished cell", given, hint) from None
    return found


def read_lines(paths: Iterable[str | os.PathLike]) -> list[Record]:
    """The finished cells of several files, each key once: how shards are put together. Cut last lines are left out."""
    found: dict[str, Record] = {}
    for path in paths:
        raw = read_bytes(path)
        found |= parse(raw[: raw.rfind(b"\n") + 1], path)
    return list(found.values())


def _lock(file: BinaryIO, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        must, hint = "one sweep at a time writes to a file", "Give every shard a file of its own with --out."
        raise FileProblem(must, f"{str(path)!r}, which another sweep has open", hint) from None


# ------------------------------------------------------------------------------------------------------ all the cells


def sweep(
    cells: Sequence[Cell], path: str | os.PathLike, workers: int = 1, scheduler: str | None = None,
    on_record: Callable[[Record], None] | None = None, progress: bool = True,
) -> list[Record]:  # fmt: skip
    """Run the cells that `path` does not hold yet, and return the records of all, in the order of the cells.

    workers: processes on this machine (1: this process). scheduler: the address of a `distributed` scheduler, which
    runs the cells instead. on_record: called with each new record, after its line is on the disk.
    Raises FileProblem for the file, ValueProblem for a worker that died or a scheduler that cannot be reached.
    """
    from minires import ui

    if workers < 1:
        raise ValueProblem("workers must be at least 1", str(workers), "One per core is a good number.")
    with Lines(path) as lines:
        keys = [cell.key for cell in cells]
        missing = [cell for cell, key in zip(cells, keys) if key not in lines.records]
        source = _cluster(missing, scheduler) if scheduler else _processes(missing, workers)
        with ui.progress(len(missing), "cells", enabled=progress) as bar:
            for record in source:
                lines.add(record)
                bar.advance(note=f"{record['settings']['recipe']} loss {record['loss']}")
                if on_record:
                    on_record(record)
        return [lines.records[key] for key in keys]


def _processes(cells: Sequence[Cell], workers: int) -> Iterator[Record]:
    """Records as they get ready. New processes are spawned, never forked: threads do not survive a fork."""
    if workers == 1 or len(cells) < 2:
        yield from map(run_cell, cells)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(cells)), mp_context=context, initializer=_die_at_interrupts)
    try:
        for future in as_completed([pool.submit(_in_worker, cell) for cell in cells]):
            yield future.result()
    except BrokenProcessPool:
        must, given = "a worker process must live until its cell is done", "one that died, perhaps for want of memory"
        raise ValueProblem(must, given, "Finished cells are kept: run it again with fewer workers.") from None
    finally:
        pool.shutdown(cancel_futures=True)


def _die_at_interrupts() -> None:
    """Ctrl-C reaches every process of a terminal: a worker ends at once and without a traceback, and we report."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _in_worker(cell: Cell) -> Record:
    """A cell in a thread, because training in a main thread would take Ctrl-C for itself and end after its step."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run_cell, cell).result()


def _cluster(cells: Sequence[Cell], address: str) -> Iterator[Record]:
    """Records as the workers of a `distributed` scheduler finish them; a cell whose worker is lost is run once more."""
    try:
        from distributed import Client  # pyright: ignore[reportMissingImports]
        from distributed import as_completed as as_finished  # pyright: ignore[reportMissingImports]
    except ImportError:
        must, hint = "--scheduler needs the package `distributed`", "Install it with: pip install 'minires[cluster]'"
        raise ValueProblem(must, "an installation without it", hint) from None
    try:
        client = Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        must, hint = "the scheduler must answer at its address", "It looks like tcp://host:8786. Is it running?"
        raise ValueProblem(must, f"{address!r}: {error}", hint) from None
    with client:
        for future in as_finished(client.map(run_cell, cells, pure=False, retries=1)):
            yield _result(future)


def _result(future: Any) -> Record:
    """The record, or a message that says where the cell failed."""
    try:
        return future.result()
    except Explained:
        raise
    except Exception as error:
        must, hint = "every cell must run on its worker", "The workers need the same minires, and the file of --load."
        raise ValueProblem(must, f"{type(error).__name__}: {error}", hint) from error


def summary(records: Iterable[Record]) -> list[dict[str, Any]]:
    """One row per setting other than the seed: mean loss over the seeds, its spread, and what the gradients did.

    A row names its recipe, depth and width, and every other setting in which the records differ (a learning rate, say).
    """
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[json.dumps({**record["settings"], "seed": None}, sort_keys=True)].append(record)
    named = _varying([group[0]["settings"] for group in groups.values()])
    return [_row({name: group[0]["settings"].get(name) for name in named}, group) for group in groups.values()]


def _varying(settings: list[dict[str, Any]]) -> list[str]:
    """The settings worth a column: recipe, depth, width, and those that do not have one value everywhere."""
    names = dict.fromkeys(name for s in settings for name in s if name != "seed")
    always = ("recipe", "depth", "width")
    return [*always, *(n for n in names if n not in always and len({s.get(n) for s in settings}) > 1)]


def _row(place: dict[str, Any], group: list[Record]) -> dict[str, Any]:
    losses = [r["loss"] for r in group if r["loss"] is not None]
    mean = sum(losses) / len(losses) if losses else None
    return place | {
        "seeds": len(group), "loss": mean,
        "spread": max(losses) - min(losses) if losses else None, "broke off": len(group) - len(losses),
        "gradient first/last": group[0]["gradient"], "stream last/first": group[0]["growth"],
        "seconds": round(sum(r["seconds"] for r in group), 1),
    }  # fmt: skip
