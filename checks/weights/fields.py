"""Sizes by letter (see formats.families.expr) and the fields of configs that decide them."""

from __future__ import annotations

from collections.abc import Mapping

#: Which fields of a config decide a symbol, for the evidence; the first that the config has is shown.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "V": ("vocab_size", "padded_vocab_size"),
    "H": ("hidden_size", "n_embd", "d_model"),
    "F": ("intermediate_size", "ffn_hidden_size", "inner_hidden_size", "n_inner", "multiple_of"),
    "Q": ("num_attention_heads", "head_dim", "num_heads", "n_head"),
    "K": ("num_key_value_heads", "num_query_groups", "n_kv_heads", "multi_query_group_num"),
    "D": ("head_dim", "kv_channels"),
    "P": ("n_positions", "max_position_embeddings", "seq_length"),
    "E": ("num_experts", "n_routed_experts", "num_moe_experts"),
    "M": ("moe_intermediate_size", "moe_ffn_hidden_size"),
    "S": ("n_shared_experts", "moe_intermediate_size"),
    "QL": ("q_lora_rank",),
    "KL": ("kv_lora_rank",),
    "RP": ("qk_rope_head_dim",),
    "NQ": ("num_attention_heads", "qk_nope_head_dim"),
    "RQ": ("num_attention_heads", "qk_rope_head_dim"),
    "O": ("num_attention_heads", "v_head_dim"),
    "L": ("num_hidden_layers", "num_layers", "n_layer"),
}
