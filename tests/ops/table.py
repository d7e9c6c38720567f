"""One declaration per operation: the inputs and options it must be right for. The contract test does the rest.

An entry is a hypothesis strategy of (inputs, options). Values come from a seeded generator, so that an example is
small to print; shapes, axes, masks and memory layouts are hypothesis's to choose and to shrink.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

TABLE = {}
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
ROWS = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5)
SEEDS = st.integers(0, 2**16)
LAYOUTS = st.sampled_from(["C", "F", "strided", "backwards"])


def entry(*names):
    """Declare the table's entry for operations that take the same inputs."""

    def add(strategy):
        for name in names:
            assert name not in TABLE, name
            TABLE[name] = strategy()
        return strategy

    return add


def laid_out(array, layout):
    """The same numbers in another memory layout."""
    if layout == "F":
        return np.asarray(array, order="F")
    if layout == "strided" and array.ndim:
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    if layout == "backwards" and array.ndim:
        return array[::-1].copy()[::-1]
    return array


class Values:
    """Random arrays of one example."""

    def __init__(self, draw):
        self.rng, self.layout = np.random.default_rng(draw(SEEDS)), draw(LAYOUTS)

    def normal(self, *shape):
        return laid_out(self.rng.standard_normal(shape), self.layout)

    def positive(self, *shape):
        return laid_out(self.rng.uniform(0.5, 2.0, shape), self.layout)

    def apart(self, *shape):
        """Distinct values, none near 0 or near another: no kink is close, and no maximum is tied."""
        n = int(np.prod(shape))
        return laid_out((self.rng.permutation(n).reshape(shape) - n // 2 + 0.35) * 0.2, self.layout)

    def mask(self, *shape):
        return self.rng.random(shape) < 0.6


def drawn(function):
    """A hypothesis composite that gets its `Values` ready made."""

    def case(draw):
        inputs, options = function(draw, Values(draw))
        return tuple(
            np.asarray(x) if isinstance(x, np.generic) else x for x in inputs
        ), options  # 0-d arrays stay arrays

    return st.composite(case)


# ------------------------------------------------------------------------------------------------- elementwise


def two_shapes(draw):
    return draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=0, max_side=3)).input_shapes


@entry("add", "sub", "mul")
@drawn
def any_two(draw, v):
    a, b = two_shapes(draw)
    return (v.normal(*a), v.normal(*b)), {}


@entry("div")
@drawn
def nonzero_denominator(draw, v):
    a, b = two_shapes(draw)
    return (v.normal(*a), v.positive(*b) * draw(st.sampled_from([1, -1]))), {}


@entry("power")
@drawn
def base_and_exponent(draw, v):
    a, b = two_shapes(draw)
    exponent = draw(st.sampled_from(["array", 2, 3.0, 0, -1, 0.5]))
    return (v.positive(*a), v.normal(*b) if exponent == "array" else exponent), {}


@entry("maximum", "minimum")
@drawn
def never_equal(draw, v):
    a, b = two_shapes(draw)
    return (v.apart(*a), v.apart(*b) + 0.1), {}


@entry("where")
@drawn
def condition_and_two(draw, v):
    c, a, b = draw(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, min_side=0, max_side=3)).input_shapes
    return (v.mask(*c), v.normal(*a), v.normal(*b)), {}


@entry("residual_add")
@drawn
def two_of_one_shape(draw, v):
    shape = draw(SHAPES)
    return (v.normal(*shape), v.normal(*shape)), {}


@entry("neg", "exp", "tanh", "sigmoid", "sin", "cos", "gelu", "gelu_tanh", "silu")
@drawn
def one(draw, v):
    return (v.normal(*draw(SHAPES)) * draw(st.sampled_from([1, 5])),), {}


@entry("log", "sqrt")
@drawn
def one_positive(draw, v):
    return (v.positive(*draw(SHAPES)),), {}


@entry("abs", "relu")
@drawn
def one_off_zero(draw, v):
    return (v.apart(*draw(SHAPES)),), {}


@entry("clip")
@drawn
def one_and_bounds(draw, v):
    low, high = draw(st.sampled_from([(-0.5, 0.5), (None, 0.3), (-0.3, None), (None, None)]))
    return (v.apart(*draw(SHAPES)),), {"low": low, "high": high}


@entry("dropout")
@drawn
def one_and_probability(draw, v):
    seed = draw(SEEDS)
    return (v.normal(*draw(SHAPES)),), {"p": draw(st.sampled_from([0, 0.3, 1])), "rng": seed}


