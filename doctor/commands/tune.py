"""`doctor tune CONFIG`: measures variants of a config, one change at a time, and writes the best."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from doctor.errors import EXIT_FINDINGS, EXIT_OK, UsageError
from doctor.finding import Text
from doctor.language import Help

if TYPE_CHECKING:
    from doctor.supervisor.tune import Measured

FORMATS = ("text", "json")
DESCRIPTION = Text(
    "Short measured runs over batch x accumulation at equal global batch, recompute, workers and precision.",
    "在全局 batch 不变的前提下，逐项短跑实测 batch × 累积、重计算、worker 数与精度。",
)
EPILOG = Text(
    "examples:\n  doctor tune config.yaml\n  doctor tune config.yaml --steps 20 --precision --output best.yaml",
    "示例：\n  doctor tune config.yaml\n  doctor tune config.yaml --steps 20 --precision --output best.yaml",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "config_file",
        metavar="CONFIG",
        help=Help("YAML file, or the name of a packaged example", "YAML 文件，或内置示例的名称"),
    )
    parser.add_argument(
        "--steps",
        type=_steps,
        default=10,
        metavar="N",
        help=Help("steps of each run (default 10)", "每次试跑的步数（默认 10）"),
    )
    parser.add_argument(
        "--precision",
        action="store_true",
        help=Help("also keep a change of precision that is faster", "也保留更快的精度设置"),
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        help=Help(
            "write the best config there (default <name>.tuned.yaml)", "把最优配置写到此处（默认 <名称>.tuned.yaml）"
        ),
    )


def run(args: argparse.Namespace) -> int:
    from doctor.supervisor.tune import tune
    from doctor.trainer import runtime
    from doctor.trainer.config import load_config

    config = load_config(args.config_file)
    runtime.require_mindspore()
    target = Path(args.output or f"{config.name}.tuned.yaml")
    if target.exists():
        raise UsageError(
            Text(f"{target} is there already.", f"{target} 已存在。"),
            Text("Name another file: --output FILE", "请用 --output FILE 指定其他文件。"),
        )
    _warn_when_busy(args, runtime.cores())
    rows: list[dict[str, Any]] = []
    start: Optional[Measured] = None
    best: Optional[Measured] = None
    for measured in tune(config, args.steps, args.precision):
        start = start or measured
        best = measured if measured.kept else best
        rows.append(measured.row(start))
        if args.format == "text":
            if measured is start:
                sys.stdout.write(_HEAD.pick(args.lang) + "\n")
            sys.stdout.write(_line(rows[-1]) + "\n")
            sys.stdout.flush()
    assert start is not None
    assert best is not None
    failed = start.error is not None
    if not failed:
        _write(target, start, best)
    _finish(args, rows, best, target, failed)
    return EXIT_FINDINGS if failed else EXIT_OK


def _warn_when_busy(args: argparse.Namespace, cores: int) -> None:
    """Other work on the machine changes the figures more than any setting does."""
    load = os.getloadavg()[0]
    if load > cores and not args.quiet:
        words = Text(
            f"doctor: this machine is busy (load {load:.1f} on {cores} cores): compare with care, or try later.",
            f"doctor：本机正忙（负载 {load:.1f}，{cores} 核）：结果仅供参考，建议稍后再测。",
        )
        sys.stderr.write(words.pick(args.lang) + "\n")


_HEAD = Text(
    f"{'change':<20}{'batch':>9}{'memory MB':>11}{'step ms':>10}{'tokens/s':>10}{'against':>9}",
    f"{'change':<20}{'batch':>9}{'memory MB':>11}{'step ms':>10}{'tokens/s':>10}{'against':>9}",
)


def _line(row: dict[str, Any]) -> str:
    batch = f"{row['per_device_train_batch_size']}x{row['gradient_accumulation_steps']}"
    if "error" in row:
        return f"{row['change']:<20}{batch:>9}  {row['error']}"[:200]
    against = f"{row.get('against_start', 0.0) * 100:+.1f}%"
    mark = " *" if row["kept"] else ""
    return (
        f"{row['change']:<20}{batch:>9}{row['memory_mb']:>11.0f}{row['step_time_ms']:>10.1f}"
        f"{row['tokens_per_s']:>10.0f}{against:>9}{mark}"
    )


def _write(target: Path, start: Measured, best: Measured) -> None:
    from doctor.supervisor.tune import tuned_text
    from doctor.trainer.runfolder import write_atomically

    text = tuned_text(start.config, best.config)
    try:
        write_atomically(target, f"# {best.config.source}, tuned: {best.change}\n{text}")
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(Text(f"{target}: {why}.", f"{target}：{why}。")) from None


def _finish(args: argparse.Namespace, rows: list[dict[str, Any]], best: Measured, target: Path, failed: bool) -> None:
    if args.format == "json":
        from doctor.report.model import Report

        best_row = None if failed else {"change": best.change, "path": str(target)}
        report = Report("tune", facts={"rows": rows, "best": best_row})
        sys.stdout.write(json.dumps(report.to_dict(args.lang), ensure_ascii=False, indent=2) + "\n")
        return
    if failed:
        again = shlex.quote(args.config_file)
        last = Text(
            f"The start does not run. Next: doctor train {again} --smoke",
            f"初始配置无法运行。下一步：doctor train {again} --smoke",
        )
    else:
        path = shlex.quote(str(target))
        last = Text(
            f"* kept. Best: {best.change}, written to {target}. Next: doctor train {path}",
            f"* 表示保留。最佳：{best.change}，已写入 {target}。下一步：doctor train {path}",
        )
    sys.stdout.write(last.pick(args.lang) + "\n")


def _steps(word: str) -> int:
    value = int(word)
    if not 4 <= value <= 10_000:
        raise argparse.ArgumentTypeError(f"{word}: not a number of steps (4 to 10000)")
    return value


_steps.__name__ = "number of steps"
