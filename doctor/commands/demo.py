"""`doctor demo`: the whole path on this machine, real at every step: check, train, diagnose, fix, converge."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from doctor.errors import EXIT_FINDINGS, UsageError
from doctor.examples import example
from doctor.finding import Text
from doctor.language import Help
from doctor.report.text import paint
from doctor.report.write import use_colour

DESCRIPTION = Text(
    "Checks this machine and a config, trains a small LLaMA whose FP16 gradients overflow, finds out why live, "
    "applies the fix, and trains on until it converges. Needs the train extra, no hardware; about a minute.",
    "检查本机与配置，训练一个 FP16 梯度会溢出的小 LLaMA，实时诊断原因，应用修复并继续训练到收敛。需要 train 附加依赖，无需硬件，约一分钟。",
)
FORMATS = ("text",)
#: the example whose fault is real: FP16 with a fixed loss scale and no check of overflow
EXAMPLE = "tiny-llama-fp16-overflow"
CONFIG = "overflow.yaml"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dir",
        metavar="DIR",
        help=Help(
            "folder to work in and keep (default a temporary one, removed)",
            "工作目录，结束后保留（默认用临时目录并删除）",
        ),
    )


def run(args: argparse.Namespace) -> int:
    if args.dir is not None:
        folder = Path(args.dir)
        _usable(folder)
        return _tour(folder, args)
    with tempfile.TemporaryDirectory(prefix="doctor-demo-") as name:
        return _tour(Path(name), args)


def _usable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(Text(f"{folder}: {why}.", f"{folder}：{why}。")) from None
    if any(folder.iterdir()):
        raise UsageError(
            Text(f"{folder}: the folder is not empty.", f"{folder}：目录非空。"),
            Text("Give an empty or new one.", "请指定空目录或新目录。"),
        )


def _tour(folder: Path, args: argparse.Namespace) -> int:
    source = example(EXAMPLE)
    assert source is not None, "packaged with the program"
    shutil.copyfile(source, folder / CONFIG)
    started = time.monotonic()
    steps = (
        (Text("1. Is this machine ready?", "1. 本机是否就绪？"), ["check"]),
        (
            Text("2. Is the config sound? FP16, and a fixed loss scale:", "2. 配置是否合理？FP16 加固定 loss scale："),
            ["check", CONFIG],
        ),
        (
            Text(
                "3. Train it all the same, watched. When the loss breaks: say why, fix the config, go on.",
                "3. 照样训练并实时诊断：损失出错时说明原因、修改配置、继续训练。",
            ),
            ["train", CONFIG, "--auto-fix", "--output-dir", "run"],
        ),
        (Text("4. What happened, from the logs alone:", "4. 仅凭日志复盘："), ["watch", "--once", "--plain", "run"]),
    )
    codes = [_step(title, words, folder, args) for title, words in steps]
    seconds = time.monotonic() - started
    trained = codes[2] == 0
    last = (
        Text(
            f"Done in {seconds:.0f} s: the fault was real, found live, fixed, and the run converged. Next: doctor check CONFIG.yaml",
            f"用时 {seconds:.0f} 秒：真实故障被实时发现并修复，训练收敛。下一步：doctor check CONFIG.yaml",
        )
        if trained
        else Text(
            "The training step did not end well; see above. Next: doctor check",
            "训练步骤未正常结束，见上文。下一步：doctor check",
        )
    )
    sys.stdout.write("\n" + last.pick(args.lang) + "\n")
    return 0 if trained else EXIT_FINDINGS


def _step(title: Text, words: list[str], folder: Path, args: argparse.Namespace) -> int:
    """Shows the command and runs it for real, in a process of its own, its output passed through."""
    colour = use_colour(args.color)
    sys.stdout.write(
        f"\n{paint(title.pick(args.lang), 'info', colour)}\n{paint('$ doctor ' + ' '.join(words), 'dim', colour)}\n"
    )
    sys.stdout.flush()
    command = [sys.executable, "-m", "doctor", *words, "--lang", args.lang, "--color", "always" if colour else "never"]
    return subprocess.run(command, cwd=folder, check=False).returncode
