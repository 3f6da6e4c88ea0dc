"""The nodes of one job against each other: versions, variables, names, TLS switch, clock. Needs two documents or more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Optional

from doctor.check import Skip, check
from doctor.checks.environment import solver
from doctor.checks.environment.host import Host
from doctor.checks.environment.subject import Inspection
from doctor.checks.environment.wording import phrased
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule

_FAQ = "https://www.mindspore.cn/docs/en/stable/faq/distributed_parallel.html"


def needs_several(subject: Inspection) -> tuple[Host, ...]:
    if len(subject.hosts) < 2:
        raise Skip(
            Text(
                "needs the facts of two hosts: --host a.json --host b.json",
                "需要两台以上主机的信息：--host a.json --host b.json",
            )
        )
    return subject.hosts


def _values(hosts: tuple[Host, ...], ask: Callable[[Host], Optional[str]]) -> dict[str, list[Host]]:
    """Which hosts gave which answer; hosts that gave none are left out."""
    groups: dict[str, list[Host]] = {}
    for host in hosts:
        answer = ask(host)
        if answer is not None:
            groups.setdefault(answer, []).append(host)
    return groups


def _spread(groups: dict[str, list[Host]]) -> str:
    return "; ".join(f"{answer}: {', '.join(host.label for host in hosts)}" for answer, hosts in groups.items())


def _evidence(groups: dict[str, list[Host]], key: str) -> tuple[Evidence, ...]:
    return tuple(
        Evidence("value", host.label, key=key, text=f"{key} {answer}", observed=answer)
        for answer, hosts in groups.items()
        for host in hosts
    )


@check(
    Rule(
        id="ENV-JOB-001",
        name="nodes-of-different-versions",
        severity=Severity.ERROR,
        category="version-pairing",
        title=Text("The nodes have different versions of {part}", "各节点的 {part} 版本不一致"),
        why=Text(
            "{spread}. HCCL compares versions while it links (EI0008), and ranks with different MindSpore or MindFormers compile different graphs: the job hangs at the first collective.",
            "{spread}。HCCL 建链时会比较版本（EI0008）；MindSpore 或 MindFormers 版本不同的进程会编译出不同的图，任务卡在第一个集合通信。",
        ),
        fix=Text(
            "Install the same versions on all nodes; an image does that best.",
            "在所有节点安装相同版本，最好使用同一镜像。",
        ),
        verify="doctor check --host a.json --host b.json --only ENV-JOB-001",
    )
)
def nodes_of_different_versions(subject: Inspection) -> Iterator[Finding]:
    hosts = needs_several(subject)
    parts: tuple[tuple[str, Callable[[Host], Optional[str]], Severity], ...] = (
        ("MindSpore", lambda host: _or_absent(host, host.mindspore), Severity.ERROR),
        ("MindFormers", lambda host: _or_absent(host, host.mindformers), Severity.ERROR),
        ("CANN", lambda host: host.cann_version, Severity.ERROR),
        ("Python", lambda host: ".".join((host.python or "").split(".")[:2]) or None, Severity.WARNING),
        ("driver", lambda host: host.driver_version, Severity.WARNING),
        ("NumPy", lambda host: host.packages.get("numpy"), Severity.WARNING),
        ("transformers", lambda host: host.packages.get("transformers"), Severity.WARNING),
    )
    for part, ask, severity in parts:
        groups = _values(hosts, ask)
        if len(groups) > 1:
            spread = _spread(groups)
            fix = Fix(
                nodes_of_different_versions.rule.fix,
                command=_alike(part, groups),
                applicability="unsafe",
                verify=nodes_of_different_versions.rule.verify,
            )
            yield phrased(
                nodes_of_different_versions.finding(evidence=_evidence(groups, part), severity=severity, fixes=(fix,)),
                part=Text(part, "驱动" if part == "driver" else part),
                spread=Text(spread, spread.replace(_ABSENT, "未安装")),
            )


_ABSENT = "not installed"


def _alike(part: str, groups: dict[str, list[Host]]) -> str:
    """What gives the odd nodes the version that most have (the first of them where as many have another)."""
    version = max((answer for answer in groups if answer != _ABSENT), key=lambda answer: len(groups[answer]))
    odd = next(hosts[0] for answer, hosts in groups.items() if answer != version)
    arch = odd.system.text("machine") or "aarch64"
    if part == "CANN":
        return " && ".join(solver.cann_commands(odd.card, version, arch))
    if part == "driver":
        return " && ".join(solver.driver_commands(odd.card, version, arch))
    if part == "Python":
        return f"conda create -n mindspore python={version} -y && conda activate mindspore"
    return f"{odd.pip} install {part.lower()}=={version}"


def _or_absent(host: Host, version: Optional[str]) -> Optional[str]:
    """A version, or that it is missing from an interpreter that was examined."""
    return version or (_ABSENT if host.packages else None)


@check(
    Rule(
        id="ENV-JOB-002",
        name="same-host-name-twice",
        severity=Severity.ERROR,
        category="distributed-launch",
        title=Text("{count} nodes have the host name {name}", "{count} 个节点的主机名都是 {name}"),
        why=Text(
            'Local ranks are counted by host name, so they go on counting across the two: "Got device count[8] and device id[9]" (aclrtSetDevice, 107001).',
            "本地 rank 按主机名计数，同名节点会连续编号：报 “Got device count[8] and device id[9]”（aclrtSetDevice，107001）。",
        ),
        fix=Text("Give each node its own host name.", "为每个节点设置不同的主机名。"),
        verify="hostname",
        references=(_FAQ,),
    )
)
def same_host_name_twice(subject: Inspection) -> Iterator[Finding]:
    hosts = needs_several(subject)
    groups = _values(hosts, lambda host: host.system.text("hostname"))
    if not groups:
        raise Skip(Text("the host names are not known", "不知道主机名"))
    for name, same in groups.items():
        if len(same) > 1:
            yield same_host_name_twice.finding(
                evidence=tuple(Evidence("value", host.label, key="hostname", observed=name) for host in same),
                fixes=(
                    Fix(
                        same_host_name_twice.rule.fix, command="sudo hostnamectl set-hostname <name>", verify="hostname"
                    ),
                ),
                name=name,
                count=len(same),
            )


_UNSET = "(not set)"
#: what holds on a node that does not set the variable
_DEFAULTS = {"HCCL_CONNECT_TIMEOUT": "120", "HCCL_EXEC_TIMEOUT": "1836", "HCCL_BUFFSIZE": "200"}
_ALIKE = [
    "HCCL_CONNECT_TIMEOUT",
    "HCCL_EXEC_TIMEOUT",
    "HCCL_BUFFSIZE",
    "HCCL_DETERMINISTIC",
    "HCCL_ALGO",
    "HCCL_INTRA_ROCE_ENABLE",
    "HCCL_INTRA_PCIE_ENABLE",
    "HCCL_OP_EXPANSION_MODE",
    "HCCL_WHITELIST_DISABLE",
    "HCCL_RDMA_TC",
    "HCCL_RDMA_SL",
]


@check(
    Rule(
        id="ENV-JOB-003",
        name="hccl-variables-differ",
        severity=Severity.ERROR,
        category="hccl-config",
        title=Text("{name} is not the same on all nodes", "各节点的 {name} 不一致"),
        why=Text(
            "{spread}. HCCL variables must be the same on all ranks: one side gives up while the other still waits.",
            "{spread}。HCCL 变量在所有进程中必须一致：否则一端已放弃而另一端还在等待。",
        ),
        fix=Text("Export it in the launch script of all nodes.", "在所有节点的启动脚本中统一导出。"),
        verify="env | grep ^HCCL_",
        references=("https://www.mindspore.cn/mindformers/docs/en/stable/env_variables.html",),
    )
)
def hccl_variables_differ(subject: Inspection) -> Iterator[Finding]:
    hosts = needs_several(subject)
    known = tuple(host for host in hosts if isinstance(host.facts.at("env").value, dict))
    if len(known) < 2:
        raise Skip(Text("the environment was not recorded", "没有记录环境变量"))
    for name in _ALIKE:
        usual = _DEFAULTS.get(name, _UNSET)
        groups = _values(known, lambda host, name=name, usual=usual: host.env.get(name, usual))  # type: ignore[misc]
        if len(groups) > 1:
            good = next(answer for answer in groups if answer not in {_UNSET, usual})
            spread = _spread(groups)
            finding = hccl_variables_differ.finding(
                evidence=_evidence(groups, name),
                fixes=(
                    Fix(
                        hccl_variables_differ.rule.fix,
                        command=f"export {name}={good}",
                        applicability="unsafe",
                        verify="env | grep ^HCCL_",
                    ),
                ),
                name=name,
            )
            yield phrased(finding, spread=Text(spread, spread.replace(_UNSET, "（未设置）")))


#: what every process of a job must have alike
_AGREED = (
    "MS_SCHED_HOST",
    "MS_SCHED_PORT",
    "MS_WORKER_NUM",
    "MS_NODE_TIMEOUT",
    "MS_TOPO_TIMEOUT",
    "MASTER_ADDR",
    "MASTER_PORT",
    "RANK_SIZE",
    "WORLD_SIZE",
)


@check(
    Rule(
        id="ENV-JOB-004",
        name="launcher-variables-differ",
        severity=Severity.ERROR,
        category="distributed-launch",
        title=Text("{name} is not the same on all nodes", "各节点的 {name} 不一致"),
        why=Text(
            "{spread}. All processes must agree on the scheduler and on the number of workers, or they wait for one another for ever.",
            "{spread}。所有进程必须就调度地址和进程数达成一致，否则会一直互相等待。",
        ),
        fix=Text("Use one launch command for all nodes.", "所有节点使用同一条启动命令。"),
        verify="env | grep -E '^MS_|RANK_TABLE_FILE'",
        references=("https://www.mindspore.cn/tutorials/en/stable/parallel/dynamic_cluster.html",),
    )
)
def launcher_variables_differ(subject: Inspection) -> Iterator[Finding]:
    hosts = needs_several(subject)
    if sum(isinstance(host.facts.at("env").value, dict) for host in hosts) < 2:
        raise Skip(Text("the environment was not recorded", "没有记录环境变量"))
    for name in _AGREED:
        groups = _values(hosts, lambda host, name=name: host.env.get(name))  # type: ignore[misc]
        if len(groups) > 1:
            yield launcher_variables_differ.finding(evidence=_evidence(groups, name), name=name, spread=_spread(groups))
    for name in ("MS_NODE_ID", "RANK_ID"):
        for number, same in _values(hosts, lambda host, name=name: host.env.get(name)).items():  # type: ignore[misc]
            if len(same) > 1:
                labels = ", ".join(host.label for host in same)
                yield phrased(
                    launcher_variables_differ.finding(evidence=_evidence({number: same}, name), name=name),
                    spread=Text(f"{labels} all have {name}={number}", f"{labels} 的 {name} 都是 {number}"),
                ).with_(
                    title=Text(
                        f"{name}={number} is set on {len(same)} nodes", f"{len(same)} 个节点都设置了 {name}={number}"
                    )
                )
    tables = _values(hosts, lambda host: host.facts.text("launch", "rank_table", "sha256"))
    if len(tables) > 1:
        short = {digest[:12]: same for digest, same in tables.items()}
        yield launcher_variables_differ.finding(
            evidence=_evidence(short, "rank table"), name="rank table", spread=_spread(short)
        ).with_(category="hccl-config")


def _clock_state(host: Host) -> Optional[str]:
    held = host.system.flag("clock", "synchronised")
    return None if held is None else ("synchronised" if held else "not synchronised")


@check(
    Rule(
        id="ENV-JOB-005",
        name="clocks-differ",
        severity=Severity.WARNING,
        category="distributed-launch",
        title=Text("The clocks of the nodes may differ", "各节点的时钟可能不一致"),
        why=Text(
            "{what}. With skewed clocks logs cannot be put in order, and ssh and certificates may refuse.",
            "{what}。时钟偏差会让日志无法对齐，ssh 和证书也可能拒绝。",
        ),
        fix=Text("Run a time service on all nodes.", "在所有节点启用时间同步服务。"),
        verify="timedatectl | grep synchronized",
        confidence=0.6,
    )
)
def clocks_differ(subject: Inspection) -> Iterator[Finding]:
    hosts = needs_several(subject)
    states = _values(hosts, _clock_state)
    times = [(host, host.system.number("collected_at")) for host in hosts]
    known = [(host, time) for host, time in times if time is not None]
    if not states and len(known) < 2:
        raise Skip(Text("the clocks were not read", "没有读取时钟"))
    fix = (
        Fix(
            clocks_differ.rule.fix,
            command="sudo systemctl enable --now chronyd",
            verify="timedatectl | grep synchronized",
        ),
    )
    if len(states) > 1:
        spread = _spread(states)
        chinese = spread.replace("not synchronised", "未同步").replace("synchronised", "已同步")
        yield phrased(clocks_differ.finding(evidence=_evidence(states, "clock"), fixes=fix), what=Text(spread, chinese))
        return
    apart = max((time for _, time in known), default=0.0) - min((time for _, time in known), default=0.0)
    # Far apart only says that the files were not collected together, unless nobody keeps the clocks.
    if "not synchronised" in states and 60 < apart < 6 * 3600:
        finding = clocks_differ.finding(
            evidence=tuple(
                Evidence("value", host.label, key="collected_at", observed=int(time)) for host, time in known
            ),
            severity=Severity.INFO,
            confidence=0.4,
            fixes=fix,
        )
        yield phrased(
            finding,
            what=Text(
                f"no clock is synchronised and the collecting times lie {apart:.0f} s apart",
                f"各节点时钟都未同步，采集时间相差 {apart:.0f} 秒",
            ),
        )


@check(
    Rule(
        id="ENV-JOB-006",
        name="nodes-of-different-hardware",
        severity=Severity.WARNING,
        category="device-unavailable",
        title=Text("The nodes do not show the same devices", "各节点的设备不一致"),
        why=Text(
            "{spread}. Launchers count on the same number of cards in each node, and a job runs as fast as its slowest card.",
            "{spread}。启动器默认每个节点卡数相同；任务速度取决于最慢的卡。",
        ),
        fix=Text(
            "Use equal nodes, or state the devices of each node in the rank table.",
            "使用相同配置的节点，或在 rank table 中写明每个节点的设备。",
        ),
        verify="npu-smi info -l",
        confidence=0.8,
    )
)
def nodes_of_different_hardware(subject: Inspection) -> Iterator[Finding]:
    hosts = needs_several(subject)
    groups = _values(hosts, lambda host: f"{len(host.devices)} x {host.devices[0].name}" if host.devices else None)
    if not groups:
        raise Skip(Text("no host shows its devices", "没有主机显示设备信息"))
    if len(groups) > 1:
        yield nodes_of_different_hardware.finding(evidence=_evidence(groups, "devices"), spread=_spread(groups))


@check(
    Rule(
        id="ENV-NET-004",
        name="tls-switch-differs",
        severity=Severity.ERROR,
        category="network-link",
        title=Text(
            "The TLS switch is on for some NPU ports and off for others", "部分 NPU 网口开启了 TLS，部分没有开启"
        ),
        why=Text(
            '{spread}. A port with TLS does not talk to one without: EI0006 "Getting socket times out" between just these ranks.',
            "{spread}。开启与未开启 TLS 的网口无法互通：这些 rank 之间会报 EI0006 “Getting socket times out”。",
        ),
        fix=Text("Set it alike on all NPUs of all nodes (as root).", "在所有节点的所有 NPU 上设为一致（需要 root）。"),
        verify="for i in $(seq 0 7); do hccn_tool -i $i -tls -g; done | grep switch",
        references=("https://github.com/vllm-project/vllm-ascend/issues/9447",),
    )
)
def tls_switch_differs(subject: Inspection) -> Iterator[Finding]:
    states: dict[int, list[tuple[Host, Optional[int]]]] = {}
    for host in subject.hosts:
        for row in host.facts.rows("hccn", "ports"):
            switch = row.integer("tls")
            if switch is not None:
                states.setdefault(switch, []).append((host, row.integer("id")))
    if not states:
        raise Skip(Text("hccn_tool did not say the TLS switch", "hccn_tool 没有给出 TLS 开关"))
    if len(states) > 1:
        ports_of = {
            switch: ", ".join(f"{host.label} NPU {number}".strip() for host, number in ports[:8])
            for switch, ports in sorted(states.items())
        }
        spread = Text(
            "; ".join(f"{'on' if switch else 'off'}: {ports}" for switch, ports in ports_of.items()),
            "；".join(f"{'开启' if switch else '关闭'}：{ports}" for switch, ports in ports_of.items()),
        )
        minority = min(states.items(), key=lambda item: (len(item[1]), item[0]))
        finding = tls_switch_differs.finding(
            evidence=tuple(
                Evidence(
                    "command",
                    f"{host.label + ': ' if host.label else ''}hccn_tool -i {number} -tls -g",
                    text=f"tls switch[{switch}]",
                    observed=switch,
                )
                for switch, ports in sorted(states.items())
                for host, number in ports[:8]
            ),
            fixes=(
                Fix(
                    tls_switch_differs.rule.fix,
                    command=f"sudo hccn_tool -i {minority[1][0][1]} -tls -s enable {1 - min(1, max(0, minority[0]))}",
                    verify=tls_switch_differs.rule.verify,
                ),
            ),
        )
        yield phrased(finding, spread=spread)
