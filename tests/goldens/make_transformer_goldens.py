"""Make transformer_goldens.npz and optimizer_goldens.npz with PyTorch: values for tests/models and tests/train.

Run from the project's folder: python tests/goldens/make_transformer_goldens.py (only this script needs PyTorch).

The networks are PyTorch's own modules (nn.TransformerEncoder with norm_first or not), float64, 12 blocks, d = 16. Their
weights are drawn by name, so that neither side's initialiser matters. The files hold only loss and gradients.
"""

import zlib
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
SIZES = dict(vocab=11, d=16, heads=4, blocks=12, context=7, hidden=24)
CASES = [(kind, norm) for kind in ("decoder", "encoder") for norm in ("pre_norm", "post_norm")]
PADDING = 0


def our_model(kind, connection):
    """The model under test with drawn weights."""
    from minires.models import DecoderLM, Encoder

    if kind == "decoder":
        model = DecoderLM(**SIZES, connection=connection, dtype=np.float64)
    else:
        model = Encoder(**SIZES, connection=connection, padding=PADDING, dtype=np.float64)
    model.load_state_dict({name: drawn(name, p.shape) for name, p in model.named_parameters()})
    return model


def drawn(name, shape):
    """Random weights that depend on the name only: gains around 1, everything else around 0."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return (name.endswith("gamma")) + 0.3 * rng.standard_normal(shape)


def batch():
    """ids, targets and segments, (3, 7), with padding at the ends of two rows and ignored targets."""
    rng = np.random.default_rng(0)
    ids, targets, segments = rng.integers(1, 11, (3, 7)), rng.integers(0, 11, (3, 7)), rng.integers(0, 2, (3, 7))
    ids[1, 5:] = ids[2, 3:] = PADDING
    targets[ids == PADDING] = -100
    return ids, targets, segments


# ------------------------------------------------------------------------------------------------ PyTorch's side


def torch_gradients(kind, connection):
    """Loss and gradients by our parameter names."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    state = {
        name: torch.tensor(array, requires_grad=True)
        for name, array in our_model(kind, connection).state_dict().items()
    }
    ids, targets, segments = (torch.tensor(a) for a in batch())
    decoder, pre = kind == "decoder", connection == "pre_norm"
    layer = nn.TransformerEncoderLayer(
        SIZES["d"], SIZES["heads"], SIZES["hidden"], dropout=0.0, norm_first=pre, batch_first=True, dtype=torch.float64,
        activation=(lambda x: F.gelu(x, approximate="tanh")) if decoder else "gelu",
    )  # fmt: skip
    final = nn.LayerNorm(SIZES["d"], dtype=torch.float64) if pre else None
    stack = nn.TransformerEncoder(layer, SIZES["blocks"], norm=final, enable_nested_tensor=False)
    x = state["tokens.table"][ids] + state["positions"][: ids.shape[1]]
    mask = torch.ones(7, 7, dtype=torch.bool).triu(1) if decoder else None
    ignored = None if decoder else ids == PADDING
    if not decoder:
        x = layer_norm(x + state["segments.table"][segments], state, "embedding_norm")
    options = dict(mask=mask, src_key_padding_mask=ignored)
    y = torch.func.functional_call(stack, torch_names(state, pre), (x,), options, tie_weights=False)
    if decoder:
        logits = y @ state["head.weight"]
    else:
        hidden = F.gelu(y @ state["transform.weight"] + state["transform.bias"])
        logits = layer_norm(hidden, state, "transform_norm") @ state["tokens.table"].T + state["head_bias"]
    loss = F.cross_entropy(logits.reshape(-1, SIZES["vocab"]), targets.reshape(-1), ignore_index=-100)
    gradients = torch.autograd.grad(loss, list(state.values()))
    return loss.item(), {name: g.numpy() for name, g in zip(state, gradients, strict=True)}


def layer_norm(x, state, name):
    from torch.nn import functional as F

    return F.layer_norm(x, x.shape[-1:], state[f"{name}.gamma"], state[f"{name}.beta"])


