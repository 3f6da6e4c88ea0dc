"""GitHub workflow commands: each finding becomes an annotation beside its line."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.report.model import Report

_COMMAND = {"info": "notice", "warning": "warning", "error": "error", "fatal": "error"}


def to_github(report: Report, lang: str) -> Iterator[str]:
    for finding in report.findings:
        place = finding.place
        properties = [("title", f"{finding.rule} {finding.title.pick(lang)}")]
        if place is not None and place.kind in {"value", "file", "log"}:
            properties.insert(0, ("file", place.source))
            if place.line is not None:
                properties.insert(1, ("line", str(place.line)))
            if place.column is not None:
                properties.insert(2, ("col", str(place.column)))
        text = finding.message.pick(lang)
        for fix in finding.fixes:
            text += "\n" + fix.summary.pick(lang)
        joined = ",".join(f"{name}={_property(value)}" for name, value in properties)
        yield f"::{_COMMAND[finding.severity.value]} {joined}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
