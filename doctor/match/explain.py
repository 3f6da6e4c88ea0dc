"""Explains a text: scan it with all rules, reason over the hits, say so when nothing fits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

from doctor.finding import Finding
from doctor.match.aside import Progress
from doctor.match.document import chunks_of
from doctor.match.pack import Pack, load_pack
from doctor.match.question import answers
from doctor.match.reason import reason
from doctor.match.scan import Hit, Scanner
from doctor.match.unknown import Nearest, Wanted, nearest_rules, skeleton, what_to_collect

#: a training step as any framework prints it
_STEP = re.compile(
    rb"""(?:\bsteps?\b|\biter(?:ation)?\b|\bepoch\b|global_step)[^\n]{0,200}?\bloss\b["']?\s*(?:is|[:=])?\s*[\[(]?\s*[-+]?\d+\.\d+"""
    rb"""|\{["']loss["']:\s*[-+]?\d+\.\d+""",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Explanation:
    """What a text says. `findings` are in the order of likelihood; `unknown` when none fits. `collect` is what to
    gather then, `nearest` the rules that come closest, `skeleton` a rule file to start from."""

    findings: tuple[Finding, ...] = ()
    unknown: bool = False
    collect: tuple[Wanted, ...] = ()
    nearest: tuple[Nearest, ...] = ()
    skeleton: Optional[str] = None


def explain(
    text: Union[str, bytes],
    source: str = "-",
    facts: Optional[Mapping[str, Any]] = None,
    pack: Optional[Pack] = None,
    others: Sequence[Finding] = (),
) -> Explanation:
    """Explains an error text, a log or a question in words. `others` are findings of detectors on its numbers."""
    rules = pack if pack is not None else load_pack()
    chunks = list(chunks_of(text, source))
    scanner = Scanner(rules, facts)
    hits: list[Hit] = []
    steps: dict[tuple[str, Optional[int]], list[int]] = {}
    for chunk in chunks:
        hits.extend(scanner.scan(chunk))
        steps.setdefault((chunk.source, chunk.rank), []).extend(_step_lines(chunk.data, chunk.first_line))
    hits.extend(scanner.finish())
    progress = Progress({key: lines for key, lines in steps.items() if lines})
    counts = {rule: tally.count for (rule, _), tally in scanner.tallies.items()}
    findings = reason(hits, rules, others, progress, counts)
    whole = text if isinstance(text, str) else b"".join(chunk.data for chunk in chunks).decode("utf-8", "replace")
    if not findings:
        findings = answers(whole, rules)
    collect = what_to_collect(whole)
    if findings:
        weak = max(finding.confidence for finding in findings) < 0.5
        return Explanation(findings, collect=collect if weak else ())
    return Explanation(unknown=True, collect=collect, nearest=nearest_rules(whole, rules), skeleton=skeleton(whole))


def _step_lines(data: bytes, first_line: int) -> list[int]:
    out: list[int] = []
    line, counted = first_line, 0
    for found in _STEP.finditer(data):
        line += data.count(b"\n", counted, found.start())
        counted = found.start()
        if not out or out[-1] != line:
            out.append(line)
    return out
