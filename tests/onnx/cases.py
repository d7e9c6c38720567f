"""ONNX's own test cases for single nodes, with data, for the operator types that belong to this project's world."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# Operator types that a Transformer, its losses and its training are made of, and elementwise, reduction, shape and
# indexing operators around them. Convolution, pooling, recurrence, quantisation, images, text and control flow are not.
RELEVANT = [
    "Attention", "LayerNormalization", "RMSNormalization", "Softmax", "LogSoftmax", "SoftmaxCrossEntropyLoss",
    "NegativeLogLikelihoodLoss", "Gelu", "Relu", "Swish", "Mish", "Erf", "Dropout", "RotaryEmbedding", "MatMul",
    "Gemm", "Einsum", "Adam", "Momentum", "Abs", "Add", "Clip", "Cos", "Div", "Exp", "Log", "Max", "Mean", "Min",
    "Mul", "Neg", "Pow", "Reciprocal", "Sigmoid", "Sin", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Tanh",
    "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Where", "ArgMax", "ArgMin", "CumSum", "ReduceL1",
    "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSum", "ReduceSumSquare", "Concat", "Expand", "Flatten", "Identity", "Pad", "Reshape", "Slice", "Split",
    "Squeeze", "Tile", "Transpose", "Trilu", "Unsqueeze", "Gather", "GatherElements", "GatherND", "Scatter",
    "ScatterElements", "ScatterND",
]  # fmt: skip
DTYPES = {np.dtype(t) for t in (np.float32, np.float64, np.int32, np.int64, np.bool_)}


@dataclass(frozen=True)
class Case:
    """One node: what goes in (None for an optional input that is left out), its attributes, what must come out."""

    name: str
    operator: str
    inputs: tuple[np.ndarray | None, ...]
    attributes: dict[str, Any]
    wanted: tuple[str, ...]
    outputs: tuple[np.ndarray, ...] = field(repr=False)
    rtol: float = 1e-3
    atol: float = 1e-7


@functools.cache
def relevant_cases() -> dict[str, Case]:
    """Every relevant case by name."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    cases = [made for c in found if (made := _case(c)) is not None]
    return {case.name: case for case in sorted(cases, key=lambda case: case.name)}


def _case(c: Any) -> Case | None:
    if len(c.model.graph.node) != 1 or not c.data_sets:
        return None
    node = c.model.graph.node[0]
    inputs, outputs = c.data_sets[0]
    if node.op_type not in RELEVANT or not all(_usable(a) for a in (*inputs, *outputs)):
        return None
    given = iter(np.asarray(a) for a in inputs)
    arrays = tuple(next(given) if name else None for name in node.input)
    return Case(
        c.name,
        node.op_type,
        arrays,
        _attributes(node),
        tuple(node.output),
        tuple(map(np.asarray, outputs)),
        c.rtol,
        c.atol,
    )


def _usable(a: Any) -> bool:
    return isinstance(a, np.ndarray | np.generic) and a.dtype in DTYPES


def _attributes(node: Any) -> dict[str, Any]:
    from onnx import helper

    values = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return {k: v.decode() if isinstance(v, bytes) else v for k, v in values.items()}
