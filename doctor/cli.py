"""The `doctor` command: finds the subcommand, imports it alone, and turns every end into an exit code.

Only the standard library is imported here; ``doctor --help`` must stay quick on a login node.
"""

from __future__ import annotations

import argparse
import errno
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, Optional

from doctor import __version__
from doctor.errors import EXIT_CRASH, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, UsageError
from doctor.finding import Text
from doctor.language import Help, language
from doctor.parser import Parser, common_options, in_language
from doctor.terminal import has_screen, to_nowhere

#: name -> what it does; the module is doctor.commands.<name>
COMMANDS: dict[str, Text] = {
    "check": Text("judge this machine, a config, weights or data before a run", "训练前检查：机器、配置、权重、数据"),
    "collect": Text("print the facts of this machine as JSON", "把本机环境信息输出为 JSON"),
    "watch": Text("diagnose a run from its logs, live or afterwards", "实时或事后根据日志诊断训练"),
    "run": Text("start a training command and watch it", "启动训练命令并全程诊断"),
    "explain": Text("find the cause of an error message, code or log", "解释报错、错误码或日志的原因"),
    "train": Text("train with the built-in MindSpore trainer, watched", "用内置训练器训练，并实时诊断"),
    "tune": Text("measure variants of a config, one change at a time", "逐项实测配置的不同取值"),
    "estimate": Text("estimate memory, global batch and what would fit", "估算显存、全局 batch 与可行方案"),
    "convert": Text("convert weights between Hugging Face and MindSpore", "在 Hugging Face 与 MindSpore 之间转换权重"),
    "compare": Text("tell what differs between two runs, configs or hosts", "比较两次训练、两个配置或两台机器"),
    "report": Text("write a page with curves about a run", "把一次训练写成带曲线的页面"),
    "bundle": Text(
        "pack a run for others: names covered, diagnosis kept", "打包一次训练供他人分析：遮盖名称，诊断不变"
    ),
    "rules": Text("list, show or validate rules", "列出、查看或校验规则"),
    "completion": Text("print a script that completes commands in a shell", "输出 shell 补全脚本"),
    "selftest": Text(
        "measure the doctor on faults planted on this machine", "在本机植入故障，实测 doctor 的检出与误报"
    ),
    "demo": Text("tour the doctor on this machine, without hardware", "无需硬件的完整演示"),
}

