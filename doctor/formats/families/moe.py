"""Models with experts: Qwen3-MoE and GLM4-MoE.

Names: Hugging Face modeling files; MindFormers' weight maps (``experts.weight1``/``weight2`` hold all experts
of a layer, transposed, gate and up side by side).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from doctor.formats.families.family import (
    MCORE,
    Family,
    Layout,
    Sizes,
    group,
    identity,
    layer,
    number,
    number_or,
    stacked,
)
from doctor.formats.families.llama import (
    ATTENTION,
    BIASES,
    EMBED,
    HEAD,
    MCORE_ENDS,
    MCORE_MLP,
    MCORE_NORMS,
    MCORE_OUT,
    MCORE_QK_NORMS,
    MLP,
    NORM,
    NORMS,
    QK_NORMS,
    mcore_qkv,
    symbols,
    tied,
)
from doctor.formats.families.ops import EXPERTS, EXPERTS_PAIR, EXPERTS_STACKED, EXPERTS_STACKED_PAIR, INTERLEAVED

_HF = "model.layers.{i}."
_MC = "decoder.layers.{i}."
EXPERT = {
    "mlp.experts.{e}.gate_proj.weight": "M H",
    "mlp.experts.{e}.up_proj.weight": "M H",
    "mlp.experts.{e}.down_proj.weight": "H M",
}
SHARED = {
    "mlp.shared_experts.gate_proj.weight": "S H",
    "mlp.shared_experts.up_proj.weight": "S H",
    "mlp.shared_experts.down_proj.weight": "H S",
}
MCORE_ROUTER = group(f"{_MC}mlp.router.weight", f"{_HF}mlp.gate.weight")
MCORE_ROUTER_BIAS = group(f"{_MC}mlp.router.expert_bias", f"{_HF}mlp.gate.e_score_correction_bias")
MCORE_EXPERTS = (
    group(
        f"{_MC}mlp.experts.weight1",
        (f"{_HF}mlp.experts.{{e}}.gate_proj.weight", f"{_HF}mlp.experts.{{e}}.up_proj.weight"),
        EXPERTS_PAIR,
    ),
    group(f"{_MC}mlp.experts.weight2", f"{_HF}mlp.experts.{{e}}.down_proj.weight", EXPERTS),
)
#: transformers 5 in memory: modeling_qwen3_moe.py, Qwen3MoeExperts (the same in GLM4-MoE and DeepSeek-V3).
STACKED_EXPERTS = (
    group(
        f"{_HF}mlp.experts.gate_up_proj",
        (f"{_HF}mlp.experts.{{e}}.gate_proj.weight", f"{_HF}mlp.experts.{{e}}.up_proj.weight"),
        EXPERTS_STACKED_PAIR,
    ),
    group(f"{_HF}mlp.experts.down_proj", f"{_HF}mlp.experts.{{e}}.down_proj.weight", EXPERTS_STACKED),
)
MCORE_SHARED = (
    group(
        f"{_MC}mlp.shared_experts.linear_fc1.weight",
        (f"{_HF}mlp.shared_experts.gate_proj.weight", f"{_HF}mlp.shared_experts.up_proj.weight"),
        INTERLEAVED,
    ),
    group(f"{_MC}mlp.shared_experts.linear_fc2.weight", f"{_HF}mlp.shared_experts.down_proj.weight"),
)

_QWEN3 = (
    EMBED,
    *layer(_HF, {**ATTENTION, **QK_NORMS, **NORMS}),
    *layer(_HF, MLP, "dense"),
    *layer(_HF, {"mlp.gate.weight": "E H", **EXPERT}, "moe"),
    NORM,
    HEAD,
)
_GLM4 = (
    EMBED,
    *layer(_HF, {**ATTENTION, **NORMS}),
    *layer(_HF, BIASES, "qkv_bias"),
    *layer(_HF, QK_NORMS, "qk_norm"),
    *layer(_HF, MLP, "dense"),
    *layer(_HF, {"mlp.gate.weight": "E H", "mlp.gate.e_score_correction_bias": "E", **EXPERT, **SHARED}, "moe"),
    NORM,
    HEAD,
)


def expert_sizes(config: Mapping[str, Any]) -> dict[str, int]:
    """E, M and S of a config."""
    experts = number(config, "num_experts", "n_routed_experts", "num_moe_experts", "num_local_experts")
    width = number(config, "moe_intermediate_size", "moe_ffn_hidden_size")
    shared = number_or(config, 1, "n_shared_experts")
    return {"E": experts, "M": width, "S": width * shared}


def head_features(config: Mapping[str, Any]) -> tuple[frozenset[str], frozenset[str]]:
    """Features that are there, and those left open."""
    one, none = frozenset({"head"}), frozenset[str]()
    return (none, one) if tied(config, False) else (one, none)


def qwen3_sizes(config: Mapping[str, Any]) -> Sizes:
    """``decoder_sparse_step`` and ``mlp_only_layers`` say which layers have experts."""
    layers = number(config, "num_hidden_layers")
    step = number_or(config, 1, "decoder_sparse_step")
    only = config.get("mlp_only_layers")
    plain = set(only) if isinstance(only, list) else set()
    kinds = tuple(
        frozenset({"moe" if (index + 1) % step == 0 and index not in plain else "dense"})
        for index in range(min(layers, 10_000))
    )
    there, left_open = head_features(config)
    return Sizes({**symbols(config), **expert_sizes(config)}, kinds, there, left_open)


def glm4_sizes(config: Mapping[str, Any]) -> Sizes:
    """The first ``first_k_dense_replace`` layers have no experts."""
    layers = number(config, "num_hidden_layers")
    dense = config.get("first_k_dense_replace", 1)
    start = dense if type(dense) is int else 1
    extra = {name for name, key in (("qkv_bias", "attention_bias"), ("qk_norm", "use_qk_norm")) if config.get(key)}
    kinds = tuple(frozenset({"dense" if index < start else "moe", *extra}) for index in range(min(layers, 10_000)))
    there, left_open = head_features(config)
    return Sizes({**symbols(config), **expert_sizes(config)}, kinds, there, left_open)


QWEN3_MOE = Family(
    id="qwen3_moe",
    title="Qwen3-MoE",
    model_types=("qwen3_moe",),
    params=_QWEN3,
    layouts=(
        identity(_QWEN3),
        stacked(_QWEN3, *STACKED_EXPERTS),
        Layout(
            MCORE,
            (
                *MCORE_ENDS,
                *MCORE_NORMS,
                MCORE_OUT,
                *MCORE_QK_NORMS,
                *mcore_qkv(),
                *MCORE_MLP,
                MCORE_ROUTER,
                *MCORE_EXPERTS,
            ),
        ),
    ),
    sizes=qwen3_sizes,
    aliases=("qwen3_moe", "qwen3moeforcausallm"),
    marks=(f"{_HF}mlp.gate.weight", f"{_HF}self_attn.q_norm.weight"),
)

GLM4_MOE = Family(
    id="glm4_moe",
    title="GLM4-MoE",
    model_types=("glm4_moe",),
    params=_GLM4,
    layouts=(
        identity(_GLM4),
        stacked(_GLM4, *STACKED_EXPERTS),
        Layout(
            MCORE,
            (
                *MCORE_ENDS,
                *MCORE_NORMS,
                MCORE_OUT,
                *MCORE_QK_NORMS,
                *mcore_qkv(("weight", "bias")),
                *MCORE_MLP,
                MCORE_ROUTER,
                MCORE_ROUTER_BIAS,
                *MCORE_EXPERTS,
                *MCORE_SHARED,
            ),
        ),
    ),
    sizes=glm4_sizes,
    aliases=("glm4_moe", "glm4moeforcausallm"),
    marks=(f"{_HF}mlp.gate.weight", f"{_HF}mlp.shared_experts.gate_proj.weight"),
)
