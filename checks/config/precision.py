"""Precision: names of dtypes, chips without bfloat16, what overflows in float16."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from doctor.check import Skip, check
from doctor.checks.config.judge import (
    GRAPH,
    MINDFORMERS,
    MODELS,
    RUNS,
    applies,
    change,
    listed,
    seen,
    shown,
)
from doctor.finding import Finding, Fix, Severity, Text
from doctor.plan.names import nearest
from doctor.plan.plan import Dialect, Plan
from doctor.plan.value import Value
from doctor.rule import Rule

_DTYPES = ("float32", "float16", "bfloat16")
_SHORT = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "float": "float32", "half": "float16"}
_FIELDS = (
    "compute_dtype",
    "param_init_type",
    "params_dtype",
    "softmax_compute_type",
    "softmax_compute_dtype",
    "softmax_dtype",
    "layernorm_compute_type",
    "layernorm_compute_dtype",
    "layernorm_dtype",
    "rotary_dtype",
    "router_dense_type",
    "moe_router_dtype",
    "embedding_init_type",
    "embedding_params_dtype",
    "res_dtype",
    "residual_dtype",
    "compute_type",
    "dtype",
    "torch_dtype",
)


@check(
    Rule(
        id="CFG-PRC-001",
        name="unknown-dtype",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key}: {value} is no dtype", "{key}：{value} 不是合法的数据类型"),
        why=Text(
            "Models take float32, float16 and bfloat16 (mcore also fp32, fp16, bf16).",
            "模型支持 float32、float16、bfloat16（mcore 还支持 fp32、fp16、bf16）。",
        ),
        fix=Text("Use one of them.", "使用其中之一。"),
        references=("mindformers/utils convert_mstype",),
    )
)
@applies(MODELS)
def unknown_dtype(plan: Plan) -> Iterator[Finding]:
    # TransformerConfig of graph mode and the built-in trainer know the short words; convert_mstype does not.
    short_is_fine = plan.dialect in (Dialect.MCORE, Dialect.TRAINER)
    values = [plan.model.section.get(name) for name in _FIELDS]
    values += [
        plan.root.get("moe_config", "router_dense_type"),
        plan.model.adapter.get("param_init_type"),
        plan.model.adapter.get("compute_dtype"),
    ]
    if plan.dialect is Dialect.TRAINER:
        values.append(plan.precision.compute)
    for value in values:
        word = value.text
        if not value.given or word is None or word in _DTYPES or word in _STORED - _computes(plan, value):
            continue
        meant = _SHORT.get(word.lower()) or nearest(word, _DTYPES, 0.5)
        if word.lower() in _SHORT and short_is_fine:
            continue
        yield unknown_dtype.finding(
            evidence=seen(plan, value, expected=meant or listed(_DTYPES)),
            fixes=(change(plan, value, meant),) if meant else None,
            key=value.key,
            value=shown(value),
        )


#: what weights may be stored or asked for in, but nothing is trained in
_STORED = frozenset(("float64", "auto", "int8", "float8_e4m3", "fp8"))


def _computes(plan: Plan, value: Value) -> frozenset[str]:
    return frozenset(("int8",)) if plan.trains and value.name == "compute_dtype" else frozenset()


def uses(plan: Plan, dtype: str) -> Optional[Value]:
    """The compute dtype of the plan when it is this one."""
    value = plan.precision.compute
    word = _SHORT.get(value.words.lower(), value.words)
    return value if value.given and word == dtype else None


def gigabytes(value: Value) -> Optional[float]:
    """58GB as 58.0; None when it is not written so."""
    text = value.words.upper()
    if not text.endswith("GB"):
        return None
    try:
        return float(text[:-2])
    except ValueError:
        return None


_WHICH_CHIP = Text(
    "See which it is: a name with 910B has bfloat16. On any other use float16 with a dynamic loss scale.",
    "查看芯片名称：含 910B 则支持 bfloat16；其他芯片请用 float16 并配动态 loss scale。",
)


@check(
    Rule(
        id="CFG-PRC-002",
        name="bfloat16-on-old-chip",
        severity=Severity.INFO,
        category="dtype-unsupported-op",
        title=Text(
            "bfloat16 on a device of {memory}: not on a first-generation 910",
            "在 {memory} 的设备上使用 bfloat16：第一代 910 不支持",
        ),
        why=Text(
            "Two chips have 32 GB: the first-generation Ascend 910 has no bfloat16 kernels, the 910B4 (Atlas 800I A2) has.",
            "32 GB 的芯片有两种：第一代昇腾 910 没有 bfloat16 算子，910B4（Atlas 800I A2）支持。",
        ),
        fix=_WHICH_CHIP,
        false_positives=Text(
            "A 64 GB card whose max_device_memory is set low on purpose.", "64 GB 卡上有意把 max_device_memory 设低。"
        ),
    )
)
@applies(RUNS)
def bfloat_on_old_chip(plan: Plan) -> Iterator[Finding]:
    value = uses(plan, "bfloat16")
    if value is None:
        raise Skip(Text("bfloat16 is not used", "未使用 bfloat16"))
    written = gigabytes(plan.context.max_memory)
    small = written is not None and 20 <= written <= 32
    if plan.device_memory is not None:
        small = plan.device_memory <= 33 * 2**30
        written = plan.device_memory / 2**30
    if small and written is not None:
        yield bfloat_on_old_chip.finding(
            evidence=seen(
                plan, value, *([plan.context.max_memory] if plan.context.max_memory.given else []), expected="float16"
            ),
            fixes=(Fix(_WHICH_CHIP, command="npu-smi info"),),
            memory=f"{written:g} GB",
        )


@check(
    Rule(
        id="CFG-PRC-007",
        name="softmax-in-float16",
        severity=Severity.INFO,
        category="nan-overflow",
        title=Text("{key} is {value}", "{key} 为 {value}"),
        why=Text(
            "Softmax and norms sum many terms: in 16 bits long runs drift or overflow; float32 costs little.",
            "softmax 与 norm 累加项很多，16 位下长时间训练容易漂移或溢出；float32 代价很小。",
        ),
        fix=Text("Use float32.", "使用 float32。"),
    )
)
@applies(MINDFORMERS, training=True)
def low_precision_reductions(plan: Plan) -> Iterator[Finding]:
    for value in (plan.precision.norm, plan.precision.softmax):
        if value.given and value.words == "float16":
            yield low_precision_reductions.finding(
                evidence=seen(plan, value, expected="float32"),
                fixes=(change(plan, value, "float32"),),
                key=value.key,
                value=value.words,
            )


@check(
    Rule(
        id="CFG-PRC-008",
        name="float32-compute",
        severity=Severity.INFO,
        category="performance",
        title=Text("The model computes in float32", "模型使用 float32 计算"),
        why=Text(
            "The cube units of an NPU multiply in 16 bits: float32 is several times slower and takes twice the memory.",
            "NPU 的 cube 单元按 16 位计算：float32 慢数倍且显存翻倍。",
        ),
        fix=Text("Use bfloat16 (910B) or float16.", "使用 bfloat16（910B）或 float16。"),
    )
)
@applies(GRAPH, training=True)
def float32_compute(plan: Plan) -> Iterator[Finding]:
    value = uses(plan, "float32")
    large = (plan.model.hidden.count or 0) >= 1024 and (plan.model.layers.count or 0) >= 12
    if value is not None and large:
        yield float32_compute.finding(
            evidence=seen(plan, value, expected="bfloat16"), fixes=(change(plan, value, "bfloat16"),)
        )


@check(
    Rule(
        id="CFG-PRC-009",
        name="two-16-bit-types",
        severity=Severity.INFO,
        category="nan-overflow",
        title=Text("{ours} weights with {theirs} compute", "权重为 {ours}，计算为 {theirs}"),
        why=Text(
            "bfloat16 and float16 cover different ranges: casting between them loses precision or overflows.",
            "bfloat16 与 float16 动态范围不同，相互转换会丢精度或溢出。",
        ),
        fix=Text("Use one of the two, or float32 weights.", "两者统一，或权重用 float32。"),
    )
)
@applies(RUNS, training=True)
def two_types(plan: Plan) -> Iterator[Finding]:
    ours, theirs = plan.precision.parameters, plan.precision.compute
    if {ours.words, theirs.words} == {"float16", "bfloat16"}:
        yield two_types.finding(
            evidence=seen(plan, theirs, ours, expected=ours.words),
            fixes=(change(plan, ours, "float32"), change(plan, theirs, ours.words)),
            ours=ours.words,
            theirs=theirs.words,
        )


@check(
    Rule(
        id="CFG-PRC-010",
        name="precision-mode-unknown",
        severity=Severity.ERROR,
        category="config",
        title=Text("precision_mode {value} does not exist", "不存在的 precision_mode：{value}"),
        why=Text(
            "Ascend knows must_keep_origin_dtype, force_fp16, allow_fp32_to_fp16, allow_mix_precision, force_fp32, allow_mix_precision_fp16 and allow_mix_precision_bf16.",
            "昇腾支持 must_keep_origin_dtype、force_fp16、allow_fp32_to_fp16、allow_mix_precision、force_fp32、allow_mix_precision_fp16、allow_mix_precision_bf16。",
        ),
        fix=Text("Use must_keep_origin_dtype.", "使用 must_keep_origin_dtype。"),
        references=("mindspore.set_context ascend_config",),
    )
)
@applies(GRAPH)
def precision_mode(plan: Plan) -> Iterator[Finding]:
    value = plan.context.section.get("ascend_config", "precision_mode")
    known = (
        "must_keep_origin_dtype",
        "force_fp16",
        "allow_fp32_to_fp16",
        "allow_mix_precision",
        "force_fp32",
        "allow_fp32_to_bf16",
        "allow_mix_precision_fp16",
        "allow_mix_precision_bf16",
        "force_lowerprecision",
        "cube_fp16in_fp32out",
    )
    if value.given and value.text is not None and value.words not in known:
        yield precision_mode.finding(
            evidence=seen(plan, value, expected="must_keep_origin_dtype"),
            fixes=(change(plan, value, "must_keep_origin_dtype"),),
            value=shown(value),
        )


@check(
    Rule(
        id="CFG-PRC-011",
        name="precision-level-unknown",
        severity=Severity.ERROR,
        category="config",
        title=Text("mixed_precision {value} does not exist", "不存在的 mixed_precision：{value}"),
        why=Text(
            "Levels are O0 (float32), O1, O2 and O3 (all float16).", "级别为 O0（float32）、O1、O2、O3（全 float16）。"
        ),
        fix=Text("Use O2.", "使用 O2。"),
    )
)
@applies((Dialect.TRAINER,))
def precision_level(plan: Plan) -> Iterator[Finding]:
    value = plan.precision.level
    known = {"O0", "O1", "O2", "O3", "FP16", "BF16", "FP32", "FLOAT16", "BFLOAT16", "FLOAT32", "NO"}
    if value.given and value.value is not None and str(value.value).upper() not in known:
        yield precision_level.finding(
            evidence=seen(plan, value, expected="O0 to O3"), fixes=(change(plan, value, "O2"),), value=shown(value)
        )


@check(
    Rule(
        id="CFG-PRC-013",
        name="prediction-cast-to-float16",
        severity=Severity.INFO,
        category="config",
        title=Text(
            "Prediction casts bfloat16 compute with float32 weights to float16",
            "推理时 bfloat16 计算 + float32 权重会被转为 float16",
        ),
        why=Text(
            "MindFormers changes both to float16 for speed, with a warning; values beyond 65504 overflow.",
            "MindFormers 为提速会把两者改为 float16 并打 warning；超过 65504 的值会溢出。",
        ),
        fix=Text("Set param_init_type: bfloat16 to keep bfloat16.", "设置 param_init_type: bfloat16 可保持 bfloat16。"),
        references=("mindformers/tools/check_rules.py _restore_net_type",),
    )
)
@applies(GRAPH, training=False)
def prediction_cast(plan: Plan) -> Iterator[Finding]:
    compute, weights = plan.precision.compute, plan.precision.parameters
    if (
        compute.words == "bfloat16"
        and weights.words == "float32"
        and compute.name == "compute_dtype"
        and weights.name == "param_init_type"
    ):
        yield prediction_cast.finding(
            evidence=seen(plan, weights, compute, expected="bfloat16"), fixes=(change(plan, weights, "bfloat16"),)
        )
