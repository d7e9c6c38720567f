"""The engine in one file: arrays that remember where they came from, and the walk back.

A `Tensor` is a NumPy array plus (if it needs a gradient) a `Node`. A node is a place in the graph: which
operation made it, from which parent nodes, and what that operation saved for its backward pass. Nodes never
point back to tensors, so there are no reference cycles and nothing waits for the garbage collector.

An operation is a pair of pure functions on arrays, registered with `differentiable`:

    y, saved = forward(*arrays, **options)
    gradients = backward(dy, saved)              # one per array input; None where there is none

Rule for `backward`: it returns fresh arrays, views, or `dy` itself, each fresh array once, and never an array
from `saved`. With this rule `backpropagate` knows which gradients it may add into and which it must not.
"""

from __future__ import annotations

import inspect
import itertools
import operator
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from minires.messages import DtypeError, Explained, GraphError, ShapeError, at_edge, shown

_clock = itertools.count(1)  # numbers nodes as they are made, and in-place writes as they happen
_ARRAY, _add = np.ndarray, np.add  # Python looks a dotted name up at every use
_FREED = object()  # stands in `Node.saved` once a backward pass has used the node up


_accumulating = threading.Lock()  # threads may share a parameter; no thread's gradient may be lost


class _GradMode(threading.local):
    enabled = True


_mode = _GradMode()


@contextmanager
def no_grad() -> Iterator[None]:
    """Operations inside do not record a graph (this thread only)."""
    before, _mode.enabled = _mode.enabled, False
    try:
        yield
    finally:
        _mode.enabled = before


# ---------------------------------------------------------------------------------------------- the graph


class Node:
    """One place in the graph. `op` is None for a leaf (a parameter or an input)."""

    __slots__ = ("dtype", "grad", "keeps_grad", "name", "op", "order", "parents", "saved", "shape", "watched")

    def __init__(self, op: Op | None, parents: Sequence[Node | None], saved: Any, like: np.ndarray, watched: Any = ()):
        self.op, self.parents, self.saved, self.shape, self.dtype = op, parents, saved, like.shape, like.dtype
        self.watched: Sequence[list[int]] = watched  # the `written` of every array that `saved` relies on
        self.order = next(_clock)
        self.grad: np.ndarray | None = None
        self.keeps_grad = op is None
        self.name: str | None = None


def reachable(root: Node) -> list[Node]:
    """Every node that `root` depends on, oldest first.

    A node is created after its parents. Walking this list from its end is therefore a reverse topological
    order: a node's turn comes when everything that used it has already reported its gradient.
    """
    seen, stack = {root}, [root]
    while stack:
        node = stack.pop()
        if node.saved is _FREED:
            raise _used_up(node)
        for parent in node.parents:
            if parent is not None and parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return sorted(seen, key=operator.attrgetter("order"))


def backpropagate(root: Node, seed: np.ndarray, retain_graph: bool = False) -> Iterator[tuple[Node, np.ndarray]]:
    """Walk from `root` to the leaves; yield (node, gradient) for each node that keeps its gradient.

    Each yielded array belongs to that node alone. The first gradient that reaches a node may be somebody
    else's array (an add hands the same `dy` to both sides): it is never written to. The sum of two is ours.
    """
    nodes = reachable(root)
    pending, owned = {root: seed}, set()
    while nodes:
        node = nodes.pop()
        dy = pending.pop(node, None)
        if dy is not None:
            if node.keeps_grad:
                yield node, dy if node in owned else dy.copy()
            if node.op is not None:
                _spread(node, dy, pending, owned)
        if node.op is not None and not retain_graph:
            node.saved, node.parents, node.watched = _FREED, (), ()  # only the backward pass needed them


def _spread(node: Node, dy: np.ndarray, pending: dict[Node, np.ndarray], owned: set[Node]) -> None:
    """Hand the gradients of one node to its parents."""
    for written in node.watched:
        if written[0] > node.order:
            raise _was_changed(node)
    if _debug.enabled and node.saved is not None:
        _debug.verify(node)
    gradients = node.op.backward(dy, node.saved)  # type: ignore[union-attr]
    if type(gradients) is not tuple:
        gradients = (gradients,)
    if len(gradients) != len(node.parents) and not _only_none_left_over(gradients, node.parents):
        raise _wrong_count(node, len(gradients))
    for parent, gradient in zip(node.parents, gradients):
        if parent is None or gradient is None:
            continue
        if type(gradient) is not _ARRAY or gradient.shape != parent.shape or gradient.dtype is not parent.dtype:
            gradient = _checked(gradient, node, parent)
        before = pending.get(parent)
        if before is None:
            pending[parent] = gradient
            if gradient.base is None and gradient is not dy:
                owned.add(parent)
        elif parent in owned:
            _add(before, gradient, before)
        else:
            pending[parent] = np.asarray(np.add(before, gradient))
            owned.add(parent)


