"""`doctor check [TARGET…]`: what can be judged before a run, all at once."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

from doctor import runner
from doctor.check import Options
from doctor.commands.folders import FAMILY as RUN
from doctor.commands.folders import is_run, judge_run, resume_command
from doctor.errors import EXIT_FINDINGS, EXIT_OK, EXIT_USAGE, UsageError
from doctor.examples import example
from doctor.finding import Edit, Finding, Text
from doctor.language import Help
from doctor.report.model import Report, exit_code, in_order
from doctor.report.write import emit

DESCRIPTION = Text(
    "Judges this machine (no target), or training configs, weights, data sets and run folders.",
    "检查本机环境（无参数时），或训练配置、权重、数据集、运行目录。",
)
EPILOG = Text(
    "examples:\n  doctor check\n  doctor check config.yaml --devices 8\n  doctor check config.yaml --fix\n"
    "  doctor check config.yaml --smoke\n  doctor check weights/ --format json",
    "示例：\n  doctor check\n  doctor check config.yaml --devices 8\n  doctor check config.yaml --fix\n"
    "  doctor check config.yaml --smoke\n  doctor check weights/ --format json",
)

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?\s*", re.IGNORECASE)
_POWER = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help=Help("config, weights, data set or run folder", "配置、权重、数据集或运行目录"),
    )
    parser.add_argument(
        "--devices", type=count, metavar="N", help=Help("how many NPUs the run will use", "训练使用的 NPU 数量")
    )
    parser.add_argument("--device-memory", type=size, metavar="64GB", help=Help("memory of one NPU", "单个 NPU 的显存"))
    parser.add_argument(
        "--mindformers",
        metavar="VERSION",
        help=Help("release that will read the config", "读取该配置的 MindFormers 版本"),
    )
    parser.add_argument(
        "--weights", metavar="PATH", help=Help("weights that the config will load", "该配置要加载的权重")
    )
    parser.add_argument(
        "--data", metavar="PATH", help=Help("data set that the config will read", "该配置要读取的数据集")
    )
    parser.add_argument(
        "--python",
        metavar="PATH",
        help=Help("interpreter to examine instead of this one", "要检查的解释器（默认当前解释器）"),
    )
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="FILE",
        help=Help("facts from `doctor collect`; - reads stdin", "`doctor collect` 的输出文件；- 表示标准输入"),
    )
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        choices=("driver", "cann", "mindspore", "mindformers", "python"),
        help=Help("a part that may not change when versions are solved for", "求解版本配套时不允许变更的部件"),
    )
    parser.add_argument(
        "--values",
        action="store_true",
        help=Help("read tensor values too, not only headers", "除文件头外也读取张量的值"),
    )
    parser.add_argument(
        "--deep",
        action="store_true",
        help=Help("import the framework and compute, in a child process", "在子进程中导入框架并实际计算"),
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help=Help(
            "also make the config small and train it a few steps, save and resume included",
            "另外缩小配置并实际训练几步，含保存与断点续训",
        ),
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="RULE",
        help=Help("only these rules (id or prefix)", "只检查这些规则（编号或前缀）"),
    )
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="RULE", help=Help("not these rules", "不检查这些规则")
    )
    parser.add_argument(
        "--fix",
        action="store_true",
        help=Help("edit the config: shows a diff, then asks", "修改配置：先显示 diff，再询问"),
    )
    parser.add_argument(
        "--unsafe-fixes",
        action="store_true",
        help=Help("with --fix: also edits that change the training", "与 --fix 同用：也做会改变训练的修改"),
    )
    parser.add_argument("--yes", action="store_true", help=Help("with --fix: do not ask", "与 --fix 同用：不再询问"))


def run(args: argparse.Namespace) -> int:
    options, selection = _options(args), _selection(args)
    targets = _targets(args.targets)
    judged = [runner.judge_host(options, selection)] if not targets or options.hosts else []
    options = _with_card(options, targets)
    refused: list[UsageError] = []
    for target in targets:
        try:
            judged += _judge(target, options, selection, args.settings.rules)
        except UsageError as error:
            refused.append(error)
    # One target that cannot be read does not keep back what was found in the others.
    if refused and not judged:
        raise refused[0]
    for why in refused:
        sys.stderr.write(f"doctor: {why.line(args.lang)}\n")
    _nothing_selected(judged, selection)
    report = build_report(judged, _said(args))
    if args.smoke:
        return _with_smoke(judged, report, args)
    code = emit(report, args)
    if args.fix:
        code = _fix(judged, report, args) or code
    unjudged = [item for item in judged if item.outcomes and not item.judged_anything]
    if refused:
        return max(code, EXIT_USAGE)
    return code if code else (EXIT_USAGE if unjudged else 0)


def _with_smoke(judged: list[runner.Judged], report: Report, args: argparse.Namespace) -> int:
    """The report, and the smoke test of the one config among the targets: as text its rows below, else under
    `facts.smoke`. Exit code 1 when either finds something."""
    from doctor.commands.smoke import failed, smoke_rows, verdict

    configs = [item for item in judged if item.family == "config"]
    if len(configs) != 1 or args.fix:
        raise UsageError(
            Text("--smoke tries one training config, as it stands.", "--smoke 只试跑一个训练配置，且不作修改。"),
            Text("Use: doctor check CONFIG.yaml --smoke", "用法：doctor check CONFIG.yaml --smoke"),
        )
    word = str(configs[0].target)
    if args.format != "text":
        rows = smoke_rows(word, args.lang, shown=False)
        facts = {"works": not failed(rows), "rows": [row.to_dict(args.lang) for row in rows]}
        report = replace(report, facts={**report.facts, "smoke": facts})
        return emit(report, args) or (EXIT_FINDINGS if failed(rows) else EXIT_OK)
    code = emit(report, args)
    sys.stdout.write("\n")
    rows = smoke_rows(word, args.lang, shown=True)
    sys.stdout.write(verdict(rows, word).pick(args.lang) + "\n")
    return code or (EXIT_FINDINGS if failed(rows) else EXIT_OK)


def _options(args: argparse.Namespace) -> Options:
    return Options(
        devices=args.devices,
        device_memory=args.device_memory,
        mindformers=args.mindformers,
        weights=args.weights,
        data=args.data,
        python=args.python,
        hosts=tuple(args.host),
        keep=tuple(args.keep),
        values=args.values,
        deep=args.deep,
    )


def _with_card(options: Options, targets: Sequence[Path]) -> Options:
    """The options with the memory of the card that a host's facts beside the targets show, unless the user said it."""
    documents = [*options.hosts, *(str(path) for path in targets if path.suffix == ".json")]
    if options.device_memory is not None or not documents or len(targets) + len(options.hosts) < 2:
        return options
    from doctor.checks.environment.subject import card_memory

    return replace(options, device_memory=card_memory(documents))


