"""``doctor watch``: what a run's logs say, live or to their end."""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, Optional

from doctor.commands.outlets import add_outlets
from doctor.errors import EXIT_INTERRUPTED, UsageError
from doctor.escape import visible
from doctor.finding import Text
from doctor.language import Help
from doctor.terminal import has_screen, leave_if_gone

if TYPE_CHECKING:
    from doctor.session.incidents import Event

#: seconds between two saves of the state
SAVE_EVERY = 10.0
FORMATS = ("text", "jsonl")
DESCRIPTION = Text(
    "Reads the logs of a run and says what is wrong, live until the run ends, or once to the end of the logs.",
    "读取训练日志并指出问题：实时跟踪直到训练结束，或用 --once 一次读完。",
)
EPILOG = Text(
    "examples:\n  doctor watch output/            the run that writes there, live\n"
    "  doctor watch --once output/     what happened, afterwards\n"
    "  python train.py 2>&1 | doctor watch -\n"
    "  doctor watch 'logs/worker_*.log' --format jsonl --metrics",
    "示例：\n  doctor watch output/            实时跟踪该目录的训练\n"
    "  doctor watch --once output/     事后诊断\n"
    "  python train.py 2>&1 | doctor watch -\n"
    "  doctor watch 'logs/worker_*.log' --format jsonl --metrics",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help=Help(
            "run folder, log file, glob, or - for standard input", "运行目录、日志文件、通配符，或 - 表示标准输入"
        ),
    )
    parser.add_argument("--once", action="store_true", help=Help("read to the end and stop", "读到末尾后结束"))
    parser.add_argument(
        "--plain",
        action="store_true",
        help=Help("lines, no full screen, on a terminal too", "在终端中也逐行输出，不用全屏界面"),
    )
    parser.add_argument(
        "--state",
        metavar="FILE",
        help=Help(
            "remember there how far was read, and go on from it without saying again what was said",
            "在该文件中记录读取位置，下次从此继续，已报告过的不再重复",
        ),
    )
    parser.add_argument(
        "--run-config",
        metavar="FILE",
        help=Help(
            "the configuration of the run: findings are linked with what `doctor check` says of it",
            "本次训练所用的配置：诊断会与 `doctor check` 对它的提示关联",
        ),
    )
    add_outlets(parser)
    parser.add_argument(
        "--web",
        metavar="[HOST:]PORT",
        help=Help("the screen in a browser (loopback unless HOST is given)", "在浏览器中打开界面（默认仅本机可访问）"),
    )


def run(args: argparse.Namespace) -> int:
    if args.web:
        from doctor.commands.web import serve

        return serve(args.web, args.lang, ["watch", "--", *args.paths])
    if _is_bundle(args.paths):
        return _read_bundle(args)
    return _watch(args, shlex.join(args.paths))


def _is_bundle(paths: Sequence[str]) -> bool:
    """Whether one of them is an archive, or comes out of one: neither grows."""
    from doctor.bundled import manifest_of
    from doctor.records.packed import is_packed

    files = [Path(path) for path in paths if path != "-" and "\0" not in path]
    return any(is_packed(path) or (path.exists() and manifest_of(path) is not None) for path in files)


def _read_bundle(args: argparse.Namespace) -> int:
    from doctor.records.packed import opened_all

    args.once = True
    args.run_config = args.run_config and str(Path(args.run_config).absolute())
    with opened_all(args.paths) as paths:
        # Named as in the unpacked folder, where the same findings have the same bytes.
        args.paths = list(paths)
        return _watch(args, shlex.join(paths))


def _watch(args: argparse.Namespace, place: str) -> int:
    if _full_screen(args):
        from doctor.commands import home

        return home.run(args.lang, "watch", args.paths)
    from doctor.commands.watching import Printer, sinks_of
    from doctor.match.pack import load_pack
    from doctor.session import DiagnosisSession

    printer = Printer(args)
    sinks = sinks_of(args)
    session = DiagnosisSession(load_pack(args.settings.rules), eager=not args.once, place=place)
    session.on_metric = printer.metric if printer.wants_metrics else None
    if args.run_config:
        _take_config(session, Path(args.run_config))

    def tell(events: Sequence[Event]) -> None:
        for event in events:
            printer.event(event)
            for sink in sinks:
                sink.event(event)

    interrupted = False
    try:
        if args.once:
            from doctor.session.reading import read_run

            read_run(session, args.paths, lambda event: tell((event,)), parallel=not printer.wants_metrics)
            if args.format == "jsonl":  # text has it in its first lines
                _say_unread(session.notices, 0, args.lang)
        else:
            interrupted = _follow(args, session, tell, sinks)
    finally:
        for sink in sinks:
            sink.close()
    code = printer.end(session)
    return EXIT_INTERRUPTED if interrupted else code


