"""First paint and memory of the screens: `python tests/benchmarks/bench_tui.py [LINES]` (default a million).

Prints the seconds from the start of the process to the first painting, and the resident memory while a log of so many
step lines is replayed into the watch screen; the last figures must not be above the middle ones.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

import psutil

STARTED = time.time() - psutil.Process().create_time()
BEGAN = time.perf_counter()


def written(folder: str, lines: int) -> str:
    path = Path(folder) / "worker_0.log"
    with path.open("w") as out:
        for step in range(1, lines + 1):
            loss = "nan" if step % 97_001 == 0 else f"{2 + 8 / (1 + step / 1000):.4f}"
            out.write(f"epoch: 1 step: {step}, loss is {loss}, lr: 0.0003, per step time: {200 + step % 7}.1 ms\n")
    return str(path)


async def replay(path: str, lines: int) -> None:
    from textual.widgets import Static

    from doctor.commands.home import services
    from doctor.tui.app import DoctorApp

    app = DoctorApp(services(), "en", "watch", [path])
    process = psutil.Process()
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        print(f"first paint after {STARTED + time.perf_counter() - BEGAN:.2f} s (with the making of the log left out)")
        shown = -1
        while True:
            await asyncio.sleep(0.5)
            feed = app.watching.feed
            # of a long log the end is shown first, and how much of the whole was read
            share = feed.share if feed.share is not None or feed.state == "waiting" else 1.0
            if share is not None and int(share * 10) > shown:
                shown = int(share * 10)
                print(f"{share:4.0%} read  {process.memory_info().rss / 2**20:6.1f} MB")
            if share == 1.0:
                break
        assert feed.view.last is not None and feed.view.last.at == lines
        assert "step" in str(app.screen.query_one("#status", Static).render())


def main() -> None:
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    global BEGAN
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = os.environ.get("XDG_CACHE_HOME", folder)
        path = written(folder, lines)
        BEGAN = time.perf_counter()
        asyncio.run(replay(path, lines))


if __name__ == "__main__":
    main()
