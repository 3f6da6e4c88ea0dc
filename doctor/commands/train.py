"""`doctor train CONFIG`: the built-in trainer as a child process, watched, and with consent cured."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from doctor.errors import EXIT_FINDINGS, EXIT_OK
from doctor.finding import Text
from doctor.language import Help

if TYPE_CHECKING:
    from doctor.finding import Finding
    from doctor.supervisor.cures.remedy import Remedy

FORMATS = ("text", "json", "jsonl")
DESCRIPTION = Text(
    "Trains with the built-in MindSpore trainer and diagnoses the run while it goes.",
    "用内置 MindSpore 训练器训练，并在训练过程中实时诊断。",
)
_CONFIG = """model: {type: llama, hidden_size: 128, num_hidden_layers: 2,
  num_attention_heads: 4, vocab_size: 512}
train_dataset:     # loaders: Json, Text, MindDataset, Generated
  data_loader: {type: Json, path: corpus.jsonl}
  tokenizer: byte  # or tokenizer.json, or a sentencepiece .model
  max_length: 64
eval_dataset: {data_loader: {type: Text, path: held.txt}, max_length: 64}
training_args: {max_steps: 200, batch_size: 8, learning_rate: 1.0e-3,
  save_steps: 50, eval_steps: 50, summary_dir: tensorboard}
