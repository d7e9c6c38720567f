"""The update rules themselves: pure arithmetic on flat arrays, written in place. Nothing here knows about models.

p: parameters, g: their gradients, both (n,); the other arrays are the rule's memory, (n,), zeros before the first
step. All of them but g are written in place.
"""

from __future__ import annotations

import numpy as np

from minires.backend import has_twin


def sgd_step(p, g, velocity, lr, momentum=0.0, nesterov=False, decay=0.0):
    """v ← momentum·v + (g + decay·p);  p ← p - lr·v.  With nesterov: p ← p - lr·(g + decay·p + momentum·v).

    Source: Sutskever et al. 2013, in the form that PyTorch uses (the learning rate multiplies v afterwards).
    """
    if decay:
        g = g + decay * p
    if not momentum:
        p -= lr * g
        return
    velocity *= momentum
    velocity += g
    p -= lr * (g + momentum * velocity if nesterov else velocity)


@has_twin("optim")
def adamw_step(p, g, m, v, lr, b1, b2, eps, decay, c1, c2):
    """m ← b1 m + (1 - b1) g,  v ← b2 v + (1 - b2) g²,  p ← p - lr (decay p + c1 m / (√(c2 v) + eps)).

    c1 = 1/(1 - b1ᵗ) and c2 = 1/(1 - b2ᵗ) undo the pull of the zeros that m and v start from. The decay is decoupled:
    it is not part of g, so that √v does not divide it. With decay = 0 this is Adam.
    Source: Kingma & Ba 2015, arXiv:1412.6980, algorithm 1; Loshchilov & Hutter 2019, arXiv:1711.05101, algorithm 2.
    """
    m *= b1
    m += (1 - b1) * g
    v *= b2
    v += (1 - b2) * np.square(g)
    change = np.sqrt(c2 * v)
    change += eps
    np.divide(m, change, out=change)
    change *= lr * c1
    if decay:
        p *= 1 - lr * decay
    p -= change
