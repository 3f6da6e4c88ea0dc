"""The plain text form: 80 columns, one screen by default, the verdict and the next command last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Optional

from doctor.check import CheckOutcome
from doctor.escape import visible
from doctor.finding import Evidence, Finding, Fix, Text, number_text
from doctor.report.model import Report
from doctor.report.width import cell_width, wrap

_COLOUR = {
    "fatal": "1;31",
    "error": "31",
    "warning": "33",
    "info": "36",
    "ok": "32",
    "unknown": "35",
    "dim": "2",
}
_INDENT = "    "
#: findings shown whole before the rest is only counted; -v shows all
SHOWN = 12

_WORDS = {
    "fatal": Text("fatal", "致命"),
    "error": Text("error", "错误"),
    "warning": Text("warning", "警告"),
    "info": Text("info", "提示"),
    "fix": Text("fix", "修复"),
    "run": Text("run", "执行"),
    "verify": Text("verify", "验证"),
    "manual": Text("", ""),
    "evidence": Text("at", "位置"),
    "consequence": Text("(consequence of the above)", "（上述原因的后果）"),
    "confidence": Text("confidence", "置信度"),
    "ruled_out": Text("ruled out", "已排除"),
    "see": Text("see", "参考"),
    "skipped": Text("skipped", "跳过"),
    "crashed": Text("crashed", "崩溃"),
    "collect": Text("collect", "收集"),
    "next": Text("Next", "下一步"),
    "edit": Text("edit", "修改"),
}
_COLON = Text(": ", "：")


def word(key: str, lang: str) -> str:
    """A severity, or what stands before a line of a finding."""
    return _WORDS[key].pick(lang)


def _label(key: str, lang: str) -> str:
    """The word and a colon. A blank stands before a place in Chinese too: terminals that make it a link go by blanks."""
    return word(key, lang) + _COLON.pick(lang) + (" " if lang == "zh" and key == "evidence" else "")


def paint(text: str, style: str, colour: bool) -> str:
    return f"\x1b[{_COLOUR[style]}m{text}\x1b[0m" if colour and style in _COLOUR else text


def render(
    report: Report,
    lang: str,
    *,
    colour: bool = False,
    width: int = 80,
    verbose: bool = False,
    quiet: bool = False,
) -> Iterator[str]:
    """The lines of a report. The last one is the verdict and what to run next."""
    if not quiet:
        for text in report.headline:
            line = visible(text.pick(lang))
            if cell_width(line) <= width:
                yield line  # tables keep their blanks
            else:
                yield from wrap(line, width)
        if report.headline and (report.findings or report.collect):
            yield ""
    shown = report.findings if verbose else report.findings[:SHOWN]
    for finding in shown:
        yield from finding_lines(finding, lang, colour=colour, width=width, verbose=verbose)
        yield ""
    hidden = len(report.findings) - len(shown)
    if hidden:
        yield Text(f"… and {hidden} more: add -v to see all.", f"……另有 {hidden} 条：加 -v 查看全部。").pick(lang)
    if report.collect:
        for item in report.collect:
            yield from wrap(visible(item.what.pick(lang)), width, _label("collect", lang), _INDENT)
            yield f"{_INDENT}$ {visible(item.command)}"
    if not quiet:
        yield from _outcome_lines(report.outcomes, lang, colour, width, verbose)
    yield last_line(report, lang, colour, verbose)


def finding_lines(
    finding: Finding, lang: str, *, colour: bool = False, width: int = 80, verbose: bool = False
) -> Iterator[str]:
    """One finding: what, where, why, then the fix with each command on a line of its own."""
    label = word(finding.severity.value, lang)
    lines = list(wrap(visible(finding.title.pick(lang)), width, f"{label} {finding.rule} ", _INDENT))
    yield lines[0].replace(label, paint(label, finding.severity.value, colour), 1)
    yield from lines[1:]
    if not finding.root_cause:
        yield _INDENT + word("consequence", lang)
    yield from wrap(visible(finding.message.pick(lang)), width, _INDENT, _INDENT)
    for item in finding.evidence if verbose else finding.evidence[:2]:
        yield from _evidence_lines(item, lang, width)
    for fix in finding.fixes if verbose else finding.fixes[:2]:
        yield from _fix_lines(fix, lang, width)
    if finding.confidence < 0.995:
        yield f"{_INDENT}{_label('confidence', lang)}{finding.confidence:.0%}"
    if verbose:
        for text in finding.ruled_out:
            yield from wrap(visible(text.pick(lang)), width, _INDENT + _label("ruled_out", lang), _INDENT)
        for reference in finding.references:
            yield f"{_INDENT}{_label('see', lang)}{visible(reference)}"


def place(item: Evidence) -> str:
    """file:line:column key, as editors and terminals make it clickable."""
    where = visible(item.source)
    if item.line is not None:
        where += f":{item.line}"
        if item.column is not None:
            where += f":{item.column}"
    if item.key:
        where += f" {visible(item.key)}"
    if item.rank is not None:
        where += f" (rank {item.rank})"
    return where


def _evidence_lines(item: Evidence, lang: str, width: int) -> Iterator[str]:
    yield from wrap(place(item), width, _INDENT + _label("evidence", lang), _INDENT * 2)
    said = item.said(lang)
    if said:
        yield f"{_INDENT * 2}> {visible(said, max(40, width - 10))}"


def _value(value: Any) -> str:
    """As it is to be typed: a float in a form that YAML takes for a number."""
    return number_text(value) if isinstance(value, float) else str(value)


def _fix_lines(fix: Fix, lang: str, width: int) -> Iterator[str]:
    yield from wrap(visible(fix.summary.pick(lang)), width, _INDENT + _label("fix", lang), _INDENT * 2)
    for edit in fix.edits:
        yield from wrap(
            visible(f"{edit.key}: {_value(edit.old)} -> {_value(edit.new)}  ({edit.path})"),
            width,
            f"{_INDENT * 2}{_label('edit', lang)}",
            _INDENT * 3,
        )
    if fix.command:
        yield f"{_INDENT * 2}$ {visible(fix.command)}"
    if fix.verify:
        yield f"{_INDENT}{_label('verify', lang)}{visible(fix.verify)}"


def _outcome_lines(
    outcomes: tuple[CheckOutcome, ...], lang: str, colour: bool, width: int, verbose: bool
) -> Iterator[str]:
    for outcome in outcomes:
        if outcome.state == "crashed":
            reason = outcome.reason.pick(lang) if outcome.reason else ""
            label = f"{word('crashed', lang)} {outcome.rule}{_COLON.pick(lang)}"
            yield from wrap(visible(reason), width, label, _INDENT)
    skipped = [outcome for outcome in outcomes if outcome.state == "skipped"]
    label = word("skipped", lang)
    if verbose:
        for outcome in skipped:
            reason = outcome.reason.pick(lang) if outcome.reason else ""
            yield from wrap(visible(reason), width, f"{label} {outcome.rule}{_COLON.pick(lang)}", _INDENT)
    elif len(skipped) == len(outcomes):
        # Nothing could be judged, so the reasons are the news. One line a reason, not one a check.
        reasons: dict[str, int] = {}
        for outcome in skipped:
            reason = outcome.reason.pick(lang) if outcome.reason else ""
            reasons[reason] = reasons.get(reason, 0) + 1
        for reason, count in sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))[:3]:
            yield from wrap(visible(reason), width, f"{label} {count}{_COLON.pick(lang)}", _INDENT)


def last_line(report: Report, lang: str, colour: bool, verbose: bool) -> str:
    """The verdict and the next command."""
    sentence = verdict(report).pick(lang)
    if not verbose and any(outcome.state == "skipped" for outcome in report.outcomes):
        sentence += Text(" (-v: why skipped)", "（-v 查看跳过原因）").pick(lang)
    style = {"ok": "ok", "warning": "warning", "error": "error"}.get(report.verdict, "unknown")
    follow = f" {_label('next', lang)}{visible(report.next_command)}" if report.next_command else ""
    return paint(sentence, style, colour) + follow


def verdict(report: Report) -> Text:
    """The verdict in one sentence with its counts."""
    counts = dict.fromkeys(("fatal", "error", "warning", "info"), 0)
    for finding in report.findings:
        counts[finding.severity.value] += 1
    errors = counts["fatal"] + counts["error"]
    parts_en, parts_zh = [], []
    if errors:
        parts_en.append(_plural(errors, "error"))
        parts_zh.append(f"{errors} 个错误")
    if counts["warning"]:
        parts_en.append(_plural(counts["warning"], "warning"))
        parts_zh.append(f"{counts['warning']} 个警告")
    if counts["info"]:
        parts_en.append(_plural(counts["info"], "note"))
        parts_zh.append(f"{counts['info']} 条提示")
    states: dict[str, int] = {}
    for outcome in report.outcomes:
        states[outcome.state] = states.get(outcome.state, 0) + 1
    for state, zh in (("passed", "项通过"), ("skipped", "项跳过"), ("crashed", "项崩溃")):
        if states.get(state):
            parts_en.append(f"{states[state]} {state}")
            parts_zh.append(f"{states[state]} {zh}")
    head = {
        "ok": Text("OK", "正常"),
        "warning": Text("Warnings", "有警告"),
        "error": Text("Problems found", "发现问题"),
        "unknown": Text("Unknown", "未知"),
    }[report.verdict]
    if not parts_en:
        return Text(f"{head.en}.", f"{head.zh}。")
    return Text(f"{head.en}: {', '.join(parts_en)}.", f"{head.zh}：{'，'.join(parts_zh)}。")


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def width_of(columns: Optional[int]) -> int:
    """Text is made for 80 columns, less on a narrower terminal, never wider than reads well."""
    return max(20, min(columns or 80, 100))