def _checked(gradient: Any, node: Node, parent: Node) -> np.ndarray:
    """A gradient as an array of its parent's dtype (0-d arithmetic makes NumPy scalars), if it has the right shape."""
    gradient = np.asarray(gradient)
    if gradient.shape != parent.shape:
        raise _wrong_gradient_shape(node, parent, gradient)
    if gradient.dtype != parent.dtype:
        gradient = _real(gradient, f"a gradient of {node.op.name!r}").astype(parent.dtype)  # type: ignore[union-attr]
    return gradient


def _was_changed(node: Node) -> GraphError:
    return GraphError(
        "arrays that an operation saved for its backward pass must stay as they were",
        f"an input or the output of {node.op.name!r}, changed in place after the forward pass",  # type: ignore[union-attr]
        "Usually optimizer.step() or x[...] = … stood between forward and backward: call backward first.",
    )


def _used_up(node: Node) -> GraphError:
    return GraphError(
        "a graph can be walked back once; its saved arrays are freed on the way",
        f"a second backward() through {node.op.name if node.op else 'a leaf'!r}",
        "Write backward(retain_graph=True) the first time if you need it twice, or run the forward pass again.",
    )


def _only_none_left_over(gradients: tuple, parents: Sequence) -> bool:
    """An optional input that was not given (a bias, say) has no parent; its gradient may only be None."""
    return len(gradients) > len(parents) and all(g is None for g in gradients[len(parents) :])


def _wrong_count(node: Node, count: int) -> GraphError:
    return GraphError(
        f"{node.op.name}_backward must return one gradient per input, {len(node.parents)} in all",  # type: ignore[union-attr]
        f"{count}",
        "Return a tuple in the order of the inputs of the forward pass; None where an input has no gradient.",
    )


def _wrong_gradient_shape(node: Node, parent: Node, gradient: np.ndarray) -> ShapeError:
    where = list(node.parents).index(parent)
    return ShapeError(
        f"gradient {where} of {node.op.name} must have the shape of its input, {parent.shape}",  # type: ignore[union-attr]
        shown(gradient),
        "Did you forget to sum over the axes along which the input was broadcast (the batch, for a bias or gamma)?",
    )


class _Debug:
    """Checksums of every saved array, to find raw NumPy writes that no version counter can see."""

    def __init__(self) -> None:
        self.enabled = 0  # how many blocks of `debug()` are open, in all threads
        self.sums: dict[Node, float] = {}

    @staticmethod
    def checksum(saved: Any) -> int:
        return hash(tuple(a.tobytes() for a in arrays_in(saved)))

    def remember(self, node: Node) -> None:
        self.sums[node] = self.checksum(node.saved)

    def verify(self, node: Node) -> None:
        if node in self.sums and self.sums[node] != self.checksum(node.saved):
            raise GraphError(
                "arrays that an operation saved for its backward pass must stay as they were",
                f"raw array data saved by {node.op.name!r} that was written to after the forward pass",  # type: ignore[union-attr]
                "Somebody wrote into tensor.data or into an array that shares its memory: work on a copy.",
            )


_debug = _Debug()


def arrays_in(saved: Any) -> list[np.ndarray]:
    """Every array inside nested tuples, lists and dicts."""
    if isinstance(saved, np.ndarray):
        return [saved]
    if isinstance(saved, dict):
        saved = tuple(saved.values())
    return [a for part in saved for a in arrays_in(part)] if isinstance(saved, tuple | list) else []


@contextmanager
def debug() -> Iterator[None]:
    """Inside, every saved array gets a checksum that the backward pass verifies (slow; finds raw writes)."""
    _debug.enabled += 1
    try:
        yield
    finally:
        _debug.enabled -= 1
        if not _debug.enabled:
            _debug.sums.clear()


# ----------------------------------------------------------------------------------------- the operations