def _take_config(session: Any, config: Path) -> None:
    from doctor.session.reading import configured

    if not config.is_file():
        raise UsageError(
            Text(f"{config}: there is no such file.", f"{config}：文件不存在。"),
            Text("Give the YAML that the run was started with.", "请给出启动训练所用的 YAML。"),
        )
    configured(session, config)


def _full_screen(args: argparse.Namespace) -> bool:
    """On a terminal the run is shown on the whole screen, unless something else was asked for."""
    plain = (
        args.plain
        or args.once
        or args.format != "text"
        or args.state
        or args.notify
        or args.prometheus
        or args.run_config
    )
    return has_screen() and not plain and "-" not in args.paths


def _follow(args: argparse.Namespace, session: Any, tell: Any, sinks: Sequence[Any]) -> bool:
    """Follows until the run ends; True when the user stopped it."""
    from doctor.records.discover import Refused, logs_below
    from doctor.session.following import RunWatch
    from doctor.session.reading import note_refused

    for path in args.paths:
        if path != "-" and not Path(path).parent.exists():
            raise UsageError(
                Text(f"{path}: there is no such file or folder.", f"{path}：文件或目录不存在。"),
                Text("Check the path; `ls` its folder.", "请检查路径，可用 `ls` 查看其所在目录。"),
            )
    state = _load_state(args.state)
    if state is not None:
        from doctor.session.replay import replay

        replay(session, state, args.paths)
    closed: Refused = []
    logs_below(args.paths, closed)
    note_refused(session, closed)
    watch = RunWatch(session, args.paths, state)
    stopped = False
    told = 0
    saved, unsaved = time.monotonic(), ""
    with _StopSignals():
        try:
            while not watch.over:
                if args.state and time.monotonic() - saved > SAVE_EVERY:
                    # Whoever is killed without a word goes on from here.
                    unsaved = _save_state(watch, args.state, args.lang, unsaved)
                    saved = time.monotonic()
                events = watch.step()
                told = _say_unread(session.notices, told, args.lang)
                if events:
                    tell(events)
                    sys.stdout.flush()
                for sink in sinks:
                    sink.look(session)
        except KeyboardInterrupt:
            stopped = True
        if args.state:
            _save_state(watch, args.state, args.lang, unsaved)
        tell(watch.close())
    return stopped


def _say_unread(notices: Sequence[Any], told: int, lang: str) -> int:
    """Says which logs cannot be read as soon as that is known; gives the number of notices that have been looked at."""
    for notice in notices[told:]:
        if notice.kind in ("unreadable", "damaged"):
            text = Text(
                f"doctor: {visible(notice.source)}: not read: {notice.detail}",
                f"doctor：{visible(notice.source)}：未能读取：{notice.detail}",
            )
            sys.stderr.write(text.pick(lang) + "\n")
    return len(notices)


class _StopSignals:
    """A closed terminal and a polite kill end the watch as Ctrl-C does."""

    def __enter__(self) -> None:
        self.before = {number: signal.signal(number, _stop) for number in (signal.SIGTERM, signal.SIGHUP)}

    def __exit__(self, *reason: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)


def _stop(number: int, frame: Optional[FrameType]) -> NoReturn:
    if number == signal.SIGHUP:
        leave_if_gone()
    raise KeyboardInterrupt


def _load_state(name: Optional[str]) -> Optional[dict[str, Any]]:
    if not name or not Path(name).exists():
        return None
    try:
        state = json.loads(Path(name).read_bytes())
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) else None


def _save_state(watch: Any, name: str, lang: str, told: str = "") -> str:
    """Gives why it could not be saved, which is said unless it was `told` before; "" when it was."""
    try:
        watch.follower.save(Path(name))
    except OSError as error:
        why = error.strerror or str(error)
        if why == told:
            return why
        text = Text(f"doctor: {name}: the state could not be saved: {why}", f"doctor：{name}：状态无法保存：{why}")
        sys.stderr.write(text.pick(lang) + "\n")
        return why
    return ""
