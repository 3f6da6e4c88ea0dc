"""Are the parameters there that the model needs, and only those?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Optional

from doctor.check import Skip, check
from doctor.checks.weights.fields import FIELDS
from doctor.checks.weights.subject import Weights
from doctor.checks.words import ranges, some
from doctor.finding import Edit, Evidence, Finding, Fix, Severity, Text
from doctor.formats.layers import by_pattern
from doctor.rule import Rule

if TYPE_CHECKING:
    from doctor.checks.weights.diagnosis import Diagnosis

_UNKNOWN = Text("no known model family has these parameter names", "参数名不属于任何已知的模型家族")
_PARTIAL = Text(
    "one shard of several was given; give the folder to judge the whole model",
    "只给出了其中一个分片；请给出整个目录以判断完整模型",
)
_LOST = Text(
    "a file of the set is missing or broken, which its own finding says", "有分片缺失或损坏，已在对应条目中报告"
)


def diagnosed(subject: Weights) -> Diagnosis:
    """The diagnosis of a model of a known family. Raises Skip when there is none."""
    found = subject.diagnosis
    if found is None:
        raise Skip(_UNKNOWN)
    return found


def whole(subject: Weights) -> Diagnosis:
    """The diagnosis of a set whose files are all there: only then can something be called missing."""
    found = diagnosed(subject)
    if subject.set.partial:
        raise Skip(_PARTIAL)
    if not subject.set.complete:
        raise Skip(_LOST)
    return found


def source(found: Diagnosis) -> str:
    """The config's name, for messages."""
    return found.expected.source.name if found.expected is not None else "config.json"


@check(
    Rule(
        id="WGT-KEY-001",
        name="parameters-missing",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text("{count} parameters are missing", "缺少 {count} 个参数"),
        why=Text(
            "{names} should be there for {family} and are not.{instead} MindSpore loads the rest, says so only in a warning, "
            "and trains on from random values.",
            "{family} 应有 {names_zh}，但权重中没有。{instead_zh}MindSpore 会加载其余参数，仅以警告提示，并从随机值开始训练。",
        ),
        fix=Text(
            "Take the weights from their source again; if they were converted, check the model type given to the "
            "converter.",
            "从源头重新获取权重；若由转换得到，请检查转换时指定的模型类型。",
        ),
        verify="doctor check {path}",
    )
)
def missing(subject: Weights) -> Iterator[Finding]:
    found = whole(subject)
    if found.other_family or not found.missing:
        return
    groups = by_pattern(found.missing)
    listed = []
    for pattern, members in groups.items():
        layers = [at.layer for at, _ in members if at.layer is not None]
        listed.append(pattern.replace("{i}", f"[{ranges(layers)}]") if layers else pattern)
    names = some(listed)
    instead = _misnamed(found)
    yield missing.finding(
        evidence=[Evidence("value", str(subject.path), key=name, observed="not there") for name in found.missing[:5]],
        count=len(found.missing),
        names=names.en,
        names_zh=names.zh,
        instead=instead.en,
        instead_zh=instead.zh,
        family=found.model.family.title,
        path=subject.path,
    )


def _misnamed(found: Diagnosis) -> Text:
    """A tensor of the same shape under a name that is nearly the missing one."""
    import difflib

    from doctor.formats.families.expr import evaluate

    shapes = {
        param.name: tuple(evaluate(axis, found.model.symbols) for axis in param.shape)
        for param in found.model.family.own_params(found.model.layout)
    }
    there = {name: found.shapes[name] for name in found.model.unknown[:200] if name in found.shapes}
    for pattern, members in by_pattern(found.missing[:200]).items():
        own = pattern[len(found.model.prefix) :]
        wanted = shapes.get(own, shapes.get(found.model.lacking + own))
        name = members[0][1]
        alike = [other for other, shape in there.items() if shape == wanted]
        near = difflib.get_close_matches(name, alike, n=1, cutoff=0.7)
        if near:
            return Text(
                f" {near[0]} has its shape: it is probably the same under another name.",
                f"{near[0]} 形状相同，可能是同一参数改了名。",
            )
    return Text("", "")


