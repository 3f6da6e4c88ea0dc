"""Reads the other outputs of npu-smi: ``-m``, ``-t TYPE`` field lists, ``-t proc-mem``, and its failures."""

from __future__ import annotations

import re
from typing import Any, Optional

_FIELD = re.compile(r"\s*([A-Za-z][\w ./()%-]*?)\s*[:：]\s*(.*?)\s*$")
_PROCESS = re.compile(r"Process id\s*:\s*(\d+)\s+Process name\s*:\s*(.*?)\s*Process memory\s*\(MB\)\s*:\s*(\d+)", re.I)


def parse_fields(text: str) -> list[dict[str, str]]:
    """``Key : value`` lines as blocks, one a chip. A key that comes again begins the next block."""
    blocks: list[dict[str, str]] = []
    block: dict[str, str] = {}
    for line in text.splitlines():
        match = _FIELD.match(line) if "|" not in line else None
        if match is None:
            if not line.strip() and block:
                blocks.append(block)
                block = {}
            continue
        if match.group(1) in block:
            blocks.append(block)
            block = {}
        block[match.group(1)] = match.group(2)
    if block:
        blocks.append(block)
    return blocks


def value(text: str, *keys: str) -> Optional[str]:
    """The first value of any of the keys (case apart); None when absent or NA."""
    wanted = {key.lower() for key in keys}
    for block in parse_fields(text):
        for key, found in block.items():
            if key.lower() in wanted and found.upper() not in {"", "NA", "N/A", "-"}:
                return found
    return None


def parse_ecc(text: str, npu_id: int) -> list[dict[str, Any]]:
    """``-t ecc``: one row a chip, {npu_id, chip_id, double_bit: {counter: count}}, zero counts too."""
    rows = []
    for block in parse_fields(text):
        counters = {
            name: int(count[:12]) for name, count in block.items() if "double bit" in name.lower() and count.isdecimal()
        }
        if counters:
            chip = block.get("Chip ID", "")
            rows.append({"npu_id": npu_id, "chip_id": int(chip) if chip.isdecimal() else None, "double_bit": counters})
    return rows


def parse_mapping(text: str) -> list[dict[str, Any]]:
    """``npu-smi info -m``: rows {npu_id, chip_id, logic_id, physical_id, name}; the management chip (Mcu) left out."""
    rows: list[dict[str, Any]] = []
    has_physical = False
    for line in text.splitlines():
        if "Chip Logic ID" in line:
            has_physical = "Phy" in line
            continue
        cells = line.split()
        if len(cells) < 4 or not re.fullmatch(r"-?\d+", cells[0]) or not cells[1].isdecimal():
            continue
        if not cells[2].isdecimal():
            continue
        physical = cells[3] if has_physical and len(cells) > 4 else None
        rows.append(
            {
                "npu_id": int(cells[0]),
                "chip_id": int(cells[1]),
                "logic_id": int(cells[2]),
                "physical_id": int(physical) if physical and physical.isdecimal() else None,
                "name": " ".join(cells[4 if has_physical else 3 :]) or None,
            }
        )
    return rows


def parse_process_memory(text: str, npu_id: int) -> list[dict[str, Any]]:
    """``-t proc-mem``: process rows as in the table; the chip is named after its processes."""
    rows: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []
    for line in text.splitlines():
        match = _PROCESS.search(line)
        if match is not None:
            waiting.append(
                {
                    "npu_id": npu_id,
                    "chip_id": None,
                    "pid": int(match.group(1)[:12]),
                    "name": match.group(2) or None,
                    "memory_mb": int(match.group(3)[:12]),
                    "container_pid": None,
                }
            )
            continue
        chip = re.match(r"\s*Chip ID\s*:\s*(\d+)", line)
        if chip is not None:
            for row in waiting:
                row["chip_id"] = int(chip.group(1))
            rows += waiting
            waiting = []
    return rows + waiting


_LIBRARY = re.compile(r"(lib[\w.+-]+\.so[\w.]*)\s*:\s*(?:cannot open|undefined|.*version)", re.I)
_CODE = re.compile(r"ret(?:urn)?(?:\s+is|\s+code)?\s*[:=]?\s*(-8\d{3})", re.I)


def classify_failure(text: str) -> tuple[str, Optional[str]]:
    """What kept npu-smi from answering: (kind, the line that says it).

    Kinds: not-found, library-missing, device-used (-8020), no-device (-8005), driver-error (another code),
    not-permitted, unsupported, timeout, unreadable (something else was printed), silent (nothing was)."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if _LIBRARY.search(line):
            return "library-missing", line[:300]
    for line in lines:
        code = _CODE.search(line)
        if "device is used" in line.lower() or (code and code.group(1) == "-8020"):
            return "device-used", line[:300]
        if code is not None:
            return ("no-device" if code.group(1) == "-8005" else "driver-error"), line[:300]
        if "dcmi" in line.lower() and "initiali" in line.lower():
            return "no-device", line[:300]
    for line in lines:
        lowered = line.lower()
        if "command not found" in lowered or "not installed" in lowered or "no such file" in lowered:
            return "not-found", line[:300]
        if "timed out" in lowered or "time-out" in lowered or "did not answer" in lowered:
            return "timeout", line[:300]
        if "permission denied" in lowered or "not permitted" in lowered:
            return "not-permitted", line[:300]
        if "does not support" in lowered or "not support" in lowered:
            return "unsupported", line[:300]
    # The console-level lines accompany the failures above and mean nothing by themselves.
    telling = [line for line in lines if "DrvMngGetConsoleLogLevel" not in line]
    if telling:
        return "unreadable", telling[0][:300]
    return ("driver-error", lines[0][:300]) if lines else ("silent", None)


def missing_library(line: str) -> Optional[str]:
    """The shared library that the loader's message names."""
    match = _LIBRARY.search(line)
    return match.group(1) if match else None
