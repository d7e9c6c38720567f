"""Experiments: each claim or figure is a function that measures it. Data first, drawing apart.

One file per experiment. It holds

    NAME, TITLE                        the registry line repeats them, so that a list needs no import
    run(**settings) -> Result          decorated with `measured`; every setting has a default; no drawing
    draw(result) -> matplotlib Figure  matplotlib is imported inside
    caption(result) -> str             what the picture shows, with numbers taken from the result
    RTOL, ATOL (optional)              how closely a second run must agree (1e-6, 1e-12)

and one line in `registry.py`. The command line, the figures, the lessons and the tests all call the same `run`.
"""

from minires.experiments.registry import EXPERIMENTS, Experiment, get_experiment, register, run_experiment
from minires.experiments.result import Result, load_result, measured, save_result

__all__ = [
    "EXPERIMENTS", "Experiment", "Result", "get_experiment", "load_result", "measured", "register", "run_experiment",
    "save_result",
]  # fmt: skip
