"""Hits that do not count, and why: lines that only quote a fault, or a fault that the run got over."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Optional

from doctor.escape import decode
from doctor.finding import Severity, Text
from doctor.match.line import bare
from doctor.match.pack import Pack
from doctor.match.scan import Hit
from doctor.records.comment import without_comment

#: so many steps after a fault say that the run went on
_WENT_ON = 2
_QUIET_LEVELS = frozenset(("TRACE", "DEBUG", "INFO", "NOTICE"))
#: a sample of a data set that is printed
_SAMPLE = re.compile(
    rb"""["'](?:instruction|prompt|input|output|content|text|response|question|answer|completion|query)["']\s*:"""
)
#: an exception whose message begins the line: a sample in it is what the exception is about
_RAISED = re.compile(
    rb"^\s*(?:\[?[\w, =:.-]{1,40}[\]:>]{1,2} ?)?(?:[a-z_]\w*\.){0,5}[A-Z]\w{1,30}(?:Error|Exception): [^\"'{\[]{12}"
)
#: a comment, a line of a mail or of markdown
_QUOTED = re.compile(
    rb"^\s*(?:#|//|> )\s*\S"
    # the first cell of a table of codes; a setting of a shell; what a change or a release mends
    rb"|^\s*\|\s*`?(?:E[A-Z0-9]\d{4}|[1-5]\d{5}|0x\w+|[A-Z]\w+Error)`?\s*\|"
    # points of a description of a change, and what it says of itself
    rb"|^\s*[-*+] (?:the|a|an|it|we|this|and|when|explains?|lists?|adds?|makes?) [^:]{3,200}$|\b(?:[Tt]his (?:PR|patch|change)|I want to (?:add|fix)|is not a standard error)\b"
    # source code and its descriptions; headings of questions, of known faults and of changes
    rb"|^\s*(?:print|logg?(?:er|ing)\.\w+)\(f?[\"']|^\s*\w+ = f?[\"']|^\s*\"\"\"|^\s*:raises?\b|^\s*(?:\* ?)?@(?:exception|throws?)\b"
    rb"|^\s*(?:Q\d*|Known issues?|Subject|(?:feat|fix|chore|docs|refactor|test|perf)(?:\(.{1,30}\))?): |^\W{0,4}[Cc]loses #\d"
    rb"|^\s*export \w+=|^\W{0,4}(?:(?i:bug ?)?[Ff]ix(?:ed|es)?\b|[Rr]elease notes?\b|[Nn]o longer raises|commit [0-9a-f]{7,40} |\xe4\xbf\xae\xe5\xa4\x8d)"
)
#: how compilers and linkers warn
_COMPILER_WARNS = re.compile(rb"^(?:\S{1,120}: )?warning: ")
#: a line of source code that stands alone, not under the frame of a traceback
_SOURCE = re.compile(rb"""^\s*(?:assert\s.{1,200},\s*f?["']|except\s.{1,80}:)""")
#: what a program says that it got over
_HANDLED = re.compile(
    rb"(?i)\b(?:skip(?:s|ped|ping)?|ignor(?:ed|es|ing)|fall(?:s|ing)? back|fallback|disabl(?:ed|ing)|retry(?:ing)?|retries)\b"
)

#: an error that is only handed on by a logger of warnings, as torch_npu does with those of CANN; NCCL has no level above WARN
_ERROR_WITHIN = re.compile(
    rb"\bNCCL WARN |\bE[1-9A-Z][0-9A-Z]\d{3}: |\berror code is \d{6}|\[Error\]|\b[A-Z]\w{2,30}Error: "
)

#: what a line of a log says that is no setting
_TELLS = re.compile(r"(?i)error|exception|fail|warn|fatal|\bE[A-Z1-9]\d{4}\b|nan\b")

_REASONS = {
    "quiet": Text("an INFO line", "仅为 INFO 日志"),
    "quoted": Text("quoted text, not an event of this run", "引用的文本，并非本次运行的事件"),
    "warned": Text("only a warning", "仅为警告"),
    "went-on": Text("training went on after it", "之后训练仍在继续"),
}


