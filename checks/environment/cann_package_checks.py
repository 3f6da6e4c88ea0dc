"""CANN on disk: installed, of one piece, for this machine, on a disk that does."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip
from doctor.checks.environment import solver
from doctor.checks.environment.cann_checks import needs_cann
from doctor.checks.environment.host import Host
from doctor.checks.environment.subject import ascend_only, host_check
from doctor.checks.environment.versions import release_key, same_release
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule

_INSTALL = "https://www.hiascend.com/document/detail/en/canncommercial/850/softwareinst/instg/instg_0008.html"


@host_check(
    Rule(
        id="ENV-CANN-006",
        name="cann-missing",
        severity=Severity.ERROR,
        category="install",
        title=Text("There is no CANN on this Ascend machine", "这台昇腾机器上没有 CANN"),
        why=Text(
            'MindSpore needs CANN beside driver and firmware: "libascendcl.so: cannot open shared object file", and only the CPU is offered. The order is driver and firmware, then CANN, then MindSpore.',
            "除驱动和固件外，MindSpore 还需要 CANN：否则会报 “libascendcl.so: cannot open shared object file”，且只能用 CPU。安装顺序是：驱动和固件、CANN、MindSpore。",
        ),
        fix=Text(
            "Install the CANN paired with your MindSpore: toolkit and operator package.",
            "安装与 MindSpore 配套的 CANN：toolkit 和算子包。",
        ),
        verify="ls /usr/local/Ascend",
        references=(_INSTALL,),
        explains=("ENV-DEEP-001",),
    )
)
def cann_missing(host: Host) -> Iterator[Finding]:
    ascend_only(host)
    if host.has_cann:
        return
    if not host.has_hardware:
        raise Skip(Text("no Ascend device is here", "没有昇腾设备"))
    if not isinstance(host.cann.at("installs").value, list):
        raise Skip(Text("CANN was not looked for", "没有查找 CANN"))
    row = host.pairing.mindspore(host.mindspore) if host.mindspore else None
    version = row.texts("cann")[0] if row is not None and row.texts("cann") else host.pairing.newest_cann()
    commands = " && ".join(solver.cann_commands(host.card, version, host.system.text("machine") or "aarch64"))
    yield cann_missing.finding(
        evidence=(
            Evidence(
                "file",
                "/usr/local/Ascend",
                note=Text(
                    "no cann, ascend-toolkit or nnae here or in ~/Ascend",
                    "此处和 ~/Ascend 下都没有 cann、ascend-toolkit 或 nnae",
                ),
            ),
        ),
        severity=Severity.ERROR if host.mindspore else Severity.WARNING,
        confidence=0.85,
        fixes=(Fix(cann_missing.rule.fix, command=commands, verify="ls /usr/local/Ascend"),),
    )


@host_check(
    Rule(
        id="ENV-CANN-008",
        name="cann-half-upgraded",
        severity=Severity.ERROR,
        category="install",
        title=Text("CANN at {path} is of several versions: {versions}", "{path} 的 CANN 由多个版本拼成：{versions}"),
        why=Text(
            "An upgrade stopped half-way, or one package of another version was installed over it; the parts do not fit each other.",
            "升级中途中断，或在其上装了另一版本的某个包；各部分互不匹配。",
        ),
        fix=Text(
            "Uninstall it and install toolkit and operator package of one version.",
            "卸载后重新安装同一版本的 toolkit 和算子包。",
        ),
        verify="doctor check --only ENV-CANN-008",
        references=(_INSTALL,),
        confidence=0.9,
        explains=("ENV-DEEP-001",),
    )
)
def cann_half_upgraded(host: Host) -> Iterator[Finding]:
    needs_cann(host)
    components = host.cann.objects("components")
    readings = [(row.text("source") or "?", row.text("version")) for row in host.cann.rows("readings")]
    told = [
        (source, version) for source, version in readings if version is not None and release_key(version) is not None
    ]
    running = {name: parts.text("running") for name, parts in components.items() if parts.text("running")}
    if not told and not running:
        raise Skip(Text("no version file of CANN could be read", "读不到 CANN 的版本文件"))
    if not running and len(told) < 2:
        raise Skip(
            Text(
                f"only {told[0][0]} tells the version: nothing to compare it with",
                f"只有 {told[0][0]} 给出版本，无从对照",
            )
        )
    evidence = []
    versions: list[str] = []
    for name, version in sorted(running.items()):
        if version is not None and not any(same_release(version, other) for other in versions):
            versions.append(version)
            evidence.append(
                Evidence(
                    "file", f"{host.cann.text('path')}/version.cfg", key=f"{name}_running_version", observed=version
                )
            )
    for source, version in told:
        if not any(same_release(version, other) for other in versions):
            versions.append(version)
            evidence.append(Evidence("file", source, observed=version))
    for name, parts in sorted(components.items()):
        version, installed = parts.text("running"), (parts.text("installed") or "").split(",")
        if version and installed != [""] and not any(same_release(version, one) for one in installed):
            versions.append(installed[-1])
            evidence.append(
                Evidence(
                    "file",
                    f"{host.cann.text('path')}/version.cfg",
                    key=f"{name}_installed_version",
                    observed=installed[-1],
                    expected=version,
                )
            )
            break
    ops = host.cann.text("ops", "version")
    if ops is not None and versions and not any(same_release(ops, other) for other in versions):
        versions.append(ops)
        evidence.append(
            Evidence(
                "file",
                "ascend_ops_install.info",
                key=host.cann.text("ops", "package"),
                observed=ops,
                expected=host.cann_version,
            )
        )
    if len(versions) > 1:
        arch = host.system.text("machine") or "aarch64"
        yield cann_half_upgraded.finding(
            evidence=evidence,
            fixes=(
                Fix(
                    cann_half_upgraded.rule.fix,
                    command=" && ".join(solver.cann_commands(host.card, host.cann_version or versions[0], arch)),
                    verify="doctor check --only ENV-CANN-008",
                ),
            ),
            path=host.cann.text("path") or "?",
            versions=", ".join(dict.fromkeys(versions)),
        )


@host_check(
    Rule(
        id="ENV-CANN-013",
        name="cann-wrong-architecture",
        severity=Severity.ERROR,
        category="install",
        title=Text("CANN is for {arch}, this machine is {machine}", "CANN 是 {arch} 版本，而本机是 {machine}"),
        why=Text(
            'Its libraries cannot be loaded: "wrong ELF class" or "cannot execute binary file".',
            "其动态库无法加载：会报 “wrong ELF class” 或 “cannot execute binary file”。",
        ),
        fix=Text("Install the package for {machine}.", "安装 {machine} 版本的包。"),
        verify="uname -m",
        explains=("ENV-DEEP-001",),
    )
)
def cann_wrong_architecture(host: Host) -> Iterator[Finding]:
    needs_cann(host)
    arch, machine = host.cann.text("arch"), host.system.text("machine")
    if arch is None or machine is None:
        raise Skip(Text("the architecture of CANN or of the machine is not known", "不知道 CANN 或机器的架构"))
    if arch.replace("-", "_").lower() != machine.lower():
        yield cann_wrong_architecture.finding(
            evidence=(
                Evidence(
                    "file", host.cann.text("version_source") or "CANN", key="arch", observed=arch, expected=machine
                ),
            ),
            fixes=(
                Fix(
                    cann_wrong_architecture.rule.fix.format(machine=machine),
                    command=" && ".join(solver.cann_commands(host.card, host.cann_version or "8.5.0", machine)),
                    verify="uname -m",
                ),
            ),
            arch=arch,
            machine=machine,
        )


@host_check(
    Rule(
        id="ENV-CANN-015",
        name="cann-on-network-disk",
        severity=Severity.WARNING,
        category="disk-io",
        title=Text("CANN or its caches lie on {file_system} ({path})", "CANN 或其缓存位于 {file_system}（{path}）"),
        why=Text(
            "Operator compilation and logging lock files; a network file system without locks makes ranks wait for each other or fail, and starting many ranks slow.",
            "算子编译和日志都会用到文件锁；不支持锁的网络文件系统会让各进程互相等待或失败，多卡启动也会变慢。",
        ),
        fix=Text("Keep caches and logs on a local disk.", "把缓存和日志放到本地盘。"),
        verify="df -T {path}",
        confidence=0.6,
        references=(
            "https://www.hiascend.com/document/detail/en/canncommercial/800/softwareinst/instg/instg_0044.html",
        ),
    )
)
def cann_on_network_disk(host: Host) -> Iterator[Finding]:
    ascend_only(host)
    disks = list(host.system.rows("disks"))
    if not disks:
        raise Skip(Text("the disks were not examined", "没有检查磁盘"))
    moved = {name for name in ("ASCEND_PROCESS_LOG_PATH", "ASCEND_CACHE_PATH") if name in host.env}
    for disk in disks:
        purpose, path = disk.text("purpose"), disk.text("path") or "?"
        if not disk.flag("network") or purpose not in {"home", "CANN", "CANN logs", "CANN cache"}:
            continue
        if purpose == "home" and len(moved) == 2:
            continue
        yield cann_on_network_disk.finding(
            evidence=(
                Evidence("file", path, key=purpose, observed=disk.text("file_system"), expected="a local file system"),
            ),
            severity=Severity.WARNING if purpose != "home" else Severity.INFO,
            fixes=(
                Fix(
                    cann_on_network_disk.rule.fix,
                    command="export ASCEND_PROCESS_LOG_PATH=/var/tmp/$USER/ascend ASCEND_CACHE_PATH=/var/tmp/$USER/ascend_cache",
                    applicability="unsafe",
                    verify=f"df -T {path}",
                ),
            ),
            file_system=disk.text("file_system"),
            path=path,
        )
