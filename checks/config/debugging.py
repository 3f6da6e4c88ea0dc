"""Switches of debugging and profiling that slow a run down when they are left on."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import check
from doctor.checks.config.judge import GRAPH, MINDFORMERS, applies, change, seen, shown
from doctor.finding import Finding, Severity, Text
from doctor.plan.plan import Plan
from doctor.rule import Rule


@check(
    Rule(
        id="CFG-CTX-008",
        name="graphs-are-saved",
        severity=Severity.WARNING,
        category="performance",
        title=Text("save_graphs is on", "打开了 save_graphs"),
        why=Text(
            "Every compilation writes hundreds of graph files: slow start, gigabytes of disk.",
            "每次编译会写出大量图文件：启动慢，占用磁盘。",
        ),
        fix=Text("Set save_graphs: False.", "设置 save_graphs: False。"),
    )
)
@applies(GRAPH)
def graphs_saved(plan: Plan) -> Iterator[Finding]:
    value = plan.context.save_graphs
    level = value.whole
    if level is not None and not 0 <= level <= 3:
        yield graphs_saved.finding(
            Text(f"The levels are 0 to 3, not {level}.", f"级别为 0 到 3，不是 {level}。"),
            evidence=seen(plan, value, expected=False),
            fixes=(change(plan, value, False),),
            severity=Severity.ERROR,
        )
    elif value.on or (level or 0) > 0:
        yield graphs_saved.finding(
            evidence=seen(plan, value, expected=False), fixes=(change(plan, value, False, safe=True),)
        )


@check(
    Rule(
        id="CFG-CTX-013",
        name="profiling-left-on",
        severity=Severity.WARNING,
        category="performance",
        title=Text("Profiling is on", "打开了性能分析（profile）"),
        why=Text(
            "The profiler slows the steps it records and writes gigabytes; it belongs to a short run.",
            "profiler 会拖慢被采集的步并写出大量数据，只适合短时间使用。",
        ),
        fix=Text("Set profile: False for training.", "正式训练设置 profile: False。"),
    )
)
@applies(MINDFORMERS, training=True)
def profiling(plan: Plan) -> Iterator[Finding]:
    for value in (plan.root.get("profile"), plan.root.get("profiler", "enable_profiling")):
        if value.on:
            yield profiling.finding(evidence=seen(plan, value, expected=False), fixes=(change(plan, value, False),))


@check(
    Rule(
        id="CFG-CTX-014",
        name="profile-steps-reversed",
        severity=Severity.ERROR,
        category="config",
        title=Text(
            "Profiling stops at step {stop}, before it starts at {start}",
            "profile 在第 {stop} 步结束，早于第 {start} 步开始",
        ),
        why=Text("The range is empty.", "采集区间为空。"),
        fix=Text("Stop after the start.", "结束步应大于开始步。"),
    )
)
@applies(MINDFORMERS)
def profile_steps(plan: Plan) -> Iterator[Finding]:
    pairs = (
        (plan.root.get("profile_start_step"), plan.root.get("profile_stop_step"), plan.root.get("profile")),
        (
            plan.root.get("profiler", "start_step"),
            plan.root.get("profiler", "end_step"),
            plan.root.get("profiler", "enable_profiling"),
        ),
    )
    for start, stop, switch in pairs:
        if start.whole is not None and stop.whole is not None and stop.whole < start.whole:
            used = switch.on or start.key.startswith("profiler")
            yield profile_steps.finding(
                evidence=seen(plan, stop, start, expected=f">= {start.whole}"),
                fixes=(change(plan, stop, start.whole + 9),),
                severity=None if used else Severity.WARNING,
                start=start.whole,
                stop=stop.whole,
            )


@check(
    Rule(
        id="CFG-CTX-015",
        name="call-depth-too-small",
        severity=Severity.WARNING,
        category="graph-compile",
        title=Text("max_call_depth {value} is small", "max_call_depth {value} 偏小"),
        why=Text(
            "Compiling a deep network nests thousands of calls: `Exceed function call depth limit`. MindFormers uses 10000.",
            "编译深层网络会嵌套数千次调用：`Exceed function call depth limit`。MindFormers 使用 10000。",
        ),
        fix=Text("Set max_call_depth: 10000.", "设置 max_call_depth: 10000。"),
    )
)
@applies(GRAPH)
def call_depth(plan: Plan) -> Iterator[Finding]:
    value = plan.context.section.get("max_call_depth")
    if value.given and value.number is not None and value.number < 1000:
        yield call_depth.finding(
            evidence=seen(plan, value, expected=10000),
            fixes=(change(plan, value, 10000, safe=True),),
            value=shown(value),
        )


@check(
    Rule(
        id="CFG-CTX-016",
        name="deterministic-left-on",
        severity=Severity.INFO,
        category="performance",
        title=Text("Deterministic computing is on", "打开了确定性计算"),
        why=Text(
            "It makes runs repeatable and 10 to 30 % slower: for debugging, not for production.",
            "可使结果可复现，但慢 10% 到 30%：用于调试而非生产。",
        ),
        fix=Text("Switch it off for the long run.", "长时间训练请关闭。"),
    )
)
@applies(MINDFORMERS, training=True)
def deterministic(plan: Plan) -> Iterator[Finding]:
    for value in (
        plan.root.get("train_precision_sync"),
        plan.context.section.get("deterministic"),
        plan.root.get("training", "deterministic"),
    ):
        if value.name == "deterministic" and value.text is not None and value.words not in {"ON", "OFF"}:
            yield deterministic.finding(
                Text("context.deterministic is ON or OFF.", "context.deterministic 只能是 ON 或 OFF。"),
                evidence=seen(plan, value, expected="ON or OFF"),
                fixes=(change(plan, value, "OFF"),),
                severity=Severity.ERROR,
            )
        elif value.on or value.words == "ON":
            yield deterministic.finding(evidence=seen(plan, value, expected=False))


@check(
    Rule(
        id="CFG-CTX-018",
        name="auto-tune-left-on",
        severity=Severity.INFO,
        category="performance",
        title=Text("Data-set auto-tuning is on", "打开了数据集自动调优（auto_tune）"),
        why=Text(
            "It searches the best number of workers while training; run it once and keep the result.",
            "训练时会搜索最优 worker 数；跑一次并记录结果即可。",
        ),
        fix=Text("Set auto_tune: False.", "设置 auto_tune: False。"),
    )
)
@applies(GRAPH, training=True)
def auto_tune(plan: Plan) -> Iterator[Finding]:
    value = plan.root.get("auto_tune")
    if value.on and plan.optimizer.section.mapping and plan.run_mode.words == "train" and plan.parallel.distributed:
        yield auto_tune.finding(evidence=seen(plan, value, expected=False), fixes=(change(plan, value, False),))
