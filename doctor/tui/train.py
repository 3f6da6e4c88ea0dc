"""Train: the built-in trainer as a child of the screen, its output, and the record of interventions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import deque
from typing import Any, Optional

from textual import work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, OptionList, Static

from doctor.errors import UsageError
from doctor.escape import decode, visible
from doctor.finding import Text
from doctor.tui.screens import DoctorScreen
from doctor.tui.services import Training
from doctor.tui.words import WORDS, say

#: lines of output that are kept, and interventions that are shown
LINES, MOST = 500, 20
PAINT = 0.5


class TrainScreen(DoctorScreen):
    where = "train"
    home = "#examples"

    def __init__(self) -> None:
        super().__init__()
        self.training: Optional[Training] = None
        self.process: Optional[subprocess.Popen[bytes]] = None
        self.lines: deque[str] = deque(maxlen=LINES)
        self.state: Optional[Text] = None

    def body(self) -> ComposeResult:
        yield Input(id="train-config", placeholder=say("config", self.lang))
        with Vertical(id="train-body"):
            yield OptionList(id="examples", markup=False)
            yield Static(id="train-state", markup=False)
            yield Static(id="train-output", markup=False)
            yield Static(id="train-interventions", markup=False)

    def on_mount(self) -> None:
        examples = self.query_one("#examples", OptionList)
        examples.add_options(self.doctor.services.examples())
        examples.highlighted = 0 if examples.option_count else None
        super().on_mount()
        self.set_interval(PAINT, self.paint)

    def relabel(self) -> None:
        super().relabel()
        self.query_one("#train-config", Input).placeholder = say("config", self.lang)
        self.query_one("#examples").border_title = say("examples", self.lang)
        self.query_one("#train-output").border_title = say("output", self.lang)
        self.query_one("#train-interventions").border_title = say("interventions", self.lang)
        self.paint()

    def action_find(self) -> None:
        self.set_focus(self.query_one("#train-config"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self.begin(event.value.strip())
        self.action_leave_text()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.begin(str(event.option.prompt))

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def begin(self, config: str) -> None:
        """Starts a training, one at a time."""
        if self.running:
            self.tell(WORDS["train_busy"], error=True)
            return
        try:
            self.training = self.doctor.services.training(config)
        except UsageError as error:
            self.state = Text(error.line("en"), error.line("zh"))
            self.paint()
            return
        self.lines.clear()
        self.process = subprocess.Popen(
            self.training.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.state = WORDS["training"].format(folder=self.training.folder)
        self.read(self.process)
        self.paint()

    @work(thread=True, group="train")
    def read(self, process: subprocess.Popen[bytes]) -> None:
        """Keeps the last lines that the training writes, until it ends."""
        assert process.stdout is not None
        with process.stdout as stream:
            for raw in iter(lambda: stream.readline(1 << 16), b""):
                self.lines.append(visible(decode(raw.rstrip(b"\r\n")), 400))
        code = process.wait()
        self.state = WORDS["train_over"].format(code=code)

    def action_stop(self) -> None:
        """Asks the training to end as Ctrl-C does."""
        if not self.running or self.process is None:
            self.tell(WORDS["train_idle"])
            return
        os.killpg(self.process.pid, signal.SIGINT)
        self.state = WORDS["stopping"]
        self.paint()

    def action_view(self) -> None:
        """The run on the watch screen."""
        if self.training is None:
            self.tell(WORDS["train_idle"])
            return
        self.doctor.watch_paths([str(self.training.folder)])

    def on_unmount(self) -> None:
        if self.running and self.process is not None:
            os.killpg(self.process.pid, signal.SIGINT)

    def paint(self) -> None:
        if not self.is_mounted or not self.is_current:
            return
        self.query_one("#train-state", Static).update((self.state or WORDS["train_hint"]).pick(self.lang))
        output = self.query_one("#train-output", Static)
        room = max(1, output.content_size.height)
        output.update("\n".join(list(self.lines)[-room:]))
        rows = self._interventions()
        self.query_one("#train-interventions", Static).update(
            "\n".join(_row(row) for row in rows) or say("no_interventions", self.lang)
        )

    def _interventions(self) -> list[dict[str, Any]]:
        if self.training is None:
            return []
        try:
            raw = (self.training.folder / "interventions.jsonl").read_bytes()
            rows = [json.loads(line) for line in raw.splitlines()[-MOST:]]
        except (OSError, ValueError):
            return []
        return [row for row in rows if isinstance(row, dict)]


def _row(row: dict[str, Any]) -> str:
    """One intervention: when, for which finding, what was changed."""
    finding = row.get("finding")
    rule = finding.get("rule", "") if isinstance(finding, dict) else ""
    edits = [item for item in row.get("edits") or [] if isinstance(item, dict)]
    changes = "; ".join(f"{edit.get('key')}: {edit.get('old')} -> {edit.get('new')}" for edit in edits)
    return visible(f"{row.get('number', '')}. step {row.get('step')}  {rule}  {changes}", 300)
