"""Shared fixtures. Facts that are not the project's own are read from ``../shared`` only where it stands."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


def pytest_configure() -> None:
    """A shell starts what runs behind it, and nohup what outlives it, with signals ignored; children would inherit that,
    and those that are asked to stop would not."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that ask for the `shared` or the `mindspore` fixture carry the marker of that name."""
    for item in items:
        asked = getattr(item, "fixturenames", ())
        if "shared" in asked:
            item.add_marker(pytest.mark.shared)
        if "mindspore" in asked:
            item.add_marker(pytest.mark.mindspore)


#: a finished command: exit code, stdout, stderr
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of public samples beside the project; the test is skipped where there is none."""
    if not SHARED.is_dir():
        pytest.skip("no ../shared here")
    return SHARED


@pytest.fixture(scope="session")
def mindspore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """MindSpore in graph mode on the CPU; skips where it is not installed."""
    pytest.importorskip("mindspore")
    import warnings

    from doctor.trainer import runtime

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runtime.start("CPU", dumps=tmp_path_factory.mktemp("dumps"))
        import mindspore as ms

    yield ms


@pytest.fixture(autouse=True)
def started_mindspore(request: pytest.FixtureRequest) -> None:
    """A process starts MindSpore once, and its device cannot be set after the first kernel has run: whichever test
    of it comes first, it is started the trainer's way."""
    if request.node.get_closest_marker("mindspore") is not None:
        request.getfixturevalue("mindspore")


@pytest.fixture
def doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the doctor as a user does: a process of its own, in an empty folder, English, no terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("LC_ALL", "LC_MESSAGES", "DOCTOR_LANG", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "en_US.UTF-8")

    def run(*words: str, stdin: str = "", timeout: float = 60) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "doctor", *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run
