# %% [markdown]
# # LayerNorm and its Jacobian
#
# LayerNorm is in every Transformer, twice per block. Whether it stands on the skip (Post-Norm) or beside it
# (Pre-Norm) decides what happens to the $+I$ of the lesson before. To see it we need its Jacobian, and we shall
# derive it.
#
# Every cell asks for a prediction first. Make it before you look.

# %%
from pathlib import Path

import numpy as np

import minires as mr
from minires import figures
from minires.experiments import load_result
from minires.ops.norms import layernorm_backward, layernorm_forward

rng = np.random.default_rng(0)
np.set_printoptions(precision=4, suppress=True)

# %% [markdown]
# ## 1. Forward
#
# A row $x$ of $d$ numbers is centred, divided by its spread, and then stretched and moved, coordinate by coordinate:
#
# $$ \mu = \frac{1}{d} \sum_i x_i, \qquad \sigma^2 = \frac{1}{d} \sum_i (x_i - \mu)^2 \tag{1} $$
#
# $$ \hat x = (x - \mu)\, r, \quad r = \frac{1}{\sqrt{\sigma^2 + \varepsilon}}, \qquad
#    y = \gamma \hat x + \beta \tag{2} $$
#
# $\varepsilon$ stands inside the root. The variance divides by $d$, not by $d - 1$. It is computed in two passes:
# first the mean, then the squares of what is left. The short cut $\overline{x^2} - \mu^2$ loses its digits when
# $\mu$ is large.
#
# **Predict.** The row is (10 000 000, 10 000 001, 10 000 002). What is its variance by the short cut in float64?
# And by two passes?

# %%
x = np.array([1e7, 1e7 + 1, 1e7 + 2])
short_cut, two_passes = (x**2).mean() - x.mean() ** 2, ((x - x.mean()) ** 2).mean()
print(f"1. short cut {short_cut:.4f}, two passes {two_passes:.4f}")
assert np.isclose(two_passes, 2 / 3) and not np.isclose(short_cut, 2 / 3, rtol=1e-3)

# %% [markdown]
# ## 2. Backward: three terms
#
# Let $\hat g = \frac{\partial L}{\partial y} \gamma$ be the gradient that reaches $\hat x$. Now $\hat x_i$ depends on
# $x_j$ in three ways: directly if $i = j$, through $\mu$, and through $r$. From (1) and (2),
#
# $$ \frac{\partial \mu}{\partial x_j} = \frac{1}{d}, \qquad
#    \frac{\partial r}{\partial x_j} = -\frac{r^2}{d} \hat x_j \tag{3} $$
#
# Collect the three, and with $\overline{a}$ for the mean of $a$ over the row,
#
# $$ \frac{\partial L}{\partial x} = r \left( \hat g - \overline{\hat g} - \hat x\, \overline{\hat g \hat x} \right),
#    \qquad \frac{\partial L}{\partial \gamma} = \sum_{\text{rows}} \frac{\partial L}{\partial y} \hat x, \qquad
#    \frac{\partial L}{\partial \beta} = \sum_{\text{rows}} \frac{\partial L}{\partial y} \tag{4} $$
#
# **Predict.** Add up the entries of each row of $\partial L/\partial x$. What comes out, whatever arrived from above?

# %%
x, gamma, beta = rng.standard_normal((3, 8)), 1 + rng.standard_normal(8), rng.standard_normal(8)
dy = rng.standard_normal((3, 8))
y, saved = layernorm_forward(x, gamma, beta)
dx, dgamma, dbeta = layernorm_backward(dy, saved)
print("2. sums of the rows of dx:", dx.sum(axis=1))
assert np.abs(dx.sum(axis=1)).max() < 1e-12

checked = mr.check_pair(layernorm_forward, layernorm_backward, [x, gamma, beta])
print(f"   against a numerical derivative ({checked.methods['x']} step): largest relative error {checked.worst:.1e}")

# %% [markdown]
# Adding one number to all of $x$ does not change $y$. So a gradient cannot ask for it: the sum of its entries is 0.
#
# ## 3. The Jacobian
#
# Equation (4) is linear in $\partial L/\partial y$. Written as a matrix, $J_{ij} = \partial y_i / \partial x_j$,
#
# $$ J_{LN} = \mathrm{diag}(\gamma)\, r \left( I - \frac{1 1^\top}{d} - \frac{\hat x \hat x^\top}{d} \right) \tag{5} $$
#
# $11^\top/d$ projects onto the direction $(1, \dots, 1)$, and $\hat x \hat x^\top/d$ onto $\hat x$ (its length is
# $\sqrt d$, but for $\varepsilon$). The two are orthogonal, because $\hat x$ has mean 0. So the bracket removes two
# directions and keeps the other $d - 2$ as they are:
#
# $$ J_{LN}\, 1 = 0, \qquad J_{LN}\, (x - \mu) \approx 0 \tag{6} $$
#
# **Predict.** With $\gamma = 1$, what are the eigenvalues of $J_{LN}$ at a row with standard deviation 2?

