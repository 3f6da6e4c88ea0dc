"""Do the versions belong together: MindSpore with CANN, MindFormers with MindSpore, CANN with driver and firmware."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip
from doctor.checks.environment import compatibility as pairs
from doctor.checks.environment import solver
from doctor.checks.environment.host import Host
from doctor.checks.environment.subject import ascend_only, host_check
from doctor.checks.environment.versions import numbers, release_key
from doctor.checks.environment.wording import cited, phrased
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule

_MF_DOCS = "https://www.mindspore.cn/mindformers/docs/en/stable/installation.html"
_DRIVER_PAGE = "https://www.hiascend.com/hardware/firmware-drivers/community"


def evidence(host: Host, *parts: str) -> tuple[Evidence, ...]:
    """Where each of the versions was read, for MindSpore, MindFormers, CANN and driver."""
    known = {
        "mindspore": (host.executable, host.mindspore),
        "mindformers": (host.executable, host.mindformers),
        "cann": (host.cann.text("version_source") or host.cann.text("path") or "CANN", host.cann_version),
        "driver": (host.driver.text("source") or "npu-smi info", host.driver_version),
    }
    rows = []
    for part in parts:
        source, version = known[part]
        internal = host.cann.text("internal") if part == "cann" else None
        words = Text(f"{part} {version}", f"{part} {version}")
        if internal:
            words = words + Text(f" (internal number {internal})", f"（内部版本号 {internal}）")
        rows.append(Evidence("value", source, key=part, note=words, observed=version))
    return tuple(rows)


@host_check(
    Rule(
        id="ENV-CANN-001",
        name="cann-version-mismatch",
        severity=Severity.ERROR,
        category="version-pairing",
        title=Text(
            "MindSpore {mindspore} does not belong to CANN {cann}", "MindSpore {mindspore} 与 CANN {cann} 不配套"
        ),
        why=Text(
            "MindSpore is built against one CANN release and calls into its libraries; with another one, loading the "
            "plugin, compiling operators or the first training step fails, often far from the cause.",
            "MindSpore 针对特定的 CANN 版本编译并调用其动态库；版本不配套时，加载插件、编译算子或第一步训练会失败，而且报错往往离原因很远。",
        ),
        fix=Text(
            "Install the CANN paired with this MindSpore, or the MindSpore for this CANN.",
            "安装与该 MindSpore 配套的 CANN，或与该 CANN 配套的 MindSpore。",
        ),
        verify="doctor check --only ENV-CANN-001",
        references=(
            "https://www.mindspore.cn/install",
            "https://www.mindspore.cn/docs/en/stable/faq/installation.html",
        ),
        explains=(
            "ENV-CANN-012",
            "ENV-DEEP-001",
        ),
    )
)
def cann_version_mismatch(host: Host) -> Iterator[Finding]:
    if host.mindspore is None:
        raise Skip(Text("MindSpore is not installed in the examined interpreter", "被检查的解释器中没有安装 MindSpore"))
    if host.cann_version is None:
        ascend_only(host)
        raise Skip(Text("no version of CANN could be read", "读不到 CANN 版本"))
    verdict = pairs.host_mindspore_cann(host)
    if verdict is None or verdict.state in (pairs.OK, pairs.BEYOND):
        return
    if verdict.state == pairs.UNKNOWN:
        raise Skip(
            Text(
                f"the table (of {host.pairing.snapshot}) has no row for MindSpore {host.mindspore}",
                f"版本表（{host.pairing.snapshot}）中没有 MindSpore {host.mindspore}",
            )
        )
    mindspore, cann = host.mindspore, host.cann_version
    shown = host.cann_shown
    translation = Text("", "")
    if shown is not None and not cann.startswith(shown):
        translation = Text(
            f" MindSpore's own warning calls this CANN {shown}: that is its internal number.",
            f" MindSpore 的告警里把它写成 {shown}，那是 CANN 的内部版本号。",
        )
    source = cited(verdict.source)
    message = Text(
        f"MindSpore {mindspore} takes CANN {' or '.join(verdict.expected)} (by {source.en}); installed is {cann}.",
        f"MindSpore {mindspore} 要求 CANN {' 或 '.join(verdict.expected)}（依据：{source.zh}），而安装的是 {cann}。",
    )
    near = (release_key(cann) or (0,))[:2] == (release_key(verdict.expected[0]) or (1,))[:2]
    # A later build of the same CANN series often runs; nothing but the released pair speaks against it.
    mild = verdict.state == pairs.NEWER and near and not verdict.exact
    yield cann_version_mismatch.finding(
        message + translation + Text(" ", "") + cann_version_mismatch.rule.why,
        evidence=evidence(host, "mindspore", "cann"),
        severity=Severity.WARNING if mild else Severity.ERROR,
        confidence=0.7 if mild else (0.95 if verdict.exact else 0.9),
        fixes=solver.fixes(host, "doctor check --only ENV-CANN-001") or None,
        mindspore=mindspore,
        cann=cann,
    )


@host_check(
    Rule(
        id="ENV-MF-001",
        name="mindformers-mindspore-mismatch",
        severity=Severity.ERROR,
        category="version-pairing",
        title=Text(
            "MindFormers {mindformers} does not belong to MindSpore {mindspore}",
            "MindFormers {mindformers} 与 MindSpore {mindspore} 不配套",
        ),
        why=Text(
            "Each MindFormers release uses interfaces of one MindSpore release; with another, imports or the model build fail.",
            "每个 MindFormers 版本只适配一个 MindSpore 版本的接口；不配套时会在导入或构图阶段失败。",
        ),
        fix=Text(
            "Install the MindSpore that this MindFormers was released with.", "安装与该 MindFormers 配套的 MindSpore。"
        ),
        verify='python -c "from mindformers import Trainer"',
        references=(_MF_DOCS,),
        explains=("ENV-DEEP-001",),
    )
)
def mindformers_mindspore_mismatch(host: Host) -> Iterator[Finding]:
    if host.mindformers is None:
        raise Skip(Text("MindFormers is not installed", "没有安装 MindFormers"))
    if host.mindspore is None:
        raise Skip(Text("MindSpore is not installed", "没有安装 MindSpore"))
    verdict = pairs.mindformers_mindspore(host)
    if verdict is None or verdict.state in (pairs.OK, pairs.BEYOND):
        return
    if verdict.state == pairs.UNKNOWN:
        raise Skip(
            Text(
                f"neither MindFormers {host.mindformers} itself nor the table says which MindSpore it needs",
                f"MindFormers {host.mindformers} 自身和版本表都没有说明它需要哪个 MindSpore",
            )
        )
    source = cited(verdict.source)
    message = Text(
        f"MindFormers {host.mindformers} needs {' or '.join(verdict.expected)} (by {source.en}); installed is MindSpore {host.mindspore}. ",
        f"MindFormers {host.mindformers} 需要 {' 或 '.join(verdict.expected)}（依据：{source.zh}），而安装的是 MindSpore {host.mindspore}。",
    )
    # A later patch of the series it was released for often runs; nothing that is installed speaks against it.
    near = any(numbers(host.mindspore)[:2] == numbers(name)[:2] for name in verdict.expected)
    mild = verdict.state == pairs.NEWER and near and not verdict.exact
    yield mindformers_mindspore_mismatch.finding(
        message + mindformers_mindspore_mismatch.rule.why,
        evidence=evidence(host, "mindformers", "mindspore"),
        severity=Severity.WARNING if mild else Severity.ERROR,
        confidence=0.7 if mild else (0.95 if verdict.exact else 0.9),
        fixes=solver.fixes(host, 'python -c "from mindformers import Trainer"') or None,
        mindformers=host.mindformers,
        mindspore=host.mindspore,
    )


@host_check(
    Rule(
        id="ENV-CANN-002",
        name="version-newer-than-table",
        severity=Severity.INFO,
        category="version-pairing",
        title=Text("{part} {version} is newer than the doctor's table", "{part} {version} 比本工具的版本表更新"),
        why=Text(
            "The table of pairs was made on {snapshot} and ends at {last}. Nothing is wrong with a newer version; its pairing "
            "simply cannot be judged.",
            "版本配套表制作于 {snapshot}，止于 {last}。更新的版本并没有错，只是无法判断它的配套关系。",
        ),
        fix=Text("Compare with the release notes, or update the doctor.", "请对照版本说明，或升级本工具。"),
        verify="doctor check --only ENV-CANN-002",
    )
)
def version_newer_than_table(host: Host) -> Iterator[Finding]:
    table = host.pairing
    if host.cann_version is None and host.mindspore is None and host.mindformers is None:
        raise Skip(Text("no version is known", "没有任何版本信息"))
    verdict = pairs.host_mindspore_cann(host)
    if (
        host.cann_version is not None
        and table.is_newer_cann(host.cann_version)
        and (verdict is None or verdict.state != pairs.OK)
    ):
        yield version_newer_than_table.finding(
            evidence=evidence(host, "cann"),
            part="CANN",
            version=host.cann_version,
            snapshot=table.snapshot,
            last=f"CANN {table.newest_cann()}",
        )
    if (
        host.mindspore is not None
        and table.is_newer_mindspore(host.mindspore)
        and (verdict is None or verdict.state != pairs.OK)
    ):
        yield version_newer_than_table.finding(
            evidence=evidence(host, "mindspore"),
            part="MindSpore",
            version=host.mindspore,
            snapshot=table.snapshot,
            last=f"MindSpore {table.newest_mindspore()}",
        )
    own = pairs.mindformers_mindspore(host)
    if host.mindformers is not None and own is not None and own.state == pairs.BEYOND:
        yield version_newer_than_table.finding(
            evidence=evidence(host, "mindformers"),
            part="MindFormers",
            version=host.mindformers,
            snapshot=table.snapshot,
            last=f"MindFormers {table.newest_mindformers()}",
        )


@host_check(
    Rule(
        id="ENV-DRV-001",
        name="driver-older-than-cann",
        severity=Severity.WARNING,
        category="version-pairing",
        title=Text(
            "Driver {driver} is older than CANN {cann} was released for", "驱动 {driver} 早于 CANN {cann} 的配套驱动"
        ),
        why=Text(
            "CANN {cann} is released with driver {expected}. Older drivers often run, but lack calls that newer operators and "
            "HCCL use; errors 507033, 507899 or EZ9999 at start-up are typical then.",
            "CANN {cann} 的配套驱动是 {expected}。旧驱动常常能用，但缺少新算子和 HCCL 需要的接口，启动时典型报错是 507033、507899 或 EZ9999。",
        ),
        fix=Text(
            "Upgrade driver and firmware (as root), or use a CANN for this driver.",
            "升级驱动和固件（需要 root），或改用与该驱动配套的 CANN。",
        ),
        verify="npu-smi info",
        confidence=0.7,
        references=(_DRIVER_PAGE,),
        false_positives=Text(
            "Many mixed pairs run; this is a warning and never an error by itself.",
            "不少混搭组合能正常运行，因此只是告警。",
        ),
    )
)
def driver_older_than_cann(host: Host) -> Iterator[Finding]:
    ascend_only(host)
    verdict = pairs.cann_driver(host)
    if verdict is None:
        raise Skip(Text("the version of the driver or of CANN is not known", "驱动或 CANN 的版本未知"))
    if verdict.state == pairs.UNKNOWN and not _named_by_driver(host):
        if release_key(host.driver_version or "") is None:
            raise Skip(
                Text(
                    f"the driver's version {host.driver_version!r} is none that is known",
                    f"无法识别驱动版本 {host.driver_version!r}",
                )
            )
        raise Skip(
            Text(
                f"the table has no driver for CANN {host.cann_version}",
                f"版本表中没有 CANN {host.cann_version} 的配套驱动",
            )
        )
    # The driver's own list of CANN trains is the exact answer where it names this one.
    named = _named_by_driver(host)
    if named or verdict.state != pairs.OLDER or host.cann_version is None or host.driver_version is None:
        return
    arch = host.system.text("machine") or "aarch64"
    upgrade = Fix(
        Text(
            f"Upgrade driver and firmware to {verdict.expected[0]} (root, reboot; ends every job on the machine). Source: {verdict.source}.",
            f"把驱动和固件升级到 {verdict.expected[0]}（需要 root 并重启，会中断机器上所有任务）。依据：{verdict.source}。",
        ),
        command=" && ".join(solver.driver_commands(host.card, verdict.expected[0], arch)),
        verify="npu-smi info",
    )
    others = solver.fixes(host, "doctor check --only ENV-DRV-001", frozenset({"driver"}))[:1] if host.mindspore else ()
    yield driver_older_than_cann.finding(
        evidence=evidence(host, "driver", "cann"),
        fixes=(upgrade, *others),
        driver=host.driver_version,
        cann=host.cann_version,
        expected=" / ".join(verdict.expected),
    )


def _named_by_driver(host: Host) -> bool:
    inner = host.cann.text("innerversion") or ""
    return any(inner.startswith(train) for train in host.driver.texts("compatible_cann") if train)


@host_check(
    Rule(
        id="ENV-DRV-002",
        name="driver-firmware-mismatch",
        severity=Severity.ERROR,
        category="version-pairing",
        title=Text("Firmware {firmware} does not belong to driver {driver}", "固件 {firmware} 与驱动 {driver} 不配套"),
        why=Text(
            "{how}. Driver and firmware are released together; a mismatch shows as devices that are missing, not OK, or fail to reset.",
            "{how}。驱动和固件是成套发布的；不配套会表现为设备缺失、健康状态异常或复位失败。",
        ),
        fix=Text(
            "Install the firmware of the driver's release (as root), then reboot.",
            "安装与驱动同一版本的固件（需要 root），然后重启。",
        ),
        verify="npu-smi info -t board -i 0",
        references=(_DRIVER_PAGE,),
    )
)
def driver_firmware_mismatch(host: Host) -> Iterator[Finding]:
    ascend_only(host)
    driver = host.driver_version or "?"
    judged = False
    for board in host.npu.rows("boards"):
        verdict, firmware = (board.text("compatibility") or "").upper(), board.text("firmware") or "?"
        number = board.integer("npu_id")
        if verdict in {"OK", "NOK"}:
            judged = True
        if verdict == "NOK":
            finding = driver_firmware_mismatch.finding(
                evidence=(
                    Evidence(
                        "command",
                        f"npu-smi info -t board -i {number}",
                        key="Compatibility",
                        text=f"Compatibility: NOK, Firmware Version: {firmware}",
                    ),
                ),
                fixes=(_firmware_fix(host, driver),),
                firmware=firmware,
                driver=driver,
            )
            yield phrased(finding, how=Text("npu-smi says Compatibility NOK", "npu-smi 显示 Compatibility 为 NOK"))
            return
    bounds = host.driver.texts("firmware_range")
    installed = host.driver.text("firmware") or next(
        (b.text("firmware") for b in host.npu.rows("boards") if b.text("firmware")), None
    )
    if len(bounds) == 2 and installed is not None:
        low, mine, high = release_key(bounds[0]), release_key(installed), release_key(bounds[1])
        if low is not None and mine is not None and high is not None:
            judged = True
            if not low[:3] <= mine[:3] <= high[:3]:
                finding = driver_firmware_mismatch.finding(
                    evidence=(
                        Evidence(
                            "file",
                            host.driver.text("source") or "driver/version.info",
                            key="compatible_version_fw",
                            observed=installed,
                            expected=f"{bounds[0]} .. {bounds[1]}",
                        ),
                    ),
                    fixes=(_firmware_fix(host, driver),),
                    firmware=installed,
                    driver=driver,
                )
                yield phrased(
                    finding,
                    how=Text(
                        f"The driver takes firmware {bounds[0]} to {bounds[1]}",
                        f"该驱动要求固件版本在 {bounds[0]} 到 {bounds[1]} 之间",
                    ),
                )
    if not judged:
        raise Skip(
            Text(
                "the firmware version is not known here (containers rarely map it)",
                "此处读不到固件版本（容器通常不映射它）",
            )
        )


def _firmware_fix(host: Host, driver: str) -> Fix:
    commands = list(solver.driver_commands(host.card, driver, host.system.text("machine") or "aarch64"))
    return Fix(driver_firmware_mismatch.rule.fix, command=commands[0], verify="npu-smi info -t board -i 0")
