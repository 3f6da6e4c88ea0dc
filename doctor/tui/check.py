"""Check: a target judged, its findings opened, its edits shown as a diff and applied with consent."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import ClassVar, Optional

from rich.text import Text as Styled
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from doctor.errors import UsageError
from doctor.escape import visible
from doctor.finding import Severity, Text
from doctor.report.model import Report
from doctor.report.text import verdict
from doctor.tui.findings import Findings
from doctor.tui.screens import DoctorScreen
from doctor.tui.services import FilePatch
from doctor.tui.words import WORDS, say


class CheckScreen(DoctorScreen):
    where = "check"
    home = "#finding-table"

    def __init__(self) -> None:
        super().__init__()
        self.report: Optional[Report] = None
        self.errors_only = False

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

    def action_evidence(self) -> None:
        self.query_one(Findings).open_evidence()

    def action_again(self) -> None:
        self.judge(_targets(self.query_one("#target", Input).value))

    def action_filter(self) -> None:
        self.errors_only = not self.errors_only
        if self.report is not None:
            self._show(self.report)

    @work(thread=True, exclusive=True)
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
        shown = [f for f in report.findings if not self.errors_only or f.severity.at_least(Severity.ERROR)]
        self._say("\n".join(visible(text.pick(self.lang)) for text in (verdict(report), *report.headline[:2])))
        self.query_one(Findings).show(shown, self.lang)

    def action_fix(self) -> None:
        patches = self.doctor.services.patches(self.report) if self.report is not None else []
        if not patches:
            self.tell(WORDS["fix_none"])
            return
        self.app.push_screen(PatchScreen(patches, self.lang), self._answered)

    def _answered(self, patches: Optional[list[FilePatch]]) -> None:
        if not patches:
            return
        try:
            for patch in patches:
                patch.apply()
        except UsageError as error:
            self.tell(Text(error.line("en"), error.line("zh")), error=True)
            return
        self.tell(WORDS["fixed"])
        self.action_again()


class PatchScreen(ModalScreen[Optional[list[FilePatch]]]):
    """Shows the diff and asks. Gives the patches when the answer is yes, else None."""

    BINDINGS: ClassVar[list[BindingType]] = [("y", "yes", "y"), ("n", "no", "n"), ("escape", "no", "n")]

    def __init__(self, patches: list[FilePatch], lang: str) -> None:
        super().__init__()
        self.patches = patches
        self.lang = lang

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="patch"):
            yield Static(say("fix_question", self.lang), markup=False)
            yield Static(coloured("\n".join(patch.diff for patch in self.patches)), id="diff", markup=False)
            with Horizontal(id="patch-buttons"):
                yield Button(say("yes", self.lang), id="yes", variant="primary")
                yield Button(say("no", self.lang), id="no")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(self.patches if event.button.id == "yes" else None)

    def action_yes(self) -> None:
        self.dismiss(self.patches)

    def action_no(self) -> None:
        self.dismiss(None)


def _targets(words: str) -> list[str]:
    """One path, blanks and all, when there is such a file; else several, as a shell would read them."""
    words = words.strip()
    if not words or Path(words).exists():
        return [words] if words else []
    try:
        return shlex.split(words)
    except ValueError:
        return [words]


def coloured(diff: str) -> Styled:
    """A diff as people know it: what goes in red, what comes in green."""
    text = Styled()
    for line in diff.splitlines():
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        text.append(visible(line) + "\n", "bold" if line.startswith(("+++", "---")) else style)
    return text
