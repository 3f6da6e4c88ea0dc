"""What the parallel sizes have to divide, and where shards and replicas end up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from doctor.check import Skip, check
from doctor.checks.config.following import best, splits_layers, splits_model
from doctor.checks.config.judge import (
    GRAPH,
    RUNS,
    advice,
    applies,
    change,
    closest,
    divisors,
    listed,
    near,
    need,
    seen,
    shown,
    unknown,
)
from doctor.checks.config.parallel import NO_DEVICES, sharded
from doctor.finding import Finding, Severity, Text
from doctor.plan.plan import Dialect, ParallelMode, Plan
from doctor.plan.value import Value
from doctor.rule import Rule


def _not_divisible(
    plan: Plan, value: Value, divisor: Value, *, also: tuple[Value, ...] = ()
) -> Optional[tuple[int, int]]:
    """The two counts when the second does not divide the first."""
    amount, parts = need(value, divisor)
    return (amount, parts) if amount % parts else None


def _division(plan: Plan, rule_of: object, value: Value, parts: Value, what: Text) -> Finding:
    """A finding of a size that a parallel size does not divide."""
    amount, size = need(value, parts)
    legal = [item for item in divisors(amount) if item <= max(4 * size, 8)]
    if parts is plan.parallel.tensor:
        legal = best(legal, lambda option: splits_model(plan, option))
    return rule_of.finding(  # type: ignore[attr-defined,no-any-return]
        Text(
            f"{value.name} {amount} % {parts.name} {size} = {amount % size}: {what.en}",
            f"{value.name} {amount} % {parts.name} {size} = {amount % size}：{what.zh}",
        ),
        evidence=seen(plan, parts, value, expected=f"a divisor of {amount}: {listed(near(legal, size))}"),
        fixes=[change(plan, parts, option) for option in closest(legal, size, 2)],
    )


@check(
    Rule(
        id="CFG-PAR-003",
        name="heads-not-divisible",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("Tensor parallel does not divide the attention heads", "张量并行度不能整除注意力头数"),
        why=Text(
            "Each device of a tensor-parallel group computes a whole number of heads.",
            "张量并行组内每个设备要计算整数个注意力头。",
        ),
        fix=Text("Choose a tensor-parallel size that divides the heads.", "选择能整除头数的张量并行度。"),
        references=(
            "mindformers/models/llama/llama_transformer.py",
            "mindformers/parallel_core/transformer_config.py __post_init__",
        ),
    )
)
@applies(RUNS)
def heads_not_divisible(plan: Plan) -> Iterator[Finding]:
    sharded(plan)
    if _not_divisible(plan, plan.model.heads, plan.parallel.tensor):
        what = Text("every device needs a whole number of heads.", "每个设备需要整数个头。")
        yield _division(plan, heads_not_divisible, plan.model.heads, plan.parallel.tensor, what)


@check(
    Rule(
        id="CFG-PAR-004",
        name="kv-heads-not-divisible",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("Tensor parallel does not divide the key/value heads", "张量并行度不能整除 KV 头数"),
        why=Text(
            "Grouped-query attention splits its key/value heads over the tensor-parallel group.",
            "GQA 会把 KV 头切分到张量并行组的各个设备上。",
        ),
        fix=Text("Choose a tensor-parallel size that divides the key/value heads.", "选择能整除 KV 头数的张量并行度。"),
        false_positives=Text(
            "ChatGLM2, ChatGLM3 and GLM4 of the legacy generation repeat their two groups up to the tensor-parallel size by design.",
            "legacy 的 ChatGLM2/3、GLM4 会把 KV 组复制到张量并行度，属正常设计。",
        ),
    )
)
@applies(RUNS)
def kv_heads_not_divisible(plan: Plan) -> Iterator[Finding]:
    sharded(plan)
    model = plan.model
    if not model.kv_heads.given:
        raise unknown("n_kv_heads")
    if repeats_kv_heads(plan) or multi_latent(plan):
        return
    heads, kv_heads, tensor = model.heads.count, *need(model.kv_heads, plan.parallel.tensor)
    if kv_heads == heads:
        return
    if kv_heads % tensor and not (plan.dialect is not Dialect.LEGACY and tensor % kv_heads == 0):
        what = Text("every device needs a whole number of key/value heads.", "每个设备需要整数个 KV 头。")
        yield _division(plan, kv_heads_not_divisible, model.kv_heads, plan.parallel.tensor, what)


def repeats_kv_heads(plan: Plan) -> bool:
    """ChatGLM2 and its successors copy key/value groups until each device has one."""
    words = plan.model.type.words.lower() + plan.model.architecture.words.lower()
    return "glm" in words or plan.model.kv_heads.name == "multi_query_group_num"


def multi_latent(plan: Plan) -> bool:
    """DeepSeek's attention shares one latent vector among the heads and has no key/value heads to split."""
    field = plan.model.field
    return field("multi_latent_attention").on or field("kv_lora_rank").given or field("q_lora_rank").given


