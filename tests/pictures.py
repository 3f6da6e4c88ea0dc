"""Makes the pictures of the README from the real screens: `python -m tests.pictures`, in the project's folder.

The run is written here, the meters are fixed, and the pictures name no path of the machine they are made on.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import math
import os
import random
import re
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

from rich.cells import cell_len
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from doctor.commands.home import services
from doctor.language import LANGUAGES
from doctor.tui.app import DoctorApp
from doctor.tui.meters import Meter

DOCS = Path(__file__).parents[1] / "docs"
CONFIG = Path(__file__).parent / "benchmarks" / "llama2_7b.yaml"
SIZE = (100, 30)
RANKS, STEPS, BREAKS = 8, 600, 431
METERS = [
    Meter("CPU", 0.34, "34%"),
    Meter("RAM", 0.41, "618/1511 GB"),
    *(Meter(f"NPU{n}", 0.9, "58/64 GB") for n in (0, 1, 2)),
]


def write_run(folder: Path, ranks: int = RANKS, steps: int = BREAKS + 24) -> Path:
    """Logs of a data-parallel run in MindFormers' form, whose loss is not finite from step `BREAKS` on."""
    dice = random.Random(7)
    losses = [5.2 + 5.3 * math.exp(-step / 110) + dice.gauss(0, 0.07) for step in range(1, steps + 1)]
    for step in range(240, 247):
        losses[step] += 3.1
    norms = [0.9 + 5 * math.exp(-step / 60) + abs(dice.gauss(0, 0.12)) for step in range(1, steps + 1)]
    for rank in range(ranks):
        lines = []
        for step in range(1, steps + 1):
            broken = step >= BREAKS
            stamp = f"2026-05-04 09:{(step * 2 // 60) % 60:02d}:{step * 2 % 60:02d},{dice.randrange(1000):03d}"
            loss = "nan" if broken else f"{losses[step - 1]:.3f}"
            norm = "nan" if broken else f"{norms[step - 1]:.4f}"
            lines.append(
                f"{stamp} - mindformers/core/callback/callback.py:553 - INFO - {{ Epoch:[  1/  1], step:[{step:>5}/{STEPS:>5}], "
                f"loss: {loss}, per_step_time: {2024 + dice.randrange(40)}ms, lr: {3e-4 * min(1, step / 50):.4e}, "
                f"overflow cond: False, loss_scale: 1.0, global_norm: {norm}, train_throughput_per_npu: {151 + dice.random() * 6:.3f}T"
            )
        (folder / f"worker_{rank}.log").write_text("\n".join(lines) + "\n")
    return folder


async def picture_watch(app: DoctorApp, pilot: Pilot[None]) -> None:
    await until(pilot, lambda: app.screen.query_one("#finding-table", OptionList).option_count > 0)
    await until(pilot, lambda: len(app.watching.view.ranks) == RANKS)
    app.watching.feed.state = "live"


async def picture_check(app: DoctorApp, pilot: Pilot[None]) -> None:
    await pilot.press("c")
    app.screen.query_one("#target", Input).value = "llama2_7b.yaml"
    await pilot.press("g")
    await until(pilot, lambda: app.screen.query_one("#finding-table", OptionList).option_count > 0)


async def until(pilot: Pilot[None], true: Callable[[], bool]) -> None:
    for _ in range(600):
        if true():
            return
        await pilot.pause(0.1)
    raise SystemExit("the screen does not show what the picture is of")


async def take(
    name: str, lang: str, play: Callable[[DoctorApp, Pilot[None]], Awaitable[None]], **options: object
) -> None:
    app = DoctorApp(replace(services(), meters=lambda: METERS), lang, unicode=True, **options)  # type: ignore[arg-type]
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await play(app, pilot)
        for _ in range(5):
            await pilot.pause(0.3)
        picture = app.export_screenshot(title=f"doctor {name}")
    # fonts and animations are not fetched from anywhere when the picture is shown
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    picture = re.sub(r"terminal-\d+", "terminal", picture)
    picture = re.sub(r'textLength="([\d.]+)"([^>]*)>([^<]*)<', in_cells, picture)
    file = f"{name}.svg" if lang == "en" else f"{name}.{lang}.svg"
    (DOCS / file).write_text(picture, encoding="utf-8")


def in_cells(match: re.Match[str]) -> str:
    """The length of a text by its cells: rich counts characters, and Chinese ones would be pressed together."""
    text = html.unescape(match[3])
    length = float(match[1]) * cell_len(text) / max(1, len(text))
    return f'textLength="{length:g}"{match[2]}>{match[3]}<'


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as made:
        os.chdir(made)
        try:
            yield Path(made)
        finally:
            os.chdir(before)


def main() -> None:
    DOCS.mkdir(exist_ok=True)
    with folder() as here:
        os.environ["XDG_CACHE_HOME"] = str(here / ".cache")
        text = CONFIG.read_text().replace("num_heads: 32", "num_heads: 30")
        (here / "llama2_7b.yaml").write_text(text)
        log = here / "output" / "log"
        log.mkdir(parents=True)
        write_run(log)
        for lang in LANGUAGES:
            asyncio.run(take("watch", lang, picture_watch, start="watch", paths=["output/log"]))
            asyncio.run(take("check", lang, picture_check))


if __name__ == "__main__":
    main()
