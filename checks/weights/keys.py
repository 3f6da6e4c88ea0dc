"""Are the parameters there that the model needs, and only those?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from doctor.check import check
from doctor.checks.weights.compared import diagnosed, set_field, source, whole
from doctor.checks.weights.fields import FIELDS
from doctor.checks.weights.subject import Weights
from doctor.checks.words import NOT_THERE, ranges, some
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.formats.layers import by_pattern
from doctor.rule import Rule

if TYPE_CHECKING:
    from doctor.checks.weights.diagnosis import Diagnosis


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
        evidence=[Evidence("value", str(subject.path), key=name, observed=NOT_THERE) for name in found.missing[:5]],
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
        evidence=[
            Evidence("value", str(subject.path), key=name, observed=Text("unused", "未使用"))
            for name in model.unknown[:5]
        ],
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
        evidence = Evidence(
            "value",
            str(subject.path),
            observed=Text(f"layers {there}", f"第 {there} 层"),
            expected=Text(f"layers {ranges(lost)}", f"第 {ranges(lost)} 层"),
        )
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
        fixes=(set_field(found, FIELDS["L"], depth.expected, depth.observed, subject),),
        observed=depth.observed,
        expected=depth.expected,
        source=source(found),
        layers=ranges(found.surplus_layers),
        name=f" than {known.name}" if known else "",
        name_zh=f"，而不是 {known.name}" if known else "",
        key=key,
        path=subject.path,
    )


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
        evidence=(Evidence("value", str(subject.path), key=name, observed=NOT_THERE),),
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
            Evidence(
                "value",
                str(subject.path),
                key=f"layers.{layer}.mlp.experts.{expert}",
                observed=Text("not complete", "不完整"),
            )
            for layer, expert in found.missing_experts[:5]
        ],
        count=len(found.missing_experts),
        names=names.en,
        names_zh=names.zh,
        path=subject.path,
    )
