"""What the tests of this folder share: small models with every parameter off its starting point, and flat states."""

import numpy as np

from minires.models import RECIPES
from minires.nn import Maker, get_norm
from minires.residual import get_connection, transformer_sites
from minires.tensor import Tensor

VOCAB, CONTEXT, D, HEADS, BLOCKS = 7, 4, 6, 2, 2


def ids_and_targets(seed=0, batch=2, length=CONTEXT):
    rng = np.random.default_rng(seed)
    return rng.integers(0, VOCAB, (batch, length)), rng.integers(0, VOCAB, (batch, length))


def build(name, dtype=np.float64, blocks=BLOCKS, seed=0, **options):
    """A small language model by a recipe."""
    ids, _ = ids_and_targets()
    sizes = dict(d=D, heads=HEADS, context=CONTEXT) | options
    return RECIPES[name].build(VOCAB, blocks, ids=ids, rng=seed, dtype=dtype, **sizes)


def disturbed(module, seed=1, size=0.3):
    """Add random numbers to every parameter: no gate stays 0, no weight stays equal to another."""
    rng = np.random.default_rng(seed)
    for p in module.parameters():
        p.data[...] += size * rng.standard_normal(p.shape)
        p.changed()
    return module


def make_connection(rule, blocks=2, d=4, norm="layernorm", seed=0, dtype=np.float64):
    """A rule with the sites of a Transformer, and those sites."""
    sites = transformer_sites(blocks)
    make = Maker.of(seed, "xavier", dtype, len(sites))
    return get_connection(rule)(sites, d, get_norm(norm), make), sites


def parts(stream):
    """The tensors that a stream consists of."""
    return [stream] if isinstance(stream, Tensor) else list(stream)


def flat(stream):
    return np.concatenate([part.data.ravel() for part in parts(stream)])


def unflat(vector, like):
    """The reverse of `flat`: a stream of the same form."""
    shapes = [part.shape for part in parts(like)]
    pieces = np.split(vector, np.cumsum([int(np.prod(s)) for s in shapes])[:-1])
    tensors = [Tensor(piece.reshape(shape)) for piece, shape in zip(pieces, shapes, strict=True)]
    return tensors[0] if isinstance(like, Tensor) else type(like)(tensors)


def as_arrays(stream):
    """The stream as `Connection.jacobian` takes it."""
    return stream.data if isinstance(stream, Tensor) else tuple(part.data for part in stream)


class Branch:
    """F(h) = tanh(vec(h) W), which mixes all tokens and features, and its Jacobian where it was last evaluated."""

    def __init__(self, size, seed):
        self.weight = np.random.default_rng(seed).standard_normal((size, size)) * size**-0.5

    def __call__(self, h):
        self.output = np.tanh(h.data.ravel() @ self.weight)
        return Tensor(self.output.reshape(h.shape))

    @property
    def f(self):
        return self.output

    @property
    def jacobian(self):
        return (1 - self.output**2)[:, None] * self.weight.T  # J[i, j] = ∂f_i/∂h_j
