"""Reads one YAML rule file into a `RuleFile`, with errors that say where and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

from doctor.errors import UsageError
from doctor.finding import CATEGORIES, Severity, Text
from doctor.match import regex
from doctor.match.tables import KINDS
from doctor.match.textrule import (
    LEVELS,
    RANKS,
    ROLES,
    WHERE,
    WITHIN,
    Condition,
    Example,
    Match,
    Pattern,
    RuleFile,
    TextRule,
)
from doctor.rule import Rule

_REQUIRED = ("id", "name", "severity", "category", "title", "why", "fix")
_OPTIONAL = (
    *("confidence", "role", "command", "verify", "match", "table", "detector", "defaults", "explains", "asked"),
    *("false_positives", "references", "status", "since", "examples"),
)
_KEYS = (*_REQUIRED, *_OPTIONAL)
_PLACEHOLDER = re.compile(r"\{([a-z_][a-z0-9_]*)(?::[^{}]*)?\}")
_CHINESE = re.compile("[\u4e00-\u9fff]")
#: YAML folds a line break to a blank, which Chinese does not have
_FOLD = re.compile("(?<=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]) (?=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])")


class RuleError(UsageError):
    """A rule file that cannot be used: `path`, the key it is about, and what is wrong (`fault`, in English, as keys are)."""

    def __init__(self, path: str, key: str, fault: str) -> None:
        line = f"{path}: {key}: {fault}" if key else f"{path}: {fault}"
        hint = Text("All faults of a pack: doctor rules check PATH", "查看规则包的全部问题：doctor rules check PATH")
        super().__init__(Text(f"{line}.", f"{line}。"), hint)
        self.path = path
        self.key = key
        self.fault = fault


def read_rule(path: Path, origin: Optional[str] = None) -> RuleFile:
    """Reads and checks one file. Raises RuleError. `origin` is the folder's name unless it is given."""
    import yaml

    name = str(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise RuleError(name, "", f"cannot be read: {error.strerror or error}") from error
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        data = yaml.load(raw, Loader=loader)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}" if mark is not None else ""
        reason = getattr(error, "problem", None) or str(error)
        raise RuleError(name, where, f"is not YAML: {reason}") from error
    return build_rule(data, name, origin or path.parent.name)


def build_rule(data: Any, path: str, origin: str) -> RuleFile:
    """A `RuleFile` of the mapping that a YAML file holds. Raises RuleError at the first fault."""
    reader = _Reader(path)
    top = reader.mapping(data, "")
    reader.known(top, _KEYS, "")
    for key in _REQUIRED:
        if key not in top:
            raise reader.error(key, "is missing")
    rule = reader.rule(top)
    role = reader.one_of(top.get("role", "cause"), ROLES, "role")
    detector = reader.optional_text(top.get("detector"), "detector")
    match = reader.match(top["match"]) if "match" in top else None
    table = None if "table" not in top else reader.one_of(top["table"], KINDS, "table")
    asked = tuple(reader.texts(top.get("asked"), "asked"))
    if (match is not None) + (detector is not None) > 1 or not (match or detector or asked):
        raise reader.error("", "needs `match` (a rule on lines), `detector` (on numbers) or `asked` (on questions)")
    defaults = tuple(
        (str(key), reader.bilingual(value, f"defaults.{key}"))
        for key, value in reader.mapping(top.get("defaults") or {}, "defaults").items()
    )
    command = reader.optional_text(top.get("command"), "command")
    text_rule = TextRule(rule, origin, role, match, detector, table, command, defaults, asked, path)
    if match is not None:
        reader.placeholders(text_rule, match)
    must, must_not = reader.examples(top.get("examples"), needed=match is not None)
    return RuleFile(text_rule, must, must_not)


