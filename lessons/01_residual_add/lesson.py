# %% [markdown]
# # The residual add and its +I
#
# A residual layer adds what it computes to what it was given:
#
# $$ y = x + F(x) \tag{1} $$
#
# This lesson takes that line apart, backwards. At the end you know where the famous $+I$ comes from, what it does to
# a gradient in a deep stack, and what it does not do.
#
# Run this file from top to bottom (`python lesson.py`), or cell by cell in an editor that knows `# %%`. Every cell
# asks for a prediction first. Make it before you look.

# %%
from math import comb
from pathlib import Path

import numpy as np

import minires as mr
from minires import figures, nn
from minires.experiments import load_result
from minires.models import DeepMLP

rng = np.random.default_rng(0)
np.set_printoptions(precision=4, suppress=True)

# %% [markdown]
# ## 1. An add copies the gradient
#
# Take $y = x + f$ alone. Move one entry of $x$ by a little: the same entry of $y$ moves by as much. So
#
# $$ \frac{\partial L}{\partial x} = \frac{\partial L}{\partial y}, \qquad
#    \frac{\partial L}{\partial f} = \frac{\partial L}{\partial y} \tag{2} $$
#
# Nothing is divided between the two sides.
#
# **Predict.** The gradient that arrives from above is (1, 2, 3). What do $x$ and $f$ receive?

# %%
x = mr.Tensor(np.array([0.5, -1.0, 2.0]), requires_grad=True)
f = mr.Tensor(np.array([0.1, 0.1, 0.1]), requires_grad=True)
(x + f).backward(np.array([1.0, 2.0, 3.0]))
print("1. x receives", x.grad, "and f receives", f.grad)
assert np.array_equal(x.grad, [1, 2, 3]) and np.array_equal(f.grad, [1, 2, 3])

# %% [markdown]
# ## 2. The +I
#
# Now $f = F(x)$ depends on $x$. We use a small branch with one ReLU:
#
# $$ F(x) = \mathrm{relu}(x W_1)\, W_2, \qquad y = x + F(x) \tag{3} $$
#
# Here $x$ reaches $y$ along two ways, and the gradient comes back along both. With row vectors, and with
# $J_F$ for the Jacobian of the branch,
#
# $$ \frac{\partial L}{\partial x} = \frac{\partial L}{\partial y} + \frac{\partial L}{\partial y} J_F
#    = \frac{\partial L}{\partial y} (I + J_F) \tag{4} $$
#
# Some texts write $+1$. For one number that is right. For vectors it is the identity matrix $I$: the ones stand on
# the diagonal only. (This is C18 and C71 in the project's list of claims.)
#
# **Predict.** What do we get if we subtract $J_F$ from the Jacobian of the whole block?

# %%
d, hidden = 5, 8
w1, w2 = rng.standard_normal((d, hidden)), rng.standard_normal((hidden, d))


def branch(x):
    return mr.relu(x @ w1) @ w2


def jacobian(function, x):
    """Row i is the gradient of output i: d backward passes."""
    rows = []
    for i in range(d):
        leaf = mr.Tensor(x, requires_grad=True)
        function(leaf).backward(np.eye(d)[i])
        rows.append(leaf.grad)
    return np.array(rows)


x = rng.standard_normal(d)
difference = jacobian(lambda x: x + branch(x), x) - jacobian(branch, x)
print("2. Jacobian of the block minus Jacobian of the branch:\n", difference)
assert np.allclose(difference, np.eye(d), atol=1e-12)

# %% [markdown]
# The $+I$ has nothing to do with what $F$ is. It is still there when $F$ is zero, and then the gradient passes
# unchanged. It is also still there when $F$ is large, and then it does not help much. Keep that in mind.
#
# ## 3. Unrolled: every layer adds to one sum
#
# Stack $L$ such layers: $x_{l+1} = x_l + F_l(x_l)$. Insert the equations into each other:
#
# $$ x_L = x_0 + F_0(x_0) + F_1(x_1) + \dots + F_{L-1}(x_{L-1}) \tag{5} $$
#
# The input is still there with coefficient 1 (C16). Note the arguments: each branch reads the stream as it is *at
# that layer*. So the terms are not independent: without $F_0$ all later terms change, too.
#
# **Predict.** Is $x_L - x_0$ exactly the sum of what the layers added?

# %%
model = DeepMLP(6, 3, d=16, blocks=8, connection="residual", init="lecun", dtype=np.float64)
written = []


def spy(site, F):
    """Hand out the branch, and keep what it returns."""

    def watched(h):
        out = F(h)
        written.append(out.data)
        return out

    return watched


states = []
model.loss(rng.standard_normal((4, 6)), np.array([0, 1, 2, 0]), nn.Context(wrap=spy, trace=states))
gap = np.abs(states[-1].data - states[0].data - sum(written)).max()
print(f"3. {len(written)} branches; largest gap between x_L - x_0 and their sum: {gap:.1e}")
assert gap < 1e-12

