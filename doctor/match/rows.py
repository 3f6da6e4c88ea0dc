"""Rules as rows of plain values, as they are kept in files that need no YAML to be read."""

from __future__ import annotations

from typing import Any, Optional

from doctor.finding import Severity, Text
from doctor.match.textrule import Condition, Match, Pattern, TextRule
from doctor.rule import Rule

#: raise when the form of the rows changes
FORM = 7


def _pattern_row(pattern: Pattern) -> list[Any]:
    return [pattern.regex, list(pattern.literals), pattern.nocase, [list(texts) for texts in pattern.needs]]


def _pattern(row: list[Any]) -> Pattern:
    return Pattern(row[0], tuple(row[1]), row[2], tuple(map(tuple, row[3])))


def _condition_row(condition: Condition) -> list[Any]:
    return [_pattern_row(condition.pattern), condition.within, condition.where, condition.rank]


def _condition(row: list[Any]) -> Condition:
    return Condition(_pattern(row[0]), row[1], row[2], row[3])


def _match_row(match: Optional[Match]) -> Any:
    if match is None:
        return None
    parts = [[_condition_row(item) for item in group] for group in (match.all, match.any, match.none)]
    return [[_pattern_row(item) for item in match.line], *parts, [list(item) for item in match.facts], match.level]


def _match(row: Any) -> Optional[Match]:
    if row is None:
        return None
    parts = [tuple(_condition(item) for item in group) for group in row[1:4]]
    facts = tuple((item[0], item[1]) for item in row[4])
    return Match(tuple(_pattern(item) for item in row[0]), parts[0], parts[1], parts[2], facts, row[5])


def _text_row(text: Optional[Text]) -> Any:
    return None if text is None else [text.en, text.zh]


def to_row(item: TextRule) -> list[Any]:
    rule = item.rule
    head = [rule.id, rule.name, rule.severity.value, rule.category, rule.verify, rule.confidence]
    texts = [_text_row(text) for text in (rule.title, rule.why, rule.fix, rule.false_positives)]
    lists = [list(rule.references), list(rule.explains), rule.status, rule.since]
    own = [item.origin, item.role, item.detector, item.command, list(item.asked), item.path, item.table]
    defaults = [[name, _text_row(text)] for name, text in item.defaults]
    return [head, texts, lists, own, defaults, _match_row(item.match)]


def to_rule(row: list[Any]) -> TextRule:
    head, texts, lists, own, defaults, match = row
    title, why, fix, false_positives = (None if text is None else Text(text[0], text[1]) for text in texts)
    if title is None or why is None or fix is None:
        raise ValueError("a rule without texts")
    rule = Rule(
        id=head[0],
        name=head[1],
        severity=Severity(head[2]),
        category=head[3],
        title=title,
        why=why,
        fix=fix,
        verify=head[4],
        confidence=head[5],
        references=tuple(lists[0]),
        explains=tuple(lists[1]),
        false_positives=false_positives,
        status=lists[2],
        since=lists[3],
    )
    return TextRule(
        rule,
        origin=own[0],
        role=own[1],
        match=_match(match),
        detector=own[2],
        command=own[3],
        defaults=tuple((name, Text(text[0], text[1])) for name, text in defaults),
        asked=tuple(own[4]),
        path=own[5],
        table=own[6],
    )
