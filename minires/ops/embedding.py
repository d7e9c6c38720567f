"""Embedding: rows of a table, chosen by token ids."""

from __future__ import annotations

import numpy as np

from minires.messages import DtypeError, ShapeError, ValueProblem, shown
from minires.tensor import differentiable


def embedding_forward(table, ids):
    """y = table[ids]: token id i becomes row i.

    table: (V, d); ids: integers of any shape. y: ids.shape + (d,). saved = (ids, V).
    Raises ShapeError for a table that is not (V, d), DtypeError for ids that are not integers and ValueProblem for
    ids outside 0 … V-1.
    """
    if table.ndim != 2:
        raise ShapeError("an embedding table must be (V, d)", shown(table), "It has one row per symbol.")
    ids = np.asarray(ids)
    if ids.dtype.kind not in "iu":
        raise DtypeError("token ids must be integers", shown(ids), "Encode the text first, or cast with astype(int).")
    if ids.size and not (ids.min() >= 0 and ids.max() < len(table)):
        raise ValueProblem(
            f"token ids must be in 0 … {len(table) - 1}, the rows of the table",
            f"ids from {ids.min()} to {ids.max()}",
            "Was the text encoded with another vocabulary? The table needs one row per symbol.",
        )
    return table[ids], (ids, len(table))


def embedding_backward(dy, saved):
    """dtable_v = Σ of dy over all places where id v stands; rows that were not used get 0."""
    ids, vocabulary = saved
    dtable = np.zeros((vocabulary, dy.shape[-1]), dy.dtype)
    np.add.at(dtable, ids.reshape(-1), dy.reshape(-1, dy.shape[-1]))
    return dtable, None


def embedding_composed(table, ids):
    from minires.ops import getitem

    return getitem(table, ids)


embedding = differentiable(
    "embedding", embedding_forward, embedding_backward, composed=embedding_composed, parts=("getitem",)
)
