"""Packages that stand in each other's way: left-overs, copies, shadows, torch beside MindSpore."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip
from doctor.checks.environment.host import Host
from doctor.checks.environment.subject import ascend_only, host_check
from doctor.checks.environment.versions import numbers, release_key
from doctor.checks.environment.wording import phrased
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule

_MS_FAQ = "https://www.mindspore.cn/docs/en/stable/faq/installation.html"


@host_check(
    Rule(
        id="ENV-PKG-004",
        name="mindspore-packages-overlap",
        severity=Severity.ERROR,
        category="install",
        title=Text("{first} and {second} are installed together", "同时安装了 {first} 和 {second}"),
        why=Text(
            "Both put their files into the same folder `mindspore`; what is imported is a mixture of the two.",
            "二者都把文件装进同一个 `mindspore` 目录，导入的是两者的混合体。",
        ),
        fix=Text("Uninstall both, then install the one you want.", "两个都卸载，再安装需要的那一个。"),
        verify='python -c "import mindspore; mindspore.run_check()"',
        references=("https://www.mindspore.cn/install",),
        explains=("ENV-DEEP-001",),
    )
)
def mindspore_packages_overlap(host: Host) -> Iterator[Finding]:
    if not host.packages:
        raise Skip(Text("the packages of the interpreter are not known", "不知道解释器中有哪些包"))
    names = [
        name
        for name in ("mindspore", "mindspore-ascend", "mindspore-gpu", "mindspore-dev", "mindspore-cpu")
        if name in host.packages
    ]
    copies = [
        f"mindspore {row.text('version')} in {row.text('location')}"
        for row in host.facts.rows("distributions", "mindspore", "others")
    ]
    if len(names) < 2 and not copies:
        return
    titles = [f"{name} {host.packages[name]}" for name in names]
    if len(titles) < 2:
        titles.append(copies[0])
    wanted = host.mindspore or host.packages[names[0]]
    yield mindspore_packages_overlap.finding(
        evidence=tuple(Evidence("value", host.executable, text=title) for title in titles),
        fixes=(
            Fix(
                mindspore_packages_overlap.rule.fix,
                command=f"{host.pip} uninstall -y {' '.join(names)} && {host.pip} install mindspore=={wanted}",
                verify=f'{host.executable} -c "import mindspore; mindspore.run_check()"',
            ),
        ),
        first=titles[0],
        second=titles[1],
    )


@host_check(
    Rule(
        id="ENV-PKG-005",
        name="cann-wheels-in-site-packages",
        severity=Severity.WARNING,
        category="python-deps",
        title=Text(
            "Own copies of CANN's Python parts are installed: {names}", "解释器里另装了 CANN 的 Python 组件：{names}"
        ),
        why=Text(
            "te, topi and hccl come with CANN and are found through PYTHONPATH once set_env.sh is sourced. A copy in site-packages "
            "stays behind when CANN is upgraded and then fails with json.exception.parse_error.101 or undefined symbols.",
            "te、topi、hccl 随 CANN 提供，source set_env.sh 后经 PYTHONPATH 生效。site-packages 里的旧拷贝在 CANN 升级后不会更新，"
            "会报 json.exception.parse_error.101 或 undefined symbol。",
        ),
        fix=Text(
            "Uninstall them; sourcing set_env.sh provides the ones of the CANN in use.",
            "卸载它们；source set_env.sh 后会使用当前 CANN 自带的组件。",
        ),
        verify="doctor check --only ENV-PKG-005",
        references=(_MS_FAQ,),
        confidence=0.8,
        false_positives=Text(
            "Old guides install exactly these wheels; with the CANN they came from they work.",
            "旧版安装指南就要求安装这些包；若与当前 CANN 同版本则可以工作。",
        ),
    )
)
def cann_wheels_in_site_packages(host: Host) -> Iterator[Finding]:
    ascend_only(host)
    if not host.packages:
        raise Skip(Text("the packages of the interpreter are not known", "不知道解释器中有哪些包"))
    if not isinstance(host.facts.at("distributions").value, dict):
        raise Skip(Text("where the packages lie is not known", "不知道这些包装在哪里"))
    roots = [row.text("root") or "" for row in host.cann.rows("roots_in_use")]
    names = []
    for name in ("te", "topi", "hccl"):
        location = host.facts.text("distributions", name, "location") or ""
        inside_cann = any(root and location.startswith(root) for root in roots) or "/Ascend/" in location
        if name in host.packages and location and not inside_cann:
            names.append(name)
    if names:
        yield cann_wheels_in_site_packages.finding(
            evidence=tuple(
                Evidence(
                    "file",
                    host.facts.text("distributions", name, "location") or host.executable,
                    text=f"{name} {host.packages[name]}",
                )
                for name in names
            ),
            fixes=(
                Fix(
                    cann_wheels_in_site_packages.rule.fix,
                    command=f"{host.pip} uninstall -y {' '.join(names)}",
                    verify="doctor check --only ENV-PKG-005",
                ),
            ),
            names=", ".join(f"{name} {host.packages[name]}" for name in names),
        )


@host_check(
    Rule(
        id="ENV-PKG-006",
        name="package-shadowed",
        severity=Severity.ERROR,
        category="install",
        title=Text("{path} is imported in place of the package {name}", "{path} 会被当作 {name} 包导入"),
        why=Text(
            "Python looks in the working folder and in PYTHONPATH before site-packages. The import then fails with an error about a "
            "missing submodule, such as: No module named 'mindspore.version'.",
            "Python 先查当前目录和 PYTHONPATH，再查 site-packages。此时导入会报缺少子模块，例如 No module named 'mindspore.version'。",
        ),
        fix=Text("Start from another folder, or rename it.", "换个目录启动，或给它改名。"),
        verify='python -c "import {name}; print({name}.__file__)"',
        references=(_MS_FAQ,),
        explains=("ENV-DEEP-001",),
    )
)
def package_shadowed(host: Host) -> Iterator[Finding]:
    if not isinstance(host.facts.at("shadows").value, list):
        raise Skip(Text("the working folder was not examined", "没有检查当前目录"))
    for row in host.facts.rows("shadows"):
        name, path = row.text("name"), row.text("path")
        if name is None or path is None:
            continue
        # A whole source tree that is used in place, with nothing installed beside it, is a way to work.
        if row.flag("looks_whole") and not row.flag("installed"):
            continue
        whole = bool(row.flag("looks_whole"))
        yield package_shadowed.finding(
            evidence=(
                Evidence(
                    "file",
                    path,
                    note=Text(f"a {row.text('kind') or 'file'} named like the package", "与该包同名"),
                ),
            ),
            severity=Severity.WARNING if whole or name not in {"mindspore", "mindformers"} else Severity.ERROR,
            confidence=0.7 if whole else 0.9,
            fixes=(
                Fix(
                    package_shadowed.rule.fix,
                    command=f"mv {path} {path}_local",
                    verify=f'{host.executable} -c "import {name}; print({name}.__file__)"',
                ),
            ),
            name=name,
            path=path,
        )


@host_check(
    Rule(
        id="ENV-PKG-007",
        name="torch-npu-cann-mismatch",
        severity=Severity.WARNING,
        category="version-pairing",
        title=Text("torch_npu {torch_npu} {problem}", "torch_npu {torch_npu} {problem}"),
        why=Text(
            "torch beside MindSpore is used to convert weights; torch_npu must match both torch and CANN, or `import torch` itself fails "
            "with an undefined symbol.",
            "MindSpore 环境里的 torch 多用于权重转换；torch_npu 必须同时匹配 torch 和 CANN，否则 `import torch` 就会报 undefined symbol。",
        ),
        fix=Text(
            "Install the torch_npu for this CANN, or uninstall it: conversion needs torch only.",
            "安装与该 CANN 配套的 torch_npu；若只做权重转换，可卸载它。",
        ),
        verify='python -c "import torch, torch_npu"',
        references=("https://github.com/Ascend/pytorch/blob/master/COMPATIBILITY.en.md",),
        confidence=0.8,
    )
)
def torch_npu_cann_mismatch(host: Host) -> Iterator[Finding]:
    version = host.packages.get("torch-npu")
    if version is None:
        raise Skip(Text("torch_npu is not installed", "没有安装 torch_npu"))
    torch = host.packages.get("torch")
    problems: list[Text] = []
    if torch is None:
        problems.append(Text("is installed without torch", "缺少 torch"))
    elif numbers(torch)[:2] != numbers(version)[:2]:
        problems.append(Text(f"does not belong to torch {torch}", f"与 torch {torch} 不配套"))
    mine = _plain(version)
    rows = {row.text("cann") or "": row.texts("torch_npu") for row in host.pairing.rows("torch_npu")}
    homes = [cann for cann, names in rows.items() if any(_plain(name) == mine for name in names)]
    if host.cann_version is not None and homes and not any(_same(host.cann_version, home) for home in homes):
        problems.append(
            Text(
                f"belongs to CANN {' or '.join(homes)}, not to {host.cann_version}",
                f"对应 CANN {' 或 '.join(homes)}，而不是 {host.cann_version}",
            )
        )
    if not problems and host.cann_version is None:
        raise Skip(Text("no version of CANN could be read", "读不到 CANN 版本"))
    for problem in problems:
        finding = torch_npu_cann_mismatch.finding(
            evidence=(
                Evidence(
                    "value",
                    f"{host.executable}: torch-npu",
                    text=f"torch-npu {version}, torch {torch}, CANN {host.cann_version}",
                ),
            ),
            torch_npu=version,
            fixes=(
                Fix(
                    torch_npu_cann_mismatch.rule.fix,
                    command=f"{host.pip} uninstall -y torch-npu",
                    verify=f'{host.executable} -c "import torch"',
                ),
            ),
        )
        yield phrased(finding, problem=problem)


def _plain(version: str) -> str:
    return version.split("+")[0].replace(".rc", "rc")


def _same(cann: str, home: str) -> bool:
    mine, other = release_key(cann), release_key(home)
    return mine is not None and other is not None and mine[:2] == other[:2] and (mine[3] == other[3])
