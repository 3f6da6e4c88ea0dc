"""Small packs for tests, made of mappings as YAML files hold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from doctor.match.pack import Pack
from doctor.match.rulefile import build_rule
from doctor.match.textrule import RuleFile


def rule(number: int = 1, name: Optional[str] = None, **changes: Any) -> dict[str, Any]:
    """A complete rule as a mapping; `changes` replace its keys."""
    base: dict[str, Any] = {
        "id": f"LOG-TST-{number:03d}",
        "name": name or f"test-rule-{number}",
        "severity": "error",
        "category": "other",
        "title": {"en": "Title", "zh": "标题"},
        "why": {"en": "Why", "zh": "原因"},
        "fix": {"en": "Fix", "zh": "修复"},
        "match": {"line": ["needle in a haystack"]},
        "examples": {"match": ["a needle in a haystack"], "no_match": ["hay"]},
    }
    base.update(changes)
    return base


def built(row: Mapping[str, Any]) -> RuleFile:
    return build_rule(dict(row), "test.yaml", "test")


def pack(*rows: Mapping[str, Any]) -> Pack:
    return Pack(built(row).rule for row in rows)
