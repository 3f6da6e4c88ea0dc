"""CANN in the environment: sourced, pointing to what is there, and to one version only."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.check import Skip
from doctor.checks.environment.host import Host
from doctor.checks.environment.subject import ascend_only, host_check
from doctor.checks.environment.versions import release_key
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule

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
            Evidence("value", "environment", key="ASCEND_HOME_PATH", note=Text("not set", "没有设置"), observed=None),
            *(
                Evidence(
                    "file",
                    row.text("path") or "?",
                    note=Text(
                        f"CANN {row.text('version') or 'of unknown version'}",
                        f"CANN {row.text('version') or '版本未知'}",
                    ),
                )
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
    if home is not None and host.cann.flag("home_readable") is False:
        yield _not_permitted(host, home)
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


def _not_permitted(host: Host, home: str) -> Finding:
    """The folder is there and shut: what an installation by root for root alone looks like to everybody else."""
    variable = host.cann.text("home_variable") or "ASCEND_HOME_PATH"
    why = Text(
        "It was installed for another user: none of its libraries can be loaded, and nothing in it can be checked.",
        "它是为其他用户安装的：其中的动态库都无法加载，也无法检查其内容。",
    )
    summary = Text(
        "Have it installed with --install-for-all, or its folder opened to your group.",
        "请安装者用 --install-for-all 重新安装，或向你所在的组开放该目录。",
    )
    return cann_path_missing.finding(
        why,
        evidence=(Evidence("file", home, note=Text("not readable by this user", "当前用户无权读取")),),
        fixes=(Fix(summary, command=f"ls -ld {home}/ && id", verify=f"ls {home}/"),),
        variable=variable,
        path=home,
    ).with_(
        title=Text(
            f"{variable} points to {home}, which this user may not read",
            f"{variable} 指向 {home}，但当前用户无权读取",
        ),
        category="permissions",
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