def torch_names(state, pre):
    """Our arrays under the names of nn.TransformerEncoder; its weights are (out, in)."""
    named = {}
    for block in range(SIZES["blocks"]):
        attention, ffn = f"stack.sublayers.{2 * block}.", f"stack.sublayers.{2 * block + 1}."
        for theirs, ours in (
            ("self_attn.in_proj_weight", attention + "qkv_weight"), ("self_attn.in_proj_bias", attention + "qkv_bias"),
            ("self_attn.out_proj.weight", attention + "out_weight"),
            ("self_attn.out_proj.bias", attention + "out_bias"),
            ("linear1.weight", ffn + "in_weight"), ("linear1.bias", ffn + "in_bias"),
            ("linear2.weight", ffn + "out_weight"), ("linear2.bias", ffn + "out_bias"),
            ("norm1.weight", f"stack.connection.norms.{2 * block}.gamma"),
            ("norm1.bias", f"stack.connection.norms.{2 * block}.beta"),
            ("norm2.weight", f"stack.connection.norms.{2 * block + 1}.gamma"),
            ("norm2.bias", f"stack.connection.norms.{2 * block + 1}.beta"),
        ):  # fmt: skip
            named[f"layers.{block}.{theirs}"] = state[ours].T if state[ours].ndim == 2 else state[ours]
    if pre:
        named["norm.weight"] = state["stack.connection.final_norm.gamma"]
        named["norm.bias"] = state["stack.connection.final_norm.beta"]
    return named


# ------------------------------------------------------------------------------------------------- optimisers

OPTIMIZERS = {
    "sgd": ("SGD", dict(lr=0.05)),
    "momentum": ("SGD", dict(lr=0.05, momentum=0.9)),
    "nesterov_decay": ("SGD", dict(lr=0.02, momentum=0.8, nesterov=True, weight_decay=0.1)),
    "adam": ("Adam", dict(lr=0.05, betas=(0.8, 0.95), eps=1e-6)),
    "adamw": ("AdamW", dict(lr=0.05, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.2)),
}
STEPS = 40


def start():
    """A weight (5, 4), which decays, and a bias (4,), which does not."""
    rng = np.random.default_rng(1)
    return rng.standard_normal((5, 4)), rng.standard_normal(4)


def gradients_at(step):
    """The same noise for both sides: gradients need not come from a loss to test an optimiser."""
    rng = np.random.default_rng([2, step])
    return rng.standard_normal((5, 4)) * 10 ** rng.uniform(-4, 1), rng.standard_normal(4)


def torch_trajectory(name, settings):
    """Weight and bias side by side after every step: (STEPS, 24)."""
    import torch

    weight, bias = (torch.tensor(a, requires_grad=True) for a in start())
    groups = [dict(params=[weight]), dict(params=[bias], weight_decay=0.0)]
    optimizer = getattr(torch.optim, name)(groups, **settings)
    rows = []
    for step in range(STEPS):
        weight.grad, bias.grad = (torch.tensor(g) for g in gradients_at(step))
        optimizer.step()
        rows.append(np.concatenate([weight.detach().numpy().reshape(-1), bias.detach().numpy()]))
    return np.stack(rows)


def main():
    import torch

    torch.set_num_threads(1)
    version = np.array(f"PyTorch {torch.__version__}")
    arrays = {"made_with": version}
    for kind, connection in CASES:
        loss, gradients = torch_gradients(kind, connection)
        arrays[f"{kind}/{connection}/loss"] = np.float64(loss)
        arrays |= {f"{kind}/{connection}/{name}": g for name, g in gradients.items()}
    np.savez_compressed(HERE / "transformer_goldens.npz", **arrays)
    rows = {key: torch_trajectory(name, settings) for key, (name, settings) in OPTIMIZERS.items()}
    np.savez_compressed(HERE / "optimizer_goldens.npz", made_with=version, **rows)


if __name__ == "__main__":
    main()
