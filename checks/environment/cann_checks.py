"""CANN on disk and in the environment: is it there, sourced, of one piece, and does it have operators for this card."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.check import Skip
from doctor.checks.environment import solver
from doctor.checks.environment.host import Host
from doctor.checks.environment.subject import ascend_only, host_check
from doctor.checks.environment.versions import release_key, same_release
from doctor.checks.environment.wording import phrased
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule

_INSTALL = "https://www.hiascend.com/document/detail/en/canncommercial/850/softwareinst/instg/instg_0008.html"
_MS_FAQ = "https://www.mindspore.cn/docs/en/stable/faq/installation.html"


def needs_cann(host: Host) -> None:
    ascend_only(host)
    if not host.has_cann:
        raise Skip(Text("CANN is not installed", "没有安装 CANN"))


def source_line(host: Host) -> str:
    """The command that sets CANN's environment for this shell."""
    script = host.cann.text("set_env")
    if script is not None:
        return f"source {script}"
    key = release_key(host.cann_version or "")
    new = key is not None and key >= (8, 5, 0, 0, 0, ())
    return f"source /usr/local/Ascend/{'cann' if new else 'ascend-toolkit'}/set_env.sh"


@host_check(
    Rule(
        id="ENV-CANN-003",
        name="cann-not-sourced",
        severity=Severity.ERROR,
        category="env-var",
        title=Text(
            "CANN {version} is installed at {path}, but this shell does not know it",
            "CANN {version} 安装在 {path}，但当前 shell 没有加载它的环境变量",
        ),
        why=Text(
            "ASCEND_HOME_PATH is not set. MindSpore then cannot load its Ascend plugin (libge_runner.so: cannot open shared object file) and says "
            "\"Unsupported device target Ascend. This process only supports one of the ['CPU']\".",
            "没有设置 ASCEND_HOME_PATH。MindSpore 会因此无法加载 Ascend 插件（libge_runner.so: cannot open shared object file），并报 "
            "“Unsupported device target Ascend. This process only supports one of the ['CPU']”。",
        ),
        fix=Text(
            "Source its set_env.sh in this shell, and in the start-up file of the job.",
            "在当前 shell 以及任务的启动脚本中 source 它的 set_env.sh。",
        ),
        verify="echo $ASCEND_HOME_PATH",
        references=("https://github.com/mindspore-lab/mindyolo/issues/273",),
        explains=("ENV-DEEP-001",),
    )
)
def cann_not_sourced(host: Host) -> Iterator[Finding]:
    ascend_only(host)
    installs = list(host.cann.rows("installs"))
    if host.cann.text("home") is not None:
        return
    if not installs:
        raise Skip(Text("CANN was not found in the usual places", "在常见位置没有找到 CANN"))
    listed = any(row.flag("exists") for row in host.cann.rows("roots_in_use"))
    yield cann_not_sourced.finding(
        evidence=(
            Evidence("value", "environment", key="ASCEND_HOME_PATH", text="not set", observed=None),
            *(
                Evidence("file", row.text("path") or "?", text=f"CANN {row.text('version') or 'of unknown version'}")
                for row in installs[:4]
            ),
        ),
        severity=Severity.ERROR if host.has_hardware and not listed else Severity.WARNING,
        fixes=(
            Fix(
                cann_not_sourced.rule.fix,
                command=source_line(host),
                applicability="safe",
                verify="echo $ASCEND_HOME_PATH",
            ),
        ),
        version=host.cann_version or "?",
        path=host.cann.text("path") or installs[0].text("path"),
    )


