"""A learner's tools for kernels: what does it read and write, which indices are wrong, do parallel iterations collide?

Compiled kernels check nothing: an index beyond the end reads whatever lies there, and two iterations of `prange` that
write one cell give a different answer in each run. `trace` runs the same source without a compiler on arrays that
watch:

    report = trace(my_softmax, x, out)      # small arrays: this is plain Python
    print(report)                           # bytes per element, wrong indices, races
    check(my_softmax, x, out)               # the same, as an error if something is wrong
    first_run(my_softmax, x, out)           # check, then once compiled with bounds checks
"""

from __future__ import annotations

import inspect
import itertools
import types
from dataclasses import dataclass, field

import numpy as np

from minires.kernels.counting import CountingArray, Race, Watch, WrongIndex
from minires.messages import Explained, ValueProblem, shown

MOST = 100_000  # elements of one array; plain Python takes about a microsecond for each access
SHOWN = 5
CREATORS = ("zeros", "empty", "ones", "full", "zeros_like", "empty_like", "ones_like", "full_like")


class KernelProblem(Explained, RuntimeError):
    """A kernel with wrong indices or a race."""


@dataclass
class Traffic:
    """What a kernel did to one array."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    size: int
    reads: int  # elements, each time counted
    writes: int
    bytes_read: int
    bytes_written: int

    def __str__(self) -> str:
        per = [f"{n / self.size:.3g}" if self.size else "0" for n in (self.reads, self.writes)]
        return (
            f"{self.name:>8} {self.dtype} {self.shape}: read {per[0]} times and written {per[1]} times per element, "
            f"{self.bytes_read} + {self.bytes_written} bytes"
        )


@dataclass
class Report:
    """What `trace` saw."""

    kernel: str
    traffic: list[Traffic]
    races: list[Race]
    wrong_indices: list[WrongIndex]
    result: object = None
    arrays: dict[str, np.ndarray] = field(default_factory=dict)  # the arguments as the kernel left them

    @property
    def bytes_read(self) -> int:
        return sum(t.bytes_read for t in self.traffic)

    @property
    def bytes_written(self) -> int:
        return sum(t.bytes_written for t in self.traffic)

    @property
    def bytes_per_element(self) -> float:
        """All bytes read and written, per element of the largest array."""
        largest = max((t.size for t in self.traffic), default=0)
        return (self.bytes_read + self.bytes_written) / largest if largest else 0.0

    @property
    def outside(self) -> list[WrongIndex]:
        """The indices that are outside their array, without those that are only negative."""
        return [w for w in self.wrong_indices if w.outside]

    def __str__(self) -> str:
        lines = [f"{self.kernel}: {self.bytes_per_element:.3g} bytes per element of the largest array"]
        lines += [f"  {t}" for t in self.traffic]
        for title, notes in (("wrong indices", self.wrong_indices), ("races", self.races)):
            lines.append(f"  {title}: {len(notes) or 'none'}")
            lines += [f"    {note}" for note in notes[:SHOWN]]
        return "\n".join(lines)


def trace(kernel, *args) -> Report:
    """Run `kernel` without a compiler on copies of `args` and report traffic, wrong indices and races.

    Kernels that it calls are watched too, and arrays that it makes with `np.zeros` and the like. Raises
    `ValueProblem` for arrays of more than 100 000 elements, and for two that share memory.
    """
    need_separate([a for a in args if isinstance(a, np.ndarray)])
    python = python_of(kernel)
    watch, watched = Watch(), {}
    names = list(inspect.signature(python).parameters)
    given = [watched_argument(name, value, watch, watched) for name, value in zip(names, args)]
    result = Patched(watch).function(python)(*given, *args[len(names) :])
    traffic = [traffic_of(array._cells) for array in watched.values()]
    left = {name: array._data for name, array in watched.items()}
    return Report(python.__name__, traffic, list(watch.races.values()), list(watch.wrong), plain(result), left)


def need_separate(arrays: list[np.ndarray]) -> None:
    """Each argument is copied by itself: what one name writes would not be seen under the other."""
    for x, y in itertools.combinations(arrays, 2):
        if np.shares_memory(x, y):
            raise ValueProblem(
                "the arrays of a traced kernel must not share memory", f"{shown(x)} and {shown(y)} that do",
                "Pass copies. A parallel loop that reads one and writes the other in place is a race: give it an out.",
            )  # fmt: skip


def python_of(kernel):
    """The Python function inside a compiled kernel; with compilation disabled it is the kernel itself."""
    return getattr(kernel, "py_func", kernel)


def watched_argument(name: str, value, watch: Watch, watched: dict):
    if not isinstance(value, np.ndarray):
        return value
    if value.size > MOST:
        raise ValueProblem(f"trace needs arrays of at most {MOST} elements", f"{name} with {value.size}",
                           "It runs in plain Python, and a small array shows the same pattern.")
    watched[name] = CountingArray.watching(name, value.copy(order="K"), watch)
    return watched[name]


def traffic_of(cells) -> Traffic:
    reads, writes, item = int(cells.reads.sum()), int(cells.writes.sum()), cells.data.itemsize
    return Traffic(cells.name, cells.data.shape, str(cells.data.dtype), cells.data.size, reads, writes,
                   reads * item, writes * item)


def plain(result):
    """A kernel's result without watching arrays."""
    if isinstance(result, tuple):
        return tuple(plain(r) for r in result)
    return result._data if isinstance(result, CountingArray) else result


