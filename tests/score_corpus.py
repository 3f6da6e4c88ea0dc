"""Scores `doctor explain` on a file of error reports: ``python tests/score_corpus.py errors.yaml [healthy-lines.yaml]``.

A report has ``error`` (what was printed), ``category`` and ``also`` (right answers), ``expect`` (problem or no-problem),
``basis`` and ``cause_line``; a healthy line has ``line``. Printed are, apart for ``basis: report`` and the rest and for
the two halves of a fixed hash of the id: right first, right in the first three, misleading (a wrong
category first, not marked as unsure), unknown, false alarm (something raised where nothing should be), cause line right.
``-v`` prints the texts side by side, ``--half a|b`` scores one half only, ``--only ID`` one report.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from doctor.diagnosis import diagnose_text
from doctor.finding import Finding, Severity
from doctor.match.pack import Pack, load_pack


@dataclass(frozen=True)
class Score:
    """What became of one report."""

    report: dict[str, Any]
    findings: tuple[Finding, ...]
    unknown: bool

    @property
    def is_problem(self) -> bool:
        return self.report.get("expect", "problem") == "problem"

    @property
    def wanted(self) -> list[str]:
        return [self.report["category"], *(self.report.get("also") or [])]

    @property
    def raised(self) -> bool:
        return any(finding.severity.at_least(Severity.WARNING) for finding in self.findings)

    @property
    def right_first(self) -> bool:
        return bool(self.findings) and self.findings[0].category in self.wanted

    @property
    def right_in_three(self) -> bool:
        return any(finding.category in self.wanted for finding in self.findings[:3])

    @property
    def misleading(self) -> bool:
        return bool(self.findings) and not self.right_first and self.findings[0].confidence >= 0.5

    @property
    def right_line(self) -> Optional[bool]:
        """None when the report does not say which line it is."""
        wanted = self.report.get("cause_line")
        if not wanted or not self.findings or self.findings[0].place is None:
            return None
        return bool(wanted == self.findings[0].place.line)


def half_of(report_id: str) -> str:
    return "ab"[int(hashlib.sha256(report_id.encode()).hexdigest(), 16) % 2]


def score(report: dict[str, Any], pack: Pack) -> Score:
    explanation = diagnose_text(str(report["error"]), pack=pack)
    return Score(report, explanation.findings, explanation.unknown)


def summary(scores: Iterable[Score]) -> str:
    scores = list(scores)
    problems = [item for item in scores if item.is_problem]
    healthy = [item for item in scores if not item.is_problem]
    lines = [item.right_line for item in problems if item.right_line is not None]

    def part(name: str, count: int, of: int) -> str:
        return f"{name} {count}/{of} ({100 * count / of:.1f} %)" if of else f"{name} -"

    return ", ".join(
        (
            part("right first", sum(item.right_first for item in problems), len(problems)),
            part("in three", sum(item.right_in_three for item in problems), len(problems)),
            part("misleading", sum(item.misleading for item in problems), len(problems)),
            part("unknown", sum(item.unknown for item in problems), len(problems)),
            part("false alarm", sum(item.raised for item in healthy), len(healthy)),
            part("cause line", sum(lines), len(lines)),
        )
    )


def main() -> int:
    import yaml

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--half", choices=("a", "b"))
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    pack = load_pack()
    scores: list[Score] = []
    for file in args.files:
        rows = yaml.load(file.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        for row in rows:
            if "error" not in row:
                row = {
                    **row,
                    "error": row["line"],
                    "expect": "no-problem",
                    "category": "other",
                    "basis": "healthy line",
                }
            if (not args.half or half_of(row["id"]) == args.half) and (not args.only or row["id"] in args.only):
                scores.append(score(row, pack))
    for item in scores:
        bad = not item.right_first or item.right_line is False if item.is_problem else item.raised
        if args.verbose or bad:
            _show(item)
    print(f"all          {summary(scores)}")
    print(f"report       {summary(item for item in scores if item.report.get('basis') == 'report')}")
    print(f"other basis  {summary(item for item in scores if item.report.get('basis') != 'report')}")
    for half in "ab":
        print(f"half {half}       {summary(item for item in scores if half_of(item.report['id']) == half)}")
    return 0


def _show(item: Score) -> None:
    row = item.report
    print(f"--- {row['id']} wanted {item.wanted} line {row.get('cause_line')} ({row.get('basis')})")
    if row.get("root_cause"):
        print(f"    cause: {row['root_cause']}")
    for finding in item.findings[:3]:
        place = finding.place.line if finding.place else None
        print(f"    {finding.confidence:.2f} {finding.rule} {finding.category} line {place}: {finding.title.en}")
    if item.unknown:
        print("    unknown")


if __name__ == "__main__":
    sys.exit(main())
