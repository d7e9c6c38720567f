"""Known wrong answers of the lesson on the residual add.

Each function is the solution with switches: `wrong` is the set of mistakes to make, so that every combination can be
computed and recognised. With an empty set it is right.
"""

import numpy as np

from minires.grading import Mistake


def residual_add_backward(wrong, dy, saved):
    dx, df = dy, dy
    if "ones" in wrong:
        dx, df = np.ones_like(dy), np.ones_like(dy)
    if "halved" in wrong:
        dx, df = dx / 2, df / 2
    if "skip_twice" in wrong:
        dx = 2 * dx
    if "no_skip" in wrong:
        dx = np.zeros_like(dy)
    if "no_branch" in wrong:
        df = np.zeros_like(dy)
    if "subtracted" in wrong:
        df = -df
    if "summed" in wrong:
        dx, df = dx.sum(axis=0), df.sum(axis=0)
    return dx, df


def block_backward(wrong, dy, saved):
    x, h, w1, w2 = saved
    w1_back, w2_back = (w1, w2) if "jacobian_transposed" in wrong else (w1.T, w2.T)
    a = h if "pre_activation" in wrong else np.maximum(h, 0)
    da = dy @ (w1_back if "jacobian_transposed" in wrong else w2_back)
    gate = 1.0 if "no_relu_gate" in wrong else da > 0 if "gate_of_the_gradient" in wrong else h > 0
    dh = (da * gate).astype(dy.dtype)
    dx = dh @ (w2_back if "jacobian_transposed" in wrong else w1_back)
    skip = np.ones_like(dy) if "plus_one" in wrong else dy
    if "no_skip" not in wrong:
        dx = skip + dx
    if "only_skip" in wrong:
        dx = skip.copy()
    if "skip_twice" in wrong:
        dx = dx + skip
    dw1, dw2 = _weight(x, dh, wrong), _weight(a, dy, wrong)
    if "weights_transposed" in wrong:
        dw1, dw2 = np.swapaxes(dw1, -1, -2), np.swapaxes(dw2, -1, -2)
    if "weights_swapped" in wrong:
        dw1, dw2 = dw2, dw1
    return (dw1, dw2, dx) if "weights_first" in wrong else (dx, dw1, dw2)


def _weight(inputs, dout, wrong):
    if "batch_not_summed" in wrong and inputs.ndim > 2:
        return np.swapaxes(inputs, -1, -2) @ dout
    rows, dout = inputs.reshape(-1, inputs.shape[-1]), dout.reshape(-1, dout.shape[-1])
    return rows.T @ dout / (len(rows) if "batch_mean" in wrong else 1)


def gradient_by_path_length(wrong, jacobians, dy):
    layers = list(jacobians) if "first_layer_first" in wrong else list(reversed(jacobians))
    rows = np.zeros((len(layers) + 1, len(dy)), dy.dtype)
    rows[0] = 0 if "no_skip" in wrong and layers else dy
    longest = dy
    for jacobian in layers:
        jacobian = jacobian.T if "jacobian_transposed" in wrong else jacobian
        jacobian = jacobian + 1 if "plus_one" in wrong else jacobian
        longest = longest @ jacobian
        rows[1:] += _one_longer(rows, wrong) @ jacobian
    if "no_skip" in wrong:
        rows[:] = 0
        rows[-1] = longest
    if "longest_first" in wrong:
        rows = rows[::-1].copy()
    if "mean_over_paths" in wrong:
        rows /= _binomials(len(layers), dy.dtype)[:, None]
    return np.cumsum(rows, axis=0) if "running_total" in wrong else rows


def _one_longer(rows, wrong):
    """The sums that a branch moves one row down; without the longer ones only paths through one branch remain."""
    if "first_order_only" not in wrong:
        return rows[:-1].copy()
    only = np.zeros_like(rows[:-1])
    only[:1] = rows[:1]
    return only


