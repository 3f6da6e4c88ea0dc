"""What the name of a model family says about its structure, where a config does not spell it out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

_LAYER_NORM: Mapping[str, Any] = {
    "gated": False,
    "norm": "layer",
    "qkv_bias": True,
    "output_bias": True,
    "mlp_bias": True,
    "activation": "gelu",
}

#: (start of the family's name, traits); the first that fits counts, so longer names stand first.
#: Sources: the models' config classes in MindFormers and in transformers.
_TRAITS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("gpt2", {**_LAYER_NORM, "tied": True, "learned_positions": True, "dropout": True, "activation": "gelu_new"}),
    ("pangu", {**_LAYER_NORM, "tied": True, "learned_positions": True}),
    ("bloom", {**_LAYER_NORM, "tied": True, "embedding_norm": True}),
    ("wizardcoder", {**_LAYER_NORM, "tied": True, "learned_positions": True}),
    ("chatglm2", {"qkv_bias": True}),
    ("chatglm3", {"qkv_bias": True}),
    ("chatglm4", {"qkv_bias": True}),
    ("chatglm", _LAYER_NORM),
    ("glm4", {"qkv_bias": True}),
    ("glm3", {"qkv_bias": True}),
    ("glm2", {"qkv_bias": True}),
    ("codegeex2", {"qkv_bias": True}),
    ("glm", _LAYER_NORM),
    ("qwen3", {"qk_norm": True}),
    ("qwen", {"qkv_bias": True}),
    ("llama", {}),
    ("deepseek", {}),
    ("mixtral", {}),
    ("mistral", {}),
    ("baichuan", {}),
    ("internlm", {}),
    ("yi", {}),
    ("telechat", {}),
    ("codellama", {}),
    ("skywork", {}),
    ("mcore", {}),
)


def traits(family: str) -> Optional[Mapping[str, Any]]:
    """Structure of a family, or None for one that is not a decoder known here. `family` in lower case."""
    word = family.replace("_", "").replace("-", "").replace(".", "")
    return next((known for start, known in _TRAITS if word.startswith(start)), None)
