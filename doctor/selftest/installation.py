"""Whether the files of the program are those that were installed, by the record that every installer leaves."""

from __future__ import annotations

import base64
import hashlib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Optional

from doctor.check import Skip
from doctor.finding import Text

NAME = "mindspore-doctor"


def damaged(found: Optional[Distribution] = None) -> tuple[str, ...]:
    """Files that are missing or differ from the record, in order. Raises Skip where there is no record of them."""
    try:
        package = found if found is not None else distribution(NAME)
    except PackageNotFoundError:
        raise Skip(_no_record()) from None
    files = [item for item in package.files or () if item.parts[:1] == ("doctor",) and item.hash is not None]
    if not any(item.name == "__init__.py" and len(item.parts) == 2 for item in files):  # a link to sources
        raise Skip(_no_record())
    wrong = []
    for item in files:
        assert item.hash is not None
        try:
            content = Path(str(item.locate())).read_bytes()
        except OSError:
            wrong.append(str(item))
            continue
        digest = base64.urlsafe_b64encode(hashlib.new(item.hash.mode, content).digest()).rstrip(b"=").decode()
        if digest != item.hash.value:
            wrong.append(str(item))
    return tuple(sorted(wrong))


def _no_record() -> Text:
    return Text(
        "the program runs from its sources: there is no record of its files to compare with.",
        "程序直接从源码运行：没有可供比对的安装记录。",
    )