_DESCRIPTION = Text(
    "Checks, watches and explains LLM training with MindSpore and MindFormers on Ascend NPUs.",
    "为昇腾 NPU 上的 MindSpore / MindFormers 大模型训练做检查、监控与诊断。",
)


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Runs one command and returns its exit code (see `doctor.errors`)."""
    # To start makes many objects and next to no cycles: looking for those each 700 takes a tenth of its time.
    gc.set_threshold(20_000)
    _prepare_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    lang = language(_early_lang(words))
    try:
        code = _dispatch(words, lang)
        sys.stdout.flush()
    except UsageError as error:
        _say(f"doctor: {error.line(lang)}")
        return EXIT_USAGE
    except KeyboardInterrupt:
        _say(Text("doctor: interrupted", "doctor：已中断").pick(lang))
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # `doctor check | head -1`: the reader has what it wanted.
        _drop_stdout()
        return EXIT_OK
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            return _crashed(error, lang)
        _drop_stdout()
        _say(Text(f"doctor: cannot write: {error.strerror}.", f"doctor：无法写出：{error.strerror}。").pick(lang))
        return EXIT_USAGE
    except Exception as error:  # noqa: BLE001 - the last boundary: a bug of ours is said so, in one line
        return _crashed(error, lang)
    return code


def _dispatch(words: list[str], lang: str) -> int:
    words = _command_first(words)
    name = next((word for word in words if not word.startswith("-")), None)
    if not words and has_screen():
        return _home(lang)
    if name is not None and name not in COMMANDS and words[0] == name:
        raise _no_such_command(name)
    if name not in COMMANDS or words[0] != name:
        parser = top_parser(lang)
        chosen = parser.parse_args(words)
        if chosen.web and chosen.command is None:
            from doctor.commands.web import serve

            return serve(chosen.web, lang)
        if chosen.command is None and has_screen():
            return _home(lang)
        parser.print_help()
        return EXIT_OK
    parser = command_parser(name, lang)
    args = parser.parse_args(words[1:])
    args.lang = language(args.lang)
    _apply_settings(args, parser)
    return int(importlib.import_module(f"doctor.commands.{name}").run(args))


def _command_first(words: list[str]) -> list[str]:
    """``--lang zh check …`` means ``check --lang zh …``."""
    count = 2 if words[:1] == ["--lang"] else 1 if words and words[0].startswith("--lang=") else 0
    lead, rest = words[:count], words[count:]
    return [rest[0], *lead, *rest[1:]] if lead and rest and rest[0] in COMMANDS else words


def command_parser(name: str, lang: str) -> Parser:
    """The parser of a command, its help in the language."""
    module = importlib.import_module(f"doctor.commands.{name}")
    parser = Parser(
        prog=f"doctor {name}",
        description=getattr(module, "DESCRIPTION", COMMANDS[name]).pick(lang),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=module.EPILOG.pick(lang) if hasattr(module, "EPILOG") else None,
    )
    module.configure(parser)
    common_options(parser, formats=getattr(module, "FORMATS", ("text", "json", "sarif", "github")))
    in_language(parser, lang)
    return parser


def _no_such_command(name: str) -> UsageError:
    import difflib

    near = difflib.get_close_matches(name, COMMANDS, n=1)
    if near:
        hint = Text(f"Did you mean: doctor {near[0]}", f"是否想用：doctor {near[0]}")
    elif os.path.exists(name):
        hint = Text(f"To check a file: doctor check {name}", f"检查文件请用：doctor check {name}")
    else:
        hint = Text("See: doctor --help", "请查看：doctor --help")
    return UsageError(Text(f"there is no command {name!r}.", f"没有命令 {name!r}。"), hint)


def _apply_settings(args: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    from doctor.settings import load_settings

    settings = load_settings(args.settings_file)
    args.settings = settings
    args.format = args.format or settings.format or "text"
    args.fail_on = args.fail_on or settings.fail_on or "error"
    if settings.lang and not _early_lang(sys.argv[1:]):
        args.lang = settings.lang
    if args.format not in _formats(parser):
        args.format = "text"


def _formats(parser: argparse.ArgumentParser) -> Sequence[str]:
    return next(tuple(a.choices or ()) for a in parser._actions if "--format" in a.option_strings)


def top_parser(lang: str) -> argparse.ArgumentParser:
    width = max(len(name) for name in COMMANDS)
    listed = "\n".join(f"  {name:<{width}}  {text.pick(lang)}" for name, text in COMMANDS.items())
    head = Text("commands:", "命令：").pick(lang)
    tail = Text(
        "doctor COMMAND --help tells more. Exit codes: 0 nothing found, 1 findings,\n"
        "2 usage or unreadable input, 3 the doctor crashed, 130 interrupted.",
        "doctor COMMAND --help 查看详情。退出码：0 无问题，1 有问题，\n2 用法或输入错误，3 doctor 自身崩溃，130 被中断。",
    ).pick(lang)
    parser = Parser(
        prog="doctor",
        usage="doctor [--help] [--version] COMMAND …",
        description=f"{_DESCRIPTION.pick(lang)}\n\n{head}\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=tail,
    )
    parser.add_argument("--version", action="version", version=f"mindspore-doctor {__version__}")
    parser.add_argument("--lang", choices=("zh", "en"), default=None, help=argparse.SUPPRESS)
    parser.add_argument(
        "--web",
        metavar="[HOST:]PORT",
        help=Help("the screens in a browser (loopback unless HOST is given)", "在浏览器中打开界面（默认仅本机可访问）"),
    )
    parser.add_argument("command", nargs="?", choices=tuple(COMMANDS), metavar="COMMAND", help=argparse.SUPPRESS)
    in_language(parser, lang)
    return parser


def _home(lang: str) -> int:
    from doctor.commands import home

    return home.run(lang)


def _early_lang(words: Sequence[str]) -> Optional[str]:
    """--lang is needed before parsing: help and errors are written in it."""
    for index, word in enumerate(words):
        if word == "--":
            return None
        if word == "--lang" and index + 1 < len(words):
            return words[index + 1]
        if word.startswith("--lang="):
            return word.split("=", 1)[1]
    return None


def _prepare_streams() -> None:
    """A character that the locale cannot show becomes an escape instead of an exception; what goes to a
    stream that was closed (``>&-``) goes nowhere, and the exit code still tells."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open as long as the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Any = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _drop_stdout() -> None:
    """Sends what is still buffered nowhere, so that the interpreter does not fail over it when it ends."""
    to_nowhere(sys.stdout.fileno())


def _say(line: str) -> None:
    from doctor.escape import visible

    sys.stderr.write(visible(line) + "\n")


def _crashed(error: Exception, lang: str) -> int:
    import traceback

    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(place.filename)}:{place.lineno}"
    _say(
        Text(
            f"doctor: this is a bug in doctor: {type(error).__name__}: {error} ({where}). "
            "DOCTOR_DEBUG=1 shows the whole traceback to report.",
            f"doctor：doctor 自身出错：{type(error).__name__}: {error}（{where}）。设置 DOCTOR_DEBUG=1 可查看完整调用栈以便反馈。",
        ).pick(lang)
    )
    if os.environ.get("DOCTOR_DEBUG"):
        traceback.print_exception(type(error), error, error.__traceback__)
    return EXIT_CRASH
