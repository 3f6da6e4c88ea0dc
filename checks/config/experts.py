"""Mixture of experts: how experts, groups, routing and parallel sizes must fit together."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.config.judge import (
    GRAPH,
    MINDFORMERS,
    MODELS,
    applies,
    because,
    change,
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
from doctor.plan.value import Value
from doctor.rule import Rule

_DENSE = Text("the file names no experts", "文件中没有专家数")
_CONFIG = "mindformers/parallel_core/transformer_config.py __post_init__"


def _experts(plan: Plan) -> int:
    """The number of experts. Raises Skip for a dense model or when the number is elsewhere."""
    count = plan.model.experts.count
    if count is None or count <= 1:
        raise Skip(_DENSE)
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
            fixes=[change(plan, plan.parallel.expert, option) for option in near(legal, size, 2)],
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
        id="CFG-MOE-003",
        name="more-chosen-experts-than-experts",
        severity=Severity.ERROR,
        category="config",
        title=Text("Each token chooses more experts than there are", "每个 token 选择的专家数超过专家总数"),
        why=Text("Top-k routing picks k of the experts.", "top-k 路由从全部专家中选 k 个。"),
        fix=Text("Lower the number of chosen experts.", "减小每 token 的专家数。"),
        references=("mindformers/modules/transformer/moe.py MoEConfig",),
    )
)
@applies(MODELS)
def too_many_chosen(plan: Plan) -> Iterator[Finding]:
    experts = plan.model.experts.count
    value = plan.model.field("moe_router_topk")
    if plan.model.experts.whole == 0 and (value.count or 0) > 0 and plan.model.experts.given:
        experts = 0
    if experts is None or value.whole is None:
        raise Skip(_DENSE)
    if value.whole > experts or value.whole < 1:
        yield too_many_chosen.finding(
            Text(
                f"{value.name} {value.whole}, but there are {experts} experts.",
                f"{value.name} 为 {value.whole}，而专家数为 {experts}。",
            ),
            evidence=seen(plan, value, plan.model.experts, expected=f"1 to {experts}"),
            fixes=(change(plan, value, min(max(value.whole, 1), experts)),) if experts else None,
        )


@check(
    Rule(
        id="CFG-MOE-004",
        name="expert-groups-do-not-fit",
        severity=Severity.ERROR,
        category="config",
        title=Text("The expert groups do not fit", "专家分组不匹配"),
        why=Text(
            "Group-limited routing needs groups that divide the experts, no more chosen groups than groups, and chosen experts that the chosen groups divide.",
            "分组路由要求：组数整除专家数；所选组数不超过组数；所选组数整除每 token 专家数。",
        ),
        fix=Text("Change the number of groups.", "修改分组数。"),
        references=(_CONFIG,),
    )
)
@applies(MODELS)
def expert_groups(plan: Plan) -> Iterator[Finding]:
    field = plan.model.field
    groups, chosen, top = field("moe_router_num_groups"), field("moe_router_group_topk"), field("moe_router_topk")
    experts = plan.model.experts.count
    number, limit, picked = groups.count, chosen.count, top.count
    if experts and number and experts % number:
        legal = near(divisors(experts), number)
        yield expert_groups.finding(
            Text(
                f"{experts} experts % {groups.name} {number} = {experts % number}.",
                f"专家数 {experts} % {groups.name} {number} = {experts % number}。",
            ),
            evidence=seen(plan, groups, plan.model.experts, expected=listed(legal)),
            severity=Severity.WARNING if plan.dialect is Dialect.LEGACY else None,
            fixes=[change(plan, groups, option) for option in near(legal, number, 1)],
        )
    if number and limit and limit > number:
        yield expert_groups.finding(
            because(
                expert_groups,
                f"{chosen.name} {limit} > {groups.name} {number}.",
                f"{chosen.name} {limit} > {groups.name} {number}。",
            ),
            evidence=seen(plan, chosen, groups, expected=f"at most {number}"),
            fixes=(change(plan, chosen, number),),
        )
    elif picked and limit and picked % limit and plan.dialect is not Dialect.LEGACY:
        legal = divisors(picked)
        yield expert_groups.finding(
            because(
                expert_groups,
                f"{top.name} {picked} % {chosen.name} {limit} = {picked % limit}.",
                f"{top.name} {picked} % {chosen.name} {limit} = {picked % limit}。",
            ),
            evidence=seen(plan, chosen, top, expected=listed(near(legal, limit))),
            fixes=[change(plan, chosen, option) for option in near(legal, limit, 1)],
        )


@check(
    Rule(
        id="CFG-MOE-005",
        name="dense-layers-beyond-model",
        severity=Severity.ERROR,
        category="config",
        title=Text("first_k_dense_replace exceeds the layers", "first_k_dense_replace 超过层数"),
        why=Text("It is the number of leading layers without experts.", "它表示开头多少层不使用专家。"),
        fix=Text("Lower it.", "减小它。"),
        references=(_CONFIG,),
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
        references=(_CONFIG,),
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
        references=(_CONFIG,),
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
        id="CFG-MOE-008",
        name="expert-bias-needs-sigmoid",
        severity=Severity.ERROR,
        category="config",
        title=Text("Expert bias with score function {value}", "打分函数为 {value} 时不能使用专家偏置"),
        why=Text(
            "Balancing by expert bias works on sigmoid scores (sqrtsoftplus too from 2.1); MindFormers refuses softmax.",
            "专家偏置负载均衡只支持 sigmoid（2.1 起还支持 sqrtsoftplus），softmax 会报错。",
        ),
        fix=Text("Set moe_router_score_function: sigmoid.", "设置 moe_router_score_function: sigmoid。"),
        references=(_CONFIG,),
    )
)
@applies((Dialect.MCORE, Dialect.PYNATIVE), training=True)
def expert_bias(plan: Plan) -> Iterator[Finding]:
    bias, score = plan.model.field("moe_router_enable_expert_bias"), plan.model.field("moe_router_score_function")
    if not bias.on or not score.given:
        return
    if score.value is False or (score.text is not None and score.words not in {"sigmoid", "sqrtsoftplus"}):
        new = True if score.name == "use_gating_sigmoid" else "sigmoid"
        yield expert_bias.finding(
            evidence=seen(plan, score, bias, expected="sigmoid"),
            fixes=(change(plan, score, new), change(plan, bias, False)),
            value=shown(score),
        )


@check(
    Rule(
        id="CFG-MOE-009",
        name="single-expert-softmax",
        severity=Severity.ERROR,
        category="loss-not-converging",
        title=Text("One chosen expert with softmax after top-k", "每 token 选 1 个专家且 softmax 在 top-k 之后"),
        why=Text(
            "The softmax of a single score is always 1: the router gets no gradient. MindFormers refuses it.",
            "单个分数的 softmax 恒为 1，路由得不到梯度；MindFormers 会报错。",
        ),
        fix=Text("Set moe_router_pre_softmax: True.", "设置 moe_router_pre_softmax: True。"),
        references=(_CONFIG,),
    )
)
@applies((Dialect.MCORE, Dialect.PYNATIVE), training=True)
def single_expert(plan: Plan) -> Iterator[Finding]:
    field = plan.model.field
    top, score, before = field("moe_router_topk"), field("moe_router_score_function"), field("moe_router_pre_softmax")
    softmax = score.words == "softmax" or score.value is False
    if plan.model.is_moe and top.whole == 1 and top.given and softmax and not before.on:
        yield single_expert.finding(
            evidence=seen(plan, before if before.given else top, top, expected=True),
            fixes=(change(plan, before, True),),
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
        references=(_CONFIG,),
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
        id="CFG-MOE-012",
        name="expert-layer-list-invalid",
        severity=Severity.ERROR,
        category="config",
        title=Text("moe_layer_freq does not fit the layers", "moe_layer_freq 与层数不匹配"),
        why=Text(
            "It is a number up to the layers, or a list of 0 and 1 with one entry a layer.",
            "可为不超过层数的整数，或长度等于层数的 0/1 列表。",
        ),
        fix=Text("Write one entry a layer.", "每层写一项。"),
        references=(_CONFIG,),
    )
)
@applies((Dialect.MCORE, Dialect.PYNATIVE), training=True)
def expert_layers(plan: Plan) -> Iterator[Finding]:
    value, layers = plan.model.field("moe_layer_freq"), plan.model.layers.count
    dense = plan.model.field("first_k_dense_replace")
    if not value.given or layers is None:
        return
    text = None
    if value.is_sequence and len(value.sequence) != layers:
        text = Text(
            f"{len(value.sequence)} entries for {layers} layers.", f"{len(value.sequence)} 项，而层数为 {layers}。"
        )
    elif value.is_sequence and any(item.value not in (0, 1) or item.flag is not None for item in value.sequence):
        text = Text("An entry is neither 0 nor 1.", "存在既非 0 也非 1 的项。")
    elif value.whole is not None and value.whole > layers:
        text = Text(f"{value.whole} > {layers} layers.", f"{value.whole} > 层数 {layers}。")
    elif value.whole is not None and value.whole > 1 and (dense.whole or 0) > 0:
        text = Text(
            "It cannot be above 1 together with first_k_dense_replace.",
            "与 first_k_dense_replace 同时使用时不能大于 1。",
        )
    if text is not None:
        yield expert_layers.finding(
            because(expert_layers, text.en, text.zh), evidence=seen(plan, value, plan.model.layers)
        )


@check(
    Rule(
        id="CFG-MOE-013",
        name="router-in-low-precision",
        severity=Severity.WARNING,
        category="nan-overflow",
        title=Text("{experts} experts are routed in {dtype}", "{experts} 个专家使用 {dtype} 路由"),
        why=Text(
            "Close scores of many experts round to the same value in 16 bits: routing turns unstable. MindFormers warns from 32 experts.",
            "专家较多时，16 位精度下相近的分数会舍入为相同值，路由不稳定；MindFormers 从 32 个专家起告警。",
        ),
        fix=Text("Set the router to float32.", "把路由精度设为 float32。"),
        references=(_CONFIG,),
    )
)
@applies(MINDFORMERS, training=True)
def router_precision(plan: Plan) -> Iterator[Finding]:
    value = plan.precision.router
    experts = plan.model.experts.count or 0
    if experts >= 32 and value.words in {"float16", "bfloat16", "fp16", "bf16"}:
        yield router_precision.finding(
            evidence=seen(plan, value, plan.model.experts, expected="float32"),
            fixes=(change(plan, value, "float32"),),
            experts=experts,
            dtype=value.words,
        )


@check(
    Rule(
        id="CFG-MOE-014",
        name="expert-setting-out-of-range",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} is out of range", "{key} 超出取值范围"),
        why=Text(
            "MoEConfig refuses it: aux_loss_factor below 1, cold_token_percent in (0, 1], hot_expert_num up to the experts, capacity above 0 (or -1 for none).",
            "MoEConfig 会报错：aux_loss_factor < 1；cold_token_percent 取 (0, 1]；hot_expert_num 不超过专家数；capacity_factor > 0（-1 表示不限）。",
        ),
        fix=Text("Use a value in the range.", "使用范围内的值。"),
        references=("mindformers/modules/transformer/moe.py MoEConfig",),
    )
)
@applies(GRAPH)
def expert_setting_range(plan: Plan) -> Iterator[Finding]:
    section = plan.root.get("moe_config")
    experts = plan.model.experts.count
    limits: tuple[tuple[str, float, float, str], ...] = (
        ("aux_loss_factor", 0.0, 0.999999, "0 to below 1"),
        ("cold_token_percent", 1e-9, 1.0, "above 0, at most 1"),
        ("hot_expert_num", 0, experts or 1 << 30, f"0 to {experts or 'the experts'}"),
        ("comp_comm_parallel_degree", 1, 1 << 30, ">= 1"),
        ("update_step", 1, 1 << 60, ">= 1"),
        ("expert_num", 1, 1 << 20, ">= 1"),
        ("num_experts_chosen", 1, 1 << 20, ">= 1"),
        ("shared_expert_num", 0, 1 << 20, ">= 0"),
        ("moe_intermediate_size", 1, 1 << 30, ">= 1"),
        ("routed_scaling_factor", 1e-9, 1e6, "> 0"),
        ("n_group", 0, 1 << 20, ">= 0"),
        ("topk_group", 0, 1 << 20, ">= 0"),
    )
    for name, low, high, words in limits:
        value = section.get(name)
        if value.given and value.number is not None and not low <= value.number <= high:
            yield _out_of_range(plan, value, words)
    capacity = section.get("capacity_factor")
    if capacity.given and capacity.number is not None and capacity.number <= 0 and capacity.number != -1:
        yield _out_of_range(plan, capacity, "> 0, or -1")


def _out_of_range(plan: Plan, value: Value, words: str) -> Finding:
    return expert_setting_range.finding(
        because(expert_setting_range, f"{value.key} is {shown(value)}.", f"{value.key} 为 {shown(value)}。"),
        evidence=seen(plan, value, expected=words),
        key=value.key,
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


@check(
    Rule(
        id="CFG-MOE-016",
        name="capacity-needs-balancing-loss",
        severity=Severity.ERROR,
        category="config",
        title=Text("An expert capacity needs a balancing loss", "设置专家容量时需要负载均衡损失"),
        why=Text(
            "moe_expert_capacity_factor works with sub_seq_aux_loss, seq_aux_loss and gbs_aux_loss only.",
            "moe_expert_capacity_factor 只支持 sub_seq_aux_loss、seq_aux_loss、gbs_aux_loss。",
        ),
        fix=Text(
            "Set moe_router_load_balancing_type: seq_aux_loss.", "设置 moe_router_load_balancing_type: seq_aux_loss。"
        ),
        references=(_CONFIG,),
    )
)
@applies((Dialect.MCORE,), training=True)
def capacity_balancing(plan: Plan) -> Iterator[Finding]:
    capacity = plan.model.field("moe_expert_capacity_factor")
    kind = plan.model.section.get("moe_router_load_balancing_type")
    known = ("sub_seq_aux_loss", "seq_aux_loss", "gbs_aux_loss")
    if capacity.number is not None and kind.given and kind.value not in known:
        yield capacity_balancing.finding(
            evidence=seen(plan, kind, capacity, expected=listed(known)), fixes=(change(plan, kind, "seq_aux_loss"),)
        )
