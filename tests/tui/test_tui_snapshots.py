"""What stands on every screen at three sizes in both languages, as text, beside this file. After a change that is meant:
`DOCTOR_SNAPSHOTS=write python -m pytest tests/tui/test_tui_snapshots.py -m heavy`, and look at the difference."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
from textual.widgets import TextArea

from doctor.commands.home import services
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.records.record import Metric
from doctor.report.model import Report
from doctor.rule import Rule
from doctor.tui.actions import ROOMS
from doctor.tui.app import DoctorApp
from doctor.tui.meters import Meter

FOLDER = Path(__file__).parent / "snapshots"
#: frames and footers are drawn a little differently by other versions
DRAWN_BY = "8.2.8"

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(version("textual") != DRAWN_BY, reason=f"drawn by textual {DRAWN_BY}"),
]

RULE = Rule(
    "CFG-MOD-001",
    "heads-do-not-divide",
    Severity.ERROR,
    "config",
    Text("The heads do not divide the hidden size", "注意力头数不能整除 hidden_size"),
    Text("Each head is hidden_size / heads wide.", "每个头的宽度为 hidden_size / 头数。"),
    Text("Set a number that divides it.", "改为能整除的值。"),
)


def report() -> Report:
    finding = Finding(
        rule=RULE.id,
        name=RULE.name,
        severity=Severity.ERROR,
        category="config",
        title=RULE.title,
        message=Text("hidden_size 4096 % num_heads 30 = 16.", "hidden_size 4096 % num_heads 30 = 16。"),
        evidence=(Evidence("value", "run.yaml", line=2, key="model.num_heads", text="num_heads: 30"),),
        fixes=(Fix(Text("Set num_heads: 32.", "改为 num_heads: 32。"), verify="doctor check run.yaml"),),
    )
    note = finding.with_(rule="CFG-PRC-003", severity=Severity.INFO, title=Text("A dynamic scale", "动态 loss scale"))
    return Report("check", (finding, note), headline=(Text("MindFormers 1.5", "MindFormers 1.5"),))


async def draw(lang: str, size: tuple[int, int]) -> str:
    """All screens, one below the other, on data that never changes."""
    made = replace(
        services(),
        check=lambda targets: report(),
        explain=lambda text: report(),
        rules=lambda: [RULE],
        recent=lambda: ["output/llama-7b"],
        examples=lambda: ["tiny-llama"],
        meters=lambda: [Meter("CPU", 0.34, "34%"), Meter("RAM", 0.5, "512/1024 GB")],
    )
    app = DoctorApp(made, lang, unicode=True)
    parts = []
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        feed = app.watching.feed
        feed.paths, feed.state, feed.findings = ["output/llama-7b"], "live", report().findings
        feed.view.clock = lambda: 0.0
        for step in range(1, 201):
            for rank in range(4):
                behind = 30 if rank == 2 else 0
                loss = 2.0 + 8.0 / (1 + step / 20)
                values = Metric("log", step, 0, rank=rank, step=max(1, step - behind), steps=1000, loss=loss)
                feed.view.add(replace(values, grad_norm=1.0 + 3.0 / step, step_time_ms=500.0))
        for _, name in ROOMS:
            await app.action_go(name)
            await pilot.pause(0.2)
            if name == "check":
                app.screen.action_again()  # type: ignore[attr-defined]
            if name == "explain":
                app.screen.query_one("#paste", TextArea).text = "num_heads 30"
                app.screen.action_leave_text()  # type: ignore[attr-defined]
            before = ""
            for _ in range(40):
                await pilot.pause(0.3)
                now = "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())
                if now == before and "…\n" not in now.replace(" …\n", "…\n")[:400]:
                    break
                before = now
            parts.append(f"=== {name} {lang} {size[0]}x{size[1]}\n{now}\n")
    return "".join(parts)


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)])
def test_screens(lang: str, size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "run.yaml").write_text("model:\n  num_heads: 30\n  hidden_size: 4096\n")
    drawn = asyncio.run(draw(lang, size))
    kept = FOLDER / f"{lang}-{size[0]}x{size[1]}.txt"
    if os.environ.get("DOCTOR_SNAPSHOTS") == "write":
        FOLDER.mkdir(exist_ok=True)
        kept.write_text(drawn, "utf-8")
    assert drawn == kept.read_text("utf-8")
