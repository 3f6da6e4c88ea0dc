"""What all screens share: the bar above, the footer below, and words that change with the language."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Optional, cast

from rich.text import Text as Styled
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.markup import escape
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Footer, Static
from textual.worker import Worker, WorkerState

from doctor.escape import visible
from doctor.finding import Text
from doctor.tui.actions import ACTIONS, ROOMS, bind
from doctor.tui.words import WORDS, say

if TYPE_CHECKING:
    from doctor.tui.app import DoctorApp

#: below this a terminal shows a sentence instead of a screen
LEAST = (40, 10)
#: widths from which two and three columns stand side by side
TWO, THREE = 100, 150


class DoctorScreen(Screen[None]):
    """A screen with a name in the table of actions. Subclasses compose their `body`; `home` is the selector of what
    has the focus when no text is typed, `first` of what has it when the screen is first shown (empty: the same).

    Textual calls `on_mount` of every class, the subclass first: no subclass calls this one's."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave_text", "")]
    where = ""
    home = ""
    first = ""

    def __init__(self) -> None:
        super().__init__(id=self.where)
        #: the language of the words that stand on the screen
        self.said = ""

    @property
    def doctor(self) -> DoctorApp:
        return cast("DoctorApp", self.app)

    @property
    def lang(self) -> str:
        return self.doctor.lang

    def compose(self) -> ComposeResult:
        yield Static(id="too-small", markup=False)
        yield Static(id="bar")
        yield from self.body()
        yield Footer(show_command_palette=False)

    def body(self) -> ComposeResult:
        yield from ()

    def on_mount(self) -> None:
        self.relabel()
        self.action_leave_text()
        if self.first:
            self.set_focus(self.query_one(self.first))

    def on_screen_resume(self) -> None:
        self.relabel()

    def on_resize(self) -> None:
        size = self.app.size
        self.set_class(size.width < LEAST[0] or size.height < LEAST[1], "tiny")
        self.set_class(size.width < TWO, "narrow")

    def relabel(self) -> None:
        """Writes the words of the screen again, in the language of now."""
        if self.said != self.lang:  # a footer is taken apart and made again, which costs more than all the rest
            self.said = self.lang
            bind(self, self.where, self.lang)
            self.refresh_bindings()
        self.query_one("#too-small", Static).update(say("too_small", self.lang))
        bar = Styled(no_wrap=True)
        for key, name in ROOMS:
            bar.append(f" {key} ", "bold")
            word = say(name, self.lang)
            bar.append(*((f"[{word}]", "bold reverse") if name == self.where else (word, "")))
            bar.append(" ")
        self.query_one("#bar", Static).update(bar)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A bug of ours is said in a line; the screen stays, and the other screens with it."""
        error = event.worker.error
        if event.state is WorkerState.ERROR and error is not None:
            told = visible(f"{type(error).__name__}: {error}", 200)
            self.tell(WORDS["bug"].format(error=told), error=True)

    def action_leave_text(self) -> None:
        found: Optional[Widget] = self.query_one(self.home) if self.home else None
        self.set_focus(found)

    def tell(self, text: Text, error: bool = False) -> None:
        """A message that goes away by itself."""
        self.notify(text.pick(self.lang), severity="error" if error else "information", markup=False)


def title(text: str, limit: int = 0) -> str:
    """A text from outside as the title of a frame: titles are read as markup, and brackets are part of a name."""
    return escape(visible(text, limit))


class TextScreen(ModalScreen[None]):
    """What a command says, in a window."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,enter", "dismiss", "")]

    def __init__(self, heading: str, text: str) -> None:
        super().__init__()
        self.heading = heading
        self.text = text

    def compose(self) -> ComposeResult:
        window = VerticalScroll(Static(self.text, markup=False), id="text")
        window.border_title = self.heading
        yield window


class HelpScreen(ModalScreen[None]):
    """Every key that works on the screen below."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,f1,enter", "dismiss", "")]

    def __init__(self, where: str, lang: str) -> None:
        super().__init__()
        self.where = where
        self.lang = lang

    def compose(self) -> ComposeResult:
        text = Styled()
        for title, where in (("here", self.where), ("everywhere", "")):
            listed = [action for action in ACTIONS if action.where == where]
            if not listed:
                continue
            text.append(say(title, self.lang) + "\n", "bold")
            for action in listed:
                key = {"slash": "/"}.get(action.key, action.key)
                text.append(f"  {key:<7}", "bold cyan").append(action.label.pick(self.lang) + "\n")
        text.append("\n" + say("help_more", self.lang))
        window = VerticalScroll(Static(text), id="help")
        window.border_title = say("help", self.lang)
        yield window
