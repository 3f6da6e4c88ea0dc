"""What npu-smi says: does it answer, are the cards well, is their memory free, can they train."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from doctor.check import Skip
from doctor.checks.environment.host import Device, Host, Process
from doctor.checks.environment.subject import ascend_only, host_check
from doctor.checks.environment.wording import phrased, said
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule

_VISIBLE = Text(
    "An ordinary container shows only its own processes: other containers' are not in the table.",
    "普通容器里只能看到自己的进程，看不到其他容器的。",
)


def told(host: Host) -> Text:
    """What npu-smi, or the collector in its place, said instead of naming devices."""
    return said(host.npu.text("error") or "npu-smi named no device")


def needs_devices(host: Host) -> tuple[Device, ...]:
    """The devices, or Skip with what kept them away."""
    ascend_only(host)
    if not host.devices:
        raise Skip(Text("no device to judge: ", "没有可检查的设备：") + told(host))
    return host.devices


@host_check(
    Rule(
        id="ENV-NPU-001",
        name="npu-smi-no-device",
        severity=Severity.ERROR,
        category="device-unavailable",
        title=Text("npu-smi reaches no usable device (-8005)", "npu-smi 找不到可用设备（-8005）"),
        why=Text(
            "The driver interface could not be initialised: the user is not in the group of the device nodes, the control nodes "
            "(davinci_manager, devmm_svm, hisi_hdc) are not mapped into the container, or the driver is not loaded.",
            "驱动接口初始化失败：用户不在设备节点所属的组里、容器没有映射管理节点（davinci_manager、devmm_svm、hisi_hdc），或驱动没有加载。",
        ),
        fix=Text(
            "On a host: join the group of the device nodes and log in again. In a container: start it with the devices and the driver mapped.",
            "物理机：把用户加入设备节点所属的组并重新登录。容器：启动时映射设备和驱动。",
        ),
        verify="npu-smi info",
        references=(
            "https://github.com/Ascend/cann-container-image/issues/46",
            "https://github.com/Project-HAMi/HAMi/issues/1696",
        ),
        explains=("ENV-DEEP-001",),
    )
)
def npu_smi_no_device(host: Host) -> Iterator[Finding]:
    kind = failed(host, "no-device", "driver-error", "not-permitted")
    if kind is None:
        return
    command = container_command(host) if host.container else "sudo usermod -aG HwHiAiUser $USER"
    error = host.npu.text("error") or ""
    yield npu_smi_no_device.finding(
        evidence=(Evidence("command", "npu-smi info", text=error),),
        confidence=0.9 if kind == "no-device" else 0.7,
        fixes=(Fix(npu_smi_no_device.rule.fix, command=command, verify="npu-smi info"),),
    ).with_(
        title=npu_smi_no_device.rule.title
        if kind == "no-device"
        else Text(f"npu-smi cannot use the driver: {error}", f"npu-smi 无法使用驱动：{error}"),
        category="permissions" if kind == "not-permitted" else "device-unavailable",
    )


def failed(host: Host, *kinds: str) -> Optional[str]:
    """The kind of npu-smi's failure when it is one of `kinds`; None when npu-smi answers. Raises Skip where there is
    nothing of Ascend, and when npu-smi failed in another way: then this question cannot be asked."""
    ascend_only(host)
    kind = host.npu_failure
    if kind is not None and kind not in kinds:
        raise Skip(Text("npu-smi failed otherwise: ", "npu-smi 因其他原因失败：") + told(host))
    return kind


def container_command(host: Host) -> str:
    nodes = " ".join(f"--device=/dev/davinci{number}" for number in host.node_ids or range(host.wanted or 8))
    return (
        f"docker run {nodes} --device=/dev/davinci_manager --device=/dev/devmm_svm --device=/dev/hisi_hdc "
        "-v /usr/local/dcmi:/usr/local/dcmi -v /usr/local/bin/npu-smi:/usr/local/bin/npu-smi "
        "-v /usr/local/Ascend/driver:/usr/local/Ascend/driver -v /etc/ascend_install.info:/etc/ascend_install.info IMAGE"
    )


@host_check(
    Rule(
        id="ENV-NPU-002",
        name="npu-smi-device-used",
        severity=Severity.ERROR,
        category="device-unavailable",
        title=Text("The card is held by another container (-8020)", "卡被另一个容器独占（-8020）"),
        why=Text(
            "Outside share mode a card belongs to one container at a time.",
            "未开启共享模式时，一张卡同一时间只能属于一个容器。",
        ),
        fix=Text(
            "Stop the container that holds it, take another card, or have an administrator turn on share mode.",
            "停掉占用它的容器，换一张卡，或请管理员开启共享模式。",
        ),
        verify="npu-smi info",
        references=("https://github.com/vllm-project/vllm-ascend/issues/2698",),
        explains=("ENV-DEEP-001",),
    )
)
def npu_smi_device_used(host: Host) -> Iterator[Finding]:
    if failed(host, "device-used"):
        yield npu_smi_device_used.finding(
            evidence=(Evidence("command", "npu-smi info", text=host.npu.text("error")),),
            fixes=(
                Fix(
                    npu_smi_device_used.rule.fix,
                    command="docker ps --format '{{.ID}} {{.Names}} {{.Image}}'",
                    verify="npu-smi info",
                ),
            ),
        )


@host_check(
    Rule(
        id="ENV-NPU-003",
        name="npu-smi-library-missing",
        severity=Severity.ERROR,
        category="install",
        title=Text("npu-smi does not start: {library} is not found", "npu-smi 无法启动：找不到 {library}"),
        why=Text(
            "The driver's libraries are not on the library path, or the driver folder is not mapped into the container. MindSpore will miss them too.",
            "驱动的动态库不在库搜索路径里，或容器没有映射驱动目录。MindSpore 同样会找不到它们。",
        ),
        fix=Text(
            "Put the driver's libraries on the path, or map /usr/local/Ascend/driver into the container.",
            "把驱动库目录加入搜索路径，或在容器中映射 /usr/local/Ascend/driver。",
        ),
        verify="npu-smi info",
        references=("https://github.com/Project-HAMi/HAMi/issues/615",),
        explains=("ENV-DEEP-001",),
    )
)
def npu_smi_library_missing(host: Host) -> Iterator[Finding]:
    if failed(host, "library-missing") is None:
        return
    from doctor.checks.environment.sources.npu_smi_details import missing_library

    error = host.npu.text("error") or ""
    base = host.driver.text("install_info", "driver_path") or "/usr/local/Ascend"
    yield npu_smi_library_missing.finding(
        evidence=(Evidence("command", "npu-smi info", text=error),),
        fixes=(
            Fix(
                npu_smi_library_missing.rule.fix,
                command=f"export LD_LIBRARY_PATH={base}/driver/lib64:{base}/driver/lib64/common:{base}/driver/lib64/driver:$LD_LIBRARY_PATH",
                verify="npu-smi info",
            ),
        ),
        library=missing_library(error) or "a library",
    )


@host_check(
    Rule(
        id="ENV-NPU-004",
        name="npu-smi-hangs",
        severity=Severity.ERROR,
        category="device-unavailable",
        title=Text("npu-smi does not answer", "npu-smi 没有响应"),
        why=Text(
            "{error}. The driver is busy or stuck: a card that is being reset, a lost PCIe link, or a process stuck in the driver. Training would hang the same way.",
            "{error}。驱动繁忙或卡死：卡正在复位、PCIe 链路丢失，或有进程卡在驱动里。训练也会同样卡住。",
        ),
        fix=Text(
            "Look at the kernel log; if it stays so, have an administrator reset the card or reboot.",
            "查看内核日志；若一直如此，请管理员复位该卡或重启机器。",
        ),
        verify="time npu-smi info",
        explains=("ENV-DEEP-001",),
    )
)
def npu_smi_hangs(host: Host) -> Iterator[Finding]:
    if failed(host, "timeout"):
        yield phrased(
            npu_smi_hangs.finding(
                evidence=(Evidence("command", "npu-smi info", text=host.npu.text("error")),),
                fixes=(
                    Fix(
                        npu_smi_hangs.rule.fix,
                        command="dmesg -T | grep -iE 'davinci|drv_|pcie' | tail -50",
                        verify="time npu-smi info",
                    ),
                ),
            ),
            error=told(host),
        )


@host_check(
    Rule(
        id="ENV-NPU-005",
        name="npu-smi-missing",
        severity=Severity.WARNING,
        category="install",
        title=Text(
            "npu-smi cannot be run, though this machine has Ascend parts", "本机有昇腾设备或软件，但无法运行 npu-smi"
        ),
        why=Text(
            "{error}. Health and memory of the cards cannot be judged; the driver may not be installed, or the container lacks the mount.",
            "{error}。因此无法检查卡的健康状态和显存；可能没有安装驱动，或容器没有映射它。",
        ),
        fix=Text(
            "Install the driver, or map /usr/local/bin/npu-smi and the driver into the container.",
            "安装驱动，或把 /usr/local/bin/npu-smi 和驱动映射进容器。",
        ),
        verify="npu-smi info",
    )
)
def npu_smi_missing(host: Host) -> Iterator[Finding]:
    kind = failed(host, "not-found", "not-startable")
    if kind is not None and (host.node_ids or host.pci_count or host.has_driver):
        yield phrased(
            npu_smi_missing.finding(
                evidence=(Evidence("command", "npu-smi info", text=host.npu.text("error")),),
                fixes=(
                    Fix(
                        npu_smi_missing.rule.fix,
                        command=container_command(host)
                        if host.container
                        else "ls -l /usr/local/bin/npu-smi /usr/local/sbin/npu-smi",
                        verify="npu-smi info",
                    ),
                ),
            ),
            error=told(host),
        )


@host_check(
    Rule(
        id="ENV-NPU-006",
        name="npu-smi-unreadable",
        severity=Severity.WARNING,
        category="device-unavailable",
        title=Text("npu-smi answers without naming a device", "npu-smi 有输出，但没有列出任何设备"),
        why=Text(
            "It printed: {error}. No card can be judged, and none is called well.",
            "它的输出是：{error}。因此无法判断任何一张卡，也不会说它正常。",
        ),
        fix=Text("Run it by hand and look at its whole output.", "手工运行并查看完整输出。"),
        verify="npu-smi info",
        confidence=0.8,
    )
)
def npu_smi_unreadable(host: Host) -> Iterator[Finding]:
    if failed(host, "no-rows", "unreadable", "silent", "unsupported"):
        code = host.npu.integer("exit_code")
        yield phrased(
            npu_smi_unreadable.finding(
                evidence=(Evidence("command", "npu-smi info", text=host.npu.text("error"), observed=code, expected=0),),
                fixes=(
                    Fix(npu_smi_unreadable.rule.fix, command="npu-smi info; echo exit code $?", verify="npu-smi info"),
                ),
            ),
            error=told(host),
        )


@host_check(
    Rule(
        id="ENV-NPU-010",
        name="device-memory-taken",
        severity=Severity.WARNING,
        category="device-unavailable",
        title=Text(
            "{label} has {used_gb:.1f} of {total_gb:.0f} GB in use{by}",
            "{label} 已占用显存 {used_gb:.1f} / {total_gb:.0f} GB{by}",
        ),
        why=Text(
            'MindSpore reserves most of the memory when it starts and then stops with "Malloc device memory failed ... may be other processes '
            'occupying this card". An idle card of this kind uses about {idle_gb:.1f} GB.',
            "MindSpore 启动时会预留大部分显存，此时会报 “Malloc device memory failed ... may be other processes occupying this card”。该型号空闲时约占 {idle_gb:.1f} GB。",
        ),
        fix=Text("Use other cards, or end the process if it is yours.", "换用其他卡；若是自己的残留进程，就结束它。"),
        verify="npu-smi info",
        references=("https://www.mindspore.cn/tutorials/en/stable/debug/error_analysis/cann_error_cases.html",),
        explains=("ENV-DEEP-001",),
    )
)
def device_memory_taken(host: Host) -> Iterator[Finding]:
    devices = needs_devices(host)
    judged = False
    busy: list[tuple[Device, int, tuple[Process, ...]]] = []
    for device in devices:
        if device.used_mb is None or not device.total_mb:
            continue
        judged = True
        idle = device.card.idle_mb if device.card is not None else 4096
        own = tuple(
            p for p in host.processes if p.npu_id == device.npu_id and (p.chip_id or 0) == (device.chip_id or 0)
        )
        held = sum(process.memory_mb or 0 for process in own)
        # Above the idle baseline by a twentieth of the card: what a stray context costs is less.
        if device.used_mb > idle + device.total_mb // 20 or held > device.total_mb // 20:
            busy.append((device, idle, own))
    if not judged:
        raise Skip(Text("npu-smi shows no memory figures", "npu-smi 没有给出显存数据"))
    free = [device for device in devices if device not in [row[0] for row in busy]]
    short = host.wanted is not None and len(free) < host.wanted
    for device, idle, own in busy:
        yield _taken(host, device, idle, own, free, short)


def _taken(host: Host, device: Device, idle: int, own: tuple[Process, ...], free: list[Device], short: bool) -> Finding:
    names = ", ".join(f"{process.name or '?'} (pid {process.pid}, {process.memory_mb} MB)" for process in own[:4])
    evidence = [
        Evidence(
            "command",
            "npu-smi info",
            text=f"{device.label}: {device.used_mb} / {device.total_mb} MB",
            observed=device.used_mb,
            expected=f"<= {idle}",
        )
    ]
    evidence += [Evidence("command", "npu-smi info", text=f"process {names}")] if own else []
    note = Text("", "")
    if not own:
        note = Text(
            " No process is shown for it"
            + (
                ". " + _VISIBLE.en
                if host.container
                else ": it belongs to a container, or is left over from a process that died."
            ),
            " 没有列出占用它的进程"
            + ("。" + _VISIBLE.zh if host.container else "：可能属于某个容器，或是进程异常退出后的残留。"),
        )
    fixes = []
    if free:
        ids = ",".join(str(_logic_id(host, item)) for item in free)
        fixes.append(
            Fix(
                Text("Use the free cards.", "使用空闲的卡。"),
                command=f"export ASCEND_RT_VISIBLE_DEVICES={ids}",
                applicability="unsafe",
                verify="npu-smi info",
            )
        )
    if own and own[0].pid is not None:
        fixes.append(
            Fix(
                Text("Look whose process it is before ending it.", "结束之前先确认进程属于谁。"),
                command=f"ps -o user,pid,lstart,cmd -p {','.join(str(p.pid) for p in own[:8])}",
                verify="npu-smi info",
            )
        )
    elif not fixes:
        fixes.append(
            Fix(
                device_memory_taken.rule.fix, command="ps -ef | grep -E 'python|mindspore|msrun'", verify="npu-smi info"
            )
        )
    return device_memory_taken.finding(
        device_memory_taken.rule.why + note,
        evidence=evidence,
        severity=Severity.ERROR if short or not free else Severity.WARNING,
        confidence=0.9 if own else 0.85,
        fixes=fixes,
        label=device.label,
        used_gb=(device.used_mb or 0) / 1024,
        total_gb=(device.total_mb or 0) / 1024,
        idle_gb=idle / 1024,
        by=f" ({own[0].name or '?'}, pid {own[0].pid})" if own else "",
    )


def _logic_id(host: Host, device: Device) -> int:
    """The number that ASCEND_RT_VISIBLE_DEVICES counts by: the mapping's, else the place in the table."""
    for row in host.npu.rows("mapping"):
        if row.integer("npu_id") == device.npu_id and row.integer("chip_id") == (device.chip_id or 0):
            number = row.integer("logic_id")
            if number is not None:
                return number
    return host.devices.index(device)


