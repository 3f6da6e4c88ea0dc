"""Choices of the model: dropout, norms, activation, adapters."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import check
from doctor.checks.config.judge import (
    MINDFORMERS,
    MODELS,
    applies,
    because,
    change,
    listed,
    seen,
    shown,
)
from doctor.checks.config.model import TRANSFORMER_CONFIG
from doctor.finding import Finding, Severity, Text
from doctor.plan.names import nearest
from doctor.plan.plan import Dialect, Plan
from doctor.plan.value import Value
from doctor.rule import Rule

_DROPOUTS = (
    "hidden_dropout",
    "attention_dropout",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "attention_dropout_prob",
    "hidden_dropout_rate",
    "attention_dropout_rate",
    "embedding_dropout_prob",
    "embed_dropout_prob",
    "emb_dropout_prob",
    "dropout_prob",
    "ffn_dropout_rate",
)


@check(
    Rule(
        id="CFG-MOD-008",
        name="dropout-out-of-range",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} is not in [0, 1)", "{key} 不在 [0, 1) 范围内"),
        why=Text("A dropout is the share of values that is set to zero.", "dropout 是置零元素的比例。"),
        fix=Text("Use 0.0 for pre-training.", "预训练一般用 0.0。"),
        references=(TRANSFORMER_CONFIG,),
    )
)
@applies(MODELS)
def dropout_range(plan: Plan) -> Iterator[Finding]:
    for value in _dropouts(plan):
        if value.number is not None and not 0 <= value.number < 1:
            yield dropout_range.finding(
                because(dropout_range, f"{value.key} is {shown(value)}.", f"{value.key} 为 {shown(value)}。"),
                evidence=seen(plan, value, expected="0.0 <= value < 1.0"),
                fixes=(change(plan, value, 0.0),),
                key=value.key,
            )


def _dropouts(plan: Plan) -> Iterator[Value]:
    for name in _DROPOUTS:
        value = plan.model.section.get(name)
        if value.given:
            yield value
    value = plan.model.adapter.get("lora_dropout")
    if value.given:
        yield value


@check(
    Rule(
        id="CFG-MOD-009",
        name="dropout-is-an-integer",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key}: 0 must be written 0.0", "{key}: 0 必须写成 0.0"),
        why=Text(
            "mcore checks the type: an integer dropout is refused (`hidden_dropout should be a float`).",
            "mcore 会检查类型：整数 dropout 会报错（`hidden_dropout should be a float`）。",
        ),
        fix=Text("Write 0.0.", "写成 0.0。"),
        references=(TRANSFORMER_CONFIG,),
    )
)
@applies((Dialect.MCORE, Dialect.PYNATIVE))
def dropout_integer(plan: Plan) -> Iterator[Finding]:
    for name in ("hidden_dropout", "attention_dropout"):
        value = plan.model.section.get(name)
        number = value.number
        if isinstance(value.value, int) and number is not None:
            yield dropout_integer.finding(
                evidence=seen(plan, value, expected="0.0"),
                fixes=(change(plan, value, float(number), safe=True),),
                key=name,
            )


@check(
    Rule(
        id="CFG-MOD-010",
        name="norm-epsilon-out-of-range",
        severity=Severity.WARNING,
        category="config",
        title=Text("{key} {value} is no usual epsilon", "{key} 为 {value}，不是常见的 epsilon"),
        why=Text(
            "It keeps a division from failing: zero or less divides by zero, a large one flattens the norm. Usual: 1e-5, 1e-6.",
            "它用来防止除零：≤ 0 会除零，过大则归一化失效。常用 1e-5、1e-6。",
        ),
        fix=Text("Use the value of the model's config.", "使用模型官方配置的值。"),
    )
)
@applies(MODELS)
def norm_epsilon(plan: Plan) -> Iterator[Finding]:
    value = plan.model.field("layernorm_epsilon")
    number = value.number
    if number is not None and value.given and not 0 < number <= 1e-3:
        yield norm_epsilon.finding(
            evidence=seen(plan, value, expected="1e-5 or 1e-6"),
            fixes=(change(plan, value, 1e-5),),
            severity=Severity.ERROR if number <= 0 else None,
            key=value.name,
            value=shown(value),
        )


@check(
    Rule(
        id="CFG-MOD-012",
        name="cache-in-training",
        severity=Severity.WARNING,
        category="config",
        title=Text("use_past is on in training", "训练时打开了 use_past"),
        why=Text(
            "The key/value cache belongs to prediction; MindFormers turns it off or refuses it.",
            "KV 缓存用于推理；训练时 MindFormers 会关闭它或报错。",
        ),
        fix=Text("Set use_past: False.", "设置 use_past: False。"),
        references=("mindformers/tools/check_rules.py _check_mode",),
    )
)
@applies((Dialect.LEGACY,), training=True)
def cache_in_training(plan: Plan) -> Iterator[Finding]:
    value = plan.model.section.get("use_past")
    if value.on and plan.run_mode.words in {"train", "finetune"}:
        yield cache_in_training.finding(
            evidence=seen(plan, value, plan.run_mode, expected=False), fixes=(change(plan, value, False, safe=True),)
        )


@check(
    Rule(
        id="CFG-MOD-013",
        name="slice-recompute-in-mcore",
        severity=Severity.ERROR,
        category="config",
        title=Text("recompute_slice_activation is not for mcore models", "mcore 模型不支持 recompute_slice_activation"),
        why=Text(
            "From 1.7 MindFormers refuses it with use_legacy: False.",
            "1.7 起，use_legacy: False 时 MindFormers 会报错。",
        ),
        fix=Text("Set recompute_slice_activation: False.", "设置 recompute_slice_activation: False。"),
        references=(TRANSFORMER_CONFIG,),
    )
)
@applies((Dialect.MCORE,), training=True)
def slice_recompute_in_mcore(plan: Plan) -> Iterator[Finding]:
    value = plan.recompute.slice_activation
    if value.on and not plan.release.before("1.7.0"):
        yield slice_recompute_in_mcore.finding(
            severity=None if plan.release.certain and plan.release.since("1.7.0") else Severity.WARNING,
            evidence=seen(plan, value, expected=False),
            fixes=(change(plan, value, False, safe=True),),
        )


@check(
    Rule(
        id="CFG-MOD-016",
        name="fused-swiglu-needs-swiglu",
        severity=Severity.ERROR,
        category="config",
        title=Text("bias_swiglu_fusion with hidden_act {value}", "hidden_act 为 {value} 时不能使用 bias_swiglu_fusion"),
        why=Text(
            "The fused kernel computes SwiGLU; mcore refuses another activation.",
            "融合算子只计算 SwiGLU，mcore 不允许其他激活函数。",
        ),
        fix=Text("Set hidden_act: swiglu, or switch the fusion off.", "设置 hidden_act: swiglu，或关闭融合。"),
        references=(TRANSFORMER_CONFIG,),
    )
)
@applies((Dialect.MCORE,), training=True)
def fused_swiglu(plan: Plan) -> Iterator[Finding]:
    fusion, act = plan.model.field("bias_swiglu_fusion"), plan.model.section.get("hidden_act")
    if fusion.on and act.given and act.words not in {"swiglu", "fusedswiglu"}:
        yield fused_swiglu.finding(
            evidence=seen(plan, act, fusion, expected="swiglu"),
            fixes=(change(plan, fusion, False), change(plan, act, "swiglu")),
            value=shown(act),
        )


@check(
    Rule(
        id="CFG-MOD-021",
        name="adapter-setting-out-of-range",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} {value} is out of range", "{key} 为 {value}，超出取值范围"),
        why=Text(
            "A LoRA rank and alpha are above zero, its dropout is in [0, 1), its target_modules name something.",
            "LoRA 的 rank 与 alpha 应大于 0，dropout 取 [0, 1)，target_modules 不能为空。",
        ),
        fix=Text("Usual: rank 8, alpha 16.", "常用 rank 8、alpha 16。"),
        references=("mindformers/pynative/config/config.py LoraConfig",),
    )
)
@applies(MINDFORMERS)
def adapter_range(plan: Plan) -> Iterator[Finding]:
    adapter = plan.model.adapter
    for name in ("lora_rank", "lora_alpha"):
        value = adapter.get(name)
        if value.number is not None and value.number <= 0:
            yield adapter_range.finding(
                evidence=seen(plan, value, expected="> 0"),
                fixes=(change(plan, value, 8 if name == "lora_rank" else 16),),
                key=value.key,
                value=shown(value),
            )
    target = adapter.get("target_modules")
    if target.given and target.text is not None and not target.words:
        yield adapter_range.finding(
            evidence=seen(plan, target, expected=".*wq|.*wv"), key=target.key, value=shown(target)
        )


#: mindformers/pet/pet_model.py PET_TYPE_TO_MODEL_MAPPING, and the adapters of prediction
_ADAPTERS = ("lora", "prefixtuning", "ptuning2", "slora")


@check(
    Rule(
        id="CFG-MOD-023",
        name="unknown-adapter",
        severity=Severity.WARNING,
        category="config",
        title=Text("No adapter is called {value}", "不存在名为 {value} 的微调适配方法"),
        why=Text(
            "MindFormers only warns (`doesn't have pet model currently`) and trains the whole model, with the learning "
            "rate and the memory of an adapter in mind.",
            "MindFormers 只打 warning（`doesn't have pet model currently`），随后按全参训练，而学习率与显存却是按适配器设的。",
        ),
        fix=Text("Use one of lora, prefixtuning, ptuning2.", "改为 lora、prefixtuning、ptuning2 之一。"),
        references=("mindformers/pet/pet_model.py get_pet_model",),
    )
)
@applies((Dialect.LEGACY,))
def unknown_adapter(plan: Plan) -> Iterator[Finding]:
    value = plan.model.adapter.get("pet_type")
    if value.text is None or not value.words or value.words in _ADAPTERS:
        return
    meant = nearest(value.words, _ADAPTERS, 0.6)
    yield unknown_adapter.finding(
        evidence=seen(plan, value, expected=listed(_ADAPTERS)),
        fixes=(change(plan, value, meant),) if meant else None,
        severity=Severity.ERROR if meant else None,
        value=shown(value),
    )


_STYLES = (
    "silu",
    "swiglu",
    "fusedswiglu",
    "gelu",
    "fast_gelu",
    "quick_gelu",
    "relu",
    "geglu",
    "gelu_new",
    "gelu_pytorch_tanh",
)


#: transformers' ACT2FN beyond those
_TRANSFORMERS_STYLES = (
    "gelu_10",
    "gelu_accurate",
    "gelu_fast",
    "gelu_python",
    "gelu_python_tanh",
    "hardswish",
    "laplace",
    "leaky_relu",
    "linear",
    "prelu",
    "relu2",
    "swish",
    "xielu",
)


@check(
    Rule(
        id="CFG-MOD-022",
        name="activation-unknown",
        severity=Severity.ERROR,
        category="config",
        title=Text("hidden_act {value} does not exist", "不存在的 hidden_act：{value}"),
        why=Text(
            "No activation of that name is built; the network fails when it is made.",
            "没有该名称的激活函数，网络构建时会失败。",
        ),
        fix=Text("Use the activation of the model's config.", "使用模型官方配置的激活函数。"),
    )
)
@applies(MODELS)
def activation_unknown(plan: Plan) -> Iterator[Finding]:
    from doctor.plan.names import nearest

    value = plan.model.section.get("hidden_act")
    known: tuple[str, ...] = (
        *_STYLES,
        "leakyrelu",
        "tanh",
        "sigmoid",
        "elu",
        "selu",
        "mish",
        "hswish",
        "hsigmoid",
        "relu6",
        "softmax",
        "logsigmoid",
        "softplus",
        "squared_relu",
    )
    if plan.dialect is Dialect.HUGGINGFACE:
        known = (*known, *_TRANSFORMERS_STYLES)
    word = value.words.lower()
    if not word or word in known:
        return
    hint = nearest(word, known)
    yield activation_unknown.finding(
        evidence=seen(plan, value, expected=hint or listed(_STYLES[:4])),
        fixes=(change(plan, value, hint),) if hint else None,
        severity=None if hint else Severity.WARNING,
        value=shown(value),
    )
