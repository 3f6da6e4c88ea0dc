"""The plots of a run side by side, as many as the terminal has room for, with findings marked where they began."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Static

from doctor.finding import Finding
from doctor.tui.chart import Marker, chart
from doctor.tui.findings import STYLE
from doctor.tui.plot import Curve
from doctor.tui.runview import METRICS, RunView
from doctor.tui.screens import THREE, TWO
from doctor.tui.words import listed, say

#: findings marked on a plot
MOST_MARKS = 6
#: what stands beside the chosen plot, in this order
BESIDE = ("loss", "grad_norm", "step_time_ms", "throughput", "loss_scale", "lr", "memory_mb")


class Plots(Horizontal):
    """`metric` is the plot that was chosen, and stands first."""

    DEFAULT_CSS = """
    Plots { height: 1fr; min-height: 5; }
    Plots Static { border: round $primary; border-title-style: bold; width: 1fr; height: 1fr; padding: 0; }
    """

    def __init__(self) -> None:
        super().__init__(id="plots")
        self.metric = "loss"

    def compose(self) -> ComposeResult:
        for name in ("plot", "plot-2", "plot-3"):
            yield Static(id=name, markup=False)

    def next_metric(self, view: RunView, rank: Optional[int]) -> None:
        known = _known(view, rank)
        place = known.index(self.metric) + 1 if self.metric in known else 0
        self.metric = known[place % len(known)]

    def paint(
        self, view: RunView, rank: Optional[int], findings: Sequence[Finding], lang: str, braille: bool, empty: str
    ) -> None:
        """Draws the curves of `rank`; `empty` stands where nothing is known yet."""
        width = self.app.size.width
        known = _known(view, rank)
        chosen = [self.metric, *(name for name in BESIDE if name in known and name != self.metric)]
        chosen = chosen[: 3 if width >= THREE else 2 if width >= TWO else 1]
        marks = _marks(findings)
        for number, pane in enumerate(self.query(Static)):
            pane.display = number < len(chosen)
            if not pane.display:
                continue
            curve = view.curves_of(rank)[chosen[number]]
            pane.border_title = _title(chosen[number], curve, rank if number == 0 else None, lang)
            hidden = [say(name, lang) for name in known if name not in chosen]
            pane.border_subtitle = say("other_plots", lang, names=listed(hidden, lang)) if hidden and not number else ""
            if curve.points:
                size = pane.content_size
                pane.update(chart(curve, size.width, size.height, braille, marks))
            else:
                pane.update(empty if number == 0 else "")


def _known(view: RunView, rank: Optional[int]) -> list[str]:
    curves = view.curves_of(rank)
    return [name for name in METRICS if curves[name].points] or ["loss"]


def _marks(findings: Sequence[Finding]) -> list[Marker]:
    marks: dict[str, Marker] = {}
    for finding in findings:
        step = next((item.step for item in finding.evidence if item.step is not None), None)
        if step is not None and finding.root_cause:
            marks.setdefault(finding.rule, Marker(step, finding.rule, STYLE[finding.severity.value]))
    return list(marks.values())[:MOST_MARKS]


def _title(metric: str, curve: Curve, rank: Optional[int], lang: str) -> str:
    title = f"{say(metric, lang)}  {number(curve.last)}"
    if rank is not None:
        title = f"rank {rank}  {title}"
    if curve.not_finite:
        title += f"  {say('not_finite', lang, count=curve.not_finite)}"
    return title


def number(value: Optional[float]) -> str:
    return "-" if value is None else f"{value:.4g}"
