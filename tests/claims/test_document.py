"""The documents are what the ledger says now, and every command in them exists."""

import json
import re
import shlex
from pathlib import Path

import pytest

from minires.claims import CLAIMS, Measurement, get_claims, kept
from minires.claims import ledger as book
from minires.claims.document import TWELVE, document
from minires.claims.sections import PLACES, SECTIONS
from minires.cli import main, parse

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name, language", [("claims.md", "en"), ("claims.zh.md", "zh")])
def test_the_documents_are_up_to_date(name, language):
    assert (ROOT / "docs" / name).read_text("utf-8") == document(language), "run: minires claims --write-docs"


def test_the_twelve_come_first_and_exist():
    assert len(TWELVE) == 12 and all(i in CLAIMS for group in TWELVE for i in group)
    for language in ("en", "zh"):
        text = document(language)
        assert text.index("C105b") < text.index("C01")
        assert all(f"C{n:02d}" in text for n in range(1, 110))


COMMANDS = [(section.article, command) for section in SECTIONS for command in section.commands]


@pytest.mark.parametrize("article, command", COMMANDS, ids=[command for _, command in COMMANDS])
def test_a_command_of_the_map_exists(article, command):
    program, *words = shlex.split(command)
    if program == "python":
        assert (ROOT / words[0]).is_file()
        return
    args = parse(words)
    if args.command == "claims":
        assert {claim.article for claim in get_claims(args.ids)} == {article}
    elif args.command == "run":
        from minires.experiments import get_experiment

        get_experiment(args.name)
    else:
        from minires.models import get_recipe

        assert [get_recipe(name) for name in args.names]


def test_a_planned_experiment_can_be_started():
    planned = [(text, command) for claim in CLAIMS.values() for text in (claim.plan, claim.plan_zh) if text
               for command in re.findall("`minires (.*?)`", text)]  # fmt: skip
    assert {text for text, _ in planned} == {t for c in CLAIMS.values() for t in (c.plan, c.plan_zh) if t}
    for _, command in planned:
        assert parse(shlex.split(command)).command


def test_every_claim_is_in_the_map():
    mapped = {claim.id for section in SECTIONS if section.ids for claim in get_claims(section.ids.split())}
    assert mapped == set(CLAIMS)


def test_a_section_has_something_to_run_or_says_why_not():
    for section in SECTIONS:
        assert bool(section.commands) != bool(all(section.why)), section.name
    for text in map(document, ("en", "zh")):
        assert all(f"`{command}`" in text for _, command in COMMANDS)


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS.keys())
def test_a_place_in_an_article_has_a_chinese_name(claim):
    assert claim.section in PLACES or claim.article == "A0"


def test_the_chinese_page_has_every_row_with_its_finding_and_no_english_words():
    text = document("zh")
    assert all(claim.finding_zh in text and f"**{claim.id}**" in text for claim in CLAIMS.values())
    for english in ("Measured:", "Settings:", "Source:", "Planned:", "HOLDS. "):
        assert english not in text


def test_the_command_tells_one_claim_in_full(capsys):
    assert main(["claims", "C92"]) == 0
    told = capsys.readouterr().out
    assert "6.69" in told and "CONTRADICTS" in told and "2203.00555" in told and "deepnorm_alpha" in told


def test_the_command_lists_all_and_writes_json(capsys, tmp_path):
    assert main(["claims", "--json", str(tmp_path / "all.json")]) == 0
    rows = json.loads((tmp_path / "all.json").read_text("utf-8"))
    assert len(rows) == len(CLAIMS)
    wanted = {"id", "claim", "claim_zh", "article", "section"}
    wanted |= {"measured", "settings", "seed", "verdict", "seconds", "source"}
    assert all(wanted <= set(row) for row in rows)
    assert re.search(r"\d+ HOLDS", capsys.readouterr().out)


def test_measuring_again_shows_new_numbers_and_keeps_nothing(capsys):
    path = Path(book.__file__).with_name(book.KEPT)
    before = path.read_bytes()
    assert main(["claims", "C92", "C29", "--recompute"]) == 0
    assert main(["claims", "C92", "--fast", "--json", "-"]) == 0
    out = capsys.readouterr().out
    assert '"verdict": "CONTRADICTS"' in out and path.read_bytes() == before


@pytest.mark.parametrize("words", [["--keep"], ["C92", "--keep"], ["C92", "--fast", "--keep"]])
def test_keeping_what_was_not_measured_at_full_size_is_refused(words, capsys):
    assert main(["claims", *words]) == 2
    assert "--recompute --keep" in capsys.readouterr().err


def test_a_measurement_that_disagrees_is_an_error(capsys, monkeypatch):
    wrong = Measurement("deepnorm_alpha", {"blocks": 1000}, kept()["deepnorm_alpha"].numbers | {"alpha": 202.0}, 0.1)
    changed = kept() | {"deepnorm_alpha": wrong}
    monkeypatch.setattr(book, "kept", lambda: changed)
    assert main(["claims", "C92"]) == 1
    assert "the ledger expects CONTRADICTS" in capsys.readouterr().out


def test_documents_go_where_they_are_told(tmp_path, capsys):
    assert main(["claims", "--write-docs", str(tmp_path)]) == 0
    assert (tmp_path / "claims.md").read_text("utf-8") == document()
