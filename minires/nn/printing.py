"""How a model is shown: one line per part, equal neighbours once with how many there are, parameters on the right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from minires.nn.module import Module, Parameter


class Line(NamedTuple):
    """A line of the picture; `size` is how many trained numbers belong to it."""

    depth: int
    text: str
    size: int


def show(module: Module) -> str:
    """The module as text. A number on the right counts all parameters of its line, of "4 × …" those of all four."""
    lines = list(lines_of(module, "", 0))
    width = max(len("  " * line.depth + line.text) for line in lines)
    return "\n".join(_row(line, width) for line in lines)


def _row(line: Line, width: int) -> str:
    text = "  " * line.depth + line.text
    return f"{text:<{width}}  {line.size:>11,}" if line.size else text


def lines_of(module: Module, name: str, depth: int, times: int = 1, all_in_all: int = 1) -> Iterator[Line]:
    """The module's own line, then its parameters and parts one level deeper.

    times: how many such modules stand here. all_in_all: how many there are in everything above too, for the sizes.
    """
    label = f"{name}: " * bool(name) + f"{times} × " * (times > 1)
    size = all_in_all * module.count_parameters()
    yield Line(depth, f"{label}{type(module).__name__}({module.describe()})", size)
    for part, value in vars(module).items():
        yield from _part(module, part, value, depth + 1, all_in_all)


def _part(module: Module, name: str, value: Any, depth: int, times: int) -> Iterator[Line]:
    from minires.nn.module import Module, Parameter

    if isinstance(value, Parameter) and not module.describes_own:
        yield Line(depth, f"{name}: {_shape(value)}", times * value.size)
    elif isinstance(value, Module) and not value.silent:
        yield from lines_of(value, name, depth, all_in_all=times)
    elif isinstance(value, list | tuple) and value and all(isinstance(v, Module) for v in value):
        yield from _modules(name, value, depth, times)
    elif isinstance(value, list | tuple) and value and all(isinstance(v, Parameter) for v in value):
        yield from _parameters(name, value, depth, times)


def _modules(name: str, modules: Sequence[Module], depth: int, times: int) -> Iterator[Line]:
    """A list of modules. If it repeats a unit (attention, feed-forward), the unit is shown once."""
    unit = period([show(m) for m in modules])
    here = len(modules) // unit
    if unit == 1:
        yield from lines_of(modules[0], name, depth, here, here * times)
        return
    kinds = ", ".join(type(m).__name__ for m in modules[:unit])
    size = times * sum(m.count_parameters() for m in modules)
    yield Line(depth, f"{name}: {here} × ({kinds})" if here > 1 else f"{name}: {unit} different ones", size)
    for i in range(unit):
        yield from lines_of(modules[i], "" if here > 1 else str(i), depth + 1, here, here * times)


def _parameters(name: str, parameters: Sequence[Parameter], depth: int, times: int) -> Iterator[Line]:
    shapes = [_shape(p) for p in parameters]
    equal = len(set(shapes)) == 1 and len(shapes) > 1
    what = f"{len(shapes)} × {shapes[0]}" if equal else ", ".join(dict.fromkeys(shapes))
    yield Line(depth, f"{name}: {what}", times * sum(p.size for p in parameters))


def _shape(parameter: Parameter) -> str:
    return str(parameter.shape) if parameter.shape else "one number"


def period(items: Sequence) -> int:
    """The length of the shortest unit whose repetition makes up the whole list."""
    n = len(items)
    return next(p for p in range(1, n + 1) if n % p == 0 and all(items[i] == items[i % p] for i in range(n)))
