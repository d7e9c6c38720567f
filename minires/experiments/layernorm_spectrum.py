"""What LayerNorm does to a gradient that passes through it: its Jacobian's spectrum, alone and 24 times in a row.

    J_LN = r (I - 11ᵀ/d - x̂x̂ᵀ/d) with γ = 1, r = 1/√(σ² + eps): eigenvalues 0, 0 and (d - 2 times) r

In a Post-Norm layer x' = LN(x + F(x)) the norm divides by the size of the sum. If the stream has size 1 and the
branch is an independent vector of size s, then r = 1/√(1 + s²). Along the skip alone L layers multiply a gradient by
about (1 + s²)^(-L/2). The branch adds its own share: for independent zero-mean J_F of that size the two together give
about 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minires.experiments.result import Result, measured
from minires.messages import ValueProblem
from minires.nn import layernorm_jacobian
from minires.ops.norms import layernorm_backward, layernorm_forward

NAME = "layernorm_spectrum"
TITLE = "The Jacobian of LayerNorm: its spectrum, and what a stack of Post-Norm layers does to a gradient"
EPS = 1e-5


def spectrum(s: float, d: int, rng: np.random.Generator) -> np.ndarray:
    """Eigenvalues of J_LN (γ = 1), ascending, at x + F with x of size 1 and F of size s."""
    x = layernorm_forward(rng.standard_normal(d))[0]
    return np.linalg.eigvalsh(layernorm_jacobian(x + s * rng.standard_normal(d), eps=EPS))


def post_norm_stack(s: float, layers: int, d: int, rows: int, rng: np.random.Generator) -> dict[str, Any]:
    """Forward through x ← LN(x + x W), W with entries of variance s²/d, and back with a random gradient.

    Returns the gradient's size after each layer on the way back, along the skip alone and in all, and ∏ r.
    """
    x, tape = layernorm_forward(rng.standard_normal((rows, d)))[0], []
    for _ in range(layers):
        W = s / np.sqrt(d) * rng.standard_normal((d, d))
        x, saved = layernorm_forward(x + x @ W, eps=EPS)
        tape.append((W, saved))
    start = skip = total = rng.standard_normal((rows, d))
    product, sizes = np.ones((rows, 1)), {"skip": [1.0], "total": [1.0], "product_of_r": [1.0]}
    for W, saved in reversed(tape):
        skip, back = layernorm_backward(skip, saved)[0], layernorm_backward(total, saved)[0]
        total, product = back + back @ W.T, product * saved[1]
        sizes["skip"].append(float(np.linalg.norm(skip) / np.linalg.norm(start)))
        sizes["total"].append(float(np.linalg.norm(total) / np.linalg.norm(start)))
        sizes["product_of_r"].append(float(np.sqrt(np.mean(product**2))))
    return sizes


@measured
def run(
    d: int = 512, layers: int = 24, sizes: tuple = (0.1, 0.5, 1.0), spectrum_d: int = 64, rows: int = 64, seed: int = 0
) -> dict[str, Any]:
    """The spectrum at one row for each branch size, and gradients through a stack of Post-Norm layers.

    d, rows: width and number of independent rows of the stack. layers: sublayers. sizes: s, the branch's size beside
    the stream's. spectrum_d: width for the spectrum.
    """
    if min(d, layers, rows) < 1 or spectrum_d < 3 or not sizes or min(sizes) < 0:
        given = f"d={d}, layers={layers}, rows={rows}, spectrum_d={spectrum_d}, sizes={sizes}"
        raise ValueProblem(
            "d, layers and rows must be at least 1, spectrum_d at least 3, sizes 0 or more", given, "Try sizes=0.5,1."
        )
    found = []
    for s in sizes:
        stack = post_norm_stack(s, layers, d, rows, np.random.default_rng([seed, 1]))
        values = spectrum(s, spectrum_d, np.random.default_rng([seed, 2]))
        found.append({"size": s, "eigenvalues": values, "law": (1 + s * s) ** -0.5, **stack})
    return {"studies": found, "rows": [summary(f, layers) for f in found]}


def summary(found: dict[str, Any], layers: int) -> dict[str, float]:
    """One row per branch size."""
    return {
        "size": found["size"],
        "zero_eigenvalues": int(np.sum(np.abs(found["eigenvalues"]) < 1e-4)),
        "other_eigenvalues": float(np.mean(found["eigenvalues"][2:])),
        "law_eigenvalue": found["law"],
        "skip_gain": found["skip"][-1],
        "product_of_r": found["product_of_r"][-1],
        "law_skip_gain": found["law"] ** layers,
        "total_gain": found["total"][-1],
    }


def caption(result: Result) -> str:
    """The claim in numbers."""
    s, rows = result.settings, result.data["rows"]
    each = "; ".join(f"s = {r['size']:g}: skip {r['skip_gain']:.2g}, all {r['total_gain']:.2f}" for r in rows)
    return (
        f"s: size of the branch beside the stream. "
        f"Left: J_LN at one row (d = {s['spectrum_d']}, γ = 1) has two eigenvalues 0 and {s['spectrum_d'] - 2} equal "
        f"ones, 1/σ: close to 1 only beside a small branch. Right: {s['layers']} Post-Norm sublayers (d = {s['d']}). "
        f"Along the skip alone a gradient shrinks as the product of the 1/σ, about (1 + s²)^(-L/2). With the branches "
        f"it keeps its size ({each}). So 1/σ < 1 alone does not make gradients vanish."
    )


def draw(result: Result) -> Any:
    """Left: eigenvalues in order. Right: the gradient's size by layers passed, skip alone and in all."""
    import matplotlib.pyplot as plt

    from minires.style import CYCLE

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.3))
    for colour, marker, found in zip(CYCLE, "osD^v<", result.data["studies"]):
        name, steps = f"s = {found['size']:g}", np.arange(result.settings["layers"] + 1)
        left.plot(
            np.arange(1, len(found["eigenvalues"]) + 1), found["eigenvalues"], marker, ms=3, color=colour, label=name
        )
        right.semilogy(steps, found["total"], color=colour, label=f"skip and branch, {name}")
        right.semilogy(steps, found["skip"], color=colour, ls="--", label=f"skip alone, {name}")
        right.semilogy(steps, found["law"] ** steps, color=colour, ls=":", lw=1)
    left.set(xlabel="eigenvalue number", ylabel="eigenvalue of J_LN", title="One LayerNorm", ylim=(-0.05, 1.15))
    left.legend(loc="lower right")
    right.set(
        xlabel="Post-Norm sublayers passed", ylabel="size of the gradient (start = 1)", title="A stack (dotted: theory)"
    )
    right.legend(loc="lower left")
    return figure
