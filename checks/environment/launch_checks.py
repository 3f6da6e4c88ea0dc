"""The launcher and HCCL, from variables and files alone: rank table, msrun, host file, ports, time-outs, NPU ports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Optional

from doctor.check import Skip
from doctor.checks.environment.fields import Fields
from doctor.checks.environment.host import Host
from doctor.checks.environment.subject import ascend_only, host_check
from doctor.checks.environment.wording import phrased, said
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule

_DYNAMIC = "https://www.mindspore.cn/tutorials/en/stable/parallel/dynamic_cluster.html"
_RANK_TABLE = "https://www.mindspore.cn/tutorials/en/stable/parallel/rank_table.html"
_FAQ = "https://www.mindspore.cn/docs/en/stable/faq/distributed_parallel.html"
_MF_ENV = "https://www.mindspore.cn/mindformers/docs/en/stable/env_variables.html"


def variable(host: Host, name: str) -> Evidence:
    value = host.env.get(name)
    return Evidence(
        "value",
        "environment",
        key=name,
        text=f"{name}={value}" if value is not None else f"{name} is not set",
        observed=value,
    )


def several_nodes(host: Host) -> Optional[bool]:
    """Whether the job spans nodes: by its rank table, host file or rank count; None when nothing says."""
    servers = list(host.facts.rows("launch", "rank_table", "servers"))
    if servers:
        return len(servers) > 1
    hosts = list(host.facts.rows("launch", "host_file", "hosts"))
    if len(hosts) > 1:
        return True
    if host.ranks is not None and host.device_count:
        return host.ranks > host.device_count
    return None


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
    present = [name for name in names if name in env]
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
    number = env.get("MS_WORKER_NUM")
    if number is not None and not (number.isdecimal() and int(number[:9]) > 0):
        problems.append(
            (
                "MS_WORKER_NUM",
                Text(f"MS_WORKER_NUM={number} is not a number of workers", f"MS_WORKER_NUM={number} 不是进程数"),
            )
        )
    port = env.get("MS_SCHED_PORT")
    if port is not None and not (port.isdecimal() and 0 < int(port[:9]) < 65536):
        problems.append(
            ("MS_SCHED_PORT", Text(f"MS_SCHED_PORT={port} is not a port", f"MS_SCHED_PORT={port} 不是端口号"))
        )
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
    state = master.text("port_state")
    if state is None:
        raise Skip(Text("no scheduler port is set for this host", "没有为本机设置调度端口"))
    if state != "in use" or host.env.get("MS_ROLE") == "MS_WORKER":
        return
    port = master.integer("port") or 0
    yield scheduler_port_in_use.finding(
        evidence=(Evidence("value", "environment", key="MS_SCHED_PORT", text=f"binding to port {port} says: in use"),),
        fixes=(
            Fix(
                scheduler_port_in_use.rule.fix,
                command=f"ss -ltnp | grep :{port}; export MS_SCHED_PORT={port + 1 if port < 65535 else 8118}",
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
        evidence=(Evidence("value", "environment", key="MS_SCHED_HOST", text=f"{name}: {error}"),),
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
        id="ENV-LAUN-004",
        name="rank-table-invalid",
        severity=Severity.ERROR,
        category="hccl-config",
        title=Text("The rank table {path} is wrong: {problem}", "rank table {path} 有误：{problem}"),
        why=Text(
            "HCCL builds its groups from this file; a wrong one ends in EI0004, EI0014 or a time-out while the groups are made.",
            "HCCL 根据该文件建立通信域；文件有误会报 EI0004、EI0014，或在建立通信域时超时。",
        ),
        fix=Text(
            "Generate it again from the machines as they are, or start with msrun, which needs none.",
            "按机器现状重新生成，或改用 msrun 启动（不需要 rank table）。",
        ),
        verify="python -m json.tool {path} > /dev/null && echo ok",
        references=(_RANK_TABLE,),
    )
)
def rank_table_invalid(host: Host) -> Iterator[Finding]:
    table = host.facts.at("launch", "rank_table")
    path = table.text("path")
    if path is None:
        raise Skip(Text("no rank table is named", "没有指定 rank table"))
    for key, problem in _table_problems(host, table):
        finding = rank_table_invalid.finding(
            evidence=(Evidence("file", path, key=key, text=problem.en),),
            fixes=(
                Fix(
                    rank_table_invalid.rule.fix,
                    command=f"unset {table.text('variable') or 'RANK_TABLE_FILE'}  # with msrun",
                    applicability="unsafe",
                    verify=f"python -m json.tool {path} > /dev/null && echo ok",
                ),
            ),
            path=path,
        )
        yield phrased(finding, problem=problem)


def _table_problems(host: Host, table: Fields) -> Iterator[tuple[str, Text]]:
    error = table.text("error")
    if error is not None:
        yield "file", said(error)
        return
    servers = list(table.rows("servers"))
    status, count = table.text("status"), table.text("server_count")
    if status != "completed":
        yield "status", Text(f"status is {status!r}, not completed", f"status 是 {status!r}，不是 completed")
    if count is None or not count.isdecimal() or int(count[:9]) != len(servers):
        yield (
            "server_count",
            Text(
                f"server_count is {count}, server_list holds {len(servers)}",
                f"server_count 是 {count}，而 server_list 有 {len(servers)} 项",
            ),
        )
    identities = [server.text("server_id") or "" for server in servers]
    if len(set(identities)) != len(identities):
        yield "server_id", Text("two servers have one server_id", "两个节点的 server_id 相同")
    ranks: list[tuple[int, int]] = []
    for place, server in enumerate(servers):
        devices = list(server.rows("devices"))
        if not devices:
            yield "device", Text(f"server {identities[place]} has no device", f"节点 {identities[place]} 没有设备")
        numbers = [device.text("device_id") for device in devices]
        if len(set(numbers)) != len(numbers):
            yield (
                "device_id",
                Text(f"server {identities[place]} names a device twice", f"节点 {identities[place]} 重复列出同一设备"),
            )
        for device in devices:
            rank = device.text("rank_id") or ""
            if not rank.isdecimal() or len(rank) > 7:
                yield "rank_id", Text(f"rank_id {rank!r} is not a number", f"rank_id {rank!r} 不是数字")
            else:
                ranks.append((int(rank), place))
            address = device.text("device_ip")
            if address is not None and not _is_address(address):
                yield (
                    "device_ip",
                    Text(f"device_ip {address!r} is not an address", f"device_ip {address!r} 不是 IP 地址"),
                )
    found = sorted(rank for rank, _ in ranks)
    if found != list(range(len(found))):
        yield (
            "rank_id",
            Text(f"rank ids are not 0 to {len(found) - 1}, each once", f"rank_id 应为 0 到 {len(found) - 1} 且不重复"),
        )
    else:
        names = [identities[place] for _, place in sorted(ranks)]
        ordered = table.flag("ordered")
        if ordered is False or (ordered is None and names != sorted(names)):
            yield (
                "rank_id",
                Text(
                    "rank ids do not follow the dictionary order of server_id",
                    "rank_id 的顺序与 server_id 的字典序不一致",
                ),
            )
    size = host.env.get("RANK_SIZE")
    if size is not None and size.isdecimal() and int(size[:9]) != len(ranks):
        yield (
            "rank_id",
            Text(f"it has {len(ranks)} ranks, RANK_SIZE={size}", f"其中有 {len(ranks)} 个 rank，而 RANK_SIZE={size}"),
        )
    yield from _local_problems(host, servers)


def _local_problems(host: Host, servers: list[Fields]) -> Iterator[tuple[str, Text]]:
    """What this host knows of itself: its device nodes and the addresses of its ports."""
    addresses = host.facts.pairs("hccn", "addresses")
    for server in servers:
        devices = list(server.rows("devices"))
        mine = len(servers) == 1 or any(
            device.text("device_ip") in addresses.values() for device in devices if device.text("device_ip")
        )
        if not mine:
            continue
        for device in devices:
            number, address = device.text("device_id") or "", device.text("device_ip")
            if host.node_ids and number.isdecimal() and int(number[:9]) not in host.node_ids:
                yield (
                    "device_id",
                    Text(
                        f"device_id {number} has no /dev/davinci{number} here",
                        f"device_id {number} 在本机没有 /dev/davinci{number}",
                    ),
                )
            known = addresses.get(number)
            if known is not None and address is not None and known != address:
                yield (
                    "device_ip",
                    Text(
                        f"device {number} has address {known} in /etc/hccn.conf, not {address}",
                        f"设备 {number} 在 /etc/hccn.conf 中的地址是 {known}，不是 {address}",
                    ),
                )


def _is_address(text: str) -> bool:
    parts = text.split(".")
    if len(parts) == 4:
        return all(part.isdecimal() and len(part) < 4 and int(part) < 256 for part in parts)
    return ":" in text and re.fullmatch(r"[0-9a-fA-F:.%\w]+", text) is not None


@host_check(
    Rule(
        id="ENV-LAUN-005",
        name="rank-table-left-over",
        severity=Severity.WARNING,
        category="hccl-config",
        title=Text("{variable} is set in a job that msrun starts", "msrun 启动的任务里还设置着 {variable}"),
        why=Text(
            "HCCL then builds its groups from the old file while the launcher counts ranks its own way.",
            "HCCL 会按旧文件建立通信域，而启动器用自己的方式编号，两者不一致。",
        ),
        fix=Text("Unset it.", "取消该变量。"),
        verify="env | grep -E 'RANK_TABLE_FILE|HCCL_CONFIG'",
        references=(_RANK_TABLE,),
        confidence=0.8,
    )
)
def rank_table_left_over(host: Host) -> Iterator[Finding]:
    name = host.facts.text("launch", "rank_table", "variable") or next(
        (one for one in ("RANK_TABLE_FILE", "MINDSPORE_HCCL_CONFIG_PATH") if one in host.env), None
    )
    if name is None:
        raise Skip(Text("no rank table is named", "没有指定 rank table"))
    if "MS_ROLE" in host.env or "MS_SCHED_HOST" in host.env:
        yield rank_table_left_over.finding(
            evidence=(variable(host, name), variable(host, "MS_SCHED_HOST")),
            fixes=(
                Fix(
                    rank_table_left_over.rule.fix,
                    command=f"unset {name}",
                    applicability="unsafe",
                    verify=rank_table_left_over.rule.verify,
                ),
            ),
            variable=name,
        )


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


@host_check(
    Rule(
        id="ENV-LAUN-007",
        name="host-file-invalid",
        severity=Severity.ERROR,
        category="distributed-launch",
        title=Text("The host file {path} is wrong: {problem}", "hostfile {path} 有误：{problem}"),
        why=Text("The launcher starts ranks where this file says.", "启动器按该文件决定在哪里启动进程。"),
        fix=Text("Write each host once, with its slots.", "每个主机写一行，并注明 slots。"),
        verify="cat {path}",
    )
)
def host_file_invalid(host: Host) -> Iterator[Finding]:
    table = host.facts.at("launch", "host_file")
    path = table.text("path")
    if path is None:
        raise Skip(Text("no host file is named", "没有指定 hostfile"))
    hosts = list(table.rows("hosts"))
    problems: list[tuple[Optional[int], Text]] = []
    error = table.text("error")
    if error is not None:
        problems.append((None, said(error)))
    elif not hosts:
        problems.append((None, Text("it names no host", "没有列出任何主机")))
    seen: dict[str, Optional[int]] = {}
    total = 0
    for row in hosts:
        name, slots, line = row.text("host") or "?", row.text("slots"), row.integer("line")
        if name in seen:
            problems.append(
                (
                    line,
                    Text(
                        f"{name} stands in lines {seen[name]} and {line}",
                        f"{name} 同时出现在第 {seen[name]} 行和第 {line} 行",
                    ),
                )
            )
        seen.setdefault(name, line)
        if slots is not None and not (slots.isdecimal() and int(slots[:6]) > 0):
            problems.append(
                (line, Text(f"slots={slots} of {name} is not a number", f"{name} 的 slots={slots} 不是数字"))
            )
        total += int(slots[:6]) if slots is not None and slots.isdecimal() else 1
    if (
        host.ranks is not None
        and hosts
        and not problems
        and all(row.text("slots") for row in hosts)
        and total < host.ranks
    ):
        problems.append(
            (
                None,
                Text(f"it has {total} slots for {host.ranks} ranks", f"共 {total} 个 slots，而有 {host.ranks} 个进程"),
            )
        )
    for line, problem in problems:
        yield phrased(
            host_file_invalid.finding(evidence=(Evidence("file", path, line=line, text=problem.en),), path=path),
            problem=problem,
        )


@host_check(
    Rule(
        id="ENV-HCCL-001",
        name="hccl-variable-out-of-range",
        severity=Severity.ERROR,
        category="hccl-config",
        title=Text("{name}={value} is outside {range}", "{name}={value} 超出范围 {range}"),
        why=Text(
            "HCCL refuses the value when the first group is made (EI0001), or falls back to its default without a word.",
            "HCCL 会在建立第一个通信域时拒绝该值（EI0001），或不加提示地改用默认值。",
        ),
        fix=Text("Set a value in the range, the same on all ranks.", "设置范围内的值，且所有进程一致。"),
        verify="echo ${name}",
        references=(_MF_ENV,),
    )
)
def hccl_variable_out_of_range(host: Host) -> Iterator[Finding]:
    judged = False
    for name, low, high, good in (
        ("HCCL_CONNECT_TIMEOUT", 120, 7200, 1800),
        ("HCCL_EXEC_TIMEOUT", 1, 17340, 3600),
        ("HCCL_BUFFSIZE", 1, None, 200),
    ):
        value = host.env.get(name)
        if value is None:
            continue
        judged = True
        number = int(value[:12]) if value.isdecimal() else None
        if number is not None and number >= low and (high is None or number <= high):
            continue
        bounds = f"[{low}, {high}]" if high is not None else f">= {low}"
        # Zero means "wait for ever" for the execution time-out of later releases.
        if name == "HCCL_EXEC_TIMEOUT" and number == 0:
            continue
        yield hccl_variable_out_of_range.finding(
            evidence=(
                Evidence("value", "environment", key=name, text=f"{name}={value}", observed=value, expected=bounds),
            ),
            fixes=(
                Fix(
                    hccl_variable_out_of_range.rule.fix,
                    command=f"export {name}={good}",
                    applicability="safe",
                    verify=f"echo ${name}",
                ),
            ),
            name=name,
            value=value,
            range=bounds,
        )
    if not judged:
        raise Skip(Text("no HCCL variable is set", "没有设置 HCCL 变量"))


@host_check(
    Rule(
        id="ENV-HCCL-002",
        name="hccl-timeout-default-in-large-job",
        severity=Severity.INFO,
        category="hccl-timeout",
        title=Text(
            "HCCL_CONNECT_TIMEOUT is {value} s for {ranks} ranks",
            "{ranks} 个进程而 HCCL_CONNECT_TIMEOUT 只有 {value} 秒",
        ),
        why=Text(
            'In large jobs ranks reach the first collective minutes apart (graph compile, loading weights): EI0006 "Getting socket times out".',
            "大规模任务中，各进程到达第一个集合通信的时间可能相差数分钟（图编译、加载权重）：会报 EI0006 “Getting socket times out”。",
        ),
        fix=Text("Allow more time, the same on all ranks.", "适当加大，且所有进程一致。"),
        verify="echo $HCCL_CONNECT_TIMEOUT",
        references=(_MF_ENV,),
        confidence=0.7,
    )
)
def hccl_timeout_default_in_large_job(host: Host) -> Iterator[Finding]:
    if host.ranks is None:
        raise Skip(Text("the number of ranks is not set", "没有设置进程数"))
    value = host.env.get("HCCL_CONNECT_TIMEOUT", "120")
    if host.ranks >= 64 and value.isdecimal() and int(value[:9]) < 600:
        yield hccl_timeout_default_in_large_job.finding(
            evidence=(variable(host, "HCCL_CONNECT_TIMEOUT"),),
            fixes=(
                Fix(
                    hccl_timeout_default_in_large_job.rule.fix,
                    command="export HCCL_CONNECT_TIMEOUT=1800",
                    applicability="safe",
                    verify="echo $HCCL_CONNECT_TIMEOUT",
                ),
            ),
            value=value,
            ranks=host.ranks,
        )


@host_check(
    Rule(
        id="ENV-HCCL-003",
        name="hccl-buffer-takes-much-memory",
        severity=Severity.WARNING,
        category="oom-device",
        title=Text(
            "HCCL_BUFFSIZE={value} takes {share:.0f} % of a card for each communication group",
            "HCCL_BUFFSIZE={value}：每个通信域占用一张卡 {share:.0f} % 的显存",
        ),
        why=Text(
            'Each group reserves twice this many MB (200 by default) beside the framework\'s pool; with data, model and pipeline groups little is left and even a small net stops with "device memory not enough".',
            "每个通信域按该值（MB，默认 200）在框架内存池之外预留收发缓冲；加上数据、模型、流水线并行多个通信域后所剩无几，小网络也会报 “device memory not enough”。",
        ),
        fix=Text("Go back to the default unless a measurement asks for more.", "除非实测需要，请恢复默认值。"),
        verify="echo $HCCL_BUFFSIZE",
        references=(_FAQ,),
        confidence=0.8,
    )
)
def hccl_buffer_takes_much_memory(host: Host) -> Iterator[Finding]:
    value = host.env.get("HCCL_BUFFSIZE")
    if value is None or not value.isdecimal():
        raise Skip(Text("HCCL_BUFFSIZE is not set", "没有设置 HCCL_BUFFSIZE"))
    total = next((device.total_mb for device in host.devices if device.total_mb), None)
    if total is None:
        raise Skip(Text("the memory of the card is not known", "不知道卡的显存"))
    share = 100 * 2 * int(value[:9]) / total
    if share >= 6:
        yield hccl_buffer_takes_much_memory.finding(
            evidence=(variable(host, "HCCL_BUFFSIZE"),),
            fixes=(
                Fix(
                    hccl_buffer_takes_much_memory.rule.fix,
                    command="unset HCCL_BUFFSIZE",
                    applicability="unsafe",
                    verify="echo $HCCL_BUFFSIZE",
                ),
            ),
            value=value,
            share=share,
        )


@host_check(
    Rule(
        id="ENV-NET-001",
        name="npu-port-down",
        severity=Severity.ERROR,
        category="network-link",
        title=Text("The network port of NPU {ports} is down", "NPU {ports} 的网口处于 DOWN 状态"),
        why=Text(
            'Between nodes HCCL talks through these ports; the first collective ends in EI0006 "Getting socket times out".',
            "节点间的 HCCL 通信走这些网口；第一个集合通信就会报 EI0006 “Getting socket times out”。",
        ),
        fix=Text(
            "Check cable, optical module and switch port, then bring the link up.",
            "检查线缆、光模块和交换机端口，恢复链路。",
        ),
        verify="hccn_tool -i {first} -link -g",
        references=("https://github.com/vllm-project/vllm-ascend/issues/9447",),
    )
)
def npu_port_down(host: Host) -> Iterator[Finding]:
    ports = _ports(host)
    down = [row for row in ports if (row.text("link") or "UP").upper() == "DOWN"]
    if all(row.text("link") is None for row in ports):
        raise Skip(Text("hccn_tool did not say the link state", "hccn_tool 没有给出链路状态"))
    if down and several_nodes(host) is not False:
        several = several_nodes(host)
        # A single node needs no port: said, not counted as a fault.
        if several is None and len(down) == len(ports):
            return
        yield npu_port_down.finding(
            evidence=tuple(
                Evidence(
                    "command",
                    f"hccn_tool -i {row.integer('id')} -link -g",
                    text=f"link status: {row.text('link')}",
                    observed=row.text("link"),
                    expected="UP",
                )
                for row in down
            ),
            severity=Severity.ERROR if several else Severity.WARNING,
            fixes=(
                Fix(
                    npu_port_down.rule.fix,
                    command=f"hccn_tool -i {down[0].integer('id')} -optical -g; hccn_tool -i {down[0].integer('id')} -link_stat -g",
                    verify=f"hccn_tool -i {down[0].integer('id')} -link -g",
                ),
            ),
            ports=", ".join(str(row.integer("id")) for row in down),
            first=down[0].integer("id"),
        )


def _ports(host: Host) -> list[Fields]:
    ascend_only(host)
    ports = list(host.facts.rows("hccn", "ports"))
    if not ports:
        raise Skip(
            Text(
                "hccn_tool gave no answer (not mapped, not permitted, or no ports)",
                "hccn_tool 没有结果（未映射、无权限或没有网口）",
            )
        )
    return ports


@host_check(
    Rule(
        id="ENV-NET-002",
        name="npu-port-unreachable",
        severity=Severity.ERROR,
        category="network-link",
        title=Text("Network health of NPU {ports} is {state}", "NPU {ports} 的网络健康状态是 {state}"),
        why=Text(
            "The port does not reach its detection address: gateway, VLAN or switch are set up wrongly.",
            "该网口无法到达检测地址：网关、VLAN 或交换机配置有误。",
        ),
        fix=Text("Compare address, mask and gateway with the other nodes.", "与其他节点对照地址、掩码和网关。"),
        verify="hccn_tool -i {first} -net_health -g",
        references=(_RANK_TABLE,),
        confidence=0.85,
    )
)
def npu_port_unreachable(host: Host) -> Iterator[Finding]:
    ports = _ports(host)
    if all(row.text("net_health") is None for row in ports):
        raise Skip(Text("hccn_tool did not say the network health", "hccn_tool 没有给出网络健康状态"))
    # "Init" only says that no detection address is set.
    bad = [row for row in ports if (row.text("net_health") or "Success").lower() not in {"success", "init"}]
    if bad and several_nodes(host) is not False:
        yield npu_port_unreachable.finding(
            evidence=tuple(
                Evidence(
                    "command",
                    f"hccn_tool -i {row.integer('id')} -net_health -g",
                    text=f"net health status: {row.text('net_health')}",
                )
                for row in bad
            ),
            severity=Severity.ERROR if several_nodes(host) else Severity.WARNING,
            fixes=(
                Fix(
                    npu_port_unreachable.rule.fix,
                    command=f"hccn_tool -i {bad[0].integer('id')} -ip -g; hccn_tool -i {bad[0].integer('id')} -gateway -g",
                    verify=f"hccn_tool -i {bad[0].integer('id')} -net_health -g",
                ),
            ),
            ports=", ".join(str(row.integer("id")) for row in bad),
            state=bad[0].text("net_health"),
            first=bad[0].integer("id"),
        )


@host_check(
    Rule(
        id="ENV-NET-003",
        name="npu-address-missing",
        severity=Severity.ERROR,
        category="network-link",
        title=Text("NPU {missing} has no address in /etc/hccn.conf", "/etc/hccn.conf 中没有 NPU {missing} 的地址"),
        why=Text(
            "A job on several nodes needs the address of each NPU's port; without it HCCL finds no way to the peer.",
            "多机任务需要每个 NPU 网口的地址；没有地址，HCCL 无法连接对端。",
        ),
        fix=Text("Set the address with hccn_tool (as root).", "用 hccn_tool 配置地址（需要 root）。"),
        verify="cat /etc/hccn.conf",
        references=(_RANK_TABLE,),
        confidence=0.8,
    )
)
def npu_address_missing(host: Host) -> Iterator[Finding]:
    ascend_only(host)
    if not several_nodes(host):
        raise Skip(Text("the job does not span nodes", "任务不跨节点"))
    if not host.facts.flag("hccn", "readable"):
        raise Skip(Text("/etc/hccn.conf cannot be read here", "此处读不到 /etc/hccn.conf"))
    addresses = host.facts.pairs("hccn", "addresses")
    missing = [number for number in host.node_ids if str(number) not in addresses]
    # The A3 talks over its own bus inside a pod and may have no such addresses at all.
    if missing and (addresses or (host.card is not None and host.card.family in {"910", "A2"})):
        yield npu_address_missing.finding(
            evidence=(Evidence("file", "/etc/hccn.conf", text=f"addresses of {', '.join(addresses) or 'no device'}"),),
            fixes=(
                Fix(
                    npu_address_missing.rule.fix,
                    command=f"sudo hccn_tool -i {missing[0]} -ip -s address <address> netmask 255.255.255.0",
                    verify="cat /etc/hccn.conf",
                ),
            ),
            missing=", ".join(map(str, missing)),
        )