def _selection(args: argparse.Namespace) -> runner.Selection:
    return runner.Selection(only=(*args.settings.only, *args.only), ignore=(*args.settings.ignore, *args.ignore))


def _judge(target: Path, options: Options, selection: runner.Selection, rules: Sequence[Path]) -> list[runner.Judged]:
    """The target, and with a config the weights and data that it is said to use."""
    if is_run(target):
        return judge_run(target, options, selection, rules)
    first = runner.judge_path(target, options, selection)
    if first.family != "config":
        return [first]
    beside = replace(options, against=str(target))
    named = [Path(path) for path in (options.weights, options.data) if path]
    return [first, *(runner.judge_path(path, beside, selection) for path in named)]


def _said(args: argparse.Namespace) -> str:
    """The options that another run of the command needs to see the same."""
    words = [
        ("--devices", args.devices),
        ("--mindformers", args.mindformers),
        ("--weights", args.weights),
        ("--data", args.data),
    ]
    return "".join(f" {name} {shlex.quote(str(value))}" for name, value in words if value is not None)


def build_report(judged: list[runner.Judged], said: str = "") -> Report:
    """The report of what was judged; `said` are the options to repeat in the next command."""
    findings = in_order([f for item in judged for outcome in item.outcomes for f in outcome.findings])
    outcomes = tuple(outcome for item in judged for outcome in item.outcomes)
    return Report(
        command="check",
        findings=findings,
        outcomes=outcomes,
        facts=_facts(judged),
        headline=tuple(line for item in judged for line in item.headline),
        next_command=_next(judged, findings, said),
    )


def _facts(judged: list[runner.Judged]) -> dict[str, Any]:
    """The facts of a single target stand at the top; of several, under `targets` by their path."""
    if len(judged) == 1:
        return judged[0].facts
    return {"targets": {item.target or "host": item.facts for item in judged}}


def _next(judged: list[runner.Judged], findings: tuple[Finding, ...], said: str) -> Optional[str]:
    config = next((item for item in judged if item.family == "config"), None)
    named = shlex.quote(str(config.target)) if config is not None else ""
    # A note is no reason to change a config that is fine.
    fixable = [
        f
        for f in findings
        if f.severity.rank >= 1 and any(fix.edits and fix.applicability != "manual" for fix in f.fixes)
    ]
    if config is not None and fixable:
        unsafe = "" if any(fix.applicability == "safe" for f in fixable for fix in f.fixes) else " --unsafe-fixes"
        return f"doctor check {named}{said} --fix{unsafe}"
    for finding in findings:
        if finding.severity.rank >= 1:
            for fix in finding.fixes:
                if fix.command:
                    return fix.command
            return f"doctor explain {finding.rule}"
    stopped = next((item for item in judged if item.facts.get("run", {}).get("state") == "interrupted"), None)
    if stopped is not None:
        return resume_command(Path(str(stopped.target)))
    if any(item.family == RUN for item in judged):
        return None
    if config is not None:
        return f"doctor train {named}" if config.facts.get("dialect") == "doctor" else None
    if judged[0].family != "environment":
        return None
    return "doctor check CONFIG.yaml" if judged[0].judged_anything else "doctor collect > host.json"


