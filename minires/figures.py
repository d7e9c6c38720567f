"""Pictures that belong to their data: draw what is stale, and prove the rest.

`figures/` holds, for every experiment with a figure, NAME.json (the data), NAME.svg (the picture; some also have
NAME.png and NAME_dark.png), and one manifest.json with a hash of everything that a picture comes from: the data, the
code that measured it, the code and the files that this reads, the code that drew it, the picture itself. A picture also
carries the hash of its data inside.

    make()                      measure and draw what is missing or stale, leave the rest alone
    make(check=True)            change nothing, need no matplotlib: say whether every picture belongs to its data
    make(recompute=True)        change nothing: measure again and compare with the data, number by number
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from minires.experiments import EXPERIMENTS, Experiment, Result, get_experiment, load_result
from minires.experiments.result import plain
from minires.files import atomic_write, write_problem
from minires.messages import FileProblem, ValueProblem
from minires.sources import PACKAGE, imported_code
from minires.ui import progress

MANIFEST = "manifest.json"
MEASURED = ("measured by", "measured with")


@dataclass(frozen=True)
class Outcome:
    """What happened to one figure. `status`: fresh, drawn, measured, agrees; stale, wrong (these two are not `ok`)."""

    name: str
    status: str
    message: str = ""

    @property
    def ok(self) -> bool:
        return self.status not in ("stale", "wrong")


def figures_folder() -> Path:
    """`figures/` beside the package in a clone; `figures/` in the current folder otherwise."""
    beside = Path(__file__).resolve().parent.parent / "figures"
    return beside if (beside / MANIFEST).exists() else Path("figures")


def make(
    names: Sequence[str] = (), check: bool = False, recompute: bool = False, folder: str | Path | None = None
) -> list[Outcome]:
    """Bring figures up to date, or check them. One `Outcome` per figure, in the order of the registry.

    names: which ones; all that keep a figure if empty. folder: `figures_folder()` if not given.
    Raises UnknownName for a name that does not exist and FileProblem for a folder that cannot be written.
    """
    chosen = [get_experiment(name) for name in names] or [e for e in EXPERIMENTS.values() if e.figure]
    for experiment in chosen:
        if not experiment.figure:
            must = "figures are kept only for some experiments"
            raise ValueProblem(must, repr(experiment.name), f"Use `minires run {experiment.name}`.")
    place = Path(folder) if folder is not None else figures_folder()
    if check or recompute:
        works = [work for work, wanted in ((_check, check), (_recompute, recompute)) if wanted]
        return [outcome for e in progress(chosen, "figures") for outcome in _first_fault(e, place, works)]
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_problem(place, error) from None
    return [_update(experiment, place) for experiment in progress(chosen, "figures")]


# ---------------------------------------------------------------------------------------------- what is stale


def hashes(experiment: Experiment, place: Path) -> dict[str, str]:
    """Hashes of everything that the figure in `place` comes from, as they are now; "" for a missing file."""
    found = {
        "measured by": code_hash(experiment, "run"),
        "measured with": digest("".join([imported_code(_source(experiment)), *inputs(experiment)]).encode()),
        "drawn by": code_hash(experiment, "draw", "caption"),
    }
    return found | {file: file_hash(place / file) for file in files(experiment)}


def inputs(experiment: Experiment) -> list[str]:
    """The text of the files of the source tree that a default setting names, line by line as on every system."""
    paths = [PACKAGE.parent / value for value in experiment.settings.values() if isinstance(value, str) and value]
    return [path.read_text(encoding="utf-8") for path in paths if path.is_file()]


def files(experiment: Experiment) -> list[str]:
    """The files of one figure: the data first, then the pictures."""
    pictures = [".svg", ".png", "_dark.png"] if experiment.png else [".svg"]
    return [f"{experiment.name}{ending}" for ending in (".json", *pictures)]


def digest(raw: bytes) -> str:
    """A short content hash that does not depend on the line ends a checkout gives to text."""
    return hashlib.sha256(raw if b"\0" in raw else raw.replace(b"\r\n", b"\n")).hexdigest()[:24]


def file_hash(path: Path) -> str:
    return digest(path.read_bytes()) if path.is_file() else ""


def code_hash(experiment: Experiment, *roots: str) -> str:
    """A hash of those parts of the experiment's file that `roots` use, and of the style for drawing code."""
    text = source_of(_source(experiment), roots)
    if "draw" in roots:
        sheets = sorted(p for p in resources.files("minires.style").iterdir() if p.name.endswith((".py", ".mplstyle")))  # type: ignore[type-var]
        text += "".join(sheet.read_text(encoding="utf-8") for sheet in sheets)
    return digest(text.encode())


