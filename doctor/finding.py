"""What the doctor says: a finding with its place, its evidence and its fixes.

These are values: frozen, made of the standard library only, and bilingual. Every text that a person
reads is a `Text`; a language is chosen when a finding is written down (`to_dict`, the reports), never
before, so that one diagnosis can be read in both languages.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Optional

CATEGORIES = (
    "version-pairing",
    "install",
    "python-deps",
    "env-var",
    "permissions",
    "device-unavailable",
    "hardware-fault",
    "oom-device",
    "oom-host",
    "memory-host",
    "nan-overflow",
    "loss-not-converging",
    "weights-mismatch",
    "ckpt-format",
    "config",
    "parallel-strategy",
    "shape",
    "dtype-unsupported-op",
    "operator-compile",
    "operator-execution",
    "graph-compile",
    "pynative-only",
    "hccl-config",
    "hccl-timeout",
    "network-link",
    "distributed-launch",
    "dataset",
    "tokenizer",
    "registration-conflict",
    "stall-hang",
    "disk-io",
    "performance",
    "other",
)


class Severity(str, Enum):
    """How bad it is: fatal means that the run has ended or is lost."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    FATAL = "fatal"

    @property
    def rank(self) -> int:
        return ("info", "warning", "error", "fatal").index(self.value)

    def at_least(self, other: Severity) -> bool:
        return self.rank >= other.rank


_PLACEHOLDER = re.compile(r"\{([a-z_][a-z0-9_]*)(?::([^{}]*))?\}")


def fill(template: str, values: Mapping[str, object]) -> str:
    """Puts values into ``{name}`` or ``{name:.3g}``, in one pass. All else stays as it is: a name without a
    value, and braces that came in with a user's own text (a dict, a log line); nothing here raises."""

    def one(match: re.Match[str]) -> str:
        name, spec = match.group(1), match.group(2)
        if name not in values:
            return match.group(0)
        value = values[name]
        try:
            return format(value, spec or "")
        except (TypeError, ValueError):
            return str(value)

    return _PLACEHOLDER.sub(one, template)


@dataclass(frozen=True)
class Text:
    """One sentence in both languages."""

    en: str
    zh: str

    def pick(self, lang: str) -> str:
        return self.zh if lang == "zh" else self.en

    def format(self, **values: object) -> Text:
        """Fills ``{name}`` in both languages. A missing name is left as it stands."""
        return Text(fill(self.en, values), fill(self.zh, values)) if values else self

    def __add__(self, other: Text) -> Text:
        return Text(self.en + other.en, self.zh + other.zh)


@dataclass(frozen=True)
class Location:
    """A place in a file: line and column count from 1, offset counts bytes from 0."""

    source: str
    line: Optional[int] = None
    column: Optional[int] = None
    offset: Optional[int] = None
    key: Optional[str] = None


@dataclass(frozen=True)
class Evidence:
    """One observation that a finding rests on. `kind` is log, value, command, file or metric."""

    kind: str
    source: str
    line: Optional[int] = None
    column: Optional[int] = None
    offset: Optional[int] = None
    key: Optional[str] = None
    text: Optional[str] = None
    rank: Optional[int] = None
    step: Optional[int] = None
    #: what stands there and what should, as values; a `Text` where a phrase says it
    observed: Any = None
    expected: Any = None
    #: what is seen there in a sentence of ours; `text` is quoted as it stands
    note: Optional[Text] = None

    def said(self, lang: str) -> Optional[str]:
        """The sentence or the quotation that a reader is shown."""
        return self.note.pick(lang) if self.note is not None else self.text

    @classmethod
    def at(cls, location: Location, kind: str = "value", **more: Any) -> Evidence:
        return cls(
            kind=kind,
            source=location.source,
            line=location.line,
            column=location.column,
            offset=location.offset,
            key=location.key,
            **more,
        )

    def to_dict(self, lang: str = "en") -> dict[str, Any]:
        return _present(
            kind=self.kind,
            source=self.source,
            line=self.line,
            column=self.column,
            offset=self.offset,
            key=self.key,
            text=self.said(lang),
            rank=self.rank,
            step=self.step,
            observed=plain(_picked(self.observed, lang)),
            expected=plain(_picked(self.expected, lang)),
        )


@dataclass(frozen=True)
class Edit:
    """One change of one setting: ``old`` is what stands there now, ``new`` what should."""

    path: str
    key: str
    old: Any
    new: Any

    def to_dict(self) -> dict[str, Any]:
        return {"path": self.path, "key": self.key, "old": plain(self.old), "new": plain(self.new)}


@dataclass(frozen=True)
class Fix:
    """What to do. `applicability`: safe (cannot change results for the worse), unsafe (changes what is
    trained or where it runs), manual (only a person can do it). `verify` is a command that shows success."""

    summary: Text
    command: Optional[str] = None
    edits: tuple[Edit, ...] = ()
    applicability: str = "manual"
    verify: Optional[str] = None

    def to_dict(self, lang: str) -> dict[str, Any]:
        return _present(
            summary=self.summary.pick(lang),
            command=self.command,
            edits=[edit.to_dict() for edit in self.edits],
            applicability=self.applicability,
            verify=self.verify,
        )


@dataclass(frozen=True)
class Finding:
    """Something that is wrong, with its proof and its cure."""

    rule: str
    name: str
    severity: Severity
    category: str
    title: Text
    message: Text
    confidence: float = 1.0
    root_cause: bool = True
    evidence: tuple[Evidence, ...] = ()
    explains: tuple[str, ...] = ()
    fixes: tuple[Fix, ...] = ()
    references: tuple[str, ...] = ()
    #: alternatives that were considered and why they were put aside
    ruled_out: tuple[Text, ...] = field(default=())

    def with_(self, **changes: Any) -> Finding:
        return replace(self, **changes)

    @property
    def place(self) -> Optional[Evidence]:
        """The first evidence: where a reader should look."""
        return self.evidence[0] if self.evidence else None

    def to_dict(self, lang: str) -> dict[str, Any]:
        row: dict[str, Any] = {
            "rule": self.rule,
            "name": self.name,
            "severity": self.severity.value,
            "category": self.category,
            "title": self.title.pick(lang),
            "message": self.message.pick(lang),
            "confidence": round(self.confidence, 2),
            "root_cause": self.root_cause,
            "evidence": [item.to_dict(lang) for item in self.evidence],
            "explains": list(self.explains),
            "fixes": [fix.to_dict(lang) for fix in self.fixes],
            "references": list(self.references),
        }
        if self.ruled_out:
            row["ruled_out"] = [text.pick(lang) for text in self.ruled_out]
        return row


_EXPONENT = re.compile(r"(-?\d+)(?:\.(\d*))?e([+-]?)0*(\d+)")


def number_text(value: float) -> str:
    """A float as YAML 1.1 reads it back: 1.0e-5, since Python's own 1e-05 would be text there."""
    if value != value or value in (math.inf, -math.inf):
        return ".nan" if value != value else (".inf" if value > 0 else "-.inf")
    text = repr(value)
    hit = _EXPONENT.fullmatch(text)
    if hit is None:
        return text
    whole, digits, sign, exponent = hit.groups()
    return f"{whole}.{digits or '0'}e{sign or '+'}{exponent}"


def _picked(value: Any, lang: str) -> Any:
    return value.pick(lang) if isinstance(value, Text) else value


def plain(value: Any) -> Any:
    """A value as JSON may hold it: NaN and infinities become the strings nan, inf, -inf."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item) for item in value), key=str)
    return str(value)


def _present(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