@host_check(
    Rule(
        id="ENV-NPU-011",
        name="npu-not-healthy",
        severity=Severity.ERROR,
        category="hardware-fault",
        title=Text("{label} reports health {health}", "{label} 的健康状态是 {health}"),
        why=Text(
            "Training on it may stop, hang, or give wrong numbers{code}.",
            "在它上面训练可能中断、卡死或算出错误结果{code}。",
        ),
        fix=Text(
            "Leave the card out, look the code up, and have it reset or replaced.",
            "先不使用该卡，查询错误码，再复位或更换。",
        ),
        verify="npu-smi info -t health -i {npu}",
        references=("https://www.hiascend.com/document/detail/zh/Atlas%20200I%20A2/2520/re/npu/npusmi_027.html",),
    )
)
def npu_not_healthy(host: Host) -> Iterator[Finding]:
    devices = needs_devices(host)
    if all(device.health is None for device in devices):
        raise Skip(Text("npu-smi shows no health column", "npu-smi 没有健康状态一栏"))
    alarms = {
        (row.integer("npu_id"), row.integer("chip_id") or 0): row
        for row in host.npu.rows("alarms")
        if row.text("code") or row.text("information")
    }
    well = [device for device in devices if (device.health or "OK").upper() == "OK"]
    for device in devices:
        health = device.health or "OK"
        if health.upper() in {"OK", "NA", "-", "NORMAL"}:
            continue
        alarm = alarms.get((device.npu_id, device.chip_id or 0))
        code = (
            " / ".join(part for part in (alarm.text("code"), alarm.text("information")) if part)
            if alarm is not None
            else ""
        )
        fixes = []
        if well:
            ids = ",".join(str(_logic_id(host, item)) for item in well)
            fixes.append(
                Fix(
                    Text("Train on the healthy cards.", "只用健康的卡训练。"),
                    command=f"export ASCEND_RT_VISIBLE_DEVICES={ids}",
                    applicability="unsafe",
                    verify=f"npu-smi info -t health -i {device.npu_id}",
                )
            )
        fixes.append(
            Fix(
                Text(
                    "Ask for the error code; an administrator resets the card when nothing runs on it.",
                    "查询错误码；卡上没有任务时由管理员复位。",
                ),
                command=f"npu-smi info -t health -i {device.npu_id} -c {device.chip_id or 0}",
                verify=f"npu-smi info -t health -i {device.npu_id}",
            )
        )
        yield npu_not_healthy.finding(
            evidence=(
                Evidence(
                    "command",
                    "npu-smi info",
                    text=f"{device.label} {device.name}: {health}" + (f"; {code}" if code else ""),
                    observed=health,
                    expected="OK",
                ),
            ),
            severity=Severity.WARNING if health.upper() == "WARNING" else Severity.ERROR,
            fixes=fixes,
            label=device.label,
            health=health,
            npu=device.npu_id,
            code=f" ({code})" if code else "",
        )


