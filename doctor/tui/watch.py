"""Watch: a run followed live, its curves with findings marked on them, its ranks, its findings."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Optional

from textual import work
from textual.app import ComposeResult
from textual.widgets import Input, Static
from textual.worker import get_current_worker

from doctor.errors import UsageError
from doctor.escape import visible
from doctor.finding import Finding
from doctor.tui.findings import STYLE, Findings
from doctor.tui.plot import Curve, draw
from doctor.tui.screens import DoctorScreen
from doctor.tui.words import say

if TYPE_CHECKING:
    from doctor.records.record import Metric
    from doctor.session.following import RunWatch

METRICS = ("loss", "grad_norm", "lr", "loss_scale", "step_time_ms", "throughput", "memory_mb")
#: seconds between two paintings: a busy run writes faster than anyone reads
PAINT = 0.25


class RunView:
    """What the screen keeps of a run, of bounded size whatever the run's length: a curve a metric of the rank that
    reports most, and the last step of every rank."""

    def __init__(self) -> None:
        self.curves = {name: Curve() for name in METRICS}
        self.ranks: dict[Optional[int], Metric] = {}
        self.lead: Optional[int] = None
        self.started: Optional[tuple[float, int]] = None

    def add(self, metric: Metric) -> None:
        if not self.ranks:
            self.lead = metric.rank
        self.ranks[metric.rank] = metric
        if metric.rank != self.lead or metric.at is None:
            return
        if self.started is None:
            self.started = (time.monotonic(), metric.at)
        for name in METRICS:
            value = getattr(metric, name)
            if value is not None:
                self.curves[name].add(metric.at, float(value))

    @property
    def last(self) -> Optional[Metric]:
        return self.ranks.get(self.lead)

    def seconds_left(self) -> Optional[float]:
        """By the step time that the run prints; None when it does not say how many steps there are."""
        last = self.last
        if last is None or not last.steps or not last.step_time_ms or last.at is None:
            return None
        return max(0.0, (last.steps * (last.epochs or 1) - last.at) * last.step_time_ms / 1000)


class WatchScreen(DoctorScreen):
    where = "watch"

    def __init__(self) -> None:
        super().__init__()
        self.view = RunView()
        self.paths: list[str] = []
        self.metric = "loss"
        self.findings: tuple[Finding, ...] = ()
        self.state = "waiting"
        self.paused = False

    def body(self) -> ComposeResult:
        yield Input(id="run-path", placeholder=say("run_path", self.lang))
        yield Static(id="status", markup=False)
        yield Static(id="plot", markup=False)
        yield Static(id="rank-grid", markup=False)
        yield Findings(self.lang)

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one("#run-path", Input).display = not self.paths
        self.set_interval(PAINT, self.paint)

    def relabel(self) -> None:
        super().relabel()
        self.query_one("#run-path", Input).placeholder = say("run_path", self.lang)
        self.query_one(Findings).show(self.findings, self.lang)
        self.paint()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self.follow([event.value.strip()])

    def action_attach(self) -> None:
        box = self.query_one("#run-path", Input)
        box.display = True
        box.focus()

    def action_pause(self) -> None:
        self.paused = not self.paused
        self.paint()

    def action_next_metric(self) -> None:
        known = [name for name in METRICS if self.view.curves[name].points] or ["loss"]
        place = known.index(self.metric) + 1 if self.metric in known else 0
        self.metric = known[place % len(known)]
        self.paint()

    def follow(self, paths: Sequence[str]) -> None:
        """Watches `paths` from their beginning, in place of what was watched."""
        self.paths = list(paths)
        self.view = RunView()
        self.findings = ()
        self.state = "waiting"
        if self.is_mounted:
            self.query_one("#run-path", Input).display = False
            self.query_one("#finding-table").focus()
        self.read(self.paths)

    @work(thread=True, exclusive=True)
    def read(self, paths: list[str]) -> None:
        """The loop of the session, beside the screen: reading never waits for painting."""
        worker = get_current_worker()
        try:
            run = self.doctor.services.watch(paths)
        except UsageError as error:
            self.app.call_from_thread(self._failed, error.line(self.lang))
            return
        run.session.on_metric = self.view.add
        self.state = "live"
        while not worker.is_cancelled and not run.over:
            if run.step(0.2):
                self._take(run)
        if not worker.is_cancelled:
            run.close()
            self._take(run)
            self.state = "ended"

    def _take(self, run: RunWatch) -> None:
        findings = run.session.findings()
        self.app.call_from_thread(self._show, findings)

    def _show(self, findings: tuple[Finding, ...]) -> None:
        self.findings = findings
        if not self.paused:
            self.query_one(Findings).show(findings, self.lang)

    def _failed(self, line: str) -> None:
        self.state = "waiting"
        self.query_one("#status", Static).update(line)
        self.action_attach()

    def paint(self) -> None:
        """Draws what is known now."""
        if self.paused or not self.is_mounted:
            return
        last = self.view.last
        status = self.query_one("#status", Static)
        if last is None:
            if self.paths:
                status.update(f"{' '.join(visible(path) for path in self.paths)}: {say('waiting', self.lang)}")
            return
        status.update(self._status(last))
        plot = self.query_one("#plot", Static)
        curve = self.view.curves[self.metric]
        marks = [item.step for finding in self.findings for item in finding.evidence[:1] if item.step is not None]
        width, height = max(20, plot.size.width - 2), max(3, plot.size.height - 2)
        plot.border_title = f"{say(self.metric, self.lang)}: {_number(curve.last)}"
        plot.update("\n".join(draw(curve, width, height, self.doctor.braille, marks)))
        self.query_one("#rank-grid", Static).update(self._ranks())

    def _status(self, last: Metric) -> str:
        total = f"/{last.steps * (last.epochs or 1)}" if last.steps else ""
        parts = [say("paused" if self.paused else self.state, self.lang), f"step {last.at}{total}"]
        for name, short in (("loss", "loss"), ("lr", "lr"), ("grad_norm", "norm"), ("loss_scale", "scale")):
            value = getattr(last, name)
            if value is not None:
                parts.append(f"{short} {_number(value)}")
        if last.step_time_ms:
            parts.append(f"{last.step_time_ms:.0f} ms")
        left = self.view.seconds_left()
        if left:
            parts.append(f"{say('left', self.lang)} {_duration(left)}")
        return "  ".join(parts)

    def _ranks(self) -> str:
        """Ranks as a row of numbers, those behind the others marked."""
        known = {rank: metric for rank, metric in self.view.ranks.items() if rank is not None}
        if len(known) < 2:
            return ""
        ahead = max(metric.at or 0 for metric in known.values())
        shown = [f"{rank}{'' if (metric.at or 0) >= ahead - 1 else '<'}" for rank, metric in sorted(known.items())]
        extra = f" … {len(shown)}" if len(shown) > 64 else ""
        return f"{say('ranks', self.lang)}: {' '.join(shown[:64])}{extra}"


def _number(value: Optional[float]) -> str:
    return "-" if value is None else f"{value:.4g}"


def _duration(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"


__all__ = ["METRICS", "STYLE", "RunView", "WatchScreen"]
