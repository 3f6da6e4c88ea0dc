"""One table of what can be done: it feeds the key bindings, the footer, the palette and the help."""

from __future__ import annotations

from dataclasses import dataclass

from textual.binding import Binding

from doctor.finding import Text
from doctor.tui.words import WORDS


@dataclass(frozen=True)
class Action:
    """`name` is the method action_<name> of the app or of the screen; `where` the screen, empty for everywhere."""

    key: str
    name: str
    label: Text
    where: str = ""

    def binding(self, lang: str) -> Binding:
        return Binding(self.key, self.name, self.label.pick(lang), show=True)


ACTIONS = (
    Action("h", "go('home')", WORDS["home"]),
    Action("c", "go('check')", WORDS["check"]),
    Action("w", "go('watch')", WORDS["watch"]),
    Action("e", "go('explain')", WORDS["explain"]),
    Action("r", "go('rules')", WORDS["rules"]),
    Action("l", "switch_language", WORDS["language"]),
    Action("f1", "help", WORDS["help"]),
    Action("q", "quit", WORDS["quit"]),
    Action("f", "fix", WORDS["fix"], "check"),
    Action("x", "filter", WORDS["filter"], "check"),
    Action("g", "again", WORDS["again"], "check"),
    Action("m", "next_metric", WORDS["metric"], "watch"),
    Action("p", "pause", WORDS["pause"], "watch"),
    Action("o", "attach", WORDS["attach"], "watch"),
)


def bindings(where: str, lang: str) -> list[Binding]:
    """The bindings of a screen (or of the app with an empty name) in the language."""
    return [action.binding(lang) for action in ACTIONS if action.where == where]
