"""``doctor run -- COMMAND…``: starts a training command, watches what it prints and logs, and says at the end what was wrong."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from doctor.commands.outlets import add_outlets
from doctor.errors import UsageError
from doctor.escape import visible
from doctor.finding import Text
from doctor.language import Help

FORMATS = ("text", "jsonl")
DESCRIPTION = Text(
    "Starts a training command and watches its output and the logs it writes. Its output passes through\n"
    "untouched, signals reach it, the diagnosis comes at the end on standard error, the exit code is the command's.\n"
    "When the terminal is closed meanwhile, the diagnosis is kept in ~/.cache/mindspore-doctor/run-diagnosis.txt.",
    "启动训练命令并监控它的输出与日志。输出原样透传，信号会转发，结束时在标准错误输出诊断，退出码与命令一致。\n"
    "若期间终端被关闭，诊断会保存到 ~/.cache/mindspore-doctor/run-diagnosis.txt。",
)
EPILOG = Text(
    "examples:\n  doctor run -- python run_mindformer.py --config pretrain.yaml\n"
    "  doctor run -- msrun --worker_num 8 --local_worker_num 8 --join True train.py\n"
    "  doctor run --format jsonl -- bash scripts/msrun_launcher.sh '…' 8 2> diagnosis.jsonl",
    "示例：\n  doctor run -- python run_mindformer.py --config pretrain.yaml\n"
    "  doctor run -- msrun --worker_num 8 --local_worker_num 8 --join True train.py\n"
    "  doctor run --format jsonl -- bash scripts/msrun_launcher.sh '…' 8 2> diagnosis.jsonl",
)
#: the shell's code for a command that could not be started
EXIT_NOT_STARTED = 127
#: seconds between two looks at the logs while output flows
LOOK = 0.2


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="-- COMMAND…",
        help=Help("the command and its arguments", "要执行的命令及其参数"),
    )
    parser.add_argument(
        "--logs",
        action="append",
        default=[],
        metavar="PATH",
        help=Help("logs that the command writes, where it does not say", "命令写入的日志（无法自动识别时）"),
    )
    add_outlets(parser)


def run(args: argparse.Namespace) -> int:
    from doctor.session.child import Child, only_hangups_held, signals_held

    command = args.words[1:] if args.words[:1] == ["--"] else args.words
    if not command:
        raise UsageError(
            Text("doctor run: which command?", "doctor run：缺少要运行的命令。"),
            Text(
                "Put it behind two dashes: doctor run -- python train.py",
                "请写在两个短横之后：doctor run -- python train.py",
            ),
        )
    watched = Watched(args, command)
    child = Child(command, watched.output, watched.look)
    with signals_held() as mask:
        try:
            code = child.run(mask)
        except OSError as error:
            why = error.strerror or str(error)
            sys.stderr.write(f"doctor: {visible(command[0])}: {why}\n")
            return EXIT_NOT_STARTED
        only_hangups_held()
        watched.end(code)
    return 128 - code if code < 0 else code


class Watched:
    """The diagnosis of a command that is running."""

    def __init__(self, args: argparse.Namespace, command: Sequence[str]) -> None:
        from doctor.commands.lastword import LastWord
        from doctor.commands.watching import Printer, sinks_of
        from doctor.match.pack import load_pack
        from doctor.records.follow import Follower
        from doctor.session import DiagnosisSession
        from doctor.session.places import as_they_are, of_command

        self.args = args
        # The run goes on, and is to be judged, whoever has stopped listening.
        self.printer = Printer(args, out=LastWord(sys.stderr, args.format), live=False)
        self.sinks = sinks_of(args)
        places = [*map(Path, args.logs), *of_command(command, os.environ.items())]
        self.known = set(places)
        place = str(places[0]) if args.logs else "PATH"
        self.session = DiagnosisSession(load_pack(args.settings.rules), eager=True, place=place)
        self.session.on_metric = self.printer.metric if self.printer.wants_metrics else None
        self.followers = [Follower(places, as_they_are(places))]
        self.cutters: dict[str, Any] = {}
        self.looked = time.monotonic()
        self.started = time.time()

    def output(self, name: str, block: bytes) -> None:
        """What the command printed; it has been passed on already."""
        from doctor.records.cutter import Cutter
        from doctor.session.places import said

        cutter = self.cutters.setdefault(name, Cutter(name))
        for chunk in cutter.feed(block):
            self._tell(self.session.feed(chunk))
        for path in said(block):
            self._follow(path)
        if time.monotonic() - self.looked >= LOOK:
            self.look()

    def look(self) -> None:
        """Reads what is new in the logs; called when the command prints nothing."""
        self.looked = time.monotonic()
        for follower in self.followers:
            for item in follower.poll(0.0):
                self._tell(self.session.feed(item))
        self._tell(self.session.tick(self.looked))
        for sink in self.sinks:
            sink.look(self.session)

    def end(self, code: int) -> None:
        """The command has ended: the rest of its logs, and the diagnosis."""
        for cutter in self.cutters.values():
            last = cutter.flush()
            if last is not None:
                self._tell(self.session.feed(last))
        for follower in self.followers:
            for item in follower.finish():
                self._tell(self.session.feed(item))
            follower.close()
        self.session.command_ended(code)
        self._tell(self.session.end())
        for sink in self.sinks:
            sink.close()
        self.printer.end(self.session)

    def _follow(self, path: Path) -> None:
        from doctor.records.follow import Follower
        from doctor.session.places import as_they_are

        if path not in self.known and not any(path in known.parents or path == known for known in self.known):
            self.known.add(path)
            self.followers.append(Follower([path], as_they_are([path], self.started)))

    def _tell(self, events: Sequence[Any]) -> None:
        for event in events:
            self.printer.event(event)
            for sink in self.sinks:
                sink.event(event)