def _source(experiment: Experiment) -> str:
    return Path(str(experiment.load().__file__)).read_text(encoding="utf-8")


def source_of(source: str, roots: Sequence[str]) -> str:
    """The top-level definitions of a module that `roots` reach by name, in the order of the file."""
    parts = {name: node for node in ast.parse(source).body for name in _names_bound(node)}
    reached, todo = set(), [root for root in roots if root in parts]
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += [n.id for n in ast.walk(parts[name]) if isinstance(n, ast.Name) and n.id in parts]
    lines = source.splitlines(keepends=True)
    spans = sorted({_span(parts[name]) for name in reached})
    return "".join("".join(lines[first:last]) for first, last in spans)


def _names_bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [n.id for target in targets if target is not None for n in ast.walk(target) if isinstance(n, ast.Name)]


def _span(node: ast.stmt) -> tuple[int, int]:
    """The lines of a definition, decorators too."""
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    return first - 1, node.end_lineno or node.lineno


# ------------------------------------------------------------------------------------------------- the manifest


def read_manifest(place: Path) -> dict[str, dict[str, str]]:
    """The manifest of a folder; empty if there is none. Raises FileProblem if it is not one."""
    path = place / MANIFEST
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_bytes())
        if not all(isinstance(entry, dict) for entry in found.values()):
            raise ValueError("entries are not objects")
        return found
    except (ValueError, AttributeError) as error:
        must = "a figures manifest is a JSON object of objects"
        raise FileProblem(must, f"{path}: {error}", "Delete it; it is made again.") from None


def _write_manifest(place: Path, name: str, entry: dict[str, str]) -> None:
    manifest = read_manifest(place) | {name: entry}
    atomic_write(place / MANIFEST, json.dumps(dict(sorted(manifest.items())), indent=1) + "\n")


# ------------------------------------------------------------------------------------------------------- making


def _update(experiment: Experiment, place: Path) -> Outcome:
    """Measure if the data are missing or stale, draw if a picture is, and note it. Each file is replaced whole.

    The manifest is written last: after a kill in between, it does not fit, and the next call repairs the rest.
    """
    noted, data = read_manifest(place).get(experiment.name, {}), place / files(experiment)[0]
    status = "fresh" if _data_fit(experiment, place, noted) else _measure(experiment, data, noted)
    now = hashes(experiment, place)
    if status == "measured" or any(now[key] != noted.get(key) for key in now if key not in MEASURED):
        for file, raw in pictures(experiment, load_result(data), file_hash(data)):
            atomic_write(place / file, raw)
        status, now = status if status == "measured" else "drawn", hashes(experiment, place)
    if now != noted:
        _write_manifest(place, experiment.name, now)
    return Outcome(experiment.name, status)


def _measure(experiment: Experiment, data: Path, noted: dict[str, str]) -> str:
    """Measure. Data that were noted stay as they are if the numbers come out again: then only code has changed."""
    again = _one_thread(experiment.run)
    if file_hash(data) and file_hash(data) == noted.get(data.name):
        stored = load_result(data)
        if stored.settings == again.settings and not list(_differences(experiment, stored, again)):
            return "agrees"
    atomic_write(data, again.to_json())
    return "measured"


def _data_fit(experiment: Experiment, place: Path, noted: dict[str, str]) -> bool:
    """Whether the data file is the one that was noted, made by the present code with the present defaults."""
    file = files(experiment)[0]
    now = hashes(experiment, place)
    if not now[file] or any(now[key] != noted.get(key) for key in (file, *MEASURED)):
        return False
    return load_result(place / file).settings == plain(experiment.settings)


def pictures(experiment: Experiment, result: Result, data_hash: str) -> Iterator[tuple[str, bytes]]:
    """(file name, bytes) of every picture of one result. Needs matplotlib."""
    from minires.style import png_bytes, svg_bytes

    caption = experiment.caption(result)
    svg, *pngs = files(experiment)[1:]
    about = f"{caption} {stamp(data_hash)}"
    yield svg, _drawn(experiment, result, False, lambda f: svg_bytes(f, experiment.title, about))
    for file, paper in zip(pngs, ("light", "dark")):
        yield file, _drawn(experiment, result, paper == "dark", lambda f, paper=paper: png_bytes(f, paper))