@check(
    Rule(
        id="WGT-KEY-002",
        name="parameters-unexpected",
        severity=Severity.WARNING,
        category="weights-mismatch",
        title=Text("{count} tensors are no parameters of {family}", "有 {count} 个张量不是 {family} 的参数"),
        why=Text(
            "{names}: {family} has no such parameters. They are left unused without an error; if they replace "
            "parameters of other names, those keep random values.",
            "{names_zh}：{family} 没有这些参数。加载时会被忽略且不报错；若它们本应对应其他名称的参数，那些参数将保持随机值。",
        ),
        fix=Text(
            "Check that the weights are of the model you mean; convert them with the right model type.",
            "确认权重与目标模型一致；用正确的模型类型转换。",
        ),
        verify="doctor check {path}",
    )
)
def unexpected(subject: Weights) -> Iterator[Finding]:
    found = diagnosed(subject)
    model = found.model
    if found.other_family or not model.unknown:
        return
    listed = []
    for pattern, members in by_pattern(model.unknown).items():
        layers = [at.layer for at, _ in members if at.layer is not None]
        listed.append(pattern.replace("{i}", f"[{ranges(layers)}]").replace("{e}", "*") if layers else pattern)
    names = some(listed)
    yield unexpected.finding(
        evidence=[Evidence("value", str(subject.path), key=name, observed="unused") for name in model.unknown[:5]],
        count=len(model.unknown),
        names=names.en,
        names_zh=names.zh,
        family=model.family.title,
        path=subject.path,
    )


@check(
    Rule(
        id="WGT-KEY-003",
        name="layers-missing",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text("Layers {layers} are not in the weights", "权重中没有第 {layers} 层"),
        why=Text(
            "{there} are there, {wanted}. The missing ones would keep random values.",
            "权重中有 {there_zh}，{wanted_zh}。缺少的层会保持随机初始化。",
        ),
        fix=Text(
            "Use the weights of the full model, or set {key} to {count} to train a model that is cut down on purpose.",
            "使用完整模型的权重；若有意裁剪模型，请将 {key} 设为 {count}。",
        ),
        verify="doctor check {path}",
    )
)
def layers_missing(subject: Weights) -> Iterator[Finding]:
    found = whole(subject)
    lost = found.missing_layers
    if not lost or found.other_family or found.other_size:
        return
    depth = found.difference("L")
    there = ranges(found.model.layers)
    if depth is not None and found.expected is not None:
        wanted = Text(f"{source(found)} asks for {depth.expected}", f"{source(found)} 要求 {depth.expected} 层")
        evidence = found.expected.evidence(FIELDS["L"], len(found.model.layers), depth.expected)
        key = found.expected.key(FIELDS["L"])
    else:
        wanted = Text("and the numbers between must be too", "其间的编号也应存在")
        evidence = Evidence("value", str(subject.path), observed=f"layers {there}", expected=f"layers {ranges(lost)}")
        key = "num_hidden_layers"
    yield layers_missing.finding(
        evidence=(evidence,),
        layers=ranges(lost),
        there=f"layers {there}",
        there_zh=f"第 {there} 层",
        wanted=wanted.en,
        wanted_zh=wanted.zh,
        key=key,
        count=len(found.model.layers),
        path=subject.path,
    )


@check(
    Rule(
        id="WGT-KEY-004",
        name="layers-left-over",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text(
            "The weights have {observed} layers, {source} asks for {expected}",
            "权重有 {observed} 层，而 {source} 要求 {expected} 层",
        ),
        why=Text(
            "Layers {layers} would be left out without an error, and the model would be another one{name}.",
            "第 {layers} 层会被忽略且不报错，得到的将是另一个模型{name_zh}。",
        ),
        fix=Text("Set {key} to {observed}.", "将 {key} 设为 {observed}。"),
        verify="doctor check {path}",
    )
)
def layers_left_over(subject: Weights) -> Iterator[Finding]:
    found = diagnosed(subject)
    depth = found.difference("L")
    if depth is None or depth.observed <= depth.expected or found.other_size or found.expected is None:
        return
    known = found.model.known
    key = found.expected.key(FIELDS["L"])
    yield layers_left_over.finding(
        evidence=(found.expected.evidence(FIELDS["L"], depth.observed, depth.expected),),
        fixes=(_set_field(found, FIELDS["L"], depth.expected, depth.observed, subject),),
        observed=depth.observed,
        expected=depth.expected,
        source=source(found),
        layers=ranges(found.surplus_layers),
        name=f" than {known.name}" if known else "",
        name_zh=f"，而不是 {known.name}" if known else "",
        key=key,
        path=subject.path,
    )


