"""How tokens are routed to experts: chosen experts, groups, score functions, precision, capacity."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.config.experts import CONFIG, DENSE
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
    seen,
    shown,
)
from doctor.finding import Finding, Severity, Text
from doctor.plan.names import nearest
from doctor.plan.plan import Dialect, Plan
from doctor.plan.value import Value
from doctor.rule import Rule


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
        raise Skip(DENSE)
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
        references=(CONFIG,),
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
        references=(CONFIG,),
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
        references=(CONFIG,),
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
        references=(CONFIG,),
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
        references=(CONFIG,),
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


#: training_graph/transformer/moe/router.py SUPPORTED_LOAD_BALANCING_TYPES (1.7 on); pynative router aux_loss_func_map
_BALANCING = ("sub_seq_aux_loss", "seq_aux_loss", "gbs_aux_loss")
_PYNATIVE_BALANCING = ("aux_loss", "seq_aux_loss", "global_aux_loss")


@check(
    Rule(
        id="CFG-MOE-017",
        name="unknown-balancing-loss",
        severity=Severity.ERROR,
        category="config",
        title=Text("Balancing loss {value} does not exist", "不存在的负载均衡损失：{value}"),
        why=Text(
            "The router accepts {known}; with another name the network is not built.",
            "路由器只接受 {known}；其他名称会导致构网失败。",
        ),
        fix=Text("Use one of {known}.", "改为 {known} 之一。"),
        references=("mindformers/parallel_core/training_graph/transformer/moe/router.py",),
    )
)
@applies((Dialect.MCORE, Dialect.PYNATIVE), training=True)
def unknown_balancing(plan: Plan) -> Iterator[Finding]:
    if not plan.model.is_moe:
        raise Skip(DENSE)
    if plan.release.before("1.7.0"):
        raise Skip(Text("MindFormers 1.6 does not check the name", "MindFormers 1.6 不检查该名称"))
    kind = plan.model.section.get("moe_router_load_balancing_type")
    pynative = plan.dialect is Dialect.PYNATIVE
    if pynative and plan.model.section.get("moe_aux_loss_coeff").number == 0:
        raise Skip(Text("the balancing loss is off", "未启用负载均衡损失"))
    known = _PYNATIVE_BALANCING if pynative else _BALANCING
    if kind.given and kind.value is not None and kind.value not in known:
        meant = nearest(kind.words, known, 0.5)
        yield unknown_balancing.finding(
            evidence=seen(plan, kind, expected=listed(known)),
            fixes=(change(plan, kind, meant),) if meant else None,
            value=shown(kind),
            known=listed(known),
        )


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
        references=(CONFIG,),
    )
)
@applies((Dialect.MCORE,), training=True)
def capacity_balancing(plan: Plan) -> Iterator[Finding]:
    capacity = plan.model.field("moe_expert_capacity_factor")
    kind = plan.model.section.get("moe_router_load_balancing_type")
    if capacity.number is not None and kind.given and kind.value not in _BALANCING:
        yield capacity_balancing.finding(
            evidence=seen(plan, kind, capacity, expected=listed(_BALANCING)),
            fixes=(change(plan, kind, "seq_aux_loss"),),
        )
