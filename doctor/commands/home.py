"""`doctor` on a terminal: the TUI, and what it needs from the rest of the program."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from doctor.report.model import Report
from doctor.tui.words import WORDS

if TYPE_CHECKING:
    from doctor.finding import Edit, Finding, Text
    from doctor.match.pack import Pack
    from doctor.rule import Rule
    from doctor.session.following import RunWatch
    from doctor.tui.meters import Meter
    from doctor.tui.services import Choice, FilePatch, Services

#: run folders listed on the first screen, newest first
RECENT = 8


def run(lang: str, start: str = "home", paths: Optional[Sequence[str]] = None) -> int:
    """Opens the TUI on the screen `start`. Gives the exit code."""
    gc.disable()  # to start makes many objects and hardly a cycle; the application enables it again
    from doctor.tui.app import DoctorApp

    app = DoctorApp(services(), lang, start, paths)
    app.run()
    return app.return_code or 0


def services() -> Services:
    """The callables behind the screens."""
    from doctor import api
    from doctor.commands import steering
    from doctor.examples import examples
    from doctor.tui.services import Services

    return Services(
        check=lambda targets: api.check(*targets),
        explain=explained,
        rules=_rules,
        estimate=estimated,
        fixes=fixes,
        watch=_watch,
        ends=_ends,
        recent=recent_runs,
        meters=meters,
        examples=lambda: list(examples()),
        training=steering.training,
        steered=steering.steered,
        checkpoints=steering.checkpoints,
        config=steering.config,
        readable=steering.readable,
        interventions=steering.interventions,
    )


def explained(text: str) -> Report:
    """The cause of a text, a code or a rule id; a single word that is the path of a file or of a folder is read."""
    word = text.strip()
    if word and "\n" not in word and len(word) < 4096:
        path = Path(word).expanduser()
        try:
            there = path.is_file() or ("/" in word and path.is_dir())
        except (OSError, ValueError):
            there = False
        if there:
            from doctor.commands.explain import of_explanation
            from doctor.diagnosis import diagnose_paths

            return of_explanation(diagnose_paths([str(path)], _pack()))
    from doctor import api

    return api.explain(text)


def estimated(config: str) -> Report:
    """What `doctor estimate` says of a config without further options. Raises UsageError."""
    from doctor.commands import estimate

    parser = argparse.ArgumentParser()
    estimate.configure(parser)
    return estimate.build_report(parser.parse_args(["--", config]))


def fixes(report: Report, chosen: Optional[Finding]) -> list[Choice]:
    """The fixes of the chosen finding that are edits, one choice each; then all safe ones of the report, then all. A
    choice that would write what one before it writes is left out."""
    from doctor.plan.edit import propose
    from doctor.tui.services import Choice

    found: list[Choice] = []
    written: list[dict[str, str]] = []

    def offer(label: Text, texts: dict[str, tuple[str, str]]) -> None:
        new = {name: after for name, (before, after) in texts.items() if before != after}
        if new and new not in written:
            written.append(new)
            found.append(Choice(label, tuple(_patch(name, *texts[name]) for name in sorted(new))))

    for fix in chosen.fixes if chosen is not None else ():
        if fix.edits and fix.applicability != "manual":
            edits: dict[str, list[Edit]] = {}
            for edit in fix.edits:
                edits.setdefault(edit.path, []).append(edit)
            offer(fix.summary, {name: propose(Path(name), some) for name, some in edits.items()})
    offer(WORDS["all_safe"], _all(report, {"safe"}))
    offer(WORDS["all_fixes"], _all(report, {"safe", "unsafe"}))
    return found


def _all(report: Report, allowed: set[str]) -> dict[str, tuple[str, str]]:
    """Texts of all files with fixes, before and after, each fix judged before the next."""
    from doctor.check import Options
    from doctor.commands.check import edits_of, repaired
    from doctor.runner import Selection

    names = sorted(edits_of(report, allowed))
    return {name: repaired(Path(name), report, allowed, Options(), Selection()) for name in names}


def _patch(name: str, old: str, new: str) -> FilePatch:
    from doctor.plan.edit import apply, diff
    from doctor.tui.services import FilePatch

    return FilePatch(name, diff(Path(name), old, new), partial(apply, Path(name), old, new))


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
    from doctor.session.cards import ask
    from doctor.tui.meters import Meter

    found = []
    for card in ask() or ():
        used, total = card.memory_used_mb, card.memory_total_mb
        if used is not None and total:
            found.append(Meter(f"NPU{card.npu_id}", used / total, f"{used / 1024:.0f}/{total / 1024:.0f} GB"))
    return found


def _pack() -> Pack:
    """All rules, with those of the project here."""
    from doctor.match.pack import load_pack
    from doctor.settings import load_settings

    return load_pack(load_settings(None).rules)


def _watch(paths: Sequence[str]) -> RunWatch:
    from doctor.session import DiagnosisSession
    from doctor.session.following import RunWatch

    return RunWatch(DiagnosisSession(_pack(), eager=True), paths)


def _ends(paths: Sequence[str]) -> Optional[RunWatch]:
    from doctor.session import DiagnosisSession
    from doctor.session.following import RunWatch
    from doctor.session.tail import ends_of

    state = ends_of(paths)
    return None if state is None else RunWatch(DiagnosisSession(_pack(), eager=True), paths, state)


def _rules() -> list[Rule]:
    """All rules, with names in place of the values that their texts ask for."""
    from doctor import registry
    from doctor.commands.shown import opened

    return [
        replace(rule, title=opened(rule.title), why=opened(rule.why), fix=opened(rule.fix)) for rule in registry.rules()
    ]
