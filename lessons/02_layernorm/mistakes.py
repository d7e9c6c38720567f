"""Known wrong answers of the lesson on LayerNorm.

Each function is the solution with switches: `wrong` is the set of mistakes to make, so that every combination can be
computed and recognised. With an empty set it is right.
"""

import numpy as np

from minires.grading import Mistake


def layernorm_forward(wrong, x, gamma, beta, eps=1e-5):
    axis = -1
    if "over_the_batch" in wrong and x.ndim > 1:
        axis = 0
    if "over_everything" in wrong:
        axis = None
    d = x.size if axis is None else x.shape[axis]
    mean = x.mean(axis=axis, keepdims=True)
    centred = x if "mean_not_subtracted" in wrong else x - mean
    squares = (x**2 if "square_of_x" in wrong else centred**2).sum(axis=axis, keepdims=True)
    variance = squares / (d - 1 if "sample_variance" in wrong and d > 1 else d)
    inside = 0 if "no_eps" in wrong or "eps_outside_the_root" in wrong else eps
    size = np.sqrt(variance + inside) + (eps if "eps_outside_the_root" in wrong else 0)
    size = variance + inside if "no_root" in wrong else size
    rstd = 1 / size
    xhat = centred * rstd
    y = xhat if gamma is None or "gamma_forgotten" in wrong else gamma * xhat
    if beta is not None and "beta_forgotten" not in wrong:
        y = gamma * (xhat + beta) if "gamma_times_beta" in wrong and gamma is not None else y + beta
    kept = np.array(y) if "y_saved" in wrong else xhat
    return np.array(y), (kept, size if "sigma_saved" in wrong else rstd, gamma, beta is not None)


def layernorm_backward(wrong, dy, saved):
    xhat, rstd, gamma, has_beta = saved
    plain = gamma is None or "gamma_forgotten" in wrong or "gamma_too_late" in wrong
    dxhat = dy if plain else dy * gamma
    mean = _mean(wrong)
    dx = dxhat.copy()
    if "mean_term_left_out" not in wrong:
        dx = dx - mean(dxhat)
    if "variance_term_left_out" not in wrong:
        inner = mean(dxhat) if "variance_term_without_xhat" in wrong else mean(dxhat * xhat)
        dx = dx + xhat * inner if "variance_term_added" in wrong else dx - xhat * inner
    if "rstd_forgotten" not in wrong:
        dx = dx / rstd if "rstd_taken_for_sigma" in wrong else rstd * dx
    if "gamma_too_late" in wrong and gamma is not None and "gamma_forgotten" not in wrong:
        dx = dx * gamma
    dx = dx + dy if "dy_added" in wrong else dx
    dgamma = dy if "dgamma_without_xhat" in wrong else dy * xhat
    dgamma = dgamma * gamma if "dgamma_with_gamma" in wrong and gamma is not None else dgamma
    dgamma = None if gamma is None else _over_rows(dgamma, wrong)
    dbeta = _over_rows(dy * xhat if "dbeta_with_xhat" in wrong else dy, wrong) if has_beta else None
    return (dx, dbeta, dgamma) if "dgamma_dbeta_swapped" in wrong else (dx, dgamma, dbeta)


def _mean(wrong):
    """The mean over a row, or what people take in its place."""
    axis = (lambda a: 0) if "mean_over_the_batch" in wrong else (lambda a: -1)
    if "sums_for_means" in wrong:
        return lambda a: a.sum(axis=axis(a), keepdims=True)
    if "divided_by_d_minus_1" in wrong:
        return lambda a: a.sum(axis=axis(a), keepdims=True) / max(a.shape[axis(a)] - 1, 1)
    return lambda a: a.mean(axis=axis(a), keepdims=True)


def _over_rows(a, wrong):
    rows = tuple(range(a.ndim - 1))
    if "rows_not_summed" in wrong:
        return a.copy()
    if "only_first_axis_summed" in wrong and a.ndim > 1:
        return a.sum(axis=0)
    return a.mean(axis=rows) if "rows_averaged" in wrong else a.sum(axis=rows)