@host_check(
    Rule(
        id="ENV-NPU-012",
        name="npu-dropped",
        severity=Severity.ERROR,
        category="hardware-fault",
        title=Text(
            "npu-smi shows {seen} devices, the kernel has {nodes}", "npu-smi 只显示 {seen} 个设备，而内核有 {nodes} 个"
        ),
        why=Text(
            "A card that is on the bus but not in npu-smi has dropped out: its firmware did not start, or the PCIe link failed.",
            "总线上有、npu-smi 里没有的卡已经掉卡：固件没有启动，或 PCIe 链路故障。",
        ),
        fix=Text(
            "Look at the kernel log; reset or reboot, and report the card if it stays away.",
            "查看内核日志；复位或重启后仍然缺失则报修。",
        ),
        verify="npu-smi info -l",
        confidence=0.85,
        references=("https://www.hiascend.com/document/detail/zh/Atlas%20200I%20A2/2520/re/npu/npusmi_013.html",),
    )
)
def npu_dropped(host: Host) -> Iterator[Finding]:
    devices = needs_devices(host)
    seen = len(devices)
    fixes = (
        Fix(
            npu_dropped.rule.fix,
            command="dmesg -T | grep -iE 'davinci|devdrv|pcie' | tail -50",
            verify="npu-smi info -l",
        ),
    )
    lost = [device for device in devices if device.npu_id is not None and device.npu_id < 0]
    if lost:
        yield npu_dropped.finding(
            evidence=(Evidence("command", "npu-smi info", text=f"NPU ID {lost[0].npu_id}"),),
            fixes=fixes,
            seen=seen - len(lost),
            nodes=seen,
        )
        return
    if not host.node_ids:
        raise Skip(Text("no device nodes to compare with", "没有可对照的设备节点"))
    if len(host.node_ids) > seen:
        missing = sorted(
            set(host.node_ids)
            - {device.physical_id if device.physical_id is not None else device.npu_id for device in devices}
        )
        yield npu_dropped.finding(
            evidence=(
                Evidence("file", "/dev", text=f"davinci nodes: {', '.join(map(str, host.node_ids))}"),
                Evidence(
                    "command",
                    "npu-smi info",
                    text=f"{seen} devices" + (f"; not there: {', '.join(map(str, missing))}" if missing else ""),
                ),
            ),
            fixes=fixes,
            seen=seen,
            nodes=len(host.node_ids),
        )


