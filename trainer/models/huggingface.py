"""Hugging Face's weights of a family as ours: names, and the layouts that differ.

Our names are those of its LLaMA. GPT-2 and Bloom keep query, key and value in one matrix (GPT-2's transposed,
Bloom's interleaved by head), GLM keeps gate and up in one; they are taken apart here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from doctor.trainer.models.config import ModelConfig

Array = npt.NDArray[Any]
Arrays = dict[str, Array]

_GPT2 = (
    (r"(?:transformer\.)?wte\.(.*)", r"model.embed_tokens.\1"),
    (r"(?:transformer\.)?wpe\.(.*)", r"model.embed_positions.\1"),
    (r"(?:transformer\.)?ln_f\.(.*)", r"model.norm.\1"),
    (r"(?:transformer\.)?h\.(\d+)\.ln_1\.(.*)", r"model.layers.\1.input_layernorm.\2"),
    (r"(?:transformer\.)?h\.(\d+)\.ln_2\.(.*)", r"model.layers.\1.post_attention_layernorm.\2"),
    (r"(?:transformer\.)?h\.(\d+)\.attn\.c_attn\.(.*)", r"model.layers.\1.self_attn.qkv.\2"),
    (r"(?:transformer\.)?h\.(\d+)\.attn\.c_proj\.(.*)", r"model.layers.\1.self_attn.o_proj.\2"),
    (r"(?:transformer\.)?h\.(\d+)\.mlp\.c_fc\.(.*)", r"model.layers.\1.mlp.up_proj.\2"),
    (r"(?:transformer\.)?h\.(\d+)\.mlp\.c_proj\.(.*)", r"model.layers.\1.mlp.down_proj.\2"),
)
_BLOOM = (
    (r"(?:transformer\.)?word_embeddings\.(.*)", r"model.embed_tokens.\1"),
    (r"(?:transformer\.)?word_embeddings_layernorm\.(.*)", r"model.embed_layernorm.\1"),
    (r"(?:transformer\.)?ln_f\.(.*)", r"model.norm.\1"),
    (r"(?:transformer\.)?h\.(\d+)\.input_layernorm\.(.*)", r"model.layers.\1.input_layernorm.\2"),
    (r"(?:transformer\.)?h\.(\d+)\.post_attention_layernorm\.(.*)", r"model.layers.\1.post_attention_layernorm.\2"),
    (r"(?:transformer\.)?h\.(\d+)\.self_attention\.query_key_value\.(.*)", r"model.layers.\1.self_attn.qkv.\2"),
    (r"(?:transformer\.)?h\.(\d+)\.self_attention\.dense\.(.*)", r"model.layers.\1.self_attn.o_proj.\2"),
    (r"(?:transformer\.)?h\.(\d+)\.mlp\.dense_h_to_4h\.(.*)", r"model.layers.\1.mlp.up_proj.\2"),
    (r"(?:transformer\.)?h\.(\d+)\.mlp\.dense_4h_to_h\.(.*)", r"model.layers.\1.mlp.down_proj.\2"),
)
_CHATGLM = (
    (r"transformer\.embedding\.word_embeddings\.(.*)", r"model.embed_tokens.\1"),
    (r"transformer\.encoder\.final_layernorm\.(.*)", r"model.norm.\1"),
    (r"transformer\.output_layer\.(.*)", r"lm_head.\1"),
    (
        r"transformer\.encoder\.layers\.(\d+)\.(input_layernorm|post_attention_layernorm)\.(.*)",
        r"model.layers.\1.\2.\3",
    ),
    (
        r"transformer\.encoder\.layers\.(\d+)\.self_attention\.query_key_value\.(.*)",
        r"model.layers.\1.self_attn.qkv.\2",
    ),
    (r"transformer\.encoder\.layers\.(\d+)\.self_attention\.dense\.(.*)", r"model.layers.\1.self_attn.o_proj.\2"),
    (r"transformer\.encoder\.layers\.(\d+)\.mlp\.dense_h_to_4h\.(.*)", r"model.layers.\1.mlp.gate_up_proj.\2"),
    (r"transformer\.encoder\.layers\.(\d+)\.mlp\.dense_4h_to_h\.(.*)", r"model.layers.\1.mlp.down_proj.\2"),
)
#: buffers of older files that are no weights
_BUFFERS = re.compile(r".*(\.attn\.(bias|masked_bias)|rotary_emb\.inv_freq|rotary_pos_emb\.inv_freq)")


def from_huggingface(arrays: Mapping[str, Array], config: ModelConfig) -> Arrays:
    """Weights by our names. A name that is in no table is passed on as it stands, for the caller to report."""
    rules = _rules(config.family, arrays)
    ours: Arrays = {}
    for name, values in arrays.items():
        if _BUFFERS.fullmatch(name) or (config.tie_word_embeddings and name == "lm_head.weight"):
            continue
        renamed = _rename(name, rules)
        if config.family == "gpt2" and ".layers." in renamed and values.ndim == 2:
            values = values.T
        ours.update(_split(renamed, values, config))
    return ours


def _rules(family: str, arrays: Mapping[str, Array]) -> tuple[tuple[str, str], ...]:
    if family == "gpt2":
        return _GPT2
    if family == "bloom":
        return _BLOOM
    if any(name.startswith("transformer.encoder.") for name in arrays):
        return _CHATGLM
    return ()


def _rename(name: str, rules: tuple[tuple[str, str], ...]) -> str:
    for pattern, template in rules:
        match = re.fullmatch(pattern, name)
        if match is not None:
            return match.expand(template)
    return name


def _split(name: str, values: Array, config: ModelConfig) -> Arrays:
    if ".self_attn.qkv." in name:
        stem, _, kind = name.rpartition("qkv.")
        parts = _split_qkv(values, config)
        return {f"{stem}{part}_proj.{kind}": piece for part, piece in zip("qkv", parts)}
    if ".mlp.gate_up_proj." in name:
        stem, _, kind = name.rpartition("gate_up_proj.")
        gate, up = np.split(values, 2, axis=0)
        return {f"{stem}gate_proj.{kind}": gate, f"{stem}up_proj.{kind}": up}
    return {name: values}


def _split_qkv(values: Array, config: ModelConfig) -> tuple[Array, Array, Array]:
    """Rows of a joint matrix (or entries of its bias) as query, key and value."""
    heads, kv, head = config.num_attention_heads, config.kv_heads, config.head
    if config.family == "bloom":
        # one head after another, each with its own query, key and value
        parts = values.reshape(heads, 3, head, *values.shape[1:])
        q, k, v = (parts[:, i].reshape(heads * head, *values.shape[1:]) for i in range(3))
        return q, k, v
    q, k, v = np.split(values, [heads * head, (heads + kv) * head], axis=0)
    return q, k, v
