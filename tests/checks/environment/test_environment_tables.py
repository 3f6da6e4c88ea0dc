"""Tables that nobody has seen: built from drawn figures in every layout, then spoiled; the parser must give the figures back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Optional

from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.checks.environment.sources.npu_smi import parse_info


@dataclass(frozen=True)
class Die:
    npu: int
    chip: int
    name: str
    health: str
    power: Optional[float]
    temperature: int
    aicore: int
    ddr: tuple[int, int]
    memory: tuple[int, int]
    bus: Optional[str]
    physical: Optional[int]


@dataclass(frozen=True)
class Layout:
    """Column widths, and which columns there are."""

    kind: str  # hbm, a3, ddr, a5
    first: int
    second: int
    third: int
    hugepages: bool
    slash: str


LAYOUTS = st.builds(
    Layout,
    kind=st.sampled_from(["hbm", "a3", "ddr", "a5"]),
    first=st.integers(26, 34),
    second=st.integers(15, 18),
    third=st.integers(52, 72),
    hugepages=st.booleans(),
    slash=st.sampled_from([" / ", "/ ", "/", "  /  "]),
)
NAMES = {
    "hbm": ["910A", "910B", "910B2C", "910B4-1", "910ProB"],
    "a3": ["Ascend910"],
    "ddr": ["310", "310P3", "310B4"],
    "a5": ["Ascend950PR", "Ascend950DT"],
}
HEALTHS = st.sampled_from(["OK", "OK", "OK", "Warning", "Alarm", "Critical", "UNKNOWN"])
BUS = st.builds(lambda a, b: f"0000:{a:02X}:{b:02X}.0", st.integers(0, 255), st.integers(0, 31))


@st.composite
def machines(draw: st.DrawFn) -> tuple[Layout, list[Die], list[tuple[int, int, int, str, int]]]:
    layout = draw(LAYOUTS)
    ids = sorted(draw(st.sets(st.one_of(st.integers(0, 15), st.integers(2000, 33000)), min_size=1, max_size=8)))
    dies = []
    for npu in ids:
        for chip in range(2 if layout.kind == "a3" else 1):
            total = draw(st.sampled_from([21534, 32768, 44215, 65536, 131072]))
            dies.append(
                Die(
                    npu=npu,
                    chip=chip,
                    name=draw(st.sampled_from(NAMES[layout.kind])),
                    health=draw(HEALTHS),
                    power=draw(st.sampled_from([None, 7.2, 93.4, 100.0, 412.9])) if chip == 0 else None,
                    temperature=draw(st.integers(20, 99)),
                    aicore=draw(st.integers(0, 100)),
                    ddr=draw(st.sampled_from([(0, 0), (2319, 15567)])),
                    memory=(draw(st.integers(0, total)), total),
                    bus=draw(BUS) if layout.kind != "ddr" or draw(st.booleans()) else None,
                    physical=draw(st.integers(0, 15)) if layout.kind == "a3" else None,
                )
            )
    processes = draw(
        st.lists(
            st.tuples(
                st.sampled_from(ids),
                st.just(0),
                st.integers(1, 4_000_000),
                st.sampled_from(["python", "python3.11", "ray::Worker", "msrun"]),
                st.integers(1, 60000),
            ),
            max_size=4,
        )
    )
    return layout, dies, list(processes)


def number(value: Optional[float]) -> str:
    return "NA" if value is None else (f"{value:.0f}." if value == 100.0 else f"{value}")


def pair(values: tuple[int, int], slash: str) -> str:
    return f"{values[0]}{slash}{values[1]}"


def draw_table(layout: Layout, dies: list[Die], processes: list[tuple[int, int, int, str, int]], version: str) -> str:
    def row(*cells: tuple[str, int]) -> str:
        return "|" + "|".join(f" {text:<{width}}" for text, width in cells) + "|"

    one, two, three = layout.first, layout.second, layout.third
    border = "+" + "=" * (one + 1) + "+" + "=" * (two + 1) + "+" + "=" * (three + 1) + "+"
    pages = "          Hugepages-Usage(page)" if layout.hugepages else ""
    lines = [f"| npu-smi {version}       Version: {version}        |", border]
    if layout.kind == "a5":
        id_width, name_width = 6, one - 9
        lines += [
            row(("NPU ID", id_width), ("Name", name_width), ("Health", two), (f"Power(W)    Temp(C){pages}", three)),
            row(
                ("", id_width),
                ("", name_width),
                ("Bus-Id", two),
                ("NPU Util(%) Memory-Usage(MB)  HBM-Usage(MB)", three),
            ),
        ]
    else:
        chip_head = {"hbm": "Chip", "a3": "Chip  Phy-ID", "ddr": "Chip    Device"}[layout.kind]
        memory_head = "Memory-Usage(MB)" if layout.kind == "ddr" else "Memory-Usage(MB)  HBM-Usage(MB)"
        lines += [
            row(("NPU   Name", one), ("Health", two), (f"Power(W)    Temp(C){pages}", three)),
            row((chip_head, one), ("Bus-Id", two), (f"AICore(%)   {memory_head}", three)),
        ]
    lines.append(border)
    for place, die in enumerate(dies):
        huge = f"     {pair((0, 0), layout.slash)}" if layout.hugepages else ""
        top = f"{number(die.power)}       {die.temperature}{huge}"
        memory = pair(die.memory, layout.slash)
        bottom = (
            f"{die.aicore}      {memory}"
            if layout.kind == "ddr"
            else f"{die.aicore}     {pair(die.ddr, layout.slash)}     {memory}"
        )
        bus = die.bus or "NA"
        if layout.kind == "a5":
            lines += [
                row((str(die.npu), 6), (die.name, one - 9), (die.health, two), (top, three)),
                row(("", 6), ("", one - 9), (bus, two), (bottom, three)),
            ]
        else:
            second = {"hbm": f"{die.chip}", "a3": f"{die.chip}     {die.physical}", "ddr": f"{die.chip}       {place}"}[
                layout.kind
            ]
            lines += [
                row((f"{die.npu:<6}{die.name}", one), (die.health, two), (top, three)),
                row((second, one), (bus, two), (bottom, three)),
            ]
        lines.append(border)
    lines.append(
        row(("NPU     Chip", one), ("Process id", two), ("Process name             | Process memory(MB)", three))
    )
    lines.append(border)
    for npu in dict.fromkeys(die.npu for die in dies):
        own = [entry for entry in processes if entry[0] == npu]
        for _, chip, pid, name, memory_mb in own:
            ids = f"{npu}" if layout.kind == "a5" else f"{npu:<8}{chip}"
            lines.append(row((ids, one), (str(pid), two), (f"{name:<25}| {memory_mb}", three)))
        if not own:
            lines.append(f"| No running processes found in NPU {npu}    |")
        lines.append(border)
    return "\n".join(lines) + "\n"


SPOIL = {
    "none": lambda text: text,
    "quoted": lambda text: "".join(f"> {line}\n" for line in text.splitlines()),
    "indented": lambda text: "".join(f"\t    {line}\n" for line in text.splitlines()),
    "stamped": lambda text: "".join(f"2026-03-02 10:11:12,345 - INFO - {line}\n" for line in text.splitlines()),
    "windows": lambda text: text.replace("\n", "\r\n"),
    "ranked": lambda text: "".join(f"[rank3] {line}\n" for line in text.splitlines()),
    "left border lost": lambda text: "".join(f"{line[1:]}\n" for line in text.splitlines()),
    "right border lost": lambda text: "".join(f"{line.rstrip('|').rstrip()}\n" for line in text.splitlines()),
    "in a log": lambda text: "starting\nerror: x | y\n" + text + "done | 3 | OK | 4\n",
    "twice": lambda text: text.replace("OK", "Alarm") + text,
}


@settings(max_examples=120, deadline=None)
@given(machines(), st.sampled_from(sorted(SPOIL)))
def test_figures_come_back(machine: tuple[Layout, list[Die], list[tuple[int, int, int, str, int]]], how: str) -> None:
    layout, dies, processes = machine
    text = SPOIL[how](draw_table(layout, dies, processes, "25.5.1"))
    table = parse_info(text)
    assert (table.tool_version, table.driver_version) == ("25.5.1", "25.5.1")
    got = [
        Die(
            npu=row["npu_id"],
            chip=row["chip_id"] or 0,
            name=row["name"],
            health=row["health"],
            power=row["power_w"],
            temperature=row["temperature_c"],
            aicore=row["aicore_percent"],
            ddr=(0, 0),
            memory=(row["memory_used_mb"], row["memory_total_mb"]),
            bus=row["bus_id"],
            physical=row["physical_id"],
        )
        for row in table.devices
    ]
    assert got == [replace(die, ddr=(0, 0)) for die in dies]
    wanted = sorted(processes)
    assert (
        sorted(
            (row["npu_id"], row["chip_id"] or 0, row["pid"], row["name"], row["memory_mb"]) for row in table.processes
        )
        == wanted
    )