def layernorm_jacobian(wrong, x, gamma, eps=1e-5):
    d = len(x)
    centred = x - x.mean()
    size = d - 1 if "sample_variance" in wrong else d
    rstd = 1 / np.sqrt((centred**2).sum() / size + (0 if "no_eps" in wrong else eps))
    xhat = centred * rstd
    share = 1 if "not_divided_by_d" in wrong else d
    core = np.eye(d, dtype=x.dtype)
    if "mean_term_left_out" not in wrong:
        core = core - 1 / share
    if "variance_term_left_out" not in wrong:
        core = core - np.outer(xhat, xhat) / share
    core = core if "rstd_forgotten" in wrong else core * rstd
    if "gamma_forgotten" not in wrong:
        core = core * (gamma[None, :] if "gamma_on_the_input_side" in wrong else gamma[:, None])
    second = x if "blind_not_centred" in wrong else gamma * centred if "blind_with_gamma" in wrong else centred
    blind = np.stack([np.ones_like(x), second])
    if "blind_not_unit" not in wrong:
        blind = blind / np.linalg.norm(blind, axis=1, keepdims=True)
    return core, blind[::-1].copy() if "blind_swapped" in wrong else blind


_EPS = "eps stands under the root, beside the variance: 1/√(σ² + eps)"

