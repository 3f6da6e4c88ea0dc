"""What a run says of where it ran: versions, devices, hosts, from its own records and the beginnings of its logs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from doctor.escape import decode, visible
from doctor.records.discover import LogFile
from doctor.records.reader import read
from doctor.records.record import Notice

#: bytes of a log's beginning that are looked at, and logs of one run
_HEAD, _MOST_LOGS = 512 << 10, 4
_VERSION = r"[\"']?(?:\s+version)?[\"']?\s*(?:is|==|=|:)?\s*[\"'\[]?v?(?P<value>\d+\.\d+[\w.+-]*)"
_SAID: tuple[tuple[str, re.Pattern[bytes]], ...] = tuple(
    (name, re.compile(pattern.encode(), re.IGNORECASE))
    for name, pattern in (
        ("mindspore", rf"\bmindspore(?:[_-]version| version|==){_VERSION}"),
        ("mindspore", r"runtime mindspore: (?P<value>\S+)"),
        ("mindformers", rf"\bmindformers(?:[_-]version| version|==){_VERSION}"),
        ("cann", rf"\bcann(?:[_-]version| version){_VERSION}"),
        ("cann", r"Ascend AI software package[^\n]{0,60}version (?P<value>\d+\.\d[\w.]*)"),
        ("driver", rf"\b(?:ascend|npu)?[_ -]?driver(?:[_-]version| version){_VERSION}"),
        ("python", rf"\bpython(?:[_-]version| version){_VERSION}"),
        ("python", r"/lib/python(?P<value>3\.\d{1,2})/"),
        ("transformers", r"\btransformers==(?P<value>\d+\.\d[\w.]*)"),
        ("device", r"runtime device: (?P<value>\S+)"),
        ("device", r"['\"]?device_target['\"]?: ['\"]?(?P<value>Ascend|GPU|CPU)\b"),
        ("cores", r"runtime cores: (?P<value>\d+)"),
        ("host", r"\bhost_?name[\"']?\s*[:=]\s*[\"']?(?P<value>[\w.-]{1,64})"),
        ("devices", r"\b(?:device_num|rank_size|world_size)[\"']?\s*(?:is|[:=])\s*(?P<value>\d{1,6})\b"),
    )
)
_COLLECTED = ("host.json", "collect.json", "environment.json")


def surroundings(folder: Optional[Path], versions: Mapping[str, Any], logs: Sequence[LogFile]) -> dict[str, str]:
    """Names (mindspore, cann, python, device, host, …) and what stands for them, in a fixed order: first what the run's own
    config has under `versions`, then facts of `doctor collect` beside it, then what the logs say."""
    found: dict[str, str] = {
        str(name): visible(str(value), 80) for name, value in versions.items() if value is not None
    }
    for name, value in (*_collected(folder), *_logged(logs)):
        found.setdefault(name, visible(value, 80))
    return {name: found[name] for name in sorted(found)}


def _collected(folder: Optional[Path]) -> Iterator[tuple[str, str]]:
    for name in _COLLECTED if folder is not None else ():
        assert folder is not None
        try:
            raw = (folder / name).read_bytes()
            document = json.loads(raw) if len(raw) < 32 << 20 else None
        except (OSError, ValueError):
            continue
        if isinstance(document, dict):
            yield from versions_of(document)


def versions_of(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The parts of a document of `doctor collect` that must fit together, and the cards."""
    from doctor.checks.environment.host import from_document

    host = from_document(document, "")
    if host is None:
        return
    for name, value in (
        ("mindspore", host.mindspore),
        ("mindformers", host.mindformers),
        ("cann", host.cann_version),
        ("driver", host.driver_version),
        ("python", host.python),
        ("host", host.system.text("hostname")),
        ("devices", str(host.device_count) if host.device_count else None),
        ("card", host.devices[0].name if host.devices else None),
    ):
        if value:
            yield name, value


def _logged(logs: Sequence[LogFile]) -> Iterator[tuple[str, str]]:
    for log in [log for log in logs if log.kind != "metrics"][:_MOST_LOGS]:
        head = _head(log)
        for name, pattern in _SAID:
            match = pattern.search(head)
            if match is not None:
                yield name, decode(match["value"]).rstrip(".,;")


def _head(log: LogFile) -> bytes:
    if str(log.path) == "-":
        return b""
    head: list[bytes] = []
    size = 0
    for chunk in read((log.parts or (log.path,))[0], on_notice=_ignore):
        head.append(chunk.data[: _HEAD - size])
        size += len(head[-1])
        if size >= _HEAD:
            break
    return b"".join(head)


def _ignore(notice: Notice) -> None:
    """What goes wrong with a log has been told by who read it whole."""