@host_check(
    Rule(
        id="ENV-NPU-013",
        name="device-memory-errors",
        severity=Severity.WARNING,
        category="hardware-fault",
        title=Text("NPU {npu} has counted uncorrectable memory errors", "NPU {npu} 出现过不可纠正的内存错误"),
        why=Text(
            "{counters}. Double-bit errors cannot be corrected: a running job stops (507054, HBM multi-bit ECC), a silent one computes wrong numbers.",
            "{counters}。双比特错误无法纠正：运行中的任务会中断（507054，HBM multi-bit ECC），未报错的则可能算错。",
        ),
        fix=Text("Leave the card out and have it examined.", "先不使用该卡，并送检。"),
        verify="npu-smi info -t ecc -i {npu}",
    )
)
def device_memory_errors(host: Host) -> Iterator[Finding]:
    needs_devices(host)
    if not isinstance(host.npu.at("alarms").value, list):
        raise Skip(Text("the error counters were not read", "没有读取错误计数"))
    for row in host.npu.rows("alarms"):
        counters = row.pairs("double_bit")
        counts = {name: count for name, count in counters.items() if count.isdecimal() and int(count) > 0}
        if not counts:
            continue
        # Pages that were isolated after an old error are history; errors since power-on are not.
        current = any("Error Count" in name for name in counts)
        number = row.integer("npu_id")
        yield device_memory_errors.finding(
            evidence=tuple(
                Evidence("command", f"npu-smi info -t ecc -i {number}", key=name, observed=int(count), expected=0)
                for name, count in sorted(counts.items())
            ),
            severity=Severity.ERROR if current else Severity.WARNING,
            fixes=(
                Fix(
                    device_memory_errors.rule.fix,
                    command=f"npu-smi info -t ecc -i {number}",
                    verify=f"npu-smi info -t ecc -i {number}",
                ),
            ),
            npu=number,
            counters=", ".join(f"{name} {count}" for name, count in sorted(counts.items())),
        )


