"""Recipes: what people list, compare and train.

A recipe puts small pieces together: a connection, an initialisation gain per role, learning-rate factors, optional
pieces inside the sublayers, and a calibration pass. A rule from your own file joins with `register` and `add_recipe`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from minires.messages import UnknownName, ValueProblem
from minires.models.notes import NOTES
from minires.models.transformer import DecoderLM
from minires.nn import Extras, Init, Parameter, get_init
from minires.nn.init import Gain, no_gain, residual_scaling
from minires.nn.sublayers import NO_EXTRAS
from minires.residual import get_connection, parts_of
from minires.residual.admin import Admin
from minires.residual.deepnorm import deepnorm_gain


@dataclass(frozen=True)
class Recipe:
    """One named way to build a deep network.

    connection: a rule's name. norm: the class of its norms. gain(N): the factor on each weight by role, for N blocks.
    lr_scale(name, parameter, N): a factor on each parameter's learning rate. extras: optional pieces in the sublayers.
    calibrate(model, ids): runs once before training. init: the scheme if the recipe prescribes one, else the caller's.
    adjust(model): a last change of the fresh weights. note: what it adds to its connection, in one line.
    doc: what is to be known of it, in the form of a rule's docstring; the connection's own docstring if it is empty.
    """

    name: str
    connection: str
    source: str
    norm: str = "layernorm"
    init: str | None = None
    gain: Callable[[int], Gain] = lambda blocks: no_gain
    lr_scale: Callable[[str, Parameter, int], float] | None = None
    extras: Extras = NO_EXTRAS
    calibrate: Callable[[DecoderLM, np.ndarray], Any] | None = None
    adjust: Callable[[DecoderLM], None] | None = None
    note: str = ""
    doc: str = ""

    def parts(self) -> dict[str, str]:
        """Equation, derivative, initialisation, source, discrepancy: see `minires.residual.parts_of`."""
        return parts_of(self.doc or get_connection(self.connection).__doc__ or "")

    @property
    def equation(self) -> str:
        """The connection's rule, and what the recipe adds to it."""
        rule = get_connection(self.connection).equation
        return f"{rule}; {self.note}" if self.note else rule

    def initialiser(self, init: str | Init | None, blocks: int) -> Init:
        """The recipe's own scheme, or the caller's, with the recipe's gain on top."""
        base, gain = get_init(self.init or init or "xavier"), self.gain(blocks)
        return dataclasses.replace(
            base, gain=lambda role, sublayers: base.gain(role, sublayers) * gain(role, sublayers)
        )

    def build(
        self, vocab: int, blocks: int, *, init: str | Init | None = None, ids: np.ndarray | None = None, **options: Any
    ):
        """A `DecoderLM` built by this recipe; options as for `DecoderLM`.

        ids: (B, T), a batch for the calibration pass.
        """
        options.setdefault("norm", self.norm)
        model = DecoderLM(
            vocab,
            blocks=blocks,
            connection=self.connection,
            init=self.initialiser(init, blocks),
            extras=self.extras,
            **options,
        )
        if self.adjust is not None:
            self.adjust(model)
        if self.lr_scale is not None:
            for name, parameter in model.named_parameters():
                parameter.lr_scale = self.lr_scale(name, parameter, blocks)
        if self.calibrate is not None:
            self.calibrate(model, ids if ids is not None else _any_ids(model))
        return model


def _any_ids(model: DecoderLM) -> np.ndarray:
    return np.random.default_rng(0).integers(0, model.vocab, (4, min(model.context, 32)))


# --------------------------------------------------------------------------------------------- the small pieces


def sub_ln_gain_constants(encoder: int = 0, decoder: int = 0) -> dict[str, float]:
    """sub-LN's gain for W_1, W_2, W_V, W_O. One stack of N blocks: √(ln 2N); encoder N and decoder M together:
    √(ln(3M) ln(2N)/3) and √(ln 3M). Source: Magneto, arXiv:2210.06423.

    Raises ValueProblem if both counts are 0.
    """
    if not encoder and not decoder:
        raise ValueProblem("at least one stack must have blocks", "0 and 0", "Pass encoder=N, decoder=M, or both.")
    if encoder and decoder:
        shared = math.log(3 * decoder)
        return {"encoder": math.sqrt(shared * math.log(2 * encoder) / 3), "decoder": math.sqrt(shared)}
    return {"encoder" if encoder else "decoder": math.sqrt(math.log(2 * (encoder or decoder)))}


def sub_ln_gain(blocks: int) -> Gain:
    """√(ln 2N) for value, attention output and both FFN weights (0.83 for one block, 2.14 for 48)."""
    gain = sub_ln_gain_constants(decoder=blocks)["decoder"]
    return lambda role, sublayers: gain if role in ("value", "attn_out", "ffn_in", "ffn_out") else 1.0


