"""The tuned lens: it begins as the logit lens, gets nearer to the model, and finds what a turn of the stream hides."""

import numpy as np
import pytest

from minires.data import CharCorpus, hamlet
from minires.messages import ValueProblem
from minires.models import get_recipe
from minires.probes import logit_lens, tuned_lens
from minires.probes.running import log_softmax
from minires.train import AdamW, fit


@pytest.fixture(scope="module")
def play():
    return CharCorpus(hamlet())


def trained(play, recipe, steps=60):
    ids, _ = play.batch(np.random.default_rng(0), 4, 16)
    model = get_recipe(recipe).build(len(play.vocab), 2, d=16, heads=2, context=16, rng=0, ids=ids)
    optimizer, rng = AdamW(model.parameters(), lr=5e-3), np.random.default_rng(0)
    fit(model, lambda rng: play.batch(rng, 8, 16), optimizer, steps, rng=rng, progress=False)
    return model


@pytest.mark.parametrize("recipe", ["pre_norm", "post_norm", "rezero", "hyper_connections"])
def test_on_text_it_was_not_fitted_on_every_early_state_is_nearer_to_the_model(play, recipe):
    model = trained(play, recipe)
    before = {name: value.copy() for name, value in model.state_dict().items()}
    fitted, _ = play.batch(np.random.default_rng(1), 32, 16)
    other, targets = play.batch(np.random.default_rng(2), 16, 16)
    lens = tuned_lens(model, fitted, steps=100, lr=5e-3)
    plain, tuned = logit_lens(model, other, targets), lens.read(other, targets)
    assert (tuned.kl[:-1] < plain.kl[:-1]).all() and tuned.kl[0] < 0.5 * plain.kl[0]
    assert tuned.agreement[0] > plain.agreement[0]
    assert tuned.kl[-1] == 0 and np.array_equal(tuned.logits[-1], plain.logits[-1])
    assert all(np.array_equal(value, before[name]) for name, value in model.state_dict().items())


def test_the_first_loss_is_that_of_the_logit_lens_and_the_last_is_lower(play):
    model, ids = trained(play, "pre_norm", steps=20), play.batch(np.random.default_rng(1), 8, 16)[0]
    lens = tuned_lens(model, ids, steps=40)
    assert lens.losses[0] == pytest.approx(logit_lens(model, ids).kl[:-1].mean(), rel=1e-4)
    assert lens.losses[-1] < 0.7 * lens.losses[0] and len(lens.losses) == 40
    assert lens.weights.shape == (4, 16, 16) and lens.biases.shape == (4, 16)


def test_the_maps_are_used_as_they_are_written(play):
    """p_l = softmax(LN_f(x_l A_l + c_l) W_U), by hand for one state."""
    model, ids = trained(play, "pre_norm", steps=5), play.batch(np.random.default_rng(1), 2, 8)[0]
    lens = tuned_lens(model, ids, steps=3)
    from minires.probes import forward
    from minires.probes.lens import tail
    from minires.probes.running import unembedding

    W, b = unembedding(model)
    by_hand = tail(model, forward(model, ids).states[1] @ lens.weights[1] + lens.biases[1]) @ W + b
    assert np.allclose(log_softmax(lens.read(ids).logits[1]), log_softmax(by_hand), atol=1e-5)


def test_what_it_cannot_do_is_explained(play):
    ids = play.batch(np.random.default_rng(1), 2, 8)[0]
    with pytest.raises(ValueProblem, match="x_K alone"):
        tuned_lens(trained(play, "residual_dual", steps=1), ids)
    with pytest.raises(ValueProblem, match="at least one step"):
        tuned_lens(trained(play, "pre_norm", steps=1), ids, steps=0)
