"""Which Python is examined, and what the probe says of it: in this process when it is our own, else in a child."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Optional

from doctor.checks.environment import probe
from doctor.checks.environment.sources.commands import Command, Output, which
from doctor.checks.environment.sources.machine import Machine
from doctor.escape import visible

#: A cold conda interpreter on a network disk takes its time; the rest of the 12 s stays for npu-smi.
TIMEOUT = 8.0


def chosen(machine: Machine, asked: Optional[str], meant_for_ascend: bool = False) -> tuple[str, str]:
    """(interpreter, why): the one asked for, else that of the active virtual or conda environment, else our own.

    The doctor is often installed apart. Without MindSpore in our own interpreter, on a machine that is
    `meant_for_ascend`, the `python` that a launcher would start is the one that matters."""
    if asked is not None:
        path = asked
        if os.path.isdir(path):
            path = next(
                (p for stem in ("bin/python", "bin/python3", "python") if os.path.isfile(p := f"{path}/{stem}")),
                f"{path}/bin/python",
            )
        return path, "--python"
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = machine.environ.get(variable)
        if prefix and os.path.isfile(f"{prefix}/bin/python"):
            return f"{prefix}/bin/python", variable
    if meant_for_ascend and not any(os.path.isdir(os.path.join(entry, "mindspore")) for entry in sys.path):
        first = which(machine, "python") or which(machine, "python3")
        if first is not None:
            return first, "PATH"
    return sys.executable, "the doctor's own"


def is_own(path: str) -> bool:
    """Whether that path starts the interpreter that runs us: same environment folder, links followed."""
    own = os.path.realpath(os.path.dirname(sys.executable))
    same_place = os.path.realpath(os.path.dirname(path)) == own
    return bool(sys.executable) and same_place and os.path.realpath(path) == os.path.realpath(sys.executable)


def own_facts(machine: Machine) -> dict[str, Any]:
    """The probe's answer for this very process; the folder of the doctor's own script is not a place to import from."""
    script = os.path.dirname(os.path.abspath(sys.argv[0])) if sys.argv and sys.argv[0] else None
    entries = [entry for entry in sys.path if entry and entry != script]
    return probe.examine(probe.search_path(machine.environ, machine.cwd, entries), machine.environ, machine.cwd)


def command(path: str, machine: Machine) -> Command:
    """The call that examines another interpreter: isolated, and with this text instead of a file, so that
    neither the working folder nor PYTHONPATH can put code of theirs in its way."""
    with open(probe.__file__, encoding="utf-8") as handle:
        source = handle.read()
    return Command((path, "-I", "-c", source, machine.cwd), TIMEOUT)


def child_facts(path: str, output: Output) -> dict[str, Any]:
    """The answer of a child, or facts that say why there is none."""
    pieces = output.text.split(probe.MARK)
    if len(pieces) >= 3:
        try:
            answer = json.loads(pieces[1])
        except ValueError:
            answer = None
        if isinstance(answer, dict) and isinstance(answer.get("python"), dict):
            return answer
    last = next((line for line in reversed(output.errors.splitlines()) if line.strip()), "")
    reasons = {
        "missing": f"it could not be started: {output.message}",
        "timeout": f"it did not answer within {TIMEOUT:g} s",
        "flood": "it printed without end",
    }
    if "annotations is not defined" in output.errors or "Unknown option: -I" in output.errors:
        return unknown(path, "it is older than Python 3.7")
    reason = reasons.get(output.state) or f"exit code {output.exit_code}: {visible(last, 200) or 'no output'}"
    return unknown(path, reason)


def unknown(path: str, reason: str = "it could not be examined") -> dict[str, Any]:
    """The shape of the probe's answer with nothing known."""
    return {
        "python": {"executable": path, "version": None, "error": reason},
        "packages": {},
        "distributions": {},
        "modules": None,
        "shadows": None,
        "mindspore": None,
        "mindformers": None,
    }
