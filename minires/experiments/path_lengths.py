"""Which of the 2^K paths through a Transformer the gradient takes: its exact split by the number of branches passed.

Of all paths most are about K/2 branches long. The gradient does not follow the paths' number: each branch passes on
only part of it, so short paths carry more than their share. How much more depends on the rule.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minires.data import CharCorpus, hamlet
from minires.experiments.result import Result, measured
from minires.messages import ValueProblem
from minires.models import get_recipe
from minires.probes.paths import Paths, path_gradients
from minires.ui import progress

NAME = "path_lengths"
TITLE = "How long the paths are that a gradient takes through a Transformer, rule by rule"
RTOL = 1e-5


@measured
def run(
    recipes: tuple = ("pre_norm", "post_norm", "deepnorm", "layernorm_scaling"), blocks: int = 12, d: int = 32,
    heads: int = 4, length: int = 16, batch: int = 2, seed: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """At initialisation, on the shipped play, float64; two sublayers per block, every sublayer counts as one branch."""
    if not recipes or min(blocks, d, length, batch) < 1:
        given = f"recipes={recipes}, blocks={blocks}, d={d}, length={length}, batch={batch}"
        raise ValueProblem("there must be a recipe, and every size must be at least 1", given, "Try blocks=6.")
    corpus = CharCorpus(hamlet())
    ids, targets = corpus.batch(np.random.default_rng(seed), batch, length)
    studies = []
    for name in progress(list(recipes), "rules"):
        model = get_recipe(name).build(
            len(corpus.vocab), blocks, ids=ids, d=d, heads=heads, context=length, rng=seed, dtype=np.float64
        )
        found = path_gradients(model, ids, targets)
        studies.append({"recipe": name, "shares": found.shares, "norms": found.norms, "total": found.total})
    return {"counts": found.counts, "studies": studies, "rows": [_row(s, found) for s in studies]}


def _row(study: dict[str, Any], like: Paths) -> dict[str, Any]:
    """Mean length of the gradient's paths, and how many paths are as short as those that carry 95 % of it."""
    shares = study["shares"]
    reach = int(np.argmax(np.cumsum(shares) >= 0.95))
    return {
        "recipe": study["recipe"],
        "mean length of the gradient": float(shares @ np.arange(len(shares))),
        "mean length of all paths": (len(shares) - 1) / 2,
        "95 % of the gradient within": reach,
        "share of all paths within": float(np.cumsum(like.counts)[reach]),
    }


def caption(result: Result) -> str:
    """Where the gradient runs."""
    K = 2 * result.settings["blocks"]
    each = "; ".join(
        f"{r['recipe']}: mean {r['mean length of the gradient']:.2g}, 95 % within "
        f"{r['95 % of the gradient within']} branches ({r['share of all paths within']:.2g} of all paths)"
        for r in result.data["rows"]
    )
    return (
        f"‖part of ∂L/∂x_0 that passed exactly k branches‖², as a share of all, at initialisation ({K} sublayers, d = "
        f"{result.settings['d']}, text). Half of the 2^{K} paths are longer than {K // 2}. The gradient's: {each}."
    )


def draw(result: Result) -> Any:
    """One histogram per rule beside the number of paths."""
    import matplotlib.pyplot as plt

    from minires.style import CYCLE, INK

    studies, counts = result.data["studies"], result.data["counts"]
    figure, grid = plt.subplots(1, len(studies), figsize=(2.7 * len(studies) + 0.6, 3.4), sharey=True, squeeze=False)
    for axes, colour, study in zip(grid[0], CYCLE * 4, studies):
        axes.bar(range(len(counts)), study["shares"], color=colour, width=0.8, label="the gradient")
        axes.plot(counts, color=INK, marker=".", ms=3, lw=1, label="number of paths")
        axes.set(xlabel="branches on the path", title=study["recipe"])
    grid[0][0].set_ylabel("share of all")
    grid[0][0].legend(loc="upper right")
    return figure
