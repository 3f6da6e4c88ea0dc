"""The launcher's variables, the scheduler's address and its port."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip
from doctor.checks.environment.host import Host
from doctor.checks.environment.subject import host_check
from doctor.checks.environment.wording import phrased, said
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule

_DYNAMIC = "https://www.mindspore.cn/tutorials/en/stable/parallel/dynamic_cluster.html"
_FAQ = "https://www.mindspore.cn/docs/en/stable/faq/distributed_parallel.html"


def variable(host: Host, name: str) -> Evidence:
    value = host.env.get(name)
    return Evidence(
        "value",
        "environment",
        key=name,
        text=f"{name}={value}",
        note=Text(f"{name} is not set", f"没有设置 {name}") if value is None else None,
        observed=value,
    )


@host_check(
    Rule(
        id="ENV-LAUN-001",
        name="launcher-variables-inconsistent",
        severity=Severity.ERROR,
        category="distributed-launch",
        title=Text("Launcher variables: {problem}", "启动变量有误：{problem}"),
        why=Text(
            "Scheduler and workers find each other by MS_ROLE, MS_SCHED_HOST, MS_SCHED_PORT and MS_WORKER_NUM, which must be the same in all processes, or the networking fails.",
            "调度进程和工作进程靠 MS_ROLE、MS_SCHED_HOST、MS_SCHED_PORT、MS_WORKER_NUM 互相发现，这些值在所有进程中必须一致，否则组网失败。",
        ),
        fix=Text("Let msrun set them, or set all of them alike.", "交给 msrun 设置，或在所有进程中设置一致。"),
        verify="env | grep ^MS_",
        references=(_DYNAMIC,),
    )
)
def launcher_variables_inconsistent(host: Host) -> Iterator[Finding]:
    env = host.env
    names = ("MS_ROLE", "MS_WORKER_NUM", "MS_SCHED_HOST", "MS_SCHED_PORT")
    present = [name for name in (*names, "MASTER_PORT", "WORLD_SIZE") if name in env]
    if not present:
        raise Skip(Text("no launcher variables are set", "没有设置启动变量"))
    problems: list[tuple[str, Text]] = []
    role = env.get("MS_ROLE")
    if role is not None and role not in {"MS_SCHED", "MS_WORKER", "MS_PSERVER"}:
        problems.append(
            (
                "MS_ROLE",
                Text(
                    f"MS_ROLE={role} is none of MS_SCHED, MS_WORKER, MS_PSERVER",
                    f"MS_ROLE={role} 不是 MS_SCHED、MS_WORKER、MS_PSERVER 之一",
                ),
            )
        )
    if role is not None:
        for name in names[1:]:
            if name not in env:
                problems.append((name, Text(f"MS_ROLE is set, {name} is not", f"设置了 MS_ROLE，但没有 {name}")))
    for name in ("MS_WORKER_NUM", "WORLD_SIZE"):
        value = env.get(name)
        if value is not None and not (value.isdecimal() and int(value[:9]) > 0):
            problems.append((name, Text(f"{name}={value} is not a number of workers", f"{name}={value} 不是进程数")))
    for name in ("MS_SCHED_PORT", "MASTER_PORT"):
        port = env.get(name)
        if port is not None and not (port.isdecimal() and 0 < int(port[:9]) < 65536):
            problems.append((name, Text(f"{name}={port} is not a port", f"{name}={port} 不是端口号")))
    number = env.get("MS_WORKER_NUM")
    node = env.get("MS_NODE_ID")
    if (
        node is not None
        and number is not None
        and node.isdecimal()
        and number.isdecimal()
        and int(node[:9]) >= int(number[:9])
    ):
        problems.append(
            (
                "MS_NODE_ID",
                Text(
                    f"MS_NODE_ID={node}, but MS_WORKER_NUM={number} ends at {int(number[:9]) - 1}",
                    f"MS_NODE_ID={node}，而 MS_WORKER_NUM={number}，最大只能是 {int(number[:9]) - 1}",
                ),
            )
        )
    rank, size = env.get("RANK_ID"), env.get("RANK_SIZE")
    if (
        rank is not None
        and size is not None
        and rank.isdecimal()
        and size.isdecimal()
        and int(rank[:9]) >= int(size[:9])
    ):
        problems.append(
            (
                "RANK_ID",
                Text(f"RANK_ID={rank} is not below RANK_SIZE={size}", f"RANK_ID={rank} 应小于 RANK_SIZE={size}"),
            )
        )
    if (
        number is not None
        and size is not None
        and number.isdecimal()
        and size.isdecimal()
        and int(number[:9]) != int(size[:9])
    ):
        problems.append(
            (
                "RANK_SIZE",
                Text(
                    f"RANK_SIZE={size} and MS_WORKER_NUM={number} differ",
                    f"RANK_SIZE={size} 与 MS_WORKER_NUM={number} 不一致",
                ),
            )
        )
    for name, problem in problems:
        yield phrased(
            launcher_variables_inconsistent.finding(
                evidence=(variable(host, name),),
                fixes=(
                    Fix(
                        launcher_variables_inconsistent.rule.fix,
                        command="unset MS_ROLE MS_WORKER_NUM MS_SCHED_HOST MS_SCHED_PORT MS_NODE_ID RANK_ID RANK_SIZE",
                        applicability="unsafe",
                        verify="env | grep ^MS_",
                    ),
                ),
            ),
            problem=problem,
        )


@host_check(
    Rule(
        id="ENV-LAUN-002",
        name="scheduler-port-in-use",
        severity=Severity.ERROR,
        category="distributed-launch",
        title=Text("The scheduler's port {port} is in use", "调度端口 {port} 已被占用"),
        why=Text(
            'Another job, or one that did not end, holds it: the scheduler stops with "Failed to bind" or the workers join the wrong job.',
            "另一个任务或残留进程占用了它：调度进程会绑定失败，或工作进程连到别的任务。",
        ),
        fix=Text("End the left-over job, or take another port.", "结束残留任务，或换一个端口。"),
        verify="ss -ltnp | grep :{port}",
        false_positives=Text(
            "While the job itself is running, its own scheduler holds the port.",
            "任务正在运行时，端口就是它自己的调度进程占用的。",
        ),
        confidence=0.8,
    )
)
def scheduler_port_in_use(host: Host) -> Iterator[Finding]:
    master = host.facts.at("launch", "master")
    state, port = master.text("port_state"), master.integer("port")
    default = host.facts.text("launch", "default_port_state")
    if state is None and default is None:
        raise Skip(Text("no scheduler port is set for this host", "没有为本机设置调度端口"))
    if state is None:
        state, port = default, 8118
    if state != "in use" or host.env.get("MS_ROLE") == "MS_WORKER":
        return
    port = port or 0
    free = port + 1 if port < 65535 else 8118
    chosen = "MS_SCHED_PORT" in host.env or "MASTER_PORT" in host.env
    yield scheduler_port_in_use.finding(
        evidence=(
            Evidence(
                "value",
                "environment",
                key="MS_SCHED_PORT",
                note=Text(f"binding to port {port} says: in use", f"绑定端口 {port} 时提示已被占用"),
            ),
        ),
        severity=Severity.ERROR if chosen else Severity.WARNING,
        fixes=(
            Fix(
                scheduler_port_in_use.rule.fix,
                command=f"export MS_SCHED_PORT={free}" if chosen else f"msrun --master_port={free} …",
                applicability="unsafe",
                verify=f"ss -ltnp | grep :{port}",
            ),
        ),
        port=port,
    )


@host_check(
    Rule(
        id="ENV-LAUN-003",
        name="master-address-unresolved",
        severity=Severity.ERROR,
        category="distributed-launch",
        title=Text("The master address {host} does not resolve", "主节点地址 {host} 无法解析"),
        why=Text(
            '{error}. Workers stop with "DNS resolution failed: [Errno -2] Name or service not known".',
            "{error}。工作进程会报 “DNS resolution failed: [Errno -2] Name or service not known”。",
        ),
        fix=Text(
            "Use the address, or add the name to /etc/hosts on every node.",
            "改用 IP 地址，或在每个节点的 /etc/hosts 中添加该主机名。",
        ),
        verify="getent hosts {host}",
        references=(_FAQ,),
    )
)
def master_address_unresolved(host: Host) -> Iterator[Finding]:
    master = host.facts.at("launch", "master")
    name = master.text("host")
    if name is None:
        raise Skip(Text("no master address is set", "没有设置主节点地址"))
    error = master.text("resolve_error")
    if error is None:
        return
    finding = master_address_unresolved.finding(
        evidence=(
            Evidence("value", "environment", key="MS_SCHED_HOST", note=Text(f"{name}: ", f"{name}：") + said(error)),
        ),
        fixes=(
            Fix(
                master_address_unresolved.rule.fix,
                command=f"echo '<address> {name}' | sudo tee -a /etc/hosts",
                verify=f"getent hosts {name}",
            ),
        ),
        host=name,
    )
    yield phrased(finding, error=said(error))


@host_check(
    Rule(
        id="ENV-LAUN-006",
        name="node-timeout-too-short",
        severity=Severity.WARNING,
        category="distributed-launch",
        title=Text(
            "MS_NODE_TIMEOUT is {value} s for {ranks} ranks", "{ranks} 个进程而 MS_NODE_TIMEOUT 只有 {value} 秒"
        ),
        why=Text(
            'Above 128 devices the ranks take longer than the default 200 s to come up: "Failed to fetch the unique id of the collective lib from the meta server node".',
            "超过 128 卡时，各进程就绪往往超过默认的 200 秒：会报 “Failed to fetch the unique id of the collective lib from the meta server node”。",
        ),
        fix=Text("Set 900 to 1800 seconds on all nodes.", "在所有节点设为 900 到 1800 秒。"),
        verify="echo $MS_NODE_TIMEOUT",
        references=(_FAQ,),
        confidence=0.8,
    )
)
def node_timeout_too_short(host: Host) -> Iterator[Finding]:
    if host.ranks is None:
        raise Skip(Text("the number of ranks is not set", "没有设置进程数"))
    value = host.env.get("MS_NODE_TIMEOUT", "200")
    if host.ranks > 128 and (not value.isdecimal() or int(value[:9]) < 900):
        yield node_timeout_too_short.finding(
            evidence=(variable(host, "MS_NODE_TIMEOUT"),),
            fixes=(
                Fix(
                    node_timeout_too_short.rule.fix,
                    command="export MS_NODE_TIMEOUT=900",
                    applicability="safe",
                    verify="echo $MS_NODE_TIMEOUT",
                ),
            ),
            value=value,
            ranks=host.ranks,
        )
