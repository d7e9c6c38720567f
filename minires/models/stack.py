"""The stack: sublayers one after the other, joined by ONE connection. Every model here is a stack with two ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minires.messages import ValueProblem
from minires.nn import Context, Maker, Module, get_norm
from minires.residual import Connection, Site, get_connection
from minires.tensor import Tensor


class Stack(Module):
    """open → step at every site → close. The rule decides what each of them means.

    sublayers: one module per site, called as F(h, ctx). connection: a rule's name or class.
    """

    def __init__(
        self, sites: Sequence[Site], sublayers: Sequence[Module], d: int, connection: Any, norm: str, make: Maker
    ):
        self.connection: Connection = get_connection(connection)(sites, d, get_norm(norm), make)
        if len(sites) % self.connection.arity:
            raise ValueProblem(
                f"{connection!r} joins {self.connection.arity} sublayers at once, so their number must be a multiple",
                f"{len(sites)} sublayers", "Take an even number of blocks, or a rule that joins one at a time.",
            )  # fmt: skip
        self.sublayers = list(sublayers)
        self.sites = list(sites)

    def forward(self, x: Tensor, ctx: Context | None = None) -> Tensor:
        """(B, T, d) → (B, T, d). With ctx.trace, the states x_0 … x_K are appended to it."""
        ctx = ctx or Context()
        stream = self.connection.open(x)
        self._note(ctx, stream)
        arity = self.connection.arity
        for k in range(0, len(self.sites), arity):
            group = [
                bound(F, site, ctx)
                for F, site in zip(self.sublayers[k : k + arity], self.sites[k : k + arity], strict=True)
            ]
            stream = self.connection.step(stream, self.sites[k], *group)
            self._note(ctx, stream)
        return self.connection.close(stream)

    def describe(self) -> str:
        return f"{len(self.sites)} sublayers, one connection"

    def _note(self, ctx: Context, stream: Any) -> None:
        if ctx.trace is not None:
            ctx.trace.append(self.connection.read(stream))


def bound(F: Module, site: Site, ctx: Context) -> Callable[[Tensor], Tensor]:
    """The sublayer as a function of h alone, seen through the instrument in ctx.wrap if there is one."""

    def branch(h: Tensor) -> Tensor:
        return F(h, ctx)

    return branch if ctx.wrap is None else ctx.wrap(site, branch)
