"""Are the parameters called what the program that loads calls them?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from doctor.check import check
from doctor.checks.weights.compared import diagnosed, source
from doctor.checks.weights.subject import UNKNOWN, Weights
from doctor.checks.words import some
from doctor.finding import Edit, Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule

if TYPE_CHECKING:
    from doctor.checks.weights.diagnosis import Diagnosis


@check(
    Rule(
        id="WGT-KEY-005",
        name="names-have-a-prefix",
        severity=Severity.WARNING,
        category="weights-mismatch",
        title=Text("Every name {has} {prefix}", "所有参数名都{has_zh} {prefix}"),
        why=Text(
            "{family} calls it {expected}, here it is {observed}: a wrapper's name was saved too, or stripped. MindSpore "
            "strips one common prefix silently and fails on others; Hugging Face reports every key as missing.",
            "{family} 的参数名是 {expected}，此处是 {observed}：保存时多带或丢掉了外层名称。MindSpore 会悄悄去掉一层公共前缀，"
            "其余情况加载失败；Hugging Face 会报所有键缺失。",
        ),
        fix=Text("Rename the parameters: doctor convert {path} DST", "重命名参数：doctor convert {path} DST"),
        verify="doctor check {path}",
    )
)
def prefix(subject: Weights) -> Iterator[Finding]:
    found = diagnosed(subject)
    model = found.model
    extra = model.prefix
    if extra == "model." and model.layout.id == "mcore":
        extra = ""
    if not extra and (not model.lacking or model.lacking == model.layout.optional_prefix):
        return
    sample = next(member for member in model.members if member.layer is not None)
    own = sample.param.name.replace("{i}", str(sample.layer))
    yield prefix.finding(
        evidence=(Evidence("value", str(subject.path), key=sample.tensor.name, expected=own),),
        prefix=extra or model.lacking,
        has="begins with" if extra else "lacks",
        has_zh="以此开头：" if extra else "缺少前缀",
        family=model.family.title,
        observed=sample.tensor.name,
        expected=own,
        path=subject.path,
    )


@check(
    Rule(
        id="WGT-KEY-006",
        name="naming-of-another-framework",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text(
            "The names are {observed}'s, {source} needs {expected}'s",
            "参数命名是 {observed}，而 {source} 需要 {expected}",
        ),
        why=Text(
            "{sample} would be called {wanted} there. No name matches, so the model would train from random values.",
            "{sample} 在目标模型中名为 {wanted}。没有一个名称对得上，模型会从随机值开始训练。",
        ),
        fix=Text(
            "Convert the weights first: doctor convert {path} DST --to {expected}",
            "先转换权重：doctor convert {path} DST --to {expected}",
        ),
        verify="doctor check DST",
    )
)
def foreign_names(subject: Weights) -> Iterator[Finding]:
    found = diagnosed(subject)
    expected = found.expected
    if expected is None or expected.layout is None or found.other_family:
        return
    model = found.model
    if model.layout.id == expected.layout:
        return
    # MindFormers from 1.4 on renames Hugging Face safetensors itself while loading.
    if model.layout.id == "huggingface" and subject.set.format == "safetensors":
        return
    target = next((layout for layout in model.family.layouts if layout.id == expected.layout), None)
    sample, wanted = _renamed(found, target.groups if target is not None else ())
    yield foreign_names.finding(
        evidence=(Evidence("value", str(subject.path), key=sample, expected=wanted),),
        observed=model.layout.id,
        expected=expected.layout,
        source=source(found),
        sample=sample,
        wanted=wanted,
        path=subject.path,
    )


def _renamed(found: Diagnosis, groups: tuple[object, ...]) -> tuple[str, str]:
    from doctor.formats.families.family import Group

    model = found.model
    canonical = {own: group.canonical[0] for group in model.layout.groups for own in group.own}
    member = next((m for m in model.members if m.layer == 0), model.members[0])
    wanted = canonical[member.param.name]
    for group in groups:
        assert isinstance(group, Group)
        if wanted in group.canonical:
            return member.tensor.name, group.own[0].replace("{i}", str(member.layer))
    return member.tensor.name, wanted.replace("{i}", str(member.layer))


@check(
    Rule(
        id="WGT-KEY-008",
        name="model-family-mismatch",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text(
            "These are {observed} weights, {source} says {expected}",
            "权重是 {observed_zh}，而 {source} 写的是 {expected}",
        ),
        why=Text(
            "The parameter names fit {observed}; of those of {expected} {lacking} are not there. A wrong model type at "
            "conversion is the commonest cause of key errors.",
            "参数名符合 {observed_zh}；{expected} 所需的参数中缺少 {lacking_zh}。转换时模型类型选错是键不匹配最常见的原因。",
        ),
        fix=Text(
            "Use the config of {observed}, or the weights of {expected}; convert again with the right model type.",
            "改用 {observed_zh} 的配置，或换成 {expected} 的权重；用正确的模型类型重新转换。",
        ),
        verify="doctor check {path}",
    )
)
def family(subject: Weights) -> Iterator[Finding]:
    found = diagnosed(subject)
    expected = found.expected
    if not found.other_family or expected is None or expected.family is None:
        return
    own = {group for item in found.model.layout.groups for group in item.canonical}
    known = found.model.family.id != UNKNOWN
    observed = found.model.family.title if known else "other"
    observed_zh = found.model.family.title if known else "其他模型"
    lacking = some([param.name for param in expected.family.params if not param.when and param.name not in own])
    names = ("model_type", "type", "architectures")
    yield family.finding(
        evidence=(expected.evidence(names, found.model.family.id, expected.family.id),),
        observed=observed,
        observed_zh=observed_zh,
        expected=expected.family.title,
        lacking=lacking.en or "some",
        lacking_zh=lacking.zh or "一部分",
        source=source(found),
        path=subject.path,
    )


@check(
    Rule(
        id="WGT-KEY-009",
        name="fused-projections-mismatch",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text(
            "{source} expects {expected} projections, the weights have {observed} ones",
            "{source} 期望{expected_zh}，而权重是{observed_zh}",
        ),
        why=Text(
            "qkv_concat is {flag} in {source}, and {sample} is in the weights: {effect}",
            "{source} 中 qkv_concat 为 {flag}，而权重中有 {sample}：{effect_zh}",
        ),
        fix=Text("Set {key} to {value}, or convert the weights.", "将 {key} 设为 {value}，或转换权重。"),
        verify="doctor check {path}",
    )
)
def fused(subject: Weights) -> Iterator[Finding]:
    found = diagnosed(subject)
    expected = found.expected
    if expected is None or expected.variant is None or found.model.layout.id != expected.layout:
        return
    if found.model.layout.variant == expected.variant or found.other_family:
        return
    is_fused = found.model.layout.variant == "qkv_concat"
    sample = next(
        (m.tensor.name for m in found.model.members if "w_qkv" in m.param.name or ".wq." in m.param.name),
        found.model.members[0].tensor.name,
    )
    key = expected.key(("qkv_concat",))
    words = {True: ("fused", "合并的 qkv"), False: ("split", "拆分的 q、k、v")}
    yield fused.finding(
        evidence=(expected.evidence(("qkv_concat",), is_fused, not is_fused),),
        fixes=(
            Fix(
                Text(f"Set {key} to {is_fused}, or convert the weights.", f"将 {key} 设为 {is_fused}，或转换权重。"),
                edits=(Edit(str(expected.source), key, not is_fused, is_fused),),
                applicability="unsafe",
                verify=f"doctor check {subject.path}",
            ),
        ),
        source=source(found),
        expected=words[not is_fused][0],
        expected_zh=words[not is_fused][1],
        observed=words[is_fused][0],
        observed_zh=words[is_fused][1],
        flag=not is_fused,
        sample=sample,
        effect="MindFormers stops with 'The qkv concat check failed!', older releases train on from random values.",
        effect_zh="MindFormers 会报 The qkv concat check failed!，旧版本则从随机值开始训练。",
        key=key,
        value=is_fused,
        path=subject.path,
    )


@check(
    Rule(
        id="WGT-KEY-013",
        name="layer-numbers-padded",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text("{count} names spell the layer number with leading zeros", "{count} 个参数名的层号带前导零"),
        why=Text(
            "{name} is another name than {wanted}, which every loader looks for: the parameters count as missing and keep random values.",
            "{name} 与加载时查找的 {wanted} 不是同一个名称：这些参数会被视为缺失并保持随机值。",
        ),
        fix=Text(
            "Rename the parameters without the zeros, or convert: doctor convert {path} DST",
            "去掉前导零后重命名，或转换：doctor convert {path} DST",
        ),
        verify="doctor check {path}",
    )
)
def padded_numbers(subject: Weights) -> Iterator[Finding]:
    wrong = [name for name in subject.set.tensors if _PADDED.search(name)]
    if wrong:
        wanted = _PADDED.sub(r"\1", wrong[0])
        yield padded_numbers.finding(
            evidence=[
                Evidence("value", str(subject.path), key=name, expected=_PADDED.sub(r"\1", name)) for name in wrong[:5]
            ],
            count=len(wrong),
            name=wrong[0],
            wanted=wanted,
            path=subject.path,
        )


_PADDED = re.compile(r"((?:^|\.)(?:layers|layer|h|blocks|block|experts)\.)0+(?=\d+(?:\.|$))")
