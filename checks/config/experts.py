"""Mixture of experts on devices: what expert parallel must divide, how tokens are sent, which layers have experts."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.config.judge import (
    MINDFORMERS,
    MODELS,
    applies,
    because,
    change,
    closest,
    divisors,
    listed,
    near,
    need,
    seen,
    shown,
)
from doctor.finding import Finding, Severity, Text
from doctor.plan.arithmetic import automatic, data_parallel
from doctor.plan.plan import Dialect, Plan
from doctor.rule import Rule

DENSE = Text("the file names no experts", "文件中没有专家数")
CONFIG = "mindformers/parallel_core/transformer_config.py __post_init__"


def _experts(plan: Plan) -> int:
    """The number of experts. Raises Skip for a dense model or when the number is elsewhere."""
    count = plan.model.experts.count
    if count is None or count <= 1:
        raise Skip(DENSE)
    return count


@check(
    Rule(
        id="CFG-MOE-001",
        name="experts-not-divisible",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("Expert parallel does not divide the experts", "专家并行度不能整除专家数"),
        why=Text(
            "Every device of an expert-parallel group holds the same number of experts.",
            "专家并行组内每个设备持有相同数量的专家。",
        ),
        fix=Text("Choose an expert_parallel that divides the experts.", "选择能整除专家数的 expert_parallel。"),
        references=("mindformers/parallel_core/training_graph/transformer/moe",),
    )
)
@applies(MINDFORMERS)
def experts_not_divisible(plan: Plan) -> Iterator[Finding]:
    experts = _experts(plan)
    (size,) = need(plan.parallel.expert)
    if experts % size:
        legal = [item for item in divisors(experts) if item <= 4 * size]
        yield experts_not_divisible.finding(
            because(
                experts_not_divisible,
                f"{plan.model.experts.name} {experts} % expert_parallel {size} = {experts % size}.",
                f"{plan.model.experts.name} {experts} % expert_parallel {size} = {experts % size}。",
            ),
            evidence=seen(plan, plan.parallel.expert, plan.model.experts, expected=listed(near(legal, size))),
            fixes=[change(plan, plan.parallel.expert, option) for option in closest(legal, size, 2)],
        )


@check(
    Rule(
        id="CFG-MOE-002",
        name="expert-parallel-does-not-fit-devices",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text(
            "Expert parallel does not divide the devices that share the experts", "专家并行度不能整除承载专家的设备数"
        ),
        why=Text(
            "Experts are spread inside a pipeline stage: legacy over data_parallel, mcore over data_parallel x model_parallel, PyNative over "
            "shard x context x tensor.",
            "专家分布在一个流水线阶段内：legacy 为 data_parallel，mcore 为 data_parallel × model_parallel，PyNative 为 shard × context × tensor。",
        ),
        fix=Text("Choose a divisor.", "选择其约数。"),
        references=(
            "mindformers/parallel_core/training_graph/device_matrix.py",
            "mindformers/pynative/distributed/parallel_dims.py",
        ),
        false_positives=Text(
            "In mcore expert_parallel may exceed data_parallel.", "mcore 中 expert_parallel 可以大于 data_parallel。"
        ),
    )
)
@applies(MINDFORMERS, training=True)
def expert_parallel_fit(plan: Plan) -> Iterator[Finding]:
    parallel = plan.parallel
    (size,) = need(parallel.expert)
    if size == 1 or (plan.dialect.graph and not automatic(plan)):
        raise Skip(Text("expert_parallel is 1", "expert_parallel 为 1"))
    if plan.dialect is Dialect.PYNATIVE:
        region = _pynative_region(plan)
        words, values = "data_parallel_shard x context_parallel x tensor_parallel", (parallel.data, parallel.tensor)
    else:
        data, tensor = need(parallel.data, parallel.tensor)
        region = data * tensor if plan.dialect is Dialect.MCORE else data
        words = "data_parallel x model_parallel" if plan.dialect is Dialect.MCORE else "data_parallel"
        values = (parallel.data, parallel.tensor)
        if plan.dialect is Dialect.LEGACY and (data * tensor * (parallel.context.count or 1)) % size == 0:
            return
    if region % size:
        legal = [item for item in divisors(region) if item <= size]
        yield expert_parallel_fit.finding(
            because(
                expert_parallel_fit,
                f"{words} = {region}, % expert_parallel {size} = {region % size}.",
                f"{words} = {region}，% expert_parallel {size} = {region % size}。",
            ),
            evidence=seen(
                plan, parallel.expert, *[value for value in values if value.given], expected=listed(near(legal, size))
            ),
            fixes=[change(plan, parallel.expert, option) for option in near(legal, size, 1)],
        )


def _pynative_region(plan: Plan) -> int:
    parallel = plan.parallel
    tensor, context = need(parallel.tensor, parallel.context)
    shard = parallel.data.count or data_parallel(plan)
    if shard is None:
        raise Skip(Text("the number of devices is not known; give --devices N", "不知道设备数；请加 --devices N"))
    return shard * context * tensor


@check(
    Rule(
        id="CFG-MOE-005",
        name="dense-layers-beyond-model",
        severity=Severity.ERROR,
        category="config",
        title=Text("first_k_dense_replace exceeds the layers", "first_k_dense_replace 超过层数"),
        why=Text("It is the number of leading layers without experts.", "它表示开头多少层不使用专家。"),
        fix=Text("Lower it.", "减小它。"),
        references=(CONFIG,),
    )
)
@applies(MODELS)
def dense_layers(plan: Plan) -> Iterator[Finding]:
    value, layers = plan.model.field("first_k_dense_replace"), plan.model.layers.count
    number = value.whole
    if layers is None or number is None:
        return
    if number > layers or number < -1:
        yield dense_layers.finding(
            Text(
                f"first_k_dense_replace {number}, layers {layers}.",
                f"first_k_dense_replace 为 {number}，层数为 {layers}。",
            ),
            evidence=seen(plan, value, plan.model.layers, expected=f"0 to {layers}"),
            fixes=(change(plan, value, layers if number > layers else 0),),
        )


@check(
    Rule(
        id="CFG-MOE-006",
        name="expert-parallel-without-experts",
        severity=Severity.WARNING,
        category="parallel-strategy",
        title=Text("expert_parallel {size} without experts", "没有专家却设置了 expert_parallel {size}"),
        why=Text(
            "A dense model has nothing to spread; mcore refuses it, legacy ignores it.",
            "稠密模型没有专家可分布；mcore 会报错，legacy 会忽略。",
        ),
        fix=Text("Set expert_parallel: 1.", "设置 expert_parallel: 1。"),
        references=(CONFIG,),
    )
)
@applies(MINDFORMERS, training=True)
def expert_parallel_alone(plan: Plan) -> Iterator[Finding]:
    model = plan.model
    size = plan.parallel.expert.count or 1
    if size == 1:
        return
    whole = model.experts.whole
    known = model.hidden.given and model.layers.given
    if model.pretrained.words or (whole is None and not (known and plan.dialect is Dialect.LEGACY)):
        raise Skip(Text("the number of experts may stand elsewhere", "专家数可能在别处给出"))
    if whole is None or whole <= 1:
        yield expert_parallel_alone.finding(
            evidence=seen(plan, plan.parallel.expert, *([model.experts] if model.experts.given else []), expected=1),
            fixes=(change(plan, plan.parallel.expert, 1, safe=True),),
            size=size,
        )


@check(
    Rule(
        id="CFG-MOE-007",
        name="bias-with-experts",
        severity=Severity.ERROR,
        category="config",
        title=Text("add_bias_linear with experts", "MoE 模型打开了 add_bias_linear"),
        why=Text("mcore experts have no bias; MindFormers stops.", "mcore 的专家不支持 bias，MindFormers 会报错退出。"),
        fix=Text("Set add_bias_linear: False.", "设置 add_bias_linear: False。"),
        references=(CONFIG,),
    )
)
@applies((Dialect.MCORE, Dialect.PYNATIVE), training=True)
def bias_with_experts(plan: Plan) -> Iterator[Finding]:
    value = plan.model.field("add_bias_linear")
    if plan.model.experts.count and value.on:
        yield bias_with_experts.finding(
            evidence=seen(plan, value, plan.model.experts, expected=False), fixes=(change(plan, value, False),)
        )


@check(
    Rule(
        id="CFG-MOE-010",
        name="token-dispatcher-unknown",
        severity=Severity.ERROR,
        category="config",
        title=Text("Token dispatcher {value} does not exist", "不存在的 token dispatcher：{value}"),
        why=Text(
            "Graph mode spells it alltoall_deredundency, PyNative alltoall_deredundancy; both know alltoall.",
            "图模式写作 alltoall_deredundency，PyNative 写作 alltoall_deredundancy；两者都支持 alltoall。",
        ),
        fix=Text("Use alltoall, or the spelling of this generation.", "使用 alltoall，或本代的拼写。"),
    )
)
@applies((Dialect.MCORE, Dialect.PYNATIVE))
def dispatcher_unknown(plan: Plan) -> Iterator[Finding]:
    pynative = plan.dialect is Dialect.PYNATIVE
    value = (plan.parallel.section if pynative else plan.model.section).get("moe_token_dispatcher_type")
    known = (
        ("alltoall", "alltoall_deredundancy")
        if pynative
        else ("alltoall", "alltoall_deredundency", "alltoall_zero_redundancy")
    )
    if value.given and value.value is not None and value.value not in known:
        new = known[1] if "dered" in value.words else known[0]
        yield dispatcher_unknown.finding(
            evidence=seen(plan, value, expected=listed(known[:2])),
            fixes=(change(plan, value, new),),
            value=shown(value),
        )


@check(
    Rule(
        id="CFG-MOE-011",
        name="deredundancy-needs-more-expert-parallel",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text(
            "De-redundant dispatch needs expert_parallel >= npu_nums_per_device",
            "去冗余分发要求 expert_parallel ≥ npu_nums_per_device",
        ),
        why=Text(
            "It removes copies inside a server, so an expert-parallel group must fill one.",
            "该模式消除机内冗余，专家并行组至少要占满一台服务器。",
        ),
        fix=Text("Raise expert_parallel or use alltoall.", "增大 expert_parallel，或改用 alltoall。"),
        references=(CONFIG,),
    )
)
@applies((Dialect.MCORE, Dialect.PYNATIVE), training=True)
def deredundancy(plan: Plan) -> Iterator[Finding]:
    pynative = plan.dialect is Dialect.PYNATIVE
    section = plan.parallel.section if pynative else plan.model.section
    kind, value = section.get("moe_token_dispatcher_type"), section.get("npu_nums_per_device")
    if not kind.words.startswith("alltoall_dered"):
        return
    per_server = value.count or (8 if pynative or not value.given else None)
    (size,) = need(plan.parallel.expert)
    if per_server and size < per_server:
        yield deredundancy.finding(
            because(
                deredundancy,
                f"expert_parallel {size} < npu_nums_per_device {per_server}.",
                f"expert_parallel {size} < npu_nums_per_device {per_server}。",
            ),
            evidence=seen(
                plan, plan.parallel.expert, kind, *([value] if value.given else []), expected=f">= {per_server}"
            ),
            fixes=(change(plan, kind, "alltoall"),),
        )


@check(
    Rule(
        id="CFG-MOE-015",
        name="legacy-expert-section-ignored",
        severity=Severity.WARNING,
        category="config",
        title=Text("moe_config is ignored by mcore models", "mcore 模型会忽略 moe_config"),
        why=Text(
            "With use_legacy: False the experts are described in model.model_config; moe_config is not read.",
            "use_legacy: False 时专家配置写在 model.model_config 中，moe_config 不会被读取。",
        ),
        fix=Text("Move the settings to model.model_config.", "把这些设置移到 model.model_config。"),
        references=("mindformers/tools/register/template.py ConfigTemplate._apply_template",),
    )
)
@applies((Dialect.MCORE,))
def expert_section_ignored(plan: Plan) -> Iterator[Finding]:
    section = plan.root.get("moe_config")
    if section.given and section.mapping:
        yield expert_section_ignored.finding(evidence=seen(plan, section))
