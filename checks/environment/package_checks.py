"""Python packages of the examined interpreter: do the declared requirements hold."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip
from doctor.checks.environment.host import Host
from doctor.checks.environment.requirements import Requirement, applies, parse
from doctor.checks.environment.subject import host_check
from doctor.checks.environment.versions import numbers, satisfies
from doctor.checks.environment.wording import phrased
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule


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
                command=f'{host.pip} install "numpy>=1.26,<2"',
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
    if not isinstance(host.facts.at("packages").value, dict):
        raise Skip(Text("the packages of the interpreter are not known", "不知道解释器中有哪些包"))
    owners = [name for name in _OWNERS if host.facts.texts("distributions", name, "requires")]
    if not owners:
        raise Skip(Text("no package is installed whose requirements matter here", "没有安装需要检查依赖的包"))
    for owner in owners:
        wanted = _wanted(host, owner)
        for requirement in wanted:
            version = host.packages.get(requirement.name)
            outside = version is not None and satisfies(version, requirement.specifier) is False
            if version is not None and outside and not _told_elsewhere(owner, requirement.name, version):
                yield _outside(host, owner, requirement, version)
        missing = [
            requirement
            for requirement in wanted
            if requirement.name not in host.packages
            and not (requirement.name == "mindspore" and (host.mindspore is not None or host.wants_ascend))
        ]
        if missing:
            yield _missing(host, owner, missing)


def _wanted(host: Host, owner: str) -> list[Requirement]:
    """What an installed package declares for this interpreter."""
    environment = _marker_environment(host)
    parsed = [parse(line) for line in host.facts.texts("distributions", owner, "requires")]
    return [
        requirement
        for requirement in parsed
        if requirement is not None and applies(requirement.marker, environment) is True
    ]


def _told_elsewhere(owner: str, name: str, version: str) -> bool:
    """NumPy 2 is a rule of its own, and so is a MindSpore that MindFormers was not released with."""
    if name == "numpy":
        return owner in {"mindspore", "mindformers"} and numbers(version)[:1] >= (2,)
    return owner == "mindformers" and name == "mindspore"


#: The packages whose requirements matter to training.
_OWNERS = ("mindspore", "mindformers", "transformers", "tokenizers", "datasets", "hyper-parallel", "torch-npu")
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


def _outside(host: Host, owner: str, requirement: Requirement, version: str) -> Finding:
    wanted = requirement.name + requirement.specifier
    exact = requirement.specifier.startswith(("==", "~="))
    note = Text("", "")
    if requirement.name == "protobuf" and owner == "mindspore":
        note = Text(
            " CANN's guides pin protobuf 3.20; this MindSpore needs the newer one, and does not use CANN's.",
            " CANN 安装文档里固定 protobuf 3.20，但该 MindSpore 需要更新的版本，请以 MindSpore 为准。",
        )
    return phrased(
        _broken(
            host,
            owner,
            (requirement,),
            severity=Severity.ERROR if exact and requirement.name in _ESSENTIAL else Severity.WARNING,
            note=note,
            requirement=wanted,
        ),
        found=Text(f"installed is {version}", f"而安装的是 {version}"),
    )


def _missing(host: Host, owner: str, missing: list[Requirement]) -> Finding:
    names = ", ".join(requirement.name for requirement in missing)
    needed = owner == "mindspore" or any(requirement.name in _ESSENTIAL for requirement in missing)
    many = len(missing) > 1
    return phrased(
        _broken(
            host,
            owner,
            tuple(missing),
            severity=Severity.ERROR if needed else Severity.WARNING,
            note=Text("", ""),
            requirement=names,
        ),
        found=Text("they are not installed" if many else "it is not installed", "但没有安装"),
    )


def _broken(
    host: Host, owner: str, requirements: tuple[Requirement, ...], *, severity: Severity, note: Text, requirement: str
) -> Finding:
    rule = declared_requirement_broken.rule
    version = host.packages.get(owner) or "?"
    wanted = " ".join(f'"{one.name}{one.specifier}"' for one in requirements)
    return rule.finding(
        rule.why + note,
        evidence=tuple(
            Evidence(
                "file",
                f"METADATA of {owner} {version}",
                key="Requires-Dist",
                text=one.name + one.specifier,
                observed=host.packages.get(one.name),
                expected=one.specifier or "any version",
            )
            for one in requirements
        ),
        severity=severity,
        fixes=(
            Fix(rule.fix, command=f"{host.pip} install {wanted}", applicability="unsafe", verify=f"{host.pip} check"),
        ),
        owner=owner,
        version=version,
        requirement=requirement,
    )


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
            Evidence(
                "value",
                host.executable,
                key=row.text("module"),
                note=Text(f"no module named {row.text('module')}", f"没有名为 {row.text('module')} 的模块"),
            )
            for row in missing
        ),
        fixes=(
            Fix(
                cann_python_module_missing.rule.fix,
                command=f"{host.pip} install {packages}",
                applicability="safe",
                verify="doctor check --only ENV-PKG-003",
            ),
        ),
        modules=", ".join(row.text("module") or "" for row in missing),
    )
