"""The sizes of parallelism, the modes they need, and the devices they are spread over."""

from __future__ import annotations

import math
from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.config.following import splits_layers, splits_model
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
)
from doctor.finding import Finding, Fix, Severity, Text
from doctor.plan.arithmetic import automatic
from doctor.plan.plan import Dialect, ParallelMode, Plan
from doctor.plan.value import Value
from doctor.rule import Rule

NO_DEVICES = Text("the number of devices is not known; give --devices N", "不知道设备数；请加 --devices N")


_DATA_MODE = Text(
    "parallel_mode does not use these sizes (data or stand-alone)",
    "该 parallel_mode 不使用这些并行度（数据并行或单卡）",
)


def sharded(plan: Plan) -> None:
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
        raise Skip(NO_DEVICES)
    sharded(plan)
    parallel, devices = plan.parallel, plan.devices
    if parallel.section.given and not parallel.section.is_mapping:
        raise Skip(Text("the section of the sizes is no mapping", "并行度所在的配置段不是映射"))
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
        settled = value is values[0] and plan.dialect is Dialect.PYNATIVE
        if devices % rest == 0 and not settled and _fits(plan, value, devices // rest):
            fixes.append(change(plan, value, devices // rest))
    fixes.append(
        advice(
            plan,
            f"Or start on {product} devices.",
            f"或者用 {product} 个设备启动。",
        )
    )
    return fixes[:4]


def _fits(plan: Plan, size: Value, new: int) -> bool:
    """Whether the model can be cut so."""
    parallel = plan.parallel
    if size is parallel.tensor:
        return splits_model(plan, new, devices=False)
    if size is parallel.pipeline:
        return splits_layers(plan, new, devices=False)
    length = plan.model.sequence.count
    return size is not parallel.context or (size.given and (length is None or length % new == 0))


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
            # Data parallel alone is written into parallel_config by habit; the other sizes are meant.
            severity=Severity.WARNING if {parallel.tensor, parallel.pipeline} & set(wasted) else None,
            mode=shown(parallel.mode_value),
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
                fixes=(change(plan, value, _smallest(plan, value)),),
            )


def _smallest(plan: Plan, value: Value) -> int:
    """The least that a size can be: micro batches fill the stages, data parallel takes the devices that are left."""
    parallel = plan.parallel
    if value is parallel.micro_batches:
        return parallel.stages
    rest = math.prod(size.count or 1 for size in parallel.sizes[1:])
    spare = value is parallel.data and plan.devices is not None and plan.devices % rest == 0
    return (plan.devices or 1) // rest if spare else 1


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
        raise Skip(NO_DEVICES)
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
            severity=Severity.WARNING if plan.dialect is Dialect.MCORE else None,
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
