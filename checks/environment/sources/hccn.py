"""Reads /etc/hccn.conf and the answers of hccn_tool: link, network health, TLS switch of each NPU's own port."""

from __future__ import annotations

import re
from typing import Any, Optional

from doctor.checks.environment.sources.machine import Machine

CONF = "/etc/hccn.conf"
TOOL_FOLDERS = ("/usr/local/Ascend/driver/tools",)
#: question -> arguments after ``hccn_tool -i N``
QUESTIONS = {
    "link": ("-link", "-g"),
    "net_health": ("-net_health", "-g"),
    "tls": ("-tls", "-g"),
    "link_stat": ("-link_stat", "-g"),
}


def configuration(machine: Machine) -> dict[str, Any]:
    """``{readable, addresses: {device id: address}}`` of the configuration file."""
    text = machine.read(CONF)
    addresses = dict(re.findall(r"^\s*address_(\d+)\s*=\s*(\S+)", text or "", re.M))
    return {
        "present": machine.exists(CONF),
        "readable": text is not None,
        "addresses": {key: addresses[key] for key in sorted(addresses, key=int)},
    }


def parse(question: str, text: str) -> Optional[Any]:
    """The answer to one of `QUESTIONS`: link "UP"/"DOWN", net_health "Success"/…, tls 0 or 1, link_stat the number
    of times the link went down; None when the text does not say."""
    if question == "link":
        match = re.search(r"link status\s*[:=]\s*(\w+)", text, re.I)
        return match.group(1).upper() if match else None
    if question == "net_health":
        match = re.search(r"net health status\s*[:=]\s*([A-Za-z][\w ]*)", text, re.I)
        return match.group(1).strip() if match else None
    if question == "tls":
        match = re.search(r"tls switch\s*\[\s*(\d)\s*\]", text, re.I)
        return int(match.group(1)) if match else None
    return len(re.findall(r"\bLINK DOWN\b", text)) if "link" in text.lower() else None
