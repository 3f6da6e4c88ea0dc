"""Runs checks against a subject and keeps what came of each: passed, found, skipped or crashed."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional

from doctor import registry
from doctor.check import Check, CheckOutcome, Options, Skip
from doctor.errors import UsageError
from doctor.finding import Text


@dataclass(frozen=True)
class Selection:
    """Which rules to run: ids, names or prefixes such as CFG-PAR."""

    only: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def takes(self, check: Check[Any]) -> bool:
        return self.names(check.rule.id, check.rule.name)

    def names(self, rule: str, name: str) -> bool:
        """Whether the rule of that id and kebab name is one of them."""
        return (not self.only or _matches(rule, name, self.only)) and not _matches(rule, name, self.ignore)


def _matches(rule: str, name: str, patterns: tuple[str, ...]) -> bool:
    return any(rule.startswith(pattern.upper()) or name == pattern.lower() for pattern in patterns)


@dataclass(frozen=True)
class Judged:
    """One target: its family, the facts to report and the outcome of every check."""

    target: Optional[str]
    family: str
    facts: dict[str, Any]
    outcomes: tuple[CheckOutcome, ...]
    #: lines for a reader before the findings: what was understood, with the figures always shown
    headline: tuple[Text, ...] = ()

    @property
    def judged_anything(self) -> bool:
        return any(outcome.state in {"passed", "found"} for outcome in self.outcomes)


def run_checks(checks: Iterable[Check[Any]], subject: Any, target: Optional[str] = None) -> tuple[CheckOutcome, ...]:
    """Runs each check by itself: one that raises becomes a crashed outcome and the others go on."""
    outcomes = []
    for item in checks:
        try:
            findings = tuple(item(subject))
        except Skip as skip:
            outcomes.append(CheckOutcome(item.rule.id, "skipped", skip.reason, target=target))
        except Exception as error:  # noqa: BLE001 - the boundary that keeps one check's bug from the others
            place = traceback.extract_tb(error.__traceback__)[-1]
            reason = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
            outcomes.append(CheckOutcome(item.rule.id, "crashed", Text(reason, reason), target=target))
        else:
            state = "found" if findings else "passed"
            outcomes.append(CheckOutcome(item.rule.id, state, findings=findings, target=target))
    return tuple(outcomes)


def family_of(path: Path) -> str:
    """The family that recognises the content of `path`. Raises UsageError when it is missing or none does."""
    if not path.exists():
        raise UsageError(
            Text(f"{path}: there is no such file or folder.", f"{path}：文件或目录不存在。"),
            Text("Check the spelling; a relative path starts here.", "请检查拼写；相对路径从当前目录算起。"),
        )
    order = ("environment", "weights", "data", "config")
    # Only configs end in .yaml; asking them first saves importing the other families.
    for family in ("config", *order[:-1]) if path.suffix.lower() in {".yaml", ".yml"} else order:
        if _subject(family).recognises(path):
            return family
    raise UsageError(
        Text(
            f"{path}: not a training config, weights, a data set or a run folder.",
            f"{path}：不是训练配置、权重、数据集或运行目录。",
        ),
        Text("For a log use: doctor watch PATH --once", "日志请用：doctor watch PATH --once"),
    )


def judge_path(path: Path, options: Options, selection: Optional[Selection] = None) -> Judged:
    """Checks one target. Raises UsageError when it cannot be read."""
    return _judge(family_of(path), path, options, selection or Selection())


def judge_host(options: Options, selection: Optional[Selection] = None) -> Judged:
    """Checks this machine, another interpreter on it, or facts that were collected elsewhere."""
    return _judge("environment", None, options, selection or Selection())


def _judge(family: str, path: Optional[Path], options: Options, selection: Selection) -> Judged:
    return judge_subject(family, _subject(family).load(path, options), path, selection)


def judge_subject(family: str, subject: Any, path: Optional[Path], selection: Selection) -> Judged:
    """Checks what is already loaded; `path` is the name it has in the report."""
    subject_module = _subject(family)
    target = str(path) if path is not None else None
    chosen = [item for item in registry.checks(family) if selection.takes(item)]
    outcomes = run_checks(chosen, subject, target)
    silenced = getattr(subject_module, "silenced", None)
    if silenced is not None:
        outcomes = tuple(
            replace(outcome, findings=(), state="skipped", reason=reason)
            if (reason := silenced(subject, outcome)) is not None
            else outcome
            for outcome in outcomes
        )
    headline = getattr(subject_module, "headline", None)
    lines = tuple(headline(subject)) if headline is not None else ()
    return Judged(target, family, subject_module.facts(subject), _with_consequences(outcomes), lines)


def _with_consequences(outcomes: tuple[CheckOutcome, ...]) -> tuple[CheckOutcome, ...]:
    """Marks each finding that another one of the same target explains as its consequence."""
    explained = {rule for outcome in outcomes for finding in outcome.findings for rule in finding.explains}
    if not explained:
        return outcomes
    return tuple(
        replace(outcome, findings=tuple(finding.with_(root_cause=False) for finding in outcome.findings))
        if outcome.rule in explained and outcome.findings
        else outcome
        for outcome in outcomes
    )


def _subject(family: str) -> Any:
    return importlib.import_module(f"doctor.checks.{family}.subject")
