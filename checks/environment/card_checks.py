"""Are the cards well, all there, and able to train."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip
from doctor.checks.environment.host import Device, Host
from doctor.checks.environment.smi_checks import needs_devices, needs_whole_table
from doctor.checks.environment.subject import ascend_only, host_check
from doctor.checks.environment.wording import phrased
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule


def logic_id(host: Host, device: Device) -> int:
    """The number that ASCEND_RT_VISIBLE_DEVICES counts by: the mapping's, else the place in the table."""
    for row in host.npu.rows("mapping"):
        if row.integer("npu_id") == device.npu_id and row.integer("chip_id") == (device.chip_id or 0):
            number = row.integer("logic_id")
            if number is not None:
                return number
    return host.devices.index(device)


#: health that is no fault
_WELL = {"OK", "NA", "-", "NORMAL"}


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
    unknown = [device.label for device in devices if (device.health or "NA").upper() in {"NA", "-"}]
    if unknown and all((device.health or "OK").upper() in _WELL for device in devices):
        names = ", ".join(unknown)
        raise Skip(Text(f"npu-smi shows no health for {names}", f"npu-smi 没有给出 {names} 的健康状态"))
    alarms = {
        (row.integer("npu_id"), row.integer("chip_id") or 0): row
        for row in host.npu.rows("alarms")
        if row.text("code") or row.text("information")
    }
    well = [device for device in devices if (device.health or "OK").upper() == "OK"]
    if len(well) == len(devices):
        needs_whole_table(host)
    for device in devices:
        health = device.health or "OK"
        if health.upper() in _WELL:
            continue
        alarm = alarms.get((device.npu_id, device.chip_id or 0))
        code = (
            " / ".join(part for part in (alarm.text("code"), alarm.text("information")) if part)
            if alarm is not None
            else ""
        )
        fixes = []
        if well:
            ids = ",".join(str(logic_id(host, item)) for item in well)
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
    needs_whole_table(host)
    if not host.node_ids:
        raise Skip(Text("no device nodes to compare with", "没有可对照的设备节点"))
    if len(host.node_ids) > seen:
        missing = sorted(
            set(host.node_ids)
            - {device.physical_id if device.physical_id is not None else device.npu_id for device in devices}
        )
        yield npu_dropped.finding(
            evidence=(
                Evidence(
                    "file",
                    "/dev",
                    note=Text("davinci nodes: ", "davinci 节点：") + _both(", ".join(map(str, host.node_ids))),
                ),
                Evidence(
                    "command",
                    "npu-smi info",
                    note=Text(f"{seen} devices", f"{seen} 个设备")
                    + (
                        Text("; not there: ", "；缺少：") + _both(", ".join(map(str, missing)))
                        if missing
                        else _both("")
                    ),
                ),
            ),
            fixes=fixes,
            seen=seen,
            nodes=len(host.node_ids),
        )


def _both(text: str) -> Text:
    """Figures and names, which read alike in both languages."""
    return Text(text, text)


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
    rows = [row for part in ("ecc", "alarms") for row in host.npu.rows(part) if row.pairs("double_bit")]
    if not rows:
        raise Skip(Text("npu-smi did not tell the error counters", "npu-smi 没有给出错误计数"))
    for row in rows:
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
