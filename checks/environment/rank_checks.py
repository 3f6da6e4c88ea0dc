"""The files that say where ranks run: rank table and host file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Optional

from doctor.check import Skip
from doctor.checks.environment.fields import Fields
from doctor.checks.environment.host import Host
from doctor.checks.environment.launch_checks import variable
from doctor.checks.environment.subject import host_check, needs_environment
from doctor.checks.environment.wording import phrased, said
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule

_RANK_TABLE = "https://www.mindspore.cn/tutorials/en/stable/parallel/rank_table.html"


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
            evidence=(Evidence("file", path, key=key, note=problem),),
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
        numbers = [number for number in (device.text("device_id") for device in devices) if number is not None]
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
    given = [device.text("device_ip") for server in servers for device in server.rows("devices")]
    twice = next((address for address in given if address is not None and given.count(address) > 1), None)
    if twice is not None and len(servers) > 1:
        yield "device_ip", Text(f"two devices have the address {twice}", f"两个设备的 device_ip 都是 {twice}")
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
    known_here = [
        sum(device.text("device_ip") in addresses.values() for device in server.rows("devices")) for server in servers
    ]
    for server, count in zip(servers, known_here):
        devices = list(server.rows("devices"))
        # One address that another server has taken over does not make that server this host.
        if len(servers) > 1 and not 0 < count == max(known_here):
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
    needs_environment(host)
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
            host_file_invalid.finding(evidence=(Evidence("file", path, line=line, note=problem),), path=path),
            problem=problem,
        )