@host_check(
    Rule(
        id="ENV-NPU-014",
        name="card-cannot-train",
        severity=Severity.ERROR,
        category="version-pairing",
        title=Text(
            "{name} is an inference card: MindFormers does not train on it",
            "{name} 是推理卡：MindFormers 不支持在它上面训练",
        ),
        why=Text(
            '{title}. Training operators have no kernels there: "Load op info json failed", EZ3002, or unsupported types appear at the first step.',
            "{title}。训练所需的算子在该芯片上没有内核：第一步就会报 “Load op info json failed”、EZ3002 或类型不支持。",
        ),
        fix=Text(
            "Train on Atlas 800T A2 / A3; use this card for inference.",
            "请在 Atlas 800T A2 / A3 上训练；该卡只用于推理。",
        ),
        verify="npu-smi info -t board -i 0 -c 0",
        references=(
            "https://github.com/mindspore-lab/mindyolo/issues/217",
            "https://www.mindspore.cn/mindformers/docs/en/stable/installation.html",
        ),
        explains=("ENV-DEEP-001",),
    )
)
def card_cannot_train(host: Host) -> Iterator[Finding]:
    devices = needs_devices(host)
    if all(device.card is None for device in devices):
        raise Skip(
            Text(f"the card name {devices[0].name!r} is not in the table", f"版本表中没有卡型号 {devices[0].name!r}")
        )
    seen = set()
    for device in devices:
        if device.card is not None and not device.card.trains and device.name not in seen:
            seen.add(device.name)
            finding = card_cannot_train.finding(
                evidence=(Evidence("command", "npu-smi info", text=f"{device.label}: {device.name}"),),
                name=device.name,
            )
            yield phrased(finding, title=Text(device.card.title, device.card.title_zh))


