"""The operations around the matrix products, forward and backward, beside their NumPy twins and PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from minires.bench.peak import roofs
from minires.bench.peers import torch_or_none
from minires.bench.timing import side_by_side
from minires.tensor import OPS, arrays_in
from minires.train.clipping import global_norm, sum_of_squares
from minires.train.optimizers import adamw_in_force
from minires.train.updates import adamw_step

SIZES = ((32, 32), (128, 64), (256, 256), (1024, 64), (2048, 256), (1024, 1024), (4096, 1024))
QUICK_SIZES = ((32, 32), (256, 256), (1024, 512))
ADAMW = (1e-3, 0.9, 0.999, 1e-8, 0.01, 1.5, 1.2)  # lr, b1, b2, eps, decay, c1, c2
Work = Callable[[], Any]


class Contest(NamedTuple):
    """One piece of work in up to three hands. arrays: what it has to read and write at least."""

    name: str
    minires: Work
    numpy: Work
    torch: Work | None
    arrays: list[np.ndarray]


def kernels(quick: bool) -> list[dict[str, Any]]:
    """A row per operation, direction and size."""
    return [row(contest, shape, quick) for shape in (QUICK_SIZES if quick else SIZES) for contest in contests(*shape)]


def row(contest: Contest, shape: tuple[int, int], quick: bool) -> dict[str, Any]:
    """Time, traffic, share of the roof, and how many times longer the others take.

    The roof is the bandwidth for arrays of this size, as if arithmetic cost nothing.
    """
    hands = {"minires": contest.minires, "NumPy": contest.numpy, "PyTorch": contest.torch}
    times = side_by_side({name: work for name, work in hands.items() if work}, 0.05 if quick else 0.15)
    seconds, size = times.median("minires"), sum(a.nbytes for a in contest.arrays)
    return {
        "work": contest.name, "shape": "×".join(map(str, shape)), "µs": seconds * 1e6, "bytes": size,
        "GB/s": size / seconds * 1e-9, "share of roof": roofs(quick).roof(0, size) / seconds, **times.ratios("minires"),
    }  # fmt: skip


def contests(rows: int, cols: int) -> list[Contest]:
    """Everything that is measured at one size, float32."""
    rng = np.random.default_rng(0)
    x, dy = (rng.standard_normal((rows, cols)).astype(np.float32) for _ in range(2))
    vectors = tuple(rng.standard_normal(cols).astype(np.float32) for _ in range(2))
    targets, torch = rng.integers(0, cols, rows), torch_or_none()
    theirs = {} if torch is None else torch_works(torch, x, dy, vectors, targets)
    return [
        *both_ways("softmax", (x,), dy, theirs),
        *both_ways("layernorm", (x, *vectors), dy, theirs),
        *both_ways("gelu", (x,), dy, theirs),
        *both_ways("gelu_tanh", (x,), dy, theirs),
        cross_entropy(x, targets, theirs),
        *adamw(x, theirs),
        clipping_norm(x, theirs),
    ]


def both_ways(name: str, inputs: tuple, dy: np.ndarray, theirs: dict[str, Work]) -> list[Contest]:
    """The forward and the backward pass of an operation of the engine."""
    op = OPS[name]
    (y, saved), (_, plain) = op.forward(*inputs), op.reference[0](*inputs)
    gradients = arrays_in(op.backward(dy, saved))
    forward = Contest(
        f"{name} forward", lambda: op.forward(*inputs), lambda: op.reference[0](*inputs),
        theirs.get(f"{name} forward"), distinct([*inputs, y, *arrays_in(saved)]),
    )  # fmt: skip
    backward = Contest(
        f"{name} backward", lambda: op.backward(dy, saved), lambda: op.reference[1](dy, plain),
        theirs.get(f"{name} backward"), distinct([dy, *arrays_in(saved), *gradients]),
    )  # fmt: skip
    return [forward, backward]


def cross_entropy(x: np.ndarray, targets: np.ndarray, theirs: dict[str, Work]) -> Contest:
    """The loss and its gradient by the logits; log p is written once and read once."""
    op, one = OPS["cross_entropy"], np.float32(1)

    def ours() -> Any:
        return op.backward(np.asarray(one), op.forward(x, targets)[1])

    def reference() -> Any:
        return op.reference[1](np.asarray(one), op.reference[0](x, targets)[1])

    return Contest("cross_entropy both", ours, reference, theirs.get("cross_entropy both"), [x, x, x, x])


def adamw(x: np.ndarray, theirs: dict[str, Work]) -> list[Contest]:
    """One update of as many parameters: p, m, v read and written, g read. PyTorch in both of its forms."""
    p, g, m, v = (np.zeros(x.size, np.float32) for _ in range(4))
    g[:] = x.reshape(-1)
    fast, reference = adamw_in_force(), adamw_step.__wrapped__  # type: ignore[attr-defined]
    works = lambda: fast(p, g, m, v, *ADAMW), lambda: reference(p, g, m, v, *ADAMW)
    forms = ("foreach", "fused") if theirs else ("foreach",)
    return [Contest(f"adamw ({form})", *works, theirs.get(f"adamw {form}"), [p, p, m, m, v, v, g]) for form in forms]


def clipping_norm(x: np.ndarray, theirs: dict[str, Work]) -> Contest:
    """The norm of as many gradients."""
    g, reference = x.reshape(-1), sum_of_squares.__wrapped__  # type: ignore[attr-defined]
    works = lambda: global_norm([g]), lambda: math.sqrt(reference(g))
    return Contest("clipping norm", *works, theirs.get("clipping norm"), [g])


def distinct(arrays: list) -> list[np.ndarray]:
    """Each array once: an output that is saved as well is written once."""
    return list({a.__array_interface__["data"][0]: a for a in arrays if isinstance(a, np.ndarray) and a.size}.values())


def torch_works(torch: Any, x: Any, dy: Any, vectors: Any, targets: np.ndarray) -> dict[str, Work]:
    """The same work by PyTorch's own kernels, backward ones called without its autograd engine."""
    functional, aten = torch.nn.functional, torch.ops.aten
    x, dy, gamma, beta, y = (torch.from_numpy(np.array(a)) for a in (x, dy, *vectors, targets))
    p, width = torch.softmax(x, -1), [x.shape[1]]
    _, mean, rstd = torch.native_layer_norm(x, width, gamma, beta, 1e-5)
    mask, leaf = [True, True, True], x.clone().requires_grad_()
    return {
        "softmax forward": lambda: torch.softmax(x, -1),
        "softmax backward": lambda: aten._softmax_backward_data(dy, p, -1, x.dtype),
        "layernorm forward": lambda: torch.native_layer_norm(x, width, gamma, beta, 1e-5),
        "layernorm backward": lambda: aten.native_layer_norm_backward(dy, x, width, mean, rstd, gamma, beta, mask),
        "gelu forward": lambda: functional.gelu(x),
        "gelu backward": lambda: aten.gelu_backward(dy, x, approximate="none"),
        "gelu_tanh forward": lambda: functional.gelu(x, approximate="tanh"),
        "gelu_tanh backward": lambda: aten.gelu_backward(dy, x, approximate="tanh"),
        "cross_entropy both": lambda: torch.autograd.grad(functional.cross_entropy(leaf, y), leaf),
        "clipping norm": lambda: torch.linalg.vector_norm(x),
        "adamw foreach": torch_adamw(torch, x, foreach=True),
        "adamw fused": torch_adamw(torch, x, fused=True),
    }


def torch_adamw(torch: Any, x: Any, **form: bool) -> Work:
    """One step of PyTorch's optimiser on one parameter."""
    p = torch.nn.Parameter(torch.zeros(x.numel()))
    p.grad = x.reshape(-1).clone()
    return torch.optim.AdamW([p], 1e-3, **form).step
