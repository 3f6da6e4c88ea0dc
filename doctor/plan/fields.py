"""The many spellings of one model setting (source: COMMON_CONFIG_MAPPING of MindFormers 1.6 to 2.1, the constructors of
its legacy configs, and Hugging Face's configs)."""

from __future__ import annotations

from collections.abc import Mapping

from doctor.plan.value import Value

#: mcore name -> the spellings that mean it
SPELLINGS: dict[str, tuple[str, ...]] = {
    "num_layers": ("num_layers", "num_hidden_layers", "n_layer", "n_layers"),
    "hidden_size": ("hidden_size", "n_embd", "d_model"),
    "num_attention_heads": ("num_attention_heads", "num_heads", "n_head"),
    "num_query_groups": ("num_query_groups", "num_key_value_heads", "n_kv_heads"),
    "ffn_hidden_size": ("ffn_hidden_size", "intermediate_size", "inner_hidden_size", "n_inner"),
    "kv_channels": ("kv_channels", "head_dim"),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
    "seq_length": ("seq_length",),
    "max_position_embeddings": (
        "max_position_embeddings",
        "max_position_embedding",
        "n_positions",
        "original_max_position_embeddings",
    ),
    "num_moe_experts": ("num_moe_experts", "num_experts", "n_routed_experts", "num_local_experts", "expert_num"),
    "moe_router_topk": ("moe_router_topk", "num_experts_per_tok", "num_experts_chosen"),
    "moe_router_num_groups": ("moe_router_num_groups", "n_group"),
    "moe_router_group_topk": ("moe_router_group_topk", "topk_group"),
    "moe_ffn_hidden_size": ("moe_ffn_hidden_size", "moe_intermediate_size"),
    "shared_expert_num": ("shared_expert_num", "n_shared_experts"),
    "moe_router_score_function": ("moe_router_score_function", "scoring_func", "use_gating_sigmoid"),
    "moe_router_dtype": ("moe_router_dtype", "router_dense_type"),
    "moe_router_enable_expert_bias": ("moe_router_enable_expert_bias", "balance_via_topk_bias"),
    "moe_router_bias_update_rate": ("moe_router_bias_update_rate", "topk_bias_update_rate"),
    "moe_router_topk_scaling_factor": ("moe_router_topk_scaling_factor", "routed_scaling_factor"),
    "moe_grouped_gemm": ("moe_grouped_gemm", "use_gmm"),
    "moe_expert_capacity_factor": ("moe_expert_capacity_factor", "capacity_factor"),
    "moe_token_drop_policy": ("moe_token_drop_policy", "enable_sdrop"),
    "moe_z_loss_coeff": ("moe_z_loss_coeff", "z_loss_factor"),
    "mtp_num_layers": ("mtp_num_layers", "num_nextn_predict_layers", "mtp_depth"),
    "mtp_loss_scaling_factor": ("mtp_loss_scaling_factor", "mtp_loss_factor"),
    "layernorm_epsilon": ("layernorm_epsilon", "rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps"),
    "add_qkv_bias": ("add_qkv_bias", "attention_bias", "qkv_has_bias"),
    "qk_layernorm": ("qk_layernorm", "use_qk_norm"),
    "params_dtype": ("params_dtype", "param_init_type", "torch_dtype", "dtype"),
    "compute_dtype": ("compute_dtype",),
    "layernorm_compute_dtype": ("layernorm_compute_dtype", "layernorm_compute_type", "layernorm_dtype"),
    "softmax_compute_dtype": (
        "softmax_compute_dtype",
        "softmax_compute_type",
        "softmax_dtype",
        "attention_softmax_in_fp32",
    ),
    "rotary_dtype": ("rotary_dtype",),
    "virtual_pipeline_model_parallel_size": ("virtual_pipeline_model_parallel_size", "pp_interleave_num"),
    "position_embedding_type": ("position_embedding_type", "extend_method"),
    "init_method_std": ("init_method_std", "initializer_range"),
    "apply_rope_fusion": ("apply_rope_fusion", "use_fused_rope"),
    "bias_swiglu_fusion": ("bias_swiglu_fusion", "use_fused_swiglu"),
    "moe_permute_fusion": ("moe_permute_fusion", "use_fused_ops_permute"),
    "dsa_indexer_head_dim": ("dsa_indexer_head_dim", "index_head_dim"),
    "dsa_indexer_n_heads": ("dsa_indexer_n_heads", "index_n_heads"),
    "dsa_indexer_topk": ("dsa_indexer_topk", "index_topk"),
    "qk_head_dim": ("qk_head_dim", "qk_nope_head_dim"),
    "qk_pos_emb_head_dim": ("qk_pos_emb_head_dim", "qk_rope_head_dim"),
    "rotary_base": ("rotary_base", "rope_theta", "theta"),
    "rotary_scaling_factor": ("rotary_scaling_factor", "scaling_factor", "factor"),
    "use_pad_tokens": ("use_pad_tokens", "enable_gmm_safe_tokens"),
}

#: spelling -> mcore name
CANONICAL: dict[str, str] = {word: name for name, words in SPELLINGS.items() for word in words}

#: spellings that mcore's converter maps to one field: giving two of them is refused. Only pairs that the graph
#: generation knows (Hugging Face's own names such as n_embd are not among them).
ALIAS_GROUPS: tuple[tuple[str, ...], ...] = tuple(
    tuple(
        word
        for word in words
        if word
        not in {
            "n_layers",
            "n_embd",
            "d_model",
            "padded_vocab_size",
            "n_positions",
            "max_position_embedding",
            "num_local_experts",
            "inner_hidden_size",
            "n_inner",
            "layer_norm_eps",
            "torch_dtype",
            "dtype",
            "layernorm_compute_type",
            "layernorm_dtype",
            "softmax_compute_type",
            "softmax_dtype",
            "scaling_factor",
            "factor",
            "rotary_scaling_factor",
            "original_max_position_embeddings",
        }
    )
    for words in SPELLINGS.values()
)


#: word -> the word beside which it means something else: Hugging Face's qk_head_dim counts the rotary part too
_OTHERWISE = {"qk_head_dim": "qk_nope_head_dim"}


def canonical_fields(section: Value, *more: Value) -> Mapping[str, Value]:
    """The settings of a model section under their mcore names; earlier sections win, and within a section the
    mcore spelling wins over its aliases, but for words that mean something else in Hugging Face's configs."""
    found: dict[str, Value] = {}
    for part in (section, *more):
        mapping = part.mapping
        for word, value in mapping.items():
            name = CANONICAL.get(word, word)
            if _OTHERWISE.get(word) in mapping:
                continue
            if name not in found or (word == name and found[name].key.rpartition(".")[0] == part.key):
                found[name] = value
    return found
