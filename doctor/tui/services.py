"""What the screens may ask for. Commands hand it in, so that the screens know no check and no file format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Protocol

from doctor.finding import Finding, Text
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
class Choice:
    """One way to edit: `label` says which, `patches` are what it writes."""

    label: Text
    patches: tuple[FilePatch, ...]

    @property
    def diff(self) -> str:
        return "\n".join(patch.diff for patch in self.patches)


@dataclass(frozen=True)
class Training:
    """The command line that trains, and the folder it will write into; `pid` of the process that trains there already,
    in place of a command."""

    command: tuple[str, ...]
    folder: Path
    pid: Optional[int] = None


@dataclass(frozen=True)
class Saved:
    """A checkpoint that a run can go back to; `when` it was written, as text. Not sound: some weight is not finite."""

    step: int
    when: str
    sound: bool


class Steered(Protocol):
    def __call__(
        self, folder: Path, auto_fix: bool, *, step: Optional[int] = None, text: Optional[str] = None
    ) -> Training:
        """How the stopped run of a folder goes on: from its newest checkpoint, from that of `step`, or with `text` as its
        config."""


@dataclass(frozen=True)
class Services:
    """Every callable may raise UsageError; its line is shown. None of them is quick: call them in a worker."""

    check: Callable[[list[str]], Report]
    explain: Callable[[str], Report]
    rules: Callable[[], list[Rule]]
    #: memory, global batch and what would fit, of a config
    estimate: Callable[[str], Report]
    #: the ways to fix the finding that is chosen, then all findings at once
    fixes: Callable[[Report, Optional[Finding]], list[Choice]]
    watch: Callable[[list[str]], RunWatch]
    #: a watch that begins near the ends of long logs; None when the logs are soon read whole
    ends: Callable[[list[str]], Optional[RunWatch]]
    recent: Callable[[], list[str]]
    meters: Callable[[], list[Meter]]
    examples: Callable[[], list[str]]
    #: of a config, an example or a run folder; the flag is for curing by itself
    training: Callable[[str, bool], Training]
    steered: Steered
    checkpoints: Callable[[Path], list[Saved]]
    #: path and text of the config that a run was last given
    config: Callable[[Path], tuple[str, str]]
    #: raises UsageError when a run cannot go on with this text as its config
    readable: Callable[[Path, str], None]
    interventions: Callable[[Path], list[dict[str, Any]]]
