"""The folder of a run of `doctor train` as a target: what its config and its logs show, and how it goes on."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

from doctor import runner
from doctor.check import CheckOutcome, Options
from doctor.runner import Judged

FAMILY = "run"


def is_run(path: Path) -> bool:
    """Whether it has what the trainer leaves: its config, and the record of its steps or of its end."""
    if not (path / "config.yaml").is_file():
        return False
    return (path / "end.json").is_file() or any((path / "metrics").glob("rank_*.jsonl"))


def judge_run(path: Path, options: Options, selection: runner.Selection, rules: Sequence[Path] = ()) -> list[Judged]:
    """The config as it was run, and what the logs of the run show, read to their end; `rules` are folders of the user's own."""
    from doctor.match.pack import load_pack
    from doctor.session import DiagnosisSession
    from doctor.session.reading import read_run

    session = DiagnosisSession(load_pack(rules))
    read_run(session, [str(path)], lambda event: None)
    target = str(path)
    outcomes = tuple(
        CheckOutcome(finding.rule, "found", findings=(finding,), target=target)
        for finding in session.findings()
        if selection.names(finding.rule, finding.name)
    )
    # That a run came to an end by itself is what is always judged of it.
    outcomes = outcomes or (CheckOutcome("RUN-END-001", "passed", target=target),)
    config = runner.judge_path(path / "config.yaml", options, selection)
    return [config, Judged(target, FAMILY, {"run": end_of(path)}, outcomes)]


def end_of(path: Path) -> dict[str, Any]:
    """State, exit code and last step as end.json has them; unknown is None."""
    from doctor.session.reading import end_row

    row = end_row(path)
    return {"folder": str(path), **{name: row.get(name) for name in ("state", "exit_code", "last_step")}}


def resume_command(path: Path, workers: Optional[int] = None) -> str:
    """How the run in that folder goes on from its newest checkpoint, with as many workers as it had."""
    folder = shlex.quote(str(path))
    count = workers if workers is not None else sum(1 for _ in (path / "metrics").glob("rank_*.jsonl"))
    several = f" --workers {count}" if count > 1 else ""
    return f"doctor train {folder}/config.yaml --output-dir {folder} --resume{several}"
