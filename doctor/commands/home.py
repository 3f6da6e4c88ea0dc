"""`doctor` on a terminal: the TUI, and what it needs from the rest of the program."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from doctor.report.model import Report

if TYPE_CHECKING:
    from doctor.session.following import RunWatch
    from doctor.tui.services import FilePatch, Services

#: run folders listed on the first screen, newest first
RECENT = 8


def run(lang: str, start: str = "home", paths: Optional[Sequence[str]] = None) -> int:
    """Opens the TUI on the screen `start`. Gives the exit code."""
    from doctor.tui.app import DoctorApp

    app = DoctorApp(services(), lang, start, paths)
    app.run()
    return app.return_code or 0


def services() -> Services:
    """The callables behind the screens."""
    from doctor import api, registry
    from doctor.tui.services import Services

    return Services(
        check=lambda targets: api.check(*targets),
        explain=api.explain,
        rules=lambda: list(registry.rules()),
        patches=patches,
        watch=_watch,
        recent=recent_runs,
    )


def patches(report: Report) -> list[FilePatch]:
    """The safe edits of a report as patches, file by file."""
    from doctor.check import Options
    from doctor.commands.check import edits_of, repaired
    from doctor.plan.edit import apply, diff
    from doctor.runner import Selection
    from doctor.tui.services import FilePatch

    found = []
    allowed = {"safe", "unsafe"}
    for name in sorted(edits_of(report, allowed)):
        path = Path(name)
        old, new = repaired(path, report, allowed, Options(), Selection())
        if old != new:
            found.append(FilePatch(name, diff(path, old, new), partial(apply, path, old, new)))
    return found


def recent_runs(root: Path = Path("output")) -> list[str]:
    """Run folders under ``output``, newest first."""
    try:
        folders = [path for path in root.iterdir() if (path / "log").is_dir() or (path / "metrics").is_dir()]
        folders.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:
        return []
    return [str(path) for path in folders[:RECENT]]


def _watch(paths: Sequence[str]) -> RunWatch:
    from doctor.match.pack import load_pack
    from doctor.session import DiagnosisSession
    from doctor.session.following import RunWatch

    return RunWatch(DiagnosisSession(load_pack(), eager=True), paths)
