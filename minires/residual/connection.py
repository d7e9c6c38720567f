"""What a connection is: the rule by which a sublayer's output joins the stream."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from minires.messages import UnknownName, ValueProblem
from minires.nn import Maker, Module
from minires.tensor import Tensor


@dataclass(frozen=True)
class Site:
    """Where a sublayer stands: it is number k of K, in block `block` of N; its kind is "attention", "ffn" or "mlp"."""

    k: int
    K: int
    block: int
    N: int
    kind: str
    last_in_block: bool


def transformer_sites(blocks: int) -> list[Site]:
    """Two sites per block: attention, then feed-forward."""
    kinds = ("attention", "ffn")
    return [Site(2 * b + i, 2 * blocks, b, blocks, kinds[i], i == 1) for b in range(blocks) for i in range(2)]


def mlp_sites(blocks: int) -> list[Site]:
    """One site per block."""
    return [Site(b, blocks, b, blocks, "mlp", True) for b in range(blocks)]


class Connection(Module):
    """How sublayers join the stream. A rule is a subclass that defines `step`, and the other three if it must.

    The stream is whatever the rule carries: a tensor (B, T, d) for most, several for some. A rule owns its norms
    and every parameter that belongs to a site. `equation` is the rule in one line.

    sites: all sites of the model. d: the width. norm: the class of its norms. make: random numbers and dtype.
    """

    arity = 1  # 2: a whole block joins at once, and step gets both sublayers
    equation = ""

    def __init__(self, sites: Sequence[Site], d: int, norm: Any, make: Maker):
        self.d, self.sublayers = d, len(sites)

    def open(self, x: Tensor) -> Any:
        """The embedding (B, T, d) → the stream."""
        return x

    def step(self, stream: Any, site: Site, *F: Callable[[Tensor], Tensor]) -> Any:
        """One sublayer (or `arity` of them) joins the stream."""
        raise NotImplementedError

    def close(self, stream: Any) -> Tensor:
        """The stream → (B, T, d), ready for the head. A final norm belongs here."""
        return stream

    def read(self, stream: Any) -> Tensor:
        """x_l as the instruments see it, (B, T, d)."""
        return stream

    def jacobian(self, stream: np.ndarray, site: Site, J_F: np.ndarray, f: np.ndarray) -> np.ndarray:
        """∂(next state)/∂(this state) by the rule's own formula, on the flattened state: (n, n), n = its size.

        stream: the carried state as an array. J_F: (n, n), Jacobian of the sublayer where it was evaluated.
        f: the sublayer's output there. A rule with arity 2 gets a list of each.
        """
        raise NotImplementedError

    def describe(self) -> str:
        return self.equation


CONNECTIONS: dict[str, type[Connection]] = {}


Rule = TypeVar("Rule", bound=type[Connection])


def register(name: str) -> Callable[[Rule], Rule]:
    """Class decorator: make a rule available under `name`, from any file."""

    def add(rule: Rule) -> Rule:
        if name in CONNECTIONS and CONNECTIONS[name].__qualname__ != rule.__qualname__:
            raise ValueProblem("a rule's name must be new", f"{name!r}, which exists", "Choose another name for yours.")
        CONNECTIONS[name] = rule
        return rule

    return add


def get_connection(name: str | Callable[..., Connection]) -> Callable[..., Connection]:
    """A rule by name. A class passes through, and so does `partial(HyperConnections, n=2)`. Raises UnknownName."""
    if callable(name):
        return name
    if name not in CONNECTIONS:
        raise UnknownName("residual connection", name, CONNECTIONS)
    return CONNECTIONS[name]


PARTS = {
    "derivative": "∂", "initialisation": "Initialisation:", "source": "Source:", "discrepancy": "Discrepancy:",
}  # fmt: skip


def parts_of(doc: str) -> dict[str, str]:
    """A rule's docstring by its parts: "equation", then those in PARTS, each as it stands, with its first word.

    A part begins with a line that starts with its word and ends where the next one begins. Parts that are not there
    are left out. derivative: ∂x_{l+1}/∂x_l, and where the +I went. discrepancy: from public code.
    """
    found: dict[str, list[str]] = {}
    current = "equation"
    for line in inspect.cleandoc(doc).splitlines():
        current = next((part for part, word in PARTS.items() if line.startswith(word)), current)
        found.setdefault(current, []).append(line)
    return {part: "\n".join(lines).strip() for part, lines in found.items()}


def block_diagonal(blocks: np.ndarray) -> np.ndarray:
    """(…, d, d) → (n·d, n·d): the Jacobian of something done to each of n rows alone."""
    d = blocks.shape[-1]
    rows = blocks.reshape(-1, d, d)
    out = np.zeros((len(rows), d, len(rows), d), blocks.dtype)
    out[np.arange(len(rows)), :, np.arange(len(rows)), :] = rows
    return out.reshape(len(rows) * d, len(rows) * d)
