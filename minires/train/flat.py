"""Many parameters in one flat array, so that an optimiser is a few passes over memory instead of many small ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from minires.messages import DtypeError, ValueProblem, shown
from minires.nn import Parameter

LINE = 64  # bytes of a cache line: every parameter starts at one, as SIMD code likes it


class Run(NamedTuple):
    """Neighbours that are updated alike: a slice of the flat arrays, and what they share."""

    where: slice
    decays: bool
    lr_scale: float
    steps: int


class Flat:
    """Parameters side by side in `data`, their gradients in `gradient`.

    From now on each `parameter.data` is a view of `data` (an array that you took from it before is not). A parameter
    that is in the list twice, a tied weight, is there once. The gaps between parameters hold zeros for ever.

    Raises ValueProblem for no parameters and DtypeError for things that are none, or of several dtypes.
    """

    def __init__(self, parameters: Iterable[Parameter]):
        self.parameters = list({id(p): p for p in parameters}.values())
        self.dtype = _common_dtype(self.parameters)
        alike = [(not p.decays, p.lr_scale) for p in self.parameters]
        self.order = sorted(range(len(alike)), key=alike.__getitem__)  # those updated alike stand together
        self.slices, self.total = self._places()
        self.data, self.gradient = self.zeros(), self.zeros()
        self.views = self.split(self.data)
        self._slots = self.split(self.gradient)
        self.adopt()

    def _places(self) -> tuple[list[slice], int]:
        """Where each parameter lies, and the length of the whole."""
        places, end, step = [slice(0)] * len(self.parameters), 0, LINE // self.dtype.itemsize
        for i in self.order:
            size = self.parameters[i].size
            places[i] = slice(end, end + size)
            end += -(-size // step) * step
        return places, end

    def zeros(self) -> np.ndarray:
        """A new flat array of zeros, (total,), that starts at a cache line."""
        raw = np.zeros(self.total * self.dtype.itemsize + LINE, np.uint8)
        start = -raw.ctypes.data % LINE
        return raw[start : start + self.total * self.dtype.itemsize].view(self.dtype)

    def split(self, flat: np.ndarray) -> list[np.ndarray]:
        """Views of a flat array, one per parameter and in its shape."""
        return [flat[where].reshape(p.shape) for where, p in zip(self.slices, self.parameters)]

    def adopt(self) -> None:
        """Bring back parameters whose `data` was set to another array since, with their new values."""
        for p, view in zip(self.parameters, self.views):
            if p.data is not view:
                view[...] = p.data
                p.data = view

    def gather(self, gradients: Sequence[np.ndarray | None]) -> None:
        """Copy the gradients to their places in `gradient`; None becomes zeros."""
        for slot, gradient in zip(self._slots, gradients, strict=True):
            slot[...] = 0 if gradient is None else gradient

    def runs(self, gradients: Sequence[np.ndarray | None], steps: np.ndarray) -> Iterator[Run]:
        """The parameters that have a gradient, cut where decay, learning rate or the number of updates changes."""

        def key(i: int) -> tuple | None:
            p = self.parameters[i]
            return None if gradients[i] is None else (p.decays, p.lr_scale, int(steps[i]))

        for shared, group in groupby(self.order, key):
            members = list(group)
            if shared is not None:
                yield Run(slice(self.slices[members[0]].start, self.slices[members[-1]].stop), *shared)

    def pack(self, flat: np.ndarray) -> np.ndarray:
        """A flat array without its gaps, as it is stored in a file: (number of trained numbers,)."""
        return np.concatenate([flat[where] for where in self.slices])

    def unpack(self, packed: np.ndarray, flat: np.ndarray) -> None:
        """The reverse of `pack`, into `flat`."""
        ends = np.cumsum([p.size for p in self.parameters])[:-1]
        for where, piece in zip(self.slices, np.split(packed, ends)):
            flat[where] = piece


def _common_dtype(parameters: list) -> np.dtype:
    if not parameters:
        raise ValueProblem("an optimiser needs parameters", "none", "Pass model.parameters(), with the brackets.")
    strange = [p for p in parameters if not isinstance(p, Parameter)]
    if strange:
        hint = "Pass model.parameters(); a tensor of your own becomes one with nn.Parameter(array)."
        raise DtypeError("an optimiser updates minires.nn.Parameter objects", shown(strange[0]), hint)
    dtypes = sorted({str(p.dtype) for p in parameters})
    if len(dtypes) > 1:
        hint = "Build the whole model with one dtype=…, or give each dtype its own optimiser."
        raise DtypeError("the parameters of one optimiser must share one dtype", " and ".join(dtypes), hint)
    return parameters[0].dtype
