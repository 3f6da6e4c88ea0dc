"""The shape of a decoder: one dataclass for every family, with Hugging Face's names for the sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Optional

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.trainer.fields import Choice, Flag, Kind, Maybe, Number, Place, read_section, setting, wrong

_SIZE = Number(1, 10**9, integer=True, rule="CFG-MOD-005")


class _ScalingKind(Kind):
    """Hugging Face's `rope_scaling`: null, linear, or llama3's frequency-wise one."""

    def read(self, value: Any, place: Place) -> Optional[Mapping[str, Any]]:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise wrong(place, value, Text("a mapping or null", "映射或 null"), rule="CFG-TYP-009")
        kind = value.get("rope_type", value.get("type", "default"))
        if kind == "default":
            return None
        read: dict[str, Any] = {"rope_type": Choice(("linear", "llama3")).read(kind, place.at("rope_type"))}
        read["factor"] = Number(0, above=True).read(value.get("factor", 1.0), place.at("factor"))
        if read["rope_type"] == "llama3":
            for name, default in (("low_freq_factor", 1.0), ("high_freq_factor", 4.0)):
                read[name] = Number(0, above=True).read(value.get(name, default), place.at(name))
            name = "original_max_position_embeddings"
            read[name] = _SIZE.read(value.get(name, 8192), place.at(name))
        return read


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and structure of a decoder. Defaults of the structure come from the family (`doctor.trainer.models.families`);
    a head is `hidden_size / num_attention_heads` wide unless `head_dim` says otherwise."""

    family: str = "llama"
    vocab_size: int = setting(32000, _SIZE)
    hidden_size: int = setting(4096, _SIZE, "n_embd", "n_embed")
    num_hidden_layers: int = setting(32, _SIZE, "num_layers", "n_layer")
    num_attention_heads: int = setting(32, _SIZE, "num_heads", "n_head")
    num_key_value_heads: Optional[int] = setting(None, Maybe(_SIZE), "n_kv_heads", "multi_query_group_num")
    head_dim: Optional[int] = setting(None, Maybe(_SIZE), "kv_channels")
    intermediate_size: Optional[int] = setting(None, Maybe(_SIZE), "ffn_hidden_size", "n_inner")
    max_position_embeddings: int = setting(2048, _SIZE, "seq_length", "n_positions")
    norm: str = setting("rms", Choice(("rms", "layer")))
    norm_eps: float = setting(1e-6, Number(0, 1, above=True), "rms_norm_eps", "layer_norm_epsilon", "layernorm_epsilon")
    position: str = setting("rotary", Choice(("rotary", "alibi", "learned")))
    rope_theta: float = setting(10000.0, Number(0, above=True), "theta", "rotary_base")
    rope_scaling: Optional[Mapping[str, Any]] = setting(None, _ScalingKind())
    #: the part of each head that is rotated, and whether pairs lie side by side (GLM) or half a head apart
    rotary_fraction: float = setting(1.0, Number(0, 1, above=True), "partial_rotary_factor")
    rotary_interleaved: bool = setting(False, Flag())
    mlp: str = setting("swiglu", Choice(("swiglu", "gelu")))
    qkv_bias: bool = setting(False, Flag(), "attention_bias", "add_qkv_bias", "qkv_has_bias")
    output_bias: bool = setting(False, Flag())
    mlp_bias: bool = setting(False, Flag())
    qk_norm: bool = setting(False, Flag())
    #: GLM-4-0414: a second norm behind attention and behind the MLP
    post_norms: bool = setting(False, Flag())
    embedding_norm: bool = setting(False, Flag())
    tie_word_embeddings: bool = setting(False, Flag())
    initializer_range: float = setting(0.02, Number(0, 10))

    @property
    def kv_heads(self) -> int:
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def head(self) -> int:
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def ffn(self) -> int:
        if self.intermediate_size is not None:
            return self.intermediate_size
        if self.mlp == "gelu":
            return 4 * self.hidden_size
        # LLaMA: three matrices as large as GPT's two, rounded up to a multiple of 256 (of 64 when tiny).
        unit = 256 if self.hidden_size >= 1024 else 64
        return -(-(8 * self.hidden_size // 3) // unit) * unit

    @property
    def parameters(self) -> int:
        """The exact number of trained values, tied embeddings counted once."""
        h, kv, inner = self.hidden_size, self.kv_heads * self.head, self.num_attention_heads * self.head
        norm = h if self.norm == "rms" else 2 * h
        attention = h * inner + 2 * h * kv + inner * h
        attention += (inner + 2 * kv if self.qkv_bias else 0) + (h if self.output_bias else 0)
        attention += 2 * self.head if self.qk_norm else 0
        matrices = 3 if self.mlp == "swiglu" else 2
        mlp = matrices * h * self.ffn + ((matrices - 1) * self.ffn + h if self.mlp_bias else 0)
        layer = attention + mlp + norm * (4 if self.post_norms else 2)
        embeddings = self.vocab_size * h * (1 if self.tie_word_embeddings else 2)
        embeddings += self.max_position_embeddings * h if self.position == "learned" else 0
        embeddings += norm if self.embedding_norm else 0
        return embeddings + self.num_hidden_layers * layer + norm

    def effective(self) -> dict[str, Any]:
        row: dict[str, Any] = {"type": self.family}
        for item in dataclasses.fields(self):
            if item.metadata:
                value = getattr(self, item.name)
                row[item.name] = dict(value) if isinstance(value, Mapping) else value
        return row

    def check(self, place: Place) -> None:
        """What must divide. Raises UsageError with the equation."""
        hidden, heads, kv = self.hidden_size, self.num_attention_heads, self.kv_heads
        if self.head_dim is None and hidden % heads:
            raise _equation(
                place.at("num_attention_heads"), f"hidden_size {hidden} / num_attention_heads {heads}", "CFG-MOD-001"
            )
        if heads % kv:
            rule = "CFG-MOD-007" if kv > heads else "CFG-MOD-002"
            raise _equation(
                place.at("num_key_value_heads"), f"num_attention_heads {heads} / num_key_value_heads {kv}", rule
            )
        rotated = int(self.head * self.rotary_fraction)
        if self.position == "rotary" and rotated % 2:
            raise _equation(place.at("head_dim"), f"rotated part of a head {rotated} / 2", "CFG-MOD-020")

    @classmethod
    def read(cls, raw: Mapping[str, Any], place: Place, base: Optional[ModelConfig] = None) -> ModelConfig:
        """Sizes of a section over those of `base` (a family's or an alias's). Raises UsageError."""
        read = read_section(cls, raw, place)
        if base is None:
            return read
        names = {item.name for item in dataclasses.fields(cls) if item.metadata}
        spelled = {also: item.name for item in dataclasses.fields(cls) for also in item.metadata.get("also", ())}
        said = {spelled.get(key, key) for key in raw} & names
        return replace(base, **{name: getattr(read, name) for name in said})


def _equation(place: Place, words: str, rule: str) -> UsageError:
    return UsageError(
        Text(f"{place}: {words} is not a whole number.", f"{place}：{words} 不能整除。"),
        Text("Choose sizes that divide.", "请选择能整除的尺寸。"),
        rule,
    )