def _targets(words: list[str]) -> list[Path]:
    """Paths, or packaged examples by their names where no file has that name."""
    if any("\0" in word for word in words):
        raise UsageError(Text("a path holds a NUL character.", "路径含有 NUL 字符。"))
    paths = [Path(word) for word in words]
    return [path if path.exists() else example(str(path)) or path for path in paths]


def _nothing_selected(judged: list[runner.Judged], selection: runner.Selection) -> None:
    if selection.only and not any(item.outcomes for item in judged):
        wanted = ", ".join(selection.only)
        raise UsageError(
            Text(
                f"--only {wanted}: no check of this target has that id.",
                f"--only {wanted}：该目标没有这样的检查项。",
            ),
            Text("See: doctor rules", "请查看：doctor rules"),
        )


def _fix(judged: list[runner.Judged], report: Report, args: argparse.Namespace) -> int:
    """Applies the edits of the findings, file by file, after a diff and a yes. Returns 2 where nobody can be asked."""
    from doctor.plan.edit import apply, diff

    allowed = {"safe", "unsafe"} if args.unsafe_fixes else {"safe"}
    edits = edits_of(report, allowed)
    if not edits:
        _say(Text("nothing to fix automatically.", "没有可自动修复的项。"), args)
        return 0
    for path in sorted(edits):
        old, new = repaired(Path(path), report, allowed, _options(args), _selection(args))
        if old == new:
            continue
        sys.stderr.write(diff(Path(path), old, new))
        if not args.yes:
            if not sys.stdin.isatty():
                raise UsageError(
                    Text("--fix needs a terminal to ask on.", "--fix 需要在终端中确认。"),
                    Text("Add --yes to apply without asking.", "加 --yes 可不询问直接应用。"),
                )
            sys.stderr.write(Text("apply? [y/N] ", "应用修改？[y/N] ").pick(args.lang))
            sys.stderr.flush()
            if input().strip().lower() not in {"y", "yes", "是"}:
                _say(Text(f"{path}: left as it was.", f"{path}：未修改。"), args)
                continue
        apply(Path(path), old, new)
        _say(
            Text(f"{path}: edited. Verify: doctor check {path}", f"{path}：已修改。验证：doctor check {path}"),
            args,
        )
    return 0


def repaired(
    path: Path, report: Report, allowed: set[str], options: Options, selection: runner.Selection
) -> tuple[str, str]:
    """The text of a config now and with the fixes of `report`, each judged before the next."""
    from doctor.plan.build import plan_of
    from doctor.plan.reader import parse
    from doctor.plan.repair import repair

    # What other families found (weights that do not fit) is not judged again and stays as it is.
    others = [finding for finding in report.findings if not finding.rule.startswith("CFG-")]

    def judge(text: str) -> Sequence[Finding]:
        plan = plan_of(
            parse(text.encode("utf-8"), path, forgiving=True),
            devices=options.devices,
            device_memory=options.device_memory,
            mindformers=options.mindformers,
        )
        outcomes = runner.judge_subject("config", plan, path, selection).outcomes
        return in_order([*others, *(finding for outcome in outcomes for finding in outcome.findings)])

    return repair(path, report.findings, allowed, judge)


def edits_of(report: Report, allowed: set[str]) -> dict[str, list[Edit]]:
    """The edits that findings propose first, by file, of the kinds that are `allowed` (safe, unsafe)."""
    edits: dict[str, list[Edit]] = {}
    for finding in report.findings:
        for fix in finding.fixes[:1]:
            if fix.applicability in allowed:
                for edit in fix.edits:
                    edits.setdefault(edit.path, []).append(edit)
    return edits


def _say(text: Text, args: argparse.Namespace) -> None:
    sys.stderr.write(f"doctor: {text.pick(args.lang)}\n")


def count(word: str) -> int:
    value = int(word)
    if not 1 <= value <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{word}: not a number of devices (1 to 1000000)")
    return value


count.__name__ = "number of devices"


def size(word: str) -> int:
    """64GB, 32g, 1.5T or plain bytes, in powers of 1024 as npu-smi and MindSpore count. Raises ArgumentTypeError."""
    match = _SIZE.fullmatch(word)
    if match is None:
        raise argparse.ArgumentTypeError(f"{word}: not a size such as 64GB")
    return int(float(match.group(1)) * 1024 ** _POWER[match.group(2).upper()])


__all__ = ["build_report", "configure", "exit_code", "run", "size"]
