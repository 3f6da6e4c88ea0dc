"""Batch arithmetic: what one update sees, what overrides what, what must divide."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.config.following import leaves_devices
from doctor.checks.config.judge import (
    GRAPH,
    RUNS,
    applies,
    because,
    change,
    divisors,
    listed,
    multiples,
    near,
    need,
    seen,
    shown,
)
from doctor.finding import Finding, Severity, Text
from doctor.plan.arithmetic import automatic, data_parallel
from doctor.plan.own import DEFAULT_BATCH
from doctor.plan.plan import Dialect, Plan
from doctor.plan.value import Value
from doctor.rule import Rule

_BASE = "mindformers/trainer/base_trainer.py"
_NO_DEVICES = Text("the number of devices is not known; give --devices N", "不知道设备数；请加 --devices N")


@check(
    Rule(
        id="CFG-BAT-001",
        name="batch-size-not-positive",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} is not a whole number above zero", "{key} 不是正整数"),
        why=Text("It counts sequences per device and step.", "它表示每个设备每步的样本数。"),
        fix=Text("Use 1 or more.", "设为 1 或更大的整数。"),
    )
)
@applies(RUNS)
def batch_positive(plan: Plan) -> Iterator[Finding]:
    for value in (plan.batch.per_device, plan.batch.global_size, plan.batch.interleave):
        number = value.number
        if value.given and number is not None and (number < 1 or value.whole is None):
            yield batch_positive.finding(
                because(batch_positive, f"{value.key} is {shown(value)}.", f"{value.key} 为 {shown(value)}。"),
                evidence=seen(plan, value, expected=">= 1"),
                fixes=(change(plan, value, _least(plan, value)),),
                key=value.key,
            )


def _least(plan: Plan, value: Value) -> int:
    """The smallest batch that the devices can share: of a global batch one local batch for each data-parallel part. Of the
    built-in trainer what it takes where nothing is said: a batch of one learns far less in as many steps."""
    if value is not plan.batch.global_size:
        return DEFAULT_BATCH if plan.dialect is Dialect.TRAINER else 1
    return (plan.batch.per_device.count or 1) * (data_parallel(plan) or 1)


@check(
    Rule(
        id="CFG-BAT-002",
        name="dataset-batch-overridden",
        severity=Severity.INFO,
        category="config",
        title=Text(
            "train_dataset.batch_size {ours} is overridden by {theirs}",
            "train_dataset.batch_size {ours} 会被 {theirs} 覆盖",
        ),
        why=Text("runner_config.batch_size wins without a word.", "runner_config.batch_size 优先，且不会提示。"),
        fix=Text("Give both the same value.", "两处取相同的值。"),
        references=(f"{_BASE} _reset_dataset_batch_size",),
    )
)
@applies(GRAPH, training=True)
def dataset_batch(plan: Plan) -> Iterator[Finding]:
    ours, theirs = plan.batch.dataset, plan.batch.per_device
    if ours.given and theirs.given and ours.count and theirs.count and ours.count != theirs.count:
        yield dataset_batch.finding(
            evidence=seen(plan, ours, theirs, expected=theirs.count),
            fixes=(change(plan, ours, theirs.count, safe=True),),
            ours=ours.count,
            theirs=theirs.count,
        )


@check(
    Rule(
        id="CFG-BAT-003",
        name="accumulation-invalid",
        severity=Severity.ERROR,
        category="config",
        title=Text(
            "gradient_accumulation_steps {value} is no whole number above zero",
            "gradient_accumulation_steps {value} 不是正整数",
        ),
        why=Text(
            "MindFormers stops: `gradient_accumulation should be greater or equal than 1`.",
            "MindFormers 会报错：`gradient_accumulation should be greater or equal than 1`。",
        ),
        fix=Text("Use 1 or more.", "设为 1 或更大的整数。"),
        references=(f"{_BASE} _check_grad_accumulation_steps",),
    )
)
@applies(RUNS, training=True)
def accumulation_invalid(plan: Plan) -> Iterator[Finding]:
    value = plan.batch.accumulation
    if value.given and value.number is not None and (value.number < 1 or value.whole is None):
        yield accumulation_invalid.finding(
            evidence=seen(plan, value, expected=">= 1"), fixes=(change(plan, value, 1),), value=shown(value)
        )


@check(
    Rule(
        id="CFG-BAT-004",
        name="accumulation-ignored",
        severity=Severity.WARNING,
        category="config",
        title=Text(
            "gradient_accumulation_steps {steps} is reset to 1", "gradient_accumulation_steps {steps} 会被重置为 1"
        ),
        why=Text(
            "MindFormers accumulates in semi-automatic parallel only: the global batch is {steps} times smaller than planned.",
            "MindFormers 只在半自动并行下支持梯度累积：全局批次会比计划小 {steps} 倍。",
        ),
        fix=Text("Use parallel_mode: 1.", "使用 parallel_mode: 1。"),
        references=(f"{_BASE} _check_grad_accumulation_steps",),
    )
)
@applies(GRAPH, training=True)
def accumulation_ignored(plan: Plan) -> Iterator[Finding]:
    value = plan.batch.accumulation
    if (value.count or 1) > 1 and not automatic(plan) and plan.parallel.mode_value.given:
        yield accumulation_ignored.finding(
            evidence=seen(plan, value, plan.parallel.mode_value, expected=1),
            fixes=(change(plan, plan.parallel.mode_value, 1), change(plan, value, 1)),
            steps=value.count,
        )


@check(
    Rule(
        id="CFG-BAT-005",
        name="global-batch-not-divisible",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text(
            "The global batch is no multiple of data parallel x local batch",
            "全局批次不是 数据并行度 × 本地批次 的整数倍",
        ),
        why=Text(
            "Each update takes a whole number of micro steps on every data-parallel device.",
            "每次更新在每个数据并行设备上执行整数个微步。",
        ),
        fix=Text("Choose a multiple.", "选择其整数倍。"),
        references=("mindformers/pynative/trainer/trainer.py",),
    )
)
@applies((Dialect.PYNATIVE,), training=True)
def global_batch_divisible(plan: Plan) -> Iterator[Finding]:
    local, total = need(plan.batch.per_device, plan.batch.global_size)
    data = data_parallel(plan)
    values = [value for value in (plan.batch.global_size, plan.batch.per_device) if value.given]
    if data is None:
        if total % local:
            yield global_batch_divisible.finding(
                because(
                    global_batch_divisible,
                    f"global_batch_size {total} % local_batch_size {local} = {total % local}.",
                    f"global_batch_size {total} % local_batch_size {local} = {total % local}。",
                ),
                evidence=seen(plan, *values, expected=listed(multiples(local, total))),
                fixes=[change(plan, plan.batch.global_size, option) for option in multiples(local, total)],
            )
            return
        raise Skip(_NO_DEVICES)
    unit = data * local
    if total % unit:
        yield global_batch_divisible.finding(
            because(
                global_batch_divisible,
                f"global_batch_size {total} % (data parallel {data} x local_batch_size {local} = {unit}) = {total % unit}.",
                f"global_batch_size {total} %（数据并行 {data} × local_batch_size {local} = {unit}）= {total % unit}。",
            ),
            evidence=seen(plan, *values, expected=listed(multiples(unit, total))),
            fixes=[change(plan, plan.batch.global_size, option) for option in multiples(unit, total)],
        )


@check(
    Rule(
        id="CFG-BAT-006",
        name="batch-ramp-invalid",
        severity=Severity.ERROR,
        category="config",
        title=Text("rampup_batch_size does not lead to the global batch", "rampup_batch_size 无法到达全局批次"),
        why=Text(
            "It is [start, increment, samples]: whole numbers above zero, the start up to global_batch_size and the difference a multiple of the increment.",
            "格式为 [起始, 增量, 样本数]：均为正整数，起始不超过 global_batch_size，差值为增量的整数倍。",
        ),
        fix=Text("Correct the three numbers.", "修正这三个数。"),
        references=("mindformers/pynative/trainer/dynamic_batch.py",),
    )
)
@applies((Dialect.PYNATIVE,), training=True)
def batch_ramp(plan: Plan) -> Iterator[Finding]:
    value = plan.root.get("training", "rampup_batch_size")
    if not value.given or value.value is None:
        return
    numbers = [item.whole for item in value.sequence]
    total = plan.batch.global_size.count
    text = None
    if len(numbers) != 3 or any(number is None for number in numbers):
        text = Text("It is no list of three whole numbers.", "它不是由三个整数组成的列表。")
    else:
        start, step, samples = (number or 0 for number in numbers)
        if start < 1 or step < 1 or samples < 0:
            text = Text("A number is not above zero.", "存在非正数。")
        elif total and start > total:
            text = Text(
                f"It starts at {start} > global_batch_size {total}.", f"起始 {start} > global_batch_size {total}。"
            )
        elif total and (total - start) % step:
            text = Text(
                f"({total} - {start}) % {step} = {(total - start) % step}.",
                f"({total} − {start}) % {step} = {(total - start) % step}。",
            )
    if text is not None:
        yield batch_ramp.finding(
            because(batch_ramp, text.en, text.zh), evidence=seen(plan, value, plan.batch.global_size)
        )


@check(
    Rule(
        id="CFG-BAT-007",
        name="prediction-batch-not-divisible",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("Data parallel does not divide the prediction batch", "数据并行度不能整除推理批次"),
        why=Text(
            "Text generation gives every data-parallel device the same number of prompts.",
            "文本生成要求每个数据并行设备处理相同数量的输入。",
        ),
        fix=Text("Choose a multiple of data_parallel.", "选择 data_parallel 的整数倍。"),
        references=("mindformers/tools/check_rules.py _rule_bs_divisible_by_dp",),
    )
)
@applies((Dialect.LEGACY,), training=False)
def prediction_batch(plan: Plan) -> Iterator[Finding]:
    if plan.run_mode.words not in {"predict", "eval"}:
        raise Skip(Text("not a prediction", "不是推理任务"))
    value = plan.model.section.get("batch_size")
    size = value.count or (1 if not value.given else None)
    (data,) = need(plan.parallel.data)
    if size and size % data and plan.parallel.enabled.on and value.given:
        yield prediction_batch.finding(
            because(
                prediction_batch,
                f"batch_size {size} % data_parallel {data} = {size % data}.",
                f"batch_size {size} % data_parallel {data} = {size % data}。",
            ),
            evidence=seen(plan, value, plan.parallel.data, expected=listed(multiples(data, size))),
            fixes=[
                *(change(plan, value, option) for option in multiples(data, size)[::-1][:1]),
                *(
                    change(plan, plan.parallel.data, option)
                    for option in near(divisors(size), data, 1)
                    if leaves_devices(plan, plan.parallel.data, option)
                ),
            ],
            severity=Severity.WARNING,
        )


@check(
    Rule(
        id="CFG-BAT-008",
        name="accumulation-beyond-useful",
        severity=Severity.INFO,
        category="performance",
        title=Text("{steps} accumulation steps", "梯度累积 {steps} 步"),
        why=Text(
            "Two to sixteen is the useful range: beyond it an update takes long and gains little.",
            "常用范围为 2 到 16：再多则单次更新变慢而收益有限。",
        ),
        fix=Text(
            "Use a larger batch per device, or recompute to make room for it.", "增大单卡批次，或用重计算腾出显存。"
        ),
    )
)
@applies(RUNS, training=True)
def accumulation_large(plan: Plan) -> Iterator[Finding]:
    value = plan.batch.accumulation
    if value.given and (value.count or 1) > 64 and (plan.parallel.pipeline.count or 1) == 1:
        yield accumulation_large.finding(evidence=seen(plan, value, expected="2 to 16"), steps=value.count)


@check(
    Rule(
        id="CFG-BAT-009",
        name="local-batch-exceeds-global",
        severity=Severity.ERROR,
        category="config",
        title=Text(
            "local_batch_size {local} exceeds global_batch_size {total}",
            "local_batch_size {local} 大于 global_batch_size {total}",
        ),
        why=Text("The global batch is the sum over all devices and micro steps.", "全局批次是所有设备和微步之和。"),
        fix=Text("Raise global_batch_size.", "增大 global_batch_size。"),
    )
)
@applies((Dialect.PYNATIVE,), training=True)
def local_exceeds_global(plan: Plan) -> Iterator[Finding]:
    local, total = need(plan.batch.per_device, plan.batch.global_size)
    if local > total:
        values = [value for value in (plan.batch.per_device, plan.batch.global_size) if value.given]
        yield local_exceeds_global.finding(
            evidence=seen(plan, *values, expected=f"at most {total}"),
            fixes=(change(plan, plan.batch.global_size, local),),
            local=local,
            total=total,
        )
