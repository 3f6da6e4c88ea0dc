"""What all screens share: the bar above, the footer below, and words that change with the language."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Footer, Static

from doctor.finding import Text
from doctor.tui.actions import bindings
from doctor.tui.words import say

if TYPE_CHECKING:
    from doctor.tui.app import DoctorApp


class DoctorScreen(Screen[None]):
    """A screen with a name in the table of actions. Subclasses compose their `body`."""

    where = ""

    def __init__(self) -> None:
        super().__init__(id=self.where)

    @property
    def doctor(self) -> DoctorApp:
        return cast("DoctorApp", self.app)

    @property
    def lang(self) -> str:
        return self.doctor.lang

    def compose(self) -> ComposeResult:
        yield Static(id="bar", markup=False)
        yield from self.body()
        yield Footer(show_command_palette=False)

    def body(self) -> ComposeResult:
        yield from ()

    def on_mount(self) -> None:
        for binding in bindings(self.where, self.lang):
            self._bindings.bind(binding.key, binding.action, binding.description)
        self.relabel()

    def on_screen_resume(self) -> None:
        self.relabel()

    def relabel(self) -> None:
        """Writes the words of the screen again, in the language of now."""
        tabs = "  ".join(
            f"[{say(name, self.lang)}]" if name == self.where else say(name, self.lang)
            for name in ("home", "check", "watch", "explain", "rules")
        )
        self.query_one("#bar", Static).update(tabs)

    def tell(self, text: Text, error: bool = False) -> None:
        """A message that goes away by itself."""
        self.notify(text.pick(self.lang), severity="error" if error else "information", markup=False)
