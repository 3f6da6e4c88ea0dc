"""Every sentence of the program in two languages, read from its sources: none is missing, none says other values, none is
punctuated as the other language is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Optional

import pytest
import yaml

ROOT = Path(__file__).parents[2]
HAN = re.compile(r"[\u4e00-\u9fff]")
#: half-width marks between or behind Chinese characters
HALF = re.compile(r"[\u4e00-\u9fff][,;:?!](?=\s|[\u4e00-\u9fff]|$)|[\u4e00-\u9fff]\.(?=\s|$)|[,;?!][\u4e00-\u9fff]")
#: what is quoted from a config or from code keeps its own
CODE = re.compile(r"“[^”]*”|`[^`]*`|\[[^\]]*\]|\([^()]*\)")
FULL = re.compile(r"[，。；：？！（）、“”]")
#: a stop at the end of one language only
STOPS = (".", "。", "!", "！", "?", "？", ":", "：")


class Pair(NamedTuple):
    """A sentence in both languages; `{}` stands where a value is put in, `values` what is put there."""

    where: str
    en: str
    zh: str
    values: tuple[tuple[str, ...], tuple[str, ...]]


def texts() -> Iterator[Pair]:
    """All `Text(en, zh)` and `Help(en, zh)` whose words stand in the source."""
    for folder in ("doctor", "checks", "trainer"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if not isinstance(node, ast.Call) or _name(node.func) not in {"Text", "Help"}:
                    continue
                given = {"en": None, "zh": None, **{word.arg: word.value for word in node.keywords}}
                for key, value in zip(("en", "zh"), node.args):
                    given[key] = value
                en, zh = _words(given["en"]), _words(given["zh"])
                if en is not None and zh is not None:
                    yield Pair(f"{path.relative_to(ROOT)}:{node.lineno}", en[0], zh[0], (en[1], zh[1]))


def rules() -> Iterator[Pair]:
    """The texts of the rule files."""
    for path in sorted((ROOT / "rules").rglob("*.yaml")):
        yield from _pairs(yaml.load(path.read_text("utf-8"), yaml.CSafeLoader), str(path.relative_to(ROOT)))


def _pairs(node: object, where: str) -> Iterator[Pair]:
    if isinstance(node, dict):
        if set(node) == {"en", "zh"} and all(isinstance(value, str) for value in node.values()):
            yield Pair(where, node["en"], node["zh"], (_placeholders(node["en"]), _placeholders(node["zh"])))
            return
        for key, value in node.items():
            yield from _pairs(value, f"{where} {key}")
    elif isinstance(node, list):
        for item in node:
            yield from _pairs(item, where)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _words(node: Optional[ast.expr]) -> Optional[tuple[str, tuple[str, ...]]]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value, _placeholders(node.value)
    if isinstance(node, ast.JoinedStr):
        text, values = "", []
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += part.value
            elif isinstance(part, ast.FormattedValue):
                text += "{}"
                values.append(ast.unparse(part.value))
        return text, tuple(sorted(values))
    return None


def _placeholders(text: str) -> tuple[str, ...]:
    return tuple(sorted(set(re.findall(r"\{([a-z_][a-z0-9_.]*)[^{}]*\}", text))))


def _says_something(text: str) -> bool:
    """Whether there is a sentence in it, not only names (AI Core or vector core), numbers and commands."""
    return len(re.findall(r"\b[a-z]{2,}\b", re.sub(r"`[^`]*`|\{[^}]*\}|\S*[/_=.]\S*", "", text))) >= 4


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    found = [*texts(), *rules()]
    assert len(found) > 2000
    return found


def test_no_language_is_missing(pairs: list[Pair]) -> None:
    wrong = [pair.where for pair in pairs if bool(pair.en.strip()) != bool(pair.zh.strip())]
    wrong += [pair.where for pair in pairs if _says_something(pair.en) and not HAN.search(pair.zh)]
    wrong += [pair.where for pair in pairs if _says_something(pair.en) and pair.en == pair.zh]
    assert not wrong


def test_the_english_is_english(pairs: list[Pair]) -> None:
    assert not [pair.where for pair in pairs if FULL.search(pair.en) and not HAN.search(pair.en)]


def test_chinese_is_punctuated_as_chinese(pairs: list[Pair]) -> None:
    assert not [(pair.where, match.group()) for pair in pairs if (match := HALF.search(CODE.sub("", pair.zh)))]


def test_both_languages_give_the_same_values(pairs: list[Pair]) -> None:
    """Placeholders of templates are equal; a value of ours may have a Chinese twin (`name` and `zh_name`)."""
    wrong = [pair.where for pair in pairs if pair.where.startswith("rules") and pair.values[0] != pair.values[1]]
    assert not wrong


def test_sentences_end_alike(pairs: list[Pair]) -> None:
    wrong = []
    for pair in pairs:
        en, zh = pair.en.rstrip(), pair.zh.rstrip()
        if len(en) > 20 and en.endswith(".") and not en.endswith("...") and HAN.search(zh[-1:]):
            wrong.append((pair.where, zh[-12:]))
    assert not wrong


#: calls whose first argument a reader sees
SHOWS = {"notify", "tell", "say", "_say", "write", "print"}


def test_nothing_is_said_in_one_language_only() -> None:
    """A sentence in a string that is shown as it stands."""
    found = []
    for path in sorted((ROOT / "doctor").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not node.args or _name(node.func) not in SHOWS:
                continue
            words = _words(node.args[0])
            if words is not None and _says_something(words[0]):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno} {words[0][:60]!r}")
    assert not found
