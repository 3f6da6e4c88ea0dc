"""What the tests of the screens share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def pack_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder for all of them: to compile the rules takes seconds, and none of these tests is about that."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, pack_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(pack_cache))
    return tmp_path
