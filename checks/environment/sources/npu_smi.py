"""Reads the table of ``npu-smi info``: devices with health and memory, and the processes on them.

Seen layouts: A) 21.x without huge pages; B) HBM (``Chip | Bus-Id``, 21.0.4 to 25.x); C) 310, 310P, 310B
(``Chip Device``, DDR only); D) A3 (``Chip Phy-ID``, two dies a card); 26.x as B and D but wider, with a fifth
process column; E) 950 (``NPU ID | Name | Health``, no chip row of its own). A device takes two rows; which
is which is told by the cell under ``Health``/``Bus-Id``, counted from the right, so that quotation marks, time
stamps or a lost left border do not matter. What a paste does to the lines is undone in `npu_smi_lines`.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any, Optional, Union

from doctor.checks.environment.sources.npu_smi_lines import BUS, table_lines, with_bars

_VERSION = re.compile(r"npu-smi\s+(\S+)\s+Version\s*[:：]\s*(\S+)", re.I)
_BUS_CELL = re.compile(BUS)
_NOTHING = {"", "-", "--", "NA", "N/A"}
_HEALTH = re.compile(r"[A-Za-z]+(?:[ _-][A-Za-z]+)*(?:\s*[(:].*)?")
_HEALTH_WORDS = {"OK", "WARNING", "ALARM", "CRITICAL", "UNKNOWN", "NORMAL", "FAULT", "OFFLINE", "ERROR"}
_CHIP_NAME = re.compile(r"(?:Ascend\s?)?\d{3}[A-Za-z][\w-]*|Ascend\s?\d{3}|x{2,}", re.I)
_ID_NAME = re.compile(r"[>\s]*(-?\d+)\s+(\S.*)")
_CHIP = re.compile(r"[>\s]*(\d+)(?:\s+(\d+|-|NA))?")
_TOKEN = re.compile(
    r"(?P<used>\d+|NA|-)\s*/\s*(?P<total>\d+|NA|-|(?=\s*$))|(?P<one>\d+(?:\.\d*)?)|(?<![\w.])(?:-{1,2}|NA|N/A)(?!\w)",
    re.I,
)
_BORDER = re.compile(r"\+[-=+]{8,}\s*$")
_IDLE = re.compile(r"No running process(?:es)? found in NPU\s*(\d+)", re.I)
_PROCESS_IDS = re.compile(r"[>\s]*(\d+)(?:\s+(\d+))?")
_BARE_PROCESS = re.compile(r"\s*(\d+)(?:\s+(\d+))?\s+(\d+)\s+(?:(\S.*?)\s+)?(\d+)\s*")
_BARE_CONTAINED = re.compile(r"\s*(\d+)(?:\s+(\d+))?\s+(\d+)\s+(?:(\S.*?)\s+)?(\d+)(?:\s+(\d+|NA|-))?\s*")
#: used and total MB of one column; None for what is not printed as a number
Usage = tuple[Optional[int], Optional[int]]


@dataclass
class _Device:
    """The fields in the order in which they are printed as JSON."""

    npu_id: int
    chip_id: Optional[int]
    physical_id: Optional[int]
    name: str
    health: Optional[str]
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
class _Reading(Table):
    """A table while it is read. `is_closed`: a border followed its last row, so that it was not cut there."""

    is_closed: bool = False


@dataclass
class _Layout:
    """What the header rows told. The defaults are those of the commonest layout, for text cut at the top."""

    health_from_right: int = 2
    second_column: Optional[str] = None
    #: the usage columns in their order, "hbm" or "ddr"; None before a header was seen
    usages: Optional[tuple[str, ...]] = None
    temperature_first: bool = False
    in_processes: bool = False
    #: of a process row: where its ids stand, how many cells they take, whether a chip is among them, whether a fifth column
    #: follows
    ids_at: Optional[int] = None
    id_cells: int = 1
    has_chip: Optional[bool] = None
    has_container: bool = False


def parse_info(text: str) -> Table:
    """Devices and processes of the last table in `text` that has any; never raises.

    Memory is the HBM column where there is one, else the DDR column; unknown values are None."""
    table, current = _Reading(), _Reading()
    layout = _Layout()
    pending: Optional[_Device] = None
    for line in table_lines(text):
        version = _VERSION.search(line.text)
        if version is not None:
            _flush(pending, current)
            pending = None
            table = _better(table, current)
            current, layout = _Reading(_known(version.group(1)), _known(version.group(2))), _Layout()
            continue
        if _BORDER.search(line.text):
            current.is_closed = True
            continue
        if _header(line.text, layout):
            current.has_process_table |= layout.in_processes
            continue
        if _IDLE.search(line.text):
            layout.in_processes = current.has_process_table = True
            continue
        cells = _cells(line.text, layout)
        if len(cells) < 2:
            process = _bare_process(line.text, layout) if layout.in_processes else None
            if process is not None:
                current.processes.append(process)
            continue
        if layout.in_processes:
            process = _process(cells, layout, line.is_cut)
            if process is not None:
                current.processes.append(process)
            continue
        device = _name_row(cells, layout, pending, line.is_cut)
        if device is not None:
            _flush(pending, current)
            pending, current.is_closed = device, False
        elif pending is not None and _chip_row(cells, layout, pending, line.is_cut):
            _flush(pending, current)
            pending = None
    _flush(pending, current)
    best = _better(table, current)
    return Table(best.tool_version, best.driver_version, best.devices, best.processes, best.has_process_table)


def _better(earlier: _Reading, later: _Reading) -> _Reading:
    """The later of two tables, unless it has nothing or was cut before its end."""
    if not (later.devices or later.processes):
        return earlier if earlier.devices or earlier.processes else later
    is_cut = earlier.is_closed and not later.is_closed and len(later.devices) < len(earlier.devices)
    return earlier if is_cut else later


def _known(version: str) -> Optional[str]:
    version = version.rstrip("|")
    return version if any(char.isdecimal() for char in version) else None


def _cells(line: str, layout: _Layout) -> list[str]:
    if "|" not in line and not layout.in_processes:
        line = with_bars(line)
    cells = [cell.strip() for cell in line.split("|")]
    if line.endswith("|"):
        cells.pop()
    return cells


def _header(line: str, layout: _Layout) -> bool:
    """Takes note of a header row; False when the row is none."""
    joined = " ".join(line.lower().replace("|", " | ").split())
    cells = [cell.strip() for cell in joined.rstrip("| ").split("|")]
    if "process id" in joined and ("npu" in joined or "process name" in joined):
        layout.in_processes = True
        first = next((at for at, cell in enumerate(cells) if re.fullmatch(r"npu(?: id)?(?: chip)?", cell)), None)
        last = next((at for at, cell in enumerate(cells) if cell.startswith("process id")), None)
        if first is not None and last is not None and last > first:
            layout.ids_at, layout.id_cells = first, last - first
        layout.has_chip = "chip" in joined.partition("process id")[0]
        layout.has_container = "in container" in joined
        return True
    if "name" in joined and re.search(r"\bhealth\b", joined) and ("npu" in joined or "power" in joined):
        if "health" in cells:
            at = cells.index("health")
            power_at = next((place for place, cell in enumerate(cells) if cell.startswith("power")), len(cells) - 1)
            layout.health_from_right = power_at - at + 1 if power_at > at else len(cells) - at
        power, temperature = joined.find("power"), joined.find("temp")
        layout.temperature_first = 0 <= temperature < power
        layout.in_processes = False
        return True
    if "bus-id" in joined or "busid" in joined:
        layout.second_column = next((key for key in ("phy-id", "device") if key in joined), None)
        columns = re.findall(r"(memory|hbm|ddr)-?\s?usage", joined)
        layout.usages = tuple("hbm" if column == "hbm" else "ddr" for column in columns) or None
        if "hbm" not in columns and not line.endswith("|"):
            layout.usages = None  # the column may lie in what was cut off
        layout.in_processes = False
        return True
    return False


def _name_row(cells: list[str], layout: _Layout, pending: Optional[_Device], is_cut: bool) -> Optional[_Device]:
    place = len(cells) - layout.health_from_right
    # Further to the left where somebody wrote a remark behind the row, with or without a bar of its own.
    for at in (place, place - 1, place - 2):
        if 1 <= at < len(cells):
            device = _named(cells, at, pending, is_cut and at == len(cells) - 1)
            if device is not None:
                _condition(device, " ".join(cells[at + 1 :]), layout)
                return device
    return None


def _named(cells: list[str], at: int, pending: Optional[_Device], is_partial: bool) -> Optional[_Device]:
    """The device that a row names when its health stands in cell `at`; a partial health is not taken."""
    health = cells[at]
    if health.upper() in _NOTHING:
        # A health of NA is possible, but after a name row the same place is a Bus-Id of NA.
        if pending is not None:
            return None
    elif not _HEALTH.fullmatch(health) or _BUS_CELL.fullmatch(health):
        return None
    both = _ID_NAME.fullmatch(cells[at - 1])
    if both is not None:
        npu_id, name = int(both.group(1)), both.group(2)
    elif at >= 2 and re.fullmatch(r"[>\s]*-?\d+", cells[at - 2]) and cells[at - 1]:
        npu_id, name = int(cells[at - 2].strip("> ")), cells[at - 1]
    elif at >= 2 and re.fullmatch(r"(?!(?:310|910)$)-?\d+", cells[at - 1]) and health.upper() in _HEALTH_WORDS:
        npu_id, name = int(cells[at - 1]), ""
    else:
        return None
    if "/" in name or ((is_partial or not health) and not _CHIP_NAME.fullmatch(name)):
        return None  # figures, or the second row of a card whose Bus-Id is blank or cut
    return _Device(npu_id, None, None, name, None if is_partial else health or None, None, None)


def _condition(device: _Device, text: str, layout: _Layout) -> None:
    """Power and temperature from the rest of the first row."""
    values = [_number(match["one"]) if match["one"] else None for match in _TOKEN.finditer(text)]
    first, second = (*values, None, None)[:2]
    device.power_w, device.temperature_c = (second, first) if layout.temperature_first else (first, second)


def _chip_row(cells: list[str], layout: _Layout, device: _Device, is_cut: bool) -> bool:
    """Fills `device` from its second row; False when the row is none. The row may be cut after any cell."""
    at = next((index for index in range(len(cells) - 1, -1, -1) if _BUS_CELL.fullmatch(cells[index])), None)
    if at is None:
        place = len(cells) - layout.health_from_right
        places = [one for one in (place, place - 1, place - 2) if 1 <= one < len(cells)]
        places = [one for one in places if cells[one].upper() in _NOTHING and (cells[one] or one == place)]
        at = next((one for one in places if _has_chip(cells, one)), 0 if cells[0].upper() in {"NA", "-"} else None)
    if at is None or not _has_chip(cells, at):
        return False
    chip = _CHIP.fullmatch(cells[at - 1]) if at >= 1 else None
    if chip is not None:
        device.chip_id = int(chip.group(1))
        is_physical = layout.second_column == "phy-id" or (
            layout.second_column is None and layout.usages is None and device.name.lower() == "ascend910"
        )
        if is_physical and chip.group(2) and chip.group(2).isdecimal():
            device.physical_id = int(chip.group(2))
    device.bus_id = cells[at] if _BUS_CELL.fullmatch(cells[at]) else None
    _measures(" ".join(cells[at + 1 :]), layout, device, is_cut)
    return True


def _has_chip(cells: list[str], at: int) -> bool:
    """Whether the cell before the Bus-Id is that of a chip: its number, or blank on cards without one."""
    return at == 0 or not cells[at - 1] or _CHIP.fullmatch(cells[at - 1]) is not None


def _measures(text: str, layout: _Layout, device: _Device, is_cut: bool) -> None:
    """Load and memory: ``0   0 / 0   29954/ 65536``. A figure at the very end of a row that was cut is not taken."""
    found = list(_TOKEN.finditer(text))
    tokens = [_usage(match) for match in found]
    partial = is_cut and bool(found) and found[-1].end() == len(text.rstrip())
    if tokens and not isinstance(tokens[0], tuple):
        load = tokens.pop(0)
        device.aicore_percent = None if isinstance(load, tuple) or (partial and not tokens) else load
    usages = [token if isinstance(token, tuple) else (None, None) for token in tokens]
    if partial and usages:
        last = tokens[-1]
        usages[-1] = (last[0], None) if isinstance(last, tuple) else (None, None)
    has_hbm = re.match(r"(ascend)?9\d\d", device.name.lower()) is not None
    columns = layout.usages or (("ddr", "hbm") if has_hbm or len(usages) > 1 else ("ddr",))
    kind = "hbm" if "hbm" in columns else "ddr"
    at = columns.index(kind)
    if at >= len(usages):
        return
    used, total = usages[at]
    other = next((usage for column, usage in zip(columns, usages) if column != kind), None)
    if total == 0 and other is not None and other[1]:  # an empty column beside the one that is filled
        kind, (used, total) = ("ddr" if kind == "hbm" else "hbm"), other
    device.memory_kind = kind if used is not None or total is not None else None
    device.memory_used_mb = used
    device.memory_total_mb = total or None


def _usage(match: re.Match[str]) -> Union[Usage, Optional[float]]:
    """What one token of a cell says: a used/total pair, a number, or None."""
    if match["used"] is not None:
        used, total = match["used"], match["total"]
        return (
            int(used[:12]) if used.isdecimal() else None,
            int(total[:12]) if total.isdecimal() else None,
        )
    return _number(match["one"]) if match["one"] is not None else None


def _number(text: str) -> float:
    value = float(text[:16])
    return int(value) if value.is_integer() and "." not in text else value


def _process(cells: list[str], layout: _Layout, is_cut: bool) -> Optional[dict[str, Any]]:
    places = list(range(len(cells) - 1))
    if layout.ids_at in places:  # under its own header first: a line number may stand before the row
        places = [layout.ids_at, *(place for place in places if place != layout.ids_at)]
    for at in places:
        ids = _PROCESS_IDS.fullmatch(cells[at])
        if ids is None:
            continue
        npu, chip, rest = ids.group(1), ids.group(2), cells[at + 1 :]
        if layout.id_cells == 2 and chip is None and len(rest) > 1 and re.fullmatch(r"\d*", rest[0]):
            chip, rest = rest[0] or None, rest[1:]
        if not re.fullmatch(r"\d+|NA|-", rest[0]) or (is_cut and len(rest) == 1):
            continue
        pid, *others = rest
        # A name may hold the character of the bars: what stands before the memory belongs to it.
        end = next((i for i in range(1, len(others)) if re.match(r"\d+\s*(?:MB)?$|NA$|-$|$", others[i])), len(others))
        name = "|".join(others[:end])
        after = [*others[end:], "", ""]
        memory = re.match(r"\d+", after[0]) if not (is_cut and end == len(others) - 1) else None
        return _process_row(npu, chip, pid, name, memory.group(0) if memory else "", after[1])
    return None


def _bare_process(line: str, layout: _Layout) -> Optional[dict[str, Any]]:
    """A process row that lost its bars."""
    match = (_BARE_CONTAINED if layout.has_container else _BARE_PROCESS).fullmatch(line)
    if match is None:
        return None
    npu, chip, pid, name, memory, *more = match.groups()
    if layout.has_container and name and name.isdecimal() and more == [None]:
        name, memory, more = None, name, [memory]  # a process without a name, and its id in the container
    if layout.has_chip is False and chip is not None:
        pid, name = chip, " ".join(part for part in (pid, name) if part)
        chip = None
    return _process_row(npu, chip, pid, name or "", memory, (more or [None])[0] or "")


def _process_row(npu: str, chip: Optional[str], pid: str, name: str, memory: str, container_pid: str) -> dict[str, Any]:
    number = pid if pid.isdecimal() else container_pid
    return {
        "npu_id": int(npu),
        "chip_id": int(chip) if chip else None,
        "pid": int(number) if number.isdecimal() else None,
        "name": name if name.upper() not in _NOTHING else None,
        "memory_mb": int(memory[:12]) if memory else None,
        "container_pid": int(container_pid) if container_pid.isdecimal() else None,
    }


def _flush(device: Optional[_Device], table: Table) -> None:
    if device is not None:
        table.devices.append(asdict(device))
