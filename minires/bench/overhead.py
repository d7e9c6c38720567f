"""What the engine adds to bare NumPy for small arrays, and how long it takes to begin."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from minires.bench.timing import side_by_side
from minires.tensor import Tensor, grad

CHAIN = 100  # operations in a row: so short, about a millisecond, that some rounds are not interrupted
ROUNDS = 1000
LONG_CHAIN = 20_000  # of h = h + f, beside autograd
Array = Any


def _add(h: Array, f: Array) -> Array:
    return h + f


def _mul(h: Array, f: Array) -> Array:
    return h * f


# operation → (h, f) → h on tensors; on arrays forward; on arrays backward: (dh, h, f) → gradients by both
OPERATIONS: dict[str, tuple[Callable, Callable, Callable]] = {
    "add": (_add, _add, lambda dh, h, f: (dh, dh)),
    "mul": (_mul, _mul, lambda dh, h, f: (dh * f, dh * h)),
    "matmul": (lambda h, f: h @ f, np.matmul, lambda dh, h, f: (dh @ f.T, h.T @ dh)),
}


def overhead(quick: bool) -> list[dict[str, Any]]:
    """Microseconds per operation beyond NumPy, forward and backward together, and a long chain beside autograd.

    Each is given twice. µs: the median over rounds, what it took on the machine as it was. best µs: the shortest round,
    what the code takes when nobody else uses the core. A machine that others share, or whose clock changes, moves the
    median by a factor of two and the best hardly.
    """
    sizes = (8,) if quick else (1, 4, 8)
    rows = [per_operation(name, n, quick) for name in OPERATIONS for n in sizes]
    return [*rows, *beside_autograd(LONG_CHAIN // 10 if quick else LONG_CHAIN)]


def per_operation(name: str, n: int, quick: bool) -> dict[str, Any]:
    """A chain of h = op(h, f) on n × n arrays, both operands tracked. The best is our best round minus NumPy's best."""
    on_tensors, forward, backward = OPERATIONS[name]
    f = np.eye(n)
    times = side_by_side({
        "minires": lambda: engine_chain(on_tensors, f), "NumPy": lambda: bare_chain(forward, backward, f),
    }, 0.3 if quick else 2.0, ROUNDS)  # fmt: skip
    added = float(np.median(np.array(times["minires"]) - np.array(times["NumPy"]))) / CHAIN
    best = (times.best("minires") - times.best("NumPy")) / CHAIN
    return {"work": f"{name}, overhead", "shape": f"{n}×{n}", "µs": added * 1e6, "best µs": best * 1e6}


def engine_chain(operation: Callable, f: np.ndarray, length: int = CHAIN) -> list[np.ndarray]:
    start, other = Tensor(f, requires_grad=True), Tensor(f, requires_grad=True)
    h = start
    for _ in range(length):
        h = operation(h, other)
    return grad(h, [start, other], np.ones_like(f))


def bare_chain(forward: Callable, backward: Callable, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The calls that a careful person would write by hand; what the backward pass needs is kept in a list."""
    h, kept = f, []
    for _ in range(CHAIN):
        kept.append(h)
        h = forward(h, f)
    dh, df = np.ones_like(f), np.zeros_like(f)
    for h in reversed(kept):
        dh, by_f = backward(dh, h, f)
        df += by_f
    return dh, df


def beside_autograd(length: int) -> list[dict[str, Any]]:
    """h = h + f, `length` times on vectors of 8, with both tracked; autograd's time relative to ours.

    No row without autograd.
    """
    if importlib.util.find_spec("autograd") is None:
        return []
    from autograd import grad as their_grad  # type: ignore[import-not-found]
    from autograd import numpy  # type: ignore[import-not-found]

    def chain(both: Any) -> Any:
        h, f = both
        for _ in range(length):
            h = h + f
        return numpy.sum(h)  # type: ignore

    ones, theirs = np.ones(8), cast(Any, their_grad(chain))  # type: ignore
    works = {"minires": lambda: engine_chain(_add, ones, length), "autograd": lambda: theirs((ones, ones))}
    times = side_by_side(works, 2.0)
    per = {"µs": times.median("minires") / length * 1e6, "best µs": times.best("minires") / length * 1e6}
    return [{"work": f"{length} adds, each", "shape": "8", **per, **times.ratios("minires")}]


# ------------------------------------------------------------------------------------------------------ beginning

PROGRAMS = {
    "nothing": "",
    "import numpy": "import numpy",
    "import minires": "import minires",
    "first kernel": "import minires, numpy; minires.backend('numba'); minires.ops.softmax(numpy.ones((4, 4), 'f'))",
}


def start(quick: bool) -> list[dict[str, Any]]:
    """Seconds of fresh interpreters, in turns; what an interpreter needs to do nothing is taken off."""
    rounds = [[seconds(program) for program in PROGRAMS.values()] for _ in range(2 if quick else 6)]
    nothing, numpy, minires, kernel = np.median(rounds[1:], axis=0)  # the first round may compile
    ratio = (minires - nothing) / (numpy - nothing)
    return [
        {"work": "import numpy", "ms": (numpy - nothing) * 1e3},
        {"work": "import minires", "ms": (minires - nothing) * 1e3, "times numpy": ratio},
        {"work": "first kernel from the cache", "ms": (kernel - minires) * 1e3},
    ]


def seconds(program: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    return time.perf_counter() - began