def t_fixup_gain(blocks: int) -> Gain:
    """T-Fixup: 0.67 N^-¼ on W_V, W_O, W_1, W_2 and (9N)^-¼ on the embeddings, which start as N(0, 1/d).

    These are the encoder's constants, derived for blocks of two sublayers, which is what our decoder-only blocks have;
    T-Fixup's decoder, with a third sublayer for cross-attention, has (9M)^-¼ on the weights as well.
    Source: Huang et al. 2020 (ICML), sections 3.2-3.3.
    """
    weights, tables = 0.67 * blocks**-0.25, (9 * blocks) ** -0.25
    factors: dict[str, float] = dict.fromkeys(("value", "attn_out", "ffn_in", "ffn_out"), weights)
    factors |= {"embedding": tables, "position": tables}
    return lambda role, sublayers: factors.get(role, 1.0)


def fixup_gain(blocks: int) -> Gain:
    """Fixup with m = 2 weight layers per branch and K = 2N branches: the last one 0, the first × K^(-1/(2m-2)) = K^-½.

    For attention the value projection is the first layer and the output projection the last; the head starts at 0 too.
    Source: Zhang et al. 2019, arXiv:1901.09321.
    """
    first = (2 * blocks) ** -0.5
    factors = {"value": first, "ffn_in": first, "attn_out": 0.0, "ffn_out": 0.0, "head": 0.0}
    return lambda role, sublayers: factors.get(role, 1.0)


def scaled_gain(blocks: int) -> Gain:
    """GPT-2's 1/√K on the weights that write to the stream."""
    return residual_scaling


def depth_mup_lr(name: str, parameter: Parameter, blocks: int) -> float:
    """Depth-μP for Adam: the learning rate of the sublayers' weights × 1/√K, K = 2N; norms keep theirs."""
    return 1 / math.sqrt(2 * blocks) if name.startswith("stack.sublayers") else 1.0


def admin_profile(model: DecoderLM, ids: np.ndarray) -> list[float]:
    """Admin's profiling pass on one batch."""
    connection = model.stack.connection
    assert isinstance(connection, Admin)
    return connection.profile(lambda: model(ids))


def identity_value_path(model: DecoderLM) -> None:
    """Start every sublayer near the identity: attention averages what it looks at (W_V W_O = I), and the FFN returns
    its input, act(x) - act(-x) = x, plus a tenth of the usual weights. Needs hidden ≥ 2d.
    """
    d, pair = model.d, np.concatenate([np.eye(model.d), -np.eye(model.d)])  # (2d, d)
    sublayers: list[Any] = model.stack.sublayers
    for attention, feed_forward in zip(sublayers[::2], sublayers[1::2], strict=True):
        attention.qkv_weight.data[:, 2 * d :] = np.eye(d)
        attention.out_weight.data[...] = np.eye(d)
        for weight in (feed_forward.in_weight, feed_forward.out_weight):
            weight.data[...] *= 0.1
        feed_forward.in_weight.data[:, : 2 * d] = pair.T
        feed_forward.out_weight.data[: 2 * d] = pair


# --------------------------------------------------------------------------------------------------- the recipes

RECIPES: dict[str, Recipe] = {}


def add_recipe(recipe: Recipe) -> Recipe:
    """Make a recipe available by name, from any file. Raises ValueProblem if the name is taken by another one."""
    if RECIPES.get(recipe.name, recipe) != recipe:
        raise ValueProblem(
            "a recipe's name must be new", f"{recipe.name!r}, which exists", "Choose another name for yours."
        )
    RECIPES[recipe.name] = recipe
    return recipe


def get_recipe(name: str | Recipe) -> Recipe:
    """A recipe by name; a recipe passes through. Raises UnknownName."""
    if isinstance(name, Recipe):
        return name
    if name not in RECIPES:
        raise UnknownName("recipe", name, RECIPES)
    return RECIPES[name]


_MOE = Extras(experts=4, top_k=2)
_NORMFORMER = Extras(head_scale=True, attention_norm=True, inner_norm=True)
_SUB_LN = Extras(head_norm=True, inner_norm=True)
_VALUE = Extras(value_residual=True)

