"""The registry, settings that come as strings, and results that survive JSON."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest

from minires.experiments import EXPERIMENTS, Result, get_experiment, load_result, register, run_experiment, save_result
from minires.experiments.result import plain
from minires.messages import DtypeError, FileProblem, UnknownName, ValueProblem

QUICK = {"layers": "5", "d": "6", "draws": "1"}


def test_an_unknown_experiment_is_told_the_closest_one():
    with pytest.raises(UnknownName, match="Did you mean 'gradient_table'"):
        run_experiment("gradient_tabel")


def test_an_unknown_setting_is_told_the_closest_one():
    with pytest.raises(UnknownName, match="Did you mean 'layers'"):
        run_experiment("jacobian_products", {"layer": "5"})


@pytest.mark.parametrize(
    ("name", "value"), [("layers", "many"), ("size", "0,1"), ("widths", "64,x"), ("layers", "2.5")]
)
def test_a_setting_of_the_wrong_type_says_what_type_it_is(name, value):
    experiment = get_experiment("gradient_table" if name == "widths" else "jacobian_products")
    with pytest.raises(ValueProblem, match="like its default"):
        experiment.parse({name: value})


def test_strings_become_the_type_of_the_default():
    parsed = get_experiment("gradient_table").parse(
        {"widths": "64, 128", "seeds": "(2,1)", "models": "encoder", "dtype": "float64", "blocks": "3"}
    )
    expected = dict(widths=(64, 128), seeds=(2, 1), models=("encoder",), dtype="float64", blocks=3)
    assert parsed == expected


def test_a_run_knows_all_its_settings_and_its_versions():
    result = run_experiment("jacobian_products", QUICK)
    assert result.settings == {"layers": 5, "d": 6, "size": 0.1, "draws": 1, "seed": 0}
    assert result.seed == 0 and result.name == "jacobian_products"
    assert result.versions["numpy"] == np.__version__


def test_the_same_seed_gives_the_same_data_and_another_does_not():
    first, again = run_experiment("jacobian_products", QUICK), run_experiment("jacobian_products", QUICK)
    assert first == again
    assert run_experiment("jacobian_products", QUICK | {"seed": "1"}).data != first.data


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_every_experiment_is_complete(name):
    experiment = get_experiment(name)
    module = experiment.load()
    assert name == module.NAME and experiment.title == module.TITLE
    assert callable(module.draw) and callable(module.caption)
    assert all(default is not None for default in experiment.settings.values())


def test_listing_and_running_import_no_matplotlib():
    code = (
        "import sys\n"
        "from minires.experiments import EXPERIMENTS, run_experiment\n"
        f"[e.settings for e in EXPERIMENTS.values()]; run_experiment('jacobian_products', {QUICK!r})\n"
        "assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_experiment_can_come_from_a_file_of_your_own(tmp_path, monkeypatch):
    (tmp_path / "my_own_experiment.py").write_text(
        "from minires.experiments import measured\nNAME = TITLE = 'my_own'\n"
        "@measured\ndef run(n: int = 2):\n    return {'rows': [{'n': n}]}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("minires.experiments.registry.EXPERIMENTS", {})
    register("my_own", "my_own", "my_own_experiment")
    assert run_experiment("my_own", {"n": "3"}).data == {"rows": [{"n": 3}]}
    with pytest.raises(ValueProblem, match="new"):
        register("my_own", "another", "another_module")


# -------------------------------------------------------------------------------------------------------- results


def sample():
    data = {"rows": [{"a": 1, "b": 0.1}, {"a": 2, "b": 1e-300}], "curve": [0.1, 2.0], "text": "ungerührt", "none": None}
    return Result("sample", {"seed": 3, "widths": [64, 512]}, data)


def test_json_and_back():
    assert Result.from_json(sample().to_json()) == sample()


def test_json_is_strict_even_with_infinities():
    result = Result("x", {}, {"values": [math.inf, -math.inf, math.nan, 1.0]})
    text = result.to_json()
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    values = Result.from_json(text).data["values"]
    assert values[:2] == [math.inf, -math.inf] and math.isnan(values[2]) and values[3] == 1.0


def test_json_keeps_every_bit():
    numbers = np.random.default_rng(0).standard_normal(200) * 10.0 ** np.arange(-100, 100)
    back = Result.from_json(Result("x", {}, plain({"n": numbers})).to_json())
    assert back.data["n"] == numbers.tolist()


def test_arrays_and_tuples_become_plain_and_other_things_are_refused():
    assert plain({"a": np.arange(3), "b": (np.float32(0.5), np.bool_(True))}) == {"a": [0, 1, 2], "b": [0.5, True]}
    with pytest.raises(DtypeError):
        plain({"rng": np.random.default_rng()})


@pytest.mark.parametrize("spoil", [lambda t: t[: len(t) // 2], lambda t: "", lambda t: "[1, 2]", lambda t: "{}"])
def test_a_cut_or_foreign_file_is_a_message(tmp_path, spoil):
    path = tmp_path / "r.json"
    save_result(sample(), path)
    path.write_text(spoil(path.read_text()))
    with pytest.raises(FileProblem, match=r"r\.json"):
        load_result(path)


def test_a_missing_file_and_a_missing_folder_are_messages(tmp_path):
    with pytest.raises(FileProblem):
        load_result(tmp_path / "none.json")
    with pytest.raises(FileProblem):
        save_result(sample(), tmp_path / "no" / "folder.json")
