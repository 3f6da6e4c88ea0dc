"""What stands on the screen at each size, in both languages: nothing cut off, nothing run over, no crash."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot
from textual.widgets import Footer, OptionList, Static

from doctor.commands.home import services
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.report.model import Report
from doctor.rule import Rule
from doctor.tui.actions import ROOMS
from doctor.tui.app import DoctorApp
from doctor.tui.meters import Meter

SIZES = ((80, 24), (120, 36), (200, 50))
HOSTILE = "\x1b[31m[red]x[/red] \x1b]0;owned\x07 {step} 显存不足" + "长" * 300


def finding(number: int = 1, source: str = "run.yaml", **more: Any) -> Finding:
    values: dict[str, Any] = {
        "rule": f"CFG-ABC-{number % 1000:03d}",
        "name": "heads-do-not-divide",
        "severity": Severity.ERROR,
        "category": "config",
        "title": Text(f"The heads do not divide the hidden size {number}", f"注意力头数不能整除隐藏层大小 {number}"),
        "message": Text("4096 % 30 = 16.", "4096 % 30 = 16。"),
        "evidence": (Evidence("value", source, line=2, key="num_heads", text="num_heads: 30"),),
        "fixes": (Fix(Text("Set 32.", "改为 32。"), command="doctor check run.yaml --fix"),),
    }
    return Finding(**{**values, **more})


def report(*findings: Finding) -> Report:
    return Report("check", findings, headline=(Text("MindFormers config", "MindFormers 配置"),))


def play(script: Callable[[DoctorApp, Pilot[None]], Awaitable[None]], given: Report, **options: Any) -> None:
    size = options.pop("size", (80, 24))
    rule = Rule(
        "CFG-ABC-001",
        "a-name",
        Severity.ERROR,
        "config",
        Text("title", "标题"),
        Text("why", "原因"),
        Text("fix", "修复"),
    )
    stubs = replace(
        services(),
        check=lambda targets: given,
        rules=lambda: [rule],
        meters=lambda: [Meter("CPU", 0.5, "50%"), Meter("RAM", 0.99, "99/100 GB")],
        recent=lambda: ["output/a"],
        ends=lambda paths: None,
    )

    async def run() -> None:
        app = DoctorApp(stubs, options.pop("lang", "en"), **options)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await script(app, pilot)

    asyncio.run(run())


def rows(app: DoctorApp) -> list[str]:
    return [strip.text for strip in app.screen._compositor.render_strips()]


async def until(pilot: Pilot[None], true: Callable[[], bool]) -> None:
    for _ in range(2400):
        if true():
            return
        await pilot.pause(0.05)
    raise AssertionError("it did not come")


@pytest.fixture(autouse=True)
def run_folder(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("model:\n  num_heads: 30\n  hidden_size: 4096\n")
    for rank in range(4):
        behind = 20 if rank == 2 else 0
        lines = (f"epoch: 1 step: {step}, loss is {5 / step}\n" for step in range(1, 60 - behind))
        (tmp_path / f"worker_{rank}.log").write_text("".join(lines))


@pytest.mark.parametrize(
    ("sizes", "rooms"),
    [
        (SIZES[:1], ["check", "watch"]),
        pytest.param(SIZES[:1], [name for _, name in ROOMS], marks=pytest.mark.heavy),
        pytest.param(SIZES[1:], ["check", "watch"], marks=pytest.mark.heavy),
    ],
)
def test_nothing_is_cut_off_at_any_size_in_either_language(
    sizes: tuple[tuple[int, int], ...], rooms: list[str]
) -> None:
    async def script(app: DoctorApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(app.watching.view.ranks) == 4)
        for lang in ("en", "zh"):
            if app.lang != lang:
                app.action_switch_language()
            for size in sizes:
                await pilot.resize_terminal(*size)
                for name in rooms:
                    await app.action_go(name)
                    if name == "check":
                        app.screen.action_again()  # type: ignore[attr-defined]
                    app.screen.action_leave_text()  # type: ignore[attr-defined]
                    where = (name, lang, size)
                    last = "退出" if lang == "zh" else "Quit"
                    await until(pilot, lambda last=last: last in rows(app)[-1])
                    assert app.screen.query_one(Footer).max_scroll_x == 0, where
                    assert {cell_len(row) for row in rows(app)} == {size[0]}, where
                    assert ("规则" if lang == "zh" else "Rules") in rows(app)[0], where
                    if name == "watch":
                        text = "\n".join(rows(app))
                        assert "59" in text and ("落后 20 步" if lang == "zh" else "20 steps behind") in text, where
                    if name == "check":
                        await until(pilot, lambda: "CFG-ABC-001" in "\n".join(rows(app)))
                    if name == "check" and size[0] > 100:
                        await until(pilot, lambda: ">2   num_heads: 30" in "\n".join(rows(app)))

    play(script, report(finding()), start="watch", paths=[f"worker_{rank}.log" for rank in range(4)])


def test_a_terminal_too_small_gets_a_plain_sentence() -> None:
    async def script(app: DoctorApp, pilot: Pilot[None]) -> None:
        for size in ((1, 1), (20, 5), (39, 30), (200, 9)):
            await pilot.resize_terminal(*size)
            for _, name in ROOMS if size == (20, 5) else ROOMS[:1]:
                await app.action_go(name)
                await pilot.pause()
            if size != (1, 1):
                await until(pilot, lambda: "too small" in " ".join(" ".join(rows(app)).split()))
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "Quit" in rows(app)[-1])

    play(script, report(), size=(1, 1))


def test_plain_characters_only_where_the_terminal_draws_none() -> None:
    async def script(app: DoctorApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(app.watching.view.ranks) == 1)
        for _, name in ROOMS:
            await app.action_go(name)
            await pilot.pause(0.1)
            drawn = app.screen._compositor.render_strips()
            plain = [strip.apply_filter(app.get_line_filters()[-1], app.screen.background_colors[1]) for strip in drawn]
            text = re.sub("[\u4e00-\u9fff]", "", "\n".join(strip.text for strip in plain))
            assert text.isascii(), (name, sorted({char for char in text if ord(char) > 127}))
            assert all(cell_len(strip.text) == 80 for strip in plain)

    play(script, report(finding()), start="watch", paths=["worker_0.log"], unicode=False)


def test_ten_thousand_findings_and_hostile_text_are_shown() -> None:
    hostile = finding(0, title=Text(HOSTILE, HOSTILE), message=Text(HOSTILE, HOSTILE))
    many = report(hostile, *(finding(number) for number in range(1, 10_000)))

    async def script(app: DoctorApp, pilot: Pilot[None]) -> None:
        await pilot.press("g")
        table = app.screen.query_one("#finding-table", OptionList)
        await until(pilot, lambda: table.option_count > 500)
        assert table.option_count == 501
        await pilot.pause(0.1)
        text = "\n".join(rows(app))
        assert "[red]x[/red]" in text and "\x1b" not in text and "\x07" not in text
        assert {cell_len(row) for row in rows(app)} == {80}
        await pilot.press("end")
        assert "9500" in str(table.get_option_at_index(500).prompt)

    play(script, many, start="check")


def test_the_keys_of_the_screens(tmp_path: Path) -> None:
    async def script(app: DoctorApp, pilot: Pilot[None]) -> None:
        await pilot.press("g")
        table = app.screen.query_one("#finding-table", OptionList)
        await until(pilot, lambda: table.option_count == 2)
        await pilot.press("x", "x")
        assert table.option_count == 1, "errors only"
        await pilot.press("v")
        await until(pilot, lambda: any(">2" in row and "num_heads" in row for row in rows(app)))
        await pilot.press("escape", "f1")
        await pilot.pause()
        assert any("Filter" in row for row in rows(app))
        await pilot.press("escape", "d")
        assert app.theme == "textual-light"
        (tmp_path / "run.yaml").unlink()
        await pilot.press("v")
        await until(pilot, lambda: any("cannot be read" in row for row in rows(app)))
        await pilot.press("escape", "slash", "h", "w", "escape")
        assert app.screen.query_one("#target").value == "hw", "letters are text while something is typed"  # type: ignore[attr-defined]
        await pilot.press("w", "slash")
        await pilot.press(*"worker_0.log", "enter")
        await until(pilot, lambda: "step 59" in str(app.screen.query_one("#status", Static).render()))
        await pilot.press("p")
        assert "frozen" in str(app.screen.query_one("#status", Static).render())

    play(script, report(finding(), finding(2, severity=Severity.INFO)), start="check")


def test_without_colour_everything_is_grey(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def script(app: DoctorApp, pilot: Pilot[None]) -> None:
        await pilot.press("g")
        await until(pilot, lambda: "CFG-ABC-001" in "\n".join(rows(app)))
        for strip in app.screen._compositor.render_strips():
            for line_filter in app.get_line_filters():
                strip = strip.apply_filter(line_filter, app.screen.background_colors[1])
            for segment in strip:
                for colour in (segment.style.color, segment.style.bgcolor) if segment.style else ():
                    assert colour is None or colour.triplet is None or len(set(colour.triplet)) == 1
        assert any(row.startswith("x CFG-ABC-001") for row in rows(app)), "severity has a sign of its own"

    play(script, report(finding()), start="check")


def test_brackets_in_the_name_of_a_file_are_part_of_the_name(tmp_path: Path) -> None:
    """Titles of frames are read as markup: such a name was shown without them, or ended the program."""
    for name in ("a[red]b[/]", "c[/d", "[bold"):
        folder = tmp_path / name.replace("/", "\u2044")
        folder.mkdir()
        (folder / "run.yaml").write_text("a: 1\nnum_heads: 30\n")

    async def script(app: DoctorApp, pilot: Pilot[None]) -> None:
        for path in sorted(tmp_path.glob("*[[]*/run.yaml")):
            app.screen._show(report(finding(source=str(path.relative_to(tmp_path)))))  # type: ignore[attr-defined]
            await pilot.press("v")
            await until(pilot, lambda path=path: any(f"{path.parent.name}/run.yaml:2" in row for row in rows(app)))
            await pilot.press("escape")
        await pilot.press("o")
        await pilot.pause()
        await pilot.press("escape")

    play(script, report(), start="check", size=(120, 36))


def test_a_run_folder_that_vanishes_is_said(tmp_path: Path) -> None:
    log = tmp_path / "run" / "worker_0.log"
    log.parent.mkdir()
    log.write_text("".join(f"epoch: 1 step: {step}, loss is {5 / step}\n" for step in range(1, 30)))

    async def script(app: DoctorApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "step 29" in str(app.screen.query_one("#status", Static).render()))
        log.unlink()
        log.parent.rmdir()
        await until(pilot, lambda: "the logs are gone" in str(app.screen.query_one("#status", Static).render()))
        await pilot.press("u")
        await until(pilot, lambda: "Nothing is watched" in str(app.screen.query_one("#plot", Static).render()))

    play(script, report(), start="watch", paths=["run"])
