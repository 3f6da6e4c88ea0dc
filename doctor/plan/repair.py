"""Applies the fixes of a config one after the other, judging it anew in between.

Fixes are computed from the file as it was. A misspelt `pipeline_stages` makes the product of the parallel sizes wrong,
too; once the key has its name, the fix of the product would break what is right. So names come first, then the gravest
finding, each on the text the last one left; a fix that brings an error which was not there is taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from doctor.errors import UsageError
from doctor.finding import Edit, Finding, Severity
from doctor.plan.edit import edit_text, propose

#: findings of a text, the gravest first; raises UsageError when the text is no config
Judge = Callable[[str], Sequence[Finding]]

_MOST = 60


def repair(path: Path, findings: Sequence[Finding], allowed: Collection[str], judge: Judge) -> tuple[str, str]:
    """The text of `path` now and with the fixes of the kinds `allowed` (safe, unsafe). `findings` are those of the
    text as it is. Raises UsageError when the file cannot be read."""
    old, _ = propose(path, ())
    text = old
    # a list: values of edits may be lists and mappings, which have no hash
    tried: list[tuple[Edit, ...]] = []
    for _ in range(_MOST):
        group = next((edits for edits in _groups(path, findings, allowed) if edits not in tried), None)
        if group is None:
            break
        tried.append(group)
        changed = edit_text(text, group)
        if changed == text:
            continue
        try:
            after = judge(changed)
        except UsageError:
            continue
        if _errors(after) - _errors(findings):
            continue
        text, findings = changed, after
    return old, text


def _groups(path: Path, findings: Sequence[Finding], allowed: Collection[str]) -> list[tuple[Edit, ...]]:
    """The edits of each finding's first fix in this file; those that give a key its name first."""
    groups = []
    for finding in findings:
        for fix in finding.fixes[:1]:
            edits = tuple(edit for edit in fix.edits if edit.path == str(path))
            if edits and fix.applicability in allowed:
                groups.append(edits)
    return sorted(groups, key=lambda edits: not _names(edits))


def _names(edits: tuple[Edit, ...]) -> bool:
    """Whether the edits only move a value to another key."""
    gone = [edit.old for edit in edits if edit.new is None]
    return len(edits) == 2 and gone == [edit.new for edit in edits if edit.new is not None]


def _errors(findings: Sequence[Finding]) -> set[tuple[str, str]]:
    """Rule and place of every error."""
    return {
        (finding.rule, str(finding.evidence[0].key if finding.evidence else ""))
        for finding in findings
        if finding.severity.at_least(Severity.ERROR)
    }