class Op:
    """The record of one operation: its two functions now in force, and what it is made of.

    `parts` names the operations that a fused one contains. When one of them is replaced (`minires.use`), the
    fused operation steps aside (`detours > 0`) and `composed`, the same thing from small parts, runs instead.
    """

    __slots__ = (
        "backward", "composed", "detours", "forward", "name", "parts", "reference",
        "saves_inputs", "saves_output", "view",
    )  # fmt: skip

    def __init__(self, name, forward, backward, composed, parts, saves_inputs, saves_output, view):
        self.name, self.forward, self.backward = name, forward, backward
        self.reference = (forward, backward)  # the NumPy pair; `forward`/`backward` may point at faster twins
        self.composed, self.parts, self.detours = composed, tuple(parts), 0
        self.saves_inputs, self.saves_output, self.view = saves_inputs, saves_output, view


OPS: dict[str, Op] = {}


def differentiable(
    name: str,
    forward: Callable,
    backward: Callable,
    *,
    inputs: int | None = None,
    composed: Callable | None = None,
    parts: Sequence[str] = (),
    saves_inputs: bool = True,
    saves_output: bool = False,
    view: bool = False,
) -> Callable[..., Tensor]:
    """Register a forward/backward pair under `name` and return the function on tensors.

    Its first arguments are the differentiable inputs (tensors, arrays, numbers or None); the others are options,
    which go to `forward` as they are (tensors as their arrays).
    inputs: how many inputs there are; by default the parameters of `forward` without a default value.
    saves_inputs, saves_output: `saved` holds input arrays, or the result's: changing one in place before backward
    is an error.
    view: the result may share memory with the first input, so that a write into one is a write into both.
    """
    op = OPS[name] = Op(name, forward, backward, composed, parts, saves_inputs, saves_output, view)

    count, names = _where_options_begin(forward, inputs)

    def call(*inputs: Any, **options: Any) -> Tensor:
        if count < len(inputs) <= count + len(names):
            inputs, options = inputs[:count], {**dict(zip(names, inputs[count:], strict=False)), **options}
        if op.detours and op.composed is not None:
            return op.composed(*inputs, **options)
        return apply(op, inputs, options)

    call.__name__ = call.__qualname__ = name
    call.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]
    call.__doc__ = f"{forward.__doc__ or ''}\n\n    Backward\n    --------\n    {backward.__doc__ or 'See the source.'}"
    call.op = op  # type: ignore[attr-defined]
    return call


def _where_options_begin(forward: Callable, inputs: int | None) -> tuple[int, list[str]]:
    """How many inputs `forward` has, and the names of the parameters behind them."""
    parameters = list(inspect.signature(forward).parameters.values())
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return sys.maxsize, []
    count = sum(p.default is p.empty for p in parameters) if inputs is None else inputs
    return count, [p.name for p in parameters[count:]]


def apply(op: Op, inputs: tuple, options: dict[str, Any]) -> Tensor:
    """Run one operation forward and, if a gradient may be asked for, put its node into the graph."""
    arrays, parents, written, tracked = [], [], [], False
    for x in inputs:
        if isinstance(x, Tensor):
            arrays.append(x.data)
            parents.append(x.node)
            written.append(x.written)
            if x.node is not None:
                tracked = True
        else:
            arrays.append(x if type(x) in _SIMPLE else _as_array(x))
            parents.append(None)
    if options:
        written += [x.written for x in options.values() if isinstance(x, Tensor)]
        options = {name: _option(op, name, x) if isinstance(x, Tensor) else x for name, x in options.items()}
    try:
        result = op.forward(*arrays, **options)
    except Explained as error:
        raise at_edge(error) from None
    except (ValueError, TypeError, IndexError) as error:
        raise _does_not_fit(op, arrays, error) from None
    if type(result) is not tuple or len(result) != 2:
        raise _not_a_pair(op, result)
    y, saved = result
    out = _blank(Tensor)
    out.data = y if type(y) is _ARRAY else np.asarray(y)
    out.written = written[0] if op.view and isinstance(inputs[0], Tensor) else [0]
    out.node = None
    if tracked and _mode.enabled:
        watched = written if op.saves_inputs else ()
        out.node = Node(op, parents, saved, out.data, [*watched, out.written] if op.saves_output else watched)
        if _debug.enabled:
            _debug.remember(out.node)
    return out


def _not_a_pair(op: Op, result: Any) -> GraphError:
    return GraphError(
        f"{op.name}_forward must return two things: the result, and what its backward pass wants to have saved",
        shown(result),
        "End it with `return y, saved`; saved may be None.",
    )


