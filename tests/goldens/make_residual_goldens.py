"""Make residual_goldens.npz with PyTorch: the reference values of tests/residual/test_goldens.py.

Run from the project's folder: python tests/goldens/make_residual_goldens.py (PyTorch is needed here, not by the tests).

The rules whose coefficients are computed (Hyper-Connections, mHC, Attention Residuals, a mixture of experts' router)
are written a second time, in PyTorch, straight from the equations of their papers with einsum, and differentiated by
autograd. Parameters are drawn by name, so that neither side's initialiser matters; branches are tanh(LN(h) W). The file
holds the output and the gradient of ⟨R, y⟩ for the input and for every parameter, in float64.
"""

import itertools
import zlib
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
B, T, D, BLOCKS, EPS = 2, 3, 5, 3, 1e-5
RULES = {
    "hyper_connections": "layernorm",
    "dynamic_hyper_connections": "layernorm",
    "mhc": "rmsnorm",
    "mhc_permutations": "rmsnorm",
    "attention_residuals": "rmsnorm",
    "block_attention_residuals": "rmsnorm",
}
CASES = [*RULES, "moe"]


def drawn(name, shape):
    """Random numbers that depend on the name only: norms' gains around 1, everything else around 0."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return ("gamma" in name or "gains" in name) + 0.4 * rng.standard_normal(shape)


def blocks_of(case):
    return 9 if case == "block_attention_residuals" else BLOCKS  # 18 sublayers: eight blocks of two or three


def ours(case):
    """What is tested: (function of a tensor, its parameters by name, input)."""
    from minires.nn import Maker, MixtureOfExperts, get_norm
    from minires.residual import get_connection, transformer_sites

    make, x = Maker.of(0, "xavier", np.float64), drawn("input", (B, T, D))
    if case == "moe":
        module = MixtureOfExperts(D, 4, make, experts=4, top_k=2)
        function = module
    else:
        sites = transformer_sites(blocks_of(case))
        module = get_connection(case)(sites, D, get_norm(RULES[case]), make)
        function = through(module, sites)
    module.load_state_dict({name: drawn(name, p.shape) for name, p in module.named_parameters()})
    return function, dict(module.named_parameters()), x


def through(connection, sites):
    from minires.ops import tanh

    def run(x):
        stream = connection.open(x)
        for site in sites:
            W = drawn(f"branch.{site.k}", (D, D))
            stream = connection.step(stream, site, lambda h, W=W: tanh(h @ W))
        return connection.close(stream)

    return run


def gradients(case):
    """Output and gradients by name, from minires."""
    from minires.tensor import Tensor, grad

    function, parameters, x = ours(case)
    leaf = Tensor(x, requires_grad=True)
    y = function(leaf)
    loss = (y * drawn("upstream", y.shape)).sum()
    found = grad(loss, [leaf, *parameters.values()])
    return {"output": y.data, **dict(zip(["input", *parameters], found, strict=True))}


# ------------------------------------------------------------------------------------------------ PyTorch's side


def layernorm(x, gamma, beta):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + EPS).sqrt() * gamma + beta


def rmsnorm(x, gamma=1.0, eps=EPS):
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * gamma


def sinkhorn(logits, steps=20):
    """exp, then columns first and rows last, `steps` times (arXiv:2512.24880, eq. 9)."""
    M = logits.exp()
    for _ in range(steps):
        M = M / M.sum(-2, keepdim=True)
        M = M / M.sum(-1, keepdim=True)
    return M


def branch(h, k):
    import torch

    return torch.tanh(h @ torch.tensor(drawn(f"branch.{k}", (D, D))))


def hyper(p, x, dynamic):
    """arXiv:2409.19606, eq. 1-5 and 10-13, one site after the other."""
    import torch

    n = 4
    H = x.unsqueeze(-2).expand(*x.shape[:-1], n, D)
    for k in range(2 * BLOCKS):
        A_m, A_r, beta = p[f"read_weights.{k}"], p[f"mix_weights.{k}"], p[f"write_weights.{k}"]
        A = torch.cat([A_m[:, None], A_r], dim=1).expand(*x.shape[:-1], n, n + 1)
        beta = beta.expand(*x.shape[:-1], n)
        if dynamic:
            normed = layernorm(H, p[f"weight_norms.{k}.gamma"], p[f"weight_norms.{k}.beta"])
            A = A + p[f"mix_scales.{k}"] * torch.tanh(normed @ p[f"dynamic_mix.{k}"])
            beta = beta + p[f"write_scales.{k}"] * torch.tanh(normed @ p[f"dynamic_write.{k}"])[..., 0]
        h = torch.einsum("btn,btnd->btd", A[..., 0], H)
        o = branch(layernorm(h, p[f"norms.{k}.gamma"], p[f"norms.{k}.beta"]), k)
        H = torch.einsum("btnm,btnd->btmd", A[..., 1:], H) + torch.einsum("btm,btd->btmd", beta, o)
    return layernorm(H.sum(-2), p["final_norm.gamma"], p["final_norm.beta"])


def mhc(p, x, permutations):
    """arXiv:2512.24880, eq. 7-9; with `permutations`, H_res is a mixture of them (arXiv:2601.05732)."""
    import torch

    n = 4
    X = x.unsqueeze(-2).expand(*x.shape[:-1], n, D)
    perms = torch.stack([torch.eye(n, dtype=x.dtype)[list(q)] for q in itertools.permutations(range(n))])
    for k in range(2 * BLOCKS):
        v = rmsnorm(X.reshape(*x.shape[:-1], n * D), eps=1e-20)
        phi, b, a = p[f"phis.{k}"], p[f"biases.{k}"], p[f"gates.{k}"]
        pre = torch.sigmoid(a[0] * (v @ phi[:, :n]) + b[:n])
        post = 2 * torch.sigmoid(a[1] * (v @ phi[:, n : 2 * n]) + b[n : 2 * n])
        raw = a[2] * (v @ phi[:, 2 * n :]) + b[2 * n :]
        if permutations:
            res = torch.einsum("btp,pmn->btmn", raw.softmax(-1), perms)
        else:
            res = sinkhorn(raw.reshape(*raw.shape[:-1], n, n))
        f = branch(rmsnorm(torch.einsum("btn,btnd->btd", pre, X), p[f"norms.{k}.gamma"]), k)
        X = torch.einsum("btmn,btnd->btmd", res, X) + torch.einsum("btm,btd->btmd", post, f)
    return rmsnorm(X.sum(-2), p["final_norm.gamma"])


def attention_residuals(p, x, block):
    """arXiv:2603.15031: softmax over depth, queries that do not depend on the token; block: sublayers per plain sum."""
    import torch

    def attend(k, sources):
        V = torch.stack(sources)
        a = torch.einsum("d,sbtd->sbt", p[f"queries.{k}"], rmsnorm(V, p[f"key_gains.{k}"])).softmax(0)
        return torch.einsum("sbt,sbtd->btd", a, V)

    K, sources = 2 * (BLOCKS if block == 1 else 9), [x]
    for k in range(K):
        f = branch(rmsnorm(attend(k, sources), p[f"norms.{k}.gamma"]), k)
        sources = [*sources, f] if k % block == 0 else [*sources[:-1], sources[-1] + f]
    return rmsnorm(attend(K, sources), p["final_norm.gamma"])


def moe(p, x):
    """arXiv:2401.04088: softmax over the two largest router logits; here every expert sees every token."""
    import torch
    from torch.nn.functional import silu

    logits = x @ p["router"]
    best = logits.topk(2, dim=-1).indices
    weight = torch.full_like(logits, -torch.inf).scatter(-1, best, logits.gather(-1, best)).softmax(-1)
    W1, W3, W2 = (torch.stack([p[f"experts.{i}.{name}_weight"] for i in range(4)]) for name in ("gate", "in", "out"))
    hidden = silu(torch.einsum("btd,edh->ebth", x, W1)) * torch.einsum("btd,edh->ebth", x, W3)
    return torch.einsum("bte,ebth,ehd->btd", weight, hidden, W2)


THEIRS = {
    "hyper_connections": lambda p, x: hyper(p, x, dynamic=False),
    "dynamic_hyper_connections": lambda p, x: hyper(p, x, dynamic=True),
    "mhc": lambda p, x: mhc(p, x, permutations=False),
    "mhc_permutations": lambda p, x: mhc(p, x, permutations=True),
    "attention_residuals": lambda p, x: attention_residuals(p, x, block=1),
    "block_attention_residuals": lambda p, x: attention_residuals(p, x, block=3),
    "moe": moe,
}


def torch_gradients(case):
    """Output and gradients by our parameter names, from PyTorch."""
    import torch

    _, parameters, x = ours(case)
    p = {name: torch.tensor(array.data.copy(), requires_grad=True) for name, array in parameters.items()}
    leaf = torch.tensor(x, requires_grad=True)
    y = THEIRS[case](p, leaf)
    (y * torch.tensor(drawn("upstream", tuple(y.shape)))).sum().backward()
    found = {name: np.zeros(v.shape) if v.grad is None else v.grad.numpy() for name, v in p.items()}
    return {"output": y.detach().numpy(), "input": leaf.grad.numpy(), **found}


def main():
    import torch

    arrays = {f"{case}/{name}": array for case in CASES for name, array in torch_gradients(case).items()}
    np.savez_compressed(HERE / "residual_goldens.npz", **arrays, torch_version=np.array(torch.__version__))
    print(f"{len(arrays)} arrays from PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
