"""What the trainer's tests share: a started MindSpore."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever asks for MindSpore is marked so."""
    for item in items:
        if "mindspore" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.mindspore)


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