def _option(op: Op, name: str, x: Tensor) -> np.ndarray:
    """An option that came as a tensor (a mask, say) is its array; a gradient for it would be lost silently."""
    if x.node is not None and _mode.enabled:
        raise GraphError(
            f"{name} of {op.name!r} is an option without a gradient",
            "a tensor with requires_grad",
            f"Write {name}=x.detach() if its gradient is not wanted.",
        )
    return x.data


_blank = object.__new__
_SIMPLE = frozenset((int, float, bool, _ARRAY, type(None)))  # inputs that stay as they are; others become arrays


def _does_not_fit(op: Op, arrays: list, error: Exception) -> Explained:
    given = ", ".join(shown(a) for a in arrays)
    hint = f"NumPy says: {error}. Compare the shapes from the right; x[:, None] or reshape adds a missing axis."
    return ShapeError(f"the inputs of {op.name!r} must fit each other", given or "nothing", hint)


# ------------------------------------------------------------------------------------------------ tensors

_ALLOWED = frozenset("?bhilqBHILQfdFD")  # bool, integers, float32/64 and (for complex-step checks) complex


def _as_array(data: Any) -> np.ndarray:
    """`data` as an array of an allowed dtype; NumPy arrays keep theirs, nested lists are converted."""
    if isinstance(data, Tensor):
        return data.data
    try:
        array = np.asarray(data)
    except ValueError:
        raise ShapeError(
            "nested lists must be rectangular", shown(data), "Every row needs the same length: pad the short ones."
        ) from None
    if array.dtype.char not in _ALLOWED:
        raise DtypeError(
            "a Tensor holds float32, float64, integers or booleans",
            f"dtype {array.dtype}",
            "Convert first, for example with np.asarray(x, dtype=np.float32).",
        )
    return array


