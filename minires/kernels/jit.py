"""`njit` for kernels: numba's compiler with the options that hold everywhere in this package.

* `error_model="numpy"`: x / 0 is inf, as in NumPy, and the loop has no branch that stops vectorisation.
* `nogil`: other Python threads run meanwhile; that is how this package uses several cores.
* `fastmath` is a subset. `reassoc` lets a sum be kept in several vector lanes (without it no reduction vectorises),
  `contract` allows a·b + c in one instruction, `arcp` x/y as x·(1/y), `nsz` forgets the sign of zero. Never
  `fastmath=True`: it tells LLVM that NaN and inf do not occur, and then masks of −inf stop working.
* `no_cfunc_wrapper`: numba would also make a second entry for C callbacks, which nobody here calls. It costs a seventh
  of the time to compile.
* Machine code is kept on disk for the package's own kernels, see `cache.py`. A learner's kernel never is.
* Compilation is announced on stderr, because the computer seems to hang: once in a process what is going on, and each
  kernel that took more than a second.

An `@intrinsic` or `math` call aside, a kernel is ordinary Python: `kernel.py_func` runs it without a compiler.
"""

from __future__ import annotations

import functools
import sys
import time

import numba
from numba.core import event

from minires.kernels.cache import cache_folder, keep, keepable, say_once

FAST = {"reassoc", "contract", "nsz", "arcp"}
EXACT_ORDER = {"contract"}  # for code whose rounding is planned: sums keep the order in which they are written
DEFAULTS = {"nogil": True, "error_model": "numpy", "fastmath": FAST, "no_cfunc_wrapper": True}


def njit(function=None, **options):
    """`numba.njit` with this package's defaults: `@njit` or `@njit(fastmath=EXACT_ORDER, …)`.

    A kernel may call kernels of other files in `minires/kernels` if it imports them with
    `from minires.kernels.NAME import …`; an edit there makes it compile again.
    """
    if function is None:
        return functools.partial(njit, **options)
    dispatcher = numba.njit(**{**DEFAULTS, **options})(function)
    inlined = options.get("forceinline") or options.get("inline") == "always"  # then it is kept inside its callers
    if keepable(function) and hasattr(dispatcher, "py_func"):  # with NUMBA_DISABLE_JIT=1 it is the plain function
        _announce_compilations()
        if not inlined:
            keep(dispatcher)
    return dispatcher


class _Announcer(event.Listener):
    """Numba calls this around each compilation that the cache could not save, one inside the other where kernels call
    kernels.
    """

    def __init__(self) -> None:
        self.began: list[float] = []

    def on_start(self, event):
        if keepable(event.data["dispatcher"].py_func):
            kept = "kept for the next time" if cache_folder() else "not kept"
            say_once(f"compiling kernels: seconds for each, up to a minute before a first training step ({kept})")
        self.began.append(time.monotonic())

    def on_end(self, event):
        seconds, kernel = time.monotonic() - self.began.pop(), event.data["dispatcher"].py_func
        if not self.began and seconds > 1 and keepable(kernel):
            name = f"{kernel.__module__.rpartition('.')[2]}.{kernel.__name__}"
            print(f"minires: compiled {name} in {seconds:.0f} s", file=sys.stderr, flush=True)


@functools.cache
def _announce_compilations() -> None:
    event.register("numba:compile", _Announcer())
