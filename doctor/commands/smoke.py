"""The smoke test of a config as `train --smoke` and `check --smoke` show it: a row for each stage."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from doctor.finding import Text

if TYPE_CHECKING:
    from doctor.supervisor.smoke import Row

_MARKS = {"passed": Text("ok", "通过"), "failed": Text("FAILED", "失败"), "skipped": Text("-", "-")}


def smoke_rows(word: str, lang: str, shown: bool) -> list[Row]:
    """Makes the config small and takes it the whole way; where `shown`, each row is written when it is known.

    Raises UsageError when the config cannot be read or MindSpore is not there.
    """
    from doctor.supervisor.smoke import smoke
    from doctor.trainer import runtime
    from doctor.trainer.config import load_config

    config = load_config(word)
    runtime.require_mindspore()
    rows: list[Row] = []
    for row in smoke(config):
        rows.append(row)
        if shown:
            _show(row, lang)
    return rows


def failed(rows: Sequence[Row]) -> bool:
    return any(row.state == "failed" for row in rows)


def verdict(rows: Sequence[Row], word: str) -> Text:
    """The last line: whether it works, and the next command."""
    again = shlex.quote(word)
    if failed(rows):
        return Text(
            f"The smoke test failed. Next: doctor train {again} --smoke -v",
            f"冒烟测试失败。下一步：doctor train {again} --smoke -v",
        )
    return Text(
        f"The whole path works. Next: doctor train {again}",
        f"全流程可用。下一步：doctor train {again}",
    )


def _show(row: Row, lang: str) -> None:
    from doctor.escape import visible
    from doctor.report.width import wrap

    head = f"{_MARKS[row.state].pick(lang):<7} {row.stage:<10} "
    for line in wrap(visible(row.detail.pick(lang)), 80, head, " " * 19):
        sys.stdout.write(line + "\n")
    sys.stdout.flush()