class Tensor:
    """A NumPy array with a gradient.

    data: array-like; float32 and float64 are kept as given (Python floats become float64, as in NumPy). An array is
    not copied: the tensor shares its memory. Writing into it between forward and backward makes gradients wrong, and
    only `minires.debug()` notices; writes through the tensor (x[...] = …) are always noticed.
    requires_grad: ask for gradients; only for floating-point data.
    name: shown by `draw_graph`.

    Raises DtypeError for integer data with requires_grad and for dtypes other than float, int and bool.
    """

    __slots__ = ("__weakref__", "data", "node", "written")
    data: np.ndarray
    node: Node | None
    written: list[int]  # when this memory was last written in place; one box that all views of the memory share

    def __init__(self, data: Any, requires_grad: bool = False, name: str | None = None):
        self.data = _as_array(data)
        self.written = data.written if isinstance(data, Tensor) else [0]
        self.node = None
        if requires_grad:
            self.requires_grad = True
        if name is not None and self.node is not None:
            self.node.name = name

    # -- what it is

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def dtype(self) -> np.dtype:
        return self.data.dtype

    @property
    def ndim(self) -> int:
        return self.data.ndim

    @property
    def size(self) -> int:
        return self.data.size

    def __len__(self) -> int:
        return len(self.data)

    def item(self) -> float:
        """The only element as a Python number. Raises ShapeError if there are more, or none."""
        if self.data.size != 1:
            raise ShapeError(
                "only a tensor with one element is a single number",
                shown(self.data),
                "Reduce it first: x.mean(), x.sum(), (x > 0).all() on x.numpy().",
            )
        return self.data.item()

    def numpy(self) -> np.ndarray:
        """The data as a plain array (the same memory, no graph)."""
        return self.data

    def detach(self) -> Tensor:
        """The same data outside the graph: gradients stop here."""
        return Tensor(self)

    # -- the gradient

    @property
    def requires_grad(self) -> bool:
        return self.node is not None

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if wanted and self.node is None:
            if self.dtype.kind != "f":
                raise DtypeError(
                    "only floating-point data can have a gradient",
                    f"dtype {self.dtype}",
                    "Write `1.` instead of `1`, or convert: Tensor(np.asarray(x, np.float64), requires_grad=True).",
                )
            self.node = Node(None, (), None, self.data)
        elif not wanted:
            if self.node is not None and self.node.op is not None:
                raise GraphError(
                    "only a leaf can stop asking for its gradient",
                    f"the result of {self.node.op.name!r}",
                    "Use x.detach() to get the same data outside the graph.",
                )
            self.node = None

    @property
    def is_leaf(self) -> bool:
        return self.node is None or self.node.op is None

    @property
    def grad(self) -> np.ndarray | None:
        """The gradient of the last backward() calls, summed; None before the first.

        Leaves always keep it. Other tensors keep it if `retain_grad()` was called before `backward()`.
        """
        return None if self.node is None else self.node.grad

    @grad.setter
    def grad(self, value: np.ndarray | None) -> None:
        if self.node is None:
            raise GraphError("only a tensor with requires_grad has a gradient", "one without", "Set requires_grad.")
        if value is not None and np.shape(value) != self.shape:
            raise ShapeError(f"a gradient has its tensor's shape, {self.shape}", shown(value), "Check the transpose.")
        self.node.grad = value if value is None else np.array(value, dtype=self.dtype)

    def retain_grad(self) -> Tensor:
        """Keep this tensor's gradient in the next backward(), although it is not a leaf. Returns self."""
        if self.node is None:
            raise GraphError(
                "retain_grad needs a tensor that is part of a graph",
                "a tensor without requires_grad",
                "None of its inputs has requires_grad=True, or it was made under no_grad().",
            )
        self.node.keeps_grad = True
        return self

    def zero_grad(self) -> None:
        if self.node is not None:
            self.node.grad = None

    def backward(self, gradient: Any = None, retain_graph: bool = False) -> None:
        """Add d(self)/d(leaf), contracted with `gradient`, to every leaf's `.grad` (and to retained tensors).

        gradient: shape of self; may be left out for a single number (then it is 1).
        Raises GraphError if there is no graph, if it is used up, or if self is not a single number and
        `gradient` is missing; ShapeError if `gradient` has another shape.
        """
        node, seed = _start(self, gradient)
        with np.errstate(all="ignore"):  # inf and NaN travel on; the loss and the training loop report them
            gradients = list(backpropagate(node, seed, retain_graph))
        with _accumulating:
            for leaf, dy in gradients:
                leaf.grad = dy if leaf.grad is None else leaf.grad + dy

    # -- writing in place

    def __setitem__(self, index: Any, value: Any) -> None:
        if self.node is not None and (self.node.op is not None or _mode.enabled):
            raise GraphError(
                "a tensor that takes part in a graph cannot be changed in place",
                "x[...] = value on a tensor with requires_grad",
                "Build a new tensor with where(mask, value, x), or write to a parameter inside `with no_grad():`.",
            )
        self.data[_plain_index(index)] = value.data if isinstance(value, Tensor) else value
        self.changed()

    def changed(self) -> None:
        """Say that `data` was written in place, so that a graph which saved it notices."""
        self.written[0] = next(_clock)

    # -- Python around it

    def __repr__(self) -> str:
        text = np.array2string(self.data, precision=4, threshold=20, prefix="Tensor(")
        made = "" if self.node is None else f", from {self.node.op.name}" if self.node.op else ", requires_grad=True"
        return f"Tensor({text}, shape={self.shape}, {self.dtype}{made})"

    def __bool__(self) -> bool:
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __iter__(self) -> Iterator[Tensor]:
        if self.ndim == 0:
            raise ShapeError("only a tensor with at least one axis can be iterated", "a 0-d tensor", "Use item().")
        return (self[i] for i in range(len(self)))

    def __deepcopy__(self, memo: dict) -> Tensor:
        if not self.is_leaf:
            raise GraphError(
                "only leaves can be copied deeply",
                f"the result of {self.node.op.name!r}",  # type: ignore[union-attr]
                "Its graph belongs to it alone: copy x.detach(), or deepcopy the module that made it.",
            )
        twin = type(self).__new__(type(self))
        Tensor.__init__(twin, self.data.copy(), self.requires_grad)
        if self.node is not None and twin.node is not None:
            twin.node.name = self.node.name
            twin.node.grad = None if self.node.grad is None else self.node.grad.copy()
        memo[id(self)] = twin
        return twin

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise GraphError(
            "tensors are not pickled: a pickle runs code when it is loaded, and the graph cannot travel",
            "pickle or a process pool that pickles",
            "Save arrays instead: np.savez(file, **model.state_dict()), or minires.train.save_checkpoint.",
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if self.node is not None:
            raise GraphError(
                "NumPy cannot follow gradients",
                "np.asarray (or a NumPy function) on a tensor with requires_grad",
                "Use the minires function of the same name, or x.detach().numpy() if you want only the numbers.",
            )
        return np.array(self.data, dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        operation = _UFUNC_OPERATORS.get(ufunc) if method == "__call__" and not kwargs else None
        if operation is not None and len(inputs) == 2 and not isinstance(inputs[0], Tensor):
            return getattr(inputs[1], operation)(inputs[0])  # ndarray + tensor: our reflected operator
        raise _numpy_function(ufunc.__name__)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in (np.shape, np.ndim, np.size):
            return function(args[0].data, *args[1:], **kwargs)
        raise _numpy_function(function.__name__)

    if TYPE_CHECKING:  # bound in ops/syntax.py, so that this page needs no operation

        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __rmatmul__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __getitem__(self, index: Any) -> Tensor: ...
        def __getattr__(self, name: str) -> Callable[..., Tensor]: ...


_UFUNC_OPERATORS = {
    np.add: "__radd__",
    np.subtract: "__rsub__",
    np.multiply: "__rmul__",
    np.true_divide: "__rtruediv__",
    np.power: "__rpow__",
    np.matmul: "__rmatmul__",
    np.less: "__gt__",
    np.less_equal: "__ge__",
    np.greater: "__lt__",
    np.greater_equal: "__le__",
    np.equal: "__eq__",
    np.not_equal: "__ne__",
}


def _numpy_function(name: str) -> DtypeError:
    from minires import ops

    ours = {"dot": "matmul", "vdot": "matmul", "inner": "matmul", "subtract": "sub", "multiply": "mul", "divide": "div"}
    ours = name if name in ops.__all__ else ours.get(name)
    instead = f"Use minires.{ours}" if ours else "Write it with minires functions"
    return DtypeError(
        "NumPy functions do not record gradients",
        f"np.{name} on a Tensor",
        f"{instead}, or x.detach().numpy() for the bare numbers.",
    )


def _real(gradient: np.ndarray, what: str) -> np.ndarray:
    """The gradient itself, if it is real: a cast to float would drop an imaginary part without a word."""
    if gradient.dtype.kind == "c":
        raise DtypeError(f"{what} must be real", shown(gradient), "Take .real first if the rest is only round-off.")
    return gradient


def _plain_index(index: Any) -> Any:
    """An index with tensors replaced by their arrays."""
    if isinstance(index, tuple):
        return tuple(i.data if isinstance(i, Tensor) else i for i in index)
    return index.data if isinstance(index, Tensor) else index


def _start(tensor: Tensor, gradient: Any) -> tuple[Node, np.ndarray]:
    """The node where a backward pass starts, and its upstream gradient as an array."""
    if tensor.node is None:
        raise GraphError(
            "backward needs a tensor that depends on something with requires_grad=True",
            "a tensor without a graph",
            "Mark the leaf: Tensor(data, requires_grad=True). Was the forward pass inside no_grad()?",
        )
    if gradient is None:
        if tensor.size != 1:
            raise GraphError(
                "backward() without a gradient needs a single number",
                f"a tensor of shape {tensor.shape}",
                "Reduce it to a loss first (a mean, say), or pass backward(gradient) of the same shape.",
            )
        return tensor.node, np.ones(tensor.shape, tensor.dtype)
    seed = _real(_as_array(gradient), "the gradient passed to backward").astype(tensor.dtype, copy=False)
    if seed.shape != tensor.shape:
        raise ShapeError(
            f"the gradient passed to backward must have the tensor's shape, {tensor.shape}",
            shown(seed),
            "It is dL/d(this tensor), entry by entry.",
        )
    return tensor.node, seed


def grad(
    output: Tensor, inputs: Sequence[Tensor], gradient: Any = None, retain_graph: bool = False
) -> list[np.ndarray]:
    """The gradients of `output` with respect to `inputs` as a list of arrays; no tensor's `.grad` is touched.

    An input that `output` does not depend on gets zeros. Safe to call from several threads on graphs that
    share parameters, which is how a batch is split over workers. Errors as in `Tensor.backward`.
    """
    node, seed = _start(output, gradient)
    wanted = [x.node for x in inputs]
    if None in wanted:
        raise GraphError("every input needs requires_grad=True", f"input {wanted.index(None)} without", "Mark it.")
    kept = {n: n.keeps_grad for n in wanted if n is not None}
    try:
        for n in kept:
            n.keeps_grad = True
        with np.errstate(all="ignore"):
            found = dict(backpropagate(node, seed, retain_graph))
    finally:
        for n, before in kept.items():
            n.keeps_grad = before
    return [found[n] if n in found else np.zeros(x.shape, x.dtype) for n, x in zip(wanted, inputs, strict=True)]
