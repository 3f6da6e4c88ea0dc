"""`doctor selftest`: proof on this machine that the doctor finds what it should and is quiet where nothing is wrong."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn, Optional

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.language import Help

if TYPE_CHECKING:
    from doctor.check import CheckOutcome
    from doctor.finding import Finding
    from doctor.report.model import Report
    from doctor.selftest.measure import Measured

DESCRIPTION = Text(
    "Plants faults on this machine and measures the doctor on them: how many it finds, how soon, and how often it is\n"
    "alarmed by what is healthy. Short trainings of a small network (watch), the examples of all rules with those of\n"
    "your own folders (explain), mistakes in configs (config), weights and data, and logs that a process writes while\n"
    "doctor watch follows (live). Needs no hardware, no network and no extras; about a minute on two cores.",
    "在本机植入故障并测量 doctor：检出多少、多快，以及在正常输入上误报多少。包括小网络的真实短训练（watch）、\n"
    "全部规则及自有规则目录的示例（explain）、配置错误（config）、权重与数据（weights、data），以及由 doctor watch\n"
    "实时跟踪的日志（live）。无需硬件、网络和附加依赖，双核约一分钟。",
)
EPILOG = Text(
    "examples:\n  doctor selftest\n  doctor selftest --only explain            all rules, your own too\n"
    "  doctor selftest --only watch --runs 10    more trainings of each kind\n"
    "  doctor selftest --only live --folder /data/output\n"
    "  doctor selftest --only LOG-HCCL-001 -v\n"
    "  doctor selftest --healthy output/good     no rule may be raised on that run\n\n"
    "Exit code 0: every planted fault was found and nothing healthy raised anything. Trainings are noisy: of those one in\n"
    "twenty may be missed and one in thirty healthy ones may raise something (at least one), but no kind may be missed\n"
    "in all of three runs or more. Equal seeds give equal JSON; times in milliseconds are only in the text and with -v.",
    "示例：\n  doctor selftest\n  doctor selftest --only explain            全部规则，含自有规则\n"
    "  doctor selftest --only watch --runs 10    每种故障训练更多次\n"
    "  doctor selftest --only live --folder /data/output\n"
    "  doctor selftest --only LOG-HCCL-001 -v\n"
    "  doctor selftest --healthy output/good     该次训练上不应触发任何规则\n\n"
    "退出码 0：植入的故障全部检出，且正常输入无任何误报。训练有噪声：允许漏报二十分之一、三十分之一的\n"
    "正常训练误报（至少各一次），但任何一种故障不得在三次及以上的训练中全部漏报。相同种子得到相同的 JSON；毫秒数只在文本和 -v 中给出。",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="WHAT",
        help=Help(
            "a part, PART/KIND, a kind of fault or a rule id; may be repeated",
            "部分、部分/种类、故障种类或规则编号；可重复",
        ),
    )
    parser.add_argument(
        "--runs",
        type=_count,
        default=1,
        metavar="N",
        help=Help("trainings of each kind, with other seeds (default 1)", "每种故障训练的次数，种子各不相同（默认 1）"),
    )
    parser.add_argument(
        "--seed", type=_seed, default=0, metavar="N", help=Help("what is drawn (default 0)", "随机种子（默认 0）")
    )
    parser.add_argument(
        "--healthy",
        action="append",
        default=[],
        metavar="PATH",
        help=Help("the logs of a run of yours that went well; may be repeated", "你的一次正常训练的日志或目录；可重复"),
    )
    parser.add_argument(
        "--folder",
        metavar="DIR",
        help=Help(
            "where temporary files are written: give one on the disk of your logs",
            "临时文件所在目录：建议与训练日志同盘",
        ),
    )


def _count(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"{text}: not a number of runs (1 to 1000)")
    return value


def _seed(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text}: not a number of seeds (0 to 1000000)")
    return value


def run(args: argparse.Namespace) -> int:
    from doctor.report.write import emit
    from doctor.selftest.measure import Request, measure

    folder = Path(args.folder) if args.folder else None
    if folder is not None and not folder.is_dir():
        raise UsageError(Text(f"{folder}: there is no such folder.", f"{folder}：目录不存在。"))
    request = Request(
        args.seed,
        args.runs,
        tuple(args.only),
        tuple(args.healthy),
        folder.absolute() if folder else None,
        tuple(path.absolute() for path in args.settings.rules),
        _settings_file(args),
    )
    with _Stopped(), _Bar(args) as bar:
        measured = measure(request, bar.show)
    return emit(report_of(measured, args.verbose, args.seed, args.runs), args)


def report_of(measured: Measured, verbose: bool, seed: int = 0, runs: int = 1) -> Report:
    """What was measured, as a report; milliseconds are in it only when `verbose`."""
    from doctor.report.model import Report, in_order
    from doctor.report.text import width_of
    from doctor.report.write import terminal_width
    from doctor.selftest.text import lines, total
    from doctor.selftest.verdict import broken_rules, findings, outcome_of

    place = str(measured.folder) if measured.folder is not None else "-"
    installed, wrong = _installation()
    came = findings(measured.parts, place, measured.own, seed, runs)
    # Of damaged files the rest may be the consequence.
    came = (item.with_(root_cause=not wrong or item.rule not in wrong[0].explains) for item in came)
    found = [*broken_rules(measured.broken), *wrong, *came]
    parts = {part.name: part.whole for part in measured.parts}
    outcomes = [outcome_of(part, bool(part.whole.missed or part.whole.alarmed)) for part in measured.parts]
    return Report(
        "selftest",
        in_order(found),
        (installed, *outcomes),
        {
            "seeds": sorted({item.trial.seed for row in parts.values() for item in row.results}),
            "rows": [row.to_dict(verbose) for part in measured.parts for row in part.rows],
        },
        headline=(*lines(measured, verbose, width_of(terminal_width())), total(measured.parts)),
        next_command=_next(found),
    )


def _installation() -> tuple[CheckOutcome, tuple[Finding, ...]]:
    """Whether the files are those that were installed."""
    from doctor.check import CheckOutcome, Skip
    from doctor.selftest.installation import damaged
    from doctor.selftest.rules import DAMAGED
    from doctor.selftest.verdict import damaged_files

    try:
        files = damaged()
    except Skip as skip:
        return CheckOutcome(DAMAGED.id, "skipped", skip.reason, target="installation"), ()
    if not files:
        return CheckOutcome(DAMAGED.id, "passed", target="installation"), ()
    return CheckOutcome(DAMAGED.id, "found", target="installation"), (damaged_files(files),)


def _next(found: list[Finding]) -> str:
    from doctor.finding import Severity

    for finding in found:
        if finding.severity is not Severity.INFO and finding.fixes and finding.fixes[0].verify:
            return finding.fixes[0].verify
    return "doctor check"


def _settings_file(args: argparse.Namespace) -> Optional[str]:
    from doctor.settings import DEFAULT_FILE

    name = args.settings_file or (DEFAULT_FILE if Path(DEFAULT_FILE).is_file() else None)
    return str(Path(name).absolute()) if name else None


class _Bar:
    """Progress on a terminal: one line that is written over and taken away at the end."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._on = sys.stderr.isatty() and not args.quiet
        self._shown = -1

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *reason: object) -> None:
        if self._on:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def show(self, part: str, done: int, of: int) -> None:
        percent = 100 * done // max(1, of)
        if self._on and (percent != self._shown or not done):
            self._shown = percent
            sys.stderr.write(f"\r\x1b[K{part} {done}/{of}")
            sys.stderr.flush()


class _Stopped:
    """A closed terminal and a polite kill end the test as Ctrl-C does: nothing is left on the disk."""

    def __enter__(self) -> None:
        self._before = {number: signal.signal(number, _stop) for number in (signal.SIGTERM, signal.SIGHUP)}

    def __exit__(self, *reason: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _stop(number: int, frame: Optional[FrameType]) -> NoReturn:
    raise KeyboardInterrupt
