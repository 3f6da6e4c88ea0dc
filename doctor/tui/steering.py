"""The windows that ask how a training goes on: from which checkpoint, with which config."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import ClassVar, Optional

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static, TextArea

from doctor.tui.patch import coloured
from doctor.tui.screens import title
from doctor.tui.services import Saved
from doctor.tui.words import say


class BackScreen(ModalScreen[Optional[int]]):
    """Gives the step of the checkpoint that was chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q", "leave", "")]

    def __init__(self, saved: Sequence[Saved], lang: str) -> None:
        super().__init__()
        self.saved = tuple(reversed(saved))
        self.lang = lang

    def compose(self) -> ComposeResult:
        with Vertical(id="back"):
            yield Static(say("back_warning", self.lang), markup=False)
            yield OptionList(*(self._line(item) for item in self.saved), id="back-steps", markup=False)

    def on_mount(self) -> None:
        window = self.query_one("#back")
        window.border_title = say("back", self.lang)
        window.border_subtitle = say("back_keys", self.lang)
        steps = self.query_one("#back-steps", OptionList)
        # Enter alone must not bring the fault back that one flees from
        steps.highlighted = next((row for row, item in enumerate(self.saved) if item.sound), 0)
        steps.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self.saved[event.option_index].step)

    def action_leave(self) -> None:
        self.dismiss(None)

    def _line(self, item: Saved) -> str:
        mark = "" if item.sound else f"  {say('not_sound', self.lang)}"
        return f"{say('step', self.lang, at=item.step)}  {item.when}{mark}"


class EditScreen(ModalScreen[Optional[str]]):
    """An editor for the config; gives the text that the run is to go on with. ctrl+s shows what was changed and asks, a
    second ctrl+s consents."""

    # before the text takes it: an editor in which Tab indents would only move the focus
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "", priority=True), ("ctrl+s", "save", "")]

    def __init__(self, path: str, text: str, lang: str, begun: Optional[str] = None) -> None:
        super().__init__()
        self.path = path
        self.text = text
        #: what had been made of the text before
        self.begun = text if begun is None else begun
        self.lang = lang
        self.asked = False

    def compose(self) -> ComposeResult:
        with Vertical(id="edit"):
            yield TextArea(self.begun, id="edit-text", show_line_numbers=True, tab_behavior="indent")
            yield Static(id="edit-diff", markup=False)

    def on_mount(self) -> None:
        window = self.query_one("#edit")
        window.border_title = title(self.path, 100)
        self.query_one("#edit-text").focus()
        self._title()

    def action_save(self) -> None:
        new = self.query_one("#edit-text", TextArea).text
        if self.asked:
            self.dismiss(new)
            return
        lines = difflib.unified_diff(self.text.splitlines(), new.splitlines(), self.path, self.path, n=1, lineterm="")
        diff = "\n".join(lines)
        if not diff:
            self.notify(say("edit_none", self.lang), markup=False)
            return
        self.asked = True
        self.query_one("#edit-diff", Static).update(coloured(diff))
        self._title()

    def on_text_area_changed(self) -> None:
        """What is changed after the question is asked anew."""
        if self.asked and self.query_one("#edit-text", TextArea).has_focus:
            self.asked = False
            self._title()

    def action_leave(self) -> None:
        if self.asked:
            self.asked = False
            self._title()
        else:
            self.dismiss(None)

    def _title(self) -> None:
        self.query_one("#edit-diff").display = self.asked
        self.query_one("#edit").border_subtitle = say("edit_question" if self.asked else "edit_keys", self.lang)


class QuitScreen(ModalScreen[Optional[str]]):
    """A training is going on: gives stop or keep, None when the screen stays."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("s", "choose('stop')", ""),
        ("k", "choose('keep')", ""),
        ("escape,q", "choose('')", ""),
    ]

    def __init__(self, folder: str, lang: str) -> None:
        super().__init__()
        self.folder = folder
        self.lang = lang

    def compose(self) -> ComposeResult:
        with Vertical(id="quit"):
            yield Static(say("quit_question", self.lang, folder=self.folder), markup=False)

    def action_choose(self, word: str) -> None:
        self.dismiss(word or None)
