"""A table of findings with the chosen one opened beside it: evidence, explanation, fix, and the file it points into."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Optional

from rich.cells import chop_cells
from rich.text import Text as Styled
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from doctor.escape import visible
from doctor.finding import Evidence, Finding
from doctor.report.text import finding_lines, place
from doctor.tui.excerpt import Line, excerpt
from doctor.tui.screens import THREE, TWO, title
from doctor.tui.words import say

STYLE = {"fatal": "bold red", "error": "red", "warning": "yellow", "info": "cyan"}
SIGN = {"fatal": "X", "error": "x", "warning": "!", "info": "i"}
#: rows of the table; a run can open more findings than anyone reads
MOST = 500
#: lines on either side of the evidence, beside the finding and in a window of their own
NEAR, FAR = 12, 400


class Findings(Horizontal):
    """`show` replaces what is listed and keeps the selection where it was."""

    DEFAULT_CSS = """
    Findings { height: 1fr; }
    Findings.empty { display: none; }
    Findings #finding-table { width: 2fr; height: 1fr; max-height: 100%; border: none; padding: 0; background: transparent; }
    Findings #finding-side { width: 3fr; height: 1fr; border-left: solid $primary; }
    Findings #finding-scroll { height: 3fr; padding: 0 1; }
    Findings #finding-source { height: 2fr; border-top: solid $primary; padding: 0 1; }
    Findings.wide #finding-side { layout: horizontal; width: 6fr; }
    Findings.wide #finding-scroll { width: 1fr; height: 1fr; }
    Findings.wide #finding-source { width: 1fr; height: 1fr; border-top: none; border-left: solid $primary; }
    Findings.narrow { layout: vertical; }
    Findings.narrow #finding-table { width: 1fr; height: 2fr; }
    Findings.narrow #finding-side { width: 1fr; height: 3fr; border-left: none; border-top: solid $primary; }
    Findings.narrow #finding-source { display: none; }
    """

    def __init__(self, lang: str, id: str = "findings") -> None:
        super().__init__(id=id, classes="empty")
        self.lang = lang
        self.findings: tuple[Finding, ...] = ()
        self.opened: Optional[Finding] = None

    def compose(self) -> ComposeResult:
        yield OptionList(id="finding-table", markup=False)
        with Vertical(id="finding-side"):
            with VerticalScroll(id="finding-scroll", can_focus=True):
                yield Static(id="finding-detail", markup=False)
            yield Static(id="finding-source", markup=False)

    def on_mount(self) -> None:
        self.on_resize()

    def on_resize(self) -> None:
        width = self.app.size.width
        self.set_class(width < TWO, "narrow")
        self.set_class(width >= THREE, "wide")
        self.call_after_refresh(self._open, self.opened)

    def show(self, findings: Sequence[Finding], lang: str) -> None:
        shown = tuple(findings[:MOST])
        if shown == self.findings and lang == self.lang and shown:
            return
        self.lang = lang
        table = self.query_one("#finding-table", OptionList)
        row = min(table.highlighted or 0, len(shown) - 1)
        self.findings = shown
        table.clear_options()
        table.add_options([_listed(finding, lang) for finding in shown])
        if len(findings) > MOST:
            table.add_option(Option(Styled(say("more", lang, count=len(findings) - MOST), "dim"), disabled=True))
        table.highlighted = row if row >= 0 else None
        self.set_class(not shown, "empty")
        if shown and self.screen.focused is None:
            self.call_after_refresh(self.screen.set_focus, table)
        self._open(shown[row] if row >= 0 else None)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if event.option_index < len(self.findings):
            self._open(self.findings[event.option_index])

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.open_evidence()

    def open_evidence(self) -> None:
        """The file of the chosen finding in a window, at the line of its evidence."""
        places = [item for item in self.opened.evidence if _in_file(item)] if self.opened is not None else []
        if places:
            self.app.push_screen(ExcerptScreen(places, self.lang))
        else:
            self.notify(say("no_evidence", self.lang), markup=False)

    def _open(self, finding: Optional[Finding]) -> None:
        detail, source = self.query_one("#finding-detail", Static), self.query_one("#finding-source", Static)
        changed = finding != self.opened
        self.opened = finding
        if finding is None:
            detail.update("")
            source.display = False
            return
        lines = finding_lines(finding, self.lang, width=max(24, (detail.size.width or 60)), verbose=True)
        text = Styled("\n".join(_outdented(line) for line in lines))
        text.stylize(STYLE[finding.severity.value], 0, len(text.plain.split(" ", 1)[0]))
        text.highlight_words([place(item) for item in finding.evidence], "underline")
        detail.update(text)
        if changed:
            self.query_one("#finding-scroll").scroll_home(animate=False)
        item = next((item for item in finding.evidence if _in_file(item)), None)
        source.display = item is not None and self.app.size.width >= TWO
        if item is not None and source.display:
            self.run_worker(partial(self._read, item), thread=True, exclusive=True, group="excerpt")

    def _read(self, item: Evidence) -> None:
        """In a worker: a file may stand on a slow disk."""
        try:
            rows = excerpt(item, NEAR * 2, NEAR * 2)
        except OSError as error:
            why = say("unreadable", self.lang, path=visible(item.source), why=error.strerror or error)
            self.app.call_from_thread(self._show_source, item, [Line(None, why, False)])
            return
        self.app.call_from_thread(self._show_source, item, rows)

    def _show_source(self, item: Evidence, rows: list[Line]) -> None:
        pane = self.query_one("#finding-source", Static)
        pane.display = bool(rows) and self.app.size.width >= TWO
        height = max(3, pane.content_size.height)
        at = next((n for n, row in enumerate(rows) if row.marked), 0)
        # above the middle: the marked line may take several
        first = max(0, min(at - height // 3, len(rows) - height))
        pane.border_title = title(item.source.rsplit("/", 1)[-1], 40)
        pane.update(written(rows[first : first + height], max(10, pane.content_size.width)))


class ExcerptScreen(ModalScreen[None]):
    """A file around a place; `n` goes on to the next one."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,v", "dismiss", ""), ("n", "next", "")]

    def __init__(self, places: Sequence[Evidence], lang: str) -> None:
        super().__init__()
        self.places = tuple(places)
        self.lang = lang
        self.at = 0

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="excerpt"):
            yield Static(id="excerpt-text", markup=False)

    def on_mount(self) -> None:
        window = self.query_one("#excerpt", VerticalScroll)
        window.border_subtitle = say("excerpt_keys", self.lang)
        window.focus()
        self._load()

    def action_next(self) -> None:
        self.at = (self.at + 1) % len(self.places)
        self._load()

    def _load(self) -> None:
        self.run_worker(partial(self._read, self.places[self.at]), thread=True, exclusive=True)

    def _read(self, item: Evidence) -> None:
        try:
            rows = excerpt(item, FAR, FAR)
        except OSError as error:
            rows = [
                Line(None, say("unreadable", self.lang, path=visible(item.source), why=error.strerror or error), False)
            ]
        self.app.call_from_thread(self._show, item, rows)

    def _show(self, item: Evidence, rows: list[Line]) -> None:
        window = self.query_one("#excerpt", VerticalScroll)
        number = f" {self.at + 1}/{len(self.places)}" if len(self.places) > 1 else ""
        window.border_title = title(place(item), 120) + number
        self.query_one("#excerpt-text", Static).update(written(rows, max(20, window.size.width - 1)))
        at = next((n for n, row in enumerate(rows) if row.marked), 0)
        self.call_after_refresh(window.scroll_to, y=max(0, at - window.size.height // 2), animate=False)


def _listed(finding: Finding, lang: str) -> Styled:
    style = STYLE[finding.severity.value]
    return Styled.assemble(
        (SIGN[finding.severity.value], style),
        (f" {finding.rule} ", style if finding.root_cause else "dim"),
        visible(finding.title.pick(lang), 200),
    )


def written(rows: Sequence[Line], width: int) -> Styled:
    """Numbered lines, cut to `width` cells; the marked one is wrapped instead, and stands out without colour too."""
    text = Styled(no_wrap=True)
    digits = max((len(str(row.number)) for row in rows if row.number is not None), default=0)
    for row in rows:
        number = "" if row.number is None else str(row.number)
        body, style = [row.text], "bold yellow" if row.marked else "dim"
        if row.marked:
            body = chop_cells(row.text, max(10, width - digits - 2)) or [""]
        for part, piece in enumerate(body):
            head = f"{'>' if row.marked and not part else ' '}{'' if part else number:>{digits}} "
            line = Styled.assemble((head, style), (piece, "bold reverse" if row.marked else ""))
            line.truncate(width, overflow="ellipsis")
            text.append(line).append("\n")
    text.right_crop(1)
    return text


def _in_file(item: Evidence) -> bool:
    return (item.line is not None or item.offset is not None) and item.kind != "command"


def _outdented(line: str) -> str:
    """Half the indent: a pane is narrower than a terminal."""
    body = line.lstrip(" ")
    return " " * ((len(line) - len(body)) // 2) + body