@host_check(
    Rule(
        id="ENV-CANN-004",
        name="cann-path-missing",
        severity=Severity.ERROR,
        category="env-var",
        title=Text("{variable} points to {path}, which is not there", "{variable} 指向 {path}，但该路径不存在"),
        why=Text(
            "The environment was made for a CANN that was removed, moved or upgraded, or is not mapped into this container.",
            "环境变量对应的 CANN 已被卸载、移动或升级，或没有映射进容器。",
        ),
        fix=Text(
            "Start a clean shell and source the set_env.sh of the CANN that is installed.",
            "打开干净的 shell，source 现有 CANN 的 set_env.sh。",
        ),
        verify="ls $ASCEND_HOME_PATH",
        explains=(
            "ENV-CANN-005",
            "ENV-DEEP-001",
        ),
    )
)
def cann_path_missing(host: Host) -> Iterator[Finding]:
    ascend_only(host)
    gone: dict[str, list[str]] = {}
    home = host.cann.text("home")
    if home is not None and host.cann.flag("home_exists") is False:
        gone[home] = [host.cann.text("home_variable") or "ASCEND_HOME_PATH"]
    for row in host.cann.rows("roots_in_use"):
        root = row.text("root")
        named = [name for name in row.texts("variables") if name.startswith("ASCEND_")]
        if root is not None and row.flag("exists") is False and named and root not in gone:
            gone[root] = named
    if not gone and home is None:
        raise Skip(Text("no variable names a CANN", "没有环境变量指向 CANN"))
    for path, names in gone.items():
        others = [row.text("path") for row in host.cann.rows("installs") if row.text("path") not in gone]
        yield cann_path_missing.finding(
            evidence=tuple(
                Evidence("value", "environment", key=name, text=f"{name}={host.env.get(name, path)}") for name in names
            ),
            fixes=(
                Fix(
                    cann_path_missing.rule.fix,
                    command=source_line(host) if others else "ls -d /usr/local/Ascend/* ~/Ascend/*",
                    verify="ls $ASCEND_HOME_PATH",
                ),
            ),
            variable=names[0],
            path=path,
        )


@host_check(
    Rule(
        id="ENV-CANN-005",
        name="cann-environment-incomplete",
        severity=Severity.ERROR,
        category="env-var",
        title=Text("CANN's environment is set in part only: {missing}", "CANN 环境变量不完整：{missing}"),
        why=Text(
            "MindSpore tests for these when it loads: without the library path the plugin does not load; without PYTHONPATH operators "
            "cannot be compiled (No module named 'te').",
            "MindSpore 加载时会检查它们：缺少库路径则插件加载失败；缺少 PYTHONPATH 则无法编译算子（No module named 'te'）。",
        ),
        fix=Text(
            "Source set_env.sh instead of setting single variables; do not overwrite LD_LIBRARY_PATH or PYTHONPATH afterwards.",
            "用 source set_env.sh 代替单独设置变量，之后不要覆盖 LD_LIBRARY_PATH、PYTHONPATH。",
        ),
        verify="doctor check --only ENV-CANN-005",
        references=(_MS_FAQ,),
        explains=("ENV-DEEP-001",),
    )
)
def cann_environment_incomplete(host: Host) -> Iterator[Finding]:
    needs_cann(host)
    home = host.cann.text("home")
    if home is None or host.cann.flag("home_exists") is False:
        raise Skip(Text("CANN's environment is not set", "没有设置 CANN 环境变量"))
    if not host.env:
        raise Skip(Text("the environment was not recorded", "没有记录环境变量"))
    missing = []
    if "ASCEND_OPP_PATH" not in host.env:
        missing.append(("ASCEND_OPP_PATH", "ASCEND_OPP_PATH"))
    if "opp/built-in/op_impl/ai_core/tbe" not in host.env.get("PYTHONPATH", ""):
        missing.append(("PYTHONPATH", "PYTHONPATH without opp/built-in/op_impl/ai_core/tbe"))
    libraries = [entry.rstrip("/") for entry in host.env.get("LD_LIBRARY_PATH", "").split(":")]
    if not any(
        re.search(r"(ascend-toolkit|nnae|nnrt|/cann)[^:]*/lib64(/|$)", entry) or entry == f"{home}/lib64"
        for entry in libraries
    ):
        missing.append(("LD_LIBRARY_PATH", "LD_LIBRARY_PATH without lib64"))
    if missing:
        yield cann_environment_incomplete.finding(
            evidence=tuple(
                Evidence("value", "environment", key=name, text=f"{name}={host.env.get(name, '')}"[:300])
                for name, _ in missing
            ),
            fixes=(
                Fix(
                    cann_environment_incomplete.rule.fix,
                    command=source_line(host),
                    applicability="safe",
                    verify="doctor check --only ENV-CANN-005",
                ),
            ),
            missing=", ".join(text for _, text in missing),
        )


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
    row = host.pairing.mindspore(host.mindspore) if host.mindspore else None
    version = row.texts("cann")[0] if row is not None and row.texts("cann") else host.pairing.newest_cann()
    commands = " && ".join(solver.cann_commands(host.card, version, host.system.text("machine") or "aarch64"))
    yield cann_missing.finding(
        evidence=(Evidence("file", "/usr/local/Ascend", text="no cann, ascend-toolkit or nnae here or in ~/Ascend"),),
        severity=Severity.ERROR if host.mindspore else Severity.WARNING,
        confidence=0.85,
        fixes=(Fix(cann_missing.rule.fix, command=commands, verify="ls /usr/local/Ascend"),),
    )


