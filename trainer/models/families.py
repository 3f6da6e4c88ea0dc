"""The families and the named models, each registered once: a second owner of a name is an error."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.trainer.fields import Place, nearest
from doctor.trainer.models.config import ModelConfig


@dataclass(frozen=True)
class Entry:
    """A registered name: the config it stands for, and file and line of whoever registered it."""

    config: ModelConfig
    owner: str


_ENTRIES: dict[str, Entry] = {}


def register(name: str, config: ModelConfig, owner: Optional[str] = None) -> None:
    """Gives `config` a name that ``model.type`` may hold. Raises ValueError naming both owners when it is taken."""
    if owner is None:
        frame = inspect.stack()[1]
        owner = f"{frame.filename}:{frame.lineno}"
    taken = _ENTRIES.get(_key(name))
    if taken is not None:
        raise ValueError(
            f"model name {name!r} is registered already: first by {taken.owner}, now by {owner}. "
            "Choose another name; a registered one is never replaced."
        )
    _ENTRIES[_key(name)] = Entry(config, owner)


def names() -> tuple[str, ...]:
    return tuple(sorted(_ENTRIES))


def named(name: str, place: Place) -> ModelConfig:
    """The config of a family, an alias or an architecture name. Raises UsageError with the nearest known name."""
    entry = _ENTRIES.get(_key(name))
    if entry is None:
        listed = ", ".join(families())
        hint = nearest(_key(name), _ENTRIES) or Text(f"Families: {listed}.", f"可用系列：{listed}。")
        words = Text(f"{place}: there is no model {name!r}.", f"{place}：没有名为 {name!r} 的模型。")
        raise UsageError(words, hint, "CFG-REG-001")
    return entry.config


def families() -> list[str]:
    """The families there are, sorted."""
    return sorted({item.config.family for item in _ENTRIES.values()})


def _key(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(".", "_")


def _sizes(hidden: int, layers: int, heads: int, ffn: int, vocab: int, **more: Any) -> dict[str, Any]:
    return {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": ffn,
        "vocab_size": vocab,
        **more,
    }


_LLAMA: Mapping[str, Any] = {"family": "llama", "norm_eps": 1e-5}
_LLAMA3_SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
_QWEN2: Mapping[str, Any] = {"family": "qwen2", "norm_eps": 1e-6, "rope_theta": 1e6, "qkv_bias": True}
_QWEN3: Mapping[str, Any] = {"family": "qwen3", "norm_eps": 1e-6, "rope_theta": 1e6, "qk_norm": True}
_GLM: Mapping[str, Any] = {
    "family": "glm",
    "norm_eps": 1e-5,
    "rotary_fraction": 0.5,
    "rotary_interleaved": True,
    "qkv_bias": True,
}
_BLOOM: Mapping[str, Any] = {
    "family": "bloom",
    "norm": "layer",
    "norm_eps": 1e-5,
    "position": "alibi",
    "mlp": "gelu",
    "qkv_bias": True,
    "output_bias": True,
    "mlp_bias": True,
    "embedding_norm": True,
    "tie_word_embeddings": True,
}
_GPT2: Mapping[str, Any] = {
    "family": "gpt2",
    "norm": "layer",
    "norm_eps": 1e-5,
    "position": "learned",
    "mlp": "gelu",
    "qkv_bias": True,
    "output_bias": True,
    "mlp_bias": True,
    "tie_word_embeddings": True,
    "max_position_embeddings": 1024,
}

#: name -> structure and sizes as published in each model's config.json on the Hugging Face hub
_MODELS: Mapping[str, Mapping[str, Any]] = {
    "llama": _LLAMA,
    "llama_7b": {**_LLAMA, **_sizes(4096, 32, 32, 11008, 32000), "norm_eps": 1e-6},
    "llama_13b": {**_LLAMA, **_sizes(5120, 40, 40, 13824, 32000), "norm_eps": 1e-6},
    "llama2_7b": {**_LLAMA, **_sizes(4096, 32, 32, 11008, 32000, max_position_embeddings=4096)},
    "llama2_13b": {**_LLAMA, **_sizes(5120, 40, 40, 13824, 32000, max_position_embeddings=4096)},
    "llama2_70b": {
        **_LLAMA,
        **_sizes(8192, 80, 64, 28672, 32000, num_key_value_heads=8, max_position_embeddings=4096),
    },
    "llama3_8b": {
        **_LLAMA,
        **_sizes(4096, 32, 32, 14336, 128256, num_key_value_heads=8, max_position_embeddings=8192, rope_theta=5e5),
    },
    "llama3_70b": {
        **_LLAMA,
        **_sizes(8192, 80, 64, 28672, 128256, num_key_value_heads=8, max_position_embeddings=8192, rope_theta=5e5),
    },
    "llama3_1_8b": {
        **_LLAMA,
        **_sizes(4096, 32, 32, 14336, 128256, num_key_value_heads=8, max_position_embeddings=131072, rope_theta=5e5),
        "rope_scaling": _LLAMA3_SCALING,
    },
    "llama3_2_1b": {
        **_LLAMA,
        **_sizes(2048, 16, 32, 8192, 128256, num_key_value_heads=8, max_position_embeddings=131072, rope_theta=5e5),
        "head_dim": 64,
        "tie_word_embeddings": True,
        "rope_scaling": {**_LLAMA3_SCALING, "factor": 32.0},
    },
    "qwen2": {**_QWEN2, "vocab_size": 152064},
    "qwen2_0_5b": {
        **_QWEN2,
        **_sizes(896, 24, 14, 4864, 151936, num_key_value_heads=2, max_position_embeddings=32768),
        "tie_word_embeddings": True,
    },
    "qwen2_1_5b": {
        **_QWEN2,
        **_sizes(1536, 28, 12, 8960, 151936, num_key_value_heads=2, max_position_embeddings=32768),
        "tie_word_embeddings": True,
    },
    "qwen2_7b": {**_QWEN2, **_sizes(3584, 28, 28, 18944, 152064, num_key_value_heads=4, max_position_embeddings=32768)},
    "qwen2_72b": {
        **_QWEN2,
        **_sizes(8192, 80, 64, 29568, 152064, num_key_value_heads=8, max_position_embeddings=32768),
    },
    "qwen2_5_0_5b": {
        **_QWEN2,
        **_sizes(896, 24, 14, 4864, 151936, num_key_value_heads=2, max_position_embeddings=32768),
        "tie_word_embeddings": True,
    },
    "qwen2_5_1_5b": {
        **_QWEN2,
        **_sizes(1536, 28, 12, 8960, 151936, num_key_value_heads=2, max_position_embeddings=32768),
        "tie_word_embeddings": True,
    },
    "qwen2_5_7b": {
        **_QWEN2,
        **_sizes(3584, 28, 28, 18944, 152064, num_key_value_heads=4, max_position_embeddings=32768),
    },
    "qwen2_5_14b": {
        **_QWEN2,
        **_sizes(5120, 48, 40, 13824, 152064, num_key_value_heads=8, max_position_embeddings=32768),
        "norm_eps": 1e-5,
    },
    "qwen2_5_32b": {
        **_QWEN2,
        **_sizes(5120, 64, 40, 27648, 152064, num_key_value_heads=8, max_position_embeddings=32768),
        "norm_eps": 1e-5,
    },
    "qwen2_5_72b": {
        **_QWEN2,
        **_sizes(8192, 80, 64, 29568, 152064, num_key_value_heads=8, max_position_embeddings=32768),
        "norm_eps": 1e-5,
    },
    "qwen3": {**_QWEN3, "vocab_size": 151936},
    "qwen3_0_6b": {
        **_QWEN3,
        **_sizes(1024, 28, 16, 3072, 151936, num_key_value_heads=8, head_dim=128, max_position_embeddings=40960),
        "tie_word_embeddings": True,
    },
    "qwen3_1_7b": {
        **_QWEN3,
        **_sizes(2048, 28, 16, 6144, 151936, num_key_value_heads=8, head_dim=128, max_position_embeddings=40960),
        "tie_word_embeddings": True,
    },
    "qwen3_4b": {
        **_QWEN3,
        **_sizes(2560, 36, 32, 9728, 151936, num_key_value_heads=8, head_dim=128, max_position_embeddings=40960),
        "tie_word_embeddings": True,
    },
    "qwen3_8b": {
        **_QWEN3,
        **_sizes(4096, 36, 32, 12288, 151936, num_key_value_heads=8, head_dim=128, max_position_embeddings=40960),
    },
    "qwen3_32b": {
        **_QWEN3,
        **_sizes(5120, 64, 64, 25600, 151936, num_key_value_heads=8, head_dim=128, max_position_embeddings=40960),
    },
    "glm": {**_GLM, "vocab_size": 151552},
    "glm4": {**_GLM, "family": "glm4", "vocab_size": 151552, "post_norms": True},
    "glm3_6b": {**_GLM, **_sizes(4096, 28, 32, 13696, 65024, num_key_value_heads=2, head_dim=128)},
    "chatglm3_6b": {**_GLM, **_sizes(4096, 28, 32, 13696, 65024, num_key_value_heads=2, head_dim=128)},
    "glm4_9b": {
        **_GLM,
        **_sizes(4096, 40, 32, 13696, 151552, num_key_value_heads=2, head_dim=128, max_position_embeddings=131072),
        "norm_eps": 1.5625e-07,
    },
    "bloom": {**_BLOOM, "vocab_size": 250880},
    "bloom_560m": {**_BLOOM, **_sizes(1024, 24, 16, 4096, 250880)},
    "bloom_7b1": {**_BLOOM, **_sizes(4096, 30, 32, 16384, 250880)},
    "bloom_176b": {**_BLOOM, **_sizes(14336, 70, 112, 57344, 250880)},
    "gpt2": {**_GPT2, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 50257},
    "gpt2_small": {**_GPT2, **_sizes(768, 12, 12, 3072, 50257)},
    "gpt2_medium": {**_GPT2, **_sizes(1024, 24, 16, 4096, 50257)},
    "gpt2_large": {**_GPT2, **_sizes(1280, 36, 20, 5120, 50257)},
    "gpt2_xl": {**_GPT2, **_sizes(1600, 48, 25, 6400, 50257)},
}

#: class names by which configs of Hugging Face and MindFormers call a family
_ARCHITECTURES: Mapping[str, str] = {
    "LlamaForCausalLM": "llama",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "GlmForCausalLM": "glm",
    "ChatGLM2ForConditionalGeneration": "glm",
    "ChatGLM3ForConditionalGeneration": "glm",
    "ChatGLMModel": "glm",
    "ChatGLM4ForConditionalGeneration": "glm",
    "Glm4ForCausalLM": "glm4",
    "BloomForCausalLM": "bloom",
    "BloomLMHeadModel": "bloom",
    "GPT2LMHeadModel": "gpt2",
}

_HERE = Path(__file__).name
for _name, _values in _MODELS.items():
    register(_name, ModelConfig(**_values), f"doctor.trainer.models.families ({_HERE})")
for _name, _family in _ARCHITECTURES.items():
    register(_name, ModelConfig(**_MODELS[_family]), f"doctor.trainer.models.families ({_HERE})")
