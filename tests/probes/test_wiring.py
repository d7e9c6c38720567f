"""The wiring probe names every wrong block that people have written, and calls every right one by its name."""

import numpy as np
import pytest

from minires.messages import ValueProblem
from minires.models import DecoderLM, DeepMLP
from minires.probes import wiring, wiring_of
from minires.residual import CONNECTIONS

# -------------------------------------------------------------------------------------------------- right blocks


def pre_norm(x, attention, ffn, norm1, norm2):
    x = x + attention(norm1(x))
    return x + ffn(norm2(x))


def post_norm(x, attention, ffn, norm1, norm2):
    x = norm1(x + attention(x))
    return norm2(x + ffn(x))


def parallel(x, attention, ffn, norm1, norm2):
    return x + ffn(norm2(x)) + attention(norm1(x))


def parallel_shared(x, attention, ffn, norm1, norm2):
    h = norm1(x)
    return x + attention(h) + ffn(h)


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize(
    ("block", "kind"), [(pre_norm, "pre_norm"), (post_norm, "post_norm"), (parallel, "parallel")]
)
def test_a_right_block_is_named_and_has_no_fault(block, kind, tensors):
    found = wiring(block, tensors=tensors)
    assert (found.kind, found.faults) == (kind, [])


def test_the_equation_can_be_read():
    assert wiring(pre_norm).equation == "x ← x + attention(norm1(x)) + ffn(norm2(x + attention(norm1(x))))"
    assert wiring(post_norm).equation == "x ← norm2(norm1(x + attention(x)) + ffn(norm1(x + attention(x))))"


def test_a_parallel_block_may_share_one_norm():
    found = wiring(parallel_shared)
    assert (found.kind, found.faults) == ("parallel", [])


# -------------------------------------------------------------------------------------------------- wrong blocks


def skip_after_norm(x, attention, ffn, norm1, norm2):
    h = norm1(x)
    x = h + attention(h)
    h = norm2(x)
    return h + ffn(h)


def second_skip_pre(x, attention, ffn, norm1, norm2):
    y = x + attention(norm1(x))
    return x + ffn(norm2(y))


def second_skip_post(x, attention, ffn, norm1, norm2):
    y = norm1(x + attention(x))
    return norm2(x + ffn(y))


def input_twice(x, attention, ffn, norm1, norm2):
    y = x + attention(norm1(x))
    return x + y + ffn(norm2(y))


def skip_twice_first(x, attention, ffn, norm1, norm2):
    y = x + (x + attention(norm1(x)))
    return y + ffn(norm2(y))


def skip_twice_second(x, attention, ffn, norm1, norm2):
    y = x + attention(norm1(x))
    return y + (y + ffn(norm2(y)))


def no_skip(x, attention, ffn, norm1, norm2):
    return ffn(norm2(attention(norm1(x))))


def no_skip_post(x, attention, ffn, norm1, norm2):
    return norm2(ffn(norm1(attention(x))))


def skip_overwritten_first(x, attention, ffn, norm1, norm2):
    x = attention(norm1(x))
    return x + ffn(norm2(x))


def skip_overwritten_second(x, attention, ffn, norm1, norm2):
    y = x + attention(norm1(x))
    y = ffn(norm2(y))
    return y  # noqa: RET504


def skip_overwritten_post(x, attention, ffn, norm1, norm2):
    x = norm1(attention(x))
    return norm2(x + ffn(x))


def norm_unused(x, attention, ffn, norm1, norm2):
    x = x + attention(norm1(x))
    return x + ffn(x)


def norm_called_but_unused(x, attention, ffn, norm1, norm2):
    norm1(x)
    x = x + attention(x)
    return x + ffn(norm2(x))


def same_norm_pre(x, attention, ffn, norm1, norm2):
    x = x + attention(norm1(x))
    return x + ffn(norm1(x))


def same_norm_post(x, attention, ffn, norm1, norm2):
    x = norm1(x + attention(x))
    return norm1(x + ffn(x))


def wrong_variable(x, attention, ffn, norm1, norm2):
    h = norm1(x)
    h = h + attention(h)
    h = norm2(x)
    return x + ffn(h)


def mutating(x, attention, ffn, norm1, norm2):
    x += attention(norm1(x))
    return x + ffn(norm2(x))


def swapped(x, attention, ffn, norm1, norm2):
    x = x + attention(norm2(x))
    return x + ffn(norm1(x))


def subtracted(x, attention, ffn, norm1, norm2):
    x = x - attention(norm1(x))
    return x + ffn(norm2(x))


