"""Is a backward pass right? The numerical referee, in your hands.

`check_pair` judges a pair of functions on arrays, `gradcheck` a function on tensors. Both contract the Jacobian
with a random upstream gradient (ones, or a sum, would hide every mistake in a softmax or a LayerNorm) and compare
every entry of every input's gradient with a numerical derivative in float64:

* complex step, Im f(x + ih) / h with h = 1e-30, has no subtraction and therefore no rounding error: agreement to
  1e-13. It needs a function that is analytic, and that is found out by comparing with
* central differences, (f(x + h) - f(x - h)) / 2h, good to about 1e-8.

Source of the complex step: Squire & Trapp 1998, SIAM Review 40(1), p. 110.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minires.messages import Explained, GraphError
from minires.tensor import Tensor, arrays_in, no_grad

_STEP = 1e-30
TOLERANCE = {"complex": 1e-12, "central": 1e-6}


class GradientError(Explained, AssertionError):
    """A backward pass that is wrong. `yours` and `right` are the two gradients, if it is the numbers that differ."""

    yours: np.ndarray | None = None
    right: np.ndarray | None = None


@dataclass(frozen=True)
class Checked:
    """What a successful check found: for each checked input its method and its relative error ‖g - ĝ‖ / ‖ĝ‖."""

    methods: dict[str, str]
    errors: dict[str, float]

    @property
    def worst(self) -> float:
        return max(self.errors.values(), default=0.0)


# ---------------------------------------------------------------------------------------- numerical gradients


def numerical_gradient(f: Callable[..., np.ndarray], inputs: Sequence[Any], which: int, dy: np.ndarray, method="auto"):
    """Σ dy · ∂f/∂(input `which`), entry by entry, in float64, and the method that gave it: "complex" or "central".

    f: takes the arrays and returns an array of dy's shape. method: "auto" takes the complex step where it agrees
    with central differences (there the function is analytic), else the central differences.
    """
    central = None if method == "complex" else _entry_by_entry(f, inputs, which, dy, _central)
    if method == "central":
        return central, "central"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            exact = _entry_by_entry(f, inputs, which, dy, _complex_step)
    except Exception:  # whatever a function that cannot take complex numbers raises
        if method == "complex":
            raise
        return central, "central"
    if central is None or _distance(central, exact, dy) < 1e-4:
        return exact, "complex"
    return central, "central"


def _entry_by_entry(f, inputs, which, dy, rule):
    gradient = np.empty(inputs[which].shape)
    for index in np.ndindex(gradient.shape):

        def loss(step, index=index):
            x = inputs[which].astype(type(step), order="C")  # a copy, complex if the step is
            x[index] += step
            return (dy * f(*inputs[:which], x, *inputs[which + 1 :])).sum()

        gradient[index] = rule(loss, abs(inputs[which][index]))
    return gradient


def _complex_step(loss, size):
    return loss(complex(0, _STEP)).imag / _STEP


def _central(loss, size):
    h = np.finfo(float).eps ** (1 / 3) * max(1.0, size)
    return (loss(h) - loss(-h)) / (2 * h)


def _distance(yours, right, dy):
    """‖yours - right‖ over ‖right‖, or over a hundredth of the upstream where the true gradient is (almost) 0."""
    scale = max(np.linalg.norm(right), 1e-2 * np.linalg.norm(dy), np.finfo(float).tiny)
    return float(np.linalg.norm(yours - right) / scale)


# ------------------------------------------------------------------------------------------------- the checks


def check_pair(
    forward: Callable, backward: Callable, inputs: Sequence[Any], *, seed: int = 0, method: str = "auto",
    tolerance: float | None = None, **options: Any,
) -> Checked:  # fmt: skip
    """Judge `y, saved = forward(*inputs, **options)` and `gradients = backward(dy, saved)`.

    inputs: arrays (floating-point ones are checked, in float64), other arrays and None are passed on as they are.
    Also checked: inputs, dy and saved stay bit for bit the same, a second call gives the same, gradients have
    their input's shape and dtype, and share no memory with each other, with the inputs or with saved.

    Raises GradientError, which shows the entry with the largest error and what the mistake looks like.
    """
    inputs = [_float64(x) for x in inputs]
    before = [_bits(x) for x in inputs]
    y, saved = forward(*inputs, **options)
    dy = np.random.default_rng(seed).standard_normal(np.shape(y))
    names = _names(forward, len(inputs))
    _unchanged("forward", names, inputs, before)
    kept = _bits(saved)
    gradients = _called(backward, dy, saved, names, inputs, before)
    _require(_bits(saved) == kept, "backward must leave `saved` as it was", "changed arrays in saved", _COPY)
    again = _called(backward, dy.copy(), saved, names, inputs, before)
    _require(_bits(gradients) == _bits(again), "a second backward must give the same gradients", "others", _STATE)
    _check_memory(names, gradients, inputs, saved, dy)

    def value(*arrays):
        return forward(*arrays, **options)[0]

    return _compare(value, inputs, gradients, names, dy, method, tolerance)


def gradcheck(
    f: Callable[..., Tensor], *inputs: Any, seed: int = 0, method: str = "auto", tolerance: float | None = None
) -> Checked:
    """Judge the gradients of a function of tensors: every entry of every floating-point input, in float64.

    inputs: tensors or arrays; integer and boolean ones are passed on as they are.
    Also checked: backward twice adds up to exactly twice the gradient, inputs and the upstream gradient stay bit
    for bit the same, and no two gradients share memory.

    Raises GradientError as `check_pair` does.
    """
    arrays = [_float64(x.data if isinstance(x, Tensor) else x) for x in inputs]
    before = [_bits(x) for x in arrays]
    tensors = [Tensor(x, requires_grad=True) if _checked(x) else x for x in arrays]
    y = f(*tensors)
    if y.node is None:
        raise GraphError("the result must depend on the inputs", "a tensor without a graph", "Was it detached?")
    names = _names(f, len(inputs))
    dy = np.random.default_rng(seed).standard_normal(y.shape)
    upstream = dy.copy()
    y.backward(dy, retain_graph=True)
    gradients = [x.grad if isinstance(x, Tensor) else None for x in tensors]
    once = [None if g is None else g.copy() for g in gradients]
    y.backward(dy)
    twice = [x.grad if isinstance(x, Tensor) else None for x in tensors]
    doubled = all(
        np.array_equal(t, 2 * g, equal_nan=True) for t, g in zip(twice, once) if t is not None and g is not None
    )
    _require(doubled, "two backward calls must add up to exactly twice the gradient", "something else", _STATE)
    _require(_bits(dy) == _bits(upstream), "the upstream gradient must stay as it was", "a changed one", _COPY)
    _unchanged("f", names, arrays, before)
    _check_memory(names, gradients, arrays, None, dy)

    def value(*changed):
        with no_grad():
            return f(*[Tensor(x) if _checked(x) else x for x in changed]).data

    return _compare(value, arrays, once, names, dy, method, tolerance)


def _compare(value, inputs, gradients, names, dy, method, tolerance):
    methods, errors = {}, {}
    for i, (x, yours) in enumerate(zip(inputs, gradients, strict=True)):
        if not _checked(x):
            continue
        right, methods[names[i]] = numerical_gradient(value, inputs, i, dy, method)
        yours = np.zeros_like(right) if yours is None else yours
        error = errors[names[i]] = _distance(yours, right, dy)
        limit = tolerance or TOLERANCE[methods[names[i]]]
        if not error <= limit:
            raise _mismatch(names[i], yours, right, error, limit, methods[names[i]])
    return Checked(methods, errors)


# ------------------------------------------------------------------------------------------------ the contract

_COPY = "Somebody wrote into an array that others still need: work on a copy (dx = dy.copy()), or build a new array."
_STATE = "Does the backward pass keep something between calls, or draw random numbers that belong to the forward pass?"


def _require(holds: bool, must: str, given: object, hint: str) -> None:
    if not holds:
        raise GradientError(must, str(given), hint)


def _called(backward, dy, saved, names, inputs, before):
    """The gradients as a tuple with one entry per input, after a look at what else the call did."""
    upstream = _bits(dy)
    gradients = backward(dy, saved)
    gradients = gradients if isinstance(gradients, tuple | list) else (gradients,)
    _require(_bits(dy) == upstream, "backward must leave dy as it was", "a changed dy", _COPY)
    _unchanged("backward", names, inputs, before)
    if all(g is None for g in gradients[len(inputs) :]):
        gradients = gradients[: len(inputs)]
    order = f"Return a tuple in the order of the inputs: {', '.join(names)}; None where there is no gradient."
    _require(len(gradients) == len(inputs), f"backward must return {len(inputs)} gradients", len(gradients), order)
    for name, x, g in zip(names, inputs, gradients, strict=True):
        if g is not None and _checked(x):
            _check_form(name, x, g)
    return tuple(gradients)


def _check_form(name, x, g):
    hint = "Is a sum over the batch missing, or one too many? A gradient has one entry for each entry of its input."
    _require(np.shape(g) == x.shape, f"the gradient of {name} must have its shape {x.shape}", np.shape(g), hint)
    dtype = getattr(g, "dtype", type(g))
    hint = "np.zeros without a dtype, or an array of float64 constants, changes it: write np.zeros(x.shape, x.dtype)."
    _require(dtype == x.dtype, f"the gradient of {name} must keep its dtype {x.dtype}", dtype, hint)


def _check_memory(names, gradients, inputs, saved, dy):
    """Gradients may be dy (or a view of it), and nothing else that somebody owns."""
    mine = [(n, g) for n, g in zip(names, gradients) if isinstance(g, np.ndarray) and not np.may_share_memory(g, dy)]
    theirs = [(f"input {n}", x) for n, x in zip(names, inputs)] + [("saved", part) for part in arrays_in(saved)]
    for i, (name, g) in enumerate(mine):
        for other, array in [*((f"the gradient of {n}", h) for n, h in mine[:i]), *theirs]:
            shared = isinstance(array, np.ndarray) and np.may_share_memory(g, array)
            _require(not shared, f"the gradient of {name} must have memory of its own", f"memory of {other}", _COPY)


def _unchanged(who, names, inputs, before):
    for name, x, bits in zip(names, inputs, before, strict=True):
        _require(_bits(x) == bits, f"{who} must leave its inputs as they were", f"a changed {name}", _COPY)


def _bits(value):
    return [(a.shape, a.dtype, a.tobytes()) for a in map(np.asarray, arrays_in(value))]


def _checked(x):
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def _float64(x):
    x = np.asarray(x) if isinstance(x, list | np.floating) else x
    return x.astype(np.float64) if _checked(x) else x


def _names(function, count):
    """The names of a function's parameters, as far as it tells them."""
    try:
        parameters = inspect.signature(function).parameters.values()
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        names = []
    return [names[i] if i < len(names) else f"input {i}" for i in range(count)]


