"""Explain: what is pasted is diagnosed as it is typed."""

from __future__ import annotations

from textual import work
from textual.app import ComposeResult
from textual.widgets import Static, TextArea

from doctor.errors import UsageError
from doctor.report.model import Report
from doctor.report.text import verdict
from doctor.tui.findings import Findings
from doctor.tui.screens import DoctorScreen
from doctor.tui.words import say


class ExplainScreen(DoctorScreen):
    where = "explain"
    home = "#finding-table"

    def body(self) -> ComposeResult:
        yield Static(id="paste-title", markup=False)
        yield TextArea(id="paste", tab_behavior="focus")
        yield Static(id="explain-verdict", markup=False)
        yield Findings(self.lang)

    def on_mount(self) -> None:
        super().on_mount()
        self.action_find()

    def relabel(self) -> None:
        super().relabel()
        self.query_one("#paste-title", Static).update(say("paste", self.lang))

    def action_find(self) -> None:
        self.set_focus(self.query_one("#paste"))

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        if event.text_area.text.strip():
            self.diagnose(event.text_area.text)

    @work(thread=True, exclusive=True)
    def diagnose(self, text: str) -> None:
        try:
            report = self.doctor.services.explain(text)
        except UsageError as error:
            self.app.call_from_thread(self._say, error.line(self.lang))
            return
        self.app.call_from_thread(self._show, report)

    def _say(self, line: str) -> None:
        self.query_one("#explain-verdict", Static).update(line)

    def _show(self, report: Report) -> None:
        lines = [verdict(report).pick(self.lang)]
        lines += [f"{item.what.pick(self.lang)}: $ {item.command}" for item in report.collect[:3]]
        if not report.findings:
            lines += [text.pick(self.lang) for text in report.headline[:6]]
        self._say("\n".join(lines))
        self.query_one(Findings).show(report.findings, self.lang)
