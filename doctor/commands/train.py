"""`doctor train CONFIG`: the built-in trainer as a child process, watched."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from doctor.errors import EXIT_INTERRUPTED
from doctor.finding import Text

DESCRIPTION = Text(
    "Trains with the built-in MindSpore trainer and diagnoses the run while it goes.",
    "用内置 MindSpore 训练器训练，并在训练过程中实时诊断。",
)
EPILOG = Text(
    "examples:\n  doctor train tiny-llama\n  doctor train config.yaml --auto-fix\n  doctor train config.yaml --resume",
    "示例：\n  doctor train tiny-llama\n  doctor train config.yaml --auto-fix\n  doctor train config.yaml --resume",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config_file", metavar="CONFIG", help="YAML file, or the name of a packaged example")
    parser.add_argument("--output-dir", metavar="DIR", help="folder of the run (default output/<name>-<time>)")
    parser.add_argument(
        "--resume", nargs="?", const="newest", metavar="CHECKPOINT", help="go on from the newest or this checkpoint"
    )


def run(args: argparse.Namespace) -> int:
    from doctor.trainer import runtime
    from doctor.trainer.config import load_config
    from doctor.trainer.runfolder import RunFolder, default_root

    config = load_config(args.config_file)
    runtime.require_mindspore()
    folder = RunFolder(Path(args.output_dir or config.args.output_dir or default_root(config.name)))
    folder.check(args.resume is not None)
    command = [sys.executable, "-m", "doctor.trainer", args.config_file, "--output-dir", str(folder.root)]
    if args.resume is not None:
        command += ["--resume", args.resume]
    return _follow(command, {**os.environ, "DOCTOR_LANG": args.lang})


def _follow(command: list[str], environment: dict[str, str]) -> int:
    """Runs the child, which shares our streams; a signal to us goes on to it, so that it saves before it ends."""
    with subprocess.Popen(command, env=environment) as child:

        def pass_on(number: int, _frame: Any) -> None:
            if number == signal.SIGTERM:
                child.send_signal(number)

        before = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            code = child.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    if code == -signal.SIGINT:
        return EXIT_INTERRUPTED
    return code if code >= 0 else 128 - code
