"""The host under the training: disks, shared memory, memory, processors, variables that slow a run down."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip
from doctor.checks.environment.fields import Fields
from doctor.checks.environment.host import Host
from doctor.checks.environment.subject import ascend_only, host_check
from doctor.checks.environment.wording import phrased
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule

#: what the collector calls the places it measures
PURPOSES = {
    "root": Text("root", "根目录"),
    "home": Text("home", "主目录"),
    "tmp": Text("temporary files", "临时目录"),
    "working folder": Text("working folder", "当前目录"),
    "CANN": Text("CANN", "CANN"),
    "CANN logs": Text("CANN's logs", "CANN 日志"),
    "CANN cache": Text("CANN's cache", "CANN 缓存"),
    "output": Text("output", "输出目录"),
}


def purpose_of(disk: Fields) -> Text:
    word = disk.text("purpose") or "?"
    return PURPOSES.get(word, Text(word, word))


_ENV_LIST = "https://www.mindspore.cn/docs/en/stable/api_python/env_var_list.html"


@host_check(
    Rule(
        id="ENV-SYS-001",
        name="disk-nearly-full",
        severity=Severity.WARNING,
        category="disk-io",
        title=Text("{path} ({purpose}) has {free} free", "{path}（{purpose}）只剩 {free}"),
        why=Text(
            'Operator caches (kernel_meta), CANN\'s logs (~/ascend/log) and checkpoints grow during a run; a full disk stops it with "No space left on device" or a torn checkpoint.',
            "训练中算子缓存（kernel_meta）、CANN 日志（~/ascend/log）和权重文件都会增长；磁盘写满会报 “No space left on device” 或留下不完整的权重。",
        ),
        fix=Text("Clear old logs and caches, or write elsewhere.", "清理旧日志和缓存，或换个位置输出。"),
        verify="df -h {path}",
        references=(_ENV_LIST,),
    )
)
def disk_nearly_full(host: Host) -> Iterator[Finding]:
    disks = list(host.system.rows("disks"))
    if not any(disk.number("free_mb") is not None for disk in disks):
        raise Skip(Text("the free space is not known", "不知道剩余空间"))
    seen: set[tuple[object, object]] = set()
    for disk in disks:
        path, free, total = disk.text("path") or "?", disk.number("free_mb"), disk.number("total_mb")
        if free is None or total is None or (free, total) in seen or disk.flag("read_only"):
            continue
        seen.add((free, total))
        inodes = disk.number("inodes_free_percent")
        no_names = inodes is not None and inodes < 1 and total > 0
        if free >= 5 * 1024 and not no_names:
            continue
        # A small partition that is used for nothing else (a tmpfs of 1 GB) is not short of room.
        if disk.text("purpose") == "tmp" and free >= 512 and not no_names:
            continue
        gone = free < 512 or (no_names and inodes is not None and inodes < 0.1)
        finding = disk_nearly_full.finding(
            evidence=(
                Evidence(
                    "command",
                    f"df {path}",
                    text=f"{free:.0f} MB of {total:.0f} MB free" + (f", {inodes} % of the inodes" if no_names else ""),
                    observed=free,
                    expected=">= 5120",
                ),
            ),
            severity=Severity.ERROR if gone else Severity.WARNING,
            fixes=(
                Fix(
                    disk_nearly_full.rule.fix,
                    command=f"du -xhd1 {path} 2>/dev/null | sort -h | tail -20",
                    verify=f"df -h {path}",
                ),
            ),
            path=path,
            free=f"{free / 1024:.1f} GB" if not no_names else f"{inodes} % inode",
        )
        yield phrased(finding, purpose=purpose_of(disk))


@host_check(
    Rule(
        id="ENV-SYS-002",
        name="folder-not-writable",
        severity=Severity.WARNING,
        category="permissions",
        title=Text("{path} ({purpose}) is not writable", "{path}（{purpose}）不可写"),
        why=Text(
            "Training writes there: caches and logs to the home folder and /tmp, kernel_meta and rank folders to the working folder.",
            "训练会写这些目录：缓存和日志写到主目录和 /tmp，kernel_meta 和各 rank 目录写到当前目录。",
        ),
        fix=Text("Start from a folder you own, or give the permission.", "换到自己的目录启动，或授予写权限。"),
        verify="touch {path}/.doctor && rm {path}/.doctor",
        confidence=0.8,
    )
)
def folder_not_writable(host: Host) -> Iterator[Finding]:
    disks = [disk for disk in host.system.rows("disks") if disk.flag("writable") is not None]
    if not disks:
        raise Skip(Text("the folders were not examined", "没有检查目录"))
    for disk in disks:
        purpose, path = disk.text("purpose") or "?", disk.text("path") or "?"
        if disk.flag("writable") or purpose in {"root", "CANN"}:
            continue
        # Looking at a config from a folder of others is no fault.
        if purpose == "working folder" and not host.wants_ascend:
            continue
        finding = folder_not_writable.finding(
            evidence=(
                Evidence(
                    "file",
                    path,
                    key=purpose,
                    text="read-only file system" if disk.flag("read_only") else "no write permission",
                ),
            ),
            severity=Severity.ERROR if purpose == "tmp" else Severity.WARNING,
            path=path,
        )
        yield phrased(finding, purpose=purpose_of(disk))


@host_check(
    Rule(
        id="ENV-SYS-003",
        name="shared-memory-too-small",
        severity=Severity.WARNING,
        category="memory-host",
        title=Text("/dev/shm holds {free} MB of {total} MB", "/dev/shm 共 {total} MB，剩余 {free} MB"),
        why=Text(
            'Data workers hand batches over through /dev/shm; Docker\'s default is 64 MB. A full one kills them with "Bus error" or "No space left on device".',
            "数据处理进程通过 /dev/shm 传递数据，Docker 默认只有 64 MB。写满后会报 “Bus error” 或 “No space left on device”。",
        ),
        fix=Text("Start the container with a larger one.", "启动容器时加大它。"),
        verify="df -h /dev/shm",
        references=(
            "https://github.com/deepspeedai/DeepSpeed/pull/4015",
            "https://github.com/hiyouga/LLaMA-Factory/issues/7315",
        ),
    )
)
def shared_memory_too_small(host: Host) -> Iterator[Finding]:
    total, free = host.system.number("shm", "total_mb"), host.system.number("shm", "free_mb")
    if total is None or free is None:
        raise Skip(Text("/dev/shm is not there", "没有 /dev/shm"))
    if total >= 1024 and free >= 512:
        return
    # Only where something trains: a laptop or a CI job does as it likes.
    if not host.wants_ascend and total > 64:
        return
    yield shared_memory_too_small.finding(
        evidence=(
            Evidence(
                "command",
                "df /dev/shm",
                text=f"{free:.0f} MB of {total:.0f} MB free",
                observed=total,
                expected=">= 1024",
            ),
        ),
        severity=Severity.WARNING if host.wants_ascend else Severity.INFO,
        fixes=(
            Fix(
                shared_memory_too_small.rule.fix,
                command="docker run --shm-size=64g …" if host.container else "sudo mount -o remount,size=64G /dev/shm",
                verify="df -h /dev/shm",
            ),
        ),
        total=int(total),
        free=int(free),
    )


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
        return
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
        id="ENV-SYS-005",
        name="shared-memory-left-over",
        severity=Severity.WARNING,
        category="memory-host",
        title=Text(
            "{count} shared memory segments ({size} MB) belong to nobody", "有 {count} 个无主的共享内存段（{size} MB）"
        ),
        why=Text(
            "A crashed run left them; they take memory until they are removed or the machine is restarted.",
            "它们是异常退出的任务留下的，在删除或重启之前一直占用内存。",
        ),
        fix=Text("Remove your own ones.", "删除属于自己的共享内存段。"),
        verify="ipcs -m",
        references=("https://www.mindspore.cn/docs/en/stable/faq/distributed_parallel.html",),
        confidence=0.8,
    )
)
def shared_memory_left_over(host: Host) -> Iterator[Finding]:
    if not isinstance(host.system.at("shared_segments").value, list):
        raise Skip(Text("the kernel does not list shared memory here", "此处内核不提供共享内存列表"))
    uid = host.system.integer("user", "uid")
    left = [
        row
        for row in host.system.rows("shared_segments")
        if row.flag("creator_alive") is False and (uid in (0, None) or row.integer("uid") == uid)
    ]
    size = sum(row.integer("size_mb") or 0 for row in left)
    if left and size >= 64:
        ids = [str(row.integer("id")) for row in left]
        yield shared_memory_left_over.finding(
            evidence=(
                Evidence(
                    "file", "/proc/sysvipc/shm", text=f"shmid {', '.join(ids[:8])}: nothing attached, creator gone"
                ),
            ),
            fixes=(
                Fix(
                    shared_memory_left_over.rule.fix,
                    command=" ".join(["ipcrm", *(f"-m {one}" for one in ids[:32])]),
                    verify="ipcs -m",
                ),
            ),
            count=len(left),
            size=size,
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
    if (host.facts.text("python", "machine") or host.system.text("machine")) != "aarch64":
        return
    if not host.packages:
        raise Skip(Text("the packages of the interpreter are not known", "不知道解释器中有哪些包"))
    glibc = host.system.text("glibc") or ""
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
    if not isinstance(host.facts.at("env").value, dict):
        raise Skip(Text("the environment was not recorded", "没有记录环境变量"))
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
    if governor is None and quota is None and usable is None:
        raise Skip(Text("the processors were not examined", "没有检查处理器"))
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
    devices = len(host.devices)
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
        id="ENV-SYS-009",
        name="file-system-hangs",
        severity=Severity.ERROR,
        category="disk-io",
        title=Text("{path} ({purpose}) does not answer", "{path}（{purpose}）没有响应"),
        why=Text(
            "The file system did not answer within 2 s: a dead network mount. Every process that touches it hangs.",
            "该文件系统 2 秒内没有响应：网络盘已失联。任何访问它的进程都会卡住。",
        ),
        fix=Text("Remount it, or keep home, logs and output elsewhere.", "重新挂载，或把主目录、日志、输出放到别处。"),
        verify="timeout 5 stat {path}",
    )
)
def file_system_hangs(host: Host) -> Iterator[Finding]:
    disks = [disk for disk in host.system.rows("disks") if disk.flag("hangs") is not None]
    if not disks:
        raise Skip(Text("the disks were not examined", "没有检查磁盘"))
    for disk in disks:
        if disk.flag("hangs"):
            finding = file_system_hangs.finding(
                evidence=(Evidence("command", "statvfs", text=f"{disk.text('path')}: no answer within 2 s"),),
                fixes=(
                    Fix(
                        file_system_hangs.rule.fix,
                        command="mount | grep -E 'nfs|cifs|lustre'",
                        verify=f"timeout 5 stat {disk.text('path')}",
                    ),
                ),
                path=disk.text("path") or "?",
            )
            yield phrased(finding, purpose=purpose_of(disk))


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
    for source, error in sorted(host.facts.pairs("errors").items()):
        yield facts_incomplete.finding(
            evidence=(Evidence("value", "doctor collect", key=source, text=error),),
            fixes=(
                Fix(facts_incomplete.rule.fix, command="doctor collect --redact > host.json", verify="doctor collect"),
            ),
            source=source,
            error=error,
        )
