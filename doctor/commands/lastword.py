"""A stream for what must not be lost: when it can no longer be written to, the rest is kept in a file."""

from __future__ import annotations

from typing import Optional, TextIO

from doctor.terminal import to_nowhere

#: in the program's cache folder; the last run's only
FILES = {"text": "run-diagnosis.txt", "jsonl": "run-diagnosis.jsonl"}


class LastWord:
    """Writes to `out` while somebody listens there; once its terminal was closed or its reader has gone, to a file (see
    FILES). A place that cannot be written is no error: there is nobody left to tell."""

    def __init__(self, out: TextIO, form: str) -> None:
        self.out: Optional[TextIO] = out
        self.name = FILES[form]

    def write(self, text: str) -> int:
        if self.out is not None:
            try:
                self.out.write(text)
                self.out.flush()
            except OSError:
                self._move()
                self.write(text)
        return len(text)

    def flush(self) -> None:
        """Each `write` does that."""

    def _move(self) -> None:
        from doctor.match.cache import cache_folder

        assert self.out is not None
        kept: Optional[TextIO] = None
        try:
            to_nowhere(self.out.fileno())  # or what is left in its buffer fails once more at exit
            folder = cache_folder()
            folder.mkdir(parents=True, exist_ok=True)
            kept = (folder / self.name).open("w", encoding="utf-8", errors="backslashreplace")
        except (OSError, RuntimeError, ValueError):
            kept = None
        self.out = kept
