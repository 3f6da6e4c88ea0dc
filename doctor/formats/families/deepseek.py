"""DeepSeek-V3: latent attention, dense layers first, then experts with shared ones, and extra prediction layers.

Names: Hugging Face deepseek_v3; MindFormers research/deepseek3 (legacy) and models/deepseek3 (mcore). Symbols
beyond the usual: QL and KL, the ranks of the latent query and key-value; R, rows of kv_a (KL + rotary);
QB and KB, rows of q_b and kv_b; O, columns of o.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from doctor.formats.families.family import (
    MCORE,
    MINDFORMERS,
    Family,
    Group,
    Layout,
    Sizes,
    group,
    identity,
    layer,
    number,
    number_or,
)
from doctor.formats.families.llama import EMBED, HEAD, MCORE_ENDS, MCORE_NORMS, MF_ENDS, MF_NORMS, MLP, NORM, NORMS
from doctor.formats.families.moe import (
    EXPERT,
    MCORE_EXPERTS,
    MCORE_ROUTER,
    MCORE_ROUTER_BIAS,
    SHARED,
    expert_sizes,
    head_features,
)
from doctor.formats.families.ops import EXPERTS_CUBE, EXPERTS_PAIR_CUBE

_HF = "model.layers.{i}."
_MF = "model.layers.{i}."
_MC = "decoder.layers.{i}."

_LATENT_QUERY = {
    "self_attn.q_a_proj.weight": "QL H",
    "self_attn.q_a_layernorm.weight": "QL",
    "self_attn.q_b_proj.weight": "QB QL",
}
_ATTENTION = {
    "self_attn.kv_a_proj_with_mqa.weight": "R H",
    "self_attn.kv_a_layernorm.weight": "KL",
    "self_attn.kv_b_proj.weight": "KB KL",
    "self_attn.o_proj.weight": "H O",
}
_PREDICTION = {
    "enorm.weight": "H",
    "hnorm.weight": "H",
    "eh_proj.weight": "H 2*H",
    "shared_head.norm.weight": "H",
}
_PREDICTION_OPEN = {"embed_tokens.weight": "V H", "shared_head.head.weight": "V H"}

_PARAMS = (
    EMBED,
    *layer(_HF, {**_ATTENTION, **NORMS}),
    *layer(_HF, _LATENT_QUERY, "q_lora"),
    *layer(_HF, {"self_attn.q_proj.weight": "QB H"}, "q_full"),
    *layer(_HF, MLP, "dense"),
    *layer(_HF, {"mlp.gate.weight": "E H", **EXPERT, **SHARED}, "moe"),
    *layer(_HF, {"mlp.gate.e_score_correction_bias": "E"}, "expert_bias"),
    *layer(_HF, _PREDICTION, "mtp"),
    *layer(_HF, _PREDICTION_OPEN, "mtp_copies"),
    NORM,
    HEAD,
)


def _renamed(own: str, rows: Mapping[str, str]) -> tuple[Group, ...]:
    return tuple(group(own + name, _HF + canonical) for name, canonical in rows.items())


_MF_LAYOUT = Layout(
    MINDFORMERS,
    (
        *MF_ENDS,
        *MF_NORMS,
        *_renamed(
            _MF,
            {
                "attention.q2l_proj.weight": "self_attn.q_a_proj.weight",
                "attention.lq_norm.weight": "self_attn.q_a_layernorm.weight",
                "attention.l2q_proj.weight": "self_attn.q_b_proj.weight",
                "attention.kv2l.weight": "self_attn.kv_a_proj_with_mqa.weight",
                "attention.lkv_norm.weight": "self_attn.kv_a_layernorm.weight",
                "attention.lkv2kv.weight": "self_attn.kv_b_proj.weight",
                "attention.wo.weight": "self_attn.o_proj.weight",
                "feed_forward.w1.weight": "mlp.gate_proj.weight",
                "feed_forward.w2.weight": "mlp.down_proj.weight",
                "feed_forward.w3.weight": "mlp.up_proj.weight",
                "feed_forward.routed_experts.router_dense.weight": "mlp.gate.weight",
                "feed_forward.routed_experts.topk_bias": "mlp.gate.e_score_correction_bias",
                "feed_forward.shared_experts.w1.weight": "mlp.shared_experts.gate_proj.weight",
                "feed_forward.shared_experts.w2.weight": "mlp.shared_experts.down_proj.weight",
                "feed_forward.shared_experts.w3.weight": "mlp.shared_experts.up_proj.weight",
            },
        ),
        group(
            f"{_MF}feed_forward.routed_experts.ffn.w1",
            (f"{_HF}mlp.experts.{{e}}.gate_proj.weight", f"{_HF}mlp.experts.{{e}}.up_proj.weight"),
            EXPERTS_PAIR_CUBE,
        ),
        group(f"{_MF}feed_forward.routed_experts.ffn.w2", f"{_HF}mlp.experts.{{e}}.down_proj.weight", EXPERTS_CUBE),
    ),
)
_MC_LAYOUT = Layout(
    MCORE,
    (
        *MCORE_ENDS,
        *MCORE_NORMS,
        *_renamed(
            _MC,
            {
                "self_attention.linear_q_down_proj.weight": "self_attn.q_a_proj.weight",
                "self_attention.q_layernorm.weight": "self_attn.q_a_layernorm.weight",
                "self_attention.linear_q_up_proj.weight": "self_attn.q_b_proj.weight",
                "self_attention.linear_kv_down_proj.weight": "self_attn.kv_a_proj_with_mqa.weight",
                "self_attention.kv_layernorm.weight": "self_attn.kv_a_layernorm.weight",
                "self_attention.linear_kv_up_proj.weight": "self_attn.kv_b_proj.weight",
                "self_attention.linear_proj.weight": "self_attn.o_proj.weight",
                "mlp.gating.weight": "mlp.gate_proj.weight",
                "mlp.hidden.weight": "mlp.up_proj.weight",
                "mlp.linear_fc2.weight": "mlp.down_proj.weight",
                "mlp.shared_experts.gating.weight": "mlp.shared_experts.gate_proj.weight",
                "mlp.shared_experts.hidden.weight": "mlp.shared_experts.up_proj.weight",
                "mlp.shared_experts.linear_fc2.weight": "mlp.shared_experts.down_proj.weight",
            },
        ),
        MCORE_ROUTER,
        MCORE_ROUTER_BIAS,
        *MCORE_EXPERTS,
    ),
)


def sizes(config: Mapping[str, Any]) -> Sizes:
    """The prediction layers stand behind the others; whether they are stored is left open."""
    layers = number(config, "num_hidden_layers")
    heads = number(config, "num_attention_heads")
    nope = number(config, "qk_nope_head_dim", "qk_head_dim")
    rope = number(config, "qk_rope_head_dim", "qk_pos_emb_head_dim")
    value = number(config, "v_head_dim")
    latent = number(config, "kv_lora_rank")
    symbols = {
        "V": number(config, "vocab_size"),
        "H": number(config, "hidden_size"),
        "F": number(config, "intermediate_size", "ffn_hidden_size"),
        "KL": latent,
        "R": latent + rope,
        "QB": heads * (nope + rope),
        "KB": heads * (nope + value),
        "O": heads * value,
        **expert_sizes(config),
    }
    rank = number_or(config, 0, "q_lora_rank")
    if rank:
        symbols["QL"] = rank
    query = "q_lora" if rank else "q_full"
    dense = config.get("first_k_dense_replace", 0)
    start = dense if type(dense) is int else 0
    moe = {"moe"} | ({"expert_bias"} if config.get("topk_method", "noaux_tc") == "noaux_tc" else set())
    kinds = [frozenset({query, *({"dense"} if index < start else moe)}) for index in range(min(layers, 10_000))]
    there, left_open = head_features(config)
    extra = min(number_or(config, 0, "num_nextn_predict_layers"), 16)
    return Sizes(symbols, tuple(kinds), there, left_open, tuple(frozenset({query, "mtp", *moe}) for _ in range(extra)))


DEEPSEEK_V3 = Family(
    id="deepseek_v3",
    title="DeepSeek-V3",
    model_types=("deepseek_v3", "deepseek_v2", "kimi_k2"),
    params=_PARAMS,
    layouts=(identity(_PARAMS), _MF_LAYOUT, _MC_LAYOUT),
    sizes=sizes,
    aliases=("deepseekv3", "deepseek3", "deepseek_v3", "deepseekv3forcausallm", "deepseekv3config"),
    marks=(f"{_HF}self_attn.kv_a_proj_with_mqa.weight",),
)
