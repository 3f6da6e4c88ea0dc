"""Operators: CANN's package for this chip, third parties' packages, and MindSpore's own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.check import Skip
from doctor.checks.environment import solver
from doctor.checks.environment.cann_checks import needs_cann
from doctor.checks.environment.host import Host
from doctor.checks.environment.subject import host_check
from doctor.checks.environment.versions import release_key
from doctor.checks.environment.wording import phrased
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule

_INSTALL = "https://www.hiascend.com/document/detail/en/canncommercial/850/softwareinst/instg/instg_0008.html"


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
                note=Text("no kernels of any chip", "没有任何芯片的算子内核") if sure else Text("not there", "不存在"),
            ),
            Evidence(
                "file",
                f"{host.cann.text('path')}/version.cfg",
                key="opp_kernel_running_version",
                note=Text("no such line", "没有这一行"),
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
    name = host.devices[0].name if host.devices else card.family
    yield operator_package_wrong_chip.finding(
        evidence=(
            Evidence(
                "file",
                f"{host.cann.text('path')}/opp/built-in/op_impl/ai_core/tbe/kernel",
                text=have,
                observed=have,
                expected=card.kernels,
            ),
            Evidence("command", "npu-smi info", note=Text(f"{name}: {card.title}", f"{name}：{card.title_zh}")),
        ),
        fixes=(
            Fix(
                operator_package_wrong_chip.rule.fix.format(package=wanted),
                command=f"./{wanted}_{host.cann_version or '8.5.0'}_linux-{arch}.run --install",
                verify="doctor check --only ENV-CANN-010",
            ),
        ),
        have=have,
        name=name,
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
            evidence=(Evidence("file", path, note=problem, observed=built, expected=host.cann_version),),
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
