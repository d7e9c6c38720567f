"""How exact the vectorised exp of the kernels is, over its whole range, beside NumPy's.

Errors are in ulp, the gap between neighbouring numbers of the format at the true value: rounding the true value to the
nearest number already costs up to half of one. The true value is computed in the next wider format.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minires.experiments.result import Result, measured
from minires.messages import UnknownName, ValueProblem

NAME = "exp_error"
TITLE = "The error of the vectorised exp over its whole range, beside NumPy's"
RTOL, ATOL = 0.05, 0.5  # the last bit depends on whether the processor fuses multiply and add

FUNCTIONS, DTYPES = ("exp", "sigmoid", "tanh"), ("float32", "float64")


@measured
def run(
    functions: tuple = ("exp",), dtypes: tuple = DTYPES, n: int = 1_000_000, bins: int = 200, seed: int = 0
) -> dict[str, Any]:
    """The worst error in each part of the range of arguments whose results are normal numbers.

    functions: exp, sigmoid, tanh. n: random arguments, half of them even over the range, half close to 0. bins: parts.
    """
    from minires.kernels.exp_error import measure_exp_error, worst

    for what, names, known in (("function", functions, FUNCTIONS), ("dtype", dtypes, DTYPES)):
        for name in names:
            if name not in known:
                raise UnknownName(what, name, known)
    if min(n, bins) < 2:
        raise ValueProblem("n and bins must be at least 2", f"n={n}, bins={bins}", "Try n=100000.")
    studies = []
    for function, dtype in ((f, t) for f in functions for t in dtypes):
        found = measure_exp_error(dtype, n, seed, function)
        middles, ours = worst(found["x"], found["ours"], bins)
        study = {"function": function, "dtype": dtype, "x": middles, "ours": ours}
        studies.append(study | {"numpy": worst(found["x"], found["numpy"], bins)[1], "row": _row(found)})
    return {"rows": [study.pop("row") for study in studies], "studies": studies}


def _row(found: dict[str, Any]) -> dict[str, Any]:
    """The extremes, and how often the result is the nearest number there is."""
    share = {f"{who} nearest": float(np.mean(found[who] <= 0.5)) for who in ("ours", "numpy")}
    largest = {f"{who} worst (ulp)": float(found[who].max()) for who in ("ours", "numpy")}
    where = float(found["x"][found["ours"].argmax()])
    return {"function": found["function"], "dtype": found["dtype"], **largest, "ours worst at": where, **share}


def caption(result: Result) -> str:
    """The worst errors in words."""
    each = "; ".join(
        f"{row['function']} in {row['dtype']}: {row['ours worst (ulp)']:.2f} ulp, NumPy {row['numpy worst (ulp)']:.2f}"
        for row in result.data["rows"]
    )
    return (
        f"The largest error in each of {result.settings['bins']} equal parts of the range ({result.settings['n']:,} "
        f"random arguments, half of them close to 0). Worst of all: {each}. Dotted: half an ulp, what rounding alone "
        f"costs."
    )


def draw(result: Result) -> Any:
    """One panel per function and format: the worst error along the range."""
    import matplotlib.pyplot as plt

    from minires.style import BLUE, INK, ORANGE

    studies = result.data["studies"]
    figure, grid = plt.subplots(len(studies), 1, figsize=(8, 2.5 * len(studies) + 0.3), squeeze=False)
    for axes, study in zip(grid[:, 0], studies):
        axes.plot(study["x"], study["numpy"], color=ORANGE, lw=1.1, ls="--", label="NumPy")
        axes.plot(study["x"], study["ours"], color=BLUE, lw=1.1, label="ours")
        axes.axhline(0.5, color=INK, lw=0.8, ls=":")
        top = 1.35 * max(max(study["ours"]), max(study["numpy"]))
        axes.set(ylabel="worst error (ulp)", ylim=(0, top), title=f"{study['function']}, {study['dtype']}")
        axes.legend(loc="upper right", ncols=2)
    grid[-1, 0].set_xlabel("x")
    return figure
