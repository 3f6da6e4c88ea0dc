"""npu-smi's table in every layout: own figures in the shapes that the tool prints, and the shared samples where present."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.checks.environment.sources.npu_smi import parse_info

SAMPLES = Path(__file__).resolve().parents[4] / "shared" / "npu-smi"

HBM = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 25.2.3                   Version: 25.2.1                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 91.4        41                0    / 0             |
| 0                         | 0000:C1:00.0  | 7           0    / 0          3411 / 65536         |
+===========================+===============+====================================================+
| 3     910B3               | Alarm         | 100.        63                0    / 0             |
| 0                         | 0000:82:00.0  | 0           0    / 0          40123/ 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| No running processes found in NPU 0                                                            |
+===========================+===============+====================================================+
| 3       0                 | 71234         | python3.11               | 36700                   |
+===========================+===============+====================================================+
"""

A3 = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 26.0.rc1                 Version: 26.0.rc1                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 4     Ascend910           | OK            | 166.1       39                0    / 0             |
| 0     8                   | 0000:1C:00.0  | 0           0    / 0          3051 / 65536         |
+------------------------------------------------------------------------------------------------+
| 4     Ascend910           | Warning       | -           40                0    / 0             |
| 1     9                   | 0000:1E:00.0  | 55          0    / 0          61007/ 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 4       1                 | 90412         |                          | 57990                   |
+===========================+===============+====================================================+
"""

DDR = """\
+--------------------------------------------------------------------------------------------------------+
| npu-smi 23.0.3                                   Version: 23.0.3                                       |
+-------------------------------+-----------------+------------------------------------------------------+
| NPU     Name                  | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) |
| Chip    Device                | Bus-Id          | AICore(%)    Memory-Usage(MB)                        |
+===============================+=================+======================================================+
| 2144    310P3                 | OK              | NA           47                0     / 0             |
| 0       5                     | NA              | 3            1711 / 44215                            |
+===============================+=================+======================================================+
"""

#: cards of 2026 with an id column of their own and no chip row
A5 = """\
+-------------------------------------------------------------------------------------------------+
| npu-smi 25.7.rc2                                 Version: 25.7.rc2.3                            |
+--------+------------------+---------------+-----------------------------------------------------+
| NPU ID | Name             | Health        | Power(W)    Temp(C)           Hugepages-Usage(page) |
|        |                  | Bus-Id        | NPU Util(%) Memory-Usage(MB)  HBM-Usage(MB)         |
+========+==================+===============+=====================================================+
| 0      | Ascend950PR      | OK            | 190.2       44                0     / 0             |
|        |                  | 0000:11:00.0  | 12          0    / 0          6101  / 131072        |
+========+==================+===============+=====================================================+
| 6      | Ascend950PR      | Critical      | 191.0       45                0     / 0             |
|        |                  | NA            | 0           0    / 0          6077  / 131072        |
+========+==================+===============+=====================================================+
+----------------+---------------+-------------------------------------+
| NPU ID         | Process id    | Process name        | Process memory |
+================+===============+=====================================+
| 6              | 20663         | pytest              | 360            |
+================+===============+=====================================+
"""


def rows(text: str) -> list[tuple[object, ...]]:
    return [
        (d["npu_id"], d["chip_id"], d["physical_id"], d["name"], d["health"], d["memory_used_mb"], d["memory_total_mb"])
        for d in parse_info(text).devices
    ]


HBM_ROWS = [(0, 0, None, "910B3", "OK", 3411, 65536), (3, 0, None, "910B3", "Alarm", 40123, 65536)]


def test_hbm_layout() -> None:
    table = parse_info(HBM)
    assert (table.tool_version, table.driver_version) == ("25.2.3", "25.2.1")
    assert rows(HBM) == HBM_ROWS
    first = table.devices[0]
    assert (first["power_w"], first["temperature_c"], first["aicore_percent"]) == (91.4, 41, 7)
    assert first["bus_id"] == "0000:C1:00.0"
    assert table.has_process_table
    assert [(p["npu_id"], p["pid"], p["name"], p["memory_mb"]) for p in table.processes] == [
        (3, 71234, "python3.11", 36700)
    ]


def test_two_dies_a_card() -> None:
    assert rows(A3) == [
        (4, 0, 8, "Ascend910", "OK", 3051, 65536),
        (4, 1, 9, "Ascend910", "Warning", 61007, 65536),
    ]
    table = parse_info(A3)
    assert table.devices[1]["power_w"] is None
    assert [(p["npu_id"], p["chip_id"], p["name"]) for p in table.processes] == [(4, 1, None)]


def test_cards_without_hbm() -> None:
    assert rows(DDR) == [(2144, 0, None, "310P3", "OK", 1711, 44215)]
    assert parse_info(DDR).devices[0]["bus_id"] is None


def test_id_column_of_its_own() -> None:
    assert rows(A5) == [
        (0, None, None, "Ascend950PR", "OK", 6101, 131072),
        (6, None, None, "Ascend950PR", "Critical", 6077, 131072),
    ]
    table = parse_info(A5)
    assert table.devices[0]["aicore_percent"] == 12
    assert [(p["npu_id"], p["chip_id"], p["pid"], p["memory_mb"]) for p in table.processes] == [(6, None, 20663, 360)]


@pytest.mark.parametrize(
    "change",
    [
        lambda line: "> " + line,
        lambda line: "| | " + line,
        lambda line: "\t" + line,
        lambda line: "[2026-03-01 10:11:12] " + line,
        lambda line: "worker-3: " + line,
        lambda line: line + "\r",
        lambda line: "\x1b[32m" + line + "\x1b[0m",
        lambda line: line.replace("|", "│"),
        lambda line: line.replace("  ", " "),
        lambda line: line.replace("|", "|   "),
        lambda line: line.replace("|", "\\|"),
    ],
)
def test_quoted_coloured_and_misaligned_rows(change: object) -> None:
    text = "\n".join(change(line) for line in HBM.splitlines())  # type: ignore[operator]
    assert rows(text) == HBM_ROWS
    assert len(parse_info(text).processes) == 1


def test_rows_without_their_bars() -> None:
    text = "\n".join(line.replace("|", " ") for line in HBM.splitlines())
    assert rows(text) == HBM_ROWS
    assert [(p["npu_id"], p["pid"]) for p in parse_info(text).processes] == [(3, 71234)]


def test_rows_wrapped_by_a_narrow_terminal() -> None:
    wrapped = "\n".join(piece for line in HBM.splitlines() for piece in (line[:80], line[80:]) if piece.strip())
    assert rows(wrapped) == HBM_ROWS


def test_cut_at_the_top_and_at_the_bottom() -> None:
    lines = HBM.splitlines()
    assert rows("\n".join(lines[6:])) == HBM_ROWS
    # the second device lost its second row: its memory is not known, its health is
    assert rows("\n".join(lines[:10])) == [HBM_ROWS[0], (3, None, None, "910B3", "Alarm", None, None)]
    # a chip row without the name above it belongs to nobody
    assert rows("\n".join(lines[7:])) == HBM_ROWS[1:]


def test_a_figure_cut_in_the_middle_is_not_taken() -> None:
    lines = HBM.splitlines()
    cut = [*lines[:7], lines[7][: lines[7].index("65536") + 2]]
    assert rows("\n".join(cut)) == [(0, 0, None, "910B3", "OK", 3411, None)]


def test_the_later_of_two_tables_counts() -> None:
    later = HBM.replace("40123", "50123")
    assert rows(HBM + later)[1][5] == 50123
    assert rows(HBM + "npu-smi 25.2.3  Version: 25.2.1\n") == HBM_ROWS


@given(st.text(max_size=400))
def test_no_text_raises(text: str) -> None:
    parse_info(text)


@given(st.lists(st.integers(0, len(HBM) - 1), max_size=40), st.sampled_from("|/ \n0x-"))
def test_no_mutation_raises(places: list[int], char: str) -> None:
    mutated = list(HBM)
    for place in places:
        mutated[place] = char
    parse_info("".join(mutated))


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("info_*")) or [None], ids=lambda p: p.name if p else "none")
def test_shared_samples(path: Path | None) -> None:
    """Each sample names its devices by lines that hold a health word; the parser must find as many."""
    if path is None:
        pytest.skip("the shared samples are not here")
    text = path.read_text(encoding="utf-8")
    expected = sum(
        f"| {word}" in line and "Health" not in line
        for line in text.splitlines()
        for word in ("OK ", "Warning ", "Alarm ", "Critical ", "UNKNOWN ")
    )
    devices = parse_info(text).devices
    assert len(devices) == expected > 0
    for device in devices:
        assert device["memory_used_mb"] is not None and device["memory_total_mb"]
        assert device["temperature_c"] is not None and device["chip_id"] == device["chip_id"]
