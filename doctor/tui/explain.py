"""Explain: what is pasted is diagnosed as it is typed."""

from __future__ import annotations

from typing import Optional

from textual import work
from textual.app import ComposeResult
from textual.events import Paste
from textual.widgets import Static, TextArea

from doctor.errors import UsageError
from doctor.report.model import Report
from doctor.report.text import verdict
from doctor.tui.findings import Findings
from doctor.tui.pick import PickScreen
from doctor.tui.screens import DoctorScreen
from doctor.tui.words import say


class ExplainScreen(DoctorScreen):
    where = "explain"
    home = "#finding-table"
    first = "#paste"

    def body(self) -> ComposeResult:
        yield Static(id="paste-title", markup=False)
        yield TextArea(id="paste", tab_behavior="focus")
        yield Static(id="explain-verdict", markup=False)
        yield Findings(self.lang)

    def relabel(self) -> None:
        super().relabel()
        self.query_one("#paste-title", Static).update(say("paste", self.lang))

    def action_find(self) -> None:
        self.set_focus(self.query_one("#paste"))

    def action_open(self) -> None:
        self.app.push_screen(PickScreen(self.lang, self.doctor.unicode, folders=True), self._picked)

    def _picked(self, path: Optional[str]) -> None:
        if path:
            self.query_one("#paste", TextArea).text = path

    def on_paste(self, event: Paste) -> None:
        """What is pasted while something else has the focus is meant for the text all the same."""
        area = self.query_one("#paste", TextArea)
        if self.focused is not area:
            area.text = event.text
            event.stop()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        if event.text_area.text.strip():
            self.diagnose(event.text_area.text)

    @work(thread=True, exit_on_error=False, exclusive=True)
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