@host_check(
    Rule(
        id="ENV-CANN-007",
        name="cann-installs-mixed",
        severity=Severity.ERROR,
        category="version-pairing",
        title=Text("The environment mixes CANN {versions}", "环境变量混用了 CANN {versions}"),
        why=Text(
            "A process takes one library from one and the next from another: undefined symbols (aclOpExecutor), segmentation faults, json.exception.parse_error.101.",
            "同一进程会从不同版本各取一部分库：报 undefined symbol（如 aclOpExecutor）、段错误或 json.exception.parse_error.101。",
        ),
        fix=Text("Open a clean shell and source one set_env.sh only.", "打开干净的 shell，只 source 一个 set_env.sh。"),
        verify="echo $LD_LIBRARY_PATH | tr : '\\n' | grep -i ascend",
        references=("https://github.com/vllm-project/vllm-ascend/issues/6271", _MS_FAQ),
        explains=("ENV-DEEP-001",),
    )
)
def cann_installs_mixed(host: Host) -> Iterator[Finding]:
    needs_cann(host)
    roots = [
        row for row in host.cann.rows("roots_in_use") if row.flag("exists") and "/nnal/" not in (row.text("root") or "")
    ]
    if not roots:
        raise Skip(Text("no variable names a CANN", "没有环境变量指向 CANN"))
    real = {row.text("identity") or row.text("root") for row in roots}
    if len(real) < 2:
        return
    versions = list(dict.fromkeys(row.text("version") or "?" for row in roots))
    different = len(versions) > 1
    yield cann_installs_mixed.finding(
        evidence=tuple(
            Evidence(
                "value",
                "environment",
                key=", ".join(row.texts("variables")),
                text=f"{row.text('root')} (CANN {row.text('version') or '?'})",
            )
            for row in roots
        ),
        severity=Severity.ERROR if different else Severity.WARNING,
        confidence=0.9 if different else 0.7,
        fixes=(
            Fix(
                cann_installs_mixed.rule.fix,
                command=f"env -i HOME=$HOME TERM=$TERM bash --noprofile --norc -c '{source_line(host)}; exec bash --norc'",
                verify=cann_installs_mixed.rule.verify,
            ),
        ),
        versions=" and ".join(versions if different else [row.text("root") or "?" for row in roots]),
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
        id="ENV-CANN-009",
        name="operator-package-missing",
        severity=Severity.ERROR,
        category="install",
        title=Text("CANN {version} has no operator package", "CANN {version} 没有安装算子包"),
        why=Text(
            'Only the toolkit is installed. The first operator stops with EZ1001 or 561103: "Get path and read binary_info_config.json failed, please check if the opp_kernel package is installed".',
            "只装了 toolkit。第一个算子就会报 EZ1001 或 561103：“Get path and read binary_info_config.json failed, please check if the opp_kernel package is installed”。",
        ),
        fix=Text("Install {package} of the same version into the same path.", "在同一路径安装同一版本的 {package}。"),
        verify="doctor check --only ENV-CANN-009",
        references=("https://github.com/vllm-project/vllm-ascend/issues/237", _INSTALL),
        confidence=0.9,
        explains=("ENV-DEEP-001",),
    )
)
def operator_package_missing(host: Host) -> Iterator[Finding]:
    needs_cann(host)
    ops = host.cann.at("ops")
    if not isinstance(ops.value, dict) or host.cann_version is None:
        raise Skip(Text("the operator package was not looked for", "没有检查算子包"))
    if ops.texts("kernels") or ops.text("package") or ops.text("opp_kernel"):
        return
    if not ops.flag("version_table") and not ops.flag("kernel_folder"):
        raise Skip(Text("neither version.cfg nor the kernel folder could be read", "读不到 version.cfg 和算子内核目录"))
    chip = host.card.ops if host.card is not None else "910b"
    package = solver.ops_package(chip, host.cann_version)
    arch = host.system.text("machine") or "aarch64"
    sure = bool(ops.flag("kernel_folder"))
    yield operator_package_missing.finding(
        evidence=(
            Evidence(
                "file",
                f"{host.cann.text('path')}/opp/built-in/op_impl/ai_core/tbe/kernel",
                text="no kernels of any chip" if sure else "not there",
            ),
            Evidence(
                "file", f"{host.cann.text('path')}/version.cfg", key="opp_kernel_running_version", text="no such line"
            ),
        ),
        severity=Severity.ERROR if sure else Severity.WARNING,
        confidence=0.9 if sure else 0.7,
        fixes=(
            Fix(
                operator_package_missing.rule.fix.format(package=package),
                command=f"./{package}_{host.cann_version}_linux-{arch}.run --install",
                verify="doctor check --only ENV-CANN-009",
            ),
        ),
        version=host.cann_version,
        package=package,
    )


