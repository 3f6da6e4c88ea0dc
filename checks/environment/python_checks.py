"""The interpreter itself, and whether MindSpore and MindFormers in it are whole."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip
from doctor.checks.environment import solver
from doctor.checks.environment.host import Host
from doctor.checks.environment.package_checks import needs_mindspore
from doctor.checks.environment.subject import ascend_only, host_check
from doctor.checks.environment.versions import numbers, satisfies
from doctor.checks.environment.wording import phrased, said
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule

_INSTALL = "https://www.mindspore.cn/install"


@host_check(
    Rule(
        id="ENV-PY-001",
        name="python-version-unsupported",
        severity=Severity.ERROR,
        category="install",
        title=Text(
            "Python {python} is outside what MindSpore {mindspore} is built for ({range})",
            "Python {python} 不在 MindSpore {mindspore} 支持的范围内（{range}）",
        ),
        why=Text(
            'There is no wheel for this interpreter: pip says "No matching distribution" or "is not a supported wheel on this platform", '
            "and a forced install fails when its libraries are loaded.",
            "没有适用于该解释器的安装包：pip 会报 “No matching distribution” 或 “is not a supported wheel on this platform”，强行安装则在加载动态库时失败。",
        ),
        fix=Text(
            "Use an environment with a supported Python (3.11 is what MindFormers recommends).",
            "使用受支持的 Python 建立环境（MindFormers 推荐 3.11）。",
        ),
        verify="python --version",
        references=("https://www.mindspore.cn/docs/en/stable/faq/installation.html",),
        explains=("ENV-DEEP-001",),
    )
)
def python_version_unsupported(host: Host) -> Iterator[Finding]:
    mindspore = needs_mindspore(host)
    if host.python is None:
        raise Skip(Text("the Python version is not known", "不知道 Python 版本"))
    declared = host.facts.text("distributions", "mindspore", "requires_python")
    row = host.pairing.mindspore(mindspore)
    bounds = row.text("python") if row is not None else None
    wrong = declared is not None and satisfies(host.python, declared) is False
    wrong = wrong or not solver.python_fits(host.python, bounds)
    if not wrong:
        return
    yield python_version_unsupported.finding(
        evidence=(Evidence("value", host.executable, key="python", observed=host.python, expected=bounds or declared),),
        # Another MindSpore may be the smaller change than another interpreter.
        fixes=solver.fixes(host, "python --version")
        or (
            Fix(
                python_version_unsupported.rule.fix,
                command=f"conda create -n mindspore python={solver.nearest_python(host.python, bounds or '3.11')} -y && conda activate mindspore",
                verify="python --version",
            ),
        ),
        python=host.python,
        mindspore=mindspore,
        range=bounds or declared,
    )


@host_check(
    Rule(
        id="ENV-PY-002",
        name="pip-too-old",
        severity=Severity.WARNING,
        category="install",
        title=Text("pip {pip} does not know manylinux2014 wheels", "pip {pip} 不认识 manylinux2014 安装包"),
        why=Text(
            'aarch64 wheels need pip 19.3 or later; an older pip says "is not a supported wheel" or builds from source.',
            "aarch64 的安装包需要 pip 19.3 以上；更旧的 pip 会报 “is not a supported wheel” 或改为源码编译。",
        ),
        fix=Text("Upgrade pip.", "升级 pip。"),
        verify="python -m pip --version",
    )
)
def pip_too_old(host: Host) -> Iterator[Finding]:
    version = host.facts.text("python", "pip")
    if version is None:
        raise Skip(Text("pip is not installed", "没有安装 pip"))
    if not numbers(version) or numbers(version)[:2] >= (19, 3):
        return
    yield pip_too_old.finding(
        evidence=(Evidence("value", f"{host.executable}: pip", observed=version, expected=">=19.3"),),
        fixes=(
            Fix(
                pip_too_old.rule.fix,
                command=f"{host.pip} install -U pip",
                applicability="safe",
                verify=f"{host.pip} --version",
            ),
        ),
        pip=version,
    )


@host_check(
    Rule(
        id="ENV-PY-003",
        name="libpython-missing",
        severity=Severity.WARNING,
        category="install",
        title=Text("No shared libpython{short} beside the interpreter", "解释器没有共享库 libpython{short}"),
        why=Text(
            "CANN's operator compiler loads libpython{short}.so; a Python that was built without --enable-shared makes it stop with "
            '"libpython{short}.so.1.0: cannot open shared object file".',
            "CANN 的算子编译器要加载 libpython{short}.so；未用 --enable-shared 编译的 Python 会报 “libpython{short}.so.1.0: cannot open shared object file”。",
        ),
        fix=Text(
            "Use a Python with its shared library (conda has it), or install the distribution's libpython package.",
            "使用带共享库的 Python（conda 自带），或安装发行版的 libpython 包。",
        ),
        verify="doctor check --only ENV-PY-003",
        confidence=0.8,
        references=(
            "https://www.hiascend.com/document/detail/en/canncommercial/850/softwareinst/instg/instg_0008.html",
        ),
    )
)
def libpython_missing(host: Host) -> Iterator[Finding]:
    ascend_only(host)
    part = host.facts.at("python").value
    if host.python is None or not isinstance(part, dict) or "libpython" not in part:
        raise Skip(Text("the interpreter was not examined", "没有检查解释器"))
    if host.facts.text("python", "libpython") is not None:
        return
    short = ".".join(host.python.split(".")[:2])
    yield libpython_missing.finding(
        evidence=(
            Evidence(
                "value",
                host.executable,
                note=Text(
                    f"no libpython{short}.so* in its prefix, /usr/lib, /usr/local/lib or LD_LIBRARY_PATH",
                    f"其安装目录、/usr/lib、/usr/local/lib 和 LD_LIBRARY_PATH 中都没有 libpython{short}.so*",
                ),
            ),
        ),
        fixes=(
            Fix(
                libpython_missing.rule.fix,
                command=f"conda create -n mindspore python={short} -y",
                verify="doctor check --only ENV-PY-003",
            ),
        ),
        short=short,
    )


@host_check(
    Rule(
        id="ENV-PY-005",
        name="libstdcxx-too-old",
        severity=Severity.ERROR,
        category="install",
        title=Text(
            "{path} ends at GLIBCXX_{have}, MindSpore {mindspore} needs GLIBCXX_{need}",
            "{path} 最高只到 GLIBCXX_{have}，MindSpore {mindspore} 需要 GLIBCXX_{need}",
        ),
        why=Text(
            "The C++ library that the loader takes first is older than the compiler that built MindSpore: importing stops with "
            '"version `GLIBCXX_{need}\' not found".',
            "加载器最先找到的 C++ 库比编译 MindSpore 的编译器旧：导入时会报 “version `GLIBCXX_{need}' not found”。",
        ),
        fix=Text(
            "Put a newer libstdc++ first on the library path (conda has one), or use a supported operating system.",
            "让更新的 libstdc++ 排在库搜索路径最前（conda 自带），或使用受支持的操作系统。",
        ),
        verify="strings {path} | grep GLIBCXX_{need}",
        references=(_INSTALL,),
        explains=("ENV-DEEP-001",),
    )
)
def libstdcxx_too_old(host: Host) -> Iterator[Finding]:
    mindspore = needs_mindspore(host)
    need, have = host.facts.text("mindspore", "needs_glibcxx"), host.facts.text("python", "libstdcxx", "glibcxx")
    if need is None or have is None:
        raise Skip(
            Text("the C++ library or what MindSpore needs of it is not known", "不知道 C++ 库的版本或 MindSpore 的要求")
        )
    if numbers(have) >= numbers(need):
        return
    path = host.facts.text("python", "libstdcxx", "path") or "libstdc++.so.6"
    folder = path.rsplit("/", 1)[0]
    remedy = (
        f"export LD_LIBRARY_PATH=$(echo $LD_LIBRARY_PATH | tr : '\\n' | grep -vx {folder} | paste -sd:)"
        if folder in host.env.get("LD_LIBRARY_PATH", "").split(":")
        else "conda install -c conda-forge libstdcxx-ng && export LD_LIBRARY_PATH=$CONDA_PREFIX/lib:$LD_LIBRARY_PATH"
    )
    yield libstdcxx_too_old.finding(
        evidence=(Evidence("file", path, key="GLIBCXX", observed=have, expected=f">= {need}"),),
        fixes=(Fix(libstdcxx_too_old.rule.fix, command=remedy, verify=f"strings {path} | grep GLIBCXX_{need}"),),
        path=path,
        have=have,
        need=need,
        mindspore=mindspore,
    )


@host_check(
    Rule(
        id="ENV-PY-004",
        name="interpreter-unusable",
        severity=Severity.ERROR,
        category="install",
        title=Text("The interpreter {path} could not be examined", "无法检查解释器 {path}"),
        why=Text(
            "{reason}. Nothing is known about the packages of that environment.",
            "{reason}。因此不知道该环境里有哪些包。",
        ),
        fix=Text("Name the python of the environment that trains.", "请指定训练环境的 python。"),
        verify="doctor check --python PATH",
        explains=(
            "ENV-MS-001",
            "ENV-DEEP-001",
        ),
    )
)
def interpreter_unusable(host: Host) -> Iterator[Finding]:
    if host.facts.at("python").value is None:
        raise Skip(Text("the document says nothing about an interpreter", "文档中没有解释器信息"))
    reason = host.facts.text("python", "error")
    if reason is None:
        return
    finding = interpreter_unusable.finding(
        evidence=(Evidence("command", f"{host.executable} -I -c …", note=said(reason)),),
        fixes=(
            Fix(
                interpreter_unusable.rule.fix,
                command="doctor check --python $(which python)",
                verify=f"{host.executable} --version",
            ),
        ),
        path=host.executable,
    )
    words = said(reason)
    yield phrased(finding, reason=Text(words.en[:1].upper() + words.en[1:], words.zh))


@host_check(
    Rule(
        id="ENV-MS-001",
        name="mindspore-missing",
        severity=Severity.WARNING,
        category="install",
        title=Text("MindSpore is not installed in {path}", "{path} 中没有安装 MindSpore"),
        why=Text(
            "This machine has Ascend software, but the examined interpreter has no MindSpore. It may not be the one you train with ({chosen}).",
            "本机有昇腾软件，但被检查的解释器里没有 MindSpore。它也许不是训练用的那个（选择依据：{chosen}）。",
        ),
        fix=Text("Name the interpreter that trains, or install MindSpore.", "请指定训练用的解释器，或安装 MindSpore。"),
        verify="doctor check --only ENV-MS-001",
        references=(_INSTALL,),
        confidence=0.8,
        explains=("ENV-DEEP-001",),
    )
)
def mindspore_missing(host: Host) -> Iterator[Finding]:
    ascend_only(host)
    if host.facts.at("python").value is None or host.facts.text("python", "error"):
        raise Skip(Text("the interpreter was not examined", "没有检查解释器"))
    if host.mindspore is not None:
        return
    rows = host.pairing.mindspore_for(host.cann_version) if host.cann_version else ()
    version = next((row.text("version") for row in rows if row.values.get("on_pypi")), None)
    fixes = [
        Fix(
            Text("Examine the interpreter that trains.", "检查训练用的解释器。"),
            command="doctor check --python /path/to/python",
            verify="doctor check --only ENV-MS-001",
        )
    ]
    if version is not None:
        fixes.append(
            Fix(
                Text(
                    f"Install the MindSpore of CANN {host.cann_version}.",
                    f"安装与 CANN {host.cann_version} 配套的 MindSpore。",
                ),
                command=f"{host.pip} install mindspore=={version}",
                verify=f'{host.executable} -c "import mindspore; mindspore.run_check()"',
            )
        )
    yield mindspore_missing.finding(
        evidence=(
            Evidence(
                "value",
                host.executable,
                key="mindspore",
                note=Text("no distribution and no module named mindspore", "没有名为 mindspore 的安装包或模块"),
            ),
        ),
        fixes=fixes,
        path=host.executable,
        chosen=host.facts.text("python", "chosen_by") or "?",
    )


@host_check(
    Rule(
        id="ENV-MS-002",
        name="mindspore-without-ascend",
        severity=Severity.ERROR,
        category="install",
        title=Text("MindSpore {mindspore} has no Ascend back end", "MindSpore {mindspore} 不含 Ascend 后端"),
        why=Text(
            "Its folder lib/plugin holds {backends} only: \"Unsupported device target Ascend. This process only supports one of the ['CPU']\".",
            "它的 lib/plugin 目录里只有 {backends}：会报 “Unsupported device target Ascend. This process only supports one of the ['CPU']”。",
        ),
        fix=Text("Install the unified package for this platform.", "安装该平台的统一安装包。"),
        verify="python -c \"import mindspore; mindspore.set_device('Ascend')\"",
        references=(_INSTALL,),
        explains=("ENV-DEEP-001",),
    )
)
def mindspore_without_ascend(host: Host) -> Iterator[Finding]:
    mindspore = needs_mindspore(host)
    ascend_only(host)
    backends = host.facts.texts("mindspore", "backends")
    if not backends:
        raise Skip(Text("the back ends of MindSpore are not known", "不知道 MindSpore 带有哪些后端"))
    if "ascend" in backends:
        return
    yield mindspore_without_ascend.finding(
        evidence=(Evidence("file", f"{host.facts.text('mindspore', 'path')}/lib/plugin", text=", ".join(backends)),),
        fixes=(
            Fix(
                mindspore_without_ascend.rule.fix,
                command=f"{host.pip} install --force-reinstall --no-deps mindspore=={mindspore}",
                verify=f"{host.executable} -c \"import mindspore; mindspore.set_device('Ascend')\"",
            ),
        ),
        mindspore=mindspore,
        backends=", ".join(backends),
    )


@host_check(
    Rule(
        id="ENV-MS-003",
        name="package-files-missing",
        severity=Severity.ERROR,
        category="install",
        title=Text(
            "{name} {version} is recorded as installed, but its files are not there",
            "{name} {version} 有安装记录，但文件不全",
        ),
        why=Text(
            "{what}. An interrupted install or a removed source folder leaves this behind; the import fails.",
            "{what}。安装中断或源码目录被删除会造成这种情况，导入会失败。",
        ),
        fix=Text("Reinstall it.", "重新安装。"),
        verify='python -c "import {name}"',
        explains=("ENV-DEEP-001",),
    )
)
def package_files_missing(host: Host) -> Iterator[Finding]:
    modules = host.facts.at("modules").value
    if not isinstance(modules, dict) or not isinstance(host.facts.at("packages").value, dict):
        raise Skip(Text("the interpreter was not examined", "没有检查解释器"))
    for name in ("mindspore", "mindformers"):
        version = host.packages.get(name)
        if version is None or name not in modules:
            continue
        module = host.facts.at("modules", name)
        if module.value is None:
            what = Text(f"no module named {name} is on the search path", f"搜索路径中没有名为 {name} 的模块")
        elif module.flag("namespace"):
            what = Text(f"{module.text('folder')} has no __init__.py", f"{module.text('folder')} 中没有 __init__.py")
        elif name == "mindformers" and host.facts.flag("mindformers", "has_trainer") is False:
            path = host.facts.text("mindformers", "path")
            what = Text(
                f"{path} has no trainer/, so `from mindformers import Trainer` fails",
                f"{path} 中没有 trainer/，`from mindformers import Trainer` 会失败",
            )
        else:
            continue
        finding = package_files_missing.finding(
            evidence=(Evidence("value", f"{host.executable}: {name}", note=what),),
            fixes=(
                Fix(
                    package_files_missing.rule.fix,
                    command=f"{host.pip} install --force-reinstall --no-deps {name}=={version}",
                    verify=f'{host.executable} -c "import {name}"',
                ),
            ),
            name=name,
            version=version,
        )
        yield phrased(finding, what=what)


@host_check(
    Rule(
        id="ENV-SYS-010",
        name="glibc-too-old",
        severity=Severity.WARNING,
        category="install",
        title=Text(
            "glibc {glibc} is older than MindSpore's wheels are built for", "glibc {glibc} 低于 MindSpore 安装包的要求"
        ),
        why=Text(
            "Wheels for Linux are manylinux2014 (glibc 2.17) and built with GCC 7.3 or later; on an older system the import fails with "
            '"version `GLIBC_2.17\' not found".',
            "Linux 安装包按 manylinux2014（glibc 2.17）和 GCC 7.3 以上编译；在更旧的系统上导入会报 “version `GLIBC_2.17' not found”。",
        ),
        fix=Text(
            "Use a supported operating system, or a container image of one.", "使用受支持的操作系统，或其容器镜像。"
        ),
        verify="ldd --version",
        references=(_INSTALL,),
    )
)
def glibc_too_old(host: Host) -> Iterator[Finding]:
    version = host.system.text("glibc")
    if version is None or not numbers(version):
        raise Skip(Text("the version of glibc is not known", "不知道 glibc 版本"))
    if numbers(version)[:2] < (2, 17):
        yield glibc_too_old.finding(
            evidence=(Evidence("value", "glibc", observed=version, expected=">=2.17"),),
            fixes=(Fix(glibc_too_old.rule.fix, verify="ldd --version"),),
            glibc=version,
        )
