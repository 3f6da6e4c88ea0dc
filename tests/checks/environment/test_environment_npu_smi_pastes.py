"""What a paste does to the table of npu-smi: wrapped, cut, quoted, without bars. A figure is right or unknown, never wrong."""

from __future__ import annotations

import json
from typing import Any, Optional

import pytest
from machines import Card, ddr_table, hbm_table

from doctor.checks.environment.sources.npu_smi import parse_info

DIES = [
    Card(npu, "Ascend910", chip, health, used, physical=2 * npu + chip)
    for npu, chip, health, used in (
        (0, 0, "OK", 3391),
        (0, 1, "Offline", 61007),
        (5, 0, "Critical", 22),
        (5, 1, "OK", 7),
    )
]
A2 = [Card(0, "910B4-1", used=3288), Card(3, "910B4-1", health="Abnormal", used=48123, bus="NA"), Card(7, used=0)]
INFERENCE = [
    Card(2, "310P3", used=1711, total=44215),
    Card(2144, "310P3", health="UNKNOWN", used=9, total=21527, bus="NA"),
]
PROCESSES = [(0, 0, 4100023, "python3.11", 1200), (5, 1, 77, "训练 任务", 57990), (3, 0, 71234, "VLLM::Worker", 45100)]
TABLES = {
    "A3": (DIES, hbm_table(DIES, PROCESSES)),
    "A2": (A2, hbm_table(A2, PROCESSES)),
    "310P": (INFERENCE, ddr_table(INFERENCE)),
}

Row = tuple[Any, ...]


def truth(cards: list[Card]) -> list[Row]:
    return [(c.npu, c.chip, c.physical, c.name, c.health, c.used, c.total) for c in cards]


def rows(text: str) -> list[Row]:
    return [
        (d["npu_id"], d["chip_id"], d["physical_id"], d["name"], d["health"], d["memory_used_mb"], d["memory_total_mb"])
        for d in parse_info(text).devices
    ]


def processes(text: str) -> list[Row]:
    return [(p["npu_id"], p["chip_id"], p["pid"], p["name"], p["memory_mb"]) for p in parse_info(text).processes]


def expected_processes(cards: list[Card]) -> list[Row]:
    ids = list(dict.fromkeys(card.npu for card in cards))
    return [row for number in ids for row in PROCESSES if row[0] == number]


@pytest.mark.parametrize("layout", TABLES)
@pytest.mark.parametrize("strips", [False, True])
def test_wrapped_at_any_width(layout: str, strips: bool) -> None:
    cards, text = TABLES[layout]
    for width in range(34, 100):
        pieces = [line[at : at + width] for line in text.splitlines() for at in range(0, len(line), width)]
        wrapped = "\n".join(piece.rstrip() if strips else piece for piece in pieces)
        assert rows(wrapped) == truth(cards), width
        if layout != "310P":
            assert processes(wrapped) == expected_processes(cards), width


def agrees(found: Row, true: Row) -> bool:
    return all(mine is None or mine == other for mine, other in zip(found, true))


@pytest.mark.parametrize("layout", TABLES)
def test_a_table_cut_anywhere_says_nothing_false(layout: str) -> None:
    cards, text = TABLES[layout]
    lines = text.splitlines()
    cuts = [text[:end] for end in range(1, len(text), 5)]
    cuts += ["\n".join(line[:width].rstrip() for line in lines) for width in range(20, len(lines[0]))]
    for cut in cuts:
        found = rows(cut)
        assert len(found) <= len(cards)
        assert all(agrees(*pair) for pair in zip(found, truth(cards))), cut
        for row in processes(cut):
            one = next(true for true in PROCESSES if true[0] == row[0])
            assert row[2] in (None, one[2]) and row[4] in (None, one[4]), cut
            assert row[3] is None or one[3].startswith(row[3])


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("  ", "&nbsp; "),
        lambda text: text.replace("|", "&#124;"),
        lambda text: text.replace("| ", "|\u200b "),
        lambda text: "\n".join(f"{number:4d}  {line}" for number, line in enumerate(text.splitlines())),
        lambda text: "\n".join(f"npu.log:{number}:{line}" for number, line in enumerate(text.splitlines())),
        lambda text: "\n".join(
            json.dumps({"log": line + "\n", "time": "2026-03-01T1:2:3Z"}) for line in text.splitlines()
        ),
        lambda text: "\n".join(line + "  <-- 就是这张卡 12" * ("OK" in line) for line in text.splitlines()),
        lambda text: "\n".join(line + " | 备注" * ("65536" in line or "OK" in line) for line in text.splitlines()),
        lambda text: json.dumps({"stdout": text}),
        lambda text: "output: " + json.dumps(text, ensure_ascii=False),
        lambda text: "\n".join(line.strip("| ") for line in text.splitlines()),
        lambda text: "\n".join(f"2026-03-11 10:00:11 | INFO | {line}" for line in text.splitlines()),
        lambda text: "环境如下：\n```\n" + text + "```\nNPU 3 Abnormal 影响训练吗？\n",
        lambda text: text + "\n".join(text.splitlines()[:8]),
        lambda text: "\n".join(line for line in text.splitlines() if not line.startswith("+")),
    ],
)
@pytest.mark.parametrize("layout", TABLES)
def test_quoted(layout: str, change: Any) -> None:
    cards, text = TABLES[layout]
    assert rows(change(text)) == truth(cards)
    if layout != "310P":
        assert processes(change(text)) == expected_processes(cards)


