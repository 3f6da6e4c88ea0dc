"""Home: the verdict on this machine, the runs found here, and where to go."""

from __future__ import annotations

from textual import work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import OptionList, Static

from doctor.errors import UsageError
from doctor.report.text import render
from doctor.tui.screens import DoctorScreen
from doctor.tui.words import say


class HomeScreen(DoctorScreen):
    where = "home"
    home = "#home-scroll"

    def body(self) -> ComposeResult:
        with VerticalScroll(id="home-scroll", can_focus=True):
            yield Static(id="machine", markup=False)
            yield Static(id="next", markup=False)
            yield Static(id="recent-title", markup=False)
            yield OptionList(id="recent", markup=False)

    def on_mount(self) -> None:
        self.look()

    def relabel(self) -> None:
        super().relabel()
        machine = self.query_one("#machine", Static)
        machine.border_title = say("machine", self.lang)
        steps = self.query_one("#next", Static)
        steps.border_title = say("next", self.lang)
        steps.update(say("next_steps", self.lang))
        runs = self.doctor.services.recent()
        self.query_one("#recent-title", Static).update("" if runs else say("no_runs", self.lang))
        recent = self.query_one("#recent", OptionList)
        recent.clear_options()
        recent.add_options(runs)
        recent.border_title = say("recent", self.lang)
        recent.display = bool(runs)
        self.query_one("#recent-title").display = not runs
        if runs and self.is_current and self.focused is not recent:
            recent.highlighted = 0
            self.set_focus(recent)

    @work(thread=True, exit_on_error=False, exclusive=True)
    def look(self) -> None:
        """Checks the machine beside the screen: probes may take seconds."""
        self.app.call_from_thread(self._say, say("checking", self.lang))
        try:
            report = self.doctor.services.check([])
            lines = "\n".join(render(report, self.lang, width=76))
        except UsageError as error:
            lines = error.line(self.lang)
        self.app.call_from_thread(self._say, lines)

    def _say(self, lines: str) -> None:
        self.query_one("#machine", Static).update(lines)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.doctor.watch_paths([str(event.option.prompt)])
