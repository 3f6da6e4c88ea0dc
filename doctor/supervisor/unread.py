"""A config that the trainer does not read, put right by what `check` proposes for the rule that the refusal names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Optional

from doctor import runner
from doctor.errors import UsageError
from doctor.finding import Finding
from doctor.plan.build import plan_of
from doctor.plan.edit import edit_text
from doctor.plan.reader import parse
from doctor.supervisor.care import Change
from doctor.supervisor.cures.remedy import START, Remedy
from doctor.trainer.config import RunConfig, load_config, parse_config


def read_or_mend(
    word: str, most: int, consent: Callable[[Finding, Remedy], bool]
) -> tuple[RunConfig, tuple[Change, ...]]:
    """The config of a file, with at most so many changes that `consent` agrees to. Raises the UsageError of the file where
    nothing is proposed for it or nobody agrees."""
    path = Path(word)
    changes: list[Change] = []
    try:
        return load_config(word), ()
    except UsageError as error:
        refused = error
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    while len(changes) < most:
        found = _proposed(path, text, refused)
        if found is None or not consent(*found):
            break
        finding, remedy = found
        new = edit_text(text, finding.fixes[0].edits)
        if new == text:
            break
        changes.append(Change(finding, remedy, text, new))
        text = new
        try:
            return parse_config(text.encode("utf-8"), str(path), path.stem), tuple(changes)
        except UsageError as error:
            refused = error
    raise refused


def _proposed(path: Path, text: str, refused: UsageError) -> Optional[tuple[Finding, Remedy]]:
    """The finding of the rule that the refusal names, with the edits it proposes."""
    if refused.rule is None or not text:
        return None
    plan = plan_of(parse(text.encode("utf-8"), path, forgiving=True))
    judged = runner.judge_subject("config", plan, path, runner.Selection(only=(refused.rule,)))
    for finding in (item for outcome in judged.outcomes for item in outcome.findings):
        for fix in finding.fixes[:1]:
            if fix.edits and fix.applicability != "manual":
                edits = {edit.key: edit.new for edit in fix.edits}
                return finding, Remedy(fix.summary, edits, fix.applicability == "safe", START)
    return None
