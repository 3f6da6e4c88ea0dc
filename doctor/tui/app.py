"""The application: screens that keep their state when they are left, one table of actions, two languages."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Optional

from textual.app import App, SystemCommand
from textual.dom import DOMNode
from textual.filter import LineFilter
from textual.screen import Screen
from textual.widgets import Input, TextArea

from doctor.errors import EXIT_INTERRUPTED
from doctor.terminal import leave_if_gone
from doctor.tui.actions import ACTIONS, bind
from doctor.tui.ascii import Plain, draws
from doctor.tui.check import CheckScreen
from doctor.tui.explain import ExplainScreen
from doctor.tui.home import HomeScreen
from doctor.tui.rules import RulesScreen
from doctor.tui.screens import DoctorScreen, HelpScreen
from doctor.tui.services import Services
from doctor.tui.steering import QuitScreen
from doctor.tui.train import TrainScreen
from doctor.tui.watch import WatchScreen

#: seconds after which all that belongs to the start has been made
STARTED = 2.0
DARK, LIGHT = "textual-dark", "textual-light"


class DoctorApp(App[None]):
    """`start` is the screen to open first, `paths` what to watch there; `unicode` says whether the terminal may be
    sent box characters and braille."""

    CSS_PATH = "doctor.tcss"
    TITLE = "doctor"
    ENABLE_COMMAND_PALETTE = True

    def __init__(
        self,
        services: Services,
        lang: str,
        start: str = "home",
        paths: Optional[Sequence[str]] = None,
        unicode: Optional[bool] = None,
    ) -> None:
        super().__init__()
        self.services = services
        self.lang = lang
        self.start = start
        self.paths = list(paths or ())
        self.unicode = draws() if unicode is None else unicode
        self.watching = WatchScreen()
        self.rooms: dict[str, DoctorScreen] = {}

    def get_line_filters(self) -> Sequence[LineFilter]:
        filters = super().get_line_filters()
        return filters if self.unicode else [*filters, Plain()]

    def on_mount(self) -> None:
        # Only the main thread may: a test, or a server, may run us in another.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            for number in (signal.SIGTERM, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(number, self._ended_from_outside)
        bind(self, "", self.lang)
        made = (HomeScreen(), CheckScreen(), self.watching, ExplainScreen(), TrainScreen(), RulesScreen())
        self.rooms = {screen.where: screen for screen in made}
        for name, screen in self.rooms.items():
            self.install_screen(screen, name)
        self.push_screen(self.start)
        self.set_timer(STARTED, gc.enable)
        if self.paths:
            self.watch_paths(self.paths)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette offers the same table as bar and footer."""
        for action in ACTIONS:
            if action.where in ("", getattr(screen, "where", None)):
                target = self if action.where == "" else screen
                key = {"slash": "/"}.get(action.key, action.key)
                yield SystemCommand(action.label.pick(self.lang), key, partial(self._do, action.name, target))

    def _do(self, name: str, target: DOMNode) -> None:
        self.call_later(self.run_action, name, target)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> Optional[bool]:
        """Single letters are text while something is typed."""
        typing = isinstance(self.focused, (Input, TextArea))
        return not (typing and action in {"go", "switch_language", "switch_theme"})

    async def action_go(self, name: str) -> None:
        """Shows a screen; the others keep what they hold. What is typed next belongs to the screen shown."""
        if isinstance(self.screen, DoctorScreen) and self.screen.id != name:
            await self.switch_screen(name)

    def watch_paths(self, paths: Sequence[str]) -> None:
        """Follows a run on the watch screen."""
        if self.screen is not self.watching:
            self.switch_screen("watch")
        self.call_after_refresh(self.watching.follow, list(paths))

    def action_switch_language(self) -> None:
        self.lang = "en" if self.lang == "zh" else "zh"
        bind(self, "", self.lang)
        for screen in self.rooms.values():
            if screen.is_mounted:
                screen.relabel()

    def action_switch_theme(self) -> None:
        self.theme = LIGHT if self.theme == DARK else DARK

    async def action_quit(self) -> None:
        """A training that was started here is not ended by a key that is pressed in passing."""
        room = self.rooms.get("train")
        if isinstance(room, TrainScreen) and room.running and room.trainee is not None:
            if not isinstance(self.screen, QuitScreen):
                self.push_screen(QuitScreen(str(room.trainee.folder), self.lang), self._quit)
        else:
            self.exit()

    def _ended_from_outside(self) -> None:
        """A closed terminal or a polite kill: as `q`, without a question. A training goes on by itself."""
        leave_if_gone()
        room = self.rooms.get("train")
        if isinstance(room, TrainScreen) and room.running and room.trainee is not None and room.trainee.paused:
            room.trainee.resume()
        self.exit(return_code=EXIT_INTERRUPTED)

    def _quit(self, word: Optional[str]) -> None:
        room = self.rooms["train"]
        if word is None or not isinstance(room, TrainScreen) or room.trainee is None:
            return
        if word == "stop":
            room.trainee.stop()
        elif room.trainee.paused:
            room.trainee.resume()
        self.exit()

    def action_help(self) -> None:
        if isinstance(self.screen, DoctorScreen):
            self.push_screen(HelpScreen(self.screen.where, self.lang))