for _recipe in (
    Recipe("plain", "plain", "He et al. 2015, arXiv:1512.03385, the plain networks"),
    Recipe("none", "none", "control: no residual, but a norm"),
    Recipe(
        "none_identity", "none", "control: the route without a residual", adjust=identity_value_path,
        note="weights start near the identity: W_V W_O = I, FFN(x) ≈ x",
    ),
    Recipe("residual", "residual", "He et al. 2015, arXiv:1512.03385"),
    Recipe("residual_inverse_sqrt_depth", "residual_inverse_sqrt_depth", "no norm, branches × 1/√K"),
    Recipe("highway", "highway", "Srivastava et al. 2015, arXiv:1505.00387"),
    Recipe("post_norm", "post_norm", "Vaswani et al. 2017, arXiv:1706.03762"),
    Recipe("pre_norm", "pre_norm", "Xiong et al. 2020, arXiv:2002.04745"),
    Recipe("pre_norm_rms", "pre_norm", "arXiv:1910.07467", norm="rmsnorm", note="RMSNorm"),
    Recipe("pre_norm_dyt", "pre_norm", "arXiv:2503.10622", norm="dyt", note="DyT: γ tanh(αx) + β in the place of LN"),
    Recipe(
        "pre_norm_gpt2", "pre_norm", "Radford et al. 2019", init="gpt2", gain=scaled_gain,
        note="weights N(0, 0.02²), those that write to the stream × 1/√K",
    ),
    Recipe("sandwich", "sandwich", "CogView, arXiv:2105.13290"),
    Recipe("peri_ln", "peri_ln", "arXiv:2502.02732"),
    Recipe("residual_dual", "residual_dual", "ResiDual, arXiv:2304.14802"),
    Recipe(
        "deepnorm", "deepnorm", "arXiv:2203.00555", init="xavier_normal", gain=deepnorm_gain,
        note="W_V, W_O, W_1, W_2 × β = (8N)^-¼",
    ),
    Recipe("admin", "admin", "arXiv:2004.08249", calibrate=admin_profile),
    Recipe("layerscale", "layerscale", "CaiT, arXiv:2103.17239"),
    Recipe("rezero", "rezero", "arXiv:2003.04887"),
    Recipe("skipinit", "skipinit", "arXiv:2002.10444"),
    Recipe("fixup", "fixup", "arXiv:1901.09321", init="he", gain=fixup_gain),
    Recipe(
        "t_fixup", "residual", "Huang et al. 2020 (ICML)", init="t_fixup", gain=t_fixup_gain,
        note="W_V, W_O, W_1, W_2 × 0.67 N^-¼, embeddings (9N)^-¼ N(0, 1/d)",
    ),
    Recipe("inverse_sqrt_depth", "inverse_sqrt_depth", "a fixed 1/√K on the branch"),
    Recipe(
        "depth_mup", "inverse_sqrt_depth", "arXiv:2310.02244", lr_scale=depth_mup_lr,
        note="Adam's learning rate × 1/√K in the stack",
    ),
    Recipe("layernorm_scaling", "layernorm_scaling", "arXiv:2502.05795"),
    Recipe(
        "normformer", "pre_norm", "arXiv:2110.09456", extras=_NORMFORMER,
        note="gain per head, LN after attention, LN after the FFN's activation",
    ),
    Recipe(
        "sub_ln", "pre_norm", "Magneto, arXiv:2210.06423", init="xavier_normal", gain=sub_ln_gain, extras=_SUB_LN,
        note="LN before every projection; W_V, W_O, W_1, W_2 × √(ln 2N)",
    ),
    Recipe("parallel", "parallel", "PaLM, arXiv:2204.02311"),
    Recipe(
        "moe", "pre_norm", "Mixtral, arXiv:2401.04088", norm="rmsnorm", extras=_MOE,
        note="FFN(h) = Σ p_i SwiGLU_i(h) over the best 2 of 4 experts",
    ),
    Recipe("value_residual", "pre_norm", "arXiv:2410.17897", extras=_VALUE, note="V ← λ₁ V_first + λ₂ V in attention"),
    Recipe("hyper_connections", "hyper_connections", "arXiv:2409.19606, static"),
    Recipe("dynamic_hyper_connections", "dynamic_hyper_connections", "arXiv:2409.19606, dynamic"),
    Recipe("mhc", "mhc", "arXiv:2512.24880", norm="rmsnorm"),
    Recipe("mhc_permutations", "mhc_permutations", "mHC-lite, arXiv:2601.05732", norm="rmsnorm"),
    Recipe("attention_residuals", "attention_residuals", "arXiv:2603.15031, full", norm="rmsnorm"),
    Recipe("block_attention_residuals", "block_attention_residuals", "arXiv:2603.15031, blocks", norm="rmsnorm"),
    Recipe("denseformer", "denseformer", "arXiv:2402.02622"),
    Recipe("laurel", "laurel", "arXiv:2411.07501, variants RW and LR"),
    Recipe("laurel_pa", "laurel_pa", "arXiv:2411.07501, variant PA"),
):  # fmt: skip
    add_recipe(dataclasses.replace(_recipe, doc=NOTES.get(_recipe.name, "")))
