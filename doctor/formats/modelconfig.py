"""Reads the config that lies beside weights: Hugging Face's ``config.json`` or Meta's ``params.json``.

The lines of the fields are kept, so that a finding can point at the one to edit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Optional

from doctor.finding import Text
from doctor.formats.families import BY_ID, FAMILIES
from doctor.formats.families.family import Family, Sizes

MAX_CONFIG = 4_000_000
NAMES = ("config.json", "params.json")


@dataclass(frozen=True)
class ModelConfig:
    """`data` are the fields of the language model (the inner ``text_config`` of a multi-modal one is lifted out).
    `error` says why the file could not be used."""

    path: Path
    data: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    error: Optional[Text] = None

    @property
    def model_type(self) -> Optional[str]:
        value = self.data.get("model_type")
        return value if isinstance(value, str) and value else None

    @cached_property
    def family(self) -> Optional[Family]:
        """By model_type; the several models called chatglm are told apart by the fields they use."""
        return family_of(self.data) if not self.error else None

    @cached_property
    def sizes(self) -> Optional[Sizes]:
        """What it says about shapes, or None when the family is unknown or the fields do not suffice."""
        return self.sizes_as(self.family) if self.family is not None else None

    def sizes_as(self, family: Family) -> Optional[Sizes]:
        """The same read as a config of this family. Meta's params.json may leave the vocabulary to the tokenizer:
        the sizes are then without it."""
        if self.path.name != "params.json" or "vocab_size" in self.data:
            return sizes_of(family, self.data)
        found = sizes_of(family, {**self.data, "vocab_size": 1})
        if found is None:
            return None
        return replace(found, symbols={symbol: size for symbol, size in found.symbols.items() if symbol != "V"})

    @property
    def lacking(self) -> Optional[str]:
        """The first field that the family needs and the config does not have."""
        if self.family is None or self.sizes is not None:
            return None
        try:
            self.family.sizes(self.data)
        except KeyError as error:
            return str(error.args[0])
        except (ValueError, ZeroDivisionError, TypeError):
            return "hidden_size, num_attention_heads"
        return None

    def line(self, key: str) -> Optional[int]:
        """The line on which a field stands, counted from 1."""
        match = re.search(rf'"{re.escape(key)}"\s*:', self.text)
        return self.text.count("\n", 0, match.start()) + 1 if match else None


def beside(folder: Path) -> Optional[ModelConfig]:
    """The config in a folder, or None when there is none."""
    for name in NAMES:
        path = folder / name
        try:
            if path.is_file():
                return read(path)
        except OSError:
            continue
    return None


def read(path: Path) -> ModelConfig:
    """Reads one; a file that is broken is returned with its `error`."""
    try:
        if path.stat().st_size > MAX_CONFIG:
            return ModelConfig(path, error=Text("it is larger than any model config", "文件大小超过任何模型配置"))
        text = path.read_text("utf-8-sig")
        data = json.loads(text)
    except OSError as error:
        word = error.strerror or "cannot be read"
        return ModelConfig(path, error=Text(word, word))
    except json.JSONDecodeError as error:
        return ModelConfig(
            path,
            error=Text(
                f"not JSON: {error.msg} at line {error.lineno}", f"不是合法的 JSON：第 {error.lineno} 行 {error.msg}"
            ),
        )
    except (ValueError, RecursionError):
        return ModelConfig(path, error=Text("not JSON in UTF-8", "不是 UTF-8 编码的 JSON"))
    if not isinstance(data, dict):
        return ModelConfig(path, error=Text("not a JSON object", "不是 JSON 对象"))
    return ModelConfig(path, _lifted(_from_meta(data) if path.name == "params.json" else data), text)


def family_of(data: Mapping[str, Any]) -> Optional[Family]:
    """The family of a Hugging Face config."""
    kind = data.get("model_type")
    if not isinstance(kind, str):
        architectures = data.get("architectures")
        first = architectures[0] if isinstance(architectures, list) and architectures else ""
        return next((family for family in FAMILIES if str(first).lower() in family.aliases), None)
    if kind == "chatglm":
        first_generation = "inner_hidden_size" in data or "position_encoding_2d" in data
        return BY_ID["chatglm" if first_generation else "chatglm2"]
    return next((family for family in FAMILIES if kind.lower() in family.model_types), None)


def sizes_of(family: Family, data: Mapping[str, Any]) -> Optional[Sizes]:
    """`family.sizes`, or None when the config does not say enough or contradicts itself."""
    try:
        return family.sizes(data)
    except (KeyError, ValueError, ZeroDivisionError, TypeError):
        return None


def _lifted(data: dict[str, Any]) -> dict[str, Any]:
    for key in ("text_config", "llm_config", "language_config"):
        inner = data.get(key)
        if isinstance(inner, dict) and "hidden_size" in inner and "hidden_size" not in data:
            return {**data, **inner}
    return data


def _from_meta(data: Mapping[str, Any]) -> dict[str, Any]:
    """Meta's words as Hugging Face's. Its vocabulary may be -1: the tokenizer decides."""
    dim, heads = data.get("dim"), data.get("n_heads")
    found: dict[str, Any] = {"model_type": "llama"}
    pairs = (
        ("dim", "hidden_size"),
        ("n_heads", "num_attention_heads"),
        ("n_kv_heads", "num_key_value_heads"),
        ("n_layers", "num_hidden_layers"),
        ("vocab_size", "vocab_size"),
        ("norm_eps", "rms_norm_eps"),
        ("rope_theta", "rope_theta"),
    )
    found.update({theirs: data[own] for own, theirs in pairs if own in data})
    vocabulary = found.get("vocab_size")
    if type(vocabulary) is int and vocabulary < 0:
        del found["vocab_size"]
    if type(dim) is int and type(heads) is int:
        found["intermediate_size"] = feed_forward(
            dim, data.get("multiple_of", 256), data.get("ffn_dim_multiplier"), exact=True
        )
    return found


def feed_forward(hidden: int, multiple_of: Any, multiplier: Any, exact: bool = False) -> int:
    """LLaMA's feed-forward width where the config only implies it: two thirds of four times the hidden size, times
    the multiplier, up to the next multiple. MindFormers multiplies first, with 0.01 added (models/llama); Meta's
    own model (`exact`) takes two thirds first."""
    multiple = multiple_of if type(multiple_of) is int and multiple_of > 0 else 256
    factor = multiplier if isinstance(multiplier, (int, float)) and not isinstance(multiplier, bool) else None
    width = 4 * hidden
    if exact:
        width = int(2 * width / 3)
        width = int(factor * width) if factor else width
    else:
        width = int((factor + 0.01) * width) if factor else width
        width = int(2 * width / 3)
    return multiple * -(-width // multiple)