@host_check(
    Rule(
        id="ENV-NPU-015",
        name="first-generation-without-bf16",
        severity=Severity.INFO,
        category="dtype-unsupported-op",
        title=Text("{name} is a first-generation Ascend 910: no bfloat16", "{name} 是第一代昇腾 910：不支持 bfloat16"),
        why=Text(
            "{title}, 32 GB, without bfloat16 kernels; it is not an Atlas A2 even when it is called 910B without a digit. Kernels for 910b do not fit it.",
            "{title}，32 GB，没有 bfloat16 内核；即使显示为不带数字的 910B，也不是 Atlas A2，910b 的算子包不适用。",
        ),
        fix=Text(
            "Use float16 with dynamic loss scaling, and the operator package for 910.",
            "使用 float16 加动态 loss scale，并安装 910 的算子包。",
        ),
        verify="npu-smi info -t board -i 0 -c 0",
        references=("https://github.com/vllm-project/vllm-ascend/issues/237",),
    )
)
def first_generation_without_bf16(host: Host) -> Iterator[Finding]:
    needs_devices(host)
    card = host.card
    if card is None:
        raise Skip(Text("the card's name is not in the table", "版本表中没有该卡型号"))
    if card.trains and not card.bf16:
        device = next(device for device in host.devices if device.card == card)
        finding = first_generation_without_bf16.finding(
            evidence=(
                Evidence("command", "npu-smi info", text=f"{device.label}: {device.name}, {device.total_mb} MB"),
            ),
            name=device.name,
        )
        yield phrased(finding, title=Text(card.title, card.title_zh))


