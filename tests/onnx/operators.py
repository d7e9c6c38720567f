"""ONNX operators in terms of this project's functions: inputs and attributes in, a tuple of results out.

A function here may only call what `minires` has. Where that is not enough it raises NotCovered with the reason.
"""

from __future__ import annotations

import math

import numpy as np

from minires import Tensor, ops


class NotCovered(Exception):
    """The reason why a case has no counterpart here."""


OPERATORS = {}


def operator(*names):
    def add(function):
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return add


def only_inputs(function):
    """An operator without attributes that maps its inputs directly."""
    return lambda *inputs, **attributes: function(*inputs)


def floats(*arrays):
    if not all(a.dtype.kind == "f" for a in arrays):
        raise NotCovered("integer arithmetic with rounding of its own; here / and ** follow NumPy")


# ------------------------------------------------------------------------------------------------- elementwise

for _onnx, _ours in {
    "Abs": ops.abs, "Cos": ops.cos, "Exp": ops.exp, "Log": ops.log, "Neg": ops.neg, "Relu": ops.relu, "Sin": ops.sin,
    "Sigmoid": ops.sigmoid, "Sqrt": ops.sqrt, "Tanh": ops.tanh, "Add": ops.add, "Sub": ops.sub, "Mul": ops.mul,
    "MatMul": ops.matmul, "Where": ops.where,
    "Identity": lambda x: x,
    "Reciprocal": lambda x: ops.div(1.0, x),
    "Softplus": lambda x: ops.log(ops.exp(x) + 1.0),
    "Softsign": lambda x: ops.div(x, ops.abs(x) + 1.0),
    "Mish": lambda x: ops.mul(x, ops.tanh(ops.log(ops.exp(x) + 1.0))),
    "Equal": lambda a, b: Tensor(a) == b, "Greater": lambda a, b: Tensor(a) > b, "Less": lambda a, b: Tensor(a) < b,
    "GreaterOrEqual": lambda a, b: Tensor(a) >= b, "LessOrEqual": lambda a, b: Tensor(a) <= b,
}.items():  # fmt: skip
    operator(_onnx)(only_inputs(_ours))


@operator("Swish")
def swish(x, alpha=1.0):
    return ops.silu(x) if alpha == 1 else ops.mul(x, ops.sigmoid(ops.mul(x, alpha)))


@operator("Gelu")
def gelu(x, approximate="none"):
    return ops.gelu_tanh(x) if approximate == "tanh" else ops.gelu(x)


@operator("Div")
def div(a, b):
    floats(a, b)
    return ops.div(a, b)


@operator("Pow")
def power(a, b):
    floats(a)
    return ops.power(a, b.astype(a.dtype))


@operator("Max")
def largest(x, *others):
    y = Tensor(x)
    for other in others:
        y = ops.maximum(y, other)
    return y


@operator("Min")
def smallest(x, *others):
    y = Tensor(x)
    for other in others:
        y = ops.minimum(y, other)
    return y


@operator("Sum")
def total(x, *others):
    y = Tensor(x)
    for other in others:
        y = ops.add(y, other)
    return y


@operator("Mean")
def average(*arrays):
    return ops.mean(ops.stack(arrays), axis=0)


@operator("Clip")
def clip(x, low=None, high=None):
    if low is not None and high is not None and low > high:
        return ops.minimum(ops.maximum(x, low), high)
    return ops.clip(x, low, high)


# -------------------------------------------------------------------------------------------------- reductions


def reduction(function):
    def reduce(x, axes=None, keepdims=1, noop_with_empty_axes=0, **attributes):
        axes = attributes.get("axes", axes)
        axes = None if axes is None else tuple(int(a) for a in np.asarray(axes).reshape(-1))
        if not axes and noop_with_empty_axes:
            return function(x, (), False)
        return function(x, axes or None, bool(keepdims))

    return reduce


def not_of_nothing(function):
    def checked(x, axis, keepdims):
        if x.size == 0 or x.dtype == bool:
            raise NotCovered("the largest entry of nothing, or of booleans; here an error, as in NumPy")
        return function(x, axis, keepdims)

    return checked


for _onnx, _ours in {
    "ReduceSum": ops.sum,
    "ReduceMean": ops.mean,
    "ReduceMax": not_of_nothing(ops.max),
    "ReduceMin": not_of_nothing(ops.min),
    "ReduceLogSumExp": lambda x, axis, keep: ops.logsumexp(x, axis, keep),
    "ReduceL1": lambda x, axis, keep: ops.sum(ops.abs(x), axis, keep),
    "ReduceL2": lambda x, axis, keep: ops.sqrt(ops.sum(ops.mul(x, x), axis, keep)),
    "ReduceLogSum": lambda x, axis, keep: ops.log(ops.sum(x, axis, keep)),
    "ReduceSumSquare": lambda x, axis, keep: ops.sum(ops.mul(x, x), axis, keep),
}.items():
    operator(_onnx)(reduction(_ours))


@operator("ArgMax")
def argmax(x, axis=0, keepdims=1, select_last_index=0):
    return extreme_place(Tensor.argmax, x, axis, keepdims, select_last_index)


