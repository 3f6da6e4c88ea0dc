"""A window in which a file or a folder is picked from the disk."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Optional

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import DirectoryTree

from doctor.tui.screens import title
from doctor.tui.words import say


class Tree(DirectoryTree):
    """Without hidden files and without pictures in front of the names: those have two cells in some fonts."""

    ICON_FILE = "  "

    def __init__(self, path: Path, unicode: bool) -> None:
        super().__init__(path, id="pick-tree")
        self.ICON_NODE = "▸ " if unicode else "> "
        self.ICON_NODE_EXPANDED = "▾ " if unicode else "v "

    def filter_paths(self, paths: Iterable[Path]) -> Iterable[Path]:
        return [path for path in paths if not path.name.startswith(".")]


class PickScreen(ModalScreen[Optional[str]]):
    """Gives the path that was picked, relative where it lies below the folder of now; None when nothing was. Enter takes
    a file and opens a folder; `s` takes the folder itself, backspace goes one up."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q", "leave", ""),
        ("backspace", "up", ""),
        ("s", "take", ""),
    ]

    def __init__(self, lang: str, unicode: bool, folders: bool = False) -> None:
        super().__init__()
        self.lang = lang
        self.unicode = unicode
        self.folders = folders

    def compose(self) -> ComposeResult:
        with Vertical(id="pick"):
            yield Tree(Path.cwd(), self.unicode)

    def on_mount(self) -> None:
        self.query_one(Tree).focus()
        self._title()

    def on_directory_tree_file_selected(self, event: DirectoryTree.FileSelected) -> None:
        self._give(event.path)

    def action_take(self) -> None:
        node = self.query_one(Tree).cursor_node
        path = node.data.path if node is not None and node.data is not None else None
        if path is not None and (self.folders or path.is_file()):
            self._give(path)

    def action_up(self) -> None:
        tree = self.query_one(Tree)
        tree.path = Path(tree.path).parent
        self._title()

    def action_leave(self) -> None:
        self.dismiss(None)

    def _title(self) -> None:
        window = self.query_one("#pick")
        window.border_title = title(str(self.query_one(Tree).path), 60)
        window.border_subtitle = say("pick_folder_keys" if self.folders else "pick_keys", self.lang)

    def _give(self, path: Path) -> None:
        here = Path.cwd()
        self.dismiss(str(path.relative_to(here)) if here in path.parents else str(path))
