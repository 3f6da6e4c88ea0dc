"""Train: the built-in trainer started, held, stopped, taken back to a checkpoint, gone on with an edited config."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Optional

from textual import work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, OptionList, Static

from doctor.errors import UsageError
from doctor.escape import visible
from doctor.finding import Text
from doctor.tui.pick import PickScreen
from doctor.tui.screens import DoctorScreen
from doctor.tui.services import Training
from doctor.tui.steering import BackScreen, EditScreen
from doctor.tui.trainee import Trainee
from doctor.tui.words import WORDS, say

#: interventions that are shown
MOST = 20
PAINT = 0.5


class TrainScreen(DoctorScreen):
    where = "train"
    home = "#examples"

    def __init__(self) -> None:
        super().__init__()
        self.training: Optional[Training] = None
        self.trainee: Optional[Trainee] = None
        self.auto_fix = False
        #: what is to be said beside how the process is; gone when the next thing happens
        self.note: Optional[Text] = None
        #: between two processes: the old one is ending
        self.changing = False

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

    def action_open(self) -> None:
        self.app.push_screen(PickScreen(self.lang, self.doctor.unicode, folders=True), self._picked)

    def _picked(self, path: Optional[str]) -> None:
        if path:
            self.begin(path)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self.begin(event.value.strip())
        self.action_leave_text()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.begin(str(event.option.prompt))

    @property
    def running(self) -> bool:
        return self.trainee is not None and self.trainee.running

    def begin(self, word: str) -> None:
        """Starts a training, or goes on with the one of a run folder; one at a time."""
        if self.running or self.changing:
            self.tell(WORDS["train_busy"], error=True)
            return
        self._start(partial(self.doctor.services.training, word, self.auto_fix))

    def _start(self, prepare: Callable[[], Training]) -> None:
        try:
            self.training = prepare()
            self.trainee = Trainee(self.training.command, self.training.folder, self.training.pid)
        except UsageError as error:
            self.note = Text(error.line("en"), error.line("zh"))
        except OSError as error:
            self.note = Text(f"{error.filename}: {error.strerror}", f"{error.filename}：{error.strerror}")
        else:
            self.note = None
        self.paint()

    def action_auto_fix(self) -> None:
        """For the next start; what runs is not changed."""
        self.auto_fix = not self.auto_fix
        self.tell(WORDS["auto_fix_on" if self.auto_fix else "auto_fix_off"])

    def action_pause(self) -> None:
        """Holds the run, lets it go on, or resumes it from its newest checkpoint when it has ended."""
        if self.training is None or self.changing:
            self.tell(WORDS["train_idle"])
        elif self.trainee is None or not self.trainee.running:
            self._start(partial(self.doctor.services.steered, self.training.folder, self.auto_fix))
        elif self.trainee.paused:
            self.trainee.resume()
        else:
            self.trainee.pause()
        self._tell_watch()
        self.paint()

    def action_stop(self) -> None:
        """Asks the training to end as Ctrl-C does."""
        if self.trainee is None or not self.trainee.running:
            self.tell(WORDS["train_idle"])
            return
        self.trainee.stop()
        self._tell_watch()
        self.note = WORDS["stopping"]
        self.paint()

    def action_back(self) -> None:
        if self.training is None or self.changing:
            self.tell(WORDS["train_idle"])
            return
        steps = self.doctor.services.checkpoints(self.training.folder)
        if not steps:
            self.tell(WORDS["no_checkpoints"], error=True)
            return
        self.app.push_screen(BackScreen(steps, self.lang), self._back_to)

    def _back_to(self, step: Optional[int]) -> None:
        if step is not None and self.training is not None:
            self._change(partial(self.doctor.services.steered, self.training.folder, self.auto_fix, step=step))

    def action_edit(self, begun: Optional[str] = None) -> None:
        if self.training is None or self.changing:
            self.tell(WORDS["train_idle"])
            return
        try:
            path, text = self.doctor.services.config(self.training.folder)
        except UsageError as error:
            self.tell(Text(error.line("en"), error.line("zh")), error=True)
            return
        self.app.push_screen(EditScreen(path, text, self.lang, begun), self._edited)

    def _edited(self, text: Optional[str]) -> None:
        if text is None or self.training is None:
            return
        try:
            self.doctor.services.readable(self.training.folder, text)
        except UsageError as error:  # the run goes on meanwhile, and nothing typed is lost
            self.tell(Text(error.line("en"), error.line("zh")), error=True)
            self.action_edit(text)
        else:
            self._change(partial(self.doctor.services.steered, self.training.folder, self.auto_fix, text=text))

    @work(thread=True, exit_on_error=False, exclusive=True, group="change")
    def _change(self, prepare: Callable[[], Training]) -> None:
        """Stops what runs, which saves, and starts what `prepare` gives. In a worker: to stop takes a step and a save."""
        self.changing = True
        if self.trainee is not None:
            self.trainee.stop()
            self.note = WORDS["stopping"]
            self.trainee.wait()
        self.changing = False
        self.app.call_from_thread(self._start, prepare)

    def action_view(self) -> None:
        """The run on the watch screen."""
        if self.training is None:
            self.tell(WORDS["train_idle"])
            return
        self.doctor.watch_paths([str(self.training.folder)])

    def on_unmount(self) -> None:
        """The training outlives the screen, but not stopped: nobody could wake it."""
        if self.trainee is not None and self.trainee.paused:
            self.trainee.resume()

    def _tell_watch(self) -> None:
        """A run that is held on purpose has not stalled."""
        feed = self.doctor.watching.feed
        if self.training is not None and feed.paths == [str(self.training.folder)]:
            feed.held = self.trainee is not None and self.trainee.paused

    def state(self) -> Text:
        """How it stands, in a line."""
        if self.note is not None and (self.running or self.note is not WORDS["stopping"]):
            return self.note
        if self.trainee is None or self.training is None:
            return WORDS["train_hint"]
        folder = visible(str(self.training.folder))
        if not self.trainee.running:
            if self.trainee.code is None:
                return WORDS["train_gone"].format(folder=folder)
            return WORDS["train_over"].format(code=self.trainee.code, folder=folder)
        return WORDS["train_paused" if self.trainee.paused else "training"].format(folder=folder)

    def paint(self) -> None:
        if not self.is_current or not self.query("#train-interventions"):
            return
        if self.trainee is not None:
            self.trainee.look()
        self.query_one("#train-state", Static).update(self.state().pick(self.lang))
        output = self.query_one("#train-output", Static)
        room = max(1, output.content_size.height)
        lines = list(self.trainee.lines)[-room:] if self.trainee is not None else []
        output.update("\n".join(lines))
        rows = self.doctor.services.interventions(self.training.folder)[-MOST:] if self.training is not None else []
        self.query_one("#train-interventions", Static).update(
            "\n".join(_row(row, self.lang) for row in rows) or say("no_interventions", self.lang)
        )


def _row(row: dict[str, Any], lang: str) -> str:
    """One intervention: at which step, for which finding or why, what was changed, where it went back to."""
    finding = row.get("finding")
    cause = finding.get("rule", "") if isinstance(finding, dict) else ""
    why = {"rolled back by hand": "by_hand_back", "config edited by hand": "by_hand_edit"}.get(str(row.get("why")), "")
    edits = [item for item in row.get("edits") or [] if isinstance(item, dict)]
    parts = [cause or (say(why, lang) if why else str(row.get("why") or ""))]
    parts += [f"{edit.get('key')}: {edit.get('old')} -> {edit.get('new')}" for edit in edits]
    if row.get("checkpoint"):
        parts.append(f"<- {row['checkpoint']}")
    return visible(f"{row.get('number', '')}. {say('step', lang, at=row.get('step'))}  " + "; ".join(parts), 300)
