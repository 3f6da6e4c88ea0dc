"""The screens driven by keys, on real files: what is shown, what is kept when a screen is left, what bad input does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static, TextArea

from doctor.commands.home import services
from doctor.tui.app import DoctorApp
from doctor.tui.plot import Curve, draw

CONFIG = Path(__file__).parents[1] / "benchmarks" / "llama2_7b.yaml"
Play = Callable[[DoctorApp, Pilot[None]], Awaitable[None]]


def play(script: Play, size: tuple[int, int] = (100, 30), **options: Any) -> None:
    """Runs the app without a terminal and plays `script` on it."""

    async def run() -> None:
        app = DoctorApp(services(), options.pop("lang", "en"), **options)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await script(app, pilot)

    asyncio.run(run())


async def until(pilot: Pilot[None], true: Callable[[], bool], seconds: float = 120) -> None:
    """Waits for workers: a fixed pause is too long on one machine and too short on another."""
    for _ in range(int(seconds / 0.05)):
        if true():
            return
        await pilot.pause(0.05)
    raise AssertionError("it did not come")


def shown(app: DoctorApp, selector: str) -> str:
    return str(app.screen.query_one(selector, Static).render())


def nan_log(folder: Path) -> Path:
    log = folder / "worker_0.log"
    losses = ["5.1", "5.0", "4.9", "4.8", "nan", "nan", "nan"]
    log.write_text("".join(f"epoch: 1 step: {step}, loss is {loss}\n" for step, loss in enumerate(losses, 1)))
    return log


def test_every_screen_opens_by_its_key_in_both_languages() -> None:
    async def script(app: DoctorApp, pilot: Pilot[None]) -> None:
        for key, title in (("c", "[Check]"), ("w", "[Watch]"), ("r", "[Rules]"), ("h", "[Home]")):
            await pilot.press("escape")
            app.set_focus(None)
            await pilot.press(key)
            assert title in shown(app, "#bar")
        await pilot.press("l")
        assert "[首页]" in shown(app, "#bar")

    play(script)


def test_home_gives_the_verdict_on_this_machine() -> None:
    async def script(app: DoctorApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "passed" in shown(app, "#machine"))

    play(script)


def test_check_lists_findings_opens_them_and_applies_a_fix_with_consent(tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(CONFIG.read_text().replace("num_heads: 32", "num_heads: 30"))

    async def script(app: DoctorApp, pilot: Pilot[None]) -> None:
        await pilot.press("c")
        box = app.screen.query_one("#target", Input)
        box.value = str(config)
        box.focus()
        await pilot.press("enter")
        await until(pilot, lambda: app.screen.query_one("#finding-table", OptionList).option_count > 0)
        assert "error" in shown(app, "#verdict")
        assert "num_heads" in shown(app, "#finding-detail")
        await pilot.press("f")
        await until(pilot, lambda: bool(app.screen.query("#diff")))
        assert "num_heads" in shown(app, "#diff")
        await pilot.press("n")
        await until(pilot, lambda: app.screen.id == "check")
        assert "num_heads: 30" in config.read_text(), "no consent, no edit"

    play(script)


def test_watch_follows_a_log_and_keeps_it_when_the_screen_is_left(tmp_path: Path) -> None:
    log = nan_log(tmp_path)

    async def script(app: DoctorApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: app.screen.query_one("#finding-table", OptionList).option_count > 0)
        assert "RUN-NAN-001" in shown(app, "#finding-detail")
        await until(pilot, lambda: "step 7" in shown(app, "#status"))
        await pilot.press("h")
        await pilot.press("w")
        assert app.screen.query_one("#finding-table", OptionList).option_count > 0
        with log.open("a") as out:
            out.write("epoch: 1 step: 8, loss is nan\n")
        await until(pilot, lambda: "step 8" in shown(app, "#status"))

    play(script, start="watch", paths=[str(log)])


def test_explain_answers_while_typing(tmp_path: Path) -> None:
    async def script(app: DoctorApp, pilot: Pilot[None]) -> None:
        await pilot.press("e")
        app.screen.query_one("#paste", TextArea).text = "OSError: [Errno 28] No space left on device"
        await until(pilot, lambda: app.screen.query_one("#finding-table", OptionList).option_count > 0)
        app.screen.query_one("#paste", TextArea).text = "the quick brown fox"
        await until(pilot, lambda: "Unknown" in shown(app, "#explain-verdict"))

    play(script)


def test_rules_are_found_by_words_of_either_language() -> None:
    async def script(app: DoctorApp, pilot: Pilot[None]) -> None:
        await pilot.press("r")
        table = app.screen.query_one("#rule-table", OptionList)
        await until(pilot, lambda: table.option_count > 300)
        everything = table.option_count
        app.screen.query_one("#rule-search", Input).value = "显存"
        await until(pilot, lambda: 0 < table.option_count < everything)

    play(script)


def test_a_path_that_is_not_there_is_said() -> None:
    async def script(app: DoctorApp, pilot: Pilot[None]) -> None:
        app.screen.judge(["/no/such/file.yaml"])  # type: ignore[attr-defined]
        await until(pilot, lambda: "no such file" in shown(app, "#verdict"))

    play(script, start="check")


def test_control_sequences_of_a_log_do_not_reach_the_screen(tmp_path: Path) -> None:
    log = tmp_path / "worker_0.log"
    log.write_text("\x1b]0;owned\x07[bold]x[/bold] OSError: [Errno 28] No space left on device: '\x1b[2J'\n")

    async def script(app: DoctorApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: app.screen.query_one("#finding-table", OptionList).option_count > 0)
        assert "\x1b" not in shown(app, "#finding-detail")

    play(script, start="watch", paths=[str(log)])


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=3000), st.integers(1, 80), st.integers(1, 20))
def test_a_curve_has_its_size_whatever_it_is_fed(values: list[float], width: int, height: int) -> None:
    curve = Curve(64)
    for step, value in enumerate(values):
        curve.add(step, value)
    assert len(curve.points) <= 64
    lines = draw(curve, width, height)
    assert len(lines) == height and all(len(line) <= max(width, 4) for line in lines)


def test_a_spike_does_not_flatten_the_curve() -> None:
    curve = Curve()
    for step in range(200):
        curve.add(step, 1e6 if step == 100 else 2 + step / 200)
    lines = draw(curve, 60, 10)
    assert sum(1 for line in lines if line.strip("\u2800 ")) == 10


def test_a_bug_behind_a_screen_is_said_and_the_screens_stay() -> None:
    def broken(*_: object) -> Any:
        raise KeyError("[red]oh[/red]")

    async def script(app: DoctorApp, pilot: Pilot[None]) -> None:
        app.services = replace(app.services, check=broken, explain=broken, watch=broken, ends=broken, fixes=broken)
        app.watching.follow(["nothing"])
        app.screen.action_again()  # type: ignore[attr-defined]
        await until(pilot, lambda: any("bug in doctor" in note.message for note in app._notifications))
        await app.action_go("explain")
        app.screen.query_one("#paste", TextArea).text = "x"
        await pilot.pause(0.2)
        await app.action_go("home")
        assert app.is_running

    play(script, start="check")


def test_check_estimates_the_memory_of_a_config(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(CONFIG.read_text())

    async def script(app: DoctorApp, pilot: Pilot[None]) -> None:
        await pilot.press("m")
        assert app.screen.id == "check", "without a config there is nothing to weigh"
        app.screen.query_one("#target", Input).value = "run.yaml"
        await pilot.press("m")
        await until(pilot, lambda: bool(app.screen.query("#text")))
        assert "GB" in str(app.screen.query("#text Static").first(Static).render())
        await pilot.press("escape")
        app.screen.query_one("#target", Input).value = "gone.yaml"
        await pilot.press("m")
        await until(pilot, lambda: any("gone.yaml" in note.message for note in app._notifications))

    play(script, start="check")


def test_a_file_is_picked_to_be_explained(tmp_path: Path) -> None:
    nan = tmp_path / "a.log"
    nan.write_text("OSError: [Errno 28] No space left on device\n")

    async def script(app: DoctorApp, pilot: Pilot[None]) -> None:
        await pilot.press("e", "escape", "o")
        await until(pilot, lambda: bool(app.screen.query("#pick-tree")))
        await until(pilot, lambda: app.screen.query_one("#pick-tree").cursor_node is not None)  # type: ignore[attr-defined]
        await until(pilot, lambda: len(app.screen.query_one("#pick-tree").root.children) > 0)  # type: ignore[attr-defined]
        await pilot.press("end", "enter")
        await until(pilot, lambda: app.screen.id == "explain")
        assert app.screen.query_one("#paste", TextArea).text == "a.log"
        await until(pilot, lambda: "LOG-SYS-002" in shown(app, "#finding-detail"))

    play(script)