# -------------------------------------------------------------------------------------------------- reductions


def axes_of(draw, shape, several=True):
    axes = st.none()
    if shape:
        one_axis = st.integers(-len(shape), len(shape) - 1)
        axes = st.one_of(axes, one_axis, hnp.valid_tuple_axes(len(shape))) if several else one_axis
    return draw(axes)


@entry("sum", "mean", "var")
@drawn
def one_and_axes(draw, v):
    shape = draw(SHAPES)
    return (v.normal(*shape),), {"axis": axes_of(draw, shape), "keepdims": draw(st.booleans())}


@entry("max", "min", "logsumexp")
@drawn
def one_and_axes_not_empty(draw, v):
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=4))
    return (v.apart(*shape),), {"axis": axes_of(draw, shape), "keepdims": draw(st.booleans())}


# ------------------------------------------------------------------------------------------------------- shape


@entry("reshape")
@drawn
def new_shape(draw, v):
    shape = draw(SHAPES)
    n = int(np.prod(shape))
    targets = [(n,), (1, n), (n, 1, 1)] + ([(-1,)] if n else [(0, 3)]) + ([(2, -1)] if n and n % 2 == 0 else [])
    return (v.normal(*shape),), {"shape": draw(st.sampled_from(targets))}


@entry("transpose")
@drawn
def permuted(draw, v):
    shape = draw(SHAPES)
    order = draw(st.one_of(st.none(), st.permutations(range(len(shape)))))
    negative = order is not None and draw(st.booleans())
    axes = order if order is None else tuple(a - len(shape) if negative else a for a in order)
    return (v.normal(*shape),), {"axes": axes}


@entry("swapaxes")
@drawn
def two_axes(draw, v):
    shape = draw(ROWS)
    return (v.normal(*shape),), {"axis1": axes_of(draw, shape, False), "axis2": axes_of(draw, shape, False)}


@entry("broadcast_to")
@drawn
def stretched(draw, v):
    small, other = two_shapes(draw)
    return (v.normal(*small),), {"shape": np.broadcast_shapes(small, other)}


@entry("getitem")
@drawn
def indexed(draw, v):
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
    basic = hnp.basic_indices(shape, allow_newaxis=True)
    several = hnp.integer_array_indices(shape[:1], result_shape=hnp.array_shapes(min_dims=0, max_dims=2, max_side=3))
    masks = st.builds(lambda seed: np.random.default_rng(seed).random(shape) < 0.5, SEEDS)
    rows = st.lists(st.integers(-shape[0], shape[0] - 1), max_size=4)
    mixed = st.builds(lambda r: (..., np.array(r, int)[:, None]) if len(shape) == 1 else (np.array(r, int), None), rows)
    index = st.one_of(basic, several, masks, mixed, rows.map(lambda r: np.array(r, int)))
    return (v.normal(*shape),), {"index": draw(index)}


@entry("concatenate")
@drawn
def joined(draw, v):
    shape, sizes = draw(ROWS), draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    axis = axes_of(draw, shape, False)
    shapes = [[n if i == axis % len(shape) else s for i, s in enumerate(shape)] for n in sizes]
    return tuple(v.normal(*s) for s in shapes), {"axis": axis}


@entry("stack")
@drawn
def stacked(draw, v):
    shape, count = draw(SHAPES), draw(st.integers(1, 4))
    return tuple(v.normal(*shape) for _ in range(count)), {"axis": draw(st.integers(-len(shape) - 1, len(shape)))}


@entry("flip")
@drawn
def reversed_axes(draw, v):
    shape = draw(SHAPES)
    return (v.normal(*shape),), {"axis": axes_of(draw, shape)}


# ---------------------------------------------------------------------------------------------- matrix products


@entry("matmul")
@drawn
def factors(draw, v):
    shapes = draw(hnp.mutually_broadcastable_shapes(signature=np.matmul.signature, max_dims=2, min_side=0, max_side=3))
    return tuple(v.normal(*s) for s in shapes.input_shapes), {}


@entry("linear")
@drawn
def rows_and_weight(draw, v):
    shape, out = draw(ROWS), draw(st.integers(0, 3))
    bias = v.normal(out) if draw(st.booleans()) else None
    return (v.normal(*shape), v.normal(shape[-1], out), bias), {}


@entry("embedding")
@drawn
def table_and_ids(draw, v):
    ids = v.rng.integers(0, 4, draw(SHAPES)).astype(draw(st.sampled_from([np.int64, np.int32, np.uint8])))
    return (v.normal(4, 3), ids), {}


