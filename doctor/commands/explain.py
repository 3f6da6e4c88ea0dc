"""`doctor explain [TEXT…|FILE|-|RULE-ID|CODE]`: the cause of what the software printed, or what to collect."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, Optional, Union

from doctor.diagnosis import diagnose_paths, diagnose_stdin, diagnose_text
from doctor.errors import EXIT_FINDINGS, EXIT_OK, UsageError
from doctor.escape import visible
from doctor.finding import Finding, Text
from doctor.language import Help
from doctor.match.explain import Explanation
from doctor.match.pack import Pack, load_pack
from doctor.report.model import Collect, Report

DESCRIPTION = Text(
    "Explains an error text, a log file or folder, an error code, a rule id, or a question in words.",
    "解释报错文本、日志文件或目录、错误码、规则编号，或用一句话描述的问题。",
)
EPILOG = Text(
    'examples:\n  doctor explain "RuntimeError: …"\n  doctor explain worker_0.log\n  doctor explain 507011\n'
    "  doctor explain LOG-HCCL-002\n  doctor explain loss is nan\n  dmesg | doctor explain -",
    '示例：\n  doctor explain "RuntimeError: …"\n  doctor explain worker_0.log\n  doctor explain 507011\n'
    "  doctor explain LOG-HCCL-002\n  doctor explain 训练启动就OOM\n  dmesg | doctor explain -",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="TEXT|FILE|-|RULE-ID|CODE",
        help=Help("what to explain; nothing or - reads stdin", "要解释的内容；留空或 - 读取标准输入"),
    )


def run(args: argparse.Namespace) -> int:
    from doctor.report.write import emit

    report = _report(list(args.words), load_pack(args.settings.rules), args.lang)
    emit(report, args)
    return EXIT_FINDINGS if report.unknown else EXIT_OK


def build_report(text: Union[str, bytes]) -> Report:
    """The Python face: a text of any kind, a code or a rule id; no files."""
    pack = load_pack()
    named = _named(text, pack) if isinstance(text, str) else None
    return named if named is not None else of_explanation(diagnose_text(text, pack=pack))


def of_explanation(explanation: Explanation, lang: str = "en") -> Report:
    """The report on an explanation; `lang` is for the titles of the nearest rules."""
    extra: dict[str, Any] = {}
    if explanation.nearest:
        from doctor.commands.shown import opened

        extra["nearest"] = [
            {"rule": item.rule, "title": opened(item.title).pick(lang), "likeness": item.likeness}
            for item in explanation.nearest
        ]
    if explanation.skeleton:
        extra["skeleton"] = explanation.skeleton
    collect = tuple(Collect(item.what, item.command) for item in explanation.collect)
    headline: tuple[Text, ...] = ()
    if explanation.unknown:
        headline = _unknown_lines(explanation)
    return Report(
        "explain",
        findings=explanation.findings,
        collect=collect,
        unknown=explanation.unknown,
        next_command=_next(explanation.findings, collect),
        headline=headline,
        extra=extra,
    )


def _unknown_lines(explanation: Explanation) -> tuple[Text, ...]:
    if explanation.quiet:
        lines = [Text("Nothing in this text speaks of a failure.", "这段文本中没有报错信息。")]
    else:
        lines = [Text("No rule fits this text; the cause is not known.", "没有规则符合这段文本，原因未知。")]
    from doctor.commands.shown import opened

    for item in explanation.nearest:
        lines.append(
            Text(f"nearest: {item.rule} {opened(item.title).en}", f"最接近的规则：{item.rule} {opened(item.title).zh}")
        )
    return tuple(lines)


def _next(findings: Sequence[Finding], collect: Sequence[Collect]) -> Optional[str]:
    if not findings:
        return collect[0].command if collect else None
    for fix in findings[0].fixes:
        if fix.command or fix.verify:
            return fix.command or fix.verify
    return None


def _report(words: list[str], pack: Pack, lang: str) -> Report:
    if not words or words == ["-"]:
        if not words and sys.stdin.isatty():
            raise UsageError(
                Text("nothing to explain.", "没有要解释的内容。"),
                Text(
                    'Give a text, a file, a code or a rule id: doctor explain "…"',
                    '请给出文本、文件、错误码或规则编号：doctor explain "…"',
                ),
            )
        return of_explanation(diagnose_stdin(pack), lang)
    text = " ".join(words)
    if len(words) == 1:
        named = _named(text, pack)
        if named is not None:
            return named
    if all(_exists(word) for word in words):
        from doctor.records.packed import opened_all

        with opened_all(words) as paths:
            return of_explanation(diagnose_paths(paths, pack), lang)
    if len(words) == 1 and _looks_like_path(text):
        raise UsageError(
            Text(
                f"{visible(text, 200)}: there is no such file or folder.", f"{visible(text, 200)}：文件或目录不存在。"
            ),
            Text("Check the spelling; a relative path starts here.", "请检查拼写；相对路径从当前目录算起。"),
        )
    return of_explanation(diagnose_text(text, "<text>", pack), lang)


def _named(word: str, pack: Pack) -> Optional[Report]:
    """The report on a rule or a code, or None when it is not the word for one."""
    if not 1 <= len(word) <= 80 or any(char.isspace() for char in word.strip()):
        return None
    from doctor.commands.shown import report_on

    return report_on(word, pack)


def _exists(word: str) -> bool:
    try:
        return os.path.exists(word)
    except (OSError, ValueError):
        return False


def _looks_like_path(word: str) -> bool:
    """One word that can hardly be anything but the name of a log."""
    return (
        re.fullmatch(r"(?:\.{0,2}/)?[\w.@+-]+(?:/[\w.@+-]+)*\.(?:log|txt|out|err|gz)|\.{0,2}/[\w./-]+", word)
        is not None
    )