class _Reader:
    """Turns plain data into values; every error names the file and the key."""

    def __init__(self, path: str) -> None:
        self.path = path

    def error(self, key: str, what: str) -> RuleError:
        return RuleError(self.path, key, what)

    def mapping(self, value: Any, key: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.error(key, f"must be a mapping, not {_kind(value)}")
        return value

    def known(self, value: Mapping[str, Any], keys: Iterable[str], key: str) -> None:
        for name in value:
            if name not in keys:
                near = _nearest(str(name), keys)
                hint = f"; did you mean `{near}`?" if near else ""
                raise self.error(f"{key}.{name}".strip("."), f"is not a key of a rule{hint}")

    def text(self, value: Any, key: str) -> str:
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, f"must be a text, not {_kind(value)}")
        return value.strip()

    def optional_text(self, value: Any, key: str) -> Optional[str]:
        return None if value is None else self.text(value, key)

    def texts(self, value: Any, key: str) -> Iterator[str]:
        if value is None:
            return
        if not isinstance(value, list):
            raise self.error(key, f"must be a list of texts, not {_kind(value)}")
        for index, item in enumerate(value):
            yield self.text(item, f"{key}[{index}]")

    def one_of(self, value: Any, allowed: Iterable[str], key: str) -> str:
        if value not in tuple(allowed):
            raise self.error(key, f"must be one of {', '.join(allowed)}, not {value!r}")
        return str(value)

    def bilingual(self, value: Any, key: str) -> Text:
        if isinstance(value, str) and key.startswith("defaults."):
            return Text(value, value)
        pair = self.mapping(value, key)
        self.known(pair, ("en", "zh"), key)
        english = self.text(pair.get("en"), f"{key}.en")
        chinese = self.text(pair.get("zh"), f"{key}.zh")
        for lang, words in (("en", english), ("zh", chinese)):
            if len(words) > 1 and words[0] == words[-1] == '"':
                raise self.error(f"{key}.{lang}", "is quoted twice: leave the quotes out of a block (>-)")
        if _CHINESE.search(english):
            raise self.error(f"{key}.en", "holds Chinese")
        if key.startswith("defaults."):
            return Text(pair["en"], pair["zh"])
        own_words = _PLACEHOLDER.sub("", chinese).strip(" .。,，:：")
        if own_words and not _CHINESE.search(chinese):
            raise self.error(f"{key}.zh", "holds no Chinese")
        return Text(english, _FOLD.sub("", chinese))

    def rule(self, top: Mapping[str, Any]) -> Rule:
        confidence = top.get("confidence", 0.9)
        if isinstance(confidence, bool) or not isinstance(confidence, (int, float)) or not 0 < confidence <= 1:
            raise self.error("confidence", "must be a number above 0, at most 1")
        false_positives = top.get("false_positives")
        try:
            return Rule(
                id=self.text(top["id"], "id"),
                name=self.text(top["name"], "name"),
                severity=Severity(self.one_of(top["severity"], [item.value for item in Severity], "severity")),
                category=self.one_of(top["category"], CATEGORIES, "category"),
                title=self.bilingual(top["title"], "title"),
                why=self.bilingual(top["why"], "why"),
                fix=self.bilingual(top["fix"], "fix"),
                verify=self.optional_text(top.get("verify"), "verify"),
                confidence=float(confidence),
                references=tuple(self.texts(top.get("references"), "references")),
                explains=tuple(self.texts(top.get("explains"), "explains")),
                false_positives=None if false_positives is None else self.bilingual(false_positives, "false_positives"),
                status=self.one_of(top.get("status", "stable"), ("stable", "experimental", "deprecated"), "status"),
                since=str(top.get("since", "0.1.0")),
            )
        except ValueError as error:
            raise self.error("", str(error)) from error

    def match(self, value: Any) -> Match:
        body = self.mapping(value, "match")
        self.known(body, ("line", "all", "any", "none", "within", "facts", "level"), "match")
        within = self.count(body.get("within", WITHIN), "match.within")
        lines = body.get("line")
        if not isinstance(lines, list):
            lines = [lines]
        patterns = tuple(self.pattern(item, f"match.line[{index}]") for index, item in enumerate(lines))
        conditions = {
            name: tuple(
                self.condition(item, within, f"match.{name}[{index}]")
                for index, item in enumerate(self.sequence(body.get(name), f"match.{name}"))
            )
            for name in ("all", "any", "none")
        }
        facts = self.mapping(body.get("facts") or {}, "match.facts")
        return Match(
            patterns,
            conditions["all"],
            conditions["any"],
            conditions["none"],
            tuple((str(key), str(item)) for key, item in facts.items()),
            level=self.one_of(body.get("level", "error"), LEVELS, "match.level"),
        )

    def sequence(self, value: Any, key: str) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(key, f"must be a list, not {_kind(value)}")
        return value

    def count(self, value: Any, key: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 2000:
            raise self.error(key, "must be a number of lines from 0 to 2000")
        return value

    def pattern(self, value: Any, key: str, searched: bool = True) -> Pattern:
        """A plain text, or {text: …, nocase: true}, or {regex: …}."""
        if isinstance(value, str):
            value = {"text": value}
        body = self.mapping(value, key)
        self.known(body, ("text", "regex", "nocase"), key)
        if ("text" in body) == ("regex" in body):
            raise self.error(key, "needs either `text` or `regex`")
        if "text" in body:
            text = body["text"]
            if not isinstance(text, str) or not text.strip() or "\n" in text:
                raise self.error(key, "`text` must be a text on one line")
            source = re.sub(r"([\\.^$*+?{}\[\]|()])", r"\\\1", text)
        else:
            source = body["regex"]
            if not isinstance(source, str):
                raise self.error(key, f"`regex` must be a text, not {_kind(source)}")
        nocase = bool(body.get("nocase", False))
        if nocase and not source.startswith("(?i)"):
            source = "(?i)" + source
        for what in regex.problems(source, searched):
            raise self.error(key, f"{source!r} {what}")
        literals = regex.required(source) if searched else ()
        return Pattern(source, literals, source.startswith("(?i)"), regex.needs(source) if searched else ())

    def condition(self, value: Any, within: int, key: str) -> Condition:
        if isinstance(value, str):
            value = {"text": value}
        body = dict(self.mapping(value, key))
        lines = self.count(body.pop("within", within), f"{key}.within")
        where = self.one_of(body.pop("where", "around"), WHERE, f"{key}.where")
        rank = self.one_of(body.pop("rank", "same"), RANKS, f"{key}.rank")
        return Condition(self.pattern(body, key, searched=where != "same-line"), lines, where, rank)

    def placeholders(self, rule: TextRule, match: Match) -> None:
        """Every {placeholder} of a text must be captured by each `line` pattern or an `all` condition, or have a default."""
        anywhere = {name for condition in match.all for name in regex.group_names(condition.pattern.regex)}
        anywhere.update(name for name, _ in rule.defaults)
        anywhere.update(("rank", "line", "count"))
        if rule.table is not None:
            anywhere.update(("meaning", "action"))
        certain = set.intersection(*(set(regex.group_names(item.regex)) for item in match.line)) | anywhere
        if rule.table is not None and {"node", "sensor"} <= certain:
            certain.add("code")  # an NPU event by its parts
        texts = {"title": rule.rule.title, "why": rule.rule.why, "fix": rule.rule.fix}
        for key, text in texts.items():
            for lang, content in (("en", text.en), ("zh", text.zh)):
                for name in _PLACEHOLDER.findall(content):
                    if name not in certain:
                        raise self.error(
                            f"{key}.{lang}",
                            f"uses {{{name}}}, which not every `line` pattern captures; capture it with "
                            f"(?P<{name}>…) or give `defaults: {{{name}: …}}`",
                        )

    def examples(self, value: Any, needed: bool) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
        if value is None:
            if needed:
                raise self.error("examples", "is missing: give at least one `match` and one `no_match` text")
            return (), ()
        body = self.mapping(value, "examples")
        self.known(body, ("match", "no_match"), "examples")
        parts = []
        for name in ("match", "no_match"):
            items = self.sequence(body.get(name), f"examples.{name}")
            if needed and not items:
                raise self.error(f"examples.{name}", "needs at least one text")
            parts.append(tuple(self.example(item, f"examples.{name}[{i}]") for i, item in enumerate(items)))
        return parts[0], parts[1]

    def example(self, value: Any, key: str) -> Example:
        if isinstance(value, str):
            value = {"text": value}
        body = self.mapping(value, key)
        self.known(body, ("text", "line", "values", "cause"), key)
        text = body.get("text")
        if not isinstance(text, str) or not text.strip():
            raise self.error(key, "needs a text")
        values = self.mapping(body.get("values") or {}, f"{key}.values")
        return Example(
            text,
            self.count(body.get("line", 0), f"{key}.line"),
            tuple((str(name), str(item)) for name, item in values.items()),
            self.optional_text(body.get("cause"), f"{key}.cause"),
        )


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    return {"dict": "a mapping", "list": "a list", "str": "an empty text"}.get(type(value).__name__, repr(value))


def _nearest(name: str, keys: Iterable[str]) -> Optional[str]:
    import difflib

    found = difflib.get_close_matches(name, list(keys), 1)
    return found[0] if found else None
