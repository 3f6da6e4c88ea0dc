"""What the screens may ask for. Commands hand it in, so that the screens know no check and no file format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from doctor.report.model import Report
from doctor.rule import Rule

if TYPE_CHECKING:
    from doctor.session.following import RunWatch
    from doctor.tui.meters import Meter


@dataclass(frozen=True)
class FilePatch:
    """Edits of one file that findings propose: the diff to show, and `apply` to write it."""

    path: str
    diff: str
    apply: Callable[[], None]


@dataclass(frozen=True)
class Training:
    """The command line that trains, and the folder it will write into."""

    command: tuple[str, ...]
    folder: Path


@dataclass(frozen=True)
class Services:
    """Every callable may raise UsageError; its line is shown. None of them is quick: call them in a worker."""

    check: Callable[[list[str]], Report]
    explain: Callable[[str], Report]
    rules: Callable[[], list[Rule]]
    patches: Callable[[Report], list[FilePatch]]
    watch: Callable[[list[str]], RunWatch]
    recent: Callable[[], list[str]]
    meters: Callable[[], list[Meter]]
    examples: Callable[[], list[str]]
    training: Callable[[str], Training]
