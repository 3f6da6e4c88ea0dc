"""The words of the program: both languages everywhere, equal placeholders, Chinese as it is written."""

from __future__ import annotations

import argparse
import ast
import importlib
import re
from pathlib import Path

import pytest

from doctor.cli import COMMANDS, common_options, main
from doctor.finding import Text
from doctor.language import Help
from doctor.tui.actions import ACTIONS
from doctor.tui.words import WORDS

SOURCE = Path(__file__).parents[2] / "doctor"
HAN = re.compile(r"[\u4e00-\u9fff]")
#: a Chinese sentence uses Chinese punctuation: a half-width mark right after a character is a slip
HALF_WIDTH = re.compile(r"[\u4e00-\u9fff][,;:?!](?:\s|[\u4e00-\u9fff]|$)")
FULL_WIDTH = re.compile(r"[，。；：？！（）、“”]")
PLACEHOLDER = re.compile(r"\{[a-z_]*(?::[^{}]*)?\}")
#: the same in both languages
SAME = {"loss", "CPU", "loss scale", "m: {names}"}


def options(name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    module = importlib.import_module(f"doctor.commands.{name}")
    module.configure(parser)
    common_options(parser, ("text", "json"))
    return parser


def pairs() -> list[tuple[str, str, str]]:
    """(where, English, Chinese) of every word of the screens, every command and every option."""
    found = [(f"words.{key}", text.en, text.zh) for key, text in WORDS.items()]
    for name, text in COMMANDS.items():
        found.append((name, text.en, text.zh))
        module = importlib.import_module(f"doctor.commands.{name}")
        for part in ("DESCRIPTION", "EPILOG"):
            if isinstance(getattr(module, part, None), Text):
                found.append((f"{name}.{part}", getattr(module, part).en, getattr(module, part).zh))
        for action in options(name)._actions:
            if isinstance(action.help, Help):
                found.append((f"{name} {action.dest}", str(action.help), action.help.zh))
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_its_help_in_both_languages(name: str) -> None:
    own = [action for action in options(name)._actions if not isinstance(action, argparse._HelpAction)]
    missing = [action.dest for action in own if not isinstance(action.help, Help) and action.help != argparse.SUPPRESS]
    assert own and not missing


def test_every_word_is_there_in_both_languages_and_in_none_of_the_others_punctuation() -> None:
    wrong = []
    for where, en, zh in pairs():
        if not en.strip() or not zh.strip():
            wrong.append((where, "empty"))
        if not HAN.search(zh) and en not in SAME and not where.endswith(".language"):
            wrong.append((where, "no Chinese"))
        if HAN.search(en) and not where.endswith(".language"):
            wrong.append((where, "Chinese in the English"))
        if FULL_WIDTH.search(en):
            wrong.append((where, "full-width punctuation in the English"))
        if HALF_WIDTH.search(zh):
            wrong.append((where, "half-width punctuation in the Chinese"))
        if sorted(PLACEHOLDER.findall(en)) != sorted(PLACEHOLDER.findall(zh)):
            wrong.append((where, "other placeholders"))
    assert not wrong


def test_the_chinese_help_is_chinese(doctor) -> None:  # type: ignore[no-untyped-def]
    said = doctor("check", "--help", "--lang", "zh").stdout
    assert "用法：" in said and "选项" in said and "通用选项" in said
    left = [line for line in said.splitlines() if re.search(r"^ +--?\w\S*.*  [A-Za-z]", line) and not HAN.search(line)]
    assert not left


def test_no_word_of_the_screens_is_stale() -> None:
    """Each key is asked for somewhere: as a string, by a screen's name or a metric's."""
    asked = set()
    for path in (*(SOURCE / "tui").glob("*.py"), SOURCE / "commands" / "home.py"):
        if path.name != "words.py":
            asked |= {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
    assert not set(WORDS) - asked


def test_keys_are_unequal_on_each_screen() -> None:
    for where in {action.where for action in ACTIONS}:
        keys = [action.key for action in ACTIONS if action.where in ("", where)]
        assert len(keys) == len(set(keys)), where


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["check", "--devices", "x"], "'x' 不是有效的设备数"),
        (["check", "--devices", "0"], "0 不是有效的设备数（1 到 1000000）"),
        (["train", "tiny-llama", "--workers", "x"], "'x' 不是有效的进程数"),
        (["train", "tiny-llama", "--workers", "0"], "0 不是有效的进程数（1 到 1024）"),
        (["check", "--nope"], "无法识别的参数：--nope"),
        (["watch"], "缺少必需的参数：PATH"),
        (["check", "--format", "xml"], "无效的取值 'xml'"),
        (["check", "--devices"], "需要一个值"),
        (["check", "--device-memory", "4q"], "4q 不是容量"),
        (["check", "--verbose=3"], "该参数不接受取值：'3'"),
        (["train", "x", "--max-interventions", "-4"], "干预次数"),
    ],
)
def test_misuse_is_told_in_chinese(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*words, "--lang", "zh"])
    line = capsys.readouterr().err
    assert caught.value.code == 2
    assert said in line and not re.search(r"argument|invalid|choose|required", line), line
