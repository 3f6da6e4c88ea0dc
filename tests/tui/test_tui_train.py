"""The Train screen on a stand-in for the trainer: a real process that is held, stopped, taken back and left running."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

import psutil
import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static, TextArea

from doctor.commands import steering
from doctor.commands.home import services
from doctor.errors import UsageError
from doctor.finding import Text
from doctor.tui.app import DoctorApp
from doctor.tui.services import Saved, Training
from doctor.tui.steering import EditScreen, QuitScreen
from doctor.tui.train import TrainScreen
from doctor.tui.trainee import Trainee

#: counts steps, tells what it was started with, saves on Ctrl-C
TRAINER = (
    "import signal, sys, time\n"
    "signal.signal(signal.SIGINT, lambda *_: (print('saved', flush=True), sys.exit(130)))\n"
    "print('began', *sys.argv[1:], flush=True)\n"
    "for step in range(100000):\n"
    "    print('step', step, flush=True)\n"
    "    time.sleep(0.02)\n"
)


class Stub:
    """What the screen asks of the rest of the program."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[dict[str, Any]] = []

    def training(self, word: str, auto_fix: bool = False) -> Training:
        return self._command(word, *(["--auto-fix"] if auto_fix else []))

    def steered(
        self, folder: Path, auto_fix: bool, *, step: Optional[int] = None, text: Optional[str] = None
    ) -> Training:
        if text is not None and "bad" in text:
            raise UsageError(Text("it does not read", "无法读取"))
        self.rows.append({"number": 1, "step": step, "finding": None, "why": "rolled back by hand", "edits": []})
        return self._command("again", str(step), str(text))

    def _command(self, *words: str) -> Training:
        return Training((sys.executable, "-c", TRAINER, *words), self.folder)


def play(script: Callable[[DoctorApp, Pilot[None], TrainScreen, Stub], Awaitable[None]], folder: Path) -> None:
    async def run() -> None:
        stub = Stub(folder / "run")
        made = replace(
            services(),
            training=stub.training,
            steered=stub.steered,
            checkpoints=lambda _: [Saved(10, "10:00", True), Saved(20, "10:01", False)],
            config=lambda _: ("config.yaml", "a: 1\n"),
            readable=lambda *_: None,
            interventions=lambda _: stub.rows,
            meters=list,
        )
        app = DoctorApp(made, "en", start="train")
        async with app.run_test(size=(100, 30)) as pilot:
            await pilot.pause()
            assert isinstance(app.screen, TrainScreen)
            room = app.screen
            try:
                await script(app, pilot, room, stub)
            finally:
                if room.trainee is not None and room.trainee.running:
                    room.trainee.stop()
                    room.trainee.wait()

    asyncio.run(run())


async def until(pilot: Pilot[None], true: Callable[[], bool]) -> None:
    for _ in range(2400):
        if true():
            return
        await pilot.pause(0.05)
    raise AssertionError("it did not come")


def shown(app: DoctorApp, selector: str) -> str:
    return str(app.screen.query_one(selector, Static).render())


def written(room: TrainScreen) -> str:
    """All that was kept of the output: the screen shows its last lines only."""
    return "\n".join(room.trainee.lines) if room.trainee is not None else ""


async def begin(app: DoctorApp, pilot: Pilot[None]) -> None:
    await pilot.press("slash")
    app.screen.query_one("#train-config", Input).value = "a.yaml"
    await pilot.press("enter")
    await until(pilot, lambda: "step" in shown(app, "#train-output"))


def test_a_training_is_held_goes_on_stops_and_is_resumed(tmp_path: Path) -> None:
    async def script(app: DoctorApp, pilot: Pilot[None], room: TrainScreen, stub: Stub) -> None:
        await begin(app, pilot)
        assert room.trainee is not None
        process = psutil.Process(room.trainee._process.pid)
        await pilot.press("p")
        await until(pilot, lambda: process.status() == psutil.STATUS_STOPPED)
        assert "paused" in shown(app, "#train-state")
        await pilot.press("p")
        await until(pilot, lambda: process.status() != psutil.STATUS_STOPPED)
        await pilot.press("p", "s")
        await until(pilot, lambda: "exit code 130" in shown(app, "#train-state"))
        await until(pilot, lambda: "saved" in shown(app, "#train-output"))
        await pilot.press("p")
        await until(pilot, lambda: "began again None None" in written(room))

    play(script, tmp_path)


def test_it_goes_back_to_the_checkpoint_that_is_chosen(tmp_path: Path) -> None:
    async def script(app: DoctorApp, pilot: Pilot[None], room: TrainScreen, stub: Stub) -> None:
        await begin(app, pilot)
        before = room.trainee
        await pilot.press("b")
        await until(pilot, lambda: bool(app.screen.query("#back-steps")))
        await pilot.press("enter")  # the newest is not sound: the one before it is offered first
        await until(pilot, lambda: room.trainee is not before)
        await until(pilot, lambda: "began again 10 None" in written(room))
        assert before is not None and before.code == 130, "the one before has saved and ended"
        assert "rolled back by hand" in shown(app, "#train-interventions")

    play(script, tmp_path)