def _set_field(found: Diagnosis, fields: tuple[str, ...], old: int, new: int, subject: Weights) -> Fix:
    """The edit that makes the config say what the weights are."""
    assert found.expected is not None
    key = found.expected.key(fields)
    return Fix(
        Text(f"Set {key} to {new}.", f"将 {key} 设为 {new}。"),
        edits=(Edit(str(found.expected.source), key, old, new),),
        applicability="unsafe",
        verify=f"doctor check {subject.path}",
    )


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
        id="WGT-KEY-007",
        name="output-head-missing",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text("The output layer {name} is missing", "缺少输出层 {name}"),
        why=Text(
            "{because}, so the head is a parameter of its own. Without it the model starts with a random head: the loss "
            "begins near ln({vocabulary}) = {loss:.2f}.",
            "{because_zh}，输出层是独立参数。缺少时输出层随机初始化：初始 loss 约为 ln({vocabulary}) = {loss:.2f}。",
        ),
        fix=Text(
            "Take the full weights (not those of the base model without a head), or set tie_word_embeddings: true if the "
            "model was trained so.",
            "使用完整权重（而非不带输出层的基座）；若训练时共享词表，请设 tie_word_embeddings: true。",
        ),
        verify="doctor check {path}",
    )
)
def head_missing(subject: Weights) -> Iterator[Finding]:
    import math

    found = whole(subject)
    if not found.head_missing or found.other_family or found.other_size:
        return
    by_config = found.expected is not None and found.expected.sizes is not None
    known = found.model.known
    because = (
        Text(f"{source(found)} does not tie the embeddings", f"{source(found)} 没有共享词表")
        if by_config
        else Text(
            f"{known.name if known else ''} does not tie its embeddings", f"{known.name if known else ''} 不共享词表"
        )
    )
    name = next(p.name for p in found.model.family.own_params(found.model.layout) if p.when == "head")
    vocabulary = found.model.symbols.get("V", 0)
    yield head_missing.finding(
        evidence=(Evidence("value", str(subject.path), key=name, observed="not there"),),
        confidence=1.0 if by_config else 0.8,
        name=name,
        because=because.en,
        because_zh=because.zh,
        vocabulary=vocabulary,
        loss=math.log(max(vocabulary, 2)),
        path=subject.path,
    )


@check(
    Rule(
        id="WGT-KEY-008",
        name="model-family-mismatch",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text(
            "These are {observed} weights, {source} says {expected}", "权重是 {observed}，而 {source} 写的是 {expected}"
        ),
        why=Text(
            "The parameter names fit {observed}; of those of {expected} {lacking} are not there. A wrong model type at "
            "conversion is the commonest cause of key errors.",
            "参数名符合 {observed}；{expected} 所需的参数中缺少 {lacking_zh}。转换时模型类型选错是键不匹配最常见的原因。",
        ),
        fix=Text(
            "Use the config of {observed}, or the weights of {expected}; convert again with the right model type.",
            "改用 {observed} 的配置，或换成 {expected} 的权重；用正确的模型类型重新转换。",
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
    lacking = some([param.name for param in expected.family.params if not param.when and param.name not in own])
    names = ("model_type", "type", "architectures")
    yield family.finding(
        evidence=(expected.evidence(names, found.model.family.id, expected.family.id),),
        observed=found.model.family.title,
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
        id="WGT-KEY-010",
        name="adapter-without-base",
        severity=Severity.WARNING,
        category="weights-mismatch",
        title=Text("Only adapter weights are here", "这里只有适配器（LoRA）权重"),
        why=Text(
            "All {count} tensors belong to an adapter ({sample}); loaded as a model they leave every parameter random.",
            "全部 {count} 个张量都属于适配器（{sample}）；直接当作模型加载会使所有参数保持随机。",
        ),
        fix=Text(
            "Load the base model's weights too, or merge the adapter into them.",
            "同时加载基座权重，或先将适配器合并进基座。",
        ),
        verify="doctor check {path}",
    )
)
def adapter_only(subject: Weights) -> Iterator[Finding]:
    from doctor.formats.layers import is_lora

    names = list(subject.set.tensors)
    adapters = [name for name in names if is_lora(name)]
    if adapters and len(adapters) == len(names):
        yield adapter_only.finding(
            evidence=(Evidence("value", str(subject.path), key=adapters[0]),),
            count=len(adapters),
            sample=adapters[0],
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-KEY-011",
        name="experts-missing",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text("{count} experts are not complete", "有 {count} 个专家不完整"),
        why=Text(
            "{names}: parameters of these experts are not there. They would keep random values, and the router sends "
            "tokens to them.",
            "{names_zh}：这些专家缺少参数。它们会保持随机值，而路由仍会把 token 发给它们。",
        ),
        fix=Text("Take the weights from their source again.", "从源头重新获取权重。"),
        verify="doctor check {path}",
    )
)
def experts_missing(subject: Weights) -> Iterator[Finding]:
    found = whole(subject)
    if not found.missing_experts or found.other_family or found.other_size:
        return
    names = some([f"layer {layer} expert {expert}" for layer, expert in found.missing_experts])
    yield experts_missing.finding(
        evidence=[
            Evidence("value", str(subject.path), key=f"layers.{layer}.mlp.experts.{expert}", observed="not complete")
            for layer, expert in found.missing_experts[:5]
        ],
        count=len(found.missing_experts),
        names=names.en,
        names_zh=names.zh,
        path=subject.path,
    )


def known_name(found: Diagnosis) -> Optional[str]:
    """The published name of what the weights are."""
    return found.model.known.name if found.model.known is not None else None
