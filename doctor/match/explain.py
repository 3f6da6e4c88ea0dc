"""Explains a text: scan it with all rules, reason over the hits, say so when nothing fits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Union

from doctor.finding import Finding
from doctor.match.aside import Progress
from doctor.match.document import chunks_of
from doctor.match.pack import Pack, load_pack
from doctor.match.question import answers
from doctor.match.reason import reason
from doctor.match.scan import Hit, Scanner

if TYPE_CHECKING:
    from doctor.match.unknown import Nearest, Wanted

#: a training step as any framework prints it
_STEP = re.compile(
    rb"""(?:\bsteps?\b|\biter(?:ation)?\b|\bepoch\b|global_step)[^\n]{0,200}?\bloss\b["']?\s*(?:is|[:=])?\s*[\[(]?\s*[-+]?\d+\.\d+"""
    rb"""|\{["']loss["']:\s*[-+]?\d+\.\d+""",
    re.IGNORECASE,
)
#: below this the answer asks for more material
_SURE = 0.5


@dataclass(frozen=True)
class Explanation:
    """What a text says. `findings` are in the order of likelihood; `unknown` when none fits. `collect` is what to
    gather then, `nearest` the rules that come closest, `skeleton` a rule file to start from."""

    findings: tuple[Finding, ...] = ()
    unknown: bool = False
    collect: tuple[Wanted, ...] = ()
    nearest: tuple[Nearest, ...] = ()
    skeleton: Optional[str] = None
    #: nothing fits, and no line speaks of a failure either
    quiet: bool = False


def explain(
    text: Union[str, bytes],
    source: str = "-",
    facts: Optional[Mapping[str, Any]] = None,
    pack: Optional[Pack] = None,
) -> Explanation:
    """Explains an error text, a log or a question in words, by the rules on its lines."""
    rules = pack if pack is not None else load_pack()
    scanner = Scanner(rules, facts)
    hits: list[Hit] = []
    steps: dict[tuple[str, Optional[int]], list[int]] = {}
    chunks = list(chunks_of(text, source))
    for chunk in chunks:
        hits.extend(scanner.scan(chunk))
        steps.setdefault((chunk.source, chunk.rank), []).extend(_step_lines(chunk.data, chunk.first_line))
    hits.extend(scanner.finish())
    progress = Progress({key: lines for key, lines in steps.items() if lines})
    return conclude(hits, scanner, words_of(text), progress)


def conclude(
    hits: Iterable[Hit],
    scanner: Scanner,
    text: str,
    progress: Optional[Progress] = None,
    others: Sequence[Finding] = (),
) -> Explanation:
    """The explanation that all hits of a scanner and the findings made elsewhere (`others`) come to. `text` is the
    text, or the end of a long one: for questions, and for what to say when nothing fits."""
    pack = scanner.pack
    counts: dict[str, int] = {}
    for (rule, _), tally in scanner.tallies.items():
        counts[rule] = counts.get(rule, 0) + tally.count
    findings = reason(hits, pack, others, progress, counts) or answers(text, pack)
    if findings and max(finding.confidence for finding in findings) >= _SURE:
        return Explanation(findings)
    from doctor.match.unknown import looks_wrong, nearest_rules, skeleton, what_to_collect

    if not findings:
        nearest = nearest_rules(text, pack)
        quiet = not looks_wrong(text)
        return Explanation((), True, what_to_collect(text), nearest, None if quiet else skeleton(text), quiet)
    return Explanation(findings, collect=what_to_collect(text))


def words_of(text: Union[str, bytes]) -> str:
    """The text as characters, whatever its encoding."""
    if isinstance(text, str):
        return text
    from doctor.escape import decode
    from doctor.match.document import as_utf8

    return decode(as_utf8(text))


def _step_lines(data: bytes, first_line: int) -> list[int]:
    out: list[int] = []
    line, counted = first_line, 0
    for found in _STEP.finditer(data):
        line += data.count(b"\n", counted, found.start())
        counted = found.start()
        if not out or out[-1] != line:
            out.append(line)
    return out
