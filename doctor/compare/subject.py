"""What a person names as A or B, recognised by content: a run, a configuration, the facts of a machine."""

from __future__ import annotations

import glob
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional

from doctor import runner
from doctor.bundled import manifest_of
from doctor.check import Options
from doctor.errors import UsageError
from doctor.escape import visible
from doctor.finding import Finding, Text
from doctor.match.pack import Pack
from doctor.plan.plan import Plan
from doctor.records.packed import opened
from doctor.session.recorded import Recorded, recorded

RUN, CONFIG, HOST = "run", "config", "host"
_KINDS = {RUN: Text("a run", "训练"), CONFIG: Text("a config", "配置"), HOST: Text("facts of a machine", "机器信息")}


@dataclass(frozen=True)
class Subject:
    """`kind` is run, config or host; the field of that kind is set. `findings` are what watch or check says of it."""

    name: str
    kind: str
    findings: tuple[Finding, ...] = ()
    run: Optional[Recorded] = None
    plan: Optional[Plan] = None
    facts: Optional[Mapping[str, Any]] = None


def load(name: str, pack: Pack) -> Subject:
    """Reads A or B. Raises UsageError when it is not there or is nothing that can be compared."""
    path = Path(name)
    if "\0" in name:
        raise UsageError(Text("a path holds a NUL character.", "路径含有 NUL 字符。"))
    if name != "-" and not path.exists() and not glob.has_magic(name):
        raise UsageError(
            Text(
                f"{visible(name, 200)}: there is no such file or folder.", f"{visible(name, 200)}：文件或目录不存在。"
            ),
            Text("Check the spelling; a relative path starts here.", "请检查拼写；相对路径从当前目录算起。"),
        )
    with opened(name) as inside:
        kind = RUN if inside != name else _kind(path)
        if kind == RUN:
            return _run(name, inside, pack)
    judged = runner.judge_path(path, Options())
    findings = tuple(
        finding
        for outcome in judged.outcomes
        for finding in outcome.findings
        if finding.severity.rank > 0 or finding.root_cause
    )
    if kind == CONFIG:
        from doctor.plan.build import load_plan

        return Subject(name, CONFIG, findings, plan=load_plan(path, forgiving=True))
    return Subject(name, HOST, findings, facts=json.loads(path.read_bytes()))


def _kind(path: Path) -> str:
    from doctor.checks.config import subject as config
    from doctor.checks.environment import subject as environment

    if environment.recognises(path):
        return HOST
    return CONFIG if config.recognises(path) else RUN


def _run(name: str, inside: str, pack: Pack) -> Subject:
    run = recorded(inside, pack)
    if not (run.tracks or run.findings or run.plan is not None or run.environment):
        raise UsageError(
            Text(
                f"{visible(name, 200)}: neither steps nor errors, settings or versions in it.",
                f"{visible(name, 200)}：其中没有训练步、报错、配置或版本信息。",
            ),
            Text(
                "Name a run folder, its logs, a YAML config or the output of `doctor collect`.",
                "请指定训练目录、日志、YAML 配置或 `doctor collect` 的输出。",
            ),
        )
    if manifest_of(Path(inside)) is not None and "host" in run.environment:
        # A bundle has another name in its place.
        run = replace(run, environment={key: value for key, value in run.environment.items() if key != "host"})
    return Subject(name, RUN, run.findings, run=run, plan=run.plan)


def alike(a: Subject, b: Subject) -> tuple[Subject, Subject]:
    """The two as subjects of one kind: a run beside a config is that run's config. Raises UsageError when they are none."""
    if a.kind == b.kind:
        return a, b
    if {a.kind, b.kind} == {RUN, CONFIG} and a.plan is not None and b.plan is not None:
        return _as_config(a), _as_config(b)
    one, other = _KINDS[a.kind], _KINDS[b.kind]
    raise UsageError(
        Text(
            f"{visible(a.name, 80)} is {one.en}, {visible(b.name, 80)} is {other.en}: they cannot be compared.",
            f"{visible(a.name, 80)} 是{one.zh}，{visible(b.name, 80)} 是{other.zh}，无法比较。",
        ),
        Text("Name two runs, two configs or two host files.", "请给出两次训练、两个配置或两份机器信息。"),
    )


def _as_config(subject: Subject) -> Subject:
    return Subject(subject.name, CONFIG, () if subject.kind == RUN else subject.findings, plan=subject.plan)