@operator("ArgMin")
def argmin(x, axis=0, keepdims=1, select_last_index=0):
    return extreme_place(Tensor.argmin, x, axis, keepdims, select_last_index)


def extreme_place(rule, x, axis, keepdims, last):
    place = rule(ops.flip(x, axis) if last else Tensor(x), axis)
    place = ops.sub(x.shape[axis] - 1, place) if last else place
    return ops.expand_dims(place, axis) if keepdims else place


# ------------------------------------------------------------------------------------------------------- shape


@operator("Reshape")
def reshape(x, shape, allowzero=0):
    return ops.reshape(x, [x.shape[i] if n == 0 and not allowzero else int(n) for i, n in enumerate(shape)])


@operator("Flatten")
def flatten(x, axis=1):
    return ops.reshape(x, math.prod(x.shape[: axis if axis >= 0 else axis + x.ndim]), -1 if x.size else 0)


@operator("Transpose")
def transpose(x, perm=()):
    return ops.transpose(x, *perm)


@operator("Expand")
def expand(x, shape):
    return ops.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape)))


@operator("Squeeze")
def squeeze(x, axes=None):
    return ops.squeeze(x, None if axes is None else tuple(int(a) for a in axes))


@operator("Unsqueeze")
def unsqueeze(x, axes):
    for axis in sorted(int(a) % (x.ndim + len(axes)) for a in axes):
        x = ops.expand_dims(x, axis)
    return x


@operator("Concat")
def concat(*arrays, axis):
    return ops.concatenate(arrays, axis)