# --------------------------------------------------------------------------------------------------- the report


def _mismatch(name, yours, right, error, limit, method):
    problem = GradientError(
        f"the gradient of {name} must equal the numerical derivative ({method}) to {limit:.0e}",
        f"a relative error of {error:.2g}; the worst entries are\n{_worst_entries(yours, right)}\n",
        looks_like(yours, right),
    )
    problem.yours, problem.right = yours, right
    return problem


def _worst_entries(yours, right, count=5):
    """The entries with the largest errors, side by side."""
    order = np.argsort(-np.nan_to_num(np.abs(yours - right), nan=np.inf), axis=None)[:count]
    places = [np.unravel_index(i, right.shape) for i in order]
    rows = [f"  {[int(i) for i in p]!s:>12}  {yours[p]:>14.6g}  {right[p]:>14.6g}" for p in places]
    return "\n".join([f"  {'index':>12}  {'yours':>14}  {'right':>14}", *rows])


def looks_like(yours: np.ndarray, right: np.ndarray) -> str:
    """What a wrong gradient looks like, in words."""
    if np.isnan(yours).any():
        return "Yours has NaN: look for 0/0, inf - inf or the logarithm of a negative number."
    if not yours.any():
        return "Yours is zero everywhere: is the gradient returned, and at its place in the tuple?"
    factor = float((yours * right).sum() / max((right * right).sum(), np.finfo(float).tiny))
    if _near(yours, factor * right):
        return _factor_in_words(factor, right.shape)
    if yours.ndim >= 2 and yours.shape[-1] == yours.shape[-2] and _near(np.swapaxes(yours, -1, -2), right):
        return "Yours is the transpose of the right one."
    return "No simple pattern. Derive it term by term, and check with one term at a time."


def _near(a, b):
    return np.linalg.norm(a - b) <= 1e-5 * np.linalg.norm(b)


def _factor_in_words(factor, shape):
    if abs(factor + 1) < 1e-5:
        return "Yours has the wrong sign."
    for size in [n for n in shape if n > 1]:
        if abs(factor / size - 1) < 1e-5:
            return f"Yours is {size} times the right one, and an axis has {size} entries: a sum in the place of a mean?"
        if abs(factor * size - 1) < 1e-5:
            return f"Yours is 1/{size} of the right one, and an axis has {size} entries: a mean in the place of a sum?"
        if abs(factor**2 / size - 1) < 1e-5 or abs(factor**2 * size - 1) < 1e-5:
            return f"Yours is {factor:.6g} times the right one: a factor √{size}, and an axis has {size} entries."
    return f"Yours is {factor:.6g} times the right one."
