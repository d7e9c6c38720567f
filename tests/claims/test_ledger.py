"""The ledger is complete, its kept numbers give the verdicts it states, and no rule says the same of any number."""

import inspect
import json
import re
from contextlib import suppress

import pytest

from minires.claims import CLAIMS, Claim, Measurement, Rule, from_json, get_claims, kept, ledger, outcome, to_json
from minires.claims.ledger import COND, CONTRADICTS, HOLDS, OPEN, add
from minires.messages import FileProblem, UnknownName, ValueProblem

MEASURED = [claim for claim in CLAIMS.values() if claim.measure]


def test_every_claim_has_a_row():
    numbers = {int(re.fullmatch(r"C(\d+)[a-f]?", name)[1]) for name in CLAIMS}
    assert numbers == set(range(1, 110))
    for number in numbers:  # bundled claims are split from a on, without gaps
        letters = [name[-1] for name in CLAIMS if re.fullmatch(rf"C{number:02d}[a-f]", name)]
        assert letters == sorted(letters) and (not letters or (letters[0] == "a" and len(letters) > 1))
        assert letters == [chr(ord("a") + i) for i in range(len(letters))]


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS.keys())
def test_a_row_says_what_and_why(claim):
    assert claim.claim.endswith(".") and claim.finding.endswith(".") and claim.section
    for text in (claim.claim_zh, claim.finding_zh, claim.plan_zh or "空"):
        assert re.search("[\u4e00-\u9fff]", text), "in Chinese too"
    assert claim.finding_zh.endswith("。") and bool(claim.plan) == bool(claim.plan_zh)
    assert claim.source or claim.measure or claim.plan
    assert claim.expected != OPEN or claim.plan.endswith("."), "an open row names its experiment"
    assert claim.plan == "" or claim.measure is None
    article = {"A0": range(1, 50), "A1": range(50, 64), "A2": range(64, 110)}[claim.article]
    assert int(re.match(r"C(\d+)", claim.id)[1]) in article


@pytest.mark.parametrize("claim", MEASURED, ids=lambda claim: claim.id)
def test_kept_numbers_give_the_expected_verdict(claim):
    row = outcome(claim, kept())
    assert row["verdict"] == row["expected"], row["measured"]
    assert row["measured"] and not re.search(r"\bnan\b|\binf\b|[{}]", row["measured"])


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS.keys())
def test_both_languages_show_the_same_numbers(claim):
    """What is measured comes from the same fields; what is typed, from the source, is the same in both."""
    assert sorted(set(re.findall("{.*?}", claim.tell))) == sorted(set(re.findall("{.*?}", claim.tell_zh)))
    assert numbers_in(claim.finding) == numbers_in(claim.finding_zh)
    assert numbers_in(claim.plan) == numbers_in(claim.plan_zh)


def numbers_in(text):
    """Decimals and whole numbers of two digits or more, without the ids of claims; "one" may be 一 or 1."""
    return {n for n in re.findall(r"\d+(?:\.\d+)?", re.sub(r"\b[CA]\d+[a-f]?", "", text)) if len(n) > 1}


def test_kept_numbers_come_from_the_measurements_as_they_are_now():
    functions = {claim.measure.__name__: claim.measure for claim in MEASURED}
    assert set(kept()) == set(functions)
    for name, function in functions.items():
        defaults = {key: p.default for key, p in inspect.signature(function).parameters.items()}
        assert kept()[name].settings == json.loads(json.dumps(defaults)), f"measure {name} again"


def variants(value):
    """Other numbers in the place of one."""
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, int | float):
        return [0.0, 0.5, 1.0, -1e9, 1e9, value / 100, value * 30, value * 100, value + 3]
    return [[], list(range(len(value)))] if isinstance(value, list) else []


@pytest.mark.parametrize("claim", MEASURED, ids=lambda claim: claim.id)
def test_other_numbers_would_give_another_verdict(claim):
    """Or the measurement would be decoration."""
    numbers, seen = kept()[claim.measure.__name__].numbers, set()
    for name, value in numbers.items():
        for other in variants(value):
            with suppress(IndexError, TypeError, ZeroDivisionError):  # a list too short, a share of nothing
                seen.add(claim.rule(numbers | {name: other}))
    assert seen - {claim.expected}


def test_the_rule():
    rule = Rule(lambda m: m.x > 0, lambda m: m.y > 0)
    found = [rule({"x": x, "y": y}) for x, y in ((1, 0), (1, 1), (0, 0), (0, 1))]
    assert found == [HOLDS, COND, CONTRADICTS, CONTRADICTS]
    assert Rule(lambda m: m.x > 0)({"x": 1}) == HOLDS


def test_ids():
    assert [claim.id for claim in get_claims(["c59"])] == ["C59a", "C59b", "C59c"]
    assert [claim.id for claim in get_claims(["C59b", "C01", "C59"])] == ["C59b", "C01", "C59a", "C59c"]
    assert len(get_claims()) == len(CLAIMS)
    with pytest.raises(UnknownName, match="C109"):
        get_claims(["C110"])


def test_rows_that_are_refused():
    fields = dict(article="A0", section="1", claim="x.", claim_zh="x", finding="y.", finding_zh="y")
    rule = Rule(lambda m: True)
    for bad in (
        Claim("C01", expected=HOLDS, source="s", **fields),  # taken
        Claim("C999", expected="TRUE", source="s", **fields),  # no such verdict
        Claim("C999", expected=HOLDS, **fields),  # no grounds
        Claim("C999", expected=HOLDS, measure=ledger.kept, tell="t", tell_zh="t", **fields),  # without a rule
        Claim("C999", expected=HOLDS, source="s", rule=rule, tell="t", tell_zh="t", **fields),  # without a measurement
        Claim("C999", expected=HOLDS, measure=ledger.kept, rule=rule, tell="t", **fields),  # without words in Chinese
    ):
        with pytest.raises(ValueProblem):
            add(bad)
    assert "C999" not in CLAIMS


def test_results_survive_json_and_damage_is_named():
    found = {"a": Measurement("a", {"seed": 1}, {"x": 0.1, "y": [1, 2]}, 0.5, {"numpy": "2"})}
    assert from_json(to_json(found)) == found
    for damaged in ("", "[{}]", "{", '[{"name": "a"}]', "[1]"):
        with pytest.raises(FileProblem):
            from_json(damaged)
    with pytest.raises(FileProblem, match="C92"):
        outcome(CLAIMS["C92"], {})