@host_check(
    Rule(
        id="ENV-CANN-010",
        name="operator-package-wrong-chip",
        severity=Severity.ERROR,
        category="install",
        title=Text("The operator package is for {have}, the card is {name}", "算子包对应 {have}，而卡是 {name}"),
        why=Text(
            'Kernels run on one chip family only: "the socversion of bin package does not match the current device", EZ9999, or E30006.',
            "算子内核只适用于一种芯片：会报 “the socversion of bin package does not match the current device”、EZ9999 或 E30006。",
        ),
        fix=Text("Uninstall it and install {package} of the same version.", "卸载后安装同一版本的 {package}。"),
        verify="doctor check --only ENV-CANN-010",
        references=(
            "https://github.com/vllm-project/vllm-ascend/issues/237",
            "https://github.com/vllm-project/vllm-ascend/issues/6676",
        ),
        explains=("ENV-DEEP-001",),
    )
)
def operator_package_wrong_chip(host: Host) -> Iterator[Finding]:
    needs_cann(host)
    card = host.card
    if card is None:
        raise Skip(Text("the chip is not known", "不知道芯片型号"))
    kernels = host.cann.texts("ops", "kernels")
    package = host.cann.text("ops", "package")
    if not kernels and package is None:
        raise Skip(Text("no operator package was found", "没有找到算子包"))
    named = re.fullmatch(r"(?:Ascend|Atlas)-cann-(?:kernels-)?(.+?)(?:-ops)?", package or "", re.I)
    if kernels:
        fits = any(name == card.kernels or (card.family == "950" and name.startswith("ascend950")) for name in kernels)
        have = ", ".join(kernels)
    elif named is not None:
        fits = named.group(1).lower() == card.ops.lower()
        have = package or ""
    else:
        raise Skip(Text(f"the package name {package!r} says no chip", f"包名 {package!r} 没有标明芯片"))
    if fits:
        return
    wanted = solver.ops_package(card.ops, host.cann_version or "8.5.0")
    arch = host.system.text("machine") or "aarch64"
    yield operator_package_wrong_chip.finding(
        evidence=(
            Evidence(
                "file",
                f"{host.cann.text('path')}/opp/built-in/op_impl/ai_core/tbe/kernel",
                text=have,
                observed=have,
                expected=card.kernels,
            ),
            Evidence(
                "command", "npu-smi info", text=f"{host.devices[0].name}: {card.title}" if host.devices else card.title
            ),
        ),
        fixes=(
            Fix(
                operator_package_wrong_chip.rule.fix.format(package=wanted),
                command=f"./{wanted}_{host.cann_version or '8.5.0'}_linux-{arch}.run --install",
                verify="doctor check --only ENV-CANN-010",
            ),
        ),
        have=have,
        name=host.devices[0].name if host.devices else card.family,
        package=wanted,
    )


