"""A toy experiment in a file of its own, and a folder for its figure."""

import sys
from pathlib import Path

import pytest

from minires.experiments import register

TOY = '''
import numpy as np

from minires.experiments import measured

NAME, TITLE = "toy", "A toy"
RTOL = 1e-6


def square(n):
    return (np.arange(n) / 3) ** 2


@measured
def run(n: int = 5, seed: int = 0):
    return {"rows": [{"n": n}], "curve": square(n)}


def caption(result):
    return f"The largest is {result.data['curve'][-1]:.2f}."


def line(axes, values):
    axes.plot(values, label="values")


def draw(result):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(2, 2))
    line(axes, result.data["curve"])
    axes.set(xlabel="n", ylabel="square")
    return figure
'''


class Toy:
    """The module's file, so that a test can edit it, and the folder with the figure."""

    def __init__(self, file: Path, folder: Path):
        self.file, self.folder = file, folder

    def edit(self, old: str, new: str) -> None:
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new))
        sys.modules.pop("toy_experiment", None)


@pytest.fixture(params=[False])
def toy(request, tmp_path, monkeypatch):
    file = tmp_path / "toy_experiment.py"
    file.write_text(TOY)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # an edit within the same second must be seen
    monkeypatch.setattr("minires.experiments.registry.EXPERIMENTS", {})
    monkeypatch.setattr("minires.figures.EXPERIMENTS", {})
    experiment = register("toy", "A toy", "toy_experiment", png=request.param)
    sys.modules["minires.figures"].EXPERIMENTS["toy"] = experiment
    yield Toy(file, tmp_path / "figures")
    sys.modules.pop("toy_experiment", None)