def called_twice(x, attention, ffn, norm1, norm2):
    x = x + attention(norm1(x))
    return x + ffn(norm2(x)) + ffn(norm2(x))


def forgotten(x, attention, ffn, norm1, norm2):
    return x + attention(norm1(x))


def squashed(x, attention, ffn, norm1, norm2):
    x = x + np.tanh(attention(norm1(x)))
    return x + ffn(norm2(x))


def extra_norm(x, attention, ffn, norm1, norm2):
    x = x + attention(norm1(x))
    return norm2(x + ffn(x))


WRONG = [
    (skip_after_norm, {"skip after the norm"}),
    (second_skip_pre, {"second skip from the wrong place"}),
    (second_skip_post, {"second skip from the wrong place"}),
    (input_twice, {"input added twice"}),
    (skip_twice_first, {"skip added twice"}),
    (skip_twice_second, {"skip added twice"}),
    (no_skip, {"no skip"}),
    (no_skip_post, {"no skip"}),
    (skip_overwritten_first, {"skip overwritten"}),
    (skip_overwritten_second, {"skip overwritten"}),
    (skip_overwritten_post, {"skip overwritten"}),
    (norm_unused, {"norm unused"}),
    (norm_called_but_unused, {"norm unused"}),
    (same_norm_pre, {"same norm twice", "norm unused"}),
    (same_norm_post, {"same norm twice", "norm unused"}),
    (wrong_variable, {"branch lost"}),
    (mutating, {"mutated input"}),
    (swapped, {"norms swapped"}),
    (subtracted, {"branch scaled"}),
    (called_twice, {"branch count", "same norm twice"}),
    (forgotten, {"branch count", "norm unused"}),
    (squashed, {"not a sum"}),
    (extra_norm, {"unknown wiring"}),
]


@pytest.mark.parametrize(("block", "names"), WRONG, ids=[block.__name__ for block, _ in WRONG])
def test_a_wrong_block_is_told_what_is_wrong_with_it(block, names):
    found = wiring(block)
    assert {fault.name for fault in found.faults} == names, str(found)


def test_a_message_names_the_branch_and_what_it_read():
    (fault,) = wiring(second_skip_pre).faults
    assert "ffn" in fault.message and "x + attention(norm1(x))" in fault.message
    (fault,) = wiring(skip_overwritten_first).faults
    assert "attention" in fault.message


def test_a_zero_branch_makes_a_skip_after_the_norm_return_the_norm():
    """The reason why the fault matters, checked without the probe: x does not survive the block."""
    x = np.array([[1.0, 2.0, 4.0]])
    zero, norm = np.zeros_like, lambda h: (h - h.mean()) / h.std()
    assert not np.allclose(skip_after_norm(x, zero, zero, norm, norm), x)
    assert np.array_equal(pre_norm(x, zero, zero, norm, norm), x)


def test_a_wrong_shape_is_no_sum():
    found = wiring(lambda x, attention, ffn, norm1, norm2: pre_norm(x, attention, ffn, norm1, norm2).sum(0))
    assert "not a sum" in {fault.name for fault in found.faults}


def test_a_block_without_return_is_a_message():
    with pytest.raises(ValueProblem, match="return"):
        wiring(lambda *parts: None)


# ---------------------------------------------------------------------------------------------------- our models


@pytest.mark.parametrize("connection", ["pre_norm", "post_norm", "residual", "none", "plain"])
@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
def test_our_models_are_what_they_are_called(connection, norm):
    model = DecoderLM(11, 16, 2, 3, 8, connection=connection, norm=norm)
    before = model.state_dict()
    for block in range(3):
        found = wiring_of(model, block)
        assert (found.kind, found.faults) == (connection, [])
    assert all(np.array_equal(before[name], array) for name, array in model.state_dict().items())


@pytest.mark.parametrize("connection", sorted(CONNECTIONS))
def test_every_rule_can_be_probed(connection):
    model = DecoderLM(11, 16, 2, 2, 8, connection=connection)
    assert wiring_of(model).equation.startswith("x ← ")


def test_scales_and_gates_belong_to_a_rule():
    assert wiring_of(DecoderLM(11, 16, 2, 2, 8, connection="deepnorm")).kind == "post_norm"
    assert wiring_of(DecoderLM(11, 16, 2, 2, 8, connection="rezero")).kind == "residual"


def test_a_model_with_one_sublayer_per_block():
    assert wiring_of(DeepMLP(8, 3, 16, 4, connection="pre_norm")).kind == "pre_norm"
