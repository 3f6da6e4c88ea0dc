"""The diagnosis of a bundle's files, as bytes that can be compared."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from doctor.errors import UsageError
from doctor.finding import Finding
from doctor.match.pack import Pack


def diagnosis_of(top: str, files: Mapping[str, bytes], pack: Pack, explain: bool = True) -> bytes:
    """What `doctor watch --once` (and `doctor explain`, when it is asked for) finds in these files, read from a folder named
    `top` as by who got the bundle; in both languages, as JSON."""
    with tempfile.TemporaryDirectory(prefix="doctor-bundle-") as room:
        for name, raw in files.items():
            path = Path(room, top, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(raw)
        before = os.getcwd()
        os.chdir(room)
        try:
            return diagnose(top, pack, explain)
        finally:
            os.chdir(before)


def diagnose(folder: str, pack: Pack, explain: bool = True) -> bytes:
    """The same, of a folder that is there."""
    from doctor.diagnosis import diagnose_paths

    rows = {"watch": [_row(item) for item in watch(folder, pack)]}
    if explain:
        try:
            rows["explain"] = [_row(item) for item in diagnose_paths([folder], pack).findings]
        except UsageError:
            rows["explain"] = []
    return json.dumps(rows, ensure_ascii=False, indent=1).encode("utf-8", "backslashreplace")


def watch(folder: str, pack: Pack) -> tuple[Finding, ...]:
    """The findings of a run that is read to its end. Raises UsageError when there is none."""
    from doctor.session import DiagnosisSession
    from doctor.session.reading import read_run

    session = DiagnosisSession(pack, place="RUN")
    read_run(session, [folder], lambda event: None)
    return session.findings()


def _row(finding: Finding) -> dict[str, object]:
    return {"en": finding.to_dict("en"), "zh": finding.to_dict("zh")}


#: a rule, its severity, and the line and step that it points to first: what covering names must not change
Outline = list[tuple[str, str, Optional[int], Optional[int]]]


def outline(raw: bytes) -> Outline:
    """The outline of a diagnosis."""
    return _outline(row["en"] for row in json.loads(raw)["watch"])


def outline_of(findings: Sequence[Finding]) -> Outline:
    """The outline of findings."""
    return _outline(finding.to_dict("en") for finding in findings)


def _outline(rows: Iterable[dict[str, Any]]) -> Outline:
    found = []
    for row in rows:
        first = (row["evidence"] or [{}])[0]
        found.append((row["rule"], row["severity"], first.get("line"), first.get("step")))
    return sorted(found, key=str)
