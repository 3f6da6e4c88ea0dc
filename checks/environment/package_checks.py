"""Python packages of the examined interpreter: do they fit one another, are they whole, is it the right interpreter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from doctor.check import Skip
from doctor.checks.environment.fields import Fields
from doctor.checks.environment.host import Host
from doctor.checks.environment.requirements import Requirement, applies, parse
from doctor.checks.environment.subject import ascend_only, host_check
from doctor.checks.environment.versions import numbers, satisfies
from doctor.checks.environment.wording import phrased
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule

_MS_FAQ = "https://www.mindspore.cn/docs/en/stable/faq/installation.html"


def pip(host: Host) -> str:
    """pip of the examined interpreter, so that a copied command changes the right one."""
    return f"{host.executable} -m pip"


def needs_mindspore(host: Host) -> str:
    if host.mindspore is None:
        raise Skip(Text("MindSpore is not installed in the examined interpreter", "被检查的解释器中没有安装 MindSpore"))
    return host.mindspore


@host_check(
    Rule(
        id="ENV-PKG-001",
        name="numpy-2-under-mindspore",
        severity=Severity.ERROR,
        category="python-deps",
        title=Text(
            "NumPy {numpy} under MindSpore {mindspore}, which was built for NumPy 1",
            "MindSpore {mindspore} 针对 NumPy 1 编译，却装了 NumPy {numpy}",
        ),
        why=Text(
            "{who}. Importing works; the first bfloat16 `asnumpy()` (saving or converting weights, logging, metrics) raises "
            "TypeError: The Numpy bfloat16 data type is not supported now.",
            "{who}。导入没有问题，但第一次对 bfloat16 张量调用 `asnumpy()`（保存或转换权重、打印、计算指标）会报 "
            "TypeError: The Numpy bfloat16 data type is not supported now。",
        ),
        fix=Text("Install NumPy 1.26.", "安装 NumPy 1.26。"),
        verify='python -c "import numpy; print(numpy.__version__)"',
        references=("https://numpy.org/devdocs/numpy_2_0_migration_guide.html",),
    )
)
def numpy_2_under_mindspore(host: Host) -> Iterator[Finding]:
    mindspore = needs_mindspore(host)
    numpy = host.packages.get("numpy")
    if numpy is None:
        raise Skip(Text("NumPy is not installed", "没有安装 NumPy"))
    if not numbers(numpy) or numbers(numpy)[0] < 2:
        return
    # Known of the releases in the table; a later MindSpore may well be built for NumPy 2.
    if host.pairing.is_newer_mindspore(mindspore):
        raise Skip(Text(f"MindSpore {mindspore} is newer than the table", f"MindSpore {mindspore} 比版本表更新"))
    declaring = [name for name in ("mindspore", "mindformers") if _declares_below_2(host, name)]
    names = " and ".join(declaring)
    who = Text(f"{names} declare numpy<2", f"{'、'.join(declaring)} 声明了 numpy<2")
    if not declaring:
        who = Text(
            f"mindspore {mindspore} was compiled against NumPy 1", f"mindspore {mindspore} 是针对 NumPy 1 编译的"
        )
    finding = numpy_2_under_mindspore.finding(
        evidence=(
            Evidence(
                "value", f"{host.executable}: numpy", key="numpy", text=f"numpy {numpy}", observed=numpy, expected="<2"
            ),
        ),
        severity=Severity.ERROR if declaring else Severity.WARNING,
        fixes=(
            Fix(
                numpy_2_under_mindspore.rule.fix,
                command=f'{pip(host)} install "numpy>=1.26,<2"',
                applicability="unsafe",
                verify=f'{host.executable} -c "import numpy; print(numpy.__version__)"',
            ),
        ),
        numpy=numpy,
        mindspore=mindspore,
    )
    yield phrased(finding, who=who)


def _declares_below_2(host: Host, name: str) -> bool:
    for line in host.facts.texts("distributions", name, "requires"):
        requirement = parse(line)
        if requirement is not None and requirement.name == "numpy" and requirement.specifier:
            return satisfies("2.0.0", requirement.specifier) is False
    row = host.pairing.mindspore(host.mindspore or "") if name == "mindspore" else None
    bound = row.text("numpy") if row is not None else None
    return bound is not None and satisfies("2.0.0", bound) is False


@host_check(
    Rule(
        id="ENV-PKG-002",
        name="declared-requirement-broken",
        severity=Severity.WARNING,
        category="python-deps",
        title=Text("{owner} {version} needs {requirement}; {found}", "{owner} {version} 要求 {requirement}；{found}"),
        why=Text(
            "The requirement is declared by the installed package itself. Outside of it imports or tokenizers break, "
            "usually with an AttributeError or ImportError that does not name the version.",
            "这是已安装的包自己声明的依赖。超出范围时导入或分词器会出错，而且报错（AttributeError、ImportError）通常不提版本。",
        ),
        fix=Text("Install a version in the declared range.", "安装声明范围内的版本。"),
        verify="python -m pip check",
    )
)
def declared_requirement_broken(host: Host) -> Iterator[Finding]:
    owners = [name for name in _OWNERS if host.facts.texts("distributions", name, "requires")]
    if not owners:
        raise Skip(Text("no package is installed whose requirements matter here", "没有安装需要检查依赖的包"))
    environment = _marker_environment(host)
    for owner in owners:
        for line in host.facts.texts("distributions", owner, "requires"):
            requirement = parse(line)
            if requirement is None or requirement.name in _ELSEWHERE.get(owner, ()):
                continue
            if applies(requirement.marker, environment) is not True:
                continue
            finding = _unmet(host, owner, requirement)
            if finding is not None:
                yield finding


#: The packages whose requirements matter to training, and what other rules say of them.
_OWNERS = ("mindspore", "mindformers", "transformers", "tokenizers", "datasets", "hyper-parallel", "torch-npu")
_ELSEWHERE = {"mindspore": ("numpy",), "mindformers": ("numpy", "mindspore")}
#: Wanted at run time in every job; the rest of a long list is for models that a job may not use.
_ESSENTIAL = frozenset(
    [
        "mindspore",
        "transformers",
        "tokenizers",
        "safetensors",
        "pyyaml",
        "numpy",
        "protobuf",
        "tqdm",
        "sentencepiece",
        "datasets",
    ]
)


def _marker_environment(host: Host) -> dict[str, str]:
    python = host.python or ""
    return {
        "python_version": ".".join(python.split(".")[:2]),
        "python_full_version": python,
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "platform_machine": host.facts.text("python", "machine") or host.system.text("machine") or "",
        "implementation_name": host.facts.text("python", "implementation") or "cpython",
        "platform_python_implementation": "CPython",
    }


def _unmet(host: Host, owner: str, requirement: Requirement) -> Optional[Finding]:
    version = host.packages.get(requirement.name)
    owned = host.packages.get(owner) or "?"
    wanted = requirement.name + requirement.specifier
    if version is None:
        found = Text("it is not installed", "但没有安装")
        severity = Severity.ERROR if requirement.name in _ESSENTIAL else Severity.WARNING
    elif requirement.specifier and satisfies(version, requirement.specifier) is False:
        found = Text(f"installed is {version}", f"而安装的是 {version}")
        exact = requirement.specifier.startswith(("==", "~="))
        severity = Severity.ERROR if exact and requirement.name in _ESSENTIAL else Severity.WARNING
    else:
        return None
    note = Text("", "")
    if requirement.name == "protobuf" and owner == "mindspore" and version is not None:
        note = Text(
            " CANN's guides pin protobuf 3.20; this MindSpore needs the newer one, and does not use CANN's.",
            " CANN 安装文档里固定 protobuf 3.20，但该 MindSpore 需要更新的版本，请以 MindSpore 为准。",
        )
    rule = declared_requirement_broken.rule
    finding = rule.finding(
        rule.why + note,
        evidence=(
            Evidence(
                "file",
                f"METADATA of {owner} {owned}",
                key="Requires-Dist",
                text=wanted,
                observed=version,
                expected=requirement.specifier or "any version",
            ),
        ),
        severity=severity,
        fixes=(
            Fix(
                rule.fix, command=f'{pip(host)} install "{wanted}"', applicability="unsafe", verify=f"{pip(host)} check"
            ),
        ),
        owner=owner,
        version=owned,
        requirement=wanted,
    )
    return phrased(finding, found=found)


@host_check(
    Rule(
        id="ENV-PKG-003",
        name="cann-python-module-missing",
        severity=Severity.ERROR,
        category="python-deps",
        title=Text(
            "CANN's operator compiler lacks Python modules: {modules}", "CANN 算子编译器缺少 Python 模块：{modules}"
        ),
        why=Text(
            "CANN compiles operators with the Python that runs the training. Without these modules the first compile stops with "
            '"No module named ..." or error E50001.',
            "CANN 用训练所用的 Python 编译算子。缺少这些模块时，第一次编译会报 “No module named ...” 或 E50001。",
        ),
        fix=Text("Install them into the interpreter that trains.", "把它们装进训练用的解释器。"),
        verify="doctor check --only ENV-PKG-003",
        references=(
            "https://www.hiascend.com/document/detail/en/canncommercial/850/softwareinst/instg/instg_0008.html",
        ),
        explains=("ENV-DEEP-001",),
    )
)
def cann_python_module_missing(host: Host) -> Iterator[Finding]:
    needs_mindspore(host)
    if not host.has_cann:
        raise Skip(Text("CANN is not installed", "没有安装 CANN"))
    modules = host.facts.at("modules").value
    if not isinstance(modules, dict):
        raise Skip(Text("the interpreter was not examined", "没有检查解释器"))
    rows = [row for row in host.pairing.rows("cann_python_modules") if row.text("module") in modules]
    missing = [row for row in rows if modules[row.text("module")] is None]
    if not missing:
        return
    packages = " ".join(row.text("package") or "" for row in missing)
    yield cann_python_module_missing.finding(
        evidence=tuple(
            Evidence("value", host.executable, key=row.text("module"), text=f"no module named {row.text('module')}")
            for row in missing
        ),
        fixes=(
            Fix(
                cann_python_module_missing.rule.fix,
                command=f"{pip(host)} install {packages}",
                applicability="safe",
                verify="doctor check --only ENV-PKG-003",
            ),
        ),
        modules=", ".join(row.text("module") or "" for row in missing),
    )


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
                command=f"{pip(host)} uninstall -y {' '.join(names)} && {pip(host)} install mindspore=={wanted}",
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
                    command=f"{pip(host)} uninstall -y {' '.join(names)}",
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
            evidence=(Evidence("file", path, text=f"a {row.text('kind') or 'file'} named like the package"),),
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
                    command=f"{pip(host)} uninstall -y torch-npu",
                    verify=f'{host.executable} -c "import torch"',
                ),
            ),
        )
        yield phrased(finding, problem=problem)


def _plain(version: str) -> str:
    return version.split("+")[0].replace(".rc", "rc")


def _same(cann: str, home: str) -> bool:
    from doctor.checks.environment.versions import release_key

    mine, other = release_key(cann), release_key(home)
    return mine is not None and other is not None and mine[:2] == other[:2] and (mine[3] == other[3])


def requires_python(host: Host) -> Optional[str]:
    return Fields(host.facts.at("distributions", "mindspore").value).text("requires_python")
