"""Counts the parameters of Hugging Face models on the meta device, for families that a config.json describes.

Run by hand where torch and transformers are installed; it writes ``parameters.json`` beside itself::

    pip install 'torch==2.13.0' 'transformers==5.24.0'
    python tests/plan/memory/count_parameters.py
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

CASES = {
    "mixtral-8x7b": ("mixtral", {}),
    "mistral-7b": ("mistral", {}),
    "llama3-8b": (
        "llama",
        {"vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32}
        | {"num_attention_heads": 32, "num_key_value_heads": 8},
    ),
    "llama with biases": ("llama", {"attention_bias": True, "num_hidden_layers": 4}),
    "qwen2-0.5b": (
        "qwen2",
        {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14}
        | {"num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True},
    ),
    "qwen2-moe-57b": (
        "qwen2_moe",
        {"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28}
        | {"num_key_value_heads": 4, "vocab_size": 151936, "moe_intermediate_size": 2560, "num_experts": 64}
        | {"shared_expert_intermediate_size": 20480, "num_experts_per_tok": 8},
    ),
    "qwen3-4b": (
        "qwen3",
        {"hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36, "num_attention_heads": 32}
        | {"num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "tie_word_embeddings": True},
    ),
    "qwen3 with biases": (
        "qwen3",
        {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 2, "num_attention_heads": 16}
        | {"num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "attention_bias": True},
    ),
    "qwen3-235b-a22b": (
        "qwen3_moe",
        {"hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 94, "num_attention_heads": 64}
        | {"num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936, "moe_intermediate_size": 1536}
        | {"num_experts": 128, "num_experts_per_tok": 8},
    ),
    "deepseek-v2-lite": (
        "deepseek_v2",
        {"hidden_size": 2048, "intermediate_size": 10944, "moe_intermediate_size": 1408, "num_hidden_layers": 27}
        | {"num_attention_heads": 16, "num_key_value_heads": 16, "n_routed_experts": 64, "n_shared_experts": 2}
        | {"num_experts_per_tok": 6, "first_k_dense_replace": 1, "kv_lora_rank": 512, "q_lora_rank": None}
        | {"qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "vocab_size": 102400},
    ),
    "deepseek-v3": (
        "deepseek_v3",
        {"hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_hidden_layers": 61}
        | {"num_attention_heads": 128, "num_key_value_heads": 128, "n_routed_experts": 256, "n_shared_experts": 1}
        | {"num_experts_per_tok": 8, "first_k_dense_replace": 3, "kv_lora_rank": 512, "q_lora_rank": 1536}
        | {"qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "vocab_size": 129280},
    ),
    "glm-4-9b": (
        "glm",
        {"hidden_size": 4096, "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 2}
        | {"intermediate_size": 13696, "vocab_size": 151552, "head_dim": 128, "attention_bias": True},
    ),
    "glm-4-9b-0414": (
        "glm4",
        {"hidden_size": 4096, "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 2}
        | {"intermediate_size": 13696, "vocab_size": 151552, "head_dim": 128, "attention_bias": True},
    ),
    "glm-4.5-air": (
        "glm4_moe",
        {"hidden_size": 4096, "intermediate_size": 10944, "moe_intermediate_size": 1408, "num_hidden_layers": 46}
        | {"num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128, "n_routed_experts": 128}
        | {"n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 1, "attention_bias": True}
        | {"vocab_size": 151552},
    ),
    "bloom-7b1": ("bloom", {"hidden_size": 4096, "n_layer": 30, "n_head": 32, "vocab_size": 250880}),
    "gpt2-large": ("gpt2", {"n_embd": 1280, "n_layer": 36, "n_head": 20}),
}


def main() -> None:
    rows = []
    for name, (kind, sizes) in CASES.items():
        config = AutoConfig.for_model(kind, **sizes)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        config.architectures = [type(model).__name__]
        written = {key: value for key, value in config.to_dict().items() if key != "transformers_version"}
        rows.append(
            {
                "name": name,
                "parameters": sum({id(item): item.numel() for item in model.parameters()}.values()),
                "config": written,
            }
        )
    path = Path(__file__).parent / "parameters.json"
    made = {"torch": torch.__version__, "transformers": transformers.__version__, "rows": rows}
    path.write_text(json.dumps(made, indent=1, sort_keys=True, default=str) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
