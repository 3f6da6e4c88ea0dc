"""One table of what can be done: it feeds the key bindings, the bar, the footer, the palette and the help."""

from __future__ import annotations

from dataclasses import dataclass

from textual.binding import Binding
from textual.dom import DOMNode

from doctor.finding import Text
from doctor.tui.words import WORDS


@dataclass(frozen=True)
class Action:
    """`name` is the method action_<name> of the app or of the screen; `where` the screen, empty for everywhere.
    `footer` is False for what the bar above shows."""

    key: str
    name: str
    label: Text
    where: str = ""
    footer: bool = True

    def binding(self, lang: str) -> Binding:
        return Binding(self.key, self.name, self.label.pick(lang), show=self.footer)


#: key and name of each screen, in the order of the bar
ROOMS = (("h", "home"), ("c", "check"), ("w", "watch"), ("e", "explain"), ("t", "train"), ("r", "rules"))

ACTIONS = (
    *(Action(key, f"go('{name}')", WORDS[name], footer=False) for key, name in ROOMS),
    Action("slash", "find", WORDS["target_key"], "check"),
    Action("o", "open", WORDS["open"], "check", footer=False),
    Action("v", "evidence", WORDS["evidence"], "check"),
    Action("f", "fix", WORDS["fix"], "check"),
    Action("x", "filter", WORDS["filter"], "check"),
    Action("m", "memory", WORDS["memory_key"], "check", footer=False),
    Action("g", "again", WORDS["again"], "check"),
    Action("slash", "attach", WORDS["attach"], "watch"),
    Action("o", "open", WORDS["open"], "watch", footer=False),
    Action("v", "evidence", WORDS["evidence"], "watch"),
    Action("m", "next_metric", WORDS["metric"], "watch"),
    Action("n", "next_rank", WORDS["next_rank"], "watch"),
    Action("p", "pause", WORDS["freeze"], "watch"),
    Action("u", "detach", WORDS["detach"], "watch", footer=False),
    Action("slash", "find", WORDS["paste_key"], "explain"),
    Action("o", "open", WORDS["open"], "explain"),
    Action("v", "evidence", WORDS["evidence"], "explain"),
    Action("slash", "find", WORDS["config_key"], "train"),
    Action("o", "open", WORDS["open"], "train", footer=False),
    Action("p", "pause", WORDS["pause"], "train"),
    Action("s", "stop", WORDS["stop"], "train"),
    Action("b", "back", WORDS["back_key"], "train"),
    Action("i", "edit", WORDS["edit_key"], "train"),
    Action("a", "auto_fix", WORDS["auto_fix"], "train", footer=False),
    Action("v", "view", WORDS["watch"], "train"),
    Action("slash", "find", WORDS["search_key"], "rules"),
    Action("l", "switch_language", WORDS["language"]),
    Action("d", "switch_theme", WORDS["theme"], footer=False),
    Action("ctrl+z", "suspend_process", WORDS["suspend"], footer=False),
    Action("f1", "help", WORDS["help"]),
    Action("q", "quit", WORDS["quit"]),
)


def bind(node: DOMNode, where: str, lang: str) -> None:
    """Gives the app (empty name) or a screen its keys, with labels in the language."""
    for action in ACTIONS:
        if action.where == where:
            node._bindings.key_to_bindings[action.key] = [action.binding(lang)]
