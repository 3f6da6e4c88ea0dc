"""MindSpore's context: mode, device, memory, compile level."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.config.judge import GRAPH, MINDFORMERS, RUNS, applies, because, change, listed, seen, shown
from doctor.checks.config.precision import gigabytes
from doctor.finding import Finding, Severity, Text
from doctor.plan.plan import Dialect, ParallelMode, Plan
from doctor.rule import Rule

_CONTEXT = "mindformers/core/context/build_context.py"


@check(
    Rule(
        id="CFG-CTX-001",
        name="mode-unknown",
        severity=Severity.ERROR,
        category="config",
        title=Text("context.mode {value} does not exist", "不存在的 context.mode：{value}"),
        why=Text(
            "Modes are 0 (graph) and 1 (PyNative), or their names.", "模式为 0（图模式）和 1（PyNative），或其名称。"
        ),
        fix=Text("Use 0.", "使用 0。"),
        references=("mindformers/core/context/validators.py validate_ms_ctx_mode",),
    )
)
@applies(RUNS)
def mode_unknown(plan: Plan) -> Iterator[Finding]:
    value = plan.context.mode
    known: tuple[object, ...] = (0, 1, "GRAPH_MODE", "PYNATIVE_MODE")
    if plan.dialect is Dialect.TRAINER:
        known = (*known, "graph", "pynative", "0", "1")
    if value.given and value.value is not None and (value.flag is not None or value.value not in known):
        new = 1 if plan.dialect is Dialect.PYNATIVE else 0
        yield mode_unknown.finding(
            evidence=seen(plan, value, expected="0 or 1"), fixes=(change(plan, value, new),), value=shown(value)
        )


@check(
    Rule(
        id="CFG-CTX-002",
        name="device-target-unknown",
        severity=Severity.ERROR,
        category="config",
        title=Text("device_target {value} does not exist", "不存在的 device_target：{value}"),
        why=Text(
            "Targets are Ascend, GPU and CPU, spelt so; MindFormers trains on Ascend.",
            "目标为 Ascend、GPU、CPU（大小写如此）；MindFormers 在 Ascend 上训练。",
        ),
        fix=Text("Use Ascend.", "使用 Ascend。"),
    )
)
@applies(RUNS)
def target_unknown(plan: Plan) -> Iterator[Finding]:
    value = plan.context.device_target
    known = {"Ascend", "GPU", "CPU", "auto"} if plan.dialect is Dialect.TRAINER else {"Ascend", "GPU", "CPU"}
    if value.given and value.value is not None and value.text not in known:
        new = {"ascend": "Ascend", "npu": "Ascend", "gpu": "GPU", "cpu": "CPU", "cuda": "GPU"}.get(
            value.words.lower(), "Ascend"
        )
        yield target_unknown.finding(
            evidence=seen(plan, value, expected=new), fixes=(change(plan, value, new),), value=shown(value)
        )


@check(
    Rule(
        id="CFG-CTX-003",
        name="device-target-not-ascend",
        severity=Severity.INFO,
        category="config",
        title=Text("device_target is {value}", "device_target 为 {value}"),
        why=Text(
            "MindFormers' fused attention and communication are written for Ascend; large models do not run elsewhere.",
            "MindFormers 的融合注意力与通信面向昇腾，大模型无法在其他后端运行。",
        ),
        fix=Text("Use Ascend.", "使用 Ascend。"),
    )
)
@applies(MINDFORMERS)
def target_other(plan: Plan) -> Iterator[Finding]:
    value = plan.context.device_target
    if value.words in {"GPU", "CPU"}:
        yield target_other.finding(
            evidence=seen(plan, value, expected="Ascend"), fixes=(change(plan, value, "Ascend"),), value=value.words
        )


@check(
    Rule(
        id="CFG-CTX-004",
        name="device-id-negative",
        severity=Severity.ERROR,
        category="config",
        title=Text("device_id {value} is no device", "device_id {value} 不是设备号"),
        why=Text("Devices are numbered from 0.", "设备号从 0 开始。"),
        fix=Text("Use 0.", "使用 0。"),
    )
)
@applies(RUNS)
def device_id(plan: Plan) -> Iterator[Finding]:
    value = plan.context.device_id
    if value.given and value.number is not None and (value.number < 0 or value.whole is None or value.number > 4095):
        yield device_id.finding(
            evidence=seen(plan, value, expected=">= 0"), fixes=(change(plan, value, 0),), value=shown(value)
        )


#: of one server: 8 as a rule, 16 in an Atlas 800T A3 or 900 A3 SuperPoD node
_MOST_DEVICES = 16


@check(
    Rule(
        id="CFG-CTX-021",
        name="device-id-beyond-server",
        severity=Severity.ERROR,
        category="config",
        title=Text("No server has a device {value}", "单台服务器没有 {value} 号设备"),
        why=Text(
            "Devices are numbered from 0 on each server, which holds 8 or 16: setting the device fails. With "
            "use_parallel the launcher gives each process its device and this number is passed over.",
            "设备号在每台服务器上从 0 编号，单机 8 或 16 个设备，设置设备时会失败；use_parallel 时由启动器分配设备，该值不起作用。",
        ),
        fix=Text("Use 0, or the number that npu-smi info shows.", "使用 0，或 npu-smi info 中显示的设备号。"),
    )
)
@applies(RUNS)
def device_beyond(plan: Plan) -> Iterator[Finding]:
    value = plan.context.device_id
    if value.whole is not None and _MOST_DEVICES <= value.whole <= 4095:
        yield device_beyond.finding(
            evidence=seen(plan, value, expected=f"0 to {_MOST_DEVICES - 1}"),
            fixes=(change(plan, value, 0),),
            severity=Severity.WARNING if plan.parallel.enabled.on else None,
            value=shown(value),
        )


_MEMORY = re.compile(r"\d+(\.\d+)?GB")


@check(
    Rule(
        id="CFG-CTX-005",
        name="memory-size-malformed",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} {value} is no size", "{key} {value} 不是合法的大小"),
        why=Text(
            'MindSpore reads a number directly followed by GB: "58GB"; anything else is refused.',
            'MindSpore 只识别数字后紧跟 GB 的写法："58GB"，其他写法会报错。',
        ),
        fix=Text('Write "58GB".', '写成 "58GB"。'),
        references=("mindspore.set_context max_device_memory",),
    )
)
@applies(MINDFORMERS)
def memory_size(plan: Plan) -> Iterator[Finding]:
    for value in (
        plan.context.max_memory,
        plan.context.section.get("mempool_block_size"),
        plan.context.section.get("variable_memory_max_size"),
    ):
        if value.given and value.text is not None and not _MEMORY.fullmatch(value.words):
            digits = re.search(r"\d+(\.\d+)?", value.words)
            new = f"{digits.group(0)}GB" if digits else "58GB"
            yield memory_size.finding(
                evidence=seen(plan, value, expected=new),
                fixes=(change(plan, value, new),),
                key=value.key,
                value=shown(value),
            )
        elif value.given and value.number is not None:
            new = f"{value.number:g}GB"
            yield memory_size.finding(
                evidence=seen(plan, value, expected=new),
                fixes=(change(plan, value, new),),
                key=value.key,
                value=shown(value),
            )


@check(
    Rule(
        id="CFG-CTX-006",
        name="memory-beyond-device",
        severity=Severity.ERROR,
        category="oom-device",
        title=Text(
            "{key} asks for {asked:g} GB, the device has {have:g} GB", "{key} 要求 {asked:g} GB，而设备只有 {have:g} GB"
        ),
        why=Text(
            "Driver and communication keep 3 to 4 GB from the start: the pool cannot be as large as the card.",
            "驱动与通信开局就占 3 到 4 GB，内存池不能与整卡一样大。",
        ),
        fix=Text("Leave 5 GB: 58GB on a 64 GB card.", "预留约 5 GB：64 GB 卡用 58GB。"),
    )
)
@applies(MINDFORMERS)
def memory_beyond(plan: Plan) -> Iterator[Finding]:
    value = plan.context.max_memory
    asked = gigabytes(value)
    if asked is None:
        raise Skip(Text("max_device_memory is not in the file", "文件中没有 max_device_memory"))
    have = plan.device_memory / 2**30 if plan.device_memory else None
    limit = have if have is not None else 64.0
    plain = asked >= 1000
    if asked > limit - 1 and not plain:
        yield memory_beyond.finding(
            evidence=seen(plan, value, expected=f"{max(limit - 6, 1):g}GB"),
            fixes=(change(plan, value, f"{max(limit - 6, 1):g}GB"),),
            severity=None if have is not None or asked > 128 else Severity.WARNING,
            key=value.name,
            asked=asked,
            have=limit,
        )
    elif asked < 1:
        yield memory_beyond.finding(
            Text(
                f"{value.key} {value.words} leaves no memory to train in.",
                f"{value.key} {value.words} 没有可用于训练的显存。",
            ),
            evidence=seen(plan, value, expected="58GB"),
            fixes=(change(plan, value, "58GB"),),
            key=value.name,
            asked=asked,
            have=limit,
        )


@check(
    Rule(
        id="CFG-CTX-007",
        name="memory-block-beyond-pool",
        severity=Severity.WARNING,
        category="oom-device",
        title=Text(
            "mempool_block_size {block} is larger than max_device_memory {pool}",
            "mempool_block_size {block} 大于 max_device_memory {pool}",
        ),
        why=Text("A block of the pool cannot be larger than the pool.", "内存池的块不能大于内存池。"),
        fix=Text("Use the size of the pool or 1GB.", "使用内存池大小或 1GB。"),
    )
)
@applies(MINDFORMERS)
def block_beyond(plan: Plan) -> Iterator[Finding]:
    value = plan.context.section.get("mempool_block_size")
    block, pool = gigabytes(value), gigabytes(plan.context.max_memory)
    if block is not None and pool is not None and block > pool:
        yield block_beyond.finding(
            evidence=seen(plan, value, plan.context.max_memory, expected=plan.context.max_memory.words),
            fixes=(change(plan, value, plan.context.max_memory.words),),
            severity=Severity.WARNING if block > pool + 2 else Severity.INFO,
            block=value.words,
            pool=plan.context.max_memory.words,
        )


@check(
    Rule(
        id="CFG-CTX-009",
        name="compile-level-unknown",
        severity=Severity.ERROR,
        category="config",
        title=Text("jit_level {value} does not exist", "不存在的 jit_level：{value}"),
        why=Text("Levels are O0, O1 and O2.", "级别为 O0、O1、O2。"),
        fix=Text("Use O0 or O1.", "使用 O0 或 O1。"),
        references=("mindspore.set_context jit_config",),
    )
)
@applies(RUNS)
def level_unknown(plan: Plan) -> Iterator[Finding]:
    value = plan.context.jit_level
    if value.given and value.value is not None and value.value not in ("O0", "O1", "O2", "", "O3"):
        upper = value.words.upper().replace("0O", "O0")
        new = upper if upper in {"O0", "O1", "O2"} else "O0"
        yield level_unknown.finding(
            evidence=seen(plan, value, expected="O0, O1 or O2"), fixes=(change(plan, value, new),), value=shown(value)
        )


@check(
    Rule(
        id="CFG-CTX-010",
        name="compile-level-for-prediction",
        severity=Severity.ERROR,
        category="config",
        title=Text("jit_level {value} is not for prediction", "推理不支持 jit_level {value}"),
        why=Text(
            "MindFormers refuses O1 in prediction, and O2 while infer_boost is on.",
            "推理时 MindFormers 不支持 O1；infer_boost 打开时也不支持 O2。",
        ),
        fix=Text("Use O0.", "使用 O0。"),
        references=(f"{_CONTEXT} _set_predict_jit_config",),
    )
)
@applies(GRAPH, training=False, since="1.5.0")
def level_prediction(plan: Plan) -> Iterator[Finding]:
    value = plan.context.jit_level
    if plan.run_mode.words not in {"predict", "eval"}:
        return
    boost = plan.context.section.get("infer_boost")
    inner = plan.context.section.get("jit_config", "infer_boost")
    boosted = (inner if inner.given else boost).or_default("on").value in ("on", True)
    if value.words == "O1" or (value.words == "O2" and boosted):
        yield level_prediction.finding(
            evidence=seen(plan, value, plan.run_mode, expected="O0"),
            fixes=(change(plan, value, "O0"),),
            severity=None if plan.release.certain or plan.dialect is Dialect.MCORE else Severity.WARNING,
            value=value.words,
        )


@check(
    Rule(
        id="CFG-CTX-011",
        name="memory-level-unknown",
        severity=Severity.ERROR,
        category="config",
        title=Text("memory_optimize_level {value} does not exist", "不存在的 memory_optimize_level：{value}"),
        why=Text("Levels are O0 and O1.", "级别为 O0 和 O1。"),
        fix=Text("Use O0.", "使用 O0。"),
    )
)
@applies(MINDFORMERS)
def memory_level(plan: Plan) -> Iterator[Finding]:
    value = plan.context.section.get("memory_optimize_level")
    if value.given and value.value is not None and value.value not in ("O0", "O1"):
        yield memory_level.finding(
            evidence=seen(plan, value, expected="O0 or O1"), fixes=(change(plan, value, "O0"),), value=shown(value)
        )


@check(
    Rule(
        id="CFG-CTX-012",
        name="graph-trainer-in-pynative-mode",
        severity=Severity.WARNING,
        category="performance",
        title=Text("context.mode 1 with the graph trainer", "图模式训练器使用了 context.mode 1"),
        why=Text(
            "Semi-automatic parallel shards a graph: in PyNative mode it does not work, and a single device runs several times slower.",
            "半自动并行切分的是计算图：PyNative 模式下不可用，单卡也会慢数倍。",
        ),
        fix=Text("Set mode: 0.", "设置 mode: 0。"),
    )
)
@applies(GRAPH, training=True)
def pynative_mode(plan: Plan) -> Iterator[Finding]:
    value = plan.context.mode
    if value.given and value.value in (1, "PYNATIVE_MODE") and value.flag is None:
        sharded = plan.parallel.mode in (ParallelMode.SEMI_AUTO, ParallelMode.AUTO) and plan.parallel.distributed
        yield pynative_mode.finding(
            evidence=seen(plan, value, expected=0),
            fixes=(change(plan, value, 0),),
            severity=None if sharded else Severity.INFO,
        )


@check(
    Rule(
        id="CFG-CTX-017",
        name="infer-boost-not-quoted",
        severity=Severity.ERROR,
        category="config",
        title=Text("infer_boost must be the text 'on' or 'off'", "infer_boost 必须是字符串 'on' 或 'off'"),
        why=Text(
            "YAML turns a bare on or off into a boolean, which MindSpore refuses.",
            "YAML 会把不加引号的 on/off 变成布尔值，MindSpore 会拒绝。",
        ),
        fix=Text('Write infer_boost: "on".', '写成 infer_boost: "on"。'),
    )
)
@applies(GRAPH)
def infer_boost(plan: Plan) -> Iterator[Finding]:
    for value in (plan.context.section.get("infer_boost"), plan.context.section.get("jit_config", "infer_boost")):
        if value.given and value.value is not None and value.value not in ("on", "off"):
            new = "on" if value.on else "off"
            yield infer_boost.finding(
                because(infer_boost, f"{value.key} is {shown(value)}.", f"{value.key} 为 {shown(value)}。"),
                evidence=seen(plan, value, expected="'on' or 'off'"),
                fixes=(change(plan, value, new, safe=True),),
            )


@check(
    Rule(
        id="CFG-CTX-019",
        name="pynative-context-mode",
        severity=Severity.ERROR,
        category="config",
        title=Text("context.mode 0 in a PyNative config", "PyNative 配置中 context.mode 为 0"),
        why=Text(
            "The PyNative trainer runs operator by operator: mode is 1.", "PyNative 训练器逐算子执行：mode 应为 1。"
        ),
        fix=Text("Set mode: 1.", "设置 mode: 1。"),
    )
)
@applies((Dialect.PYNATIVE,))
def graph_mode_in_pynative(plan: Plan) -> Iterator[Finding]:
    value = plan.context.mode
    if value.given and value.value in (0, "GRAPH_MODE") and value.flag is None:
        yield graph_mode_in_pynative.finding(evidence=seen(plan, value, expected=1), fixes=(change(plan, value, 1),))


@check(
    Rule(
        id="CFG-CTX-020",
        name="pynative-choice-unknown",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} {value} does not exist", "不存在的 {key}：{value}"),
        why=Text("PyNative knows: {known}.", "PyNative 支持：{known}。"),
        fix=Text("Use one of them.", "使用其中之一。"),
        references=("mindformers/pynative/config/config.py ParallelismConfig",),
    )
)
@applies((Dialect.PYNATIVE,))
def pynative_choice(plan: Plan) -> Iterator[Finding]:
    section = plan.parallel.section
    choices = (
        ("reshard_after_forward_policy", ("default", "always", "never")),
        ("context_parallel_mask_type", ("causal",)),
        ("pipeline_parallel_p2p_transport", ("auto", "plain", "batch")),
        ("data_parallel_shard_strategy", ("optim_grads_params", "optim_grads", "optim")),
    )
    for name, known in choices:
        value = section.get(name)
        if value.given and value.text is not None and value.words not in known:
            yield pynative_choice.finding(
                evidence=seen(plan, value, expected=listed(known)),
                fixes=(change(plan, value, known[0]),),
                key=name,
                value=shown(value),
                known=listed(known),
            )