class Patched:
    """Rebuilds functions so that `prange`, array makers and called kernels are the watching ones."""

    def __init__(self, watch: Watch):
        self.watch, self.functions, self.made = watch, {}, 0

    def function(self, python):
        if python not in self.functions:
            scope = dict(python.__globals__)
            copy = types.FunctionType(python.__code__, scope, python.__name__, python.__defaults__)
            self.functions[python] = copy  # before its globals are patched: it may call itself
            used = names_in(python.__code__) & scope.keys()
            scope.update({name: self.value(scope[name]) for name in used})
            cells = tuple(types.CellType(self.value(c.cell_contents)) for c in python.__closure__ or ())
            if cells:
                copy = types.FunctionType(python.__code__, scope, python.__name__, python.__defaults__, cells)
                self.functions[python] = copy
        return self.functions[python]

    def value(self, value):
        """What a name of the kernel's file stands for while it is watched."""
        if getattr(value, "__name__", "") == "prange" and getattr(value, "__module__", "").startswith("numba"):
            return self.watch.parallel
        if value is np:
            return Proxy(np, {name: self.creator(name) for name in CREATORS})
        if isinstance(value, types.ModuleType) and value.__name__ == "numba":
            return Proxy(value, {"prange": self.watch.parallel})
        return self.function(value.py_func) if hasattr(value, "py_func") else value

    def creator(self, name: str):
        def create(like, *args, **options):
            like = like._data if isinstance(like, CountingArray) else like
            self.made += 1
            return CountingArray.watching(f"{name}#{self.made}", getattr(np, name)(like, *args, **options), self.watch)

        return create


class Proxy:
    """A module with some names replaced."""

    def __init__(self, module, replaced: dict):
        self._module, self._replaced = module, replaced

    def __getattr__(self, name):
        return self._replaced[name] if name in self._replaced else getattr(self._module, name)


def names_in(code: types.CodeType) -> set[str]:
    """Global names that a code object and the functions inside it use."""
    inner = [names_in(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    return set(code.co_names).union(*inner)


def check(kernel, *args) -> Report:
    """`trace`, and `KernelProblem` if an index is outside its array or if two parallel iterations collide."""
    report = trace(kernel, *args)
    if report.outside:
        raise KernelProblem(
            f"every index of {report.kernel} must lie inside its array",
            "; ".join(map(str, report.outside[:SHOWN])),
            "Often a loop runs one step too far, or rows and columns are exchanged. Compiled, this reads garbage.",
        )
    if report.races:
        raise KernelProblem(
            f"iterations of a parallel loop in {report.kernel} must not touch a cell that another one writes",
            "; ".join(map(str, report.races[:SHOWN])),
            "Give each iteration a row of its own and add the rows up after the loop.",
        )
    return report


def first_run(kernel, *args):
    """A new kernel's first run: `check` without a compiler, then compiled with bounds checks, on copies of `args`.

    Returns the result and the arguments as the compiled kernel left them. Never kept in a cache.
    """
    import numba

    check(kernel, *args)
    copies = [a.copy(order="K") if isinstance(a, np.ndarray) else a for a in args]
    given = getattr(kernel, "targetoptions", {})
    options = {k: given[k] for k in ("parallel", "fastmath", "error_model") if k in given}
    return numba.njit(boundscheck=True, **options)(python_of(kernel))(*copies), copies
