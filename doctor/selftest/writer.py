"""``python -m doctor.selftest.writer``: writes logs as it is told on standard input, and says when each marked line was there.

A plan is a JSON list of ``[pause, action, path, text, mark]``: after `pause` seconds, `action` is one of write (text, unbuffered),
move (the path to `text`), truncate and die (by SIGKILL, as whoever is killed by the kernel). Files stay open, as those of a
training do; after each marked action a line ``mark nanoseconds`` (of the monotonic clock, which all processes share) is printed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time


def main() -> None:
    files: dict[str, int] = {}
    for pause, action, path, text, mark in json.load(sys.stdin):
        time.sleep(pause)
        if action == "write":
            if path not in files:
                files[path] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.write(files[path], text.encode())
        elif action == "move":
            os.rename(path, text)
            os.close(files.pop(path))
        elif action == "truncate":
            os.ftruncate(files[path], 0)
        elif action == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if mark:
            sys.stdout.write(f"{mark} {time.monotonic_ns()}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