@pytest.mark.parametrize("layout", TABLES)
def test_rows_that_lost_their_bars(layout: str) -> None:
    """Health words that are not known beforehand, and a Bus-Id of NA, are told by their place."""
    cards, text = TABLES[layout]
    bare = text.replace("|", " ")
    assert rows(bare) == truth(cards)
    if layout != "310P":
        assert processes(bare) == expected_processes(cards)


def table(first: str, second: str, *devices: str, processes: str = "") -> str:
    head = ["| npu-smi 25.3.0     Version: 25.3.0 |", first, second]
    return "\n".join([*head, *devices, processes]) + "\n"


HEADER = "| NPU Name | Health | Power(W) Temp(C) Hugepages-Usage(page)|"
COLUMNS = "| Chip | Bus-Id | AICore(%) Memory-Usage(MB) HBM-Usage(MB) |"


@pytest.mark.parametrize(
    ("columns", "cells", "used", "total"),
    [
        (COLUMNS, "5  0 / 0  NA / NA", None, None),
        (COLUMNS, "5  1851 / 15079  NA", None, None),
        (COLUMNS, "NA NA / NA 3400 / 65536", 3400, 65536),
        (COLUMNS, "5  1711 / 44215  0 / 0", 1711, 44215),
        ("| Chip | Bus-Id | AICore(%) HBM-Usage(MB) |", "5 3400/65536", 3400, 65536),
        ("| Chip | Bus-Id | AICore(%) HBM-Usage(MB) Memory-Usage(MB) |", "5 3400/65536 0 / 0", 3400, 65536),
        ("", "5  1851 / 15079  NA / NA", None, None),
    ],
)
def test_memory_stands_in_the_column_that_the_header_names(
    columns: str, cells: str, used: Optional[int], total: Optional[int]
) -> None:
    text = table(
        HEADER if columns else "", columns, "| 4 910B3 | OK | 90.1 40 0 / 0 |", f"| 0 | 0000:C1:00.0 | {cells} |"
    )
    assert rows(text) == [(4, 0, None, "910B3", "OK", used, total)]


def test_a_blank_health_is_unknown_and_keeps_the_device() -> None:
    text = table(HEADER, COLUMNS, "| 4 910B3 |  | NA NA 0 / 0 |", "| 0 | NA | 0  0 / 0  3400 / 65536 |")
    assert rows(text) == [(4, 0, None, "910B3", None, 3400, 65536)]


def test_process_rows_by_their_header() -> None:
    contained = "| NPU Chip | Process id | Process name | Process memory(MB) | Process id in container |\n"
    assert processes(contained + "| 0 1 | NA | a|b | 360 | 21 |\n") == [(0, 1, 21, "a|b", 360)]
    assert processes(contained.replace("|", " ") + " 0  1  4100  360  21 \n") == [(0, 1, 4100, None, 360)]
    apart = "| NPU | Chip | Process id | Process name | Process memory(MB) |\n"
    assert processes(apart + "| 0 | 1 | 99 | 12345 | 360 |\n") == [(0, 1, 99, "12345", 360)]
    single = "| NPU ID | Process  id | Process name | Process memory |\n"
    assert processes(single + "| 6 | 99 |  | 360 |\n") == [(6, None, 99, None, 360)]
    assert processes(single.replace("|", " ") + " 6   99   360 \n") == [(6, None, 99, None, 360)]
