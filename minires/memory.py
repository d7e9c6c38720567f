"""Keep freed memory for the next arrays, instead of giving it back to the system after every use.

A training step makes and frees the same large arrays again and again. The C library on Linux returns a large block to
the system when it is freed, and the next array of that size gets fresh pages, each of which costs a page fault (about
half a microsecond per 4 KB). That was up to a quarter of a training step: see `minor_faults` in the output of
`minires bench`. Keeping the memory is one setting of the allocator. Other systems and other C libraries are left as
they are, and so is a process whose owner has chosen settings with MALLOC_… or GLIBC_TUNABLES.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = -1, -3, -8  # names and numbers from glibc's malloc.h
LARGEST = 32 << 20  # bytes; glibc allows no higher threshold: larger blocks always come from the system
KEPT = 1 << 30  # bytes of free memory at the end of the heap that are kept


@functools.cache
def keep_freed_memory() -> bool:
    """Tell glibc to keep what is freed, once per process. Returns whether that was possible.

    All threads share one heap then, because a heap of its own gives everything back when a thread's arrays are gone.
    """
    chosen = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    if chosen or not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    wanted = ((MMAP_THRESHOLD, LARGEST), (TRIM_THRESHOLD, KEPT), (ARENA_MAX, 1))
    return sum(mallopt(ctypes.c_int(option), ctypes.c_int(value)) for option, value in wanted) == len(wanted)


def minor_faults() -> int:
    """Page faults of this process so far that needed no disk; 0 where the system does not count them."""
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