def _binomials(n, dtype):
    counts = [1]
    for k in range(n):
        counts.append(counts[-1] * (n - k) // (k + 1))
    return np.array(counts, dtype)


MISTAKES = {
    "residual_add_backward": [
        Mistake(
            "ones",
            "The chain rule multiplies: dx = dy · ∂y/∂x, and for an add ∂y/∂x is the identity",
            "you return ones, the derivative of the add alone; the gradient that came from above is lost",
            "Pass dy on. The 1 is what dy is multiplied with, not the answer.",
        ),
        Mistake(
            "halved",
            "An add hands the whole gradient to both sides: dx = dy and df = dy",
            "each side gets half of dy, as if the two had to share it",
            "A gradient is a rate, not a quantity that is divided: move x by ε and y moves by ε, whatever f does.",
        ),
        Mistake(
            "skip_twice",
            "dx holds the skip once: dx = dy",
            "dx is 2 dy. The branch's share is counted here already",
            "x also feeds F, but that share comes back through F's own backward pass. The engine adds the two.",
        ),
        Mistake(
            "no_skip",
            "The skip carries the gradient on: dx = dy",
            "dx is zero, so the layers below learn only through the branches",
            "This dy is the +I. Return it for x as well as for f.",
        ),
        Mistake(
            "no_branch",
            "The branch is one of the two terms: df = dy",
            "df is zero, so F's weights never learn",
            "y = x + f depends on f just as it depends on x.",
        ),
        Mistake(
            "subtracted",
            "Both terms enter y with a plus sign: df = dy",
            "df has the opposite sign, as for y = x - f",
            "Check the sign by moving one entry of f a little up: y moves up too.",
        ),
        Mistake(
            "summed",
            "dx and df have the shape of x and f, which is dy's",
            "the first axis has been summed away",
            "Sums over the batch belong to parameters that all rows share. Here every row has its own x.",
        ),
    ],
    "block_backward": [
        Mistake(
            "no_skip",
            "The skip adds the upstream gradient: dx = dy + dy·J_F = dy·(I + J_F)",
            "dx equals dy·J_F, the branch alone. The +I is missing",
            "x reaches y along two ways. Add dy, unchanged, to what came back through the branch.",
        ),
        Mistake(
            "plus_one",
            "The skip's Jacobian is the identity matrix, and dy·I is dy: dx = dy·(I + J_F) = dy + dy·J_F",
            "the number 1 was added to every entry: dx = 1 + dy·J_F",
            "The “+1” of the articles is +I, and it is multiplied by dy like everything else. Add dy, not 1.",
        ),
        Mistake(
            "only_skip",
            "dx has two parts, dx = dy + dy·J_F",
            "dx equals dy: the skip is there, but nothing came back through the branch",
            "Continue from dh through W1 and add the result to dy.",
        ),
        Mistake(
            "skip_twice",
            "The skip counts once: dx = dy + dy·J_F",
            "dx equals 2 dy + dy·J_F",
            "Find the second place where dy is added (dx += dy after dx = dy + …?).",
        ),
        Mistake(
            "jacobian_transposed",
            "Going back, the matrices act in reverse order and transposed: dy·W2ᵀ, gate, ·W1ᵀ",
            "you multiply by W1 and W2 as in the forward pass, which gives J_F transposed (and fails where hidden ≠ d)",
            "For y = a W the backward pass is da = dy Wᵀ. Start with the last matrix, W2.",
        ),
        Mistake(
            "no_relu_gate",
            "ReLU passes the gradient only where h > 0: dh = da · [h > 0]",
            "the gradient goes through the ReLU everywhere, as if the block were linear",
            "Multiply da by (h > 0) before going on to W1.",
        ),
        Mistake(
            "gate_of_the_gradient",
            "The gate depends on the forward pass, on h: dh = da · [h > 0]",
            "the gradient itself was cut at zero, dh = max(da, 0)",
            "Which entries were cut in the forward pass? That is stored in h. Negative gradients must pass.",
        ),
        Mistake(
            "pre_activation",
            "dW2 pairs dy with what W2 was multiplied by: dW2 = relu(h)ᵀ dy",
            "you used h, from before the ReLU",
            "In the forward pass this was relu(h) @ W2. Use the same array.",
        ),
        Mistake(
            "batch_mean",
            "The weights' gradients are sums over all rows",
            "they are divided by the number of rows",
            "If the loss is a mean, its 1/N is in dy already.",
        ),
        Mistake(
            "batch_not_summed",
            "All axes but the last are rows, and all rows are summed: dW1 is (d, hidden), dW2 (hidden, d)",
            "only one axis was summed; the batch axis is still there",
            "Reshape both factors to (rows, n) first, then multiply rowsᵀ @ rows.",
        ),
        Mistake(
            "weights_swapped",
            "The weights' gradients come in the order of the weights: dx, dw1, dw2",
            "dw2 stands in the place of dw1, and dw1 in the place of dw2",
            "Compare the return line with the docstring. If d = hidden, the shapes do not tell you.",
        ),
        Mistake(
            "weights_first",
            "The three results come in the order dx, dw1, dw2",
            "dx is returned last, after the weights' gradients",
            "Compare the return line with the docstring.",
        ),
        Mistake(
            "weights_transposed",
            "A gradient has the shape of its weight, (in, out): dW = inputᵀ @ doutput",
            "both are transposed, doutputᵀ @ input",
            "Weights here are (in, out), because y = x W. Swap the two factors.",
        ),
    ],
    "gradient_by_path_length": [
        Mistake(
            "first_layer_first",
            "Gradients travel from the last layer to the first: ((dy·J_L)·J_(L-1))…",
            "the layers are walked from the first to the last. Matrices do not commute, so the product is another one",
            "Loop over reversed(jacobians).",
        ),
        Mistake(
            "jacobian_transposed",
            "dy is a row vector: one branch back is dy @ J",
            "you multiplied J @ dy, which is dy @ J.T",
            "(dy·J)_j = Σ_i dy_i ∂F_i/∂x_j: the sum runs over J's first index.",
        ),
        Mistake(
            "plus_one",
            "The skip adds the identity matrix; a branch alone contributes dy·J",
            "1 was added to every entry of J",
            "The articles print “+1” for one number. For vectors it is I; here the skip is the row that stays.",
        ),
        Mistake(
            "no_skip",
            "Every one of the 2^L paths counts, those with skips too",
            "only the longest path is there, the product of all J: the gradient of a network without skips",
            "At each layer a path may also stay as it is. Row 0 is dy itself.",
        ),
        Mistake(
            "first_order_only",
            "Paths may go through any number of branches, from 0 to L",
            "only the paths through no branch or one are there",
            "Let every row move one row down through the branch, not only row 0.",
        ),
        Mistake(
            "mean_over_paths",
            "Row k is the sum over the paths of length k",
            "it is divided by how many there are, L!/(k!(L-k)!)",
            "Gradients along different paths add up. Do not average.",
        ),
        Mistake(
            "longest_first",
            "Row 0 belongs to the path through no branch, row L to the one through all",
            "the rows are in the opposite order",
            "Start with dy in row 0. A branch moves a sum one row down.",
        ),
        Mistake(
            "running_total",
            "Row k holds the paths of length k only",
            "row k holds all paths of length up to k",
            "Take the cumulative sum away; the rows should add up to the gradient.",
        ),
    ],
}
