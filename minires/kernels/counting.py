"""Arrays that watch: every element that is read or written is counted, checked and remembered with its loop iteration.

They exist for `trace` in inspect.py, which runs a kernel without a compiler on them.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np


class Race(NamedTuple):
    """Two iterations of a parallel loop that touch one cell, at least one of them writing."""

    array: str
    index: tuple[int, ...]
    first: int
    second: int
    kind: str  # 'both write', 'one reads what the other writes'

    def __str__(self) -> str:
        cell = f"{self.array}[{', '.join(map(str, self.index))}]"
        return f"{cell}: iterations {self.first} and {self.second} of the parallel loop ({self.kind})"


class WrongIndex(NamedTuple):
    """An index outside an array, or a negative one (which counts from the end, and is seldom meant)."""

    array: str
    index: tuple
    shape: tuple[int, ...]
    iteration: int | None
    outside: bool

    def __str__(self) -> str:
        where = "" if self.iteration is None else f" in iteration {self.iteration}"
        what = "is outside" if self.outside else "is negative and counts from the end of"
        return f"index {self.index} {what} {self.array} of shape {self.shape}{where}"


class Watch:
    """The notes about one kernel run, shared by all its arrays."""

    def __init__(self):
        self.iteration: int | None = None  # of the outermost parallel loop
        self.loop = 0  # counts parallel loops: iterations of different loops do not race
        self.races: dict[tuple, Race] = {}  # the first of each cell
        self.wrong: Counter[WrongIndex] = Counter()

    def parallel(self, *bounds):
        """Stands in for `prange`: a plain range that tells which iteration runs."""
        if self.iteration is not None:  # an inner parallel loop runs serially, in numba too
            yield from range(*bounds)
            return
        self.loop += 1
        for i in range(*bounds):
            self.iteration = i
            yield i
        self.iteration = None


class Cells:
    """The elements of one array with everything that happened to them; views share it."""

    def __init__(self, name: str, data: np.ndarray, watch: Watch):
        self.name, self.data, self.watch = name, data, watch
        self.reads, self.writes = np.zeros(data.size, int), np.zeros(data.size, int)
        self.readers: dict[int, dict[int, int]] = {}  # cell → {iteration: loop} of the last two readers
        self.writer: dict[int, tuple[int, int]] = {}  # cell → (iteration, loop) of the last one

    def read(self, cells: np.ndarray) -> None:
        np.add.at(self.reads, cells, 1)
        now = self.watch.iteration
        if now is None:  # outside of a parallel loop nothing can collide
            return
        for cell in cells.tolist():
            self._conflict(cell, self.writer.get(cell), "one reads what the other writes")
            readers = self.readers.setdefault(cell, {})
            readers.pop(now, None)
            readers[now] = self.watch.loop
            if len(readers) > 2:  # two suffice: at least one of them is not the iteration that will write
                del readers[next(iter(readers))]

    def write(self, cells: np.ndarray) -> None:
        np.add.at(self.writes, cells, 1)
        now = self.watch.iteration
        if now is None:
            return
        for cell in cells.tolist():
            self._conflict(cell, self.writer.get(cell), "both write")
            for reader in self.readers.get(cell, {}).items():
                self._conflict(cell, reader, "one reads what the other writes")
            self.writer[cell] = now, self.watch.loop

    def _conflict(self, cell: int, other: tuple[int, int] | None, kind: str) -> None:
        now = self.watch.iteration
        if now is None or other is None or other[1] != self.watch.loop or other[0] == now:
            return
        index = tuple(int(i) for i in np.unravel_index(cell, self.data.shape))
        known = self.watch.races.get((self.name, index))
        if known is None or (kind == "both write" and known.kind != kind):
            self.watch.races[self.name, index] = Race(self.name, index, other[0], now, kind)


class CountingArray(np.lib.mixins.NDArrayOperatorsMixin):
    """Looks like an ndarray to a kernel: indexing, slices, arithmetic, `shape`, `T`, `reshape`, `sum` and so on.

    A slice is a view, as in NumPy: taking it reads nothing. An index outside is noted, reads give 0 and writes are
    dropped.
    """

    def __init__(self, cells: Cells, data: np.ndarray, ids: np.ndarray):
        self._cells, self._data, self._ids = cells, data, ids

    @classmethod
    def watching(cls, name: str, data: np.ndarray, watch: Watch) -> CountingArray:
        """A watched array of its own."""
        return cls(Cells(name, data, watch), data, np.arange(data.size).reshape(data.shape))

    shape = property(lambda self: self._data.shape)
    ndim = property(lambda self: self._data.ndim)
    size = property(lambda self: self._data.size)
    dtype = property(lambda self: self._data.dtype)
    strides = property(lambda self: self._data.strides)
    itemsize = property(lambda self: self._data.itemsize)
    T = property(lambda self: self._view(lambda x: x.T))

    def _view(self, change) -> CountingArray:
        return CountingArray(self._cells, change(self._data), change(self._ids))

    def reshape(self, *shape):
        return self._view(lambda x: x.reshape(*shape))

    def ravel(self):
        return self._view(lambda x: x.reshape(-1))

    flatten = ravel

    def __len__(self):
        return len(self._data)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key):
        if not self._inside(key):
            return self.dtype.type(0)
        value, ids = self._data[key], self._ids[key]
        if isinstance(ids, np.ndarray) and ids.ndim:
            return CountingArray(self._cells, value, ids)
        self._cells.read(np.atleast_1d(ids))
        return value

    def __setitem__(self, key, value):
        if not self._inside(key):
            return
        if not (isinstance(value, CountingArray) and value._data is self._data):
            self._data[key] = value  # reads `value` through __array__ if it is watched
        self._cells.write(np.ravel(self._ids[key]))

    def _inside(self, key) -> bool:
        """Notes wrong whole-number indices; slices cannot leave an array."""
        keys = key if isinstance(key, tuple) else (key,)
        if any(k is None or k is Ellipsis for k in keys):
            return True
        whole = [(k, n) for k, n in zip(keys, self.shape) if isinstance(k, int | np.integer)]
        outside = any(not -n <= k < n for k, n in whole)
        if outside or any(k < 0 for k, _ in whole):
            shown = tuple(int(k) if isinstance(k, int | np.integer) else k for k in keys)
            note = WrongIndex(self._cells.name, _hashable(shown), self.shape, self._cells.watch.iteration, outside)
            self._cells.watch.wrong[note] += 1
        return not outside

    def __array__(self, dtype=None, copy=None):
        self._cells.read(np.ravel(self._ids))
        return np.array(self._data, dtype=dtype)

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **options):
        plain = [np.asarray(x) if isinstance(x, CountingArray) else x for x in inputs]
        targets = tuple(x._data if isinstance(x, CountingArray) else x for x in out)
        result = getattr(ufunc, method)(*plain, **({"out": targets} if out else {}), **options)
        for target in out:
            if isinstance(target, CountingArray):
                target._cells.write(np.ravel(target._ids))
        return out[0] if len(out) == 1 else result

    def fill(self, value):
        self[...] = value

    def copy(self):
        return np.asarray(self)

    def __getattr__(self, name):
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)  # sum, max, astype, …: they read everything


def _hashable(keys: tuple) -> tuple:
    return tuple(str(k) if isinstance(k, slice | np.ndarray) else k for k in keys)