@dataclass(frozen=True)
class Progress:
    """Lines on which a training step was printed: (source, rank) -> line numbers, rising."""

    steps: Mapping[tuple[str, Optional[int]], Sequence[int]] = field(default_factory=dict)

    def after(self, hit: Hit) -> int:
        """Steps that the rank of a hit printed after it."""
        lines = self.steps.get((hit.source, hit.rank))
        if lines is None:
            lines = self.steps.get((hit.source, None), ()) if hit.rank is not None else ()
        return len(lines) - bisect_right(lines, hit.line)


@dataclass(frozen=True)
class Aside:
    """A rule all of whose hits were put aside; the first of them and the reason."""

    hit: Hit
    reason: str

    def text(self, pack: Pack) -> Text:
        rule = pack.get(self.hit.rule)
        name = rule.rule.name if rule else self.hit.rule
        why = _REASONS[self.reason]
        return Text(f"{name} (line {self.hit.line}): {why.en}", f"{name}（第 {self.hit.line} 行）：{why.zh}")


def sift(hits: Iterable[Hit], pack: Pack, progress: Optional[Progress]) -> tuple[list[Hit], list[Aside]]:
    """The hits that count, and the rules of which none does."""
    kept: list[Hit] = []
    warned: list[Hit] = []
    aside: dict[str, Aside] = {}
    for hit in hits:
        why = _why_not(hit, pack, progress)
        if why is not None:
            aside.setdefault(hit.rule, Aside(hit, why))
        elif only_warns(hit, pack):
            warned.append(hit)
        else:
            kept.append(hit)
    if kept:  # what is wrong may have begun with a warning
        kept = sorted([*kept, *warned], key=lambda hit: (hit.source, hit.line, hit.rule))
    else:
        for hit in warned:
            aside.setdefault(hit.rule, Aside(hit, "warned"))
    counted = {hit.rule for hit in kept}
    return kept, [item for rule, item in sorted(aside.items()) if rule not in counted]


def _why_not(hit: Hit, pack: Pack, progress: Optional[Progress]) -> Optional[str]:
    rule = pack.get(hit.rule)
    if rule is None:
        return None
    severe = rule.rule.severity.at_least(Severity.WARNING)
    at_info = rule.match is not None and rule.match.level == "info"
    if severe and not at_info and hit.setting.own_level and hit.setting.level in _QUIET_LEVELS:
        return "quiet"
    text = bare(hit.text)
    if _SAMPLE.search(text) and not _RAISED.match(text):
        return "quoted"
    if _QUOTED.search(text) or (_SOURCE.search(text) and not hit.setting.code) or _in_comment(hit.text):
        return "quoted"
    if rule.role == "generic" and severe and went_on(hit, progress):
        return "went-on"
    return None


def _in_comment(line: bytes) -> bool:
    """Whether an error or a code stands only in the comment behind a setting or code."""
    if b"#" not in line and b"//" not in line and not line.lstrip().startswith(b";"):
        return False
    text = decode(line)
    before = without_comment(text)
    return len(before) < len(text) and _TELLS.search(before) is None


def only_warns(hit: Hit, pack: Pack) -> bool:
    """Whether the line says of itself that it is a warning, and the rule does not say that a warning shows its fault."""
    rule = pack.get(hit.rule)
    if rule is None or rule.match is None or rule.match.level != "error":
        return False
    warns = (
        (hit.setting.own_level and hit.setting.level == "WARNING") or _COMPILER_WARNS.match(hit.text) is not None
    ) and (_ERROR_WITHIN.search(hit.text) is None or _HANDLED.search(hit.text) is not None)
    return warns and rule.rule.severity.at_least(Severity.WARNING)


def went_on(hit: Hit, progress: Optional[Progress]) -> bool:
    """Whether the rank of a hit went on training after it."""
    return progress is not None and progress.after(hit) >= _WENT_ON
