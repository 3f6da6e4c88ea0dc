"""How ``watch`` and ``run`` say what they see: lines, events, a command that is called, metrics that are served."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Optional, Protocol

from doctor.commands.folders import resume_command
from doctor.errors import EXIT_OK, EXIT_USAGE
from doctor.finding import Severity, Text
from doctor.records.record import Metric, Notice
from doctor.report.model import Report
from doctor.report.text import finding_lines, paint, render, width_of
from doctor.report.write import terminal_width, use_colour
from doctor.session import DiagnosisSession, Event
from doctor.session.reading import end_record


class Sink(Protocol):
    """Something that hears of events besides the printer."""

    def event(self, event: Event) -> None: ...

    def look(self, session: DiagnosisSession) -> None:
        """Called some times a second while the run is followed."""

    def close(self) -> None: ...


class Out(Protocol):
    """Where a `Printer` writes to."""

    def write(self, text: str, /) -> int: ...

    def flush(self) -> None: ...


class Printer:
    """Writes events as they come (`jsonl`, or text while a run is followed) and the diagnosis at the end."""

    def __init__(self, args: argparse.Namespace, out: Optional[Out] = None, live: bool = True) -> None:
        self.args = args
        self.out: Out = out if out is not None else sys.stdout
        self.jsonl = args.format == "jsonl"
        self.wants_metrics = self.jsonl and getattr(args, "metrics", False)
        self.live = live and not getattr(args, "once", False)
        self.colour = use_colour(args.color)
        self.width = width_of(terminal_width())

    def metric(self, metric: Metric) -> None:
        self.out.write(json.dumps(metric.to_event(), ensure_ascii=False) + "\n")

    def event(self, event: Event) -> None:
        if self.jsonl:
            self.out.write(json.dumps(event.to_dict(self.args.lang), ensure_ascii=False) + "\n")
        elif self.live:
            self._say(event)

    def _say(self, event: Event) -> None:
        finding, lang = event.finding, self.args.lang
        if not event.is_news:
            return
        if event.kind == "opened" and event.times == 1:
            for line in finding_lines(finding, lang, colour=self.colour, width=self.width, verbose=self.args.verbose):
                self.out.write(line + "\n")
            self.out.write("\n")
            return
        words = {
            "opened": Text(f"again ({event.times} times)", f"再次出现（第 {event.times} 次）"),
            "updated": Text("changed", "更新"),
            "resolved": Text("over", "已恢复"),
        }
        word = words[event.kind].pick(lang)
        cause = "" if finding.root_cause else Text(" (a consequence)", "（后果）").pick(lang)
        style = "ok" if event.kind == "resolved" else finding.severity.value
        self.out.write(f"{paint(word, style, self.colour)} {finding.rule} {finding.title.pick(lang)}{cause}\n")

    def end(self, session: DiagnosisSession) -> int:
        """The last words; gives the exit code."""
        from doctor.report.model import exit_code

        report = report_of(session)
        if self.jsonl:
            row = {"event": "end", "verdict": report.verdict, "lines": session.lines, "bytes": session.bytes}
            self.out.write(json.dumps(row) + "\n")
        else:
            for line in render(
                report,
                self.args.lang,
                colour=self.colour,
                width=self.width,
                verbose=self.args.verbose,
                quiet=self.args.quiet,
            ):
                self.out.write(line + "\n")
        self.out.flush()
        return exit_code(report, self.args.fail_on) or (EXIT_USAGE if report.unknown else EXIT_OK)


def report_of(session: DiagnosisSession) -> Report:
    """What the session has found, as a report."""
    findings = session.findings()
    return Report(
        "watch",
        findings,
        next_command=_next(session, findings),
        headline=_headline(session),
        unknown=not session.lines and not findings,  # nothing was written: that is no good sign, nor a bad one
    )


def _headline(session: DiagnosisSession) -> tuple[Text, ...]:
    """What was read: logs, lines, how far the run got."""
    logs = len(session.sources)
    en = f"{logs} {'log' if logs == 1 else 'logs'}, {session.lines} lines"
    zh = f"{logs} 个日志，{session.lines} 行"
    steps = [stream.last for stream in session.streams.values() if stream.last is not None]
    if steps:
        last = max(steps, key=lambda metric: (metric.at or 0, metric.source))
        total = session.facts.announced(last)
        of_en, of_zh = (f" of {total}", f"/{total}") if total else ("", "")
        loss = f", loss {last.loss:.4g}" if last.loss is not None else ""
        en += f"; step {last.at}{of_en}{loss}"
        zh += f"；第 {last.at}{of_zh} 步" + (f"，损失 {last.loss:.4g}" if last.loss is not None else "")
    words = [Text(f"{en}.", f"{zh}。")]
    words.extend(unread(notice) for notice in session.notices if notice.kind in ("unreadable", "damaged"))
    return tuple(words)


def unread(notice: Notice) -> Text:
    """Which log was not read, or not to its end, and why."""
    from_en, from_zh = (
        (f" from byte {notice.offset} on", f"（从第 {notice.offset} 字节起）") if notice.offset else ("", "")
    )
    return Text(
        f"{notice.source}: not read{from_en} ({notice.detail})",
        f"{notice.source}：未能读取{from_zh}（{notice.detail}）",
    )


def _next(session: DiagnosisSession, findings: tuple[Any, ...]) -> str:
    """The command to run next: the first fix that is one, else the rule's explanation."""
    for finding in findings:
        if finding.severity is Severity.INFO:
            continue
        for fix in finding.fixes:
            if fix.command:
                return str(fix.command)
        return f"doctor explain {finding.rule}"
    folder = session.config.parent if session.config is not None else None
    if folder is not None and end_record(folder) == "interrupted":
        return resume_command(folder)
    return ""


def sinks_of(args: argparse.Namespace) -> list[Sink]:
    """What the options ask for besides printing."""
    sinks: list[Sink] = []
    if getattr(args, "notify", None):
        from doctor.commands.notify import Notifier

        sinks.append(Notifier(args.notify, args.lang))
    if getattr(args, "prometheus", None):
        from doctor.commands.prometheus import Exporter

        sinks.append(Exporter(args.prometheus))
    return sinks
