"""What the environment family judges: one host, or the hosts of one job, as collected documents."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional

from doctor.check import Check, Options, Skip, check
from doctor.checks.environment.host import KNOWN_KEYS, Host, from_document
from doctor.errors import UsageError
from doctor.finding import Finding, Text
from doctor.rule import Rule

#: a collected document is some 40 KB
LIMIT = 32 * 1024 * 1024


@dataclass(frozen=True)
class Inspection:
    """The hosts under examination. Every check is a pure function of them."""

    hosts: tuple[Host, ...]
    documents: tuple[dict[str, Any], ...]


def recognises(path: Path) -> bool:
    """True for a document of `doctor collect` only: a machine itself is not a path."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as handle:
            head = handle.read(4096)
    except OSError:
        return False
    return head.lstrip()[:1] == b"{" and b'"collect"' in head and b'"facts"' in head


def load(path: Optional[Path], options: Options) -> Inspection:
    """Collects the facts of this machine, or reads those of `options.hosts`. Raises UsageError when a file cannot be used."""
    # A file given twice is one node, not two of one name.
    files = list(dict.fromkeys([*([str(path)] if path is not None else []), *options.hosts]))
    if files:
        documents = [_read(name) for name in files]
        labels = _labels(documents, files)
    else:
        from doctor.checks.environment.collect import collect

        documents, labels = [collect(python=options.python, deep=options.deep)], [""]
    hosts = []
    for document, label, name in zip(documents, labels, files or ["this machine"]):
        host = from_document(document, label, options.devices, options.keep)
        if host is None:
            raise UsageError(
                Text(
                    f"{name}: not the facts of a machine (none of the keys {', '.join(KNOWN_KEYS)}).",
                    f"{name}：不是机器信息文件（没有 {'、'.join(KNOWN_KEYS)} 中的任何一项）。",
                ),
                Text("Write one with: doctor collect > host.json", "请先生成：doctor collect > host.json"),
            )
        hosts.append(host)
    return Inspection(tuple(hosts), tuple(documents))


def _read(name: str) -> dict[str, Any]:
    try:
        if name == "-":  # ssh node doctor collect | doctor check --host -
            raw = sys.stdin.buffer.read(LIMIT + 1)
        else:
            with Path(name).open("rb") as handle:
                raw = handle.read(LIMIT + 1)
        if len(raw) > LIMIT:
            raise UsageError(
                Text(
                    f"{name}: larger than {LIMIT >> 20} MiB, not the facts of a machine.",
                    f"{name}：超过 {LIMIT >> 20} MiB，不是机器信息文件。",
                ),
                Text("Write it with: doctor collect > host.json", "请先生成：doctor collect > host.json"),
            )
        document = json.loads(raw.decode("utf-8-sig"))
    except OSError as error:
        raise UsageError(
            Text(f"{name}: cannot be read: {error.strerror}.", f"{name}：无法读取：{error.strerror}。"),
            Text("Write it with: doctor collect > host.json", "请先生成：doctor collect > host.json"),
        ) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(
            Text(f"{name}: not JSON: {str(error)[:160]}.", f"{name}：不是 JSON：{str(error)[:160]}。"),
            Text("Write it with: doctor collect > host.json", "请先生成：doctor collect > host.json"),
        ) from error
    return document if isinstance(document, dict) else {}


def card_memory(files: Sequence[str]) -> Optional[int]:
    """Bytes of the smallest device that the host documents among `files` show; None when none shows one."""
    sizes = [
        device.total_mb
        for name in files
        if recognises(Path(name))
        for host in (from_document(_read(name), ""),)
        if host is not None
        for device in host.devices
        if device.total_mb
    ]
    return min(sizes) << 20 if sizes else None


def _labels(documents: list[dict[str, Any]], files: list[str]) -> list[str]:
    """Names for the hosts of a job: their host names where these tell them apart, else the files'."""
    if len(files) == 1:
        return [""]
    names = []
    for document in documents:
        host = from_document(document, "")
        names.append((host.system.text("hostname") if host else None) or "")
    return names if all(names) and len(set(names)) == len(names) else files


