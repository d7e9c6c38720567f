"""Instruments on a model: gradients, the stream, attention, paths, lesions, weights, wiring, the graph.

Every instrument takes a model, runs it and returns plain data with a `draw()`. Where a definition means nothing for a
rule, it says why.
"""

from minires.probes.ablate import Ablation, ablation
from minires.probes.attribution import Attribution, logit_attribution
from minires.probes.composite import Composite, composite_gain, composite_of, mixing_matrices
from minires.probes.dependency import Dependency, layer_dependency
from minires.probes.gradient import (
    Decomposition,
    GradientFlow,
    gradient_flow,
    inverse_size_product,
    layernorm_jacobian,
    record,
    skip_branch_decomposition,
    skip_path_product,
    state_gradients,
)
from minires.probes.graph import draw_graph
from minires.probes.heads import HeadPatterns, attention_maps, head_outputs, head_patterns
from minires.probes.lens import Lens, TunedLens, logit_lens, tuned_lens
from minires.probes.lesion import Damage, Lesions, Pruning, delete_random, kendall_tau, lesions, prune, shuffle
from minires.probes.paths import Paths, SampledPaths, path_gradients, sampled_paths
from minires.probes.quantize import Quantization, quantization, rounded
from minires.probes.running import Pass, forward, rearranged
from minires.probes.spectrum import ComposedNorms, Spectrum, composed_norms, jacobian_spectrum
from minires.probes.stream import (
    Collapse,
    Contribution,
    Growth,
    Similarity,
    activation_growth,
    contribution,
    rank_collapse,
    similarity,
)
from minires.probes.update import Update, UpdateBound, amplification, expected_update, update_bound, update_size
from minires.probes.verdicts import Fault, Wiring
from minires.probes.weights import Composition, MemoryNeurons, composition_scores, memory_neurons, virtual_weight
from minires.probes.wiring import wiring, wiring_of

__all__ = [
    "Ablation", "Attribution", "Collapse", "ComposedNorms", "Composite", "Composition", "Contribution", "Damage",
    "Decomposition", "Dependency", "Fault", "GradientFlow", "Growth", "HeadPatterns", "Lens", "Lesions",
    "MemoryNeurons", "Pass", "Paths", "Pruning", "Quantization", "SampledPaths", "Similarity", "Spectrum",
    "TunedLens", "Update", "UpdateBound", "Wiring", "ablation", "activation_growth", "amplification",
    "attention_maps", "composed_norms", "composite_gain", "composite_of", "composition_scores", "contribution",
    "delete_random", "draw_graph", "expected_update", "forward", "gradient_flow", "head_outputs", "head_patterns",
    "inverse_size_product", "jacobian_spectrum", "kendall_tau", "layer_dependency", "layernorm_jacobian", "lesions",
    "logit_attribution", "logit_lens", "memory_neurons", "mixing_matrices", "path_gradients", "prune", "quantization",
    "rank_collapse", "rearranged", "record", "rounded", "sampled_paths", "shuffle", "similarity",
    "skip_branch_decomposition", "skip_path_product", "state_gradients", "tuned_lens", "update_bound", "update_size",
    "virtual_weight", "wiring", "wiring_of",
]  # fmt: skip
