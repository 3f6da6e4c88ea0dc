"""Device nodes, permissions and the driver's own record: what stands between a process and the card."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip
from doctor.checks.environment.fields import Fields
from doctor.checks.environment.host import Host
from doctor.checks.environment.smi_checks import container_command
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
    if host.facts.flag("devices", "dev_readable") is not True or not isinstance(
        host.facts.at("devices", "davinci").value, list
    ):
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
                "file",
                "/dev",
                note=Text(
                    f"davinci nodes: {', '.join(map(str, host.node_ids)) or 'none'}; absent: {what}",
                    f"davinci 节点：{', '.join(map(str, host.node_ids)) or '无'}；缺少：{what}",
                ),
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
        title=Text("User {user} may not open {nodes}", "用户 {user} 无权打开 {nodes}"),
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
    finding = device_nodes_not_permitted.finding(
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
        node=path,
        mode=node.text("mode") or "?",
        group=group or "?",
        gid=gid,
    )
    more = len(closed) - 1
    which = Text(f"{path} and {more} more", f"{path} 等 {more + 1} 个节点") if more else Text(path, path)
    yield phrased(finding, nodes=which)


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
            evidence=(Evidence("file", "/etc/passwd", note=Text(f"no entry for uid {uid}", f"没有 uid {uid} 的条目")),),
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
        evidence=(Evidence("file", "/etc/ascend_install.info", note=problem),),
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