# %%
row = layernorm_forward(rng.standard_normal(8), eps=0.0)[0] * 2
J = mr.nn.layernorm_jacobian(row, eps=1e-12)
print("3. eigenvalues:", np.linalg.eigvalsh(J))
assert np.allclose(np.linalg.eigvalsh(J), [0, 0] + [0.5] * 6)

# %% [markdown]
# Two zeros and $d - 2$ times $1/\sigma$. "The eigenvalues are close to 1" (C74) is true only if $\sigma$ is close
# to 1.
#
# ## 4. A loss that sees nothing
#
# One of the articles watches gradients with `loss = output.sum()`. If the model ends with a LayerNorm whose
# $\gamma$ is 1, that is a mistake (C44): the gradient of the sum is $(1, \dots, 1)$, a direction that $J_{LN}$
# removes.
#
# **Predict.** How large is the gradient of `sum`, and of the mean of squares, beside that of a random combination?

# %%
x = rng.standard_normal((4, 64))
R = rng.standard_normal((4, 64))
losses = {
    "sum of y": lambda y: y.sum(),
    "mean of y²": lambda y: (y * y).mean(),
    "random combination": lambda y: (y * R).sum(),
}
sizes = {}
for name, loss in losses.items():
    leaf = mr.Tensor(x, requires_grad=True)
    loss(mr.layernorm(leaf, np.ones(64), np.zeros(64))).backward()
    sizes[name] = np.linalg.norm(leaf.grad)
    print(f"4. {name:>20}: {sizes[name]:.1e}")
assert sizes["sum of y"] < 1e-10 and sizes["mean of y²"] < 1e-4 and sizes["random combination"] > 1

# %% [markdown]
# ## 5. On the skip, or beside it
#
# Post-Norm puts the norm on the skip, Pre-Norm in front of the branch (C24). With row vectors (C73, C75):
#
# $$ x' = \mathrm{LN}(x + F(x)): \quad
#    \frac{\partial L}{\partial x} = \frac{\partial L}{\partial x'}\, J_{LN}\, (I + J_F) \tag{7} $$
#
# $$ x' = x + F(\mathrm{LN}(x)): \quad
#    \frac{\partial L}{\partial x} = \frac{\partial L}{\partial x'}\, (I + J_F\, J_{LN}) \tag{8} $$
#
# In (8) the $I$ stands alone. In (7) it is multiplied by $J_{LN}$, in every layer.
#
# How much is that? Say the stream has size 1 and the branch adds an independent vector of size $s$. The sum has size
# $\sqrt{1 + s^2}$, so $1/\sigma = 1/\sqrt{1 + s^2}$.
#
# **Predict.** $s = 1$ and 24 sublayers: what is left of a gradient that takes only the skips? And of the whole
# gradient?

# %%
folder = Path(__file__).resolve().parents[2] / "figures"
figures.make(["layernorm_spectrum"], folder=folder)
result = load_result(folder / "layernorm_spectrum.json")
print(f"5. The picture is {folder / 'layernorm_spectrum.svg'}:")
for found in result.data["rows"]:
    line = "   s = {size:g}: 1/σ = {law_eigenvalue:.3f}, skip alone {skip_gain:.2g}, everything {total_gain:.2f}"
    print(line.format(**found))
assert result.data["rows"][-1]["skip_gain"] < 1e-3 < 0.5 < result.data["rows"][-1]["total_gain"]

# %% [markdown]
# Along the skip alone almost nothing arrives. But the whole gradient keeps its size: $(I + J_F)$ makes it longer by
# about $\sqrt{1 + s^2}$ on average, just what the norm takes away. In Post-Norm the gradient lives in the branches.
# If they are badly conditioned, it has no other way. In Pre-Norm it has.
#
# ## What to correct in what you have read
#
# * "$J_{Norm}$ has eigenvalues near 1" (C74): two are 0, the others are $1/\sigma$ of the *sum* $x + F(x)$. That is
#   near 1 only beside a small branch.
# * "They accumulate to a decay": along the skip alone, yes. The branch's share makes up for it at initialisation.
# * Do not watch gradients with a sum or a mean square of a normalised output (C44). Use the real loss, or a fixed
#   random combination.
#
# ## Now you
#
# Open `exercise.py` beside this file: the forward pass, the backward pass (minires will train a small Transformer on
# it), and the Jacobian with its two blind directions. Then, in the folder of your course:
#
#     minires grade layernorm