@check(
    Rule(
        id="CFG-PAR-005",
        name="hidden-size-not-divisible",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("Tensor parallel does not divide the hidden size", "张量并行度不能整除 hidden_size"),
        why=Text("The rows of the projections are split over the tensor-parallel group.", "投影矩阵按张量并行组切分。"),
        fix=Text("Choose a tensor-parallel size that divides hidden_size.", "选择能整除 hidden_size 的张量并行度。"),
    )
)
@applies(RUNS)
def hidden_not_divisible(plan: Plan) -> Iterator[Finding]:
    sharded(plan)
    if _not_divisible(plan, plan.model.hidden, plan.parallel.tensor):
        what = Text("the projections cannot be split evenly.", "投影矩阵无法均匀切分。")
        yield _division(plan, hidden_not_divisible, plan.model.hidden, plan.parallel.tensor, what)


@check(
    Rule(
        id="CFG-PAR-006",
        name="ffn-size-not-divisible",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("Tensor parallel does not divide the feed-forward size", "张量并行度不能整除前馈层宽度"),
        why=Text("The feed-forward matrices are split over the tensor-parallel group.", "前馈矩阵按张量并行组切分。"),
        fix=Text(
            "Choose a tensor-parallel size that divides intermediate_size.",
            "选择能整除 intermediate_size 的张量并行度。",
        ),
        references=("mindformers/models/llama/llama_layer.py LlamaFeedForward.shard",),
    )
)
@applies(RUNS)
def ffn_not_divisible(plan: Plan) -> Iterator[Finding]:
    sharded(plan)
    if _not_divisible(plan, plan.model.ffn, plan.parallel.tensor):
        what = Text("the feed-forward layer cannot be split evenly.", "前馈层无法均匀切分。")
        yield _division(plan, ffn_not_divisible, plan.model.ffn, plan.parallel.tensor, what)


