"""The application: screens that keep their state when they are left, one table of actions, two languages."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Optional

from textual.app import App, SystemCommand
from textual.screen import Screen
from textual.widgets import Input, TextArea

from doctor.tui.actions import ACTIONS, bindings
from doctor.tui.check import CheckScreen
from doctor.tui.explain import ExplainScreen
from doctor.tui.home import HomeScreen
from doctor.tui.rules import RulesScreen
from doctor.tui.screens import DoctorScreen
from doctor.tui.services import Services
from doctor.tui.watch import WatchScreen
from doctor.tui.words import say


class DoctorApp(App[None]):
    """`start` is the screen to open first, `paths` what to watch there."""

    CSS = """
    #bar { height: 1; background: $primary; color: $text; padding: 0 1; }
    #machine, #next { border: round $primary; padding: 0 1; height: auto; margin: 0 1; }
    #recent-title { margin: 0 2; }
    #recent { margin: 0 1; height: auto; max-height: 12; }
    #verdict, #explain-verdict, #paste-title, #rank-grid { height: auto; max-height: 8; padding: 0 1; }
    #status { height: 1; padding: 0 1; }
    #plot { border: round $primary; height: 2fr; min-height: 5; }
    #paste { height: 8; }
    #patch { margin: 1 2; padding: 1 2; border: thick $primary; background: $surface; }
    PatchScreen { align: center middle; }
    PatchScreen Horizontal { height: 3; }
    #rule-table { width: 2fr; height: 1fr; }
    #rules VerticalScroll { width: 3fr; padding: 0 1; border-left: solid $primary; }
    """
    TITLE = "doctor"
    ENABLE_COMMAND_PALETTE = True

    def __init__(
        self, services: Services, lang: str, start: str = "home", paths: Optional[Sequence[str]] = None
    ) -> None:
        super().__init__()
        self.services = services
        self.lang = lang
        self.start = start
        self.paths = list(paths or ())
        self.braille = (getattr(sys.stdout, "encoding", "") or "").lower().startswith("utf")
        if os.environ.get("NO_COLOR"):
            self.ansi_color = True
        self.watching = WatchScreen()
        self.rooms: dict[str, DoctorScreen] = {}

    def on_mount(self) -> None:
        for binding in bindings("", self.lang):
            self._bindings.bind(binding.key, binding.action, binding.description)
        made = (HomeScreen(), CheckScreen(), self.watching, ExplainScreen(), RulesScreen())
        self.rooms = {screen.where: screen for screen in made}
        for name, screen in self.rooms.items():
            self.install_screen(screen, name)
        self.push_screen(self.start)
        if self.paths:
            self.watch_paths(self.paths)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette offers the same table as the footer."""
        for action in ACTIONS:
            if action.where in ("", getattr(screen, "where", None)):
                target = self if action.where == "" else screen
                yield SystemCommand(
                    action.label.pick(self.lang),
                    action.key,
                    lambda name=action.name, target=target: self.run_worker(self.run_action(name, target)),
                )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> Optional[bool]:
        """Single letters are text while something is typed."""
        typing = isinstance(self.focused, (Input, TextArea))
        return not (typing and action in {"go", "switch_language"})

    def action_go(self, name: str) -> None:
        """Shows a screen; the others keep what they hold."""
        if self.screen.id != name:
            self.switch_screen(name)

    def watch_paths(self, paths: Sequence[str]) -> None:
        """Follows a run on the watch screen."""
        self.action_go("watch")
        self.call_after_refresh(self.watching.follow, list(paths))

    def action_switch_language(self) -> None:
        self.lang = "en" if self.lang == "zh" else "zh"
        for screen in self.rooms.values():
            if screen.is_mounted:
                screen.relabel()

    def action_help(self) -> None:
        where = getattr(self.screen, "where", "")
        listed = [a for a in ACTIONS if a.where in ("", where)]
        lines = "\n".join(f"{action.key:<4}{action.label.pick(self.lang)}" for action in listed)
        self.notify(lines, title=say("help", self.lang), timeout=10, markup=False)
