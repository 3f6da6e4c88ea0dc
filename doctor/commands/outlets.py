"""The options of the commands that watch a run: where its events go besides the screen."""

from __future__ import annotations

import argparse

from doctor.language import Help


def add_outlets(parser: argparse.ArgumentParser) -> None:
    """Adds what `doctor.commands.watching.sinks_of` reads: --metrics, --notify and --prometheus."""
    parser.add_argument(
        "--metrics",
        action="store_true",
        help=Help(
            "with --format jsonl: an event for each step record", "与 --format jsonl 同用：每个 step 输出一个事件"
        ),
    )
    parser.add_argument(
        "--notify",
        metavar="CMD",
        help=Help(
            "run CMD (no shell) on each error, the finding on its input",
            "每次报错时执行 CMD（不经 shell），诊断由标准输入传入",
        ),
    )
    parser.add_argument(
        "--prometheus",
        metavar="[HOST:]PORT",
        help=Help(
            "serve metrics and findings there (loopback unless HOST is given)",
            "在该端口提供指标与诊断（默认仅本机可访问）",
        ),
    )
