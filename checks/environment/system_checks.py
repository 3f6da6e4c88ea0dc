"""The host under the training: memory, processors, and variables that slow a run down."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip
from doctor.checks.environment.host import Host
from doctor.checks.environment.subject import ascend_only, host_check, needs_environment
from doctor.checks.environment.wording import phrased
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule

_ENV_LIST = "https://www.mindspore.cn/docs/en/stable/api_python/env_var_list.html"


@host_check(
    Rule(
        id="ENV-SYS-004",
        name="host-memory-low",
        severity=Severity.WARNING,
        category="memory-host",
        title=Text(
            "{available:.0f} GB of host memory are available for {devices} device(s)",
            "{devices} 个设备只有 {available:.0f} GB 可用主机内存",
        ),
        why=Text(
            "Each rank needs some 16 GB of host memory and more while weights are loaded; beyond it the kernel kills a rank (exit code -9) and the others time out.",
            "每个进程大约需要 16 GB 主机内存，加载权重时更多；超出后内核会杀掉某个进程（退出码 -9），其余进程随之超时。",
        ),
        fix=Text(
            "Free memory, raise the container's limit, or start fewer ranks.", "释放内存、提高容器上限，或减少进程数。"
        ),
        verify="free -g",
        confidence=0.7,
    )
)
def host_memory_low(host: Host) -> Iterator[Finding]:
    available = host.system.number("memory", "available_mb")
    limit, used = host.system.number("memory", "limit_mb"), host.system.number("memory", "limit_used_mb")
    if limit is not None:
        room = limit - (used or 0)
        available = room if available is None else min(available, room)
    if available is None:
        raise Skip(Text("the memory of the host is not known", "不知道主机内存"))
    devices = host.wanted or (len(host.devices) or None)
    if devices is None or not host.has_hardware:
        raise Skip(Text("there are no devices to provide for", "没有需要主机内存的设备"))
    devices = min(devices, len(host.devices) or devices)
    if available < 8 * 1024 * devices:
        yield host_memory_low.finding(
            evidence=(
                Evidence(
                    "file",
                    "/proc/meminfo",
                    key="MemAvailable",
                    observed=int(available),
                    expected=f">= {8 * 1024 * devices}",
                ),
            ),
            severity=Severity.ERROR if available < 4 * 1024 else Severity.WARNING,
            fixes=(
                Fix(
                    host_memory_low.rule.fix,
                    command="ps -eo rss,pid,user,comm --sort=-rss | head -15",
                    verify="free -g",
                ),
            ),
            available=available / 1024,
            devices=devices,
        )


@host_check(
    Rule(
        id="ENV-SYS-006",
        name="libgomp-not-preloaded",
        severity=Severity.INFO,
        category="env-var",
        title=Text("{owner} brings a libgomp of its own on aarch64", "{owner} 在 aarch64 上自带 libgomp"),
        why=Text(
            'When it is imported before MindSpore on an old glibc ({glibc}), loading fails with "libgomp...: cannot allocate memory in static TLS block".',
            "在较旧的 glibc（{glibc}）上，若它先于 MindSpore 导入，会报 “libgomp...: cannot allocate memory in static TLS block”。",
        ),
        fix=Text("Import mindspore first, or preload that libgomp.", "先导入 mindspore，或预加载该 libgomp。"),
        verify='python -c "import {module}, mindspore"',
        references=(
            "https://www.mindspore.cn/docs/en/stable/faq/installation.html",
            "https://github.com/opencv/opencv/issues/14884",
        ),
        confidence=0.5,
    )
)
def libgomp_not_preloaded(host: Host) -> Iterator[Finding]:
    machine = host.facts.text("python", "machine") or host.system.text("machine")
    if machine is None:
        raise Skip(Text("the architecture is not known", "不知道机器架构"))
    if machine != "aarch64":
        return
    if not host.packages:
        raise Skip(Text("the packages of the interpreter are not known", "不知道解释器中有哪些包"))
    glibc = host.system.text("glibc")
    if glibc is None:
        raise Skip(Text("the version of glibc is not known", "不知道 glibc 版本"))
    parts = glibc.split(".")
    # glibc 2.32 brought the tunable static TLS surplus.
    old = (
        len(parts) >= 2
        and all(part.isdecimal() for part in parts[:2])
        and (int(parts[0][:4]), int(parts[1][:4])) < (2, 32)
    )
    if not old or "libgomp" in host.env.get("LD_PRELOAD", ""):
        return
    for package, module in (("torch", "torch"), ("scikit-learn", "sklearn"), ("opencv-python", "cv2")):
        if package in host.packages and host.mindspore is not None:
            yield libgomp_not_preloaded.finding(
                evidence=(
                    Evidence(
                        "value",
                        f"{host.executable}: {package}",
                        text=f"{package} {host.packages[package]}, glibc {glibc}",
                    ),
                ),
                fixes=(
                    Fix(
                        libgomp_not_preloaded.rule.fix,
                        command="export LD_PRELOAD=$(find $(python -c 'import sys; print(sys.prefix)') -name 'libgomp*.so*' | head -1)",
                        applicability="unsafe",
                        verify=f'{host.executable} -c "import {module}, mindspore"',
                    ),
                ),
                owner=package,
                module=module,
                glibc=glibc,
            )
            return


#: variable -> (values that slow a run down, what it does)
_DEBUG = {
    "ASCEND_LAUNCH_BLOCKING": (("1",), Text("every kernel is waited for", "逐个等待算子执行")),
    "MS_DEV_LAUNCH_BLOCKING": (("1",), Text("every kernel is waited for", "逐个等待算子执行")),
    "MINDSPORE_DUMP_CONFIG": (None, Text("tensors are dumped to disk", "张量会落盘")),
    "MS_DEV_SAVE_GRAPHS": (("1", "2", "3"), Text("graphs are written to disk at each compile", "每次编译都保存图文件")),
    "GLOG_v": (("0", "1"), Text("debug or info logs of every rank", "每个进程都打印 DEBUG 或 INFO 日志")),
    "ASCEND_GLOBAL_LOG_LEVEL": (("0", "1"), Text("debug or info logs of CANN", "CANN 打印 DEBUG 或 INFO 日志")),
    "HCCL_DETERMINISTIC": (
        ("true", "1", "TRUE", "strict"),
        Text("collectives in a fixed, slower order", "集合通信按固定顺序执行，较慢"),
    ),
    "LCCL_DETERMINISTIC": (("1",), Text("collectives in a fixed, slower order", "集合通信按固定顺序执行，较慢")),
    "MS_ALLOC_CONF": (None, Text("", "")),
}


@host_check(
    Rule(
        id="ENV-SYS-007",
        name="debug-variable-left-on",
        severity=Severity.WARNING,
        category="performance",
        title=Text("{name}={value} slows training: {effect}", "{name}={value} 会拖慢训练：{effect}"),
        why=Text(
            "It is meant for finding faults; left on it costs much of the speed or fills the disk.",
            "它用于定位问题；一直开着会明显降低速度或写满磁盘。",
        ),
        fix=Text("Unset it for real runs.", "正式训练时取消该变量。"),
        verify="echo ${name}",
        references=(_ENV_LIST,),
        confidence=0.9,
    )
)
def debug_variable_left_on(host: Host) -> Iterator[Finding]:
    needs_environment(host)
    for name, (values, effect) in _DEBUG.items():
        value = host.env.get(name)
        if value is None or not effect.en or (values is not None and value not in values):
            continue
        finding = debug_variable_left_on.finding(
            evidence=(Evidence("value", "environment", key=name, text=f"{name}={value}", observed=value),),
            severity=Severity.INFO if "DETERMINISTIC" in name else Severity.WARNING,
            fixes=(
                Fix(
                    debug_variable_left_on.rule.fix,
                    command=f"unset {name}",
                    applicability="safe",
                    verify=f"echo ${name}",
                ),
            ),
            name=name,
            value=value,
        )
        yield phrased(finding, effect=effect)


@host_check(
    Rule(
        id="ENV-SYS-008",
        name="slow-processor-settings",
        severity=Severity.INFO,
        category="performance",
        title=Text("Slow processor settings: {problem}", "处理器配置偏慢：{problem}"),
        why=Text(
            "Each rank launches its kernels from the host: slow or few cores leave the NPU waiting.",
            "每个进程都由主机下发算子：主机核太慢或太少，NPU 就会空等。",
        ),
        fix=Text(
            "Set the governor to performance; give a container several cores for each device.",
            "把 CPU 调频策略设为 performance；给容器分配每设备多个核。",
        ),
        verify="cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor; nproc",
        confidence=0.6,
        references=(_ENV_LIST,),
    )
)
def slow_processor_settings(host: Host) -> Iterator[Finding]:
    ascend_only(host)
    cpu = host.system.at("cpu")
    governor, quota = cpu.text("governor"), cpu.number("quota")
    usable = cpu.number("usable")
    if (governor is None and quota is None and usable is None) or not host.has_hardware:
        raise Skip(Text("the processors or the devices are not known", "不知道处理器或设备情况"))
    if governor == "powersave" and (cpu.text("model") or "").startswith(("Kunpeng", "HUAWEI")):
        yield _processors(
            Text("The CPU governor is powersave", "CPU 调频策略是 powersave"),
            Evidence(
                "file",
                "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                observed=governor,
                expected="performance",
            ),
            "sudo cpupower frequency-set -g performance",
        )
    cores = min(value for value in (quota, usable, 1e9) if value is not None)
    devices = host.device_count
    if devices and cores < 2 * devices:
        yield _processors(
            Text(f"{cores:g} cores for {devices} devices", f"{devices} 个设备只有 {cores:g} 个 CPU 核"),
            Evidence("value", "cgroup, affinity", observed=cores, expected=f">= {4 * devices}"),
            "export MS_DEV_RUNTIME_CONF=pipeline:False",
        )


def _processors(problem: Text, evidence: Evidence, command: str) -> Finding:
    rule = slow_processor_settings.rule
    finding = rule.finding(evidence=(evidence,), fixes=(Fix(rule.fix, command=command, verify=rule.verify),))
    return phrased(finding, problem=problem)


@host_check(
    Rule(
        id="ENV-SYS-011",
        name="facts-incomplete",
        severity=Severity.WARNING,
        category="other",
        title=Text("The facts of {source} could not be collected", "无法收集 {source} 的信息"),
        why=Text(
            "{error}. What depends on them is skipped, not passed. This is a fault of the doctor: please report it.",
            "{error}。依赖这些信息的检查项会跳过，不会算作通过。这是本工具的缺陷，请反馈。",
        ),
        fix=Text("Send the document, redacted, with the report.", "请附上脱敏后的文档一起反馈。"),
        verify="doctor collect --redact",
    )
)
def facts_incomplete(host: Host) -> Iterator[Finding]:
    if not isinstance(host.facts.at("errors").value, dict):
        raise Skip(Text("the document does not say how it was collected", "文档没有说明采集过程"))
    for source, error in sorted(host.facts.pairs("errors").items()):
        yield facts_incomplete.finding(
            evidence=(Evidence("value", "doctor collect", key=source, text=error),),
            fixes=(
                Fix(facts_incomplete.rule.fix, command="doctor collect --redact > host.json", verify="doctor collect"),
            ),
            source=source,
            error=error,
        )