# ---------------------------------------------------------------------------------------------------- the blocks


@entry("softmax", "log_softmax")
@drawn
def scores(draw, v):
    shape = draw(ROWS)
    return (v.normal(*shape) * draw(st.sampled_from([1, 10])),), {"axis": axes_of(draw, shape, False)}


@entry("layernorm")
@drawn
def rows_gain_shift(draw, v):
    shape = draw(ROWS)
    gamma, beta = (v.normal(shape[-1]) if draw(st.booleans()) else None for _ in range(2))
    return (v.normal(*shape) * 3 + 2, gamma, beta), {"eps": draw(st.sampled_from([1e-5, 0.1]))}


@entry("rmsnorm")
@drawn
def rows_gain(draw, v):
    shape = draw(ROWS)
    return (v.normal(*shape) * 3 + 2, v.normal(shape[-1]) if draw(st.booleans()) else None), {}


@entry("attention")
@drawn
def heads(draw, v):
    t, s, dh, dv = (draw(st.integers(0, 4)) for _ in range(4))
    q, k, w = draw(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=2, max_side=2)).input_shapes
    lead = np.broadcast_shapes(q, k)
    options = {"causal": draw(st.booleans()), "scale": draw(st.sampled_from([None, 0.3])), "rng": draw(SEEDS)}
    masks = [None, v.mask(t, s), v.mask(*lead, t, s), v.mask(1, s), np.zeros((t, s), bool)]
    options["mask"] = draw(st.sampled_from(masks))
    options["bias"] = draw(st.sampled_from([None, v.normal(t, s)]))
    options["dropout_p"] = draw(st.sampled_from([0.0, 0.4]))
    return (v.normal(*q, t, dh), v.normal(*k, s, dh), v.normal(*w, s, dv)), options


@entry("self_attention")
@drawn
def packed_heads(draw, v):
    b, t, h, dh = draw(st.integers(0, 2)), draw(st.integers(0, 4)), draw(st.integers(1, 3)), draw(st.integers(0, 3))
    options = {"heads": h, "causal": draw(st.booleans()), "rng": draw(SEEDS)}
    options["dropout_p"] = draw(st.sampled_from([0.0, 0.4]))
    options["mask"] = draw(st.sampled_from([None, v.mask(t, t), v.mask(b, 1, 1, t), v.mask(b, h, t, t)]))
    return (v.normal(b, t, 3 * h * dh),), options


@entry("dyt")
@drawn
def rows_and_slope(draw, v):
    shape = draw(ROWS)
    return (v.normal(*shape), v.normal(), v.normal(shape[-1]), v.normal(shape[-1])), {}


@entry("depth_sum")
@drawn
def weights_and_sources(draw, v):
    shape, count = draw(SHAPES), draw(st.integers(1, 4))
    return (v.normal(count), *(v.normal(*shape) for _ in range(count))), {}


@entry("depth_attention")
@drawn
def query_and_sources(draw, v):
    shape = draw(ROWS)
    return (v.normal(shape[-1]), v.normal(shape[-1]), *(v.normal(*shape) for _ in range(draw(st.integers(1, 3))))), {}


@entry("sinkhorn")
@drawn
def logits_of_squares(draw, v):
    lead, n = draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=2)), draw(st.integers(1, 4))
    return (v.normal(*lead, n, n),), {"steps": draw(st.integers(1, 5))}


@entry("ffn")
@drawn
def two_layers(draw, v):
    shape, hidden = draw(ROWS), draw(st.integers(0, 4))
    d = shape[-1]
    b1, b2 = (v.normal(n) if draw(st.booleans()) else None for n in (hidden, d))
    options = {"activation": draw(st.sampled_from(["relu", "gelu", "gelu_tanh", "silu"]))}
    return (v.normal(*shape), v.normal(d, hidden), b1, v.normal(hidden, d), b2), options


@entry("cross_entropy")
@drawn
def logits_and_targets(draw, v):
    classes, shape = draw(st.integers(1, 5)), draw(hnp.array_shapes(min_dims=0, max_dims=2, max_side=4))
    targets = np.array(v.rng.integers(0, classes, shape))
    ignored = draw(st.sampled_from([-100, 0, 99]))
    lost = v.rng.random(shape) < 0.3
    targets = np.where(lost, ignored, targets)
    if np.all(targets == ignored):
        ignored = -1
        targets = np.maximum(targets, 0) % classes
    options = {"ignore_index": ignored, "label_smoothing": draw(st.sampled_from([0.0, 0.1]))}
    return (v.normal(*shape, classes) * 3, targets), options
