"""Which devices a process is shown: the variables that choose cards, and other devices beside them."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip
from doctor.checks.environment.host import Host
from doctor.checks.environment.subject import ascend_only, host_check, needs_environment
from doctor.checks.environment.wording import phrased
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule

WRONG_NAMES = ("NPU_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES", "ASCEND_DEVICE_ID")


def visible_ids(value: str) -> tuple[list[int], list[str]]:
    """The ids of a list such as ``0,1,4-7`` and the pieces that are none."""
    ids: list[int] = []
    wrong: list[str] = []
    for piece in value.split(","):
        piece = piece.strip()
        low, dash, high = piece.partition("-")
        if piece.isdecimal() and len(piece) < 7:
            ids.append(int(piece))
        elif (
            dash
            and low.isdecimal()
            and high.isdecimal()
            and len(low) < 7
            and len(high) < 7
            and int(low) <= int(high) <= int(low) + 4096
        ):
            ids += range(int(low), int(high) + 1)
        else:
            wrong.append(piece)
    return ids, wrong


@host_check(
    Rule(
        id="ENV-VIS-001",
        name="visible-devices-invalid",
        severity=Severity.ERROR,
        category="env-var",
        title=Text("ASCEND_RT_VISIBLE_DEVICES={value} {problem}", "ASCEND_RT_VISIBLE_DEVICES={value} {problem}"),
        why=Text(
            'It takes logical ids, which count from 0 in this machine or container, not the NPU ids of npu-smi. A wrong id ends in "invalid device id" (107001) or '
            "hides every card.",
            "它使用逻辑 ID（在本机或本容器内从 0 数起），不是 npu-smi 显示的 NPU ID。填错会报 “invalid device id”（107001），或让所有卡都不可见。",
        ),
        fix=Text("Name existing logical ids, each once.", "填写存在的逻辑 ID，每个一次。"),
        verify="echo $ASCEND_RT_VISIBLE_DEVICES; npu-smi info -m",
        explains=("ENV-DEEP-001",),
    )
)
def visible_devices_invalid(host: Host) -> Iterator[Finding]:
    needs_environment(host)
    value = host.env.get("ASCEND_RT_VISIBLE_DEVICES")
    if value is None:
        if host.facts.at("env", "ASCEND_RT_VISIBLE_DEVICES").value != "":
            return
        value = ""
    ids, wrong = visible_ids(value)
    count = host.device_count
    if wrong:
        problem = Text(
            f"cannot be read at {wrong[0]!r}" if value else "is empty and hides every card",
            f"无法解析：{wrong[0]!r}" if value else "为空，所有卡都不可见",
        )
    elif len(set(ids)) != len(ids):
        problem = Text("names a card twice", "重复指定了同一张卡")
    elif count is not None and max(ids) >= count:
        problem = Text(
            f"names card {max(ids)}, but the logical ids end at {count - 1}",
            f"指定了卡 {max(ids)}，而逻辑 ID 最大为 {count - 1}",
        )
    elif host.wanted is not None and len(ids) < host.wanted <= 8:
        problem = Text(
            f"shows {len(ids)} cards, the job wants {host.wanted}",
            f"只有 {len(ids)} 张卡可见，而任务需要 {host.wanted} 张",
        )
    else:
        return
    good = ",".join(str(number) for number in sorted(set(ids)) if count is None or number < count) or ",".join(
        map(str, range(count or 8))
    )
    finding = visible_devices_invalid.finding(
        evidence=(
            Evidence(
                "value",
                "environment",
                key="ASCEND_RT_VISIBLE_DEVICES",
                text=f"ASCEND_RT_VISIBLE_DEVICES={value}",
                observed=value,
                expected=f"ids 0 to {count - 1}" if count else "ids",
            ),
        ),
        fixes=(
            Fix(
                visible_devices_invalid.rule.fix,
                command=f"export ASCEND_RT_VISIBLE_DEVICES={good}",
                applicability="unsafe",
                verify="npu-smi info -m",
            ),
        ),
        value=value,
    )
    yield phrased(finding, problem=problem)


@host_check(
    Rule(
        id="ENV-VIS-002",
        name="visible-devices-wrong-name",
        severity=Severity.WARNING,
        category="env-var",
        title=Text("{name}={value} has no effect on Ascend training", "{name}={value} 对昇腾训练不起作用"),
        why=Text(
            "MindSpore and CANN read ASCEND_RT_VISIBLE_DEVICES. With the other name all cards are used, among them those you meant to leave out.",
            "MindSpore 和 CANN 读取的是 ASCEND_RT_VISIBLE_DEVICES。写成别的名字时会使用所有卡，包括想避开的那些。",
        ),
        fix=Text("Use the name that is read.", "改用正确的变量名。"),
        verify="echo $ASCEND_RT_VISIBLE_DEVICES",
        references=(
            "https://github.com/vllm-project/vllm-ascend/issues/362",
            "https://github.com/hiyouga/LLaMA-Factory/issues/6428",
        ),
        confidence=0.9,
    )
)
def visible_devices_wrong_name(host: Host) -> Iterator[Finding]:
    ascend_only(host)
    needs_environment(host)
    if host.env.get("ASCEND_RT_VISIBLE_DEVICES"):
        return
    gpus = host.facts.integer("devices", "gpus") or 0
    for name in WRONG_NAMES:
        value = host.env.get(name)
        # The container runtime sets ASCEND_VISIBLE_DEVICES for itself; beside a GPU the CUDA name has a use.
        if value is None or (name == "ASCEND_VISIBLE_DEVICES" and host.container) or (name.startswith("CUDA") and gpus):
            continue
        yield visible_devices_wrong_name.finding(
            evidence=(Evidence("value", "environment", key=name, text=f"{name}={value}", observed=value),),
            fixes=(
                Fix(
                    visible_devices_wrong_name.rule.fix,
                    command=f"unset {name}; export ASCEND_RT_VISIBLE_DEVICES={value}",
                    applicability="unsafe",
                    verify="echo $ASCEND_RT_VISIBLE_DEVICES",
                ),
            ),
            name=name,
            value=value,
        )


@host_check(
    Rule(
        id="ENV-VIS-003",
        name="device-id-out-of-range",
        severity=Severity.ERROR,
        category="env-var",
        title=Text("DEVICE_ID={value} names no card of this machine", "DEVICE_ID={value} 在本机没有对应的卡"),
        why=Text(
            'It counts the visible cards from 0 ({count} here); the process stops with "invalid device id" (107001).',
            "它在可见的卡里从 0 数起（此处 {count} 张）；进程会报 “invalid device id”（107001）。",
        ),
        fix=Text("Set it below the number of visible cards.", "把它设为小于可见卡数的值。"),
        verify="echo $DEVICE_ID",
    )
)
def device_id_out_of_range(host: Host) -> Iterator[Finding]:
    needs_environment(host)
    value = host.env.get("DEVICE_ID")
    if value is None:
        return
    count = host.device_count
    if count is None:
        raise Skip(Text("the number of devices is not known", "不知道设备数量"))
    visible, wrong = (
        visible_ids(host.env["ASCEND_RT_VISIBLE_DEVICES"]) if host.env.get("ASCEND_RT_VISIBLE_DEVICES") else ([], [])
    )
    if visible and not wrong:
        count = len(visible)
    if value.isdecimal() and len(value) < 7 and int(value) < count:
        return
    yield device_id_out_of_range.finding(
        evidence=(
            Evidence(
                "value",
                "environment",
                key="DEVICE_ID",
                text=f"DEVICE_ID={value}",
                observed=value,
                expected=f"0 to {count - 1}",
            ),
        ),
        fixes=(
            Fix(
                device_id_out_of_range.rule.fix,
                command="export DEVICE_ID=0",
                applicability="unsafe",
                verify="echo $DEVICE_ID",
            ),
        ),
        value=value,
        count=count,
    )


@host_check(
    Rule(
        id="ENV-VIS-004",
        name="gpu-beside-npu",
        severity=Severity.INFO,
        category="config",
        title=Text("{gpus} NVIDIA GPU(s) stand beside the NPUs", "本机除 NPU 外还有 {gpus} 块 NVIDIA GPU"),
        why=Text(
            "MindSpore does not necessarily choose Ascend by itself when several back ends load; a job then runs on the other device or on the CPU.",
            "多个后端都能加载时，MindSpore 不一定自动选择 Ascend，任务可能跑在别的设备或 CPU 上。",
        ),
        fix=Text("Name the device target.", "明确指定 device_target。"),
        verify="python -c \"import mindspore as ms; ms.set_device('Ascend'); print(ms.get_context('device_target'))\"",
        confidence=0.7,
    )
)
def gpu_beside_npu(host: Host) -> Iterator[Finding]:
    gpus = host.facts.integer("devices", "gpus")
    if gpus is None:
        raise Skip(Text("the PCI bus was not examined", "没有检查 PCI 总线"))
    if gpus > 0 and host.has_hardware:
        yield gpu_beside_npu.finding(evidence=(Evidence("file", "/sys/bus/pci/devices", observed=gpus),), gpus=gpus)