def facts(subject: Inspection) -> dict[str, Any]:
    """The collected facts; of several hosts, a list under ``hosts``."""
    bare = [
        document["facts"] if isinstance(document.get("facts"), dict) else document for document in subject.documents
    ]
    return bare[0] if len(bare) == 1 else {"hosts": bare}


def headline(subject: Inspection) -> Iterator[Text]:
    """One line a host: what was judged."""
    for host in subject.hosts[:8]:
        parts = [
            f"{name} {version}"
            for name, version in (
                ("MindSpore", host.mindspore),
                ("MindFormers", host.mindformers),
                ("CANN", host.cann_version),
                ("driver", host.driver_version),
            )
            if version is not None
        ]
        groups: dict[str, int] = {}
        for device in host.devices:
            size = f" {device.total_mb / 1024:.0f} GB" if device.total_mb else ""
            groups[f"{device.name}{size}"] = groups.get(f"{device.name}{size}", 0) + 1
        parts += [f"{count} x {name}" for name, count in groups.items()]
        if host.python is not None:
            parts.append(f"Python {host.python}")
        line = (f"{host.label}: " if host.label else "") + " · ".join(parts)
        if parts:
            yield Text(line, line.replace("driver ", "驱动 "))
        if host.facts.flag("deep", "finished"):
            yield _computed(host)


def _computed(host: Host) -> Text:
    """What `--deep` did: the device and the seconds of each stage."""
    device, seconds = host.facts.text("deep", "device") or "?", host.facts.pairs("deep", "seconds")
    prefix = f"{host.label}: " if host.label else ""
    return Text(
        f"{prefix}computed on {device}: " + ", ".join(f"{stage} {value} s" for stage, value in seconds.items()),
        f"{prefix}已在 {device} 上计算：" + "，".join(f"{stage} {value} 秒" for stage, value in seconds.items()),
    )


def host_check(rule: Rule) -> Callable[[Callable[[Host], Iterator[Finding]]], Check[Inspection]]:
    """A check of one host: it runs for each, and equal findings of several hosts become one that names them."""

    def wrap(judge: Callable[[Host], Iterator[Finding]]) -> Check[Inspection]:
        def every(subject: Inspection) -> Iterator[Finding]:
            skipped: list[Skip] = []
            found: list[tuple[Host, Finding]] = []
            for host in subject.hosts:
                try:
                    found += [(host, finding) for finding in judge(host)]
                except Skip as skip:
                    skipped.append(skip)
            if skipped and len(skipped) == len(subject.hosts):
                raise skipped[0]
            yield from _merged(found)

        return check(rule)(every)

    return wrap


def _merged(found: list[tuple[Host, Finding]]) -> Iterator[Finding]:
    groups: dict[tuple[str, str], tuple[Finding, list[str]]] = {}
    for host, finding in found:
        named = replace(
            finding,
            evidence=tuple(
                replace(item, source=f"{host.label}: {item.source}") if host.label else item
                for item in finding.evidence
            ),
        )
        key = (finding.title.en, finding.message.en)
        if key in groups:
            first, labels = groups[key]
            groups[key] = (replace(first, evidence=(*first.evidence, *named.evidence)), [*labels, host.label])
        else:
            groups[key] = (named, [host.label])
    for finding, labels in groups.values():
        if any(labels):
            names = ", ".join(labels)
            prefix = Text(f"[{names}] ", f"[{names}] ")
            finding = replace(finding, message=prefix + finding.message)
        yield finding


def needs_environment(host: Host) -> None:
    """Raises Skip where the environment variables were not recorded."""
    if not isinstance(host.facts.at("env").value, dict):
        raise Skip(Text("the environment was not recorded", "没有记录环境变量"))


def ascend_only(host: Host) -> None:
    """Raises Skip on a machine that has nothing of Ascend: a laptop is not at fault."""
    if not host.wants_ascend:
        raise Skip(
            Text(
                "this machine has no Ascend device, driver or CANN",
                "本机没有昇腾设备、驱动或 CANN",
            )
        )
