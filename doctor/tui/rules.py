"""Rules: all of them, searched by id, name or words, in both languages."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import DataTable, Input, Static

from doctor.rule import Rule
from doctor.tui.screens import DoctorScreen
from doctor.tui.words import say


class RulesScreen(DoctorScreen):
    where = "rules"
    home = "#rule-table"

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[Rule] = []
        self.all: list[Rule] = []

    def body(self) -> ComposeResult:
        yield Input(id="rule-search", placeholder=say("search", self.lang))
        with Horizontal():
            table: DataTable[str] = DataTable(cursor_type="row", id="rule-table")
            yield table
            with VerticalScroll():
                yield Static(id="rule-detail", markup=False)

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(DataTable).add_columns("rule", "name")
        self.all = sorted(self.doctor.services.rules(), key=lambda rule: rule.id)
        self._list("")

    def relabel(self) -> None:
        super().relabel()
        self.query_one("#rule-search", Input).placeholder = say("search", self.lang)
        self._open(self.query_one(DataTable).cursor_row)

    def action_find(self) -> None:
        self.set_focus(self.query_one("#rule-search"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.action_leave_text()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._list(event.value)

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        self._open(event.cursor_row)

    def _list(self, wanted: str) -> None:
        words = wanted.lower().split()
        self.shown = [rule for rule in self.all if all(word in _haystack(rule) for word in words)]
        table = self.query_one(DataTable)
        table.clear()
        for rule in self.shown:
            table.add_row(rule.id, rule.name)
        self._open(0)

    def _open(self, row: int) -> None:
        detail = self.query_one("#rule-detail", Static)
        if not 0 <= row < len(self.shown):
            detail.update("")
            return
        rule = self.shown[row]
        parts = [f"{rule.id}  {rule.severity.value}  {rule.category}"]
        for lang in (self.lang, "en" if self.lang == "zh" else "zh"):
            parts += ["", rule.title.pick(lang), rule.why.pick(lang), "-> " + rule.fix.pick(lang)]
        if rule.verify:
            parts += ["", f"$ {rule.verify}"]
        detail.update("\n".join(parts))


def _haystack(rule: Rule) -> str:
    return " ".join((rule.id, rule.name, rule.category, rule.title.en, rule.title.zh, rule.why.en, rule.why.zh)).lower()
