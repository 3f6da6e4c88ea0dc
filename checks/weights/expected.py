"""The model that the weights are meant for: from the config beside them, or from a training config.

Both become one `Expected`: a family, its sizes, and the place where each size is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from doctor.finding import Evidence, Location, Text

if TYPE_CHECKING:
    from doctor.formats.families.family import Family, Sizes
    from doctor.formats.modelconfig import ModelConfig
    from doctor.plan.plan import Plan


@dataclass(frozen=True)
class Expected:
    """`layout` is the naming that the program that loads expects, None when any will do; `places` say where a
    field is written."""

    source: Path
    family: Optional[Family]
    sizes: Optional[Sizes]
    data: Mapping[str, Any]
    layout: Optional[str] = None
    variant: Optional[str] = None
    places: Mapping[str, Location] = field(default_factory=dict)
    error: Optional[Text] = None
    #: whether it is a training config and not the file that came with the weights
    training: bool = False
    #: the field that the family needs and the config lacks
    lacking: Optional[str] = None

    def evidence(self, names: tuple[str, ...], observed: object, expected: object) -> Evidence:
        """That the config asks for `expected` under the first of these fields that it has."""
        for name in names:
            if name in self.places:
                return Evidence.at(self.places[name], observed=observed, expected=expected)
        return Evidence("value", str(self.source), key=names[0], observed=observed, expected=expected)

    def key(self, names: tuple[str, ...]) -> str:
        """The first of these fields that the config has, by its full path."""
        for name in names:
            if name in self.places:
                return self.places[name].key or name
        return names[0]


def of_folder(folder: Path) -> Optional[Expected]:
    """From config.json (or params.json) in the folder of the weights."""
    from doctor.formats import modelconfig

    config = modelconfig.beside(folder)
    return of_config(config) if config is not None else None


def of_config(config: ModelConfig) -> Expected:
    """From a config that was read."""
    places = {
        name: Location(str(config.path), line=config.line(name), key=name)
        for name in config.data
        if config.line(name) is not None
    }
    return Expected(
        config.path, config.family, config.sizes, config.data, places=places, error=config.error, lacking=config.lacking
    )


def of_training(path: Path) -> Expected:
    """From a training config of any dialect. Raises UsageError when it cannot be read."""
    from doctor.formats import modelconfig
    from doctor.formats.families.family import MCORE, MINDFORMERS
    from doctor.plan.build import load_plan
    from doctor.plan.plan import Dialect

    plan = load_plan(path)
    data, places = _fields(plan)
    if plan.dialect is Dialect.HUGGINGFACE:
        return of_config(modelconfig.read(path))
    family = _family(plan, data)
    layout = {Dialect.LEGACY: MINDFORMERS, Dialect.MCORE: MCORE, Dialect.PYNATIVE: MCORE}.get(plan.dialect)
    sizes = modelconfig.sizes_of(family, data) if family is not None else None
    variant = None
    if plan.dialect is Dialect.LEGACY and "qkv_concat" in data:
        variant = "qkv_concat" if data["qkv_concat"] is True else ""
    return Expected(path, family, sizes, data, layout, variant, places, training=True)


#: MindFormers' spelling of a field, and what Hugging Face configs call it.
_HF_NAMES = {
    "num_layers": "num_hidden_layers",
    "num_query_groups": "num_key_value_heads",
    "ffn_hidden_size": "intermediate_size",
    "kv_channels": "head_dim",
    "num_moe_experts": "num_experts",
    "moe_ffn_hidden_size": "moe_intermediate_size",
    "untie_embeddings_and_output_weights": "untied",
    "qk_head_dim": "qk_nope_head_dim",
    "qk_pos_emb_head_dim": "qk_rope_head_dim",
    "add_qkv_bias": "attention_bias",
    "moe_shared_expert_num": "n_shared_experts",
    "shared_expert_num": "n_shared_experts",
    "mtp_num_layers": "num_nextn_predict_layers",
}


def _fields(plan: Plan) -> tuple[dict[str, Any], dict[str, Location]]:
    from doctor.formats import modelconfig
    from doctor.plan.plan import Dialect

    data: dict[str, Any] = {}
    places: dict[str, Location] = {}
    for name, value in plan.model.fields.items():
        if value.value is None or not value.is_scalar:
            continue
        for spelling in {name, value.name, _HF_NAMES.get(name, name)}:
            data.setdefault(spelling, value.value)
            if value.given:
                places.setdefault(spelling, value.location)
    hidden = data.get("hidden_size")
    if plan.dialect is Dialect.LEGACY and "intermediate_size" not in data and type(hidden) is int:
        data["intermediate_size"] = modelconfig.feed_forward(
            hidden, data.get("multiple_of"), data.get("ffn_dim_multiplier")
        )
    return data, places


def _family(plan: Plan, data: Mapping[str, Any]) -> Optional[Family]:
    """By the model's class, alias or type; a LLaMA class with biases on q, k and v is a Qwen 2."""
    from doctor.formats.families import FAMILIES

    words = {
        word.lower()
        for word in (plan.model.family, plan.model.type.words, plan.model.architecture.words, plan.model.name.words)
        if word
    }
    kind = data.get("model_type")
    if isinstance(kind, str):
        words.add(kind.lower())
    found = next(
        (family for family in FAMILIES if words & {*family.aliases, *family.model_types, family.id}),
        None,
    )
    if found is not None and found.id == "llama" and data.get("attention_bias") is True:
        return next(family for family in FAMILIES if family.id == "qwen2")
    return found
