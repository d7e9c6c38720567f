"""Make ops_goldens.npz with PyTorch: values and gradients of the operations, for tests/ops/test_goldens.py.

Run from the project's folder: python tests/goldens/make_ops_goldens.py (PyTorch is needed here, not by the tests).

Inputs and upstream gradients are drawn by name in float64, on both sides by the functions below, so that the file holds
only what PyTorch computed: the result and the gradient of every input.
"""

import zlib
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
B, H, T, S, D = 2, 2, 5, 7, 6
CLASSES = 9


def drawn(name, shape):
    """Random numbers that depend on the name only."""
    return np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape)


def targets():
    ids = np.random.default_rng(5).integers(0, CLASSES, (B, T))
    ids[0, 3:] = -100
    return ids


def mask(*shape):
    """Booleans with at least one True in every row."""
    allowed = np.random.default_rng(6).random(shape) < 0.5
    allowed[..., 0] = True
    return allowed


ROWS = {"x": (B, T, D)}
HEADS = {"q": (B, H, T, D), "k": (B, H, S, D), "v": (B, H, S, 4)}
LOGITS = {"logits": (B, T, CLASSES)}

# name: (operation, shapes of its inputs in order, options by our names)
CASES = {
    "layernorm": ("layernorm", {**ROWS, "gamma": (D,), "beta": (D,)}, {"eps": 1e-5}),
    "layernorm without parameters": ("layernorm", ROWS, {"eps": 1e-3}),
    "rmsnorm": ("rmsnorm", {**ROWS, "gamma": (D,)}, {"eps": 1e-6}),
    "softmax": ("softmax", ROWS, {"axis": -1}),
    "softmax over the first axis": ("softmax", ROWS, {"axis": 0}),
    "log_softmax": ("log_softmax", ROWS, {"axis": -1}),
    "gelu": ("gelu", ROWS, {}),
    "gelu_tanh": ("gelu_tanh", ROWS, {}),
    "silu": ("silu", ROWS, {}),
    "relu": ("relu", ROWS, {}),
    "attention": ("attention", HEADS, {}),
    "attention, causal": ("attention", HEADS, {"causal": True}),
    "attention, padding": ("attention", HEADS, {"mask": mask(B, 1, 1, S)}),
    "attention, any mask": ("attention", HEADS, {"mask": mask(B, H, T, S)}),
    "attention, bias": ("attention", HEADS, {"bias": drawn("bias", (H, T, S))}),
    "attention, scale": ("attention", HEADS, {"scale": 0.3}),
    "cross_entropy": ("cross_entropy", LOGITS, {}),
    "cross_entropy, smoothed": ("cross_entropy", LOGITS, {"label_smoothing": 0.1}),
    "cross_entropy, another index ignored": ("cross_entropy", LOGITS, {"ignore_index": 3}),
    "linear": ("linear", {**ROWS, "w": (D, 4), "b": (4,)}, {}),
    "embedding": ("embedding", {"table": (CLASSES, D)}, {}),
    "logsumexp": ("logsumexp", ROWS, {"axis": 1}),
    "var": ("var", ROWS, {"axis": (0, 2)}),
}


def inputs_of(case):
    return {name: drawn(f"{case} {name}", shape) for name, shape in CASES[case][1].items()}


# ------------------------------------------------------------------------------------------------ PyTorch's side


def torch_functions():
    import torch
    from torch.nn import functional as F

    def attention(q, k, v, mask=None, causal=False, scale=None, bias=None):
        allowed = mask if mask is None else torch.tensor(mask)
        allowed = allowed if bias is None else torch.tensor(bias)
        return F.scaled_dot_product_attention(q, k, v, allowed, is_causal=causal, scale=scale)

    def cross_entropy(logits, ignore_index=-100, label_smoothing=0.0):
        ids = torch.tensor(targets() if ignore_index == -100 else np.maximum(targets(), 0))
        return F.cross_entropy(logits.mT, ids, ignore_index=ignore_index, label_smoothing=label_smoothing)

    return {
        "layernorm": lambda x, gamma=None, beta=None, eps=1e-5: F.layer_norm(x, (D,), gamma, beta, eps),
        "rmsnorm": lambda x, gamma, eps: F.rms_norm(x, (D,), gamma, eps),
        "softmax": lambda x, axis: torch.softmax(x, axis),
        "log_softmax": lambda x, axis: torch.log_softmax(x, axis),
        "gelu": F.gelu,
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "silu": F.silu,
        "relu": F.relu,
        "attention": attention,
        "cross_entropy": cross_entropy,
        "linear": lambda x, w, b: F.linear(x, w.T, b),
        "embedding": lambda table: F.embedding(torch.tensor(np.maximum(targets(), 0)), table),
        "logsumexp": lambda x, axis: torch.logsumexp(x, axis),
        "var": lambda x, axis: torch.var(x, axis, correction=0),
    }


def torch_results(case):
    """The result, and the gradient of every input, for the upstream gradient `upstream`."""
    import torch

    operation, _, options = CASES[case]
    leaves = {name: torch.tensor(x, requires_grad=True) for name, x in inputs_of(case).items()}
    y = torch_functions()[operation](*leaves.values(), **options)
    y.backward(torch.tensor(drawn(f"{case} upstream", tuple(y.shape))))
    found = {f"{case}: d{name}": x.grad.numpy() for name, x in leaves.items()}
    return {f"{case}: y": y.detach().numpy(), **found}


if __name__ == "__main__":
    import torch

    results = {"torch version": np.array(torch.__version__)}
    for case in CASES:
        results.update(torch_results(case))
    np.savez_compressed(HERE / "ops_goldens.npz", **results)
    print(f"{len(CASES)} cases, {len(results) - 1} arrays, PyTorch {torch.__version__}")
