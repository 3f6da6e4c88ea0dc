"""Asks before a file is edited: the diff of one way to do it, the other ways a key away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Optional

from rich.text import Text as Styled
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from doctor.escape import visible
from doctor.tui.services import Choice
from doctor.tui.words import say


class PatchScreen(ModalScreen[Optional[Choice]]):
    """Gives the choice that was consented to, else None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("y", "yes", ""),
        ("n,escape,q", "no", ""),
        ("right,space", "turn(1)", ""),
        ("left", "turn(-1)", ""),
    ]

    def __init__(self, choices: Sequence[Choice], lang: str) -> None:
        super().__init__()
        self.choices = tuple(choices)
        self.at = 0
        self.lang = lang

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="patch"):
            yield Static(id="patch-choice", markup=False)
            yield Static(id="diff", markup=False)
            with Horizontal(id="patch-buttons"):
                yield Button(say("yes", self.lang), id="yes", variant="primary")
                yield Button(say("no", self.lang), id="no")

    def on_mount(self) -> None:
        self._show()
        self.query_one("#patch").focus()

    def action_turn(self, by: int) -> None:
        self.at = (self.at + by) % len(self.choices)
        self._show()

    def _show(self) -> None:
        choice = self.choices[self.at]
        text = Styled(say("fix_question", self.lang) + "\n")
        if len(self.choices) > 1:
            text.append(say("fix_choice", self.lang, at=self.at + 1, count=len(self.choices)) + " ", "bold yellow")
        text.append(visible(choice.label.pick(self.lang), 300), "bold")
        self.query_one("#patch-choice", Static).update(text)
        self.query_one("#diff", Static).update(coloured(choice.diff))

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(self.choices[self.at] if event.button.id == "yes" else None)

    def action_yes(self) -> None:
        self.dismiss(self.choices[self.at])

    def action_no(self) -> None:
        self.dismiss(None)


def coloured(diff: str) -> Styled:
    """A diff as people know it: what goes in red, what comes in green."""
    text = Styled()
    for line in diff.splitlines():
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        text.append(visible(line) + "\n", "bold" if line.startswith(("+++", "---")) else style)
    return text
