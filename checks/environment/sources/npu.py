"""Asks npu-smi and hccn_tool: which commands to run, and their answers as facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from doctor.checks.environment.sources import hccn
from doctor.checks.environment.sources import npu_smi_details as details
from doctor.checks.environment.sources.commands import Command, Output, which
from doctor.checks.environment.sources.machine import Machine
from doctor.checks.environment.sources.npu_smi import parse_info
from doctor.escape import visible

NPU_SMI_FOLDERS = ("/usr/local/bin", "/usr/local/sbin", "/usr/local/Ascend/driver/tools")
#: A healthy npu-smi takes several seconds on eight cards.
NPU_SMI_TIMEOUT = 10.0
#: How many cards are asked one by one.
MOST_CARDS = 16


def first_round(machine: Machine, nodes: Mapping[str, Any]) -> dict[str, Command]:
    """The table of npu-smi, and for a machine with device nodes the state of the NPUs' own network ports."""
    commands: dict[str, Command] = {}
    tool = which(machine, "npu-smi", NPU_SMI_FOLDERS)
    if tool is not None:
        commands["npu-smi"] = Command((tool, "info"), NPU_SMI_TIMEOUT)
    port_tool = which(machine, "hccn_tool", hccn.TOOL_FOLDERS)
    if port_tool is not None:
        for node in nodes["davinci"][:MOST_CARDS]:
            for question, arguments in hccn.QUESTIONS.items():
                commands[f"hccn {node['id']} {question}"] = Command((port_tool, "-i", str(node["id"]), *arguments))
    return commands


def facts(machine: Machine, outputs: Mapping[str, Output]) -> dict[str, Any]:
    """Devices and processes, or `error` and its kind."""
    row: dict[str, Any] = {
        "driver_version": None,
        "tool_version": None,
        "devices": [],
        "processes": [],
        "has_process_table": False,
        "error": None,
        "error_kind": None,
        "exit_code": None,
        "mapping": [],
        "boards": [],
        "alarms": [],
        "ecc": [],
    }
    output = outputs.get("npu-smi")
    if output is None:
        folder = next((p for p in _on_path(machine) if machine.is_folder(p)), None)
        where = f"{folder} is a folder" if folder else "not on PATH, nor in /usr/local/bin or /usr/local/sbin"
        return {**row, "error": f"npu-smi is not installed: {where}", "error_kind": "not-found"}
    return {**row, **_answer(output)}


def _on_path(machine: Machine) -> list[str]:
    return [f"{folder}/npu-smi" for folder in machine.environ.get("PATH", "").split(":") if folder.startswith("/")]


def _answer(output: Output) -> dict[str, Any]:
    table = asdict(parse_info(output.text))
    answer: dict[str, Any] = {**table, "exit_code": output.exit_code}
    if table["devices"]:
        if output.state == "timeout":
            shown = len(table["devices"])
            error = f"npu-smi listed {shown} devices and did not end within {NPU_SMI_TIMEOUT:g} s"
            return {**answer, "error": error, "error_kind": "timeout"}
        return answer
    both = output.text + "\n" + output.errors
    if output.state == "missing":
        return {**answer, "error": f"npu-smi could not be started: {output.message}", "error_kind": "not-startable"}
    if output.state == "timeout":
        return {**answer, "error": f"npu-smi did not answer within {NPU_SMI_TIMEOUT:g} s", "error_kind": "timeout"}
    kind, line = details.classify_failure(both)
    if kind == "unreadable" and table["driver_version"] is not None:
        return {**answer, "error": "npu-smi printed a table without devices", "error_kind": "no-rows"}
    if line is None:
        line = f"npu-smi printed nothing and ended with exit code {output.exit_code}"
    return {**answer, "error": visible(line, 300), "error_kind": kind}


def second_round(machine: Machine, npu: Mapping[str, Any]) -> dict[str, Command]:
    """Questions about single cards: the board of the first, memory errors of each, alarms of those that are not OK, ids
    where they are not plain, processes where the table has none though memory is taken."""
    tool = which(machine, "npu-smi", NPU_SMI_FOLDERS)
    if tool is None or not npu["devices"] or npu["error_kind"] == "timeout":
        return {}
    commands: dict[str, Command] = {}

    def ask(key: str, *arguments: str) -> None:
        commands[key] = Command((tool or "", "info", *arguments), NPU_SMI_TIMEOUT)

    ids = list(dict.fromkeys(device["npu_id"] for device in npu["devices"]))[:MOST_CARDS]
    ask(f"board {ids[0]}", "-t", "board", "-i", str(ids[0]))
    if ids != list(range(len(ids))) or len(npu["devices"]) != len(ids):
        ask("mapping", "-m")
    for device in npu["devices"][:MOST_CARDS]:
        number, chip = device["npu_id"], device["chip_id"] or 0
        if (device["health"] or "OK").upper() != "OK":
            ask(f"health {number} {chip}", "-t", "health", "-i", str(number), "-c", str(chip))
        ask(f"ecc {number}", "-t", "ecc", "-i", str(number))
        total, used = device["memory_total_mb"], device["memory_used_mb"]
        if not npu["has_process_table"] and total and used and used > total // 4:
            ask(f"proc-mem {number}", "-t", "proc-mem", "-i", str(number))
    return commands


def add_details(npu: dict[str, Any], outputs: Mapping[str, Output]) -> None:
    """Puts the answers of `second_round` where they belong; what did not answer leaves no trace."""
    for key, output in outputs.items():
        if output.state != "ok":
            continue
        what, *numbers = key.split()
        text = output.text
        if what == "mapping":
            npu["mapping"] = details.parse_mapping(text)
        elif what == "board":
            npu["boards"].append(
                {
                    "npu_id": int(numbers[0]),
                    "software": details.value(text, "Software Version"),
                    "firmware": details.value(text, "Firmware Version"),
                    "compatibility": details.value(text, "Compatibility"),
                    "faulty_chips": details.value(text, "Faulty Chip Count"),
                    "product": details.value(text, "Product Name"),
                }
            )
        elif what == "proc-mem":
            npu["processes"] += details.parse_process_memory(text, int(numbers[0]))
        elif what == "health":
            npu["alarms"].append(
                {
                    "npu_id": int(numbers[0]),
                    "chip_id": int(numbers[1]),
                    "code": details.value(text, "Error Code"),
                    "information": details.value(text, "Error Information"),
                }
            )
        elif what == "ecc":
            npu["ecc"] += details.parse_ecc(text, int(numbers[0]))


def hccn_answers(outputs: Mapping[str, Output]) -> list[dict[str, Any]]:
    """One row a port: {id, link, net_health, tls, link_stat}; None for what was not answered."""
    rows: dict[int, dict[str, Any]] = {}
    for key, output in outputs.items():
        if not key.startswith("hccn "):
            continue
        _, number, question = key.split()
        row = rows.setdefault(int(number), {"id": int(number), **dict.fromkeys(hccn.QUESTIONS)})
        if output.state == "ok":
            row[question] = hccn.parse(question, output.text)
    return [rows[number] for number in sorted(rows)]
