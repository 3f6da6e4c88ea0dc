"""What `doctor explain` and `doctor rules` show of a rule id, a rule's name or an error code."""

from __future__ import annotations

import re
from typing import Any, Optional

from doctor.finding import Finding, Text
from doctor.match.pack import Pack, patterns_of
from doctor.match.reason import finding_of
from doctor.match.tables import Code, guess
from doctor.match.textrule import TextRule
from doctor.match.words import values_of
from doctor.report.model import Report
from doctor.rule import ID, NAME, Rule

_PLACEHOLDER = re.compile(r"\{([a-z_][a-z0-9_]*)(?::[^{}]*)?\}")
_ROLES = {
    "cause": Text("a cause", "根因"),
    "symptom": Text("an effect that has several causes", "现象，可能有多种原因"),
    "generic": Text("a code that names no cause by itself", "通用错误码，本身不说明原因"),
}


def report_on(word: str, pack: Pack) -> Optional[Report]:
    """The report on a rule id, a rule's name or a code, or None when the word is none of them."""
    word = word.strip()
    if not word or len(word) > 80 or "\n" in word:
        return None
    return rule_report(word, pack) or code_report(word, pack)


def rule_report(word: str, pack: Pack) -> Optional[Report]:
    rule = _find_rule(word, pack)
    if rule is None:
        return None
    text_rule = pack.get(rule.id)
    row = rule_row(rule, text_rule)
    return Report("explain", facts={"rule": row}, headline=tuple(_lines(rule, text_rule)), next_command=rule.verify)


def _find_rule(word: str, pack: Pack) -> Optional[Rule]:
    if ID.fullmatch(word.upper()):
        found = pack.get(word.upper())
        if found is not None:
            return found.rule
        from doctor import registry

        return registry.rule(word)
    if NAME.fullmatch(word) and "-" in word:
        for item in pack.rules:
            if item.rule.name == word:
                return item.rule
        from doctor import registry

        return registry.rule(word)
    return None


def rule_row(rule: Rule, text_rule: Optional[TextRule]) -> dict[str, Any]:
    """A rule as JSON, in both languages."""

    def both(text: Optional[Text]) -> Any:
        return None if text is None else {"en": text.en, "zh": text.zh}

    row: dict[str, Any] = {
        "id": rule.id,
        "name": rule.name,
        "severity": rule.severity.value,
        "category": rule.category,
        "confidence": rule.confidence,
        "title": both(rule.title),
        "why": both(rule.why),
        "fix": both(rule.fix),
        "verify": rule.verify,
        "explains": list(rule.explains),
        "false_positives": both(rule.false_positives),
        "references": list(rule.references),
        "status": rule.status,
        "since": rule.since,
    }
    if text_rule is not None:
        row["role"] = text_rule.role
        row["command"] = text_rule.command
        if text_rule.detector:
            row["detector"] = text_rule.detector
        if text_rule.match is not None:
            row["patterns"] = [pattern.regex for pattern in text_rule.match.line]
    return row


def opened(text: Text) -> Text:
    """The text of a rule with its placeholders as <names>."""
    return Text(_PLACEHOLDER.sub(r"<\1>", text.en), _PLACEHOLDER.sub(r"<\1>", text.zh))


def _lines(rule: Rule, text_rule: Optional[TextRule]) -> list[Text]:
    why, fix = opened(rule.why), opened(rule.fix)
    lines = [
        Text(f"{rule.id} {rule.name}", f"{rule.id} {rule.name}"),
        opened(rule.title),
        Text(
            f"severity {rule.severity.value}, category {rule.category}, confidence {rule.confidence:.0%}",
            f"级别 {rule.severity.value}，类别 {rule.category}，置信度 {rule.confidence:.0%}",
        ),
    ]
    if text_rule is not None and text_rule.role != "cause":
        role = _ROLES[text_rule.role]
        lines.append(Text(f"role: {role.en}", f"性质：{role.zh}"))
    lines.append(Text(f"why: {why.en}", f"原因：{why.zh}"))
    lines.append(Text(f"fix: {fix.en}", f"修复：{fix.zh}"))
    if text_rule is not None and text_rule.command:
        lines.append(Text(f"run: {text_rule.command}", f"执行：{text_rule.command}"))
    if rule.verify:
        lines.append(Text(f"verify: {rule.verify}", f"验证：{rule.verify}"))
    if rule.explains:
        names = ", ".join(rule.explains)
        lines.append(Text(f"brings about: {names}", f"可引发：{names}"))
    if rule.false_positives is not None:
        lines.append(Text(f"looks alike: {rule.false_positives.en}", f"易混淆：{rule.false_positives.zh}"))
    for reference in rule.references:
        lines.append(Text(f"see: {reference}", f"参考：{reference}"))
    return lines


def code_report(word: str, pack: Pack) -> Optional[Report]:
    codes = list(guess(word))
    if not codes:
        return None
    findings = tuple(finding for code in codes for finding in _code_findings(code, pack))
    if not findings:
        return None
    rows = [
        {
            "code": code.code,
            "kind": code.kind,
            "category": code.category,
            "meaning": {"en": code.meaning.en, "zh": code.meaning.zh},
            "action": {"en": code.action.en, "zh": code.action.zh},
            "rules": _rules_with(code.code, pack),
        }
        for code in codes
    ]
    return Report("explain", findings=findings, facts={"codes": rows}, next_command=codes[0].command or None)


def _code_findings(code: Code, pack: Pack) -> list[Finding]:
    """The finding of the rule that reads this kind of code, and of a rule made for this very code, if there is one."""
    found = []
    for rule in pack.rules:
        if rule.table == code.kind:
            finding = finding_of(rule, values_of(rule, {"code": code.code}), code=code)
            found.append(finding.with_(confidence=1.0))
            break
    return found


def _rules_with(code: str, pack: Pack) -> list[str]:
    """Ids of rules whose patterns name the code."""
    return [
        rule.id
        for rule in pack.rules
        if any(code.lower() in pattern.regex.lower() for pattern in patterns_of(rule.match))
    ]
