"""Names of settings of the model: unknown, of another class or generation."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import check
from doctor.checks.config.judge import (
    MINDFORMERS,
    applies,
    because,
    remove,
    rename,
    shown,
)
from doctor.checks.config.keys import at_name, cures, question
from doctor.checks.config.spelling import meant, one_slip, same_in_other_words
from doctor.finding import Finding, Severity, Text
from doctor.plan.fields import CANONICAL, SPELLINGS
from doctor.plan.names import arguments
from doctor.plan.plan import Dialect, Plan
from doctor.plan.schema import section_specs, strict_keys
from doctor.plan.value import Value
from doctor.rule import Rule


@check(
    Rule(
        id="CFG-KEY-004",
        name="unknown-model-setting",
        severity=Severity.WARNING,
        category="config",
        title=Text("{key} is no known setting of a model", "{key} 不是已知的模型设置"),
        why=Text(
            "Legacy models swallow unknown settings (**kwargs) and use the default; mcore stops with `Configuration conversion failed`.",
            "legacy 模型会吞掉未知设置（**kwargs）并使用默认值；mcore 会报 `Configuration conversion failed`。",
        ),
        fix=Text("Correct the spelling or remove it.", "改正拼写或删除。"),
        references=("mindformers/parallel_core/transformer_config_utils.py convert_to_transformer_config",),
    )
)
@applies(MINDFORMERS)
def unknown_model_setting(plan: Plan) -> Iterator[Finding]:
    section = plan.model.section
    known = section_specs(plan.dialect, "model" if plan.dialect is Dialect.PYNATIVE else "model.model_config").keys()
    own = plan.dialect is Dialect.LEGACY and section.get("auto_register").given
    for inner in section.mapping.values():
        # A model inside the model: only slips in the sizes that every model has.
        lacking = _sizes(inner)
        for name, value in inner.mapping.items():
            hint = next((word for word in lacking if one_slip(name, word)), None) if name not in known else None
            if hint is not None and inner.name != "pet_config":
                yield unknown_model_setting.finding(
                    because(
                        unknown_model_setting,
                        f"{name} is not known.{question(hint).en}",
                        f"未知的 {name}。{question(hint).zh}",
                    ),
                    evidence=at_name(plan, value, hint),
                    fixes=cures(plan, value, hint),
                    key=value.key,
                )
    for name, value in section.mapping.items():
        if name in known:
            continue
        hint = meant(name, known - section.mapping.keys(), 0.8)
        if hint is None and (plan.dialect is Dialect.LEGACY or own):
            continue
        ask = question(hint)
        mcore = plan.dialect is Dialect.MCORE and plan.trains
        yield unknown_model_setting.finding(
            because(unknown_model_setting, f"{name} is not known.{ask.en}", f"未知的 {name}。{ask.zh}"),
            evidence=at_name(plan, value, hint),
            fixes=cures(plan, value, hint),
            severity=Severity.ERROR if mcore and hint else None if hint else Severity.INFO,
            key=value.key,
        )


def _sizes(model: Value) -> list[str]:
    """The spellings of sizes that a model does not give under any name."""
    given = {CANONICAL.get(name, name) for name in model.mapping}
    return sorted(word for name in _SHAPING - given for word in SPELLINGS[name] if len(word) > 6)


@check(
    Rule(
        id="CFG-KEY-018",
        name="model-setting-in-other-words",
        severity=Severity.WARNING,
        category="config",
        title=Text("{owner} does not read {key}", "{owner} 不读取 {key}"),
        why=Text(
            "A legacy model swallows names that it does not know (**kwargs) and builds itself with its default.",
            "legacy 模型会吞掉未知名称（**kwargs），并按默认值构建。",
        ),
        fix=Text("Use the name of this class.", "使用该类自己的名称。"),
        references=("mindformers/models/configuration_utils.py PretrainedConfig.__init__",),
    )
)
@applies((Dialect.LEGACY,))
def other_words(plan: Plan) -> Iterator[Finding]:
    section = plan.model.section
    owner = plan.model.type.words
    taken = arguments("config", owner)
    if taken is None or section.get("auto_register").given:
        return
    for name, value in section.mapping.items():
        part = next((part for part in ("parallel_config", "moe_config") if name in strict_keys(part)), None)
        if part is not None and name not in taken[0] and not plan.root.get(part, name).given:
            yield other_words.finding(
                because(other_words, f"{name} belongs into {part}.", f"{name} 应写在 {part} 中。"),
                evidence=at_name(plan, value, f"{part}.{name}"),
                fixes=(remove(plan, value, safe=False),),
                owner=owner,
                key=value.key,
            )
            continue
        own = same_in_other_words(name, taken[0] - section.mapping.keys()) if name not in taken[0] else None
        if own is None or CANONICAL.get(own) not in _SHAPING or _given_otherwise(section, own, name):
            continue
        yield other_words.finding(
            because(
                other_words,
                f"{owner} calls it {own}: {shown(value)} has no effect.",
                f"{owner} 中对应的名称是 {own}：{shown(value)} 不生效。",
            ),
            evidence=at_name(plan, value, own),
            fixes=(rename(plan, value, own),),
            owner=owner,
            key=value.key,
        )


def _given_otherwise(section: Value, own: str, name: str) -> bool:
    """Whether the section gives the field under a third name, which the class may read."""
    return any(section.get(word).given for word in SPELLINGS.get(CANONICAL[own], ()) if word != name)


#: fields that decide what the model is
_SHAPING = frozenset(
    (
        "num_layers",
        "hidden_size",
        "num_attention_heads",
        "num_query_groups",
        "ffn_hidden_size",
        "vocab_size",
        "seq_length",
        "compute_dtype",
        "params_dtype",
    )
)