@operator("Split")
def split(x, sizes=None, axis=0, num_outputs=None, split=None):
    sizes = split if sizes is None else sizes
    if sizes is None:
        part = -(-x.shape[axis] // num_outputs)
        return tuple(ops.split(x, list(range(part, part * num_outputs, part)), axis))
    return tuple(ops.split(x, list(np.cumsum(sizes)[:-1]), axis))


@operator("Slice")
def slices(x, starts, ends, axes=None, steps=None):
    axes = range(x.ndim) if axes is None else axes
    steps = np.ones(len(starts), int) if steps is None else steps
    index = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        index[axis] = slice(int(start), None if step < 0 and end < -x.shape[axis] else int(end), int(step))
    return ops.getitem(x, tuple(index))


@operator("Tile")
def tile(x, repeats):
    for axis, n in enumerate(repeats):
        x = ops.concatenate([x] * int(n), axis)
    return x


@operator("Trilu")
def trilu(x, k=None, upper=1):
    k = 0 if k is None else int(k)
    places = np.ones(x.shape[-2:], bool)
    return ops.where(np.triu(places, k) if upper else np.tril(places, k), x, np.zeros((), x.dtype))


@operator("Gather")
def gather(x, indices, axis=0):
    return ops.getitem(x, (slice(None),) * (axis % x.ndim) + (indices,))


@operator("GatherElements")
def gather_elements(x, indices, axis=0):
    index = list(np.indices(indices.shape, sparse=True))
    index[axis] = indices
    return ops.getitem(x, tuple(index))


@operator("GatherND")
def gather_nd(x, indices, batch_dims=0):
    if batch_dims:
        raise NotCovered("batched gathering; here an index array is given for every axis")
    return ops.getitem(x, tuple(np.moveaxis(indices, -1, 0)))


@operator("Pad")
def pad(x, pads, value=None, axes=None, mode="constant"):
    if mode == "constant":
        return padded_with(x, pads, 0 if value is None else value, range(x.ndim) if axes is None else axes)
    widths = list(zip(pads[: x.ndim], pads[x.ndim :], strict=True))
    grid = [np.pad(np.arange(n), w, mode=mode) for n, w in zip(x.shape, widths, strict=True)]
    return ops.getitem(x, np.ix_(*grid))


def padded_with(x, pads, value, axes):
    y = Tensor(x)
    for axis, before, after in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        sides = [np.full([n if i == int(axis) % x.ndim else m for i, m in enumerate(y.shape)], value, x.dtype)
                 for n in (before, after)]  # fmt: skip
        y = ops.concatenate([sides[0], y, sides[1]], int(axis))
    return y


# ------------------------------------------------------------------------------------------------------ blocks


@operator("Gemm")
def gemm(a, b, c=None, alpha=1.0, beta=1.0, transA=0, transB=0):
    y = ops.matmul(ops.transpose(a) if transA else a, ops.transpose(b) if transB else b) * np.float32(alpha)
    return y if c is None else ops.add(y, ops.mul(c, np.float32(beta)))


@operator("Softmax")
def softmax(x, axis=-1):
    return ops.softmax(x, axis=axis)


@operator("LogSoftmax")
def log_softmax(x, axis=-1):
    return ops.log_softmax(x, axis=axis)


@operator("LayerNormalization")
def layer_normalization(x, scale, bias=None, axis=-1, epsilon=1e-5, stash_type=1):
    axis %= x.ndim
    rows = ops.reshape(x, *x.shape[:axis], -1)
    y = ops.layernorm(rows, scale.reshape(-1), None if bias is None else bias.reshape(-1), eps=epsilon)
    axes = tuple(range(axis, x.ndim))
    inverse = ops.div(1.0, ops.sqrt(ops.var(x, axes, True) + np.float32(epsilon)))
    return ops.reshape(y, *x.shape), ops.mean(x, axes, True), inverse


@operator("RMSNormalization")
def rms_normalization(x, scale, axis=-1, epsilon=1e-5, stash_type=1):
    axis %= x.ndim
    y = ops.rmsnorm(ops.reshape(x, *x.shape[:axis], -1), scale.reshape(-1), eps=epsilon)
    return ops.reshape(y, *x.shape)


@operator("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(scores, labels, weights=None, ignore_index=None, reduction="mean"):
    logp = ops.log_softmax(scores, axis=1)
    if reduction == "mean" and weights is None and labels.size:
        ignored = -100 if ignore_index is None else ignore_index
        loss = ops.cross_entropy(ops.transpose(scores, 0, *range(2, scores.ndim), 1), labels, ignore_index=ignored)
        return loss, logp
    return negative_log_likelihood(logp, labels, weights, ignore_index, reduction), logp


@operator("NegativeLogLikelihoodLoss")
def negative_log_likelihood(logp, labels, weights=None, ignore_index=None, reduction="mean"):
    kept = np.ones(labels.shape, bool) if ignore_index is None else labels != ignore_index
    safe = np.where(kept, labels, 0)
    n, *places = np.indices(labels.shape, sparse=True)
    weight = (np.ones(logp.shape[1], np.float32) if weights is None else weights)[safe] * kept
    loss = ops.neg(ops.getitem(logp, (n, safe, *places))) * weight
    if reduction == "none":
        return loss
    return loss.sum() if reduction == "sum" else loss.sum() / weight.sum()


@operator("Dropout")
def dropout(x, ratio=0.5, training=False, seed=0):
    if training and ratio != 0:
        raise NotCovered("random numbers of another generator")
    return ops.dropout(x, p=0), np.ones(x.shape, bool)


@operator("Attention")
def attention(q, k, v, mask=None, past_k=None, past_v=None, lengths=None, **attributes):
    if past_k is not None or lengths is not None:
        raise NotCovered("attention with a key and value cache")
    if attributes.get("softcap") or attributes.get("qk_matmul_output_mode"):
        raise NotCovered("attention with a cap on its scores, or with its scores as a second result")
    packed = q.ndim == 3
    if packed:
        q = heads_apart(q, attributes["q_num_heads"])
        k, v = (heads_apart(x, attributes["kv_num_heads"]) for x in (k, v))
    keys, values = (repeated(x, q.shape[1] // x.shape[1]) for x in (k, v))  # (B, H, S, dh)
    options = {"causal": bool(attributes.get("is_causal")), "scale": attributes.get("scale")}
    options["mask"] = window(q.shape[2], k.shape[2], **attributes)
    if mask is not None and mask.dtype == bool:
        options["mask"] = options["mask"] & widened(mask, k.shape[2])
    elif mask is not None:
        options["bias"] = widened(mask, k.shape[2])
    y = ops.attention(q, keys, values, **options)  # (B, H, T, dv)
    b, h, t, dv = y.shape
    return (y.swapaxes(1, 2).reshape(b, t, h * dv) if packed else y), k, v


def heads_apart(x, heads):
    b, t, d = x.shape
    return ops.reshape(x, b, t, heads, d // heads).swapaxes(1, 2)  # (B, H, T, d/H)


def repeated(x, times):
    """Grouped-query attention: each key head serves `times` query heads."""
    b, h, s, d = x.shape
    x = x if isinstance(x, Tensor) else Tensor(x)
    return ops.broadcast_to(x.reshape(b, h, 1, s, d), b, h, times, s, d).reshape(b, h * times, s, d)


def window(queries, keys, left_window_size=-1, right_window_size=-1, **attributes):
    """True where a key is at most so many places before or after the query; -1 is no bound."""
    distance = np.arange(keys) - np.arange(queries)[:, None]  # (T, S)
    before = distance >= -left_window_size if left_window_size >= 0 else True
    after = distance <= right_window_size if right_window_size >= 0 else True
    return np.full((queries, keys), True) & before & after


def widened(mask, keys):
    """A mask may be shorter than the keys: what it does not mention is masked."""
    missing = keys - mask.shape[-1]
    fill = False if mask.dtype == bool else -np.inf
    return np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, missing)], constant_values=fill)


for _names, _reason in {
    "Adam Momentum": "an optimiser, not an operation; tests/train compares it with its formula",
    "CumSum ReduceProd": "no running sum and no product of entries here",
    "Einsum": "no einsum here: matmul, transpose and sum say it step by step",
    "Erf": "no error function of its own here; the exact GELU contains it",
    "RotaryEmbedding": "positions are learned or absent here, not rotated",
    "Scatter ScatterElements ScatterND": "writing into a copy; here it exists only as the backward pass of indexing",
}.items():

    def _not_covered(*inputs, reason=_reason, **attributes):
        raise NotCovered(reason)

    operator(*_names.split())(_not_covered)
