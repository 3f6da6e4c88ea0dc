"""Data sets: where they are, how they are split over devices, read and sunk."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.config.following import leaves_devices
from doctor.checks.config.judge import (
    GRAPH,
    RUNS,
    advice,
    applies,
    because,
    change,
    need,
    seen,
    shown,
)
from doctor.finding import Finding, Severity, Text
from doctor.plan.arithmetic import automatic
from doctor.plan.plan import Dialect, Plan
from doctor.plan.value import Value
from doctor.rule import Rule

BASE_TRAINER = "mindformers/trainer/base_trainer.py"


#: texts that stand for a path that the user must fill in
PLACEHOLDER = re.compile(
    r"(^|[/\\{<])(your|path[_-]?to|path/to|/path|\{path\}|xxx+|yourpath|your-path|path)([/\\}> _.-]|$)|^/?path/|\{\w+\}|<\w+>|^xxx",
    re.IGNORECASE,
)


@check(
    Rule(
        id="CFG-DAT-001",
        name="strategy-length-mismatch",
        severity=Severity.ERROR,
        category="dataset",
        title=Text(
            "dataset_strategy has {strategies} entries for {columns} columns",
            "dataset_strategy 有 {strategies} 项，而数据列有 {columns} 列",
        ),
        why=Text(
            "Each column of the data needs one entry: `The input shapes size ... is not equal to dataset strategy size`.",
            "每个数据列对应一项：`The input shapes size ... is not equal to dataset strategy size`。",
        ),
        fix=Text("Write one entry a column.", "每列写一项。"),
        references=("mindspore/parallel/_utils.py",),
    )
)
@applies(GRAPH, training=True)
def strategy_length(plan: Plan) -> Iterator[Finding]:
    strategy, columns = _strategy(plan), plan.data.columns
    if not columns.is_sequence:
        raise Skip(Text("the columns are not in the file", "文件中没有数据列"))
    entries, names = len(strategy.sequence), len(columns.sequence)
    if entries != names:
        yield strategy_length.finding(
            evidence=seen(plan, strategy, columns, expected=f"{names} entries"), strategies=entries, columns=names
        )


def _strategy(plan: Plan) -> Value:
    """A dataset strategy that is in use. Raises Skip otherwise."""
    strategy = plan.parallel.dataset_strategy
    if not strategy.is_sequence or not automatic(plan):
        raise Skip(Text("no dataset_strategy list", "没有 dataset_strategy 列表"))
    return strategy


@check(
    Rule(
        id="CFG-DAT-002",
        name="strategy-differs-from-data-parallel",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text(
            "dataset_strategy splits the batch by {theirs}, data_parallel is {ours}",
            "dataset_strategy 按 {theirs} 切分批次，而 data_parallel 为 {ours}",
        ),
        why=Text(
            "MindFormers requires dataset_strategy[0][0] to equal data_parallel when full_batch is off.",
            "full_batch 关闭时，MindFormers 要求 dataset_strategy[0][0] 等于 data_parallel。",
        ),
        fix=Text(
            "Use data_parallel in every entry (an anchor helps: &dp, *dp).",
            "每项都使用 data_parallel（可用锚点 &dp、*dp）。",
        ),
        references=(f"{BASE_TRAINER} _check_global_batch_size_for_auto_parallel",),
    )
)
@applies(GRAPH, training=True)
def strategy_data_parallel(plan: Plan) -> Iterator[Finding]:
    strategy = _strategy(plan)
    if plan.parallel.full_batch.on:
        raise Skip(Text("full_batch is on", "full_batch 已开启"))
    (ours,) = need(plan.parallel.data)
    for entry in strategy.sequence:
        if not entry.sequence:
            continue
        first = entry.sequence[0]
        if first.whole is not None and first.whole != ours:
            fits = first.count is not None and leaves_devices(plan, plan.parallel.data, first.count)
            other = (change(plan, plan.parallel.data, first.whole),) if fits else ()
            yield strategy_data_parallel.finding(
                evidence=(*seen(plan, first, plan.parallel.data, expected=ours), *seen(plan, strategy)),
                fixes=(change(plan, first, ours), *other),
                theirs=first.whole,
                ours=ours,
            )
            return


@check(
    Rule(
        id="CFG-DAT-003",
        name="strategy-missing",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("full_batch is off and there is no dataset_strategy", "full_batch 关闭但没有 dataset_strategy"),
        why=Text(
            "Each device then reads its own part and MindSpore must be told how the columns are split: `dataset_strategy must be set as 'tuple'`.",
            "此时每个设备读取各自的数据，必须说明各列如何切分：`dataset_strategy must be set as 'tuple'`。",
        ),
        fix=Text(
            "Set full_batch: True, or give dataset_strategy: [[dp, 1], …].",
            "设置 full_batch: True，或给出 dataset_strategy: [[dp, 1], …]。",
        ),
        references=(f"{BASE_TRAINER} _check_global_batch_size_for_auto_parallel",),
    )
)
@applies(GRAPH, training=True)
def strategy_missing(plan: Plan) -> Iterator[Finding]:
    full, strategy = plan.parallel.full_batch, plan.parallel.dataset_strategy
    if full.value is not False or not full.given or not automatic(plan) or not plan.parallel.mode_value.given:
        return
    megatron = "Megatron" in plan.data.loader_type.words or plan.data.loader_type.words == "HFDataLoader"
    if strategy.given or megatron or not plan.parallel.enabled.on:
        return
    yield strategy_missing.finding(
        evidence=seen(plan, full, expected="True, or a dataset_strategy"),
        fixes=(change(plan, full, True),),
        severity=None if plan.release.certain and plan.release.since("1.3.0") else Severity.WARNING,
    )


@check(
    Rule(
        id="CFG-DAT-004",
        name="strategy-entry-invalid",
        severity=Severity.ERROR,
        category="dataset",
        title=Text(
            "An entry of dataset_strategy is no list of whole numbers above zero",
            "dataset_strategy 的某项不是正整数列表",
        ),
        why=Text(
            "Each entry says into how many parts each dimension of a column is cut: [dp, 1].",
            "每项表示该列各维的切分份数：[dp, 1]。",
        ),
        fix=Text("Write [dp, 1] for two dimensions.", "二维数据写成 [dp, 1]。"),
    )
)
@applies(GRAPH, training=True)
def strategy_entry(plan: Plan) -> Iterator[Finding]:
    strategy = plan.parallel.dataset_strategy
    for entry in strategy.sequence:
        numbers = [item.count for item in entry.sequence]
        if not numbers or None in numbers:
            yield strategy_entry.finding(evidence=seen(plan, entry, strategy, expected="[dp, 1]"))


_WORKERS_FEW, _WORKERS_MANY = 2, 64


@check(
    Rule(
        id="CFG-DAT-005",
        name="workers-not-positive",
        severity=Severity.ERROR,
        category="dataset",
        title=Text(
            "num_parallel_workers {value} is no whole number above zero", "num_parallel_workers {value} 不是正整数"
        ),
        why=Text("It counts the threads or processes that read data.", "它表示读取数据的线程或进程数。"),
        fix=Text("Use 8 (16 on a large host).", "使用 8（大主机用 16）。"),
    )
)
@applies(RUNS)
def workers_positive(plan: Plan) -> Iterator[Finding]:
    for value in (
        plan.data.workers,
        plan.root.get("eval_dataset", "num_parallel_workers"),
        plan.data.loader.get("num_parallel_workers"),
    ):
        if value.given and value.number is not None and (value.number < 1 or value.whole is None):
            yield workers_positive.finding(
                evidence=seen(plan, value, expected=">= 1"),
                fixes=(change(plan, value, 8, safe=True),),
                value=shown(value),
            )


@check(
    Rule(
        id="CFG-DAT-006",
        name="workers-out-of-proportion",
        severity=Severity.WARNING,
        category="performance",
        title=Text("num_parallel_workers {value}", "num_parallel_workers 为 {value}"),
        why=Text(
            "8 to 16 feed a 910B host; more than the cores stalls every worker (32 on 16 cores looked like a hang, 12 cured it).",
            "910B 主机用 8 到 16 个；超过核数会互相拖慢（16 核上开 32 个看似卡死，改为 12 个恢复正常）。",
        ),
        fix=Text("Stay at or below the cores of the host.", "不要超过主机核数。"),
    )
)
@applies(RUNS, training=True)
def workers_many(plan: Plan) -> Iterator[Finding]:
    value = plan.data.workers
    if value.given and (value.count or 8) > _WORKERS_MANY // 2:
        yield workers_many.finding(
            evidence=seen(plan, value, expected="8 to 16"),
            fixes=(change(plan, value, 16, safe=True),),
            value=shown(value),
        )


@check(
    Rule(
        id="CFG-DAT-007",
        name="workers-too-few",
        severity=Severity.INFO,
        category="performance",
        title=Text(
            "num_parallel_workers {value} may starve the device", "num_parallel_workers 为 {value}，可能供不上数据"
        ),
        why=Text(
            "Two workers leave a 910B waiting for data; 8 or more are usual.",
            "2 个 worker 会让 910B 等数据，常用 8 个以上。",
        ),
        fix=Text("Use 8, as long as the host has the cores.", "核数足够时使用 8。"),
    )
)
@applies(RUNS, training=True)
def workers_few(plan: Plan) -> Iterator[Finding]:
    value = plan.data.workers
    if value.given and value.count and value.count <= _WORKERS_FEW:
        yield workers_few.finding(
            evidence=seen(plan, value, expected=">= 8"), fixes=(change(plan, value, 8, safe=True),), value=value.count
        )


@check(
    Rule(
        id="CFG-DAT-008",
        name="data-path-is-a-placeholder",
        severity=Severity.INFO,
        category="dataset",
        title=Text("The data path is not filled in: {value}", "数据路径尚未填写：{value}"),
        why=Text("The run stops when it opens the data.", "打开数据时会报错退出。"),
        fix=Text("Set the path, or pass --train_dataset_dir.", "填写路径，或启动时加 --train_dataset_dir。"),
    )
)
@applies(RUNS, training=True)
def data_placeholder(plan: Plan) -> Iterator[Finding]:
    for value in _paths(plan):
        if value.text is not None and PLACEHOLDER.search(value.words):
            yield data_placeholder.finding(evidence=seen(plan, value, expected="a path of yours"), value=shown(value))
            return


def _paths(plan: Plan) -> Iterator[Value]:
    for value in (plan.data.path, plan.data.loader.get("config", "data_path"), plan.data.loader.get("path")):
        if value.is_sequence:
            yield from value.sequence
        elif value.given:
            yield value


@check(
    Rule(
        id="CFG-DAT-009",
        name="generation-lengths-do-not-add-up",
        severity=Severity.WARNING,
        category="shape",
        title=Text("Source and target lengths do not add up to seq_length", "源长度与目标长度之和与 seq_length 不符"),
        why=Text(
            "ADGenDataLoader builds rows of max_source_length + max_target_length + 1 for training (max_source_length for evaluation); check_rules asks for it.",
            "ADGenDataLoader 训练时每行长度为 max_source_length + max_target_length + 1（评测为 max_source_length），MindFormers 有对应的检查。",
        ),
        fix=Text("Change one of the lengths.", "修改其中一个长度。"),
        references=("mindformers/tools/check_rules.py _check_keyword_gen_dataset",),
    )
)
@applies((Dialect.LEGACY,))
def generation_lengths(plan: Plan) -> Iterator[Finding]:
    metrics = [item.get("type").words for item in (plan.root.get("metric").sequence or (plan.root.get("metric"),))]
    names = ["train_dataset"] if plan.trains else ["eval_dataset"]
    if plan.trains and plan.root.get("do_eval").on:
        names.append("eval_dataset")
    sections = [plan.root.get(name) for name in names]
    sections = [item for item in sections if item.get("data_loader", "type").words == "ADGenDataLoader"]
    if not sections or not any(metrics):
        raise Skip(Text("not an ADGenDataLoader with a metric", "不是带 metric 的 ADGenDataLoader"))
    if plan.model.family == "glm":
        raise Skip(Text("ChatGLM-6B pads its rows to seq_length itself", "ChatGLM-6B 会自行补齐到 seq_length"))
    for section in sections:
        whole = section.key == "train_dataset" or "PerplexityMetric" in metrics
        if whole or "ADGENMetric" in metrics:
            yield from _generation_lengths(plan, section, whole)


def _generation_lengths(plan: Plan, section: Value, whole: bool) -> Iterator[Finding]:
    """`whole`: the rows hold source, target and one more; else the source alone."""
    source, target, length = section.get("max_source_length"), section.get("max_target_length"), plan.model.sequence
    first, second, total = need(source, target, length)
    expected = first + second + 1 if whole else first
    if expected == total:
        return
    equation = f"{first} + {second} + 1 = {expected}" if whole else f"{first}"
    yield generation_lengths.finding(
        because(
            generation_lengths, f"{equation}, but seq_length is {total}.", f"{equation}，而 seq_length 为 {total}。"
        ),
        evidence=seen(plan, source, target, length, expected=f"seq_length {expected}"),
        severity=None if section.key == "train_dataset" else Severity.INFO,
        fixes=(change(plan, length, expected),),
    )


@check(
    Rule(
        id="CFG-DAT-010",
        name="sink-size-invalid",
        severity=Severity.ERROR,
        category="config",
        title=Text("sink_size {value} is neither -1 nor above zero", "sink_size {value} 既不是 -1 也不大于 0"),
        why=Text(
            "MindFormers stops: `per epoch size must be more than 0 or equal to -1`.",
            "MindFormers 会报错：`per epoch size must be more than 0 or equal to -1`。",
        ),
        fix=Text("Use 1.", "使用 1。"),
        references=("mindformers/trainer/utils.py check_runner_config",),
    )
)
@applies(GRAPH, training=True)
def sink_size(plan: Plan) -> Iterator[Finding]:
    for value in (plan.data.sink_size, plan.root.get("runner_config", "per_epoch_size")):
        off = value.name == "sink_size" and plan.data.sink_mode.value is False
        if value.given and value.whole is not None and value.whole < 1 and value.whole != -1 and not off:
            lenient = value.name != "sink_size"
            yield sink_size.finding(
                evidence=seen(plan, value, expected="1, or -1"),
                fixes=(change(plan, value, 1),),
                severity=Severity.INFO if lenient else None,
                value=value.whole,
            )


@check(
    Rule(
        id="CFG-DAT-011",
        name="sink-size-without-sink-mode",
        severity=Severity.INFO,
        category="config",
        title=Text("sink_size has no effect with sink_mode False", "sink_mode 为 False 时 sink_size 不生效"),
        why=Text("MindFormers resets it to -1 with a warning.", "MindFormers 会打 warning 并重置为 -1。"),
        fix=Text("Remove sink_size, or set sink_mode: True.", "删除 sink_size，或设置 sink_mode: True。"),
        references=("mindformers/trainer/utils.py check_runner_config",),
    )
)
@applies(GRAPH, training=True)
def sink_without_mode(plan: Plan) -> Iterator[Finding]:
    size, mode = plan.data.sink_size, plan.data.sink_mode
    if size.given and mode.value is False and size.whole not in (-1, None):
        yield sink_without_mode.finding(evidence=seen(plan, size, mode, expected="sink_mode: True"))


@check(
    Rule(
        id="CFG-DAT-020",
        name="last-batch-kept",
        severity=Severity.INFO,
        category="dataset",
        title=Text("drop_remainder is False in training", "训练时 drop_remainder 为 False"),
        why=Text(
            "The last batch of an epoch is smaller: in graph mode another shape compiles again or does not fit the strategy.",
            "每轮最后一个批次较小：图模式下形状变化会重新编译，或与切分策略不符。",
        ),
        fix=Text("Set drop_remainder: True.", "设置 drop_remainder: True。"),
    )
)
@applies(RUNS, training=True)
def remainder_kept(plan: Plan) -> Iterator[Finding]:
    value = plan.data.drop_remainder
    if value.value is False and value.given and plan.run_mode.words in {"train", "finetune"}:
        yield remainder_kept.finding(evidence=seen(plan, value, expected=True), fixes=(change(plan, value, True),))


@check(
    Rule(
        id="CFG-DAT-021",
        name="data-file-not-there",
        severity=Severity.WARNING,
        category="dataset",
        title=Text("{path} is not on this machine", "本机没有 {path}"),
        why=Text(
            "The run stops when it opens the data; check the path on the machine that trains.",
            "打开数据时会报错；请在训练机器上核对路径。",
        ),
        fix=Text("Correct the path.", "改正路径。"),
    )
)
@applies(RUNS, training=True)
def data_missing(plan: Plan) -> Iterator[Finding]:
    from doctor.checks.config.judge import same_file

    for value in _paths(plan):
        word = value.words
        if not word.startswith(("./", "../", "~/")) or PLACEHOLDER.search(word):
            continue
        if plan.dialect is not Dialect.TRAINER:
            continue
        if not same_file(plan, word).exists():
            yield data_missing.finding(
                evidence=seen(plan, value, expected="an existing path"),
                fixes=(advice(plan, f"ls -l {word}", f"ls -l {word}"),),
                path=shown(value),
            )
