"""Watch: a run followed live, its curves with findings marked on them, its ranks, its findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Optional

from rich.text import Text as Styled
from textual import work
from textual.app import ComposeResult
from textual.widgets import Input, Static
from textual.worker import get_current_worker

from doctor.errors import UsageError
from doctor.escape import visible
from doctor.finding import Finding
from doctor.tui.chart import Marker, chart
from doctor.tui.findings import STYLE, Findings
from doctor.tui.meters import Meter, row
from doctor.tui.runview import METRICS, Odd, RunView
from doctor.tui.screens import DoctorScreen
from doctor.tui.words import say

if TYPE_CHECKING:
    from doctor.records.record import Metric
    from doctor.session.following import RunWatch

#: seconds between two paintings: a busy run writes faster than anyone reads
PAINT = 0.25
#: seconds between two readings of the meters
MEASURE = 2.0
#: findings marked on the plot, and rows of the grid of ranks
MOST_MARKS, GRID_ROWS = 6, 3


class WatchScreen(DoctorScreen):
    where = "watch"
    home = "#finding-table"

    def __init__(self) -> None:
        super().__init__()
        self.view = RunView()
        self.paths: list[str] = []
        self.metric = "loss"
        self.findings: tuple[Finding, ...] = ()
        self.meters: list[Meter] = []
        self.state = "waiting"
        self.paused = False
        self._problem = ""

    def body(self) -> ComposeResult:
        yield Input(id="run-path", placeholder=say("run_path", self.lang))
        yield Static(id="status", markup=False)
        yield Static(id="meters", markup=False)
        yield Static(id="plot", markup=False)
        yield Static(id="rank-grid", markup=False)
        yield Findings(self.lang)

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one("#run-path", Input).display = False
        self.set_interval(PAINT, self.paint)
        self.set_interval(MEASURE, self.measure)
        self.measure()

    def relabel(self) -> None:
        super().relabel()
        self.query_one("#run-path", Input).placeholder = say("run_path", self.lang)
        self.query_one(Findings).show(self.findings, self.lang)
        self.paint()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self.follow([event.value.strip()])

    def action_leave_text(self) -> None:
        self.query_one("#run-path", Input).display = False
        super().action_leave_text()

    def action_attach(self) -> None:
        box = self.query_one("#run-path", Input)
        box.display = True
        self.set_focus(box)

    def action_evidence(self) -> None:
        self.query_one(Findings).open_evidence()

    def action_pause(self) -> None:
        """Freezes the picture; reading goes on."""
        self.paused = not self.paused
        if not self.paused:
            self.query_one(Findings).show(self.findings, self.lang)
        self.paint()

    def action_next_metric(self) -> None:
        known = self._known()
        place = known.index(self.metric) + 1 if self.metric in known else 0
        self.metric = known[place % len(known)]
        self.paint()

    def follow(self, paths: Sequence[str]) -> None:
        """Watches `paths` from their beginning, in place of what was watched."""
        self.paths = list(paths)
        self.view = RunView()
        self.findings = ()
        self.metric = "loss"
        self.state = "waiting"
        self._problem = ""
        if self.is_mounted:
            self.action_leave_text()
            self.query_one(Findings).show((), self.lang)
        self.read(self.paths, self.view)

    @work(thread=True, exclusive=True, group="read")
    def read(self, paths: list[str], view: RunView) -> None:
        """The loop of the session, beside the screen: reading never waits for painting."""
        worker = get_current_worker()
        try:
            run = self.doctor.services.watch(paths)
        except UsageError as error:
            self.app.call_from_thread(self._failed, error.line(self.lang))
            return
        run.session.on_metric = view.add
        self.state = "live"
        while not worker.is_cancelled and not run.over:
            if run.step(0.2):
                self._take(run)
        if not worker.is_cancelled:
            run.close()
            self._take(run)
            self.state = "ended"

    def _take(self, run: RunWatch) -> None:
        self.app.call_from_thread(self._show, run.session.findings())

    def _show(self, findings: tuple[Finding, ...]) -> None:
        self.findings = findings
        if not self.paused and self.is_mounted:
            self.query_one(Findings).show(findings, self.lang)

    def _failed(self, line: str) -> None:
        self.state = "waiting"
        self._problem = line
        self.paint()

    @work(thread=True, exclusive=True, group="measure")
    def measure(self) -> None:
        """Meters in a worker: npu-smi may take seconds."""
        if self.is_current:
            self.meters = self.doctor.services.meters()

    def paint(self) -> None:
        """Draws what is known now."""
        if not self.is_mounted or not self.is_attached:
            return
        last = self.view.last
        status = self._status(last)
        status.truncate(max(10, self.size.width - 2), overflow="ellipsis")
        self.query_one("#status", Static).update(status)
        if self.paused:
            return
        self.query_one("#meters", Static).update(row(self.meters, self.size.width - 2, self.doctor.unicode))
        self._paint_plot()
        self._paint_ranks()

    def _paint_plot(self) -> None:
        plot = self.query_one("#plot", Static)
        curve = self.view.curves[self.metric]
        marks: dict[str, Marker] = {}
        for finding in self.findings:
            step = next((item.step for item in finding.evidence if item.step is not None), None)
            if step is not None and finding.root_cause:
                marks.setdefault(finding.rule, Marker(step, finding.rule, STYLE[finding.severity.value]))
        title = f"{say(self.metric, self.lang)}  {_number(curve.last)}"
        if curve.not_finite:
            title += f"  {say('not_finite', self.lang, count=curve.not_finite)}"
        plot.border_title = title
        others = ", ".join(say(name, self.lang) for name in self._known() if name != self.metric)
        plot.border_subtitle = say("other_plots", self.lang, names=others) if others else ""
        if not curve.points:
            plot.update(say("no_curve" if self.paths else "watch_hint", self.lang))
            return
        size = plot.content_size
        picture = chart(curve, size.width, size.height, self.doctor.unicode, list(marks.values())[:MOST_MARKS])
        plot.update(picture)

    def _known(self) -> list[str]:
        return [name for name in METRICS if self.view.curves[name].points] or ["loss"]

    def _status(self, last: Optional[Metric]) -> Styled:
        text = Styled(no_wrap=True, overflow="ellipsis")
        if self._problem:
            return text.append(self._problem, "red")
        if not self.paths:
            return text
        state = "paused" if self.paused else self.state
        text.append(f" {say(state, self.lang)} ", "reverse" if self.paused else "")
        if last is not None:
            total = f"/{self.view.total}" if self.view.total else ""
            text.append(say("step", self.lang, at=f"{last.at}{total}"), "bold")
            text.append("  " + "  ".join(self._measured(last)) + "  ")
        return text.append(" ".join(visible(path, 48) for path in self.paths), "dim")

    def _measured(self, last: Metric) -> list[str]:
        """The values of the last step, and how long the rest will take."""
        left = self.view.seconds_left() if self.state == "live" else None
        parts = [f"{say('left', self.lang)} {_duration(left)}"] if left else []
        for name, short in (("loss", "loss"), ("lr", "lr"), ("grad_norm", "norm"), ("loss_scale", "scale")):
            value = getattr(last, name)
            if value is not None:
                parts.append(f"{short} {_number(value)}")
        if last.step_time_ms:
            parts.append(f"{last.step_time_ms:.0f} ms")
        return parts

    def _paint_ranks(self) -> None:
        grid = self.query_one("#rank-grid", Static)
        ranks = sorted(rank for rank in self.view.ranks if rank is not None)
        grid.display = len(ranks) > 1
        if grid.display:
            grid.update(ranks_text(ranks, self.view.odd(), self.lang, max(20, grid.content_size.width)))


def ranks_text(ranks: Sequence[int], odd: Sequence[Odd], lang: str, width: int) -> Styled:
    """Ranks as a grid in which the odd ones stand out, and in words what is odd about the first of them."""
    text = Styled(no_wrap=True, overflow="ellipsis")
    text.append(f"{say('ranks_all', lang, count=len(ranks))}: ", "dim")
    if odd:
        told = [f"rank {item.rank}: {item.why.pick(lang)}" for item in odd[:3]]
        rest = f" (+{len(odd) - 3})" if len(odd) > 3 else ""
        text.append("; ".join(told) + rest, "bold yellow")
    else:
        text.append(say("ranks_even", lang), "green")
    signs = {item.rank: item.sign for item in odd}
    cell = len(str(ranks[-1])) + 2
    room = max(1, width // cell) * GRID_ROWS
    # when not all fit, those that differ come first
    shown = ranks if len(ranks) <= room else sorted([*signs, *[r for r in ranks if r not in signs]][:room])
    for number, rank in enumerate(shown):
        if number % max(1, width // cell) == 0:
            text.append("\n")
        sign = signs.get(rank, "")
        text.append(f"{rank}{sign}".rjust(cell - 1), "bold reverse yellow" if sign else "green").append(" ")
    return text


def _number(value: Optional[float]) -> str:
    return "-" if value is None else f"{value:.4g}"


def _duration(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"
