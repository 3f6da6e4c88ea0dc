"""argparse in both languages: the options that commands share, and what argparse itself says."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn, Optional

from doctor.errors import EXIT_USAGE
from doctor.finding import Text
from doctor.language import Help


class Parser(argparse.ArgumentParser):
    """argparse that reports misuse the way the rest of the program does: one line, in the language of the user, and exit
    code 2."""

    lang = "en"

    def error(self, message: str) -> NoReturn:
        line = Text(
            f"doctor: {message}. See: {self.prog} --help", f"doctor：{in_chinese(message)}。请查看：{self.prog} --help"
        )
        self.exit(EXIT_USAGE, line.pick(self.lang) + "\n")


def common_options(parser: argparse.ArgumentParser, formats: Sequence[str]) -> None:
    """The options that every command shares."""
    group = parser.add_argument_group("common options")
    group.add_argument(
        "--format",
        choices=formats,
        default=None,
        help=Help("form of the result (default text)", "输出格式（默认 text）"),
    )
    group.add_argument(
        "--lang",
        choices=("zh", "en"),
        default=None,
        help=Help("language (default from the locale)", "语言（默认取自 locale）"),
    )
    group.add_argument(
        "--fail-on",
        choices=("error", "warning", "never"),
        default=None,
        help=Help("what makes exit code 1 (default error)", "达到何种级别时退出码为 1（默认 error）"),
    )
    group.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help=Help("colour (NO_COLOR is honoured)", "是否使用颜色（遵循 NO_COLOR）"),
    )
    group.add_argument(
        "--config",
        dest="settings_file",
        metavar="FILE",
        default=None,
        help=Help("settings (default ./doctor.toml)", "设置文件（默认 ./doctor.toml）"),
    )
    group.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help=Help("everything: all evidence, every skipped check", "全部输出：所有证据与每个跳过的检查"),
    )
    group.add_argument("-q", "--quiet", action="store_true", help=Help("findings and verdict only", "只输出诊断与结论"))


#: titles that argparse writes itself, and ours
_TITLES = {
    "positional arguments": "位置参数",
    "options": "选项",
    "optional arguments": "选项",
    "common options": "通用选项",
}


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: Optional[str] = None) -> None:
        super().add_usage(usage, actions, groups, "用法：" if prefix is None else prefix)

    def format_help(self) -> str:
        """argparse puts a colon of its own behind each title."""
        titles = "|".join(sorted(set(_TITLES.values())))
        return re.sub(f"^({titles}):$", r"\1：", super().format_help(), flags=re.MULTILINE)


def in_language(parser: argparse.ArgumentParser, lang: str) -> None:
    """Puts the help of every option, and what argparse says itself, into the language."""
    if lang != "zh":
        return
    if isinstance(parser, Parser):
        parser.lang = lang
    parser.formatter_class = _Formatter
    for group in parser._action_groups:
        group.title = _TITLES.get(group.title or "", group.title)
    for action in parser._actions:
        if isinstance(action.help, Help):
            action.help = action.help.pick(lang)
        elif isinstance(action, argparse._HelpAction):
            action.help = "显示帮助并退出"
        elif isinstance(action, argparse._VersionAction):
            action.help = "显示版本并退出"


#: what argparse says of misuse (CPython 3.9 to 3.13), as patterns; the texts in between stay as they are
_MISUSE = (
    (r"argument (?P<name>[^:]+): (?P<rest>.+)", "参数 {name}：{rest}"),
    (r"the following arguments are required: (.+)", "缺少必需的参数：{0}"),
    (r"one of the arguments (.+) is required", "必须给出以下参数之一：{0}"),
    (r"unrecognized arguments: (.+)", "无法识别的参数：{0}"),
    (r"ambiguous option: (.+?) could match (.+)", "选项 {0} 有歧义，可能是 {1}"),
    (r"invalid choice: (.+?) \(choose from (.+)\)", "无效的取值 {0}（可选：{1}）"),
    (r"invalid (.+?) value: (.+)", "{1} 不是有效的{0}"),
    (r"not allowed with argument (.+)", "不能与参数 {0} 同时使用"),
    (r"ignored explicit argument (.+)", "该参数不接受取值：{0}"),
    (r"expected one argument", "需要一个值"),
    (r"expected at most one argument", "最多一个值"),
    (r"expected at least one argument", "至少需要一个值"),
    (r"expected (\d+) arguments?", "需要 {0} 个值"),
    (r"(.+): not a number of (.+?) \((\d+) to (\d+)\)", "{0} 不是有效的{1}（{2} 到 {3}）"),
    (r"(.+): not a size such as (\S+)", "{0} 不是容量，应形如 {1}"),
)
#: the kinds of values that the messages name
_KINDS = {
    "int": "整数",
    "float": "数值",
    "size": "容量",
    "number of devices": "设备数",
    "devices": "设备数",
    "number of interventions": "干预次数",
    "interventions": "干预次数",
    "number of steps": "步数",
    "steps": "步数",
    "number of workers": "进程数",
    "workers": "进程数",
}


def in_chinese(message: str) -> str:
    """A message of argparse; one that is not known stays as it is."""
    for pattern, chinese in _MISUSE:
        match = re.fullmatch(pattern, message, re.DOTALL)
        if match is None:
            continue
        named = match.groupdict()
        if named:
            return chinese.format(name=named["name"], rest=in_chinese(named["rest"]))
        return chinese.format(*(_KINDS.get(group, group) for group in match.groups()))
    return message