def test_an_edited_config_is_shown_as_a_diff_before_it_is_used(tmp_path: Path) -> None:
    async def script(app: DoctorApp, pilot: Pilot[None], room: TrainScreen, stub: Stub) -> None:
        await begin(app, pilot)
        before = room.trainee
        await pilot.press("i")
        await until(pilot, lambda: isinstance(app.screen, EditScreen))
        await pilot.press("ctrl+s")
        assert isinstance(app.screen, EditScreen), "nothing was changed, nothing is asked"
        app.screen.query_one("#edit-text", TextArea).text = "a: 2\n"
        await pilot.pause()
        await pilot.press("ctrl+s")
        assert "+a: 2" in shown(app, "#edit-diff") and room.trainee is before
        await pilot.press("escape")
        assert isinstance(app.screen, EditScreen) and not app.screen.asked, "one goes on editing"
        await pilot.press("escape")
        assert app.screen is room and room.trainee is before, "and leaves without a change"
        await pilot.press("i")
        await until(pilot, lambda: isinstance(app.screen, EditScreen))
        app.screen.query_one("#edit-text", TextArea).text = "a: 2\n"
        await pilot.pause()
        await pilot.press("ctrl+s", "ctrl+s")
        await until(pilot, lambda: room.trainee is not before)
        await until(pilot, lambda: "began again None a: 2" in written(room))

    play(script, tmp_path)


def test_a_config_that_does_not_read_is_said_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    async def script(app: DoctorApp, pilot: Pilot[None], room: TrainScreen, stub: Stub) -> None:
        await begin(app, pilot)
        room._edited("bad")
        await until(pilot, lambda: "it does not read" in shown(app, "#train-state"))
        assert not room.running
        await pilot.press("p")
        await until(pilot, lambda: room.running)

    play(script, tmp_path)


def test_a_run_is_not_stopped_for_a_config_that_does_not_read(tmp_path: Path) -> None:
    async def script(app: DoctorApp, pilot: Pilot[None], room: TrainScreen, stub: Stub) -> None:
        room.doctor.services = replace(room.doctor.services, readable=steering.readable)
        await begin(app, pilot)
        before = room.trainee
        typed = "training_args:\n  learning_rate: 2e-4\n"  # a string, by YAML 1.1
        await pilot.press("i")
        await until(pilot, lambda: bool(app.screen.query("#edit-text")))
        first = app.screen
        app.screen.query_one("#edit-text", TextArea).text = typed
        await pilot.pause()
        await pilot.press("ctrl+s", "ctrl+s")
        await until(pilot, lambda: app.screen is not first and bool(app.screen.query("#edit-text")))
        assert app.screen.query_one("#edit-text", TextArea).text == typed, "nothing typed is lost"
        assert room.running and room.trainee is before
        assert not list(stub.folder.glob(".config*"))

    play(script, tmp_path)


def test_quitting_asks_what_becomes_of_the_training(tmp_path: Path) -> None:
    kept: list[Trainee] = []

    async def script(app: DoctorApp, pilot: Pilot[None], room: TrainScreen, stub: Stub) -> None:
        await begin(app, pilot)
        await pilot.press("q")
        assert isinstance(app.screen, QuitScreen)
        await pilot.press("escape")
        assert app.screen is room and room.running
        await pilot.press("p", "q", "k")
        assert room.trainee is not None
        kept.append(room.trainee)
        room.trainee = None  # so that the clean-up of the test leaves it running

    play(script, tmp_path)
    (trainee,) = kept
    process = psutil.Process(trainee._process.pid)
    try:
        assert trainee.running
        deadline = time.monotonic() + 20
        while process.status() == psutil.STATUS_STOPPED and time.monotonic() < deadline:
            time.sleep(0.05)
        assert process.status() != psutil.STATUS_STOPPED, "nobody could wake it any more"
    finally:
        os.killpg(trainee._process.pid, signal.SIGKILL)
        trainee.wait()


def test_a_run_that_was_left_going_is_taken_up_again(tmp_path: Path) -> None:
    """Not a second trainer in the same folder: the first is shown, held and stopped."""
    words = (sys.executable, "-c", TRAINER, "doctor.trainer", "--output-dir", ".")
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, start_new_session=True)
    (tmp_path / "screen.txt").write_text("step 7 of before\n")

    async def script(app: DoctorApp, pilot: Pilot[None], room: TrainScreen, stub: Stub) -> None:
        room.doctor.services = replace(room.doctor.services, training=steering.training)
        await until(pilot, lambda: steering.running(tmp_path) == process.pid)
        room.begin(str(tmp_path))
        assert room.running and room.trainee is not None and room.trainee.pid == process.pid
        await until(pilot, lambda: "step 7 of before" in shown(app, "#train-output"))
        await pilot.press("p")
        assert "paused" in shown(app, "#train-state")
        await pilot.press("p", "s")
        threading.Thread(target=process.wait, daemon=True).start()  # its parent, that is this test, must take note
        await until(pilot, lambda: not room.running)
        await until(pilot, lambda: "ended in" in shown(app, "#train-state"))
        assert process.wait() == 130, "it was asked to end as by Ctrl-C"
        assert steering.running(tmp_path) is None

    try:
        play(script, tmp_path)
    finally:
        process.kill()


def test_without_a_training_the_keys_say_so(tmp_path: Path) -> None:
    async def script(app: DoctorApp, pilot: Pilot[None], room: TrainScreen, stub: Stub) -> None:
        await pilot.press("p", "s", "b", "i", "v", "a")
        assert app.screen is room and room.auto_fix
        await pilot.press("enter")
        await until(pilot, lambda: "--auto-fix" in written(room))

    play(script, tmp_path)


@pytest.mark.parametrize("end", [b"", b"no newline at its end"])
def test_output_is_shown_line_by_line_and_made_visible(tmp_path: Path, end: bytes) -> None:
    script = f"import sys; sys.stdout.buffer.write(b'\\x1b[31mred\\nb\\xff\\n' + {end!r})"
    trainee = Trainee((sys.executable, "-c", script), tmp_path)
    trainee.wait()
    trainee.look()
    assert list(trainee.lines) == ["\\e[31mred", "b\\xff"]
