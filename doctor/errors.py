"""Errors of use: one clear line (what, where, what to do next) and exit code 2, never a traceback."""

from __future__ import annotations

from typing import Optional

from doctor.finding import Text

EXIT_OK = 0
EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_CRASH = 3
EXIT_INTERRUPTED = 130


class UsageError(Exception):
    """The input cannot be used. `what` names it and says what is wrong, `hint` what to do next; `rule` is the id of
    the rule that explains why, for `doctor rules ID`."""

    def __init__(self, what: Text, hint: Optional[Text] = None, rule: Optional[str] = None) -> None:
        super().__init__(what.en)
        self.what = what
        self.hint = hint
        self.rule = rule

    def line(self, lang: str) -> str:
        text = self.what.pick(lang)
        text = f"{text} {self.hint.pick(lang)}" if self.hint else text
        return f"{text} [{self.rule}]" if self.rule else text
