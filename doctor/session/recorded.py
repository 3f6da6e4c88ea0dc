"""A run that is over, as a whole: what was found in it, its curves, its configuration, where it ran and how it ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from doctor.errors import UsageError
from doctor.escape import visible
from doctor.finding import Finding, Severity, Text, plain
from doctor.match.pack import Pack
from doctor.records.discover import LogFile
from doctor.session.diagnosis import DiagnosisSession
from doctor.session.history import History, Track
from doctor.session.reading import end_row, read_run
from doctor.session.surroundings import surroundings

if TYPE_CHECKING:
    from doctor.plan.plan import Plan

#: lines of interventions.jsonl and files beside the logs that are looked at
_MOST_LINES, _MOST_FILES = 1000, 200
_STATES = {
    "ended": Text("ended", "正常结束"),
    "complete": Text("all steps made", "全部步数完成"),
    "cut": Text("ended early", "提前结束"),
    "failed": Text("failed", "失败"),
    "interrupted": Text("interrupted", "被中断"),
    "unknown": Text("not known", "未知"),
}


@dataclass(frozen=True)
class Ending:
    """`state` is ended, failed or interrupted where the run says so; otherwise "complete" when every rank made its last
    step, "cut" when one did not, "failed" when there is no step but an error, and "unknown" when nothing tells. Steps are
    those of the rank that got furthest."""

    state: str
    exit_code: Optional[int]
    step: Optional[int]
    of: Optional[int]

    @property
    def said(self) -> Text:
        """The state for people."""
        return _STATES.get(self.state, Text(self.state, self.state))

    def to_dict(self) -> dict[str, Any]:
        return {"state": self.state, "exit_code": self.exit_code, "last_step": self.step, "steps": self.of}


@dataclass(frozen=True)
class Recorded:
    """`plan` is that of the run's config file, else of the configuration that it printed; `plan_source` says where."""

    name: str
    session: DiagnosisSession
    findings: tuple[Finding, ...]
    tracks: tuple[Track, ...]
    logs: tuple[LogFile, ...]
    plan: Optional[Plan]
    plan_source: Optional[str]
    environment: dict[str, str]
    ending: Ending
    interventions: tuple[dict[str, Any], ...]

    @property
    def main(self) -> Optional[Track]:
        """The rank whose curves stand for the run: the first one that prints a loss that is not always zero (of a pipeline
        only the last stage does), and of those the first that got furthest."""
        return max(self.tracks, key=lambda track: (_told(track), track.last_step or 0), default=None)


def _told(track: Track) -> bool:
    points = track.points("loss", 64)
    return points is not None and bool((points.mean != 0).any())


def recorded(path: str, pack: Pack) -> Recorded:
    """Reads the run at `path` (a run folder, a log, a glob) to its end. Raises UsageError when there is none."""
    history = History()
    session = DiagnosisSession(pack, on_metric=history.metric, place=path)
    session.on_block = history.block
    logs = read_run(session, [path], lambda event: None)
    folder = Path(path) if Path(path).is_dir() else None
    plan, source = _plan(session, folder)
    versions = plan.root.get("versions").plain() if plan is not None else {}
    tracks, findings = history.ready(), session.findings()
    return Recorded(
        path,
        session,
        findings,
        tuple(tracks),
        tuple(logs),
        plan,
        source,
        surroundings(folder, versions if isinstance(versions, dict) else {}, logs),
        _ending(session, findings, folder, tracks),
        tuple(_lines(folder / "interventions.jsonl")) if folder is not None else (),
    )


def _plan(session: DiagnosisSession, folder: Optional[Path]) -> tuple[Optional[Plan], Optional[str]]:
    from doctor.plan.build import load_plan

    for config in _configs(folder) if folder is not None else ():
        try:
            plan = load_plan(config, forgiving=True)
        except UsageError:
            continue
        if plan.dialect.value != "other":
            return plan, str(config)
    echo = session.printed
    if echo is not None:
        try:
            return echo.plan(), f"{echo.source}:{echo.line}"
        except UsageError:
            return None, None
    return None, None


def _configs(folder: Path) -> Sequence[Path]:
    """config.yaml of the folder, else the one YAML that lies in it."""
    config = folder / "config.yaml"
    if config.is_file():
        return [config]
    try:
        beside = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".yaml", ".yml"))[:_MOST_FILES]
    except OSError:
        return []
    return beside if len(beside) == 1 else []


def _ending(
    session: DiagnosisSession, findings: Sequence[Finding], folder: Optional[Path], tracks: Sequence[Track]
) -> Ending:
    row = end_row(folder) if folder is not None else {}
    furthest = max(tracks, key=lambda track: track.last_step or 0, default=None)
    step = furthest.last_step if furthest is not None else None
    of = session.facts.ending(furthest.announced) if furthest is not None else None
    state, code = row.get("state"), row.get("exit_code")
    if not isinstance(state, str):
        broken = any(finding.rule.startswith("RUN-END-") and finding.severity.rank > 0 for finding in findings)
        if not tracks:
            broken = broken or any(finding.severity.at_least(Severity.ERROR) for finding in findings)
            state = "failed" if broken else "unknown"
        elif broken or (of is not None and step is not None and step < of and not session.run_ended):
            state = "cut"
        else:
            state = "complete" if session.run_ended else "unknown"
    return Ending(visible(state, 40), code if isinstance(code, int) else None, step, of)


def _lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines; what is none is passed over."""
    rows: list[dict[str, Any]] = []
    try:
        with path.open("rb") as file:
            for raw in file:
                if len(rows) >= _MOST_LINES:
                    break
                try:
                    row = json.loads(raw)
                except ValueError:
                    continue
                if isinstance(row, dict):
                    rows.append(plain(row))
    except OSError:
        return rows
    return rows
