"""Reads /etc/hccn.conf and the answers of hccn_tool: link and its record, network health, TLS switch of each NPU's port."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timezone
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
    """The answer to one of `QUESTIONS`: link "UP"/"DOWN", net_health "Success"/…, tls 0 or 1, link_stat as
    `link_record` gives it; None when the text does not say."""
    if question == "link":
        match = re.search(r"link status\s*[:=]\s*(\w+)", text, re.I)
        return match.group(1).upper() if match else None
    if question == "net_health":
        match = re.search(r"net health status\s*[:=]\s*([A-Za-z][\w ]*)", text, re.I)
        return match.group(1).strip() if match else None
    if question == "tls":
        match = re.search(r"tls switch\s*\[\s*(\d)\s*\]", text, re.I)
        return int(match.group(1)) if match else None
    return link_record(text)


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TIME = r"(?:[A-Z][a-z]{2}\s+)?([A-Z][a-z]{2})\s+(\d{1,2})\s+(\d{1,2}):(\d{2}):(\d{2})\s+(\d{4})"
DAY = 24 * 3600


def link_record(text: str) -> Optional[dict[str, Any]]:
    """``{up_count, downs, downs_last_day, last_down}`` of a port's link record: how often it went down in all of it, and
    within a day before the tool's own clock. None when the text is no such record."""
    count = re.search(r"link up count\s*:\s*(\d{1,9})", text, re.I)
    downs = list(re.finditer(rf"({_TIME})\s+LINK DOWN\b", text))
    if count is None and not re.search(r"link change records", text, re.I):
        return None
    now = re.search(rf"current time\s*:\s*({_TIME})", text, re.I)
    times = [(_seconds(match.groups()[1:]), match.group(1)) for match in downs]
    clock = _seconds(now.groups()[1:]) if now is not None else None
    known = [(seconds, words) for seconds, words in times if seconds is not None]
    recent = [seconds for seconds, _ in known if clock is not None and 0 <= clock - seconds <= DAY]
    return {
        "up_count": int(count.group(1)) if count is not None else None,
        "downs": len(downs),
        "downs_last_day": len(recent) if clock is not None else None,
        "last_down": max(known)[1] if known else None,
    }


def _seconds(parts: Sequence[str]) -> Optional[int]:
    month, *numbers = parts
    if month.lower() not in _MONTHS:
        return None
    day, hour, minute, second, year = (int(number) for number in numbers)
    try:
        moment = datetime(year, _MONTHS.index(month.lower()) + 1, day, hour, minute, second, tzinfo=timezone.utc)
    except ValueError:
        return None
    return int(moment.timestamp())
