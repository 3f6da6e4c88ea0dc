"""Rules: all of them, searched by id, name or words, in both languages."""

from __future__ import annotations

from rich.text import Text as Styled
from textual import work
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Input, OptionList, Static

from doctor.escape import visible
from doctor.report.text import word
from doctor.rule import Rule
from doctor.tui.findings import SIGN, STYLE
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
        with Horizontal(id="rules-body"):
            yield OptionList(id="rule-table", markup=False)
            with VerticalScroll(id="rules-side"):
                yield Static(id="rule-detail", markup=False)

    def on_mount(self) -> None:
        self.load()

    @work(thread=True, exit_on_error=False)
    def load(self) -> None:
        """In a worker: the rules come from some hundred files."""
        rules = sorted(self.doctor.services.rules(), key=lambda rule: rule.id)
        self.app.call_from_thread(self._have, rules)

    def _have(self, rules: list[Rule]) -> None:
        self.all = rules
        self._list(self.query_one("#rule-search", Input).value)

    def relabel(self) -> None:
        super().relabel()
        box = self.query_one("#rule-search", Input)
        box.placeholder = say("search", self.lang)
        self._list(box.value, self.query_one("#rule-table", OptionList).highlighted or 0)

    def action_find(self) -> None:
        self.set_focus(self.query_one("#rule-search"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.action_leave_text()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._list(event.value)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self._open(event.option_index)

    def _list(self, wanted: str, at: int = 0) -> None:
        words = wanted.lower().split()
        self.shown = [rule for rule in self.all if all(part in _haystack(rule) for part in words)]
        table = self.query_one("#rule-table", OptionList)
        table.clear_options()
        table.add_options([_listed(rule, self.lang) for rule in self.shown])
        table.highlighted = min(at, len(self.shown) - 1) if self.shown else None
        self._open(at)

    def _open(self, row: int) -> None:
        detail = self.query_one("#rule-detail", Static)
        if not 0 <= row < len(self.shown):
            detail.update(say("no_rules" if self.all else "loading", self.lang))
            return
        rule = self.shown[row]
        text = Styled(f"{rule.id}  {rule.name}\n", "bold")
        text.append(f"{word(rule.severity.value, self.lang)}  {rule.category}\n", STYLE[rule.severity.value])
        for lang in (self.lang, "en" if self.lang == "zh" else "zh"):
            text.append("\n" + rule.title.pick(lang) + "\n", "bold")
            text.append(rule.why.pick(lang) + "\n")
            text.append(say("rule_fix", lang) + rule.fix.pick(lang) + "\n")
        if rule.verify:
            text.append(f"\n$ {rule.verify}\n")
        detail.update(text)


def _listed(rule: Rule, lang: str) -> Styled:
    style = STYLE[rule.severity.value]
    return Styled.assemble(
        (SIGN[rule.severity.value], style), (f" {rule.id} ", style), visible(rule.title.pick(lang), 200)
    )


def _haystack(rule: Rule) -> str:
    return " ".join((rule.id, rule.name, rule.category, rule.title.en, rule.title.zh, rule.why.en, rule.why.zh)).lower()
