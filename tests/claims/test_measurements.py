"""Measured again at small size, every verdict comes out as stated; and a wrong library would be noticed."""

import pytest

from minires.claims import CLAIMS, kept, perform_all, streams
from minires.claims.ledger import CONTRADICTS, HOLDS, perform
from minires.commands.setup import machine

MEASURED = [claim for claim in CLAIMS.values() if claim.measure]
QUICK = [claim for claim in MEASURED if not claim.measure.trains]
TRAINED = [claim for claim in MEASURED if claim.measure.trains]


@pytest.fixture(scope="module")
def fast():
    return perform_all(QUICK, fast=True, progress=False)


@pytest.mark.slow
@pytest.mark.parametrize("claim", QUICK, ids=lambda claim: claim.id)
def test_a_quick_look_agrees(claim, fast):
    assert claim.rule(fast[claim.measure.__name__].numbers) == claim.expected


CHEAP = sorted({c.measure.__name__: c.measure for c in QUICK if kept()[c.measure.__name__].seconds < 1}.items())


@pytest.mark.parametrize("name, measure", CHEAP, ids=[name for name, _ in CHEAP])
def test_kept_numbers_are_what_the_library_gives_today(name, measure):
    """At full size. Rounding differs from machine to machine, so what is zero but for rounding only has to stay so."""
    with machine("numpy", 1):
        now = perform(measure).numbers
    assert same(now, kept()[name].numbers)


def same(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b if isinstance(a, str) else a == pytest.approx(b, rel=1e-5, abs=1e-11)


@pytest.mark.science
@pytest.mark.parametrize("small", [True, False], ids=["fast", "full"])
def test_what_trains_agrees(small):
    found = perform_all(TRAINED, fast=small, progress=False)
    wrong = [c.id for c in TRAINED if c.rule(found[c.measure.__name__].numbers) != c.expected]
    assert not wrong


def test_one_measurement_serves_several_rows():
    assert list(perform_all([CLAIMS["C01"], CLAIMS["C02"], CLAIMS["C04b"]], progress=False)) == ["powers"]


def verdict(id):
    claim = CLAIMS[id]
    with machine("numpy", 1):
        return claim.rule(perform(claim.measure, fast=True).numbers)


def test_the_articles_alpha_would_be_noticed(monkeypatch):
    import minires.residual.deepnorm as deepnorm

    monkeypatch.setattr(deepnorm, "deepnorm_constants", lambda encoder=0, decoder=0: {
        "encoder": ((41 * (encoder or 1)) ** 0.5, 0.1), "decoder": ((41 * (decoder or 1)) ** 0.5, 0.1)})
    assert verdict("C92") == HOLDS != CLAIMS["C92"].expected


def test_an_alpha_that_does_not_start_at_zero_would_be_noticed(monkeypatch):
    from minires.residual import CONNECTIONS

    rule = CONNECTIONS["rezero"]

    def started(self, *args):
        plain(self, *args)
        for p in self.parameters():
            p.data[...] = 0.1

    plain = rule.__init__
    monkeypatch.setattr(rule, "__init__", started)
    assert verdict("C29") == CONTRADICTS


def test_a_norm_on_the_skip_path_would_be_noticed(monkeypatch):
    from minires.residual import CONNECTIONS

    post = CONNECTIONS["post_norm"]
    monkeypatch.setitem(CONNECTIONS, "pre_norm", post)
    assert verdict("C52a") == CONTRADICTS and verdict("C57") == CONTRADICTS and verdict("C75") == HOLDS


def test_sinkhorn_that_stops_early_would_be_noticed(monkeypatch):
    good = streams.sinkhorn_forward
    monkeypatch.setattr(streams, "sinkhorn_forward", lambda a, steps: (good(a, 1)[0].swapaxes(-1, -2), None))
    assert verdict("C59a") == CONTRADICTS
