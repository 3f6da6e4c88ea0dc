"""`doctor` on a terminal: the TUI, and what it needs from the rest of the program."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from doctor.report.model import Report

if TYPE_CHECKING:
    from doctor.session.following import RunWatch
    from doctor.tui.meters import Meter
    from doctor.tui.services import FilePatch, Services, Training

#: run folders listed on the first screen, newest first
RECENT = 8
#: seconds that npu-smi may take
NPU_SMI = 10


def run(lang: str, start: str = "home", paths: Optional[Sequence[str]] = None) -> int:
    """Opens the TUI on the screen `start`. Gives the exit code."""
    from doctor.tui.app import DoctorApp

    app = DoctorApp(services(), lang, start, paths)
    app.run()
    return app.return_code or 0


def services() -> Services:
    """The callables behind the screens."""
    from doctor import api, registry
    from doctor.examples import examples
    from doctor.tui.services import Services

    return Services(
        check=lambda targets: api.check(*targets),
        explain=api.explain,
        rules=lambda: list(registry.rules()),
        patches=patches,
        watch=_watch,
        recent=recent_runs,
        meters=meters,
        examples=lambda: list(examples()),
        training=training,
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


def meters() -> list[Meter]:
    """How busy the processors and the memory of this machine are, then each NPU where npu-smi tells."""
    import psutil

    from doctor.tui.meters import Meter

    memory = psutil.virtual_memory()
    busy = psutil.cpu_percent()
    found = [
        Meter("CPU", busy / 100, f"{busy:.0f}%"),
        Meter(
            "RAM",
            memory.percent / 100,
            f"{(memory.total - memory.available) / 2**30:.0f}/{memory.total / 2**30:.0f} GB",
        ),
    ]
    return found + _device_meters()


def _device_meters() -> list[Meter]:
    """Device memory by npu-smi. A tool that is missing, hangs or fails gives none."""
    tool = shutil.which("npu-smi")
    if tool is None:
        return []
    from doctor.checks.environment.sources.npu_smi import parse_info
    from doctor.tui.meters import Meter

    try:
        told = subprocess.run(
            [tool, "info"], capture_output=True, timeout=NPU_SMI, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    found = []
    for row in parse_info(told.stdout.decode("utf-8", "replace")).devices:
        used, total = row.get("memory_used_mb"), row.get("memory_total_mb")
        if isinstance(used, (int, float)) and isinstance(total, (int, float)) and total > 0:
            label = f"NPU{row.get('npu_id', '?')}"
            found.append(Meter(label, used / total, f"{used / 1024:.0f}/{total / 1024:.0f} GB"))
    return found


def training(word: str) -> Training:
    """How a config or an example is trained. Raises UsageError when there is no such file."""
    from doctor.errors import UsageError
    from doctor.examples import example
    from doctor.finding import Text
    from doctor.tui.services import Training

    path = Path(word)
    if not path.is_file() and example(word) is None:
        raise UsageError(Text(f"{word}: no such file or example.", f"{word}：没有这样的文件或示例。"))
    base = Path("output") / f"{path.stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    folder, count = base, 2
    while folder.exists():
        folder, count = base.with_name(f"{base.name}-{count}"), count + 1
    command = (sys.executable, "-m", "doctor", "train", word, "--output-dir", str(folder), "--color", "never")
    return Training(command, folder)


def _watch(paths: Sequence[str]) -> RunWatch:
    from doctor.match.pack import load_pack
    from doctor.session import DiagnosisSession
    from doctor.session.following import RunWatch

    return RunWatch(DiagnosisSession(load_pack(), eager=True), paths)
