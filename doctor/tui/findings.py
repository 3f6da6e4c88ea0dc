"""A table of findings with the chosen one opened beside it: evidence, explanation, fix."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text as Styled
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.message import Message
from textual.widgets import DataTable, Static

from doctor.escape import visible
from doctor.finding import Finding
from doctor.report.text import finding_lines, place
from doctor.tui.words import say

STYLE = {"fatal": "bold red", "error": "red", "warning": "yellow", "info": "cyan"}
SIGN = {"fatal": "X", "error": "x", "warning": "!", "info": "i"}
#: rows of the table; a run can open more findings than anyone reads
MOST = 500


class Findings(Horizontal):
    """`show` replaces what is listed and keeps the selection where it was."""

    DEFAULT_CSS = """
    Findings { height: 1fr; }
    Findings DataTable { width: 2fr; height: 1fr; }
    Findings VerticalScroll { width: 3fr; height: 1fr; padding: 0 1; border-left: solid $primary; }
    Findings.narrow { layout: vertical; }
    Findings.narrow DataTable { width: 1fr; height: 2fr; }
    Findings.narrow VerticalScroll { width: 1fr; height: 3fr; border-left: none; border-top: solid $primary; }
    """

    class Chosen(Message):
        """The finding that is open now."""

        def __init__(self, finding: Finding) -> None:
            super().__init__()
            self.finding = finding

    def __init__(self, lang: str, id: str = "findings") -> None:
        super().__init__(id=id)
        self.lang = lang
        self.findings: tuple[Finding, ...] = ()

    def compose(self) -> ComposeResult:
        table: DataTable[Styled] = DataTable(cursor_type="row", zebra_stripes=False, id="finding-table")
        yield table
        with VerticalScroll():
            yield Static(say("no_findings", self.lang), id="finding-detail", markup=False)

    def on_mount(self) -> None:
        table = self.query_one(DataTable)
        table.add_columns("", "rule", "")
        self.set_class(self.app.size.width < 100, "narrow")

    def on_resize(self) -> None:
        self.set_class(self.app.size.width < 100, "narrow")

    def show(self, findings: Sequence[Finding], lang: str) -> None:
        self.lang = lang
        table = self.query_one(DataTable)
        row = table.cursor_row
        self.findings = tuple(findings[:MOST])
        table.clear()
        for finding in self.findings:
            style = STYLE[finding.severity.value]
            table.add_row(
                Styled(SIGN[finding.severity.value], style),
                Styled(finding.rule, style if finding.root_cause else "dim"),
                Styled(visible(finding.title.pick(lang), 200)),
            )
        if self.findings:
            table.move_cursor(row=min(row, len(self.findings) - 1))
        self._open(min(row, len(self.findings) - 1))

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        self._open(event.cursor_row)

    def _open(self, row: int) -> None:
        detail = self.query_one("#finding-detail", Static)
        if not 0 <= row < len(self.findings):
            detail.update(say("no_findings", self.lang))
            return
        finding = self.findings[row]
        width = max(30, detail.size.width or 60)
        lines = list(finding_lines(finding, self.lang, width=width, verbose=True))
        text = Styled("\n".join(lines))
        text.highlight_words([place(item) for item in finding.evidence], "underline")
        detail.update(text)
        self.post_message(self.Chosen(finding))
