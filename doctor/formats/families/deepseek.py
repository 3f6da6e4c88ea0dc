"""DeepSeek-V3: latent attention, dense layers first, then experts with shared ones, and extra prediction layers.

Names: Hugging Face deepseek_v3; MindFormers research/deepseek3/convert_weight.py (legacy), models/deepseek3 and
toolkit/weight_convert/deepseekv3 (mcore). Symbols beyond the usual: QL and KL, the ranks of the latent query and
key-value; RP, rotary rows of one head; NQ and RQ, query rows without and with a rotary position over all heads;
O, value rows over all heads.

The prediction layers (MTP) are numbered on behind the others in Hugging Face's names and from 0 ({m}) in
MindFormers': legacy keeps their attention and experts under ``model.layers``, mcore moves them too. Their copies
of the embedding and of the output layer are not kept by MindFormers.
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
    stacked,
)
from doctor.formats.families.llama import EMBED, HEAD, MCORE_ENDS, MCORE_NORMS, MF_ENDS, MF_NORMS, MLP, NORM, NORMS
from doctor.formats.families.moe import (
    EXPERT,
    MCORE_EXPERTS,
    MCORE_ROUTER,
    MCORE_ROUTER_BIAS,
    SHARED,
    STACKED_EXPERTS,
    expert_sizes,
    head_features,
)
from doctor.formats.families.ops import (
    EXPERTS_CUBE,
    EXPERTS_PAIR_CUBE,
    EXPERTS_STACKED,
    HALVES,
    LATENT_FUSED,
    LATENT_KEY,
    LATENT_KEY_MERGED,
    LATENT_QUERY,
    LATENT_QUERY_MERGED,
    LATENT_VALUE,
)

_HF = "model.layers.{i}."
_MF = "model.layers.{i}."
_MC = "decoder.layers.{i}."
_MTP = "mtp.layers.{m}."

_LATENT_QUERY = {
    "self_attn.q_a_proj.weight": "QL H",
    "self_attn.q_a_layernorm.weight": "QL",
    "self_attn.q_b_proj.weight": "NQ+RQ QL",
}
_ATTENTION = {
    "self_attn.kv_a_proj_with_mqa.weight": "KL+RP H",
    "self_attn.kv_a_layernorm.weight": "KL",
    "self_attn.kv_b_proj.weight": "NQ+O KL",
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
    *layer(_HF, {"self_attn.q_proj.weight": "NQ+RQ H"}, "q_full"),
    *layer(_HF, MLP, "dense"),
    *layer(_HF, {"mlp.gate.weight": "E H", **EXPERT, **SHARED}, "moe"),
    *layer(_HF, {"mlp.gate.e_score_correction_bias": "E"}, "expert_bias"),
    *layer(_HF, _PREDICTION, "mtp"),
    *layer(_HF, _PREDICTION_OPEN, "mtp_copies"),
    NORM,
    HEAD,
)


#: The copies that a prediction layer keeps of the model's own tables.
COPIES = {f"{_HF}embed_tokens.weight": EMBED.name, f"{_HF}shared_head.head.weight": HEAD.name}


def _renamed(own: str, rows: Mapping[str, str]) -> tuple[Group, ...]:
    return tuple(group(own + name, _HF + canonical) for name, canonical in rows.items())


_MF_COMMON = (
    *MF_ENDS,
    *MF_NORMS,
    *_renamed(
        _MF,
        {
            "attention.q_proj.weight": "self_attn.q_proj.weight",
            "attention.q2l_proj.weight": "self_attn.q_a_proj.weight",
            "attention.lq_norm.weight": "self_attn.q_a_layernorm.weight",
            "attention.lkv_norm.weight": "self_attn.kv_a_layernorm.weight",
            "attention.wo.weight": "self_attn.o_proj.weight",
            "feed_forward.w1.weight": "mlp.gate_proj.weight",
            "feed_forward.w2.weight": "mlp.down_proj.weight",
            "feed_forward.w3.weight": "mlp.up_proj.weight",
            "feed_forward.shared_experts.w1.weight": "mlp.shared_experts.gate_proj.weight",
            "feed_forward.shared_experts.w2.weight": "mlp.shared_experts.down_proj.weight",
            "feed_forward.shared_experts.w3.weight": "mlp.shared_experts.up_proj.weight",
        },
    ),
    *_renamed(
        "model.mtp_",
        {
            "hidden_fusers.{m}.norm_emb.weight": "enorm.weight",
            "hidden_fusers.{m}.norm.weight": "hnorm.weight",
            "hidden_fusers.{m}.dense.weight": "eh_proj.weight",
            "norms.{m}.weight": "shared_head.norm.weight",
        },
    ),
)
_QUERY, _KEY, _VALUE = (f"{_HF}self_attn.{name}.weight" for name in ("q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"))
_MF_SPLIT = (
    group((f"{_MF}attention.l2q_nope_proj.weight", f"{_MF}attention.l2q_pe_proj.weight"), _QUERY, LATENT_QUERY),
    group((f"{_MF}attention.kv2l_k_pe.weight", f"{_MF}attention.kv2l_latent_kv.weight"), _KEY, LATENT_KEY),
    group((f"{_MF}attention.lkv2kv_k_nope.weight", f"{_MF}attention.lkv2kv_v.weight"), _VALUE, LATENT_VALUE),
)
_MF_MERGED = (
    group(f"{_MF}attention.l2q_proj.weight", _QUERY, LATENT_QUERY_MERGED),
    group(f"{_MF}attention.kv2l.weight", _KEY, LATENT_KEY_MERGED),
    group(f"{_MF}attention.lkv2kv.weight", _VALUE),
)
_GATE, _UP, _DOWN = (f"{_HF}mlp.experts.{{e}}.{name}_proj.weight" for name in ("gate", "up", "down"))
_ROUTED = f"{_MF}feed_forward.routed_experts."
#: ``use_gmm: True``: one matrix for gate and up of all experts, [in, out].
_MF_GROUPED = (
    *_renamed(
        _ROUTED,
        {"router_dense.weight": "mlp.gate.weight", "topk_bias": "mlp.gate.e_score_correction_bias"},
    ),
    group(f"{_ROUTED}ffn.w1", (_GATE, _UP), EXPERTS_PAIR_CUBE),
    group(f"{_ROUTED}ffn.w2", _DOWN, EXPERTS_CUBE),
)
_MF_BATCHED = (
    *_renamed(
        _ROUTED,
        {"router.dense.weight": "mlp.gate.weight", "router.router.topk_bias": "mlp.gate.e_score_correction_bias"},
    ),
    *(
        group(f"{_ROUTED}ffn.{own}.weight", canonical, EXPERTS_STACKED)
        for own, canonical in (("w1", _GATE), ("w2", _DOWN), ("w3", _UP))
    ),
)

_MC_NAMES = {
    "self_attention.linear_q_proj.weight": "self_attn.q_proj.weight",
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
}
#: ``mla_qkv_concat: True``, as the converter for training writes it.
_MC_CONCAT_NAMES = {
    "self_attention.q_layernorm.weight": "self_attn.q_a_layernorm.weight",
    "self_attention.linear_qb.weight": "self_attn.q_b_proj.weight",
    "self_attention.k_layernorm.weight": "self_attn.kv_a_layernorm.weight",
    "self_attention.linear_kvb.weight": "self_attn.kv_b_proj.weight",
    "self_attention.linear_proj.weight": "self_attn.o_proj.weight",
    "mlp.linear_fc2.weight": "mlp.down_proj.weight",
    "mlp.shared_experts.linear_fc2.weight": "mlp.shared_experts.down_proj.weight",
}
_MC_CONCAT = (
    group(f"{_MC}self_attention.linear_qkv.weight", (f"{_HF}self_attn.q_a_proj.weight", _KEY), LATENT_FUSED),
    *(
        group(
            f"{_MC}{place}.linear_fc1.weight",
            (f"{_HF}{place}.gate_proj.weight", f"{_HF}{place}.up_proj.weight"),
            HALVES,
        )
        for place in ("mlp", "mlp.shared_experts")
    ),
)
_MC_PREDICTION = _renamed(
    _MTP,
    {
        "enorm.weight": "enorm.weight",
        "hnorm.weight": "hnorm.weight",
        "eh_proj.weight": "eh_proj.weight",
        "final_layernorm.weight": "shared_head.norm.weight",
    },
)


def _mcore(*inside: Group) -> tuple[Group, ...]:
    """Groups of a layer, once under ``decoder.layers`` and once under those of prediction."""
    groups = (*MCORE_NORMS, *inside, MCORE_ROUTER, MCORE_ROUTER_BIAS, *MCORE_EXPERTS)
    moved = tuple(
        Group(tuple(own.replace(_MC, f"{_MTP}transformer_layer.") for own in item.own), item.canonical, item.op)
        for item in groups
    )
    return (*MCORE_ENDS, *groups, *_MC_PREDICTION, *moved)


_LAYOUTS = (
    Layout(MINDFORMERS, (*_MF_COMMON, *_MF_SPLIT, *_MF_GROUPED)),
    Layout(MINDFORMERS, (*_MF_COMMON, *_MF_SPLIT, *_MF_BATCHED), "no gmm"),
    Layout(MINDFORMERS, (*_MF_COMMON, *_MF_MERGED, *_MF_GROUPED), "merged"),
    Layout(MCORE, _mcore(*_renamed(_MC, _MC_NAMES))),
    Layout(MCORE, _mcore(*_renamed(_MC, _MC_CONCAT_NAMES), *_MC_CONCAT), "mla_qkv_concat"),
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
        "RP": rope,
        "NQ": heads * nope,
        "RQ": heads * rope,
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
    layouts=(identity(_PARAMS), stacked(_PARAMS, *STACKED_EXPERTS), *_LAYOUTS),
    sizes=sizes,
    aliases=("deepseekv3", "deepseek3", "deepseek_v3", "deepseekv3forcausallm", "deepseekv3config"),
    copies=COPIES,
    marks=(f"{_HF}self_attn.kv_a_proj_with_mqa.weight",),
)
