"""Figures: what is stale is made again, what is fresh is left alone, and a picture belongs to its data."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from minires.experiments import EXPERIMENTS, get_experiment, load_result
from minires.figures import MANIFEST, differences, files, hashes, make, pictures, read_manifest, save_picture, source_of
from minires.messages import FileProblem, UnknownName, ValueProblem

FILES, PNGS = ["toy.json", "toy.svg"], ["toy.png", "toy_dark.png"]
with_png = pytest.mark.parametrize("toy", [True], indirect=True)  # the toy has a PNG too


def one(toy, **options):
    (outcome,) = make(["toy"], folder=toy.folder, **options)
    return outcome


def stamps(toy):
    return {name: (toy.folder / name).stat().st_mtime_ns for name in FILES}


# ------------------------------------------------------------------------------------------------ what is stale


@with_png
def test_a_missing_figure_is_measured_and_drawn(toy):
    assert one(toy).status == "measured"
    assert sorted(p.name for p in toy.folder.iterdir()) == sorted([*FILES, *PNGS, MANIFEST])
    assert one(toy, check=True).ok


def test_a_fresh_figure_is_left_alone(toy):
    one(toy)
    before = stamps(toy)
    assert one(toy).status == "fresh"
    assert stamps(toy) == before


def test_a_change_of_the_measuring_code_measures_again(toy):
    one(toy)
    toy.edit("/ 3) ** 2", "/ 2) ** 2")
    assert one(toy, check=True).message == "measured by has changed"
    assert one(toy).status == "measured"
    assert load_result(toy.folder / "toy.json").data["curve"][-1] == 4.0


def test_a_change_of_a_default_measures_again(toy):
    one(toy)
    toy.edit("n: int = 5", "n: int = 6")
    assert one(toy).status == "measured"
    assert load_result(toy.folder / "toy.json").settings["n"] == 6


@pytest.mark.parametrize(("old", "new"), [('label="values"', 'label="squares"'), (":.2f}", ":.3f}")])
def test_a_change_of_the_drawing_code_only_draws_again(toy, old, new):
    one(toy)
    data = (toy.folder / "toy.json").stat().st_mtime_ns
    toy.edit(old, new)
    assert not one(toy, check=True).ok
    assert one(toy).status == "drawn"
    assert (toy.folder / "toy.json").stat().st_mtime_ns == data


def test_a_change_elsewhere_in_the_file_changes_nothing(toy):
    one(toy)
    toy.edit('NAME, TITLE = "toy"', "def unused():\n    return 1\n\n\nNAME, TITLE = \"toy\"")
    assert one(toy, check=True).ok
    assert one(toy).status == "fresh"


def test_the_style_belongs_to_the_drawing_code(toy, monkeypatch):
    one(toy)
    monkeypatch.setattr("minires.figures.resources.files", lambda package: Path(__file__).parent)
    assert one(toy, check=True).message == "drawn by has changed"


# -------------------------------------------------------------------------------------------- spoilt files


@with_png
@pytest.mark.parametrize("name", FILES + PNGS)
def test_a_missing_file_is_seen_and_repaired(toy, name):
    one(toy)
    (toy.folder / name).unlink()
    assert f"{name} is missing" in one(toy, check=True).message
    assert one(toy).status == ("measured" if name == "toy.json" else "drawn")
    assert one(toy, check=True).ok


@with_png
@pytest.mark.parametrize("name", FILES + PNGS)
def test_a_cut_file_is_seen_and_repaired(toy, name):
    one(toy)
    path = toy.folder / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert f"{name} has changed" in one(toy, check=True).message
    one(toy)
    assert one(toy, check=True).ok


def test_an_edited_number_is_seen(toy):
    one(toy)
    path = toy.folder / "toy.json"
    path.write_text(path.read_text().replace("1.7777", "1.8888"))
    assert not one(toy, check=True).ok


def test_a_picture_of_other_data_is_seen_even_if_the_manifest_says_otherwise(toy):
    one(toy)
    old = (toy.folder / "toy.svg").read_bytes()
    toy.edit("/ 3) ** 2", "/ 2) ** 2")
    one(toy)
    (toy.folder / "toy.svg").write_bytes(old)
    forged = {"toy": hashes(get_experiment("toy"), toy.folder)}
    (toy.folder / MANIFEST).write_text(json.dumps(forged))
    assert one(toy, check=True).message == "toy.svg was drawn from other data than toy.json"


def test_line_ends_of_a_checkout_do_not_count(toy):
    one(toy)
    for name in ("toy.json", "toy.svg"):
        path = toy.folder / name
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert one(toy, check=True).ok


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"toy": 3}'])
def test_a_spoilt_manifest_is_a_message(toy, text):
    one(toy)
    (toy.folder / MANIFEST).write_text(text)
    with pytest.raises(FileProblem, match="manifest"):
        one(toy, check=True)


def test_a_folder_that_is_a_file_is_a_message(toy, tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(FileProblem, match="taken"):
        make(["toy"], folder=tmp_path / "taken")


def test_names_are_checked(toy):
    with pytest.raises(UnknownName, match="Did you mean 'toy'"):
        make(["toys"], folder=toy.folder)


def test_only_experiments_with_a_figure_are_drawn(toy):
    from minires.experiments import register

    register("table", "no picture", "toy_experiment", figure=False)
    with pytest.raises(ValueProblem, match="minires run table"):
        make(["table"], folder=toy.folder)


# -------------------------------------------------------------------------------------------------- recompute


def test_recompute_agrees_and_writes_nothing(toy):
    one(toy)
    before = stamps(toy)
    assert one(toy, recompute=True).status == "agrees"
    assert stamps(toy) == before


def test_recompute_finds_a_number_that_does_not_come_out(toy):
    one(toy)
    path = toy.folder / "toy.json"
    path.write_text(path.read_text().replace("1.7777", "1.7778"))
    outcome = one(toy, recompute=True)
    assert outcome.status == "wrong" and "data.curve[4]" in outcome.message


def test_recompute_forgives_what_is_within_the_tolerance(toy):
    one(toy)
    path = toy.folder / "toy.json"
    path.write_text(path.read_text().replace("1.77777777", "1.77777771"))
    assert one(toy, recompute=True).ok


def test_recompute_without_data_says_so(toy):
    assert one(toy, recompute=True).message == "toy.json is missing"


def test_differences_are_found_wherever_they_are():
    old = {"a": [1.0, {"b": "x"}], "n": 3, "z": float("nan")}
    assert list(differences(old, old, 1e-6, 0)) == []
    assert list(differences(old, old | {"n": 4}, 1e-6, 0))
    assert list(differences(old, old | {"a": [1.0, {"b": "y"}]}, 1e-6, 0))
    assert list(differences(old, old | {"a": [1.0]}, 1e-6, 0))
    assert list(differences(old, {"a": old["a"]}, 1e-6, 0))
    assert list(differences([1.0], [float("nan")], 1e-6, 0)) and list(differences([float("nan")], [1.0], 1e-6, 0))
    assert list(differences([True], [False], 1e-6, 0))


# ----------------------------------------------------------------------------------------------- what is inside


@with_png
def test_svg_is_the_same_in_every_process(toy, tmp_path):
    one(toy)
    code = textwrap.dedent(f"""
        import sys; sys.path.insert(0, {str(tmp_path)!r})
        from minires.experiments import register
        from minires.figures import make
        register("toy", "A toy", "toy_experiment", png=True)
        make(["toy"], folder={str(tmp_path / "again")!r})
    """)
    for seed in ("1", "2"):
        subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONHASHSEED": seed})
        for name in [*FILES[1:], *PNGS]:
            assert (tmp_path / "again" / name).read_bytes() == (toy.folder / name).read_bytes(), name
            (tmp_path / "again" / name).unlink()


def test_svg_has_no_date_and_says_what_it_shows(toy):
    one(toy)
    text = (toy.folder / "toy.svg").read_text()
    ET.fromstring(text)
    assert "dc:date" not in text and "Matplotlib" not in text
    assert "<title>A toy</title>" in text and "The largest is 1.78." in text
    assert "prefers-color-scheme: dark" in text


def test_dark_rules_meet_the_colours_that_are_drawn(toy):
    one(toy)
    text = (toy.folder / "toy.svg").read_text()
    rules = re.search(r"<style>@media.*?</style>", text).group()
    body = text.replace(rules, "")
    for part, colour in re.findall(r'\[style\*="(\w+): (#\w+)"\]', rules):
        if (part, colour) != ("fill", "#0072b2") and colour != "#ffffff":  # no blue area here, and no box
            assert f"{part}: {colour}" in body, (part, colour)


@with_png
def test_pngs_are_opaque_light_and_dark(toy):
    import matplotlib.image as image

    one(toy)
    light, dark = (image.imread(toy.folder / name)[0, 0] for name in PNGS)
    assert light[:3].min() == 1 and dark[:3].max() < 0.1 and light[3] == dark[3] == 1


def test_drawing_leaves_matplotlib_as_it_was(toy):
    import matplotlib.pyplot as plt

    before, figures = dict(plt.rcParams), plt.get_fignums()
    one(toy)
    assert dict(plt.rcParams) == before and plt.get_fignums() == figures


def test_source_of_follows_names():
    source = "A = 1\nB = A + 1\ndef f():\n    return B\ndef g():\n    return f()\nC = 3\n"
    assert source_of(source, ["g"]) == "A = 1\nB = A + 1\ndef f():\n    return B\ndef g():\n    return f()\n"
    assert source_of(source, ["nothing"]) == ""


# ----------------------------------------------------------------------------------------------------- a kill


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize("victim", FILES)
def test_a_kill_in_the_middle_of_writing_leaves_the_old_file_whole(toy, tmp_path, victim):
    """A second process measures and draws again, and is killed when half of `victim` is written."""
    one(toy)
    old = {name: (toy.folder / name).read_bytes() for name in [*FILES, MANIFEST]}
    toy.edit("/ 3) ** 2", "/ 2) ** 2")
    code = textwrap.dedent(f"""
        import os, signal, sys; sys.path.insert(0, {str(tmp_path)!r})
        from pathlib import Path
        from minires.experiments import register
        import minires.figures as figures
        register("toy", "A toy", "toy_experiment")
        write, real = Path.write_bytes, figures.atomic_write
        def killed(path, raw):
            write(path, raw[: len(raw) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        def armed(path, data):
            Path.write_bytes = killed if path.name == {victim!r} else write
            real(path, data)
        figures.atomic_write = armed
        figures.make(["toy"], folder={str(toy.folder)!r})
    """)
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    later = [*FILES[FILES.index(victim) :], MANIFEST]
    assert all((toy.folder / name).read_bytes() == old[name] for name in later)
    assert not one(toy, check=True).ok
    one(toy)
    assert one(toy, check=True).ok


# ------------------------------------------------------------------------------------------ the committed ones

HERE = Path(__file__).resolve().parents[2] / "figures"


def test_committed_pictures_belong_to_their_data():
    assert [f"{o.name}: {o.message}" for o in make(check=True, folder=HERE) if not o.ok] == []


def test_nothing_else_lies_in_the_figures_folder():
    known = {name for e in EXPERIMENTS.values() if e.figure for name in files(e)} | {MANIFEST}
    assert {p.name for p in HERE.iterdir() if not p.name.startswith(".")} == known
    assert set(read_manifest(HERE)) == {name for name, e in EXPERIMENTS.items() if e.figure}


def test_checking_needs_no_matplotlib():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        f"from minires.figures import make; assert make(check=True, folder={str(HERE)!r})"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def words(svg):
    return set(re.findall(r"<text[^>]*>([^<]+)</text>", svg))


@pytest.mark.parametrize("name", sorted(name for name, e in EXPERIMENTS.items() if e.figure))
def test_every_figure_draws_from_its_committed_data(name):
    """The text of the picture is compared, not its bytes: those differ between versions of matplotlib."""
    experiment = get_experiment(name)
    result = load_result(HERE / f"{name}.json")
    _, svg = next(pictures(experiment, result, "x"))
    kept = (HERE / f"{name}.svg").read_text(encoding="utf-8")
    assert words(svg.decode()) == words(kept)
    assert experiment.caption(result)


# ------------------------------------------------------------------------------------- a picture of one's own


@pytest.mark.parametrize(("suffix", "starts"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_a_result_can_be_drawn_into_any_file(toy, tmp_path, suffix, starts):
    experiment = get_experiment("toy")
    save_picture(experiment, experiment.run(), tmp_path / f"own.{suffix}")
    assert (tmp_path / f"own.{suffix}").read_bytes().startswith(starts)


def test_a_suffix_that_cannot_be_drawn_is_refused(toy, tmp_path):
    experiment = get_experiment("toy")
    with pytest.raises(ValueProblem, match=r"\.svg"):
        save_picture(experiment, experiment.run(), tmp_path / "own.docx")
    assert not (tmp_path / "own.docx").exists()
