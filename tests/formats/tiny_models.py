"""A tiny model of every family with its config.json: the official names and shapes, random values, tied copies equal.

Names and shapes are those of tests/checks/weights/official.py, written down from the modelling code and not from
the tables of this package; so families that no library on this machine can write are there too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "checks" / "weights"))
from official import Shapes, bloom_hf, chatglm, chatglm2, deepseek_hf, gpt2_hf, llama_hf, qwen_hf

Config = dict[str, Any]
_USUAL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
          "num_key_value_heads": 2, "vocab_size": 61, "tie_word_embeddings": False}  # fmt: skip
_SIZES = (61, 32, 48, 4, 2, 8, 3)
_DEEPSEEK = {
    "v": 61,
    "h": 32,
    "f": 40,
    "m": 12,
    "a": 4,
    "dense": 1,
    "q": 10,
    "kv": 14,
    "rope": 4,
    "nope": 6,
    "value": 5,
}


def _llama() -> tuple[Config, Shapes]:
    return {"model_type": "llama", **_USUAL}, llama_hf(*_SIZES)


def _qwen() -> tuple[Config, Shapes]:
    fields = {"model_type": "qwen", "hidden_size": 32, "intermediate_size": 96, "num_hidden_layers": 3,
              "num_attention_heads": 4, "kv_channels": 8, "vocab_size": 61}  # fmt: skip
    return fields, qwen_hf(61, 32, 48, 3)


def _qwen2() -> tuple[Config, Shapes]:
    return {"model_type": "qwen2", **_USUAL}, llama_hf(*_SIZES, bias=True)


def _qwen3() -> tuple[Config, Shapes]:
    return {"model_type": "qwen3", **_USUAL, "head_dim": 16}, llama_hf(61, 32, 48, 4, 2, 16, 3, norm=True)


def _chatglm2() -> tuple[Config, Shapes]:
    fields = {"model_type": "chatglm", "hidden_size": 32, "num_layers": 3, "num_attention_heads": 4, "kv_channels": 8,
              "multi_query_group_num": 2, "multi_query_attention": True, "ffn_hidden_size": 48,
              "padded_vocab_size": 64}  # fmt: skip
    return fields, chatglm2(64, 32, 48, 4, 2, 8, 3)


def _chatglm() -> tuple[Config, Shapes]:
    fields = {"model_type": "chatglm", "hidden_size": 32, "num_layers": 3, "num_attention_heads": 4,
              "inner_hidden_size": 128, "vocab_size": 64, "position_encoding_2d": True}  # fmt: skip
    return fields, chatglm(64, 32, 128, 3)


def _bloom() -> tuple[Config, Shapes]:
    return {"model_type": "bloom", "hidden_size": 32, "n_layer": 3, "n_head": 4, "vocab_size": 61}, bloom_hf(61, 32, 3)


def _gpt2() -> tuple[Config, Shapes]:
    fields = {"model_type": "gpt2", "n_embd": 32, "n_layer": 3, "n_head": 4, "vocab_size": 61, "n_positions": 40}
    return fields, gpt2_hf(61, 40, 32, 3)


def _deepseek_v3() -> tuple[Config, Shapes]:
    fields = {"model_type": "deepseek_v3", **_USUAL, "intermediate_size": 40, "moe_intermediate_size": 12,
              "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1, "q_lora_rank": 10,
              "kv_lora_rank": 14, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6, "v_head_dim": 5,
              "num_nextn_predict_layers": 2, "topk_method": "noaux_tc"}  # fmt: skip
    return fields, deepseek_hf(3, 2, 4, _DEEPSEEK)


MODELS = {
    "llama": _llama,
    "qwen": _qwen,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "chatglm2": _chatglm2,
    "chatglm": _chatglm,
    "bloom": _bloom,
    "gpt2": _gpt2,
    "deepseek_v3": _deepseek_v3,
}


def tensors_of(family: str, seed: int = 0, dtype: str = "float32") -> dict[str, np.ndarray]:
    """Random values; what the model shares is equal, norms stand near 1."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, shape in MODELS[family]()[1].items():
        values = rng.standard_normal(shape) * 0.05
        if (len(shape) == 1 and "norm" in name and name.endswith("weight")) or (
            ".ln_" in name and name.endswith("weight")
        ):
            values += 1
        found[name] = values.astype(dtype)
    for name in found:
        if name.endswith("shared_head.head.weight"):
            found[name] = found["lm_head.weight"]
        elif name.startswith("model.layers.") and name.endswith("embed_tokens.weight"):
            found[name] = found["model.embed_tokens.weight"]
    return found


def write(folder: Path, family: str, seed: int = 0, dtype: str = "float32") -> Path:
    """config.json and model.safetensors."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors_of(family, seed, dtype), folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(MODELS[family]()[0], indent=2))
    return folder
