"""HCCL's variables and the NPUs' own network ports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from doctor.check import Skip
from doctor.checks.environment.fields import Fields
from doctor.checks.environment.host import Host
from doctor.checks.environment.launch_checks import variable
from doctor.checks.environment.subject import ascend_only, host_check
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule

_RANK_TABLE = "https://www.mindspore.cn/tutorials/en/stable/parallel/rank_table.html"

_FAQ = "https://www.mindspore.cn/docs/en/stable/faq/distributed_parallel.html"


_MF_ENV = "https://www.mindspore.cn/mindformers/docs/en/stable/env_variables.html"


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
        id="ENV-NET-005",
        name="npu-port-flaps",
        severity=Severity.WARNING,
        category="network-link",
        title=Text(
            "The network port of NPU {ports} lost its link {downs} times within a day",
            "NPU {ports} 的网口一天内断链 {downs} 次",
        ),
        why=Text(
            'It is up now, but each loss breaks the collectives that run through it: retransmission time-outs (error CQE, EI0013) and EI0006 "Getting socket times out" that come and go.',
            "现在链路是通的，但每次断链都会中断经过它的集合通信：时有时无的重传超时（error CQE，EI0013）和 EI0006 “Getting socket times out”。",
        ),
        fix=Text(
            "Look at the optical module, the cable and the switch port of that link.",
            "检查该链路的光模块、线缆和交换机端口。",
        ),
        verify="hccn_tool -i {first} -link_stat -g",
        references=(_RANK_TABLE,),
        confidence=0.8,
        false_positives=Text("A switch or the machine itself was restarted on purpose.", "交换机或本机是有意重启的。"),
    )
)
def npu_port_flaps(host: Host) -> Iterator[Finding]:
    ports = _ports(host)
    told = [row for row in ports if row.integer("link_stat", "downs_last_day") is not None]
    if not told:
        raise Skip(Text("hccn_tool did not give the record of the links", "hccn_tool 没有给出链路记录"))
    # Once down is how a port comes up; a port that is down now is another finding.
    loose = [
        row
        for row in told
        if (row.integer("link_stat", "downs_last_day") or 0) >= 2 and (row.text("link") or "UP").upper() != "DOWN"
    ]
    if loose and several_nodes(host) is not False:
        first = loose[0].integer("id")
        yield npu_port_flaps.finding(
            evidence=tuple(
                Evidence(
                    "command",
                    f"hccn_tool -i {row.integer('id')} -link_stat -g",
                    note=Text(
                        f"LINK DOWN {row.text('link_stat', 'downs_last_day')} times, last {row.text('link_stat', 'last_down')}",
                        f"LINK DOWN {row.text('link_stat', 'downs_last_day')} 次，最近一次 {row.text('link_stat', 'last_down')}",
                    ),
                    observed=row.integer("link_stat", "downs_last_day"),
                )
                for row in loose
            ),
            fixes=(
                Fix(
                    npu_port_flaps.rule.fix,
                    command=f"hccn_tool -i {first} -optical -g",
                    verify=f"hccn_tool -i {first} -link_stat -g",
                ),
            ),
            ports=", ".join(str(row.integer("id")) for row in loose),
            downs=max(row.integer("link_stat", "downs_last_day") or 0 for row in loose),
            first=first,
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
    if not host.node_ids:
        raise Skip(Text("there are no device nodes", "没有设备节点"))
    addresses = host.facts.pairs("hccn", "addresses")
    missing = [number for number in host.node_ids if str(number) not in addresses]
    # The A3 talks over its own bus inside a pod and may have no such addresses at all.
    if missing and (addresses or (host.card is not None and host.card.family in {"910", "A2"})):
        yield npu_address_missing.finding(
            evidence=(
                Evidence(
                    "file",
                    "/etc/hccn.conf",
                    note=Text(
                        f"addresses of {', '.join(addresses) or 'no device'}",
                        f"只有这些设备的地址：{', '.join(addresses) or '无'}",
                    ),
                ),
            ),
            fixes=(
                Fix(
                    npu_address_missing.rule.fix,
                    command=f"sudo hccn_tool -i {missing[0]} -ip -s address <address> netmask 255.255.255.0",
                    verify="cat /etc/hccn.conf",
                ),
            ),
            missing=", ".join(map(str, missing)),
        )
