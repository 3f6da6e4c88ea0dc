"""Check: a target judged, its findings opened, its edits shown as a diff and applied with consent."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Optional

from textual import work
from textual.app import ComposeResult
from textual.widgets import Input, Static

from doctor.errors import UsageError
from doctor.escape import visible
from doctor.finding import Finding, Severity, Text
from doctor.report.model import Report
from doctor.report.text import render, verdict
from doctor.tui.findings import Findings
from doctor.tui.patch import PatchScreen
from doctor.tui.pick import PickScreen
from doctor.tui.screens import DoctorScreen, TextScreen
from doctor.tui.services import Choice
from doctor.tui.words import WORDS, say

#: how the filter is told
SHOWN = {Severity.WARNING: "from_warning", Severity.ERROR: "from_error"}


class CheckScreen(DoctorScreen):
    where = "check"
    home = "#finding-table"

    def __init__(self) -> None:
        super().__init__()
        self.report: Optional[Report] = None
        #: what is shown, from this severity on
        self.least = Severity.INFO

    def body(self) -> ComposeResult:
        yield Input(id="target", placeholder=say("target", self.lang))
        yield Static(id="verdict", markup=False)
        yield Findings(self.lang)

    def relabel(self) -> None:
        super().relabel()
        self.query_one("#target", Input).placeholder = say("target", self.lang)
        if self.report is not None:
            self._show(self.report)
        else:
            self._say(say("check_hint", self.lang))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.judge(_targets(event.value))
        self.action_leave_text()

    def action_find(self) -> None:
        self.set_focus(self.query_one("#target"))

    def action_open(self) -> None:
        self.app.push_screen(PickScreen(self.lang, self.doctor.unicode, folders=True), self._picked)

    def _picked(self, path: Optional[str]) -> None:
        if path:
            self.query_one("#target", Input).value = path
            self.action_again()

    def action_evidence(self) -> None:
        self.query_one(Findings).open_evidence()

    def action_again(self) -> None:
        self.judge(_targets(self.query_one("#target", Input).value))

    def action_filter(self) -> None:
        """Everything, then from warnings on, then errors only."""
        self.least = {Severity.INFO: Severity.WARNING, Severity.WARNING: Severity.ERROR}.get(self.least, Severity.INFO)
        if self.report is not None:
            self._show(self.report)

    @work(thread=True, exit_on_error=False, exclusive=True)
    def judge(self, targets: list[str]) -> None:
        self.app.call_from_thread(self._say, say("checking", self.lang))
        try:
            report = self.doctor.services.check(targets)
        except UsageError as error:
            self.app.call_from_thread(self._say, error.line(self.lang))
            return
        self.app.call_from_thread(self._show, report)

    def _say(self, line: str) -> None:
        self.query_one("#verdict", Static).update(line)

    def _show(self, report: Report) -> None:
        self.report = report
        shown = [finding for finding in report.findings if finding.severity.at_least(self.least)]
        lines = [text.pick(self.lang) for text in (verdict(report), *report.headline[:2])]
        if self.least is not Severity.INFO:
            lines[0] += f"  [{say(SHOWN[self.least], self.lang)}]"
        self._say("\n".join(visible(line) for line in lines))
        self.query_one(Findings).show(shown, self.lang)

    def action_memory(self) -> None:
        targets = _targets(self.query_one("#target", Input).value)
        if targets:
            self.weigh(targets[0])
        else:
            self.tell(WORDS["no_config"])

    @work(thread=True, exit_on_error=False, exclusive=True, group="weigh")
    def weigh(self, config: str) -> None:
        try:
            report = self.doctor.services.estimate(config)
        except UsageError as error:
            self.app.call_from_thread(self.tell, Text(error.line("en"), error.line("zh")), error=True)
            return
        lines = "\n".join(render(report, self.lang, width=76))
        self.app.call_from_thread(self.app.push_screen, TextScreen(say("memory_key", self.lang), lines))

    def action_fix(self) -> None:
        if self.report is None:
            self.tell(WORDS["fix_none"])
        else:
            self.propose(self.report, self.query_one(Findings).opened)

    @work(thread=True, exit_on_error=False, exclusive=True, group="propose")
    def propose(self, report: Report, chosen: Optional[Finding]) -> None:
        """In a worker: each fix of many is judged before the next."""
        try:
            choices = self.doctor.services.fixes(report, chosen)
        except UsageError as error:
            self.app.call_from_thread(self.tell, Text(error.line("en"), error.line("zh")), error=True)
            return
        self.app.call_from_thread(self._ask, choices)

    def _ask(self, choices: list[Choice]) -> None:
        if not choices:
            self.tell(WORDS["fix_none"])
        elif self.is_current:
            self.app.push_screen(PatchScreen(choices, self.lang), self._answered)

    def _answered(self, choice: Optional[Choice]) -> None:
        if choice is None:
            return
        try:
            for patch in choice.patches:
                patch.apply()
        except UsageError as error:
            self.tell(Text(error.line("en"), error.line("zh")), error=True)
            return
        self.tell(WORDS["fixed"])
        self.action_again()


def _targets(words: str) -> list[str]:
    """One path, blanks and all, when there is such a file; else several, as a shell would read them."""
    words = words.strip()
    if not words or Path(words).exists():
        return [words] if words else []
    try:
        return shlex.split(words)
    except ValueError:
        return [words]
