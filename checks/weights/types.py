"""Data types: can the model be trained in what the weights are stored in?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from doctor.check import check
from doctor.checks.weights.subject import Weights
from doctor.checks.words import some
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.formats.layers import is_buffer, is_state, place
from doctor.rule import Rule

_QUANTISED = {"float8_e4m3", "float8_e5m2", "float8_e8m0", "float4_e2m1", "hifloat8", "int8", "int4", "uint8"}
PACKED = (
    ".qweight",
    ".qzeros",
    ".scales",
    ".g_idx",
    ".SCB",
    ".absmax",
    ".quant_map",
    ".weight_scale",
    ".weight_scale_inv",
)


@check(
    Rule(
        id="WGT-DTY-001",
        name="layers-of-mixed-types",
        severity=Severity.WARNING,
        category="ckpt-format",
        title=Text("The same parameter has different types in different layers", "同一参数在不同层的数据类型不同"),
        why=Text(
            "{pattern} is {usual} in most layers and {other} in {names}: files of two conversions were mixed.",
            "{pattern} 在多数层是 {usual}，而 {names_zh} 是 {other}：混入了两次转换得到的文件。",
        ),
        fix=Text(
            "Convert all files again in one run: doctor convert SRC DST --dtype {usual}",
            "一次性重新转换所有文件：doctor convert SRC DST --dtype {usual}",
        ),
        verify="doctor check {path}",
    )
)
def mixed(subject: Weights) -> Iterator[Finding]:
    groups: dict[str, dict[str, list[str]]] = {}
    for name, tensor in subject.set.tensors.items():
        if not is_state(name) and not is_buffer(name):
            groups.setdefault(place(name).pattern, {}).setdefault(tensor.dtype, []).append(name)
    wrong = [(pattern, types) for pattern, types in groups.items() if len(types) > 1]
    if not wrong:
        return
    pattern, types = wrong[0]
    ordered = sorted(types, key=lambda dtype: (-len(types[dtype]), dtype))
    names = some(types[ordered[1]])
    yield mixed.finding(
        evidence=[Evidence("value", str(subject.path), key=name, observed=ordered[1], expected=ordered[0]) for name in types[ordered[1]][:5]],
        pattern=pattern,
        usual=ordered[0],
        other=ordered[1],
        names=names.en,
        names_zh=names.zh,
        path=subject.path,
    )  # fmt: skip


@check(
    Rule(
        id="WGT-DTY-002",
        name="weights-are-quantised",
        severity=Severity.WARNING,
        category="weights-mismatch",
        title=Text("The weights are quantised ({types})", "权重是量化的（{types}）"),
        why=Text(
            "{count} tensors such as {sample} are stored as {types}. They cannot be trained as they are: MindFormers "
            "expects float16, bfloat16 or float32.",
            "{sample} 等 {count} 个张量以 {types} 存储，无法直接训练：MindFormers 需要 float16、bfloat16 或 float32。",
        ),
        fix=Text(
            "Use the unquantised release of the model; block-scaled FP8 (DeepSeek) can be converted: "
            "doctor convert {path} DST --dtype bfloat16",
            "使用模型的非量化版本；按块缩放的 FP8（DeepSeek）可以转换：doctor convert {path} DST --dtype bfloat16",
        ),
        verify="doctor check {path}",
    )
)
def quantised(subject: Weights) -> Iterator[Finding]:
    found = [
        (name, tensor.dtype)
        for name, tensor in subject.set.tensors.items()
        if (name.endswith(PACKED) or (tensor.dtype in _QUANTISED and len(tensor.shape) >= 2))
        and not is_state(name)
        and not is_buffer(name)
    ]
    if found:
        types = Counter(dtype for _, dtype in found)
        yield quantised.finding(
            evidence=[Evidence("value", str(subject.path), key=name, observed=dtype) for name, dtype in found[:5]],
            types=", ".join(sorted(types)),
            count=len(found),
            sample=found[0][0],
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-DTY-003",
        name="type-differs-from-config",
        severity=Severity.INFO,
        category="weights-mismatch",
        title=Text(
            "Stored as {observed}, config.json says {expected}", "存储类型为 {observed}，config.json 写的是 {expected}"
        ),
        why=Text(
            "torch_dtype tells loaders which type to use; weights in {observed} are converted to {expected} on load, which "
            "{effect}.",
            "torch_dtype 决定加载时的数据类型；{observed} 的权重加载时会转为 {expected}，{effect_zh}。",
        ),
        fix=Text(
            "Set torch_dtype to {observed} if that is what you mean to use.",
            "若要使用该类型，请将 torch_dtype 设为 {observed}。",
        ),
        verify="doctor check {path}",
    )
)
def type_of_config(subject: Weights) -> Iterator[Finding]:
    beside = subject.beside
    if beside is None or beside.error is not None:
        return
    key = "torch_dtype" if "torch_dtype" in beside.data else "dtype"
    wanted = beside.data.get(key)
    floats = Counter(
        tensor.dtype for tensor in subject.set.tensors.values() if tensor.dtype in {"float32", "float16", "bfloat16"}
    )
    if not isinstance(wanted, str) or wanted not in {"float32", "float16", "bfloat16"} or not floats:
        return
    usual = floats.most_common(1)[0][0]
    if usual != wanted:
        narrow = wanted == "float16" and usual in {"bfloat16", "float32"}
        yield type_of_config.finding(
            evidence=(beside.evidence((key,), usual, wanted),),
            observed=usual,
            expected=wanted,
            effect="can overflow beyond 65504" if narrow else "changes memory and rounding",
            effect_zh="超过 65504 的值会溢出" if narrow else "会改变显存占用和舍入",
            path=subject.path,
        )
