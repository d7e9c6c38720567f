"""What a model says about itself."""

import re

import pytest

from minires.models import RECIPES, DecoderLM, DeepMLP, Encoder
from minires.nn.printing import period
from minires.residual import CONNECTIONS

DECODER = """\
DecoderLM(vocab 65, d = 64, context 32)                          210,432
  tokens: Embedding(65 × 64)                                       4,160
  positions: (32, 64)                                              2,048
  stack: Stack(8 sublayers, one connection)                      200,064
    connection: PreNorm(x ← x + F(LN(x)), y = LN_f(x))             1,152
      norms: 8 × LayerNorm(64)                                     1,024
      final_norm: LayerNorm(64)                                      128
    sublayers: 4 × (MultiHeadAttention, FeedForward)             198,912
      4 × MultiHeadAttention(d = 64, 4 heads of 16, causal)       66,560
      4 × FeedForward(64 → 256 → 64, gelu_tanh)                  132,352
  head: Linear(64 → 65, no bias)                                   4,160"""


def test_the_decoder_as_it_is_printed():
    assert repr(DecoderLM(65, d=64, heads=4, blocks=4, context=32)) == DECODER


def test_a_hundred_blocks_take_no_more_lines_than_four():
    lines = [len(repr(DecoderLM(9, d=8, heads=2, blocks=n, context=4)).splitlines()) for n in (4, 100)]
    assert lines[0] == lines[1]


def test_dropout_is_shown_if_it_does_something():
    assert "Dropout" not in repr(DecoderLM(9, d=8, heads=2, blocks=2, context=4))
    assert "Dropout(0.1)" in repr(DecoderLM(9, d=8, heads=2, blocks=2, context=4, dropout=0.1))


def test_a_tied_head_is_said():
    assert "head tied to the tokens" in repr(DecoderLM(9, d=8, heads=2, blocks=1, context=4, tied=True))


@pytest.mark.parametrize("name", sorted(CONNECTIONS))
def test_every_connection_says_its_equation_in_the_model(name):
    model = DecoderLM(9, d=8, heads=2, blocks=2, context=4, connection=name)
    rule = model.stack.connection
    assert rule.equation and f"connection: {type(rule).__name__}({rule.equation}" in repr(model)


def test_pre_norm_and_post_norm_cannot_be_mixed_up():
    """The equation stands beside the class, and the final norm is there in one of them only."""
    pre, post = (repr(DecoderLM(9, d=8, heads=2, blocks=2, context=4, connection=c)) for c in ("pre_norm", "post_norm"))
    assert "x ← x + F(LN(x))" in pre and "final_norm" in pre
    assert "x ← LN(x + F(x))" in post and "final_norm" not in post


def sizes_by_depth(text):
    rows = []
    for line in text.splitlines():
        size = re.search(r"  +([\d,]+)$", line)
        rows.append(((len(line) - len(line.lstrip())) // 2, int(size[1].replace(",", "")) if size else 0, line))
    return rows


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_the_numbers_of_the_parts_add_up(name):
    """Every number is the sum of the numbers one level deeper, where parts are printed in full."""
    model = RECIPES[name].build(9, 3, d=8, heads=2, context=4)
    rows = sizes_by_depth(repr(model))
    assert rows[0][1] == model.count_parameters()
    for i, (depth, size, line) in enumerate(rows):
        if not re.search(r"(DecoderLM|Stack|connection: \w+)\(|sublayers:", line):
            continue
        inside = []
        for deeper, part, _ in rows[i + 1 :]:
            if deeper <= depth:
                break
            inside += [part] * (deeper == depth + 1)
        assert sum(inside) == size, line


def test_other_models_print_too():
    text = repr(DeepMLP(64, 10, d=32, blocks=5))
    assert "sublayers: 5 × MLPBlock(relu)" in text and "64 inputs, 10 classes" in text
    assert "segments: Embedding(2 × 8)" in repr(Encoder(9, d=8, heads=2, blocks=1, context=4))


def test_the_period_of_a_list():
    assert [period(list(text)) for text in ("aaaa", "abab", "abcabc", "aba", "a", "aab")] == [1, 2, 3, 3, 1, 3]
