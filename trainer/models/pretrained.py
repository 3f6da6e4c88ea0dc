"""Hugging Face's config.json as our `ModelConfig`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.trainer.fields import Place
from doctor.trainer.models.config import ModelConfig
from doctor.trainer.models.families import named

#: model_type -> registered family
_TYPES: Mapping[str, str] = {
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "glm": "glm",
    "glm4": "glm4",
    "chatglm": "glm",
    "bloom": "bloom",
    "gpt2": "gpt2",
}
#: their name -> ours
_KEYS: Mapping[str, str] = {
    "vocab_size": "vocab_size",
    "padded_vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "n_embd": "hidden_size",
    "n_embed": "hidden_size",
    "num_hidden_layers": "num_hidden_layers",
    "num_layers": "num_hidden_layers",
    "n_layer": "num_hidden_layers",
    "num_attention_heads": "num_attention_heads",
    "n_head": "num_attention_heads",
    "num_key_value_heads": "num_key_value_heads",
    "multi_query_group_num": "num_key_value_heads",
    "head_dim": "head_dim",
    "kv_channels": "head_dim",
    "intermediate_size": "intermediate_size",
    "ffn_hidden_size": "intermediate_size",
    "n_inner": "intermediate_size",
    "max_position_embeddings": "max_position_embeddings",
    "n_positions": "max_position_embeddings",
    "seq_length": "max_position_embeddings",
    "rms_norm_eps": "norm_eps",
    "layer_norm_epsilon": "norm_eps",
    "layernorm_epsilon": "norm_eps",
    "rope_theta": "rope_theta",
    "rope_scaling": "rope_scaling",
    "partial_rotary_factor": "rotary_fraction",
    "attention_bias": "qkv_bias",
    "add_qkv_bias": "qkv_bias",
    "mlp_bias": "mlp_bias",
    "tie_word_embeddings": "tie_word_embeddings",
    "initializer_range": "initializer_range",
}


def from_config_json(raw: Mapping[str, Any], place: Place) -> ModelConfig:
    """The config of a model of a known family. Raises UsageError for another family, and for a setting that changes
    what is computed and that the blocks do not have."""
    kind = raw.get("model_type")
    if kind not in _TYPES:
        listed = ", ".join(sorted(_TYPES))
        raise UsageError(
            Text(
                f"{place}: model_type {kind!r} is not one of the trainer's.", f"{place}：不支持 model_type {kind!r}。"
            ),
            Text(f"Known: {listed}.", f"支持：{listed}。"),
        )
    _refuse_unsupported(raw, place)
    sizes: dict[str, Any] = {}
    for theirs, ours in _KEYS.items():
        if raw.get(theirs) is not None:
            sizes.setdefault(ours, raw[theirs])
    rope = raw.get("rope_parameters")
    if isinstance(rope, Mapping):
        sizes["rope_theta"] = rope.get("rope_theta", sizes.get("rope_theta", 10000.0))
        sizes["rotary_fraction"] = rope.get("partial_rotary_factor", sizes.get("rotary_fraction", 1.0))
        sizes["rope_scaling"] = {key: rope[key] for key in rope if key not in {"rope_theta", "partial_rotary_factor"}}
    if kind == "chatglm" and not raw.get("multi_query_attention", True):
        sizes.pop("num_key_value_heads", None)
    if kind in {"qwen2", "gpt2", "bloom"}:
        # Part of the family; transformers' configs do not say it or say it of other things.
        sizes.pop("qkv_bias", None)
    base = named(_TYPES[str(kind)], place)
    if kind in {"glm", "glm4"}:
        sizes.setdefault("rotary_fraction", 0.5)
    config = ModelConfig.read(sizes, place, base)
    config.check(place)
    return config


def _refuse_unsupported(raw: Mapping[str, Any], place: Place) -> None:
    expected: Mapping[str, tuple[Any, ...]] = {
        "hidden_act": ("silu", "swish"),
        "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
        "apply_residual_connection_post_layernorm": (False,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "add_cross_attention": (False,),
        "use_sliding_window": (False,),
        "rmsnorm": (True,),
        "post_layer_norm": (True,),
    }
    for key, allowed in expected.items():
        if key in raw and raw[key] not in allowed:
            raise UsageError(
                Text(
                    f"{place.at(key)}: {raw[key]!r} is not what the trainer computes.",
                    f"{place.at(key)}：训练器不支持 {raw[key]!r}。",
                ),
                Text(f"Supported: {', '.join(map(str, allowed))}.", f"支持：{', '.join(map(str, allowed))}。"),
            )
