"""`--deep`: the framework computes on the device, in a child process with a time-out, and what came of it is judged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Optional

from doctor.check import Skip
from doctor.checks.environment import deep_probe
from doctor.checks.environment.host import Host
from doctor.checks.environment.subject import host_check
from doctor.checks.environment.wording import phrased
from doctor.escape import visible
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule

if TYPE_CHECKING:
    from doctor.checks.environment.sources.commands import Output
    from doctor.checks.environment.sources.machine import Machine

#: The first operator on a card compiles; importing from a cold network disk takes a minute by itself.
TIMEOUT = 300.0
STAGES = ("import", "matmul", "gradient", "mindformers")
#: how much of what was printed goes into the document
LINES, WIDTH = 40, 400


def run(machine: Machine, python: str, target: str, has_mindformers: bool) -> dict[str, Any]:
    """Runs the deep probe and returns its facts: target, device, seconds by stage, error lines."""
    from doctor.checks.environment.sources.commands import Command, run_all

    with open(deep_probe.__file__, encoding="utf-8") as handle:
        source = handle.read()
    argv = (python, "-c", source, target, "mindformers" if has_mindformers else "-")
    output = run_all({"deep": Command(argv, TIMEOUT)}, machine.environ, TIMEOUT, plain=False)["deep"]
    return facts(output, target)


def facts(output: Output, target: str) -> dict[str, Any]:
    stages: dict[str, Any] = {}
    device: Optional[str] = None
    printed: list[str] = []
    for line in output.text.splitlines():
        if not line.startswith(deep_probe.MARK):
            printed.append(line)
            continue
        try:
            row = json.loads(line[len(deep_probe.MARK) :])
        except ValueError:
            continue
        if isinstance(row, dict) and row.get("stage") in STAGES:
            stages[row["stage"]] = row.get("seconds")
            device = row.get("device") or device
    finished = f'{deep_probe.MARK}{{"stage": "done"}}' in output.text
    lines = [] if finished else _telling([*printed, *output.errors.splitlines()])
    return {
        "target": target,
        "device": device,
        "seconds": stages,
        "reached": list(stages),
        "finished": finished,
        "state": output.state if not finished else "ok",
        "exit_code": output.exit_code,
        "lines": lines,
    }


_LOUD = re.compile(r"\[(ERROR|CRITICAL)\]|Error|Exception|error code|cannot open|E[A-Z0-9]\d{4}")


def _telling(lines: list[str]) -> list[str]:
    """The first lines that speak of an error, in their order, and the last ones, where Python names it."""
    whole = [visible(line, WIDTH) for line in lines if line.strip()]
    loud = [index for index, line in enumerate(whole) if _LOUD.search(line)][: LINES // 2]
    kept = sorted({*loud, *range(max(0, len(whole) - LINES // 2), len(whole))})
    return [whole[index] for index in kept]


def needs_deep(host: Host) -> None:
    if host.facts.flag("deep", "finished") is None:
        raise Skip(Text("not asked for; give --deep to compute on the device", "未要求；加 --deep 会在设备上实际计算"))


@host_check(
    Rule(
        id="ENV-DEEP-001",
        name="computation-failed",
        severity=Severity.ERROR,
        category="operator-execution",
        title=Text("MindSpore cannot compute on {target}: {stage}", "MindSpore 无法在 {target} 上计算：{stage}"),
        why=Text(
            "A matrix product and one gradient were tried in {python}; {how}.",
            "在 {python} 中尝试了一次矩阵乘法和一次求导；{how}。",
        ),
        fix=Text("Read the first error line, not the last.", "请先看第一条报错，而不是最后一条。"),
        verify="doctor check --deep --only ENV-DEEP",
    )
)
def computation_failed(host: Host) -> Iterator[Finding]:
    needs_deep(host)
    deep = host.facts.at("deep")
    if deep.flag("finished"):
        return
    target = deep.text("target") or "?"
    reached = deep.texts("reached")
    stage = next((name for name in STAGES if name not in reached), "mindformers")
    lines = deep.texts("lines")
    cause = _explained(lines)
    message = computation_failed.rule.why
    if cause is not None:
        message = message + Text(" ", "") + cause.title + Text(": ", "：") + cause.message
    check = f"import mindspore as ms; ms.set_device('{target}'); ms.run_check()"
    own_fix = Fix(
        computation_failed.rule.fix, command=f'{host.executable} -c "{check}"', verify=computation_failed.rule.verify
    )
    finding = computation_failed.finding(
        message,
        evidence=tuple(Evidence("log", "doctor check --deep", text=line) for line in _first(lines)),
        fixes=cause.fixes if cause is not None and cause.fixes else (own_fix,),
        confidence=0.95,
        target=target,
        python=host.executable,
    ).with_(category=cause.category if cause is not None else _category(stage, lines))
    yield phrased(finding, stage=_FAILS[stage], how=_ended(deep.text("state"), deep.integer("exit_code")))


_FAILS = {
    "import": Text("import mindspore fails", "import mindspore 失败"),
    "matmul": Text("the matrix product fails", "矩阵乘法失败"),
    "gradient": Text("the gradient fails", "求导失败"),
    "mindformers": Text("from mindformers import Trainer fails", "from mindformers import Trainer 失败"),
}


def _ended(state: Optional[str], code: Optional[int]) -> Text:
    if state == "timeout":
        return Text(f"it did not end within {TIMEOUT:g} s", f"{TIMEOUT:g} 秒内没有结束")
    if state == "missing":
        return Text("the interpreter could not be started", "解释器无法启动")
    if state == "flood":
        return Text("it printed without end and was stopped", "进程不停地输出，已被终止")
    if code == -9:
        return Text(
            "it was killed by signal 9, as the kernel's out-of-memory killer does",
            "进程被信号 9 终止，多为内核因内存不足（OOM）所杀",
        )
    if code is not None and code < 0:
        return Text(f"it was killed by signal {-code}", f"进程被信号 {-code} 终止")
    return Text(f"it ended with exit code {code}", f"进程退出码为 {code}")


def _first(lines: tuple[str, ...]) -> list[str]:
    """The lines to quote: what names an error, before the frames of a traceback."""
    words = [line for line in lines if not line.startswith(("Traceback", "  "))]
    loud = [line for line in words if _LOUD.search(line)]
    return (loud or words or list(lines))[:6]


def _explained(lines: tuple[str, ...]) -> Optional[Finding]:
    """The most likely cause by the log rules, or None when they know none."""
    if not lines:
        return None
    from doctor.match.explain import explain

    found = explain("\n".join(lines)).findings
    return found[0] if found else None


def _category(stage: str, lines: tuple[str, ...]) -> str:
    if any("ModuleNotFoundError" in line or "No module named" in line for line in lines):
        return "python-deps"
    return "install" if stage in {"import", "mindformers"} else "operator-execution"


@host_check(
    Rule(
        id="ENV-DEEP-002",
        name="computation-on-other-device",
        severity=Severity.ERROR,
        category="device-unavailable",
        title=Text("MindSpore computed on {device}, not on {target}", "MindSpore 在 {device} 上计算，而不是 {target}"),
        why=Text(
            "The back end of {target} did not load, and another took its place: training would run there, many times slower.",
            "{target} 后端没有加载成功，改用了别的后端：训练会在那里运行，慢很多倍。",
        ),
        fix=Text("See why the plugin does not load.", "查看插件为何加载失败。"),
        verify="doctor check --deep --only ENV-DEEP",
    )
)
def computation_on_other_device(host: Host) -> Iterator[Finding]:
    needs_deep(host)
    device, target = host.facts.text("deep", "device"), host.facts.text("deep", "target")
    if device is None or target is None:
        raise Skip(Text("nothing was computed", "没有完成计算"))
    if device.lower() != target.lower():
        yield computation_on_other_device.finding(
            evidence=(Evidence("value", host.executable, key="device_target", observed=device, expected=target),),
            fixes=(
                Fix(
                    computation_on_other_device.rule.fix,
                    command=f'GLOG_v=1 {host.executable} -c "import mindspore" 2>&1 | grep -i "load"',
                    verify=computation_on_other_device.rule.verify,
                ),
            ),
            device=device,
            target=target,
        )
