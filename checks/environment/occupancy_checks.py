"""Is the memory of the cards free: the idle baseline, processes, and what a container cannot see."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip
from doctor.checks.environment.card_checks import logic_id
from doctor.checks.environment.host import Device, Host, Process
from doctor.checks.environment.smi_checks import needs_devices, needs_whole_table
from doctor.checks.environment.subject import host_check
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule

_VISIBLE = Text(
    "An ordinary container shows only its own processes: other containers' are not in the table.",
    "普通容器里只能看到自己的进程，看不到其他容器的。",
)


@host_check(
    Rule(
        id="ENV-NPU-010",
        name="device-memory-taken",
        severity=Severity.WARNING,
        category="device-unavailable",
        title=Text(
            "{cards}: up to {used_gb:.1f} of {total_gb:.0f} GB in use{by}",
            "{cards}：最多已占用显存 {used_gb:.1f} / {total_gb:.0f} GB{by}",
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
    unknown = [device.label for device in devices if device.used_mb is None or not device.total_mb]
    busy = [device for device in devices if _is_taken(host, device)]
    if unknown and not busy:
        names = ", ".join(unknown)
        raise Skip(Text(f"npu-smi shows no memory figures for {names}", f"npu-smi 没有给出 {names} 的显存数据"))
    if not busy:
        needs_whole_table(host)
        return
    free = [device for device in devices if device not in busy and (device.health or "OK").upper() == "OK"]
    own = [process for device in busy for process in processes_of(host, device)]
    unseen = [device for device in busy if not processes_of(host, device)]
    short = not free or (host.wanted is not None and len(free) < host.wanted)
    finding = device_memory_taken.finding(
        device_memory_taken.rule.why + (_unseen(host, unseen) if unseen else Text("", "")),
        evidence=[
            *(
                Evidence(
                    "command",
                    "npu-smi info",
                    text=f"{device.label}: {device.used_mb} / {device.total_mb} MB",
                    observed=device.used_mb,
                    expected=f"<= {idle_mb(device)}",
                )
                for device in busy
            ),
            *(
                Evidence(
                    "command",
                    "npu-smi info",
                    note=Text(
                        f"process {p.name or '?'}, pid {p.pid}, {p.memory_mb} MB",
                        f"进程 {p.name or '?'}，pid {p.pid}，{p.memory_mb} MB",
                    ),
                )
                for p in own[:16]
            ),
        ],
        severity=Severity.ERROR if short else Severity.WARNING,
        confidence=0.85 if unseen else 0.9,
        fixes=_ways_out(host, free, own),
        cards=", ".join(device.label for device in busy),
        used_gb=max(device.used_mb or 0 for device in busy) / 1024,
        total_gb=(busy[0].total_mb or 0) / 1024,
        idle_gb=idle_mb(busy[0]) / 1024,
        by=f" ({own[0].name or '?'}, pid {own[0].pid})" if own else "",
    )
    yield finding


def processes_of(host: Host, device: Device) -> list[Process]:
    return [p for p in host.processes if p.npu_id == device.npu_id and (p.chip_id or 0) == (device.chip_id or 0)]


def idle_mb(device: Device) -> int:
    """What an idle card of the kind has in use: driver and firmware."""
    return device.card.idle_mb if device.card is not None else 4096


def _is_taken(host: Host, device: Device) -> bool:
    """Above the idle baseline by a twentieth of the card, or a process holds that much: a stray context costs less."""
    if device.used_mb is None or not device.total_mb:
        return False
    held = sum(process.memory_mb or 0 for process in processes_of(host, device))
    return device.used_mb > idle_mb(device) + device.total_mb // 20 or held > device.total_mb // 20


def _unseen(host: Host, devices: list[Device]) -> Text:
    cards = ", ".join(device.label for device in devices)
    english = f" No process is shown for {cards}" + (
        f". {_VISIBLE.en}" if host.container else ": it belongs to a container, or is left over from one that died."
    )
    chinese = f" {cards} 没有列出占用进程" + (
        f"。{_VISIBLE.zh}" if host.container else "：可能属于某个容器，或是异常退出后的残留。"
    )
    return Text(english, chinese)


def _ways_out(host: Host, free: list[Device], own: list[Process]) -> list[Fix]:
    fixes = []
    if free:
        ids = ",".join(str(logic_id(host, item)) for item in free)
        fixes.append(
            Fix(
                Text("Use the free cards.", "使用空闲的卡。"),
                command=f"export ASCEND_RT_VISIBLE_DEVICES={ids}",
                applicability="unsafe",
                verify="npu-smi info",
            )
        )
    pids = [str(process.pid) for process in own if process.pid is not None]
    if pids:
        fixes.append(
            Fix(
                Text("Look whose process it is before ending it.", "结束之前先确认进程属于谁。"),
                command=f"ps -o user,pid,lstart,cmd -p {','.join(pids[:16])}",
                verify="npu-smi info",
            )
        )
    if not fixes:
        command = "ps -ef | grep -E 'python|mindspore|msrun'"
        fixes.append(Fix(device_memory_taken.rule.fix, command=command, verify="npu-smi info"))
    return fixes
