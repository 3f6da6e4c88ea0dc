"""On request (--values): can every number be computed with?"""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import check
from doctor.checks.weights.scanned import evidence_of_values, statistics
from doctor.checks.weights.subject import Weights
from doctor.checks.words import some
from doctor.finding import Finding, Severity, Text
from doctor.rule import Rule

_ELSEWHERE = Text(
    "Go back to the last checkpoint before it, or take the file from its source again; look at the loss around that step.",
    "退回到此前的权重，或从源头重新获取；并查看该步附近的 loss。",
)


@check(
    Rule(
        id="WGT-VAL-001",
        name="weights-not-a-number",
        severity=Severity.ERROR,
        category="nan-overflow",
        title=Text("{count} tensors hold NaN", "有 {count} 个张量含 NaN"),
        why=Text(
            "{names}; the first is at element {first} of {sample}. Every step from these weights has a loss of NaN. They were "
            "saved after the run had diverged, or the file is damaged.",
            "{names_zh}；首个位于 {sample} 的第 {first} 个元素。从这些权重开始的每一步 loss 都是 NaN。权重是在发散之后保存的，或文件已损坏。",
        ),
        fix=_ELSEWHERE,
        verify="doctor check --values {path}",
    )
)
def not_a_number(subject: Weights) -> Iterator[Finding]:
    wrong = [(name, row) for name, row in statistics(subject).items() if row.nan]
    if wrong:
        names = some([name for name, _ in wrong])
        yield not_a_number.finding(
            evidence=evidence_of_values(
                subject,
                (
                    (name, Text(f"{row.nan} NaN of {row.elements}", f"{row.elements} 个值中有 {row.nan} 个 NaN"))
                    for name, row in wrong
                ),
                Text("finite", "有限值"),
            ),
            count=len(wrong),
            names=names.en,
            names_zh=names.zh,
            first=wrong[0][1].first_bad,
            sample=wrong[0][0],
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-VAL-002",
        name="weights-infinite",
        severity=Severity.ERROR,
        category="nan-overflow",
        title=Text("{count} tensors hold infinities", "有 {count} 个张量含 Inf"),
        why=Text(
            "{names}: values became infinite, most often when larger ones were converted to float16 (limit 65504).",
            "{names_zh}：存在无穷大，最常见于把较大的值转换为 float16（上限 65504）。",
        ),
        fix=Text(
            "Convert again from the original to bfloat16: doctor convert SRC DST --dtype bfloat16",
            "从原始权重转换为 bfloat16：doctor convert SRC DST --dtype bfloat16",
        ),
        verify="doctor check --values {path}",
    )
)
def infinite(subject: Weights) -> Iterator[Finding]:
    wrong = [(name, row) for name, row in statistics(subject).items() if row.infinite]
    if wrong:
        names = some([name for name, _ in wrong])
        yield infinite.finding(
            evidence=evidence_of_values(
                subject,
                (
                    (
                        name,
                        Text(f"{row.infinite} Inf of {row.elements}", f"{row.elements} 个值中有 {row.infinite} 个 Inf"),
                    )
                    for name, row in wrong
                ),
                Text("finite", "有限值"),
            ),
            count=len(wrong),
            names=names.en,
            names_zh=names.zh,
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-VAL-005",
        name="weights-underflow",
        severity=Severity.WARNING,
        category="nan-overflow",
        title=Text("Many values of {count} tensors are denormal", "{count} 个张量中大量数值为非规格化数"),
        why=Text(
            "{name}: {share:.1%} of the values are below the smallest normal {dtype}, where precision is lost and Ascend may flush "
            "them to zero. They were scaled down, or converted to a type too narrow for them.",
            "{name}：{share:.1%} 的数值小于 {dtype} 的最小规格化数，精度丢失，昇腾上可能被清零。权重被缩小过，或转换到了过窄的类型。",
        ),
        fix=Text(
            "Convert again from the original to bfloat16: doctor convert SRC DST --dtype bfloat16",
            "从原始权重转换为 bfloat16：doctor convert SRC DST --dtype bfloat16",
        ),
        verify="doctor check --values {path}",
    )
)
def underflow(subject: Weights) -> Iterator[Finding]:
    # Weights of the usual size have about 0.2 % of their float16 values below 6e-5.
    wrong = [
        (name, row)
        for name, row in statistics(subject).items()
        if row.elements >= 64 and row.denormal > (0.1 if row.dtype == "float16" else 0.02) * row.elements
        and not row.dtype.startswith("float8")
    ]  # fmt: skip
    if wrong:
        name, first = wrong[0]
        yield underflow.finding(
            evidence=evidence_of_values(
                subject,
                (
                    (other, Text(f"{row.denormal} of {row.elements}", f"{row.elements} 个值中有 {row.denormal} 个"))
                    for other, row in wrong
                ),
            ),
            count=len(wrong),
            name=name,
            share=first.denormal / first.elements,
            dtype=first.dtype,
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-VAL-006",
        name="values-beyond-float16",
        severity=Severity.INFO,
        category="nan-overflow",
        title=Text("{count} tensors hold values beyond float16", "有 {count} 个张量的数值超出 float16 范围"),
        why=Text(
            "{names}: the largest is {largest:.4g}, float16 ends at 65504. {effect}",
            "{names_zh}：最大值为 {largest:.4g}，而 float16 上限为 65504。{effect_zh}",
        ),
        fix=Text(
            "Use bfloat16 for the parameters (param_init_type: bfloat16).",
            "参数使用 bfloat16（param_init_type: bfloat16）。",
        ),
        verify="doctor check --values {path}",
    )
)
def beyond_half(subject: Weights) -> Iterator[Finding]:
    wrong = [(name, row) for name, row in statistics(subject).items() if row.beyond_half]
    if not wrong:
        return
    names = some([name for name, _ in wrong])
    asked = _half_asked(subject)
    yield beyond_half.finding(
        severity=Severity.ERROR if asked else Severity.INFO,
        evidence=evidence_of_values(
            subject, ((name, row.largest) for name, row in wrong), Text("at most 65504", "不超过 65504")
        ),
        count=len(wrong),
        names=names.en,
        names_zh=names.zh,
        largest=max(row.largest for _, row in wrong),
        effect="The config loads them as float16: they become infinite."
        if asked
        else "They would become infinite if loaded as float16.",
        effect_zh="配置以 float16 加载：这些值会变成无穷大。" if asked else "若以 float16 加载会变成无穷大。",
        path=subject.path,
    )


def _half_asked(subject: Weights) -> bool:
    """Whether a config loads the parameters as float16."""
    for expected in (subject.training, subject.beside):
        if expected is not None and expected.error is None:
            for key in ("param_init_type", "params_dtype", "torch_dtype", "dtype"):
                value = expected.data.get(key)
                if isinstance(value, str):
                    return value.rpartition(".")[2] in {"float16", "fp16", "half"}
    return False