@host_check(
    Rule(
        id="ENV-CANN-011",
        name="custom-operators-stale",
        severity=Severity.WARNING,
        category="version-pairing",
        title=Text("Custom operators at {path} {problem}", "{path} 的自定义算子 {problem}"),
        why=Text(
            "Custom operator packages are loaded before CANN's own; one built with another CANN fails to load or computes with an old interface (built on 7.2 or "
            "before, it fails from 7.3 on).",
            "自定义算子包的优先级高于 CANN 自带算子；用其他 CANN 版本编译的包会加载失败或使用旧接口（7.2 及以前编译的包在 7.3 以后会失败）。",
        ),
        fix=Text(
            "Rebuild it with this CANN, or take it out of ASCEND_CUSTOM_OPP_PATH and load_priority.",
            "用当前 CANN 重新编译，或从 ASCEND_CUSTOM_OPP_PATH 和 load_priority 中移除。",
        ),
        verify="echo $ASCEND_CUSTOM_OPP_PATH; cat $ASCEND_OPP_PATH/vendors/config.ini",
        confidence=0.7,
    )
)
def custom_operators_stale(host: Host) -> Iterator[Finding]:
    needs_cann(host)
    if not isinstance(host.cann.at("custom_ops").value, list):
        raise Skip(Text("custom operators were not looked for", "没有检查自定义算子"))
    for row in host.cann.rows("custom_ops"):
        path, built = row.text("path") or "?", row.text("built_with")
        if row.flag("exists") is False:
            problem = Text(
                "are named by ASCEND_CUSTOM_OPP_PATH but not there", "由 ASCEND_CUSTOM_OPP_PATH 指定，但不存在"
            )
        elif (
            built is not None
            and row.flag("loaded")
            and host.cann_version is not None
            and _series(built) not in (None, _series(host.cann_version))
        ):
            problem = Text(
                f"were built with CANN {built}, in use is {host.cann_version}",
                f"由 CANN {built} 编译，而当前是 {host.cann_version}",
            )
        else:
            continue
        finding = custom_operators_stale.finding(
            evidence=(Evidence("file", path, text=problem.en, observed=built, expected=host.cann_version),),
            fixes=(
                Fix(
                    custom_operators_stale.rule.fix,
                    command="unset ASCEND_CUSTOM_OPP_PATH",
                    applicability="unsafe",
                    verify=custom_operators_stale.rule.verify,
                ),
            ),
            path=path,
        )
        yield phrased(finding, problem=problem)


def _series(version: str) -> object:
    key = release_key(version)
    return None if key is None else key[:2]


@host_check(
    Rule(
        id="ENV-CANN-012",
        name="mindspore-operators-for-other-cann",
        severity=Severity.INFO,
        category="version-pairing",
        title=Text("MindSpore's own operators were built with CANN {built}", "MindSpore 自带算子由 CANN {built} 编译"),
        why=Text(
            "In use is CANN {cann}. MindSpore warns of it when it is imported and leaves its custom_ascendc operators out; the others work.",
            "当前 CANN 是 {cann}。MindSpore 导入时会告警并停用自带的 custom_ascendc 算子，其余算子可用。",
        ),
        fix=Text("Install CANN {built} if you need those operators.", "若需要这些算子，请安装 CANN {built}。"),
        verify='python -c "import mindspore"',
        confidence=0.6,
    )
)
def mindspore_operators_for_other_cann(host: Host) -> Iterator[Finding]:
    built = host.facts.text("mindspore", "operators_built_with")
    if built is None:
        raise Skip(Text("MindSpore does not say what it was built with", "MindSpore 没有说明用什么编译"))
    needs_cann(host)
    if host.cann_version is None:
        raise Skip(Text("no version of CANN could be read", "读不到 CANN 版本"))
    mine, other = release_key(host.cann_version), release_key(built)
    # An older CANN lacks what they were built against; a later one of the same series does not.
    if mine is not None and other is not None and mine[:2] < other[:2]:
        yield mindspore_operators_for_other_cann.finding(
            evidence=(
                Evidence(
                    "file",
                    f"{host.facts.text('mindspore', 'path')}/lib/plugin/ascend/custom_ascendc_910b/version.info",
                    observed=built,
                    expected=host.cann_version,
                ),
            ),
            built=built,
            cann=host.cann_version,
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
        id="ENV-CANN-014",
        name="several-set-env-lines",
        severity=Severity.WARNING,
        category="env-var",
        title=Text("The shell start-up files source several CANN environments", "shell 启动文件加载了多个 CANN 环境"),
        why=Text(
            "Each new shell puts both on its paths; which one wins depends on the order.",
            "每个新 shell 都会把它们都加入路径，谁生效取决于先后顺序。",
        ),
        fix=Text("Keep the line of the CANN that you use.", "只保留正在使用的 CANN 的那一行。"),
        verify="grep -n set_env.sh ~/.bashrc ~/.profile ~/.bash_profile",
        confidence=0.8,
    )
)
def several_set_env_lines(host: Host) -> Iterator[Finding]:
    ascend_only(host)
    lines = host.cann.texts("set_env_lines")
    if not isinstance(host.cann.at("set_env_lines").value, list):
        raise Skip(Text("the shell's start-up files were not read", "没有读取 shell 启动文件"))
    if len(set(lines)) > 1:
        yield several_set_env_lines.finding(
            evidence=tuple(Evidence("file", "~/.bashrc", text=f"source {line}") for line in lines)
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
