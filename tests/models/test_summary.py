"""The summary's numbers against independent counts: formulas, matrix products as they happen, and real memory."""

import gc
import json
import tracemalloc

import numpy as np
import pytest

from minires import backend
from minires.models import RECIPES, DecoderLM, DeepMLP, Encoder, summary
from minires.tensor import OPS

SIZES = dict(vocab=13, d=16, heads=4, blocks=3, context=10, hidden=40)


class Counting(np.ndarray):
    """An array that adds up the operations of every matrix product it takes part in."""

    flops = 0

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        plain = [np.asarray(x) if isinstance(x, Counting) else x for x in inputs]
        if out is not None:
            kwargs["out"] = tuple(np.asarray(o) if isinstance(o, Counting) else o for o in out)
        y = getattr(ufunc, method)(*plain, **kwargs)
        if ufunc is np.matmul:
            Counting.flops += 2 * y.size * plain[0].shape[-1]
        return y.view(Counting) if isinstance(y, np.ndarray) else y


def counted(function):
    """The function on counting arrays; what it returns keeps counting, so that `saved` does too."""

    def wrapped(*args, **kwargs):
        return function(*[a.view(Counting) if isinstance(a, np.ndarray) else a for a in args], **kwargs)

    return wrapped


def matmul_flops(model, batch, length, monkeypatch):
    """(forward, whole step): every product that happens inside the operations."""
    for name in ("linear", "matmul", "ffn", "self_attention", "attention"):
        op = OPS[name]
        monkeypatch.setattr(op, "forward", counted(op.reference[0]))
        monkeypatch.setattr(op, "backward", counted(op.reference[1]))
    Counting.flops = 0
    loss = model.loss(*model.example(batch, length))
    forward = Counting.flops
    loss.backward()
    return forward, Counting.flops


MODELS = {
    "decoder": lambda: DecoderLM(**SIZES),
    "tied": lambda: DecoderLM(**SIZES, tied=True, connection="post_norm"),
    "encoder": lambda: Encoder(**SIZES),
    "mlp": lambda: DeepMLP(6, 3, d=8, blocks=4),
    "plain_mlp": lambda: DeepMLP(6, 3, d=8, blocks=4, connection="plain", layers_per_block=1),
    "normformer": lambda: RECIPES["normformer"].build(13, 2, d=16, heads=4, context=10),
}


@pytest.mark.parametrize("name", MODELS)
def test_operations_are_those_of_the_matrix_products_that_happen(name, monkeypatch):
    model = MODELS[name]()
    with backend("numpy"):
        total = summary(model, 2, 7).total
        assert (total.forward_flops, total.step_flops) == matmul_flops(model, 2, 7, monkeypatch)


def test_the_documented_formula():
    B, T, d, h, V, N = 2, 7, 16, 40, 13, 3
    s = summary(DecoderLM(**SIZES), B, T)
    assert s.total.forward_flops == N * (8 * B * T * d**2 + 4 * B * T**2 * d + 4 * B * T * d * h) + 2 * B * T * d * V
    by_name = {part.name: part for part in s.parts}
    assert by_name["attention"].forward_flops == N * (8 * B * T * d**2 + 4 * B * T**2 * d)
    assert by_name["ffn"].forward_flops == N * 4 * B * T * d * h


def test_activation_bytes_are_what_the_graph_really_keeps():
    """tracemalloc sees the live memory of a loss: the kept arrays, and little else."""
    model = DecoderLM(50, d=64, heads=4, blocks=3, context=64)
    x, y = model.example(8)
    with backend("numpy"):
        model.loss(x, y).backward()  # gradients exist, caches are warm
        promised = summary(model, 8).total.activation_bytes
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        loss = model.loss(x, y)
        kept = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
    assert loss.requires_grad and promised > 5e6
    assert promised == pytest.approx(kept, rel=0.02)


def test_activation_memory_grows_with_the_batch_and_parameters_do_not():
    one, four = summary(DecoderLM(**SIZES), 1), summary(DecoderLM(**SIZES), 4)
    assert four.total.activation_bytes == pytest.approx(4 * one.total.activation_bytes, rel=0.02)
    assert four.total.parameters == one.total.parameters and four.parameter_bytes == one.parameter_bytes


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_every_recipe_can_be_summed_up(name):
    model = RECIPES[name].build(13, 2, d=16, heads=2, context=8)
    s = summary(model, 2)
    assert s.total.parameters == model.count_parameters() and s.total.activation_bytes > 0
    assert json.loads(json.dumps(s.to_dict()))["total"]["forward_flops"] > 0


def test_a_tied_table_is_counted_once_and_where_it_is_first_used():
    s = summary(DecoderLM(**SIZES, tied=True))
    by_name = {part.name: part for part in s.parts}
    assert by_name["head"].parameters == 0 and by_name["entry"].parameters == (13 + 10) * 16
    assert by_name["head"].forward_flops > 0


def test_the_table_shows_parts_and_totals(capsys):
    summary(DecoderLM(**SIZES), 2).show()
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("attention", "ffn", "connection", "in all", "batch 2 × length 10", "MFLOP"))
