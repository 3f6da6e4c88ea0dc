"""Query and key rows in another order of rotary pairs: Meta keeps a pair side by side, Hugging Face half a head apart.

A checkpoint converted from Meta's files without turning the rows has the right names and shapes, and a bad loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from doctor.check import Skip, check
from doctor.checks.weights.compared import diagnosed, head_size
from doctor.checks.weights.subject import Weights
from doctor.checks.weights.verdicts import MAX_LAYERS, told, wants_values
from doctor.finding import Finding, Severity, Text
from doctor.rule import Rule

if TYPE_CHECKING:
    from doctor.formats.families.family import Group
    from doctor.formats.recognise import Model

#: Families whose heads are turned whole, in halves, without norms on q and k that would hide the sizes of rows.
_FAMILIES = frozenset({"llama", "qwen2"})
#: Rows of a head from which on its curve means something.
MIN_HEAD = 16
_WORDS = {
    "half a head apart": Text(
        "half a head apart (Hugging Face, MindFormers)", "相隔半个头（Hugging Face、MindFormers）"
    ),
    "side by side": Text("side by side (Meta)", "相邻（Meta）"),
}


@check(
    Rule(
        id="WGT-ORD-002",
        name="rotary-rows-in-another-order",
        severity=Severity.WARNING,
        category="weights-mismatch",
        title=Text(
            "The rotary pairs of q and k seem to stand {observed}", "q、k 的旋转位置编码行疑似按{observed_zh}排列"
        ),
        why=Text(
            "Row sizes follow the rotary frequencies when pairs are taken {observed} ({agreeing} of {layers} layers agree); programs that "
            "read these names take them {expected}. Names and shapes fit, so it loads without a word, and the loss is that of a model "
            "that cannot tell positions.",
            "按{observed_zh}配对时，各行大小才随旋转频率平滑变化（{layers} 层中 {agreeing} 层一致）；而读取这些参数名的程序按{expected_zh}配对。"
            "名称和形状都正确，加载不会报错，但模型分辨不出位置，loss 明显偏高。",
        ),
        fix=Text(
            "Convert again from the original files with the permutation of q and k: doctor convert META_FOLDER DST",
            "从原始文件重新转换，并对 q、k 做行置换：doctor convert META_FOLDER DST",
        ),
        verify="doctor check --values {path}",
        confidence=0.7,
        false_positives=Text("Models that were trained very little.", "几乎没有训练过的模型。"),
    )
)
def rotary_order(subject: Weights) -> Iterator[Finding]:
    wants_values(subject)
    model = diagnosed(subject).model
    if model.family.id not in _FAMILIES or subject.set.sliced or subject.set.parallel:
        raise Skip(
            Text("no whole q and k of a family that is known to turn in halves", "不是已知按半个头配对的完整 q、k")
        )
    head = head_size(subject, model)
    if head is None or head < MIN_HEAD or head % 2:
        raise Skip(Text("the head size is not known, or too small to tell", "每头维度未知或过小，无法判断"))
    from doctor.formats.roworder import compare_rotary

    verdict = compare_rotary(_rows(subject, model, head), head)
    expected = "side by side" if model.layout.id == "meta" else "half a head apart"
    if verdict is None or verdict.order == expected:
        return
    yield rotary_order.finding(**told(subject, verdict, _WORDS[verdict.order], _WORDS[expected]))


def _rows(subject: Weights, model: Model, head: int) -> list[Any]:
    """For some layers the sizes of the rows of q and k, whatever they are fused with."""
    import numpy

    from doctor.formats.families.expr import evaluate
    from doctor.formats.roworder import row_sizes
    from doctor.formats.values import FORMATS

    known = model.symbols.keys() | {"D"}
    groups = [
        group for group in model.layout.groups if _holds(group) and len(group.own) == 1 and known >= set(group.op.needs)
    ]
    step = max(1, len(model.layers) // MAX_LAYERS)
    sizes = {**model.symbols, "D": head}
    found = []
    for layer in model.layers[::step][:MAX_LAYERS]:
        parts = []
        for group in groups:
            member = model.by_place.get((group.own[0], layer, None))
            if member is None or member.tensor.dtype not in FORMATS or len(member.tensor.spans) != 1:
                continue
            if member.tensor.shape != tuple(evaluate(axis, sizes) for axis in member.param.shape):
                continue
            try:
                rows = row_sizes(subject.set.homes[member.tensor.name][0].path, member.tensor)
            except (OSError, ValueError):
                continue
            # Meta's own order is what is asked about, so its operation is not undone.
            split = [rows] if group.op.name == "rotary-pairs" else group.op.backward([rows], sizes)
            parts += [
                part
                for part, name in zip(split, group.canonical)
                if ("q_proj" in name or "k_proj" in name) and part.size and part.size % head == 0
            ]
        if parts:
            found.append(numpy.concatenate(parts))
    return found


def _holds(group: Group) -> bool:
    return any(name.endswith(("q_proj.weight", "k_proj.weight")) for name in group.canonical)