def save_picture(experiment: Experiment, result: Result, path: str | Path, dark: bool = False) -> None:
    """Draw one result, with its caption, into a file of your own; the suffix says how. Whole or not at all.

    dark: for a dark page. Raises ValueProblem for a suffix that cannot be drawn, FileProblem for a bad folder.
    """
    from matplotlib.figure import Figure

    kind, kinds = Path(path).suffix.lstrip(".").lower(), Figure().canvas.get_supported_filetypes()
    if kind not in kinds:
        must = f"a picture's name must end with one of: {', '.join('.' + known for known in sorted(kinds))}"
        raise ValueProblem(must, repr(str(path)), "Use .svg for a page, .png for a message.")
    raw = _drawn(experiment, result, dark, lambda figure: _saved(figure, experiment, result, kind, dark))
    atomic_write(path, raw)


def _saved(figure: Any, experiment: Experiment, result: Result, kind: str, dark: bool) -> bytes:
    from minires.style import png_bytes, svg_bytes

    if kind == "svg":
        return svg_bytes(figure, experiment.title, experiment.caption(result))
    if kind == "png":
        return png_bytes(figure, "dark" if dark else "light")
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind)
    return buffer.getvalue()


def stamp(data_hash: str) -> str:
    """What a picture says about its data."""
    return f"[data {data_hash}]"


def _drawn(experiment: Experiment, result: Result, dark: bool, save: Callable[[Any], bytes]) -> bytes:
    """Draw under the style, add the caption, save. No display is needed and none is touched."""
    import matplotlib.pyplot as plt

    from minires.style import add_caption, style

    with style(dark):
        figure = experiment.draw(result)
        try:
            add_caption(figure, experiment.caption(result))
            return save(figure)
        finally:
            plt.close(figure)


# ----------------------------------------------------------------------------------------------------- checking


def _first_fault(experiment: Experiment, place: Path, works: list[Callable]) -> list[Outcome]:
    """The outcomes of the works in turn, up to the first that is not ok; only the last one counts."""
    outcome = Outcome(experiment.name, "fresh")
    for work in works:
        outcome = work(experiment, place)
        if not outcome.ok:
            break
    return [outcome]


def _check(experiment: Experiment, place: Path) -> Outcome:
    """Compare everything with the manifest, and the picture's own stamp with the data."""
    noted, now = read_manifest(place).get(experiment.name, {}), hashes(experiment, place)
    faults = [f"{key} is missing" for key, value in now.items() if not value]
    faults += [f"{key} has changed" for key, value in now.items() if value and value != noted.get(key)]
    data, svg = files(experiment)[:2]
    if now[svg] and now[data] and stamp(now[data]) not in (place / svg).read_text(encoding="utf-8"):
        faults.append(f"{svg} was drawn from other data than {data}")
    return Outcome(experiment.name, "stale" if faults else "fresh", "; ".join(faults))


def _recompute(experiment: Experiment, place: Path) -> Outcome:
    """Measure again with the stored settings and compare number by number."""
    data = place / files(experiment)[0]
    if not data.exists():
        return Outcome(experiment.name, "stale", f"{data.name} is missing")
    stored = load_result(data)
    faults = list(_differences(experiment, stored, _one_thread(experiment.run, **stored.settings)))
    rtol, _ = _tolerance(experiment)
    if not faults:
        return Outcome(experiment.name, "agrees", f"within {rtol:g}")
    more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
    return Outcome(experiment.name, "wrong", f"{faults[0]}{more} (tolerance {rtol:g})")


def _differences(experiment: Experiment, stored: Result, again: Result) -> Iterator[str]:
    return differences(stored.data, again.data, *_tolerance(experiment))


def _tolerance(experiment: Experiment) -> tuple[float, float]:
    """The relative and the absolute one: RTOL and ATOL of the experiment's module."""
    module = experiment.load()
    return getattr(module, "RTOL", 1e-6), getattr(module, "ATOL", 1e-12)


def differences(old: Any, new: Any, rtol: float, atol: float, where: str = "data") -> Iterator[str]:
    """Every place where two plain values differ by more than the tolerance, as text."""
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        for key in old:
            yield from differences(old[key], new[key], rtol, atol, f"{where}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new)):
            yield from differences(a, b, rtol, atol, f"{where}[{i}]")
    elif isinstance(old, float) and isinstance(new, float | int):
        if not (old == new or abs(old - new) <= atol + rtol * max(abs(old), abs(new)) or (old != old and new != new)):
            yield f"{where}: {old!r} stored, {new!r} measured"
    elif old != new:
        yield f"{where}: {old!r} stored, {new!r} measured"


def _one_thread(run: Callable[..., Result], **settings: Any) -> Result:
    """Run with one BLAS thread: the number of threads changes the last bits of a product."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        return run(**settings)
