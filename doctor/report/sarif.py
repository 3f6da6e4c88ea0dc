"""SARIF 2.1.0, the form that code-scanning services and editors read."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from doctor.finding import Finding
from doctor.report.model import Report

_LEVEL = {"info": "note", "warning": "warning", "error": "error", "fatal": "error"}


def to_sarif(report: Report, lang: str, version: str) -> dict[str, Any]:
    rules: dict[str, dict[str, Any]] = {}
    results = []
    for finding in report.findings:
        rules.setdefault(
            finding.rule,
            {
                "id": finding.rule,
                "name": "".join(part.capitalize() for part in finding.name.split("-")),
                "shortDescription": {"text": finding.title.pick(lang)},
                "defaultConfiguration": {"level": _LEVEL[finding.severity.value]},
                "properties": {"category": finding.category},
            },
        )
        results.append(_result(finding, lang))
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "mindspore-doctor",
                        "version": version,
                        "rules": [rules[key] for key in sorted(rules)],
                    }
                },
                "results": results,
            }
        ],
    }


def _result(finding: Finding, lang: str) -> dict[str, Any]:
    text = f"{finding.title.pick(lang)} {finding.message.pick(lang)}".strip()
    for fix in finding.fixes:
        text += f"\n{fix.summary.pick(lang)}"
        if fix.command:
            text += f"\n$ {fix.command}"
    row: dict[str, Any] = {
        "ruleId": finding.rule,
        "level": _LEVEL[finding.severity.value],
        "message": {"text": text},
        "properties": {"confidence": round(finding.confidence, 2), "category": finding.category},
    }
    places = [item for item in finding.evidence if item.kind in {"value", "file", "log"} and item.source]
    if places:
        row["locations"] = [_location(item.source, item.line, item.column) for item in places]
    return row


def _location(source: str, line: Any, column: Any) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": quote(source)}}
    if line:
        physical["region"] = {"startLine": line, **({"startColumn": column} if column else {})}
    return {"physicalLocation": physical}
