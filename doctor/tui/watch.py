"""Watch: a run followed live, its curves with findings marked on them, its ranks, its findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Optional

from rich.text import Text as Styled
from textual import work
from textual.app import ComposeResult
from textual.widgets import Input, Static
from textual.worker import get_current_worker

from doctor.escape import visible
from doctor.tui.feed import Feed
from doctor.tui.findings import Findings
from doctor.tui.meters import Meter, row
from doctor.tui.pick import PickScreen
from doctor.tui.plots import Plots, number
from doctor.tui.ranks import ranks_text
from doctor.tui.runview import RunView
from doctor.tui.screens import DoctorScreen
from doctor.tui.words import say

if TYPE_CHECKING:
    from doctor.records.record import Metric

#: seconds between two paintings: a busy run writes faster than anyone reads
PAINT = 0.25
#: seconds between two readings of the meters
MEASURE = 2.0


class WatchScreen(DoctorScreen):
    where = "watch"
    home = "#finding-table"

    def __init__(self) -> None:
        super().__init__()
        self.feed = Feed()
        self.rank: Optional[int] = None
        self.meters: list[Meter] = []
        self.paused = False

    @property
    def view(self) -> RunView:
        return self.feed.view

    def body(self) -> ComposeResult:
        yield Input(id="run-path", placeholder=say("run_path", self.lang))
        yield Static(id="status", markup=False)
        yield Static(id="meters", markup=False)
        yield Plots()
        yield Static(id="rank-grid", markup=False)
        yield Findings(self.lang)

    def on_mount(self) -> None:
        self.query_one("#run-path", Input).display = False
        self.set_interval(PAINT, self.paint)
        self.set_interval(MEASURE, self.measure)
        self.measure()

    def relabel(self) -> None:
        super().relabel()
        self.query_one("#run-path", Input).placeholder = say("run_path", self.lang)
        self.query_one(Findings).show(self.feed.findings, self.lang)
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

    def action_open(self) -> None:
        self.app.push_screen(PickScreen(self.lang, self.doctor.unicode, folders=True), self._picked)

    def _picked(self, path: Optional[str]) -> None:
        if path:
            self.follow([path])

    def action_detach(self) -> None:
        """Stops watching; the run goes on."""
        self.workers.cancel_group(self, "read")
        self._begin(())

    def action_evidence(self) -> None:
        self.query_one(Findings).open_evidence()

    def action_pause(self) -> None:
        """Freezes the picture; reading goes on."""
        self.paused = not self.paused
        if not self.paused:
            self.query_one(Findings).show(self.feed.findings, self.lang)
        self.paint()

    def action_next_metric(self) -> None:
        self.query_one(Plots).next_metric(self.view, self.rank)
        self.paint()

    def action_next_rank(self) -> None:
        self.rank = self.view.next_rank(self.rank)
        self.paint()

    def follow(self, paths: Sequence[str]) -> None:
        """Watches `paths` from their beginning, in place of what was watched."""
        self._begin(paths)
        self.read(self.feed)

    def _begin(self, paths: Sequence[str]) -> None:
        self.feed = Feed(paths)
        self.rank = None
        self.paused = False
        if self.is_mounted:
            self.query_one(Plots).metric = "loss"
            self.action_leave_text()
            self.query_one(Findings).show((), self.lang)
            self.paint()

    @work(thread=True, exit_on_error=False, exclusive=True, group="read")
    def read(self, feed: Feed) -> None:
        """Beside the screen: reading never waits for painting."""
        worker = get_current_worker()

        def changed() -> None:
            if not worker.is_cancelled:
                self.app.call_from_thread(self._show, feed)

        feed.read(self.doctor.services, lambda: worker.is_cancelled, changed)

    def _show(self, feed: Feed) -> None:
        if feed is self.feed and not self.paused and self.is_mounted:
            self.query_one(Findings).show(feed.findings, self.lang)

    @work(thread=True, exit_on_error=False, exclusive=True, group="measure")
    def measure(self) -> None:
        """Meters in a worker: npu-smi may take seconds."""
        if self.is_current:
            self.meters = self.doctor.services.meters()

    def paint(self) -> None:
        """Draws what is known now, where it is seen."""
        if not self.is_current or not self.query("#status"):  # not composed yet, or taken apart already
            return
        status = self._status(self.view.last)
        status.truncate(max(10, self.size.width - 2), overflow="ellipsis")
        self.query_one("#status", Static).update(status)
        if self.paused:
            return
        self.query_one("#meters", Static).update(row(self.meters, self.size.width - 2, self.doctor.unicode))
        feed = self.feed
        empty = say(("loading" if feed.state == "loading" else "no_curve") if feed.paths else "watch_hint", self.lang)
        self.query_one(Plots).paint(feed.view, self.rank, feed.findings, self.lang, self.doctor.unicode, empty)
        self._paint_ranks()

    def _status(self, last: Optional[Metric]) -> Styled:
        feed = self.feed
        text = Styled(no_wrap=True, overflow="ellipsis")
        if feed.problem is not None:
            return text.append(feed.problem.pick(self.lang), "red")
        if not feed.paths:
            return text
        state = "paused" if self.paused else feed.state
        text.append(f" {say(state, self.lang)} ", "reverse" if self.paused else "")
        if feed.share is not None:
            size = f"{feed.size / 2**30:.1f} GB"
            text.append(say("catching_up", self.lang, share=f"{feed.share:.0%}", size=size) + "  ", "bold yellow")
        if last is not None:
            total = f"/{self.view.total}" if self.view.total else ""
            text.append(say("step", self.lang, at=f"{last.at}{total}"), "bold")
            text.append("  " + "  ".join(self._measured(last)) + "  ")
        return text.append(" ".join(visible(path, 48) for path in feed.paths), "dim")

    def _measured(self, last: Metric) -> list[str]:
        """The values of the last step, and how long the rest will take."""
        left = self.view.seconds_left() if self.feed.state == "live" else None
        parts = [f"{say('left', self.lang)} {_duration(left)}"] if left else []
        for name, short in (("loss", "loss"), ("lr", "lr"), ("grad_norm", "norm"), ("loss_scale", "scale")):
            value = getattr(last, name)
            if value is not None:
                parts.append(f"{short} {number(value)}")
        if last.step_time_ms:
            parts.append(f"{last.step_time_ms:.0f} ms")
        return parts

    def _paint_ranks(self) -> None:
        grid = self.query_one("#rank-grid", Static)
        ranks = sorted(rank for rank in list(self.view.ranks) if rank is not None)
        grid.display = len(ranks) > 1
        if grid.display:
            width = max(20, grid.content_size.width)
            grid.update(ranks_text(ranks, self.view.odd(), self.lang, width, self.rank))


def _duration(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"
