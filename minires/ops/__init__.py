"""Every operation: one file each, forward and its manual backward on the same page."""

from minires.backend import install
from minires.ops import syntax
from minires.ops.activations import gelu, gelu_tanh, relu, silu
from minires.ops.attention import attention, self_attention
from minires.ops.cross_entropy import cross_entropy
from minires.ops.depth import depth_attention, depth_sum
from minires.ops.dropout import dropout
from minires.ops.dyt import dyt
from minires.ops.elementwise import (
    abs,
    add,
    clip,
    cos,
    div,
    exp,
    log,
    maximum,
    minimum,
    mul,
    neg,
    power,
    sigmoid,
    sin,
    sqrt,
    sub,
    tanh,
    where,
)
from minires.ops.embedding import embedding
from minires.ops.ffn import ffn
from minires.ops.matmul import linear, matmul
from minires.ops.norms import layernorm, rmsnorm
from minires.ops.reduce import logsumexp, max, mean, min, sum, var
from minires.ops.residual import residual_add
from minires.ops.shape import (
    broadcast_to,
    concatenate,
    expand_dims,
    flip,
    getitem,
    reshape,
    split,
    squeeze,
    stack,
    swapaxes,
    transpose,
)
from minires.ops.sinkhorn import sinkhorn
from minires.ops.softmax import log_softmax, softmax

syntax.bind()
install()

__all__ = [
    "abs", "add", "attention", "broadcast_to", "clip", "concatenate", "cos", "cross_entropy", "depth_attention",
    "depth_sum", "div", "dropout", "dyt", "embedding", "exp", "expand_dims", "ffn", "flip", "gelu", "gelu_tanh",
    "getitem", "layernorm", "linear", "log", "log_softmax", "logsumexp", "matmul", "max", "maximum", "mean", "min",
    "minimum", "mul", "neg", "power", "relu", "reshape", "residual_add", "rmsnorm", "self_attention", "sigmoid",
    "silu", "sin", "sinkhorn", "softmax", "split", "sqrt", "squeeze", "stack", "sub", "sum", "swapaxes", "tanh",
    "transpose", "var", "where",
]  # fmt: skip
