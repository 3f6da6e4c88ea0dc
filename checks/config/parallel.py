"""Data and tensor parallel: sizes that must multiply to the device count and divide the model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Optional

from doctor.check import Skip, check
from doctor.checks.config.judge import (
    GRAPH,
    MINDFORMERS,
    RUNS,
    advice,
    applies,
    change,
    divisors,
    listed,
    near,
    need,
    seen,
    shown,
    unknown,
)
from doctor.finding import Finding, Fix, Severity, Text
from doctor.plan.arithmetic import automatic
from doctor.plan.plan import Dialect, ParallelMode, Plan
from doctor.plan.value import Value
from doctor.rule import Rule

_NO_DEVICES = Text("the number of devices is not known; give --devices N", "不知道设备数；请加 --devices N")
_DATA_MODE = Text(
    "parallel_mode does not use these sizes (data or stand-alone)",
    "该 parallel_mode 不使用这些并行度（数据并行或单卡）",
)


def _sharded(plan: Plan) -> None:
    """Raises Skip unless the graph is sharded by the sizes of the file."""
    if plan.dialect.graph and plan.parallel.mode is not ParallelMode.SEMI_AUTO and plan.trains:
        raise Skip(_DATA_MODE)


@check(
    Rule(
        id="CFG-PAR-001",
        name="parallel-product-mismatch",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("The parallel sizes do not multiply to the device count", "并行度之积与设备数不一致"),
        why=Text(
            "MindFormers requires data_parallel x model_parallel x context_parallel x pipeline_stage to equal the number of "
            "devices and stops after data set and network are built.",
            "MindFormers 要求 data_parallel × model_parallel × context_parallel × pipeline_stage 等于设备数，否则在数据集和网络构建之后才报错退出。",
        ),
        fix=Text(
            "Change one size, or start on as many devices as the product.", "修改其中一个并行度，或按乘积的设备数启动。"
        ),
        references=("mindformers/tools/check_rules.py _check_parallel",),
        false_positives=Text(
            "With parallel_mode 0, 2 or 3 the product binds nothing.", "parallel_mode 为 0、2、3 时不受此约束。"
        ),
    )
)
@applies(MINDFORMERS)
def parallel_product(plan: Plan) -> Iterator[Finding]:
    if plan.devices is None:
        raise Skip(_NO_DEVICES)
    _sharded(plan)
    parallel, devices = plan.parallel, plan.devices
    if plan.dialect is Dialect.PYNATIVE:
        yield from _pynative_product(plan, devices)
        return
    if devices == 1 and not parallel.enabled.on:
        raise Skip(Text("one device and use_parallel is off", "单卡且 use_parallel 关闭"))
    sizes = need(*parallel.sizes)
    product = math.prod(sizes)
    if product == devices:
        return
    equation = " x ".join(str(size) for size in sizes) + f" = {product}"
    used = [parallel.data, *(value for value in parallel.sizes[1:] if value.given)]
    yield parallel_product.finding(
        Text(
            f"data x model x context x pipeline = {equation}, but there are {devices} devices. {parallel_product.rule.why.en}",
            f"data × model × context × pipeline = {equation}，而设备数为 {devices}。{parallel_product.rule.why.zh}",
        ),
        evidence=seen(plan, *used, expected=f"product {devices}"),
        fixes=_product_fixes(plan, sizes, devices),
    )


def _pynative_product(plan: Plan, devices: int) -> Iterator[Finding]:
    parallel = plan.parallel
    tensor, context, pipeline = need(parallel.tensor, parallel.context, parallel.pipeline)
    rest = tensor * context * pipeline
    equation = f"{tensor} x {context} x {pipeline} = {rest}"
    others = [value for value in (parallel.tensor, parallel.context, parallel.pipeline) if value.given]
    if devices % rest:
        yield parallel_product.finding(
            Text(
                f"tensor x context x pipeline = {equation} does not divide {devices} devices, so no data-parallel size is left.",
                f"tensor × context × pipeline = {equation} 不能整除设备数 {devices}，无法得到数据并行度。",
            ),
            evidence=seen(plan, *others, expected=f"a divisor of {devices}"),
            fixes=_product_fixes(plan, (1, tensor, context, pipeline), devices),
        )
        return
    shard, total = parallel.data.whole, devices // rest
    if shard is not None and shard > 0 and total % shard:
        legal = divisors(total)
        yield parallel_product.finding(
            Text(
                f"data_parallel_shard {shard} does not divide the data-parallel size {devices} / {rest} = {total}.",
                f"data_parallel_shard {shard} 不能整除数据并行度 {devices} / {rest} = {total}。",
            ),
            evidence=seen(plan, parallel.data, expected=legal),
            fixes=(change(plan, parallel.data, -1), change(plan, parallel.data, near(legal, shard, 1)[0])),
        )


def _product_fixes(plan: Plan, sizes: tuple[int, ...], devices: int) -> list[Fix]:
    """One change each that makes the product right, data parallel first: it changes no shape."""
    fixes = []
    values = plan.parallel.sizes
    product = math.prod(sizes)
    for value, size in zip(values, sizes):
        rest = product // size
        if devices % rest == 0 and not (value is values[0] and plan.dialect is Dialect.PYNATIVE):
            fixes.append(change(plan, value, devices // rest))
    fixes.append(
        advice(
            plan,
            f"Or start on {product} devices.",
            f"或者用 {product} 个设备启动。",
        )
    )
    return fixes[:4]


@check(
    Rule(
        id="CFG-PAR-002",
        name="parallel-sizes-ignored",
        severity=Severity.INFO,
        category="parallel-strategy",
        title=Text(
            "parallel_mode {mode} ignores the sizes in parallel_config",
            "parallel_mode {mode} 会忽略 parallel_config 中的并行度",
        ),
        why=Text(
            "In data-parallel and stand-alone mode MindFormers resets every size of parallel_config to 1 and says so in one INFO line.",
            "数据并行和单卡模式下，MindFormers 会把 parallel_config 的各并行度重置为 1，只打一行 INFO 日志。",
        ),
        fix=Text("Use parallel_mode: 1, or leave the sizes at 1.", "改用 parallel_mode: 1，或把并行度都设为 1。"),
        references=("mindformers/trainer/base_trainer.py _check_global_batch_size_for_auto_parallel",),
    )
)
@applies(GRAPH, training=True)
def parallel_sizes_ignored(plan: Plan) -> Iterator[Finding]:
    parallel = plan.parallel
    if parallel.mode not in (ParallelMode.DATA, ParallelMode.STAND_ALONE, ParallelMode.HYBRID):
        return
    wasted = [
        value
        for value in (parallel.tensor, parallel.pipeline, parallel.context, parallel.data, parallel.expert)
        if value.given and (value.count or 1) > 1
    ]
    if parallel.data in wasted and plan.devices == parallel.data.count:
        wasted.remove(parallel.data)
    if wasted:
        yield parallel_sizes_ignored.finding(
            evidence=seen(plan, *wasted, expected=1) + seen(plan, parallel.mode_value),
            fixes=(change(plan, parallel.mode_value, 1), *(change(plan, value, 1, safe=True) for value in wasted[:1])),
            mode=shown(parallel.mode_value),
        )


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
    return rule_of.finding(  # type: ignore[attr-defined,no-any-return]
        Text(
            f"{value.name} {amount} % {parts.name} {size} = {amount % size}: {what.en}",
            f"{value.name} {amount} % {parts.name} {size} = {amount % size}：{what.zh}",
        ),
        evidence=seen(plan, parts, value, expected=f"a divisor of {amount}: {listed(near(legal, size))}"),
        fixes=[change(plan, parts, option) for option in near(legal, size, 2)],
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
    _sharded(plan)
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
    _sharded(plan)
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
    _sharded(plan)
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
    _sharded(plan)
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
    _sharded(plan)
    vocabulary, parallel = plan.model.vocabulary, plan.parallel
    hit = _not_divisible(plan, vocabulary, parallel.tensor)
    if hit is None:
        return
    amount, parts = hit
    legal = [item for item in divisors(amount) if item <= 4 * parts]
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
        id="CFG-PAR-008",
        name="parallel-size-not-positive",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("A parallel size is not a whole number above zero", "并行度不是正整数"),
        why=Text("A parallel size counts devices or stages: 1, 2, 4, …", "并行度是设备数或阶段数：1、2、4……"),
        fix=Text("Set it to 1 or more.", "设为 1 或更大的整数。"),
    )
)
@applies(RUNS)
def parallel_size_not_positive(plan: Plan) -> Iterator[Finding]:
    parallel = plan.parallel
    counted = [
        parallel.tensor,
        parallel.context,
        parallel.pipeline,
        parallel.expert,
        parallel.micro_batches,
        parallel.interleave,
        parallel.section.get("gradient_aggregation_group"),
        parallel.section.get("device_num"),
    ]
    remaining = plan.dialect is Dialect.PYNATIVE and parallel.data.whole == -1
    if not remaining:
        counted.append(parallel.data)
    for value in counted:
        number = value.number
        if value.given and number is not None and (number < 1 or value.whole is None):
            yield parallel_size_not_positive.finding(
                Text(
                    f"{value.key} is {shown(value)}. {parallel_size_not_positive.rule.why.en}",
                    f"{value.key} 为 {shown(value)}。{parallel_size_not_positive.rule.why.zh}",
                ),
                evidence=seen(plan, value, expected="a whole number >= 1"),
                fixes=(change(plan, value, 1),),
            )


@check(
    Rule(
        id="CFG-PAR-009",
        name="parallel-mode-unknown",
        severity=Severity.ERROR,
        category="config",
        title=Text("parallel_mode {value} does not exist", "不存在的 parallel_mode：{value}"),
        why=Text(
            "MindFormers knows 0 (data parallel), 1 (semi-automatic), 2 (automatic), 3 (hybrid) and their names.",
            "MindFormers 支持 0（数据并行）、1（半自动并行）、2（自动并行）、3（混合并行）及其名称。",
        ),
        fix=Text("Use 1 for large models, 0 for data parallel.", "大模型用 1，纯数据并行用 0。"),
        references=("mindformers/core/context/validators.py validate_parallel_mode",),
    )
)
@applies(GRAPH)
def parallel_mode_unknown(plan: Plan) -> Iterator[Finding]:
    value = plan.parallel.mode_value
    if value.given and plan.parallel.mode is ParallelMode.UNKNOWN:
        yield parallel_mode_unknown.finding(
            evidence=seen(plan, value, expected="0, 1, 2 or 3"), fixes=(change(plan, value, 1),), value=shown(value)
        )


@check(
    Rule(
        id="CFG-PAR-010",
        name="parallel-on-one-device",
        severity=Severity.WARNING,
        category="distributed-launch",
        title=Text("use_parallel is on with one device", "单卡却打开了 use_parallel"),
        why=Text(
            "With use_parallel the communication library is initialised; started without msrun on one device that fails.",
            "use_parallel 会初始化通信库；单卡且不经 msrun 启动时会失败。",
        ),
        fix=Text("Set use_parallel: False for one device.", "单卡时设置 use_parallel: False。"),
        references=("mindformers/core/context/parallel.py init_communication",),
    )
)
@applies((*GRAPH, Dialect.TRAINER))
def parallel_on_one_device(plan: Plan) -> Iterator[Finding]:
    if plan.devices is None:
        raise Skip(_NO_DEVICES)
    if plan.parallel.mode is ParallelMode.AUTO:
        raise Skip(_DATA_MODE)
    if plan.devices == 1 and plan.parallel.enabled.on and plan.parallel.enabled.given:
        yield parallel_on_one_device.finding(
            evidence=seen(plan, plan.parallel.enabled, expected=False),
            fixes=(change(plan, plan.parallel.enabled, False, safe=True),),
        )


@check(
    Rule(
        id="CFG-PAR-011",
        name="parallel-off-with-sizes",
        severity=Severity.INFO,
        category="parallel-strategy",
        title=Text(
            "use_parallel is off although the sizes ask for {product} devices",
            "并行度需要 {product} 个设备，但 use_parallel 关闭",
        ),
        why=Text(
            "Launchers often pass --use_parallel True; without it each process trains alone on its own device.",
            "启动脚本常带 --use_parallel True；否则每个进程各自单卡训练。",
        ),
        fix=Text(
            "Set use_parallel: True, or pass --use_parallel True.",
            "设置 use_parallel: True，或启动时加 --use_parallel True。",
        ),
    )
)
@applies(GRAPH, training=True)
def parallel_off_with_sizes(plan: Plan) -> Iterator[Finding]:
    parallel = plan.parallel
    product = parallel.product
    if product and product > 1 and parallel.enabled.value is False and automatic(plan):
        yield parallel_off_with_sizes.finding(
            evidence=seen(plan, parallel.enabled, *[size for size in parallel.sizes if (size.count or 1) > 1]),
            fixes=(change(plan, parallel.enabled, True),),
            product=product,
        )


@check(
    Rule(
        id="CFG-PAR-012",
        name="gradients-averaged-twice",
        severity=Severity.WARNING,
        category="loss-not-converging",
        title=Text("gradients_mean is on in semi-automatic parallel", "半自动并行下打开了 gradients_mean"),
        why=Text(
            "In semi-automatic mode the loss is a mean already: gradients are divided a second time and learning is slow, without any error.",
            "半自动并行下 loss 已经取过平均，梯度会被再除一次：收敛变慢，且没有任何报错。",
        ),
        fix=Text("Set gradients_mean: False.", "设置 gradients_mean: False。"),
    )
)
@applies(GRAPH, training=True)
def gradients_averaged_twice(plan: Plan) -> Iterator[Finding]:
    value = plan.parallel.gradients_mean
    if plan.parallel.mode is ParallelMode.SEMI_AUTO and plan.parallel.mode_value.given and value.on:
        yield gradients_averaged_twice.finding(
            evidence=seen(plan, value, plan.parallel.mode_value, expected=False),
            fixes=(change(plan, value, False),),
        )


@check(
    Rule(
        id="CFG-PAR-013",
        name="full-batch-ignored",
        severity=Severity.INFO,
        category="config",
        title=Text("full_batch has no effect in parallel_mode {mode}", "full_batch 在 parallel_mode {mode} 下不生效"),
        why=Text(
            "full_batch belongs to semi-automatic and automatic parallel; MindFormers sets it to False with a warning.",
            "full_batch 只用于半自动/自动并行；MindFormers 会打 warning 并置为 False。",
        ),
        fix=Text("Set full_batch: False.", "设置 full_batch: False。"),
        references=("mindformers/tools/check_rules.py _check_full_batch",),
    )
)
@applies(GRAPH)
def full_batch_ignored(plan: Plan) -> Iterator[Finding]:
    parallel = plan.parallel
    if (
        parallel.full_batch.on
        and parallel.mode_value.given
        and parallel.mode
        in (
            ParallelMode.DATA,
            ParallelMode.STAND_ALONE,
            ParallelMode.HYBRID,
        )
    ):
        yield full_batch_ignored.finding(
            evidence=seen(plan, parallel.full_batch, parallel.mode_value, expected=False),
            fixes=(change(plan, parallel.full_batch, False, safe=True),),
            mode=shown(parallel.mode_value),
        )


@check(
    Rule(
        id="CFG-PAR-014",
        name="automatic-pipeline-unavailable",
        severity=Severity.ERROR,
        category="config",
        title=Text("auto_pipeline is on", "打开了 auto_pipeline"),
        why=Text(
            "MindFormers refuses auto_pipeline: stages are set by hand.",
            "MindFormers 不支持 auto_pipeline，阶段需手工设置。",
        ),
        fix=Text("Set auto_pipeline: False.", "设置 auto_pipeline: False。"),
        references=("mindformers/core/context/parallel.py _set_pipeline_stage",),
    )
)
@applies(GRAPH)
def automatic_pipeline(plan: Plan) -> Iterator[Finding]:
    value = plan.parallel.context_section.get("auto_pipeline")
    if value.on:
        yield automatic_pipeline.finding(
            evidence=seen(plan, value, expected=False), fixes=(change(plan, value, False, safe=True),)
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
    _sharded(plan)
    devices = plan.devices if plan.devices is not None else None
    if devices is None:
        raise Skip(_NO_DEVICES)
    servers, stages = -(-devices // 8), plan.parallel.pipeline.count
    if servers > 1 and stages and stages > 1 and servers % stages and stages % servers:
        legal = divisors(servers)
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
        id="CFG-PAR-020",
        name="search-mode-unknown",
        severity=Severity.ERROR,
        category="config",
        title=Text("search_mode {value} does not exist", "不存在的 search_mode：{value}"),
        why=Text(
            "MindSpore knows sharding_propagation, dynamic_programming and recursive_programming.",
            "MindSpore 支持 sharding_propagation、dynamic_programming、recursive_programming。",
        ),
        fix=Text("Use sharding_propagation.", "使用 sharding_propagation。"),
        references=("mindspore.set_auto_parallel_context",),
    )
)
@applies(GRAPH)
def search_mode_unknown(plan: Plan) -> Iterator[Finding]:
    value = plan.parallel.context_section.get("search_mode")
    known = ("sharding_propagation", "dynamic_programming", "recursive_programming")
    if value.given and value.value is not None and value.value not in known:
        yield search_mode_unknown.finding(
            evidence=seen(plan, value, expected=listed(known)),
            fixes=(change(plan, value, "sharding_propagation"),),
            value=shown(value),
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


@check(
    Rule(
        id="CFG-PAR-022",
        name="stand-alone-mode-with-devices",
        severity=Severity.WARNING,
        category="parallel-strategy",
        title=Text("parallel_mode {mode} trains every device alone", "parallel_mode {mode} 会让各设备独立训练"),
        why=Text(
            "Stand-alone mode exchanges no gradients: {devices} devices train {devices} separate models.",
            "stand_alone 模式不交换梯度：{devices} 个设备会训练出 {devices} 个互不相关的模型。",
        ),
        fix=Text("Use parallel_mode: 1 (or 0 for data parallel).", "使用 parallel_mode: 1（纯数据并行用 0）。"),
    )
)
@applies(GRAPH, training=True)
def stand_alone_with_devices(plan: Plan) -> Iterator[Finding]:
    parallel = plan.parallel
    devices = plan.devices or parallel.product or 1
    if parallel.mode is ParallelMode.STAND_ALONE and parallel.enabled.on and devices > 1:
        yield stand_alone_with_devices.finding(
            evidence=seen(plan, parallel.mode_value, expected=1),
            fixes=(change(plan, parallel.mode_value, 1),),
            mode=shown(parallel.mode_value),
            devices=devices,
        )