# %% [markdown]
# ## 4. $2^L$ paths
#
# Backwards, the stack multiplies the gradient by $(I + J_{L-1}) \cdots (I + J_0)$, the last layer first. Multiply
# out: at each layer a path takes either $I$ (the skip) or $J_l$ (the branch). That makes $2^L$ terms. Sort them by
# how many branches they contain:
#
# $$ g \prod_{l=L-1}^{0} (I + z J_l) = \sum_{k=0}^{L} z^k g_k \tag{6} $$
#
# $g_k$ is what came through exactly $k$ branches. There are $\binom{L}{k}$ such paths.
#
# **Predict.** With $L = 10$ layers, how many paths go through exactly 5 branches? And is the sum of all $g_k$ the
# gradient?

# %%
L = 10
jacobians = [0.3 / np.sqrt(d) * rng.standard_normal((d, d)) for _ in range(L)]
g = rng.standard_normal(d)

by_length = np.zeros((L + 1, d))
by_length[0] = g
for J in reversed(jacobians):
    by_length[1:] += by_length[:-1] @ J  # a branch makes every path longer by one

product = g
for J in reversed(jacobians):
    product = product @ (np.eye(d) + J)

print(f"4. {comb(L, 5)} of {2**L} paths have length 5.  Sizes of g_0 ... g_{L}:\n  ", np.linalg.norm(by_length, axis=1))
assert np.allclose(by_length.sum(axis=0), product)

# %% [markdown]
# Most paths have length 5, but the gradient comes along the short ones: each branch costs a factor of about 0.3.
# That is what the "ensemble of $2^L$ networks" (C22) leaves out. It is also a way of counting, no more: with a
# nonlinear $F$ the $J_l$ depend on the input, and all paths share the same weights.
#
# ## 5. What the +I does not do
#
# An article computes: $\lVert J \rVert = 0.1$, a hundred layers, so without the skip $0.1^{100} \approx 0$, and
# with it $1^{100} = 1$. The first half is right. The second is not a law (C19): $(I + J)$ is not $I$.
#
# **Predict.** All $J_l$ have norm 0.1. What are the smallest and the largest gain that a hundred layers can have?

# %%
smallest, largest = 0.9**100, 1.1**100
print(f"5. anything from {smallest:.1e} to {largest:.1e}")
for name, sign in (("J = -0.1 I", -1.0), ("J = +0.1 I", 1.0)):
    gain = np.linalg.norm(g @ np.linalg.matrix_power(np.eye(d) + sign * 0.1 * np.eye(d), 100)) / np.linalg.norm(g)
    print(f"   {name}: {gain:.1e}")
    assert np.isclose(gain, largest if sign > 0 else smallest)

# %% [markdown]
# Both extremes need layers that all push the same way. If the $J_l$ are independent and have no preferred direction,
# their effects do not add up, they diffuse. With entries of variance $\tau^2/d$,
#
# $$ \mathbb{E} \lVert g_0 \rVert^2 = (1 + \tau^2)^L \lVert g \rVert^2 \tag{7} $$
#
# That is near 1 only if $L\tau^2$ is small: *a branch's size should be about $1/\sqrt{L}$ or less*. Scaled
# initialisations and Pre-Norm reach this in different ways. The $+I$ alone does not.
#
# The picture measures it: 50 layers, three branch sizes, with and without the skip, and the lengths of the paths.

# %%
folder = Path(__file__).resolve().parents[2] / "figures"
figures.make(["plus_i"], folder=folder)
result = load_result(folder / "plus_i.json")
print(f"\nThe picture is {folder / 'plus_i.svg'}:")
for row in result.data["rows"]:
    line = "   tau = {tau:g}: gain {gain_with_skip:.3g} (law {law_with_skip:.3g}), without skip {gain_without_skip:.1e}"
    print(line.format(**row))

# %% [markdown]
# ## What to correct in what you have read
#
# * "$+1$" is $+I$ (C71). Adding 1 to every entry of a Jacobian is another function, and a common mistake.
# * "The gradient passes without loss" is true of one of the $2^L$ paths, the one that takes every skip (C52). What
#   arrives is the sum of all of them. It is lossless if $J_F = 0$.
# * "$1^{100} = 1$" holds for no particular reason. Between $2.7 \cdot 10^{-5}$ and $1.4 \cdot 10^4$ everything is
#   possible at $\lVert J \rVert = 0.1$ (C19).
# * The product of Jacobians has an order: the last layer acts first on a row vector (C72).
#
# ## Now you
#
# Open `exercise.py` beside this file. Three functions: the backward pass of the add (minires will run a network on
# it), the backward pass of a whole block, and the gradient sorted by path length. Then, in the folder of your
# course:
#
#     minires grade residual_add