@host_check(
    Rule(
        id="ENV-NPU-016",
        name="virtual-npu",
        severity=Severity.INFO,
        category="device-unavailable",
        title=Text("{label} is a virtual NPU", "{label} 是虚拟 NPU"),
        why=Text(
            "Its number or memory ({total} MB) is that of a share of a card (vNPU, HAMi, ModelArts): memory, cores and counters shown are the share's. "
            "Multi-card training needs whole cards.",
            "它的编号或显存（{total} MB）是切分出来的份额（vNPU、HAMi、ModelArts）：显示的显存、核数和计数都是这一份的。多卡训练需要整卡。",
        ),
        fix=Text("Ask for whole cards if you train on several.", "多卡训练请申请整卡。"),
        verify="npu-smi info -t info-vnpu -i 0 -c 0",
        confidence=0.7,
    )
)
def virtual_npu(host: Host) -> Iterator[Finding]:
    for device in needs_devices(host):
        shared = device.npu_id is not None and device.npu_id >= 32768 and len(host.devices) == 1
        full = 28000 if device.card is not None and device.card.trains else 0
        if shared or (device.total_mb is not None and 0 < device.total_mb < full):
            yield virtual_npu.finding(
                evidence=(
                    Evidence("command", "npu-smi info", text=f"{device.label} {device.name}, {device.total_mb} MB"),
                ),
                label=device.label,
                total=device.total_mb,
            )


@host_check(
    Rule(
        id="ENV-NPU-017",
        name="too-few-devices",
        severity=Severity.ERROR,
        category="device-unavailable",
        title=Text(
            "The job wants {wanted} devices, this machine shows {count}",
            "任务需要 {wanted} 个设备，本机只有 {count} 个",
        ),
        why=Text(
            'Ranks beyond the last device stop with "device id is invalid" (107001).',
            "超出的进程会报 “device id is invalid”（107001）。",
        ),
        fix=Text("Lower the number of workers, or map more devices.", "减少进程数，或映射更多设备。"),
        verify="npu-smi info -l",
        confidence=0.9,
    )
)
def too_few_devices(host: Host) -> Iterator[Finding]:
    ascend_only(host)
    if host.wanted is None:
        raise Skip(
            Text("the number of devices is not known; give --devices N", "不知道需要多少个设备，请加 --devices N")
        )
    if host.device_count is None:
        raise Skip(Text("neither npu-smi nor /dev shows a device", "npu-smi 和 /dev 都没有显示设备"))
    # Several nodes share the devices of a large job.
    if host.device_count < host.wanted and host.wanted <= 8:
        yield too_few_devices.finding(
            evidence=(Evidence("command", "npu-smi info", observed=host.device_count, expected=host.wanted),),
            wanted=host.wanted,
            count=host.device_count,
        )
