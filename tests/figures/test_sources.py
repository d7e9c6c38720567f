"""The stamp of a figure notices every module that its numbers come from, and no prose."""

from pathlib import Path

import pytest

from minires import sources
from minires.experiments import get_experiment
from minires.figures import hashes, inputs, make, read_manifest
from minires.sources import code_of, imported_code, modules

FILES = {
    "probes/__init__.py": "from minires.probes.one import first\nfrom minires.probes.two import second\n",
    "probes/one.py": "from minires.nn import layer\nfrom minires.messages import Problem\n\nfirst = layer, Problem\n",
    "probes/two.py": "def second():\n    return 2\n",
    "nn/__init__.py": "from minires.nn.layers import layer as layer\n",
    "nn/layers.py": "from minires import ops\nlayer = ops\n",
    "ops/__init__.py": "from minires.ops.sinkhorn import sinkhorn\n",
    "ops/sinkhorn.py": "sinkhorn = 1\n",
    "residual/__init__.py": "from minires.residual import mhc\nfrom minires.residual.connection import get, register\n",
    "residual/connection.py": "def get():\n    pass\n\n\ndef register():\n    pass\n",
    "residual/mhc.py": "from minires.ops import sinkhorn\n",
    "messages.py": "class Problem(Exception):\n    pass\n",
}  # fmt: skip


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A small package in the place of ours."""
    for name, text in FILES.items():
        path = tmp_path / "minires" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(sources, "PACKAGE", tmp_path / "minires")
    sources._imports.cache_clear()
    yield tmp_path / "minires"
    sources._imports.cache_clear()


def names(source):
    return [path.relative_to(sources.PACKAGE).as_posix() for path in modules(source)]


@pytest.mark.parametrize(("source", "found"), [
    ("from minires.probes import first", ["nn/layers.py", "probes/one.py"]),
    ("def run():\n    from minires.probes.two import second", ["probes/two.py"]),
    ("import minires.probes.two as two", ["probes/two.py"]),
    ("from minires.ops.sinkhorn import sinkhorn", ["ops/sinkhorn.py"]),
    ("from minires.residual import get", ["residual/__init__.py", "residual/connection.py", "residual/mhc.py"]),
    ("import numpy\nfrom minires import messages", []),
])  # fmt: skip
def test_names_are_followed_to_the_files_that_define_them(package, source, found):
    assert names(source) == found


def test_code_counts_and_prose_does_not(package):
    source, path = "from minires.probes import first", package / "nn" / "layers.py"
    before = imported_code(source)
    path.write_text('"""A layer."""\n\n# why\n' + path.read_text() + "\n\n")
    assert imported_code(source) == before
    path.write_text("layer = 2\n")
    assert imported_code(source) != before


def test_code_without_prose_is_still_the_code():
    source = 'def f():\n    """Doc\n    of f.\n    """\n    # why\n\n    return "a"  # text\n\n\ndef g(): "doc"\n'
    assert code_of(source) == 'def f():\n    return "a"  # text\ndef g(): "doc"\n'


def test_a_figure_knows_its_instrument_and_the_rules_but_not_other_instruments():
    file = Path(str(get_experiment("path_lengths").load().__file__))
    found = set(names(file.read_text(encoding="utf-8")))
    assert {"probes/paths.py", "residual/mhc.py", "nn/sublayers.py", "models/recipes.py"} <= found
    assert not {"probes/heads.py", "tensor.py", "messages.py", "models/notes.py"} & found


def test_a_changed_instrument_is_seen_and_the_data_stay_if_the_numbers_do(toy, package):
    def one(**options):
        return make(["toy"], folder=toy.folder, **options)[0]

    toy.edit("import numpy as np", "import numpy as np\n\ndef later():\n    from minires.probes import second")
    assert "probes/two.py" in names(toy.file.read_text()) and one().status == "measured"
    files = {path: path.stat().st_mtime_ns for path in toy.folder.iterdir()}
    (package / "probes" / "two.py").write_text("def second():\n    return 1 + 1\n")
    assert one(check=True).message == "measured with has changed"
    assert one().status == "agrees" and one(check=True).ok and one().status == "fresh"
    changed = [path.name for path in files if path.stat().st_mtime_ns != files[path]]
    assert changed == ["manifest.json"]
    assert read_manifest(toy.folder)["toy"] == hashes(get_experiment("toy"), toy.folder)


def test_a_file_that_a_default_names_belongs_to_the_stamp(toy, tmp_path, monkeypatch):
    monkeypatch.setattr("minires.figures.PACKAGE", tmp_path / "minires")
    (tmp_path / "speeds.json").write_text("[1]")
    toy.edit("seed: int = 0", 'seed: int = 0, speeds: str = "speeds.json", note: str = ""')
    make(["toy"], folder=toy.folder)
    assert make(["toy"], folder=toy.folder, check=True)[0].ok and inputs(get_experiment("toy")) == ["[1]"]
    (tmp_path / "speeds.json").write_text("[2]")
    assert make(["toy"], folder=toy.folder, check=True)[0].message == "measured with has changed"


def test_the_roofline_belongs_to_its_bench_result():
    assert len(inputs(get_experiment("roofline"))) == 1
