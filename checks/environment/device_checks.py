"""Device nodes, permissions and the driver's own record: what stands between a process and the card."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip
from doctor.checks.environment.fields import Fields
from doctor.checks.environment.host import Host
from doctor.checks.environment.npu_checks import container_command
from doctor.checks.environment.subject import ascend_only, host_check
from doctor.checks.environment.wording import phrased
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule


@host_check(
    Rule(
        id="ENV-DEV-001",
        name="device-nodes-missing",
        severity=Severity.ERROR,
        category="device-unavailable",
        title=Text("Device nodes are missing: {what}", "缺少设备节点：{what}"),
        why=Text(
            "Without /dev/davinciN and the control nodes no process can open a card. A container gets them only when it is started with them.",
            "没有 /dev/davinciN 和管理节点，任何进程都无法打开卡。容器只有在启动时映射了才有。",
        ),
        fix=Text(
            "Start the container with the devices, or load the driver on the host.",
            "启动容器时映射设备，或在物理机上加载驱动。",
        ),
        verify="ls -l /dev/davinci*",
        references=("https://github.com/vllm-project/vllm-ascend/issues/2698",),
        explains=(
            "ENV-NPU-001",
            "ENV-NPU-005",
            "ENV-DEEP-001",
        ),
    )
)
def device_nodes_missing(host: Host) -> Iterator[Finding]:
    ascend_only(host)
    if host.facts.flag("devices", "dev_readable") is not True:
        raise Skip(Text("/dev was not examined", "没有检查 /dev"))
    control = host.facts.at("devices", "control").value
    absent = [
        name
        for name in ("davinci_manager", "hisi_hdc")
        if isinstance(control, dict) and name in control and control[name] is None
    ]
    if host.node_ids:
        if not absent:
            return
        what = ", ".join(f"/dev/{name}" for name in absent)
    elif host.devices:
        return  # npu-smi sees cards by another way than /dev
    else:
        sourced = host.cann.flag("sourced") or host.pci_count or host.driver_version
        what = "/dev/davinci*"
        if not sourced:
            raise Skip(Text("nothing says that this machine should have devices", "没有迹象表明本机应当有设备"))
    compile_only = not host.node_ids and not host.pci_count and not host.driver_version
    yield device_nodes_missing.finding(
        evidence=(
            Evidence(
                "file", "/dev", text=f"davinci nodes: {', '.join(map(str, host.node_ids)) or 'none'}; absent: {what}"
            ),
            *([Evidence("value", "container", text=host.container)] if host.container else []),
        ),
        severity=Severity.WARNING if compile_only and not host.container else Severity.ERROR,
        confidence=0.8 if compile_only else 0.95,
        fixes=(
            Fix(
                device_nodes_missing.rule.fix,
                command=container_command(host) if host.container else "lsmod | grep drv_ && ls -l /dev/davinci*",
                verify="ls -l /dev/davinci*",
            ),
        ),
        what=what,
    )


@host_check(
    Rule(
        id="ENV-DEV-002",
        name="device-nodes-not-permitted",
        severity=Severity.ERROR,
        category="permissions",
        title=Text("User {user} may not open {node}", "用户 {user} 无权打开 {node}"),
        why=Text(
            "The node is {mode} of group {group} ({gid}); the process is not in that group. In a container the number of the group counts, not its name.",
            "该节点权限为 {mode}，属组 {group}（{gid}），而进程不在该组。容器里起作用的是组号，不是组名。",
        ),
        fix=Text(
            "Join the group and log in again; in a container add --group-add.",
            "加入该组并重新登录；容器请加 --group-add。",
        ),
        verify="test -r {node} -a -w {node} && echo ok",
        references=("https://github.com/vllm-project/vllm-ascend/issues/9490",),
        explains=(
            "ENV-NPU-001",
            "ENV-DEEP-001",
        ),
    )
)
def device_nodes_not_permitted(host: Host) -> Iterator[Finding]:
    ascend_only(host)
    nodes = [*host.facts.rows("devices", "davinci"), *host.facts.objects("devices", "control").values()]
    judged = [node for node in nodes if node.flag("read") is not None and node.flag("write") is not None]
    if not judged:
        raise Skip(Text("there are no device nodes", "没有设备节点"))
    closed = [node for node in judged if not (node.flag("read") and node.flag("write"))]
    if not closed:
        return
    node = closed[0]
    gid, group = node.integer("gid"), node.text("group")
    path = node.text("path") or "/dev/davinci*"
    user = host.system.text("user", "name") or host.system.text("user", "uid") or "?"
    command = f"docker run --group-add {gid} …" if host.container else f"sudo usermod -aG {group or gid} {user}"
    yield device_nodes_not_permitted.finding(
        evidence=tuple(
            Evidence(
                "file",
                item.text("path") or "?",
                text=f"mode {item.text('mode')}, uid {item.integer('uid')}, gid {item.integer('gid')}",
                observed=_rights(item),
                expected="read and write",
            )
            for item in closed[:4]
        ),
        fixes=(
            Fix(device_nodes_not_permitted.rule.fix, command=command, verify=f"test -r {path} -a -w {path} && echo ok"),
        ),
        user=user,
        node=path if len(closed) == 1 else f"{path} and {len(closed) - 1} more",
        mode=node.text("mode") or "?",
        group=group or "?",
        gid=gid,
    )


def _rights(node: Fields) -> str:
    rights = [name for name in ("read", "write") if node.flag(name)]
    return " and ".join(rights) or "neither"


@host_check(
    Rule(
        id="ENV-DEV-003",
        name="user-without-passwd-entry",
        severity=Severity.WARNING,
        category="permissions",
        title=Text("User id {uid} has no name in /etc/passwd", "用户 ID {uid} 在 /etc/passwd 中没有条目"),
        why=Text(
            "Starting several cards fails in a container whose user id has no passwd entry: the driver asks for the user's name.",
            "容器里用户 ID 没有 passwd 条目时，多卡启动会失败：驱动要查询用户名。",
        ),
        fix=Text(
            "Add an entry, or start the container with a user that has one.", "添加条目，或用有条目的用户启动容器。"
        ),
        verify="id -un",
        references=("https://github.com/vllm-project/vllm-ascend/issues/9490",),
    )
)
def user_without_passwd_entry(host: Host) -> Iterator[Finding]:
    ascend_only(host)
    known = host.system.flag("user", "in_passwd")
    uid = host.system.integer("user", "uid")
    if known is None or uid is None:
        raise Skip(Text("the user is not known", "不知道当前用户"))
    if not known:
        yield user_without_passwd_entry.finding(
            evidence=(Evidence("file", "/etc/passwd", text=f"no entry for uid {uid}"),),
            fixes=(
                Fix(
                    user_without_passwd_entry.rule.fix,
                    command=f"echo 'train:x:{uid}:{host.system.integer('user', 'gid') or uid}::/tmp:/bin/bash' | sudo tee -a /etc/passwd",
                    verify="id -un",
                ),
            ),
            uid=uid,
        )


@host_check(
    Rule(
        id="ENV-DRV-003",
        name="driver-record-missing",
        severity=Severity.WARNING,
        category="install",
        title=Text("/etc/ascend_install.info {problem}", "/etc/ascend_install.info {problem}"),
        why=Text(
            "CANN finds the driver through its line Driver_Install_Path_Param; without it the default /usr/local/Ascend is taken, and set_env.sh "
            "ends silently in a shell with `set -e`.",
            "CANN 通过其中的 Driver_Install_Path_Param 找到驱动；缺失时只用默认的 /usr/local/Ascend，而且在 `set -e` 的脚本里 set_env.sh 会静默退出。",
        ),
        fix=Text("Map the file into the container, or reinstall the driver.", "把该文件映射进容器，或重装驱动。"),
        verify="grep Driver_Install_Path_Param /etc/ascend_install.info",
        confidence=0.8,
    )
)
def driver_record_missing(host: Host) -> Iterator[Finding]:
    ascend_only(host)
    info = host.driver.at("install_info")
    if info.flag("present") is None:
        raise Skip(Text("the driver's record was not looked for", "没有检查驱动安装记录"))
    # Without cards or driver its absence is no news.
    if not host.has_hardware and not host.driver_version:
        raise Skip(Text("no driver is installed", "没有安装驱动"))
    if not info.flag("present"):
        problem = Text("is not there", "不存在")
    elif not info.flag("readable"):
        problem = Text("cannot be read", "无法读取")
    elif info.text("driver_path") is None:
        problem = Text("has no line Driver_Install_Path_Param", "缺少 Driver_Install_Path_Param 一行")
    else:
        return
    finding = driver_record_missing.finding(
        evidence=(Evidence("file", "/etc/ascend_install.info", text=problem.en),),
        fixes=(
            Fix(
                driver_record_missing.rule.fix,
                command="docker run -v /etc/ascend_install.info:/etc/ascend_install.info:ro …"
                if host.container
                else "echo Driver_Install_Path_Param=/usr/local/Ascend | sudo tee -a /etc/ascend_install.info",
                verify="grep Driver_Install_Path_Param /etc/ascend_install.info",
            ),
        ),
    )
    yield phrased(finding, problem=problem)


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
