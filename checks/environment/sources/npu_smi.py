"""Reads the table of ``npu-smi info``: devices with health and memory, and the processes on them.

Seen layouts: A) 21.x without huge pages; B) HBM (``Chip | Bus-Id``, 21.0.4 to 25.x); C) 310, 310P, 310B
(``Chip Device``, DDR only); D) A3 (``Chip Phy-ID``, two dies a card); 26.x as B and D but wider, with a fifth
process column; E) 950 (``NPU ID | Name | Health``, no chip row of its own). A device takes two rows; which
is which is told by the cell under ``Health``/``Bus-Id``, counted from the right, so that quotation marks, time
stamps or a lost left border do not matter. Text may be cut, wrapped, misaligned or without its bars.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Optional

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_BARS = str.maketrans({"│": "|", "┃": "|", "｜": "|", "║": "|", "\xa0": " ", "\t": " ", "\u3000": " "})
_VERSION = re.compile(r"npu-smi\s+(\S+)\s+Version\s*[:：]\s*(\S+)", re.I)
_BUS = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]"
_BUS_CELL = re.compile(_BUS)
_NOTHING = {"", "-", "--", "NA", "N/A"}
_HEALTH = re.compile(r"[A-Za-z][A-Za-z _/-]*")
_HEALTH_WORDS = r"OK|Warning|Alarm|Critical|UNKNOWN|Normal|Fault|Offline|Error"
_ID_NAME = re.compile(r"[>\s]*(-?\d+)\s+(\S.*)")
_CHIP = re.compile(r"[>\s]*(\d+)(?:\s+(\d+|-|NA))?")
_TOKEN = re.compile(r"(\d+)\s*/\s*(\d+)|(\d+(?:\.\d*)?)|(?<![\w.])(-{1,2}|NA|N/A)(?!\w)", re.I)
_IDLE = re.compile(r"No running process(?:es)? found in NPU\s*(\d+)", re.I)
#: rows whose bars were lost on the way (rendered HTML, a chat)
_BARE_NAME = re.compile(rf"\s*(\d+)\s+(\S+)\s+({_HEALTH_WORDS})\s+(\S.*)", re.I)
_BARE_CHIP = re.compile(rf"\s*(\d+(?:\s+\d+)?)\s+({_BUS})\s+(\S.*)")
_BARE_PROCESS = re.compile(r"\s*(\d+\s+\d+)\s+(\d{2,})\s+(\S.*?)\s+(\d+)\s*")


@dataclass
class _Device:
    """The fields in the order in which they are printed as JSON."""

    npu_id: int
    chip_id: Optional[int]
    physical_id: Optional[int]
    name: str
    health: str
    power_w: Optional[float]
    temperature_c: Optional[float]
    aicore_percent: Optional[float] = None
    memory_used_mb: Optional[int] = None
    memory_total_mb: Optional[int] = None
    bus_id: Optional[str] = None
    memory_kind: Optional[str] = None


@dataclass
class Table:
    """What one table says, as plain values. `has_process_table`: a process part was printed, even an empty one."""

    tool_version: Optional[str] = None
    driver_version: Optional[str] = None
    devices: list[dict[str, Any]] = field(default_factory=list)
    processes: list[dict[str, Any]] = field(default_factory=list)
    has_process_table: bool = False


@dataclass
class _Layout:
    """What the header rows told. The defaults are those of the commonest layout, for text cut at the top."""

    health_from_right: int = 2
    second_column: Optional[str] = None
    names_hbm: Optional[bool] = None
    temperature_first: bool = False
    in_processes: bool = False


def parse_info(text: str) -> Table:
    """Devices and processes of the last table in `text` that has any; never raises.

    Memory is the HBM column where there is one, else the DDR column; unknown values are None."""
    table, current = Table(), Table()
    layout = _Layout()
    pending: Optional[_Device] = None
    bars_end_rows = sum(line.endswith("|") for line in _lines(text)) > 0
    for line in _lines(text):
        version = _VERSION.search(line)
        if version is not None:
            _flush(pending, current)
            pending = None
            table = current if current.devices or current.processes or not table.devices else table
            current, layout = Table(_known(version.group(1)), _known(version.group(2))), _Layout()
            continue
        if "|" not in line:
            line = _with_bars(line, layout.in_processes)
            if "|" not in line:
                continue
            cells = [cell.strip() for cell in line.split("|")]
            ends_open = False
        else:
            ends_open = bars_end_rows and not line.endswith("|")
            cells = [cell.strip() for cell in line.split("|")]
            if line.endswith("|"):
                cells.pop()
        if _header(cells, layout):
            current.has_process_table |= layout.in_processes
            continue
        if _IDLE.search(line):
            layout.in_processes = current.has_process_table = True
            continue
        if layout.in_processes:
            process = _process(cells)
            if process is not None:
                current.processes.append(process)
            continue
        device = _name_row(cells, layout, pending)
        if device is not None:
            _flush(pending, current)
            pending = device
        elif pending is not None and _chip_row(cells, layout, pending, ends_open):
            _flush(pending, current)
            pending = None
    _flush(pending, current)
    return current if current.devices or current.processes or not table.devices else table


def _lines(text: str) -> Iterator[str]:
    """Lines without colours and trailing blanks; a row that a narrow terminal wrapped is put together again."""
    held = ""
    for raw in _ANSI.sub("", text).translate(_BARS).replace("\\|", "|").splitlines():
        line = raw.rstrip()
        if held:
            if line.endswith("|") and line.lstrip()[:1] not in {"|", "+"}:
                yield held + line
                held = ""
                continue
            yield held
            held = ""
        if line.count("|") >= 2 and not line.endswith("|") and line.lstrip().startswith("|"):
            held = raw.rstrip("\r\n")
        else:
            yield line
    if held:
        yield held.rstrip()


def _known(version: str) -> Optional[str]:
    version = version.rstrip("|")
    return version if any(char.isdecimal() for char in version) else None


def _with_bars(line: str, in_processes: bool) -> str:
    for pattern in (_BARE_PROCESS,) if in_processes else (_BARE_NAME, _BARE_CHIP):
        match = pattern.fullmatch(line)
        if match is not None:
            groups = list(match.groups())
            if pattern is _BARE_NAME:
                groups[:2] = [f"{groups[0]} {groups[1]}"]
            return " | ".join(groups)
    lowered = line.lower()
    return "Process id |" if "process id" in lowered and "npu" in lowered else line


def _header(cells: list[str], layout: _Layout) -> bool:
    """Takes note of a header row; False when the row is none."""
    joined = " ".join(cells).lower()
    if "process id" in joined:
        layout.in_processes = True
        return True
    names = [cell.lower() for cell in cells]
    if "name" in joined and "health" in names:
        layout.health_from_right = len(names) - names.index("health")
        power, temperature = joined.find("power"), joined.find("temp")
        layout.temperature_first = 0 <= temperature < power
        layout.in_processes = False
        return True
    if "bus-id" in joined or "busid" in joined:
        layout.second_column = next((key for key in ("phy-id", "device") if key in joined), None)
        layout.names_hbm = "hbm" in joined
        layout.in_processes = False
        return True
    return False


def _name_row(cells: list[str], layout: _Layout, pending: Optional[_Device]) -> Optional[_Device]:
    at = len(cells) - layout.health_from_right
    if at < 1 or at >= len(cells):
        return None
    health = cells[at]
    if health.upper() in _NOTHING:
        # A health of NA is possible, but after a name row the same place is a Bus-Id of NA.
        if pending is not None or not health:
            return None
    elif not _HEALTH.fullmatch(health) or _BUS_CELL.fullmatch(health):
        return None
    both = _ID_NAME.fullmatch(cells[at - 1])
    if both is not None:
        npu_id, name = int(both.group(1)), both.group(2)
    elif at >= 2 and re.fullmatch(r"[>\s]*-?\d+", cells[at - 2]) and cells[at - 1]:
        npu_id, name = int(cells[at - 2].strip("> ")), cells[at - 1]
    elif re.fullmatch(r"-?\d+", cells[at - 1]) and re.fullmatch(_HEALTH_WORDS, health, re.I):
        npu_id, name = int(cells[at - 1]), ""
    else:
        return None
    singles, _ = _tokens(" ".join(cells[at + 1 :]))
    singles += [None, None]
    power, temperature = (singles[1], singles[0]) if layout.temperature_first else (singles[0], singles[1])
    return _Device(npu_id, None, None, name, health, power, temperature)


def _chip_row(cells: list[str], layout: _Layout, device: _Device, ends_open: bool) -> bool:
    """Fills `device` from its second row; False when the row is none. The row may be cut after any cell."""
    at = next((index for index in range(len(cells) - 1, -1, -1) if _BUS_CELL.fullmatch(cells[index])), None)
    if at is None:
        at = len(cells) - layout.health_from_right
        if at < 0 or at >= len(cells) or cells[at].upper() not in _NOTHING:
            return False
    chip = _CHIP.fullmatch(cells[at - 1]) if at >= 1 else None
    if chip is None and not (at >= 1 and not cells[at - 1]):
        return False
    if chip is not None:
        device.chip_id = int(chip.group(1))
        is_physical = layout.second_column == "phy-id" or (
            layout.second_column is None and layout.names_hbm is None and device.name.lower() == "ascend910"
        )
        if is_physical and chip.group(2) and chip.group(2).isdecimal():
            device.physical_id = int(chip.group(2))
    device.bus_id = cells[at] if _BUS_CELL.fullmatch(cells[at]) else None
    metrics = " ".join(cells[at + 1 :])
    singles, pairs = _tokens(metrics)
    device.aicore_percent = singles[0] if singles else None
    has_hbm = layout.names_hbm if layout.names_hbm is not None else len(pairs) > 1
    if has_hbm and len(pairs) > 1:
        used, total = pairs[1]
        device.memory_kind = "hbm"
    elif not has_hbm and pairs:
        used, total = pairs[0]
        device.memory_kind = "ddr"
    else:
        return True
    cut = ends_open and metrics.rstrip()[-1:].isdecimal()
    device.memory_used_mb = used
    device.memory_total_mb = None if cut or total <= 0 else total
    return True


def _tokens(text: str) -> tuple[list[Optional[float]], list[tuple[int, int]]]:
    """Single values and used/total pairs of a cell, each in order: ``0   29954/ 65536`` gives [0], [(29954, 65536)]."""
    singles: list[Optional[float]] = []
    pairs: list[tuple[int, int]] = []
    for match in _TOKEN.finditer(text):
        if match.group(1) is not None:
            pairs.append((int(match.group(1)[:12]), int(match.group(2)[:12])))
        elif match.group(3) is not None:
            singles.append(_number(match.group(3)))
        else:
            singles.append(None)
    return singles, pairs


def _number(text: str) -> float:
    value = float(text[:16])
    return int(value) if value.is_integer() and "." not in text else value


def _process(cells: list[str]) -> Optional[dict[str, Any]]:
    for at in range(len(cells) - 1):
        ids = re.fullmatch(r"[>\s]*(\d+)(?:\s+(\d+))?", cells[at])
        if ids is None or not re.fullmatch(r"\d+|NA|-", cells[at + 1]):
            continue
        rest = [*cells[at + 1 :], "", "", "", ""]
        pid = rest[0] if rest[0].isdecimal() else rest[3]
        memory = re.match(r"\d+", rest[2])
        return {
            "npu_id": int(ids.group(1)),
            "chip_id": int(ids.group(2)) if ids.group(2) else None,
            "pid": int(pid) if pid.isdecimal() else None,
            "name": rest[1] if rest[1].upper() not in _NOTHING else None,
            "memory_mb": int(memory.group(0)[:12]) if memory else None,
            "container_pid": int(rest[3]) if rest[3].isdecimal() else None,
        }
    return None


def _flush(device: Optional[_Device], table: Table) -> None:
    if device is not None:
        table.devices.append(asdict(device))
