"""Facts of the launcher: rank table, host file, and whether the scheduler's address resolves and its port is free."""

from __future__ import annotations

import json
import re
import threading
from typing import Any, Optional

from doctor.checks.environment.sources.machine import Machine

RANK_TABLE_VARIABLES = ("RANK_TABLE_FILE", "MINDSPORE_HCCL_CONFIG_PATH")
HOST_FILE_VARIABLES = ("OMPI_MCA_orte_default_hostfile", "MS_HOSTFILE", "HOSTFILE")
TABLE_LIMIT = 8 * 1024 * 1024
DEFAULT_PORT = 8118


def facts(machine: Machine, trains: bool = False) -> dict[str, Any]:
    """``{rank_table, host_file, master, default_port_state}``: each None where nothing names one. On a machine that
    `trains`, the port that msrun takes by default is looked at too."""
    master = _master(machine)
    return {
        "rank_table": _rank_table(machine),
        "host_file": _host_file(machine),
        "master": master,
        "default_port_state": _port_state(DEFAULT_PORT) if trains and master is None else None,
    }


def _rank_table(machine: Machine) -> Optional[dict[str, Any]]:
    variable = next((name for name in RANK_TABLE_VARIABLES if machine.environ.get(name)), None)
    if variable is None:
        return None
    path = machine.environ[variable]
    place = path if path.startswith("/") else f"{machine.cwd.rstrip('/')}/{path}"
    return {"variable": variable, **rank_table(machine.read_bytes(place, TABLE_LIMIT + 1), path)}


def rank_table(raw: Optional[bytes], path: str) -> dict[str, Any]:
    """The table as facts: version, status, servers with their devices; `error` says why it could not be read."""
    row: dict[str, Any] = {
        "path": path,
        "error": None,
        "sha256": None,
        "version": None,
        "status": None,
        "server_count": None,
        "servers": [],
        "super_pods": None,
        "ordered": None,
    }
    if raw is None:
        return {**row, "error": "not there or not readable"}
    if len(raw) > TABLE_LIMIT:
        return {**row, "error": "larger than 8 MiB: not a rank table"}
    import hashlib

    row["sha256"] = hashlib.sha256(raw).hexdigest()
    try:
        table = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        return {**row, "error": f"not JSON: {str(error)[:120]}"}
    if not isinstance(table, dict):
        return {**row, "error": "not a JSON object"}
    servers = table.get("server_list")
    if not isinstance(servers, list):
        old = "group_list" in table
        return {**row, "error": "the old format with group_list" if old else "no server_list"}
    row["version"] = _text(table.get("version"))
    row["status"] = _text(table.get("status"))
    row["server_count"] = _text(table.get("server_count"))
    pods = table.get("super_pod_list")
    row["super_pods"] = len(pods) if isinstance(pods, list) else None
    row["servers"] = [_server(server) for server in servers[:4096] if isinstance(server, dict)]
    row["ordered"] = _ordered(row["servers"])
    return row


def _ordered(servers: list[dict[str, Any]]) -> Optional[bool]:
    """Whether rank ids follow the dictionary order of server_id, as HCCL wants it; kept, since redacting loses it."""
    ranks = [
        (int(device["rank_id"]), server["server_id"] or "")
        for server in servers
        for device in server["devices"]
        if (device["rank_id"] or "").isdecimal() and len(device["rank_id"]) < 8
    ]
    names = [name for _, name in sorted(ranks)]
    return names == sorted(names) if names else None


def _server(server: dict[str, Any]) -> dict[str, Any]:
    devices = server.get("device")
    return {
        "server_id": _text(server.get("server_id")),
        "devices": [
            {key: _text(device.get(key)) for key in ("device_id", "device_ip", "rank_id", "super_device_id")}
            for device in (devices if isinstance(devices, list) else [])[:64]
            if isinstance(device, dict)
        ],
    }


def _text(value: Any) -> Optional[str]:
    return None if value is None or isinstance(value, (dict, list)) else str(value)[:200]


def _host_file(machine: Machine) -> Optional[dict[str, Any]]:
    path = next((machine.environ[name] for name in HOST_FILE_VARIABLES if machine.environ.get(name)), None)
    if path is None:
        path = next((name for name in ("hostfile", "hostfile.txt") if machine.exists(f"{machine.cwd}/{name}")), None)
    if path is None:
        return None
    text = machine.read(path if path.startswith("/") else f"{machine.cwd}/{path}", 1024 * 1024)
    if text is None:
        return {"path": path, "error": "not there or not readable", "hosts": []}
    return {"path": path, "error": None, "hosts": host_lines(text)}


def host_lines(text: str) -> list[dict[str, Any]]:
    """``10.0.0.1 slots=8`` (Open MPI), ``node1:8`` (MPICH), bare names; `line` counts from 1, `slots` may be None."""
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(text.splitlines()[:20000], 1):
        body = line.split("#", 1)[0].strip()
        if not body:
            continue
        first = body.split()[0]
        slots = re.search(r"(?:slots|max[-_]slots)\s*=\s*(\S+)", body)
        host, colon, count = first.partition(":")
        if colon and count.isdecimal() and slots is None:
            rows.append({"line": number, "host": host, "slots": count})
        else:
            rows.append({"line": number, "host": first, "slots": slots.group(1) if slots else None})
    return rows


def _master(machine: Machine) -> Optional[dict[str, Any]]:
    """The scheduler's address: msrun exports MS_SCHED_HOST and MS_SCHED_PORT, other launchers MASTER_ADDR/PORT."""
    environ = machine.environ
    host = environ.get("MS_SCHED_HOST") or environ.get("MASTER_ADDR")
    port_text = environ.get("MS_SCHED_PORT") or environ.get("MASTER_PORT")
    if host is None and port_text is None:
        return None
    port = int(port_text) if port_text and port_text.isdecimal() and int(port_text) < 65536 else None
    addresses, reason = _resolve(host) if host else (None, None)
    local = None if host is None else host in {"127.0.0.1", "localhost", "0.0.0.0"} or _is_here(addresses)
    return {
        "host": host,
        "port": port_text,
        "resolved": addresses,
        "resolve_error": reason,
        "is_this_host": local,
        "port_state": _port_state(port) if port is not None and (local or host is None) else None,
    }


def _resolve(host: str) -> tuple[Optional[list[str]], Optional[str]]:
    import socket

    answer: list[Any] = []

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)
        except (OSError, UnicodeError) as error:
            answer.append(str(error))
        else:
            answer.append(sorted({str(entry[4][0]) for entry in found}))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(2.0)
    if not answer:
        return None, "no answer within 2 s"
    return (None, answer[0]) if isinstance(answer[0], str) else (answer[0], None)


def _is_here(addresses: Optional[list[str]]) -> bool:
    """Whether one of the addresses belongs to this host: a socket can be bound to it."""
    import socket

    for address in addresses or ():
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.bind((address, 0))
            return True
        except OSError:
            continue
    return False


def _port_state(port: int) -> str:
    """free, in use, or not permitted; told by binding to it for an instant."""
    import errno
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError as error:
            return "in use" if error.errno == errno.EADDRINUSE else "not permitted"
    return "free"
