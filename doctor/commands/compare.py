"""`doctor compare A B`: what differs between two runs, configs or machines, and what of it explains the outcome."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from doctor.errors import EXIT_FINDINGS, UsageError
from doctor.finding import Severity, Text
from doctor.language import Help
from doctor.report.model import Report, exit_code

if TYPE_CHECKING:
    from doctor.compare.order import Comparison

DESCRIPTION = Text(
    "Compares two runs (folders, logs, bundles), two configs or two machines: A is the one that was good. Settings are\n"
    "compared by what they mean, curves at equal step or equal tokens; the likeliest cause of the difference comes first.",
    "比较两次训练（目录、日志或诊断包）、两个配置或两台机器：A 为正常的一方。\n配置按含义比较，曲线按相同步数或 token 数比较；最可能的原因排在最前。",
)
EPILOG = Text(
    "examples:\n  doctor compare output/good output/bad\n  doctor compare good.yaml bad.yaml\n"
    "  doctor compare node1.json node2.json        (of doctor collect)\n  doctor compare good.tar.gz output/log/rank_0/info.log\n\n"
    "To differ is no fault: exit code 1 only when B has findings that A lacks, at or above\n--fail-on, or when its loss is worse.",
    "示例：\n  doctor compare output/good output/bad\n  doctor compare good.yaml bad.yaml\n"
    "  doctor compare node1.json node2.json        （doctor collect 的输出）\n  doctor compare good.tar.gz output/log/rank_0/info.log\n\n"
    "有差异并不算问题：仅当 B 出现 A 没有的、达到 --fail-on 级别的诊断，或损失变差时，退出码为 1。",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help=Help("the good run, config or host file", "正常的训练、配置或机器信息"))
    parser.add_argument("b", metavar="B", help=Help("the one that is in question", "有疑问的一方"))


def run(args: argparse.Namespace) -> int:
    from doctor.compare.order import compare
    from doctor.compare.subject import alike, load
    from doctor.compare.text import next_command
    from doctor.match.pack import load_pack

    if args.a == args.b == "-":
        raise UsageError(Text("standard input cannot be both A and B.", "标准输入不能同时作为 A 和 B。"))
    pack = load_pack(args.settings.rules)
    a, b = alike(load(args.a, pack), load(args.b, pack))
    comparison = compare(a, b)
    report = Report(
        "compare",
        findings=comparison.new,
        facts=comparison.facts(args.lang),
        next_command=next_command(comparison) or None,
        extra={"verdict": "error"} if _worse_than_found(comparison) else {},
    )
    if args.format == "text":
        _write(comparison, args)
    else:
        from doctor.report.write import emit

        emit(report, args)
    code = exit_code(report, args.fail_on)
    return code or (EXIT_FINDINGS if comparison.regression and args.fail_on != "never" else code)


def _worse_than_found(comparison: Comparison) -> bool:
    """Whether the loss is worse though no finding that only B has says so."""
    return comparison.regression and not any(f.severity.at_least(Severity.ERROR) for f in comparison.new)


def _write(comparison: Comparison, args: argparse.Namespace) -> None:
    from doctor.compare.text import lines, next_command, verdict
    from doctor.escape import visible
    from doctor.report.text import paint, width_of
    from doctor.report.width import wrap
    from doctor.report.write import terminal_width, use_colour

    width, colour = width_of(terminal_width()), use_colour(args.color)
    for line in lines(comparison, args.lang, width=width, colour=colour, verbose=args.verbose, quiet=args.quiet):
        sys.stdout.write(line + "\n")
    said = visible(verdict(comparison).pick(args.lang))
    command = next_command(comparison)
    if command:
        said += Text(" Next: ", "下一步：").pick(args.lang) + visible(command)
    style = "error" if comparison.regression or _failing(comparison) else "ok"
    for index, line in enumerate(wrap(said, width)):
        sys.stdout.write((paint(line, style, colour) if not index else line) + "\n")


def _failing(comparison: Comparison) -> bool:
    return any(finding.severity.at_least(Severity.ERROR) for finding in comparison.new)