""".replace("\n", "\n  ").rstrip()
EPILOG = Text(
    "examples:\n  doctor train tiny-llama\n  doctor train config.yaml --auto-fix\n  doctor train config.yaml --resume\n"
    "  doctor train config.yaml --workers 2\n\n"
    f"a config (each run writes all settings with their values to config.yaml):\n  {_CONFIG}",
    "示例：\n  doctor train tiny-llama\n  doctor train config.yaml --auto-fix\n  doctor train config.yaml --resume\n"
    "  doctor train config.yaml --workers 2\n\n"
    f"配置文件示例（每次运行会把全部设置及其取值写入 config.yaml）：\n  {_CONFIG}",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "config_file",
        metavar="CONFIG",
        help=Help("YAML file, or the name of a packaged example", "YAML 文件，或内置示例的名称"),
    )
    parser.add_argument(
        "--output-dir",
        metavar="DIR",
        help=Help("folder of the run (default output/<name>-<time>)", "运行目录（默认 output/<名称>-<时间>）"),
    )
    parser.add_argument(
        "--resume",
        nargs="?",
        const="newest",
        metavar="CHECKPOINT",
        help=Help("go on from the newest or this checkpoint", "从最新的或指定的 checkpoint 续训"),
    )
    parser.add_argument(
        "--workers",
        type=_workers,
        default=1,
        metavar="N",
        help=Help(
            "as N processes of this machine, each with its share of the data (msrun)",
            "用 N 个本机进程做数据并行（msrun）",
        ),
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help=Help(
            "make the config small and try the whole path, save and resume included",
            "缩小配置并走通全流程，含保存与断点续训",
        ),
    )
    parser.add_argument(
        "--auto-fix",
        action="store_true",
        help=Help(
            "on a fault: go back to the last sound checkpoint, apply safe fixes (ask for others), go on",
            "出现故障时：回到最近的正常 checkpoint，应用安全的修复（其余先询问），继续训练",
        ),
    )
    parser.add_argument(
        "--unsafe-fixes",
        action="store_true",
        help=Help(
            "with --auto-fix: also fixes that change the training, unasked",
            "与 --auto-fix 同用：不询问，也应用会改变训练的修复",
        ),
    )
    parser.add_argument(
        "--max-interventions",
        type=_count,
        default=3,
        metavar="N",
        help=Help("at most so many fixes (default 3)", "最多修复次数（默认 3）"),
    )


def run(args: argparse.Namespace) -> int:
    from doctor.trainer import runtime
    from doctor.trainer.config import load_config
    from doctor.trainer.runfolder import RunFolder, default_root

    if args.smoke:
        return _smoke(args)
    from doctor.supervisor.care import put_right
    from doctor.supervisor.run import Plan, Supervisor, consented
    from doctor.supervisor.screen import Screen
    from doctor.supervisor.unread import read_or_mend

    screen = Screen(args.format, args.lang, args.color, args.verbose, args.quiet)
    agreed: list[str] = []

    def consent(finding: Finding, remedy: Remedy) -> bool:
        word = consented(finding, remedy, args.unsafe_fixes, screen)
        agreed.extend([word] if word is not None else [])
        return word is not None

    most = args.max_interventions if args.auto_fix and args.resume is None else 0
    config, changes = read_or_mend(args.config_file, most, consent)
    runtime.require_mindspore()
    if args.workers > 1:
        from doctor.trainer.cluster import refuse_workers

        refuse_workers(args.workers, runtime.cores())
    folder = RunFolder(Path(args.output_dir or config.args.output_dir or default_root(config.name)))
    folder.create(args.resume is not None)
    folder.check_workers(args.workers)

    screen.total = max(0, config.args.max_steps or 0)
    screen.say(Text(f"run folder: {folder.root}", f"运行目录：{folder.root}"))
    if args.resume == "newest":
        words, screen.after = _whence(folder.checkpoints)
        screen.say(words)
    done = [
        put_right(number, change, config, folder, who) for number, (change, who) in enumerate(zip(changes, agreed), 1)
    ]
    for item in done:
        screen.intervention(item)
    word = str(done[-1].path) if done else args.config_file
    plan = Plan(
        config=load_config(word) if done else config,
        word=word,
        folder=folder,
        resume=args.resume,
        lang=args.lang,
        auto_fix=args.auto_fix,
        unsafe=args.unsafe_fixes,
        most_interventions=args.max_interventions,
        workers=args.workers,
        rules=args.settings.rules,
    )
    watched = Supervisor(plan, screen, done).run()
    _report(args, folder.root, watched)
    return watched.code


def _whence(root: Path) -> tuple[Text, int]:
    """Where a run that is resumed goes on, so that nobody takes a beginning for that: in words, and the step. Raises UsageError
    for torn checkpoints."""
    from doctor.trainer import checkpoint as checkpoints

    found = checkpoints.newest(root)
    if found is None:
        return Text(f"{root} holds no checkpoint yet: from the beginning", f"{root} 中还没有检查点：从头开始"), 0
    words = Text(f"goes on from step {found.step}", f"从第 {found.step} 步继续")
    for item in checkpoints.torn(root):
        words += Text(f"; passed over: {item.path.name} ", f"；已跳过：{item.path.name} ") + item.why
    return words, found.step


def _smoke(args: argparse.Namespace) -> int:
    """Rows as they come; exit code 1 when one failed."""
    from doctor.commands.smoke import failed, smoke_rows, verdict
    from doctor.report.model import Report

    rows = smoke_rows(args.config_file, args.lang, shown=args.format == "text")
    if args.format == "text":
        sys.stdout.write(verdict(rows, args.config_file).pick(args.lang) + "\n")
    else:
        import json

        facts = {"rows": [row.to_dict(args.lang) for row in rows], "smoke": not failed(rows)}
        sys.stdout.write(json.dumps(Report("train", facts=facts).to_dict(args.lang), ensure_ascii=False) + "\n")
    return EXIT_FINDINGS if failed(rows) else EXIT_OK


def _report(args: argparse.Namespace, root: Path, watched: object) -> None:
    from doctor.commands.folders import resume_command
    from doctor.report.model import Report
    from doctor.report.text import render, width_of
    from doctor.report.write import terminal_width, use_colour
    from doctor.supervisor.run import Watched

    assert isinstance(watched, Watched)
    if watched.code == 2:
        return  # the trainer has said what is wrong
    quoted = shlex.quote(str(root))
    steps = watched.last_step
    facts = {
        "run": {
            "folder": str(root),
            "exit_code": watched.code,
            "last_step": steps,
            "loss": watched.loss,
            "interventions": len(watched.interventions),
        }
    }
    loss = f", loss {watched.loss:.4g}" if watched.loss is not None else ""
    zh_loss = f"，损失 {watched.loss:.4g}" if watched.loss is not None else ""
    count = len(watched.interventions)
    fixed = Text(f"; {count} intervention(s)", f"；干预 {count} 次") if count else Text("", "")
    headline = Text(f"{root}: step {steps}{loss}", f"{root}：第 {steps} 步{zh_loss}") + fixed
    next_command = f"doctor watch --once {quoted}"
    if watched.code in (130, 143):
        next_command = resume_command(root, args.workers)
    elif watched.code and not args.auto_fix and any(fix.edits for item in watched.findings for fix in item.fixes):
        next_command = f"doctor train {shlex.quote(args.config_file)} --auto-fix"
    report = Report("train", watched.findings, facts=facts, headline=(headline,), next_command=next_command)
    if args.format == "json":
        import json

        sys.stdout.write(json.dumps(report.to_dict(args.lang), ensure_ascii=False, indent=2) + "\n")
    elif args.format == "jsonl":
        import json

        sys.stdout.write(json.dumps({"event": "end", "verdict": report.verdict, **facts["run"]}) + "\n")
    else:
        for line in render(
            report,
            args.lang,
            colour=use_colour(args.color),
            width=width_of(terminal_width()),
            verbose=args.verbose,
            quiet=args.quiet,
        ):
            sys.stdout.write(line + "\n")


def _count(word: str) -> int:
    value = int(word)
    if not 0 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"{word}: not a number of interventions (0 to 1000)")
    return value


_count.__name__ = "number of interventions"


def _workers(word: str) -> int:
    value = int(word)
    if not 1 <= value <= 1024:
        raise argparse.ArgumentTypeError(f"{word}: not a number of workers (1 to 1024)")
    return value


_workers.__name__ = "number of workers"
