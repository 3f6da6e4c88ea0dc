"""Answers questions in words: ``训练启动就OOM``, ``loss is nan``, ``training is slow``.

A rule's `asked` phrases are compared with the question; the rules that only answer questions (``rules/questions``) go
before those of detectors, whose texts speak of a run that was watched.
"""

from __future__ import annotations

import re
from functools import lru_cache

from doctor.escape import visible
from doctor.finding import Evidence, Finding
from doctor.match.pack import Pack
from doctor.match.reason import finding_of
from doctor.match.words import values_of

#: a text longer than this is a log, not a question
LONGEST = 240
_MOST = 4
_WORD = re.compile(r"[a-z0-9_.+-]+")


#: what questions do not have: times, levels, values after a colon or equals sign, paths, code, brackets, long numbers
_LOG = re.compile(
    r"\d\d:\d\d|\b(?:ERROR|WARNING|INFO|CRITICAL)\b|[:=] ?[^\s?]|[{}<>|\[\]();$]|/\w+/|\.(?:py|cc|cpp|so|h)\b"
    r"|0x[0-9a-f]{4,}|\bE[A-Z1-9]\d{4}\b|\d{4,}|\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b|\b\w+(?:Error|Exception)\b"
)


def is_question(text: str) -> bool:
    """Whether a text is words of a person rather than lines of a program."""
    stripped = text.strip()
    return bool(stripped) and len(stripped) <= LONGEST and stripped.count("\n") <= 1 and not _LOG.search(stripped)


def answers(text: str, pack: Pack) -> tuple[Finding, ...]:
    """Findings of the rules whose `asked` words stand in a short text, the most exact first."""
    question = " ".join(text.lower().split())
    if not is_question(text):
        return ()
    scored = []
    for rule in pack.rules:
        best = max((fit(phrase, question) for phrase in rule.asked), default=0.0)
        if best > 0:
            scored.append((-round(best, 2), rule.detector is not None, rule.id, rule))
    scored.sort(key=lambda item: item[:3])
    out = []
    for place, (negative, _, _, rule) in enumerate(scored[:_MOST]):
        sure = round(min(0.8, 0.5 + 0.05 * -negative) * 0.75**place, 2)
        evidence = Evidence("value", "question", text=visible(text.strip(), LONGEST))
        found = finding_of(rule, values_of(rule, {}), [evidence])
        out.append(found.with_(confidence=min(sure, rule.rule.confidence), root_cause=place == 0))
    return tuple(out)


def fit(phrase: str, question: str) -> float:
    """How well a phrase (words that must all occur, a|b either) fits; 0 when one is missing."""
    total = 0.0
    words = _words(question)
    for term in phrase.lower().split():
        found = max((_strength(choice, question, words) for choice in term.split("|")), default=0.0)
        if not found:
            return 0.0
        total += found
    return total


def _strength(choice: str, question: str, words: frozenset[str]) -> float:
    """ASCII words are looked for as words (a trailing * takes any ending), Chinese anywhere."""
    if not choice.isascii():
        return 1.0 + 0.1 * len(choice) if choice in question else 0.0
    if choice.endswith("*"):
        return 1.0 if any(word.startswith(choice[:-1]) for word in words) else 0.0
    return 1.0 if choice in words else 0.0


@lru_cache(maxsize=4)
def _words(question: str) -> frozenset[str]:
    found = set(_WORD.findall(question))
    return frozenset(found | {part for word in found for part in re.split(r"[._+-]", word) if part})