MISTAKES = {
    "layernorm_forward": [
        Mistake(
            "over_the_batch",
            "Mean and variance belong to one row: they are taken over the last axis, d",
            "they are taken over the first axis, across the batch. That is BatchNorm",
            "axis=-1 with keepdims=True. The examples of a batch must not know of each other.",
        ),
        Mistake(
            "over_everything",
            "Every row has a mean and a variance of its own",
            "one mean and one variance for the whole array",
            "Pass axis=-1 and keepdims=True to mean.",
        ),
        Mistake(
            "sample_variance",
            "σ² is the population variance, the sum of squares divided by d",
            "it is divided by d - 1, the sample variance",
            "np.var has ddof=0 by default, and that is right here; other tools (and some of torch's functions) differ.",
        ),
        Mistake(
            "mean_not_subtracted",
            "The row's mean is subtracted: x̂ = (x - μ)/√(σ² + eps)",
            "x is divided by its root mean square, but not centred. That is RMSNorm",
            "Subtract the mean before you square, and use the same centred x for x̂.",
        ),
        Mistake(
            "square_of_x",
            "The variance is the mean of (x - μ)²",
            "it is the mean of x², so the row's mean counts as spread",
            "Square the centred x.",
        ),
        Mistake(
            "eps_outside_the_root",
            _EPS,
            "eps is added to the standard deviation, √σ² + eps",
            "Move eps inside np.sqrt(…).",
        ),
        Mistake("no_eps", _EPS, "eps is not used", "A row of equal numbers has σ² = 0. Without eps that is 0/0."),
        Mistake(
            "no_root",
            "The row is divided by the standard deviation, √(σ² + eps)",
            "it is divided by the variance",
            "Take the square root: after the division a row's variance should be 1.",
        ),
        Mistake(
            "gamma_forgotten",
            "Each coordinate has its own gain: y = γ x̂ + β",
            "γ has no influence on y",
            "Multiply x̂ by gamma before adding beta.",
        ),
        Mistake(
            "beta_forgotten",
            "Each coordinate has its own offset: y = γ x̂ + β",
            "β has no influence on y",
            "Add beta at the end.",
        ),
        Mistake(
            "gamma_times_beta",
            "β is added after the gain: y = γ x̂ + β",
            "β is multiplied by γ too: γ (x̂ + β)",
            "Mind the brackets.",
        ),
        Mistake(
            "sigma_saved",
            "saved[1] is rstd = 1/√(σ² + eps), the reciprocal",
            "you saved √(σ² + eps) itself",
            "The backward pass multiplies by rstd. Save 1 / np.sqrt(…).",
        ),
        Mistake(
            "y_saved",
            "saved[0] is x̂, from before the gain and the offset",
            "you saved y",
            "Keep x̂ under a name of its own, and compute y from it.",
        ),
    ],
    "layernorm_backward": [
        Mistake(
            "variance_term_left_out",
            "σ depends on x, so dx has a third term: dx = r (dx̂ - mean(dx̂) - x̂ mean(dx̂ x̂))",
            "the variance term, x̂ mean(dx̂ x̂), is missing: r is treated as a constant",
            "Ask how r changes when one entry of x moves. Equation 4 of the lesson.",
        ),
        Mistake(
            "mean_term_left_out",
            "μ depends on x, so dx has a second term: dx = r (dx̂ - mean(dx̂) - x̂ mean(dx̂ x̂))",
            "the mean term, mean(dx̂), is missing: μ is treated as a constant",
            "A constant added to all of x changes nothing, so the entries of each row of dx must add up to 0.",
        ),
        Mistake(
            "gamma_forgotten",
            "The gradient passes the gain first: dx̂ = dy γ",
            "γ is not in dx: it is computed from dy as if γ were 1",
            "In the forward pass this was γ x̂ + β. Begin with dxhat = dy * gamma.",
        ),
        Mistake(
            "gamma_too_late",
            "γ multiplies dy before the means are taken: dx̂ = dy γ",
            "dx is computed without γ, and the result is multiplied by γ at the end",
            "The backward pass goes in reverse: γ came last in the forward pass, so it comes first here.",
        ),
        Mistake(
            "rstd_forgotten",
            "Everything is scaled by r = 1/√(σ² + eps): dx = r (…)",
            "the factor r is missing",
            "In the forward pass this was x̂ = (x - μ) r. Multiply by rstd.",
        ),
        Mistake(
            "rstd_taken_for_sigma",
            "saved holds r = 1/√(σ² + eps), the reciprocal, and dx = r (…)",
            "you divide by rstd, as if it were the standard deviation",
            "rstd is 1/σ already: multiply.",
        ),
        Mistake(
            "dy_added",
            "LayerNorm has no skip: dx = r (dx̂ - mean(dx̂) - x̂ mean(dx̂ x̂))",
            "dy is added to dx",
            "The +I belongs to the residual add around the norm. The engine adds it there.",
        ),
        Mistake(
            "sums_for_means",
            "The two correction terms are means over d entries",
            "they are sums, so both are d times too large",
            "mean(axis=-1, keepdims=True), or divide the sums by d.",
        ),
        Mistake(
            "mean_over_the_batch",
            "The means in dx run over the last axis, within one row",
            "they run over the first axis, across the rows",
            "axis=-1 with keepdims=True, as in the forward pass.",
        ),
        Mistake(
            "divided_by_d_minus_1",
            "The forward pass divided by d, so the backward pass does too",
            "the sums are divided by d - 1, as for the sample variance",
            "Use the mean over the last axis.",
        ),
        Mistake(
            "variance_term_without_xhat",
            "The inner mean of the variance term is of the product dx̂ x̂",
            "it is the mean of dx̂ alone",
            "mean(dxhat * xhat), and then once more times x̂.",
        ),
        Mistake(
            "variance_term_added",
            "Both corrections are subtracted",
            "the variance term is added",
            "A larger x̂ makes σ larger and the output smaller: the sign is minus.",
        ),
        Mistake(
            "dgamma_without_xhat",
            "γ was multiplied by x̂, so dγ = Σ dy x̂ over all rows",
            "dγ is the sum of dy alone, which is dβ",
            "Multiply dy by xhat before summing.",
        ),
        Mistake(
            "dgamma_with_gamma",
            "γ's own gradient starts from dy: dγ = Σ dy x̂",
            "dγ is computed from dy γ, the gradient behind the gain",
            "y = γ x̂ + β, so ∂y/∂γ is x̂. Use dy here and dy * gamma for dx only.",
        ),
        Mistake(
            "dbeta_with_xhat",
            "β is only added, so dβ = Σ dy over all rows",
            "dβ is the sum of dy x̂, which is dγ",
            "∂y/∂β is 1: sum dy alone.",
        ),
        Mistake(
            "dgamma_dbeta_swapped",
            "The results come in the order dx, dgamma, dbeta",
            "dγ and dβ have changed places",
            "Compare the return line with the docstring: both are (d,), so the shapes do not tell you.",
        ),
        Mistake(
            "rows_averaged",
            "dγ and dβ are sums over all rows",
            "they are means over the rows",
            "If the loss is a mean, its 1/N is in dy already.",
        ),
        Mistake(
            "rows_not_summed",
            "All rows share γ and β, so dγ and dβ are summed over all axes but the last: (d,)",
            "nothing is summed, they still have dy's shape",
            "sum(axis=tuple(range(dy.ndim - 1)))",
        ),
        Mistake(
            "only_first_axis_summed",
            "dγ and dβ are summed over all axes but the last: (d,)",
            "only the first axis is summed. With (B, T, d) the axis T is left over",
            "sum(axis=tuple(range(dy.ndim - 1))), or reshape(-1, d) first.",
        ),
    ],
    "layernorm_jacobian": [
        Mistake(
            "variance_term_left_out",
            "J = diag(γ) r (I - 11ᵀ/d - x̂x̂ᵀ/d)",
            "the term x̂x̂ᵀ/d is missing: r is treated as a constant",
            "Doubling x - μ doubles σ too, and y stays: J must (but for eps) send x - μ to 0.",
        ),
        Mistake(
            "mean_term_left_out",
            "J = diag(γ) r (I - 11ᵀ/d - x̂x̂ᵀ/d)",
            "the term 11ᵀ/d is missing: μ is treated as a constant",
            "Adding one number to all of x leaves y as it is: every row of J must add up to 0.",
        ),
        Mistake(
            "rstd_forgotten",
            "J has the factor r = 1/√(σ² + eps)",
            "the factor r is missing",
            "If x is ten times larger, y is the same, so J must be ten times smaller.",
        ),
        Mistake(
            "gamma_forgotten",
            "γ_i scales output i, so row i of J",
            "γ has no influence on J",
            "jacobian = gamma[:, None] * …",
        ),
        Mistake(
            "gamma_on_the_input_side",
            "γ_i scales output i, so row i of J (J[i, j] = ∂y_i/∂x_j)",
            "γ_j scales column j: this is J transposed",
            "gamma[:, None], not gamma. Without the new axis NumPy lines γ up with the columns.",
        ),
        Mistake(
            "not_divided_by_d",
            "Both terms are divided by d: 11ᵀ/d and x̂x̂ᵀ/d",
            "they are not divided by d",
            "They come from means. 11ᵀ/d and x̂x̂ᵀ/d are projections; check that 11ᵀ/d applied twice is itself.",
        ),
        Mistake(
            "sample_variance",
            "σ² is the population variance, the sum of squares divided by d",
            "it is divided by d - 1",
            "Use the mean of (x - μ)², or np.var with its default.",
        ),
        Mistake("no_eps", _EPS, "eps is not used", "rstd = 1 / np.sqrt(variance + eps)"),
        Mistake(
            "blind_not_centred",
            "The second direction is that of x - μ",
            "it is that of x",
            "The two directions are orthogonal: their dot product must be 0.",
        ),
        Mistake(
            "blind_with_gamma",
            "The directions are in the input, before γ",
            "the second one is multiplied by γ, as an output would be",
            "J v = 0 asks for a movement v of x.",
        ),
        Mistake(
            "blind_not_unit",
            "Each row of blind has length 1",
            "the directions are right, their lengths are not",
            "Divide each by np.linalg.norm of it.",
        ),
        Mistake(
            "blind_swapped", "First the direction (1, …, 1), then x - μ", "the two are swapped", "Change their order."
        ),
    ],
}