@check(
    Rule(
        id="CFG-PAR-007",
        name="vocabulary-not-divisible",
        severity=Severity.WARNING,
        category="parallel-strategy",
        title=Text("Tensor parallel does not divide the vocabulary", "张量并行度不能整除词表大小"),
        why=Text(
            "The embedding falls back to one whole copy per device and the loss to model parallel 1: much more memory, and only a "
            "warning in the log.",
            "embedding 会退化为每个设备一份完整副本，loss 按 mp=1 计算：显存大增，日志里只有一条 warning。",
        ),
        fix=Text("Pad the vocabulary to a multiple of the tensor-parallel size.", "把词表补齐到张量并行度的倍数。"),
        references=("mindformers/models/llama/llama.py LlamaForCausalLM.__init__",),
    )
)
@applies(RUNS)
def vocabulary_not_divisible(plan: Plan) -> Iterator[Finding]:
    sharded(plan)
    vocabulary, parallel = plan.model.vocabulary, plan.parallel
    hit = _not_divisible(plan, vocabulary, parallel.tensor)
    if hit is None:
        return
    amount, parts = hit
    legal = best([item for item in divisors(amount) if item <= 4 * parts], lambda option: splits_model(plan, option))
    padded = -(-amount // parts) * parts
    yield vocabulary_not_divisible.finding(
        Text(
            f"{vocabulary.name} {amount} % {parallel.tensor.name} {parts} = {amount % parts}. {vocabulary_not_divisible.rule.why.en}",
            f"{vocabulary.name} {amount} % {parallel.tensor.name} {parts} = {amount % parts}。{vocabulary_not_divisible.rule.why.zh}",
        ),
        evidence=seen(plan, parallel.tensor, vocabulary, expected=f"a multiple of {parts}, such as {padded}"),
        fixes=[change(plan, parallel.tensor, option) for option in near(legal, parts, 1)]
        + [
            advice(
                plan, f"Or pad the vocabulary to {padded} (weights too).", f"或把词表补齐到 {padded}（权重也要补齐）。"
            )
        ],
    )


@check(
    Rule(
        id="CFG-PAR-015",
        name="stages-across-servers",
        severity=Severity.WARNING,
        category="parallel-strategy",
        title=Text("The pipeline stages do not divide the servers", "流水线阶段数与服务器数不匹配"),
        why=Text(
            "MindFormers warns when the number of servers (8 devices each) is no multiple of the stages: communication of a stage then crosses servers.",
            "服务器数（每台 8 卡）不是阶段数的倍数时，MindFormers 会告警：同一阶段内的通信会跨机。",
        ),
        fix=Text("Choose stages that divide the servers.", "选择能整除服务器数的阶段数。"),
        references=("mindformers/tools/check_rules.py _check_parallel",),
    )
)
@applies(GRAPH, training=True)
def stages_across_servers(plan: Plan) -> Iterator[Finding]:
    sharded(plan)
    devices = plan.devices if plan.devices is not None else None
    if devices is None:
        raise Skip(NO_DEVICES)
    servers, stages = -(-devices // 8), plan.parallel.pipeline.count
    if servers > 1 and stages and stages > 1 and servers % stages and stages % servers:
        legal = best(divisors(servers), lambda option: splits_layers(plan, option))
        yield stages_across_servers.finding(
            Text(
                f"{devices} devices are {servers} servers of 8; {servers} % {stages} stages = {servers % stages}.",
                f"{devices} 个设备为 {servers} 台 8 卡服务器；{servers} % {stages} 个阶段 = {servers % stages}。",
            ),
            evidence=seen(plan, plan.parallel.pipeline, expected=near(legal, stages)),
            fixes=[change(plan, plan.parallel.pipeline, option) for option in near(legal, stages, 1)],
        )


@check(
    Rule(
        id="CFG-PAR-016",
        name="optimizer-shard-uneven",
        severity=Severity.INFO,
        category="parallel-strategy",
        title=Text("Optimizer parallel cannot shard {what} evenly", "优化器并行无法均匀切分 {what}"),
        why=Text(
            "A parameter whose first dimension the devices do not divide stays whole on every device; MindFormers only warns.",
            "参数首维不能被设备数整除时，每个设备保留完整副本；MindFormers 只打 warning。",
        ),
        fix=Text("Pad the size, or accept the extra memory.", "补齐该维度，或接受额外的显存占用。"),
        references=("mindformers/tools/check_rules.py _check_parallel",),
    )
)
@applies(GRAPH, training=True)
def optimizer_shard_uneven(plan: Plan) -> Iterator[Finding]:
    parallel = plan.parallel
    devices = plan.devices or parallel.product
    if not parallel.optimizer.on or not devices or devices == 1 or parallel.mode is not ParallelMode.SEMI_AUTO:
        return
    for value in (plan.model.vocabulary, plan.model.hidden):
        amount = value.count
        if value.given and amount and amount % devices:
            yield optimizer_shard_uneven.finding(
                Text(
                    f"{value.name} {amount} % {devices} devices = {amount % devices}. {optimizer_shard_uneven.rule.why.en}",
                    f"{value.name} {amount} % {devices} 个设备 = {amount % devices}。{optimizer_shard_uneven.rule.why.zh}",
                ),
                evidence=seen(plan, value, parallel.optimizer, expected=f"a multiple of {devices}"),
                what=value.name,
            )


@check(
    Rule(
        id="CFG-PAR-017",
        name="optimizer-parallel-without-data-parallel",
        severity=Severity.INFO,
        category="performance",
        title=Text(
            "enable_parallel_optimizer has no effect with data_parallel 1",
            "data_parallel 为 1 时 enable_parallel_optimizer 不生效",
        ),
        why=Text(
            "Optimizer states are sharded over the data-parallel group; a group of one shards nothing.",
            "优化器状态在数据并行组内切分，只有一个成员时不会切分。",
        ),
        fix=Text("Nothing to do, unless memory was counted on it.", "无需处理，除非显存估算依赖它。"),
    )
)
@applies(GRAPH, training=True)
def optimizer_parallel_alone(plan: Plan) -> Iterator[Finding]:
    parallel = plan.parallel
    if (
        parallel.optimizer.on
        and parallel.data.count == 1
        and parallel.mode is ParallelMode.SEMI_AUTO
        and (parallel.product or 1) > 1
    ):
        yield optimizer_parallel_alone.finding(evidence=seen(plan, parallel.optimizer, parallel.data))


@check(
    Rule(
        id="CFG-PAR-018",
        name="tensor-parallel-across-servers",
        severity=Severity.INFO,
        category="performance",
        title=Text("A tensor-parallel group of {size} spans servers", "张量并行度 {size} 会跨服务器"),
        why=Text(
            "Tensor parallel communicates in every layer; beyond the 8 devices of one server it waits for the network.",
            "张量并行每层都要通信；超过单机 8 卡后会受限于机间网络。",
        ),
        fix=Text("Keep it at 8 or less and use pipeline stages for the rest.", "保持不超过 8，其余用流水线并行。"),
    )
)
@applies(RUNS, training=True)
def tensor_parallel_across_servers(plan: Plan) -> Iterator[Finding]:
    size = plan.parallel.tensor.count
    if size and size > 8 and plan.parallel.tensor.given:
        yield tensor_parallel_across_servers.finding(
            evidence=seen(plan, plan.parallel.tensor, expected="8 or less"), size=size
        )


@check(
    Rule(
        id="CFG-PAR-019",
        name="embedding-replicated-with-pipeline",
        severity=Severity.INFO,
        category="config",
        title=Text("vocab_emb_dp is reset to False with pipeline stages", "流水线并行时 vocab_emb_dp 会被置为 False"),
        why=Text(
            "MindFormers resets vocab_emb_dp when pipeline_stage is above 1.",
            "pipeline_stage 大于 1 时 MindFormers 会把 vocab_emb_dp 置为 False。",
        ),
        fix=Text("Set vocab_emb_dp: False to say what happens.", "设置 vocab_emb_dp: False，与实际行为一致。"),
        references=("mindformers/core/parallel_config.py",),
    )
)
@applies((Dialect.LEGACY,), training=True)
def embedding_with_pipeline(plan: Plan) -> Iterator[Finding]:
    value = plan.parallel.vocabulary_data_parallel
    if value.given and value.on and plan.parallel.stages > 1:
        yield embedding_with_pipeline.finding(
            evidence=seen(plan, value, plan.parallel.pipeline, expected=False),
            fixes=(change(plan, value, False, safe=True),),
        )


@check(
    Rule(
        id="CFG-PAR-021",
        name="optimizer-shard-size-invalid",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("optimizer_weight_shard_size is not a usable size", "optimizer_weight_shard_size 不可用"),
        why=Text(
            "It is -1 (all of data parallel) or a number of devices from 1 that optimizer states are spread over.",
            "取 -1（整个数据并行组）或大于等于 1 的设备数，表示优化器状态切分到多少个设备。",
        ),
        fix=Text("Use -1.", "使用 -1。"),
    )
)
@applies((*GRAPH,))
def optimizer_shard_size(plan: Plan) -> Iterator[Finding]:
    value = plan.parallel.optimizer_shard_size
    whole = value.whole
    if value.given and value.number is not None and (whole is None or (whole < 1 and whole != -1)):
        yield optimizer_shard_size.finding(
            Text(
                f"{value.key} is {shown(value)}. {optimizer_shard_size.rule.why.en}",
                f"{value.key} 为 {shown(value)}。{optimizer_shard_size.rule.why.zh}",
            ),
            evidence=seen(plan, value, expected="-1 or >= 1"),
            fixes=(change(plan, value, -1),),
        )
    elif value.given and whole is not None and whole > 1 and plan.parallel.optimizer.on:
        yield from _fits_no_group(plan, value, whole)


def _fits_no_group(plan: Plan, value: Value, size: int) -> Iterator[Finding]:
    """A parameter is spread over ranks that hold the same slice of it: data x context parallel of them, and tensor
    parallel more where it does not split the parameter."""
    if plan.parallel.mode is not ParallelMode.SEMI_AUTO:
        return
    data = (plan.parallel.data.whole or 0) * (plan.parallel.context.whole or 1)
    every = data * (plan.parallel.tensor.whole or 1)
    # Official files write a size above every group (256 over 4 x 32): that one is taken for "all of them".
    if data < 1 or size > every or data % size == 0 or every % size == 0:
        return
    yield optimizer_shard_size.finding(
        Text(
            f"{every} ranks of a stage (data x context x model parallel) % {size} = {every % size}: no parameter has a "
            "group of that size, so optimizer states stay whole on every device.",
            f"每个 stage 的 {every} 个 rank（data x context x model parallel）% {size} = {every % size}："
            "没有参数能按该大小分组，优化器状态在每个设备上都是完整的一份。",
        ),
        evidence=seen(plan, value, plan.parallel.data, expected="-1"),
        fixes=(change(plan, value, -1),),
        severity=Severity.WARNING,
    )
