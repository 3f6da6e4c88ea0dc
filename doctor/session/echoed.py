"""The configuration that a run printed into its own log, as settings that can be checked.

MindFormers prints it in graph mode with `pprint` behind "Starting Init Train Model", objects and all, and its parts in lines
of their own before; in PyNative mode as JSON behind "Current config:". Other lines may stand between.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from doctor.errors import UsageError
from doctor.finding import Evidence, Finding
from doctor.records.record import Chunk
from doctor.session.lifecycle import Mark

if TYPE_CHECKING:
    from doctor.plan.plan import Plan

#: bytes of a printed configuration at most, and lines in which its beginning is looked for
LARGEST, BEGINS_WITHIN = 256 << 10, 64
#: stands for what has no text that could be read back
_OBJECT = "\0"
_TOKEN = re.compile(
    r"""'(?:[^'\\\n]|\\.)*' | "(?:[^"\\\n]|\\.)*" | <[^<>\n]*> | (?<![\w.])[A-Za-z_][\w.]*(?:\s?\((?:[^()]|\([^()]*\))*\))?""",
    re.VERBOSE,
)
_WORDS = ("None", "True", "False")
#: names and types are what the trainer has read already; only what the settings say is judged
_OF_THE_FILE = ("CFG-KEY-", "CFG-TYP-", "CFG-YML-")
#: a float without a point, which JSON has and YAML takes for text
_POINTLESS = re.compile(r'"(?:[^"\\]|\\.)*"|\b\d+e[-+]?\d+')


@dataclass(frozen=True)
class Echo:
    """The settings that stand in `source` from `line` on."""

    source: str
    line: int
    settings: Mapping[str, Any]

    def warnings(self) -> tuple[Finding, ...]:
        """What the checks of a configuration find in them, with the place in the log as evidence."""
        from doctor import runner

        try:
            judged = runner.judge_subject("config", self.plan(), Path(self.source), runner.Selection())
        except UsageError:
            return ()
        except Exception:  # noqa: BLE001 - the boundary that keeps a bug of the checks from a watch that runs for weeks
            return ()
        found = [finding for outcome in judged.outcomes for finding in outcome.findings]
        return tuple(self._placed(finding) for finding in found if not finding.rule.startswith(_OF_THE_FILE))

    def plan(self) -> Plan:
        """The settings as a plan; places in it are those of a text that nobody has. Raises UsageError when they make none."""
        from doctor.plan.build import plan_of
        from doctor.plan.reader import parse

        return plan_of(parse(self._text().encode(), Path(self.source)))

    def _text(self) -> str:
        """The settings as YAML."""
        return _POINTLESS.sub(_with_point, json.dumps(self.settings))

    def _placed(self, finding: Finding) -> Finding:
        """Places and edits of a file that nobody has are those of the log, and advice."""
        evidence = tuple(
            Evidence("value", self.source, line=self.line, key=item.key, text=item.key, observed=item.observed)
            for item in finding.evidence
        )
        fixes = tuple(replace(fix, edits=(), command=None, verify="doctor check CONFIG") for fix in finding.fixes)
        return finding.with_(evidence=evidence, fixes=fixes)


@dataclass
class _Block:
    """A printed configuration that is being read, from the line behind its announcement."""

    json: bool
    skipped: int = 0
    line: int = 0
    size: int = 0
    depth: int = 0
    lines: list[str] = field(default_factory=list)

    def take(self, number: int, raw: bytes) -> Optional[bool]:
        """True when the line was its last one, False when this is none after all, None while it goes on."""
        begun = bool(self.lines)
        if not (raw[:1] in (b" ", b"}") if begun else raw[:2] in (b"{'", b"{")):
            self.skipped += 1
            return False if self.skipped > BEGINS_WITHIN else None
        text = raw.decode("utf-8", "replace")
        self.line = self.line or number
        self.lines.append(text)
        self.size += len(raw)
        bare = _TOKEN.sub("", text)
        self.depth += bare.count("{") + bare.count("[") - bare.count("}") - bare.count("]")
        if self.depth <= 0:
            return True
        return False if self.size > LARGEST else None

    def settings(self) -> Optional[dict[str, Any]]:
        text = "\n".join(self.lines)
        try:
            value = json.loads(text) if self.json else ast.literal_eval(_TOKEN.sub(_readable, text))
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return None
        return _without_objects(value) if isinstance(value, dict) else None


class Echoes:
    """Fed with the chunks of all logs and the marks in them; `echo` is the first configuration that was printed."""

    def __init__(self) -> None:
        self.echo: Optional[Echo] = None
        #: parts that were printed by themselves, by their names
        self.parts: dict[str, dict[str, Any]] = {}
        self._open: dict[str, _Block] = {}

    def take(self, chunk: Chunk, marks: Sequence[Mark]) -> None:
        if self.echo is not None or not (marks or self._open):
            return
        first = chunk.first_line
        for mark in marks:
            if mark.name == "part-printed":
                self._part(mark)
            elif mark.name == "config-printed" and chunk.source not in self._open:
                first = mark.hit.line + 1
                is_json = mark.hit.text.rstrip().endswith(b"{")
                block = self._open[chunk.source] = _Block(is_json)
                if is_json:
                    block.take(mark.hit.line, b"{")
        open_now = self._open.get(chunk.source)
        if open_now is not None:
            self._read(open_now, chunk, first)

    def absorb(self, other: Echoes) -> None:
        """Takes over what was printed in other logs."""
        self.echo = self.echo or other.echo
        for name, settings in other.parts.items():
            self.parts.setdefault(name, settings)

    def _part(self, mark: Mark) -> None:
        name, text = mark.text("part"), mark.text("settings")
        if name is None or text is None:
            return
        try:
            value = ast.literal_eval(_TOKEN.sub(_readable, text))
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return
        if isinstance(value, dict):
            self.parts.setdefault(name, _without_objects(value))

    def _read(self, block: _Block, chunk: Chunk, first: int) -> None:
        for number, line in _lines(chunk, first):
            ended = block.take(number, line)
            if ended is None:
                continue
            del self._open[chunk.source]
            settings = block.settings() if ended else None
            if settings:
                self.echo = Echo(chunk.source, block.line, {**self.parts, **settings})
            return


def _lines(chunk: Chunk, first: int) -> Iterator[tuple[int, bytes]]:
    """Lines of a chunk from number `first` on, with their numbers."""
    at, number = 0, chunk.first_line
    while number < first:
        at = chunk.data.find(b"\n", at) + 1
        number += 1
        if not at:
            return
    while at < len(chunk.data):
        end = chunk.data.find(b"\n", at)
        end = len(chunk.data) if end < 0 else end
        yield number, chunk.data[at:end].rstrip(b"\r")
        at, number = end + 1, number + 1


def _readable(match: re.Match[str]) -> str:
    text = match.group()
    return text if text[0] in "'\"" or text in _WORDS else repr(_OBJECT)


def _with_point(match: re.Match[str]) -> str:
    text = match.group()
    return text if text[0] == '"' else text.replace("e", ".0e")


def _without_objects(value: dict[Any, Any]) -> dict[str, Any]:
    return {str(key): _plain(item) for key, item in value.items() if item != _OBJECT}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return _without_objects(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value if item != _OBJECT]
    return value
