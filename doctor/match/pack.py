"""The pack: all text rules of the program and of the user, loaded, checked for double ids, and indexed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from doctor.match.rulefile import RuleError, read_rule
from doctor.match.textrule import Match, Pattern, RuleFile, TextRule


@dataclass(frozen=True)
class Pack:
    """Rules in the order of their ids. `atoms` are the distinct patterns; a rule's own are found by `atom`."""

    rules: tuple[TextRule, ...]
    atoms: tuple[Pattern, ...] = ()
    _numbers: dict[str, int] = field(default_factory=dict, repr=False, compare=False)
    _by_id: dict[str, TextRule] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, rules: Iterable[TextRule]) -> Pack:
        ordered = tuple(sorted(rules, key=lambda item: item.id))
        numbers: dict[str, int] = {}
        atoms: list[Pattern] = []
        for rule in ordered:
            for pattern in patterns_of(rule.match):
                if pattern.regex not in numbers:
                    numbers[pattern.regex] = len(atoms)
                    atoms.append(pattern)
        return cls(ordered, tuple(atoms), numbers, {rule.id: rule for rule in ordered})

    def atom(self, pattern: Pattern) -> int:
        return self._numbers[pattern.regex]

    def get(self, rule_id: str) -> Optional[TextRule]:
        return self._by_id.get(rule_id)


def patterns_of(match: Optional[Match]) -> tuple[Pattern, ...]:
    """Every pattern of a rule: of its lines and its conditions."""
    if match is None:
        return ()
    conditions = (*match.all, *match.any, *match.none)
    return (*match.line, *(condition.pattern for condition in conditions))


def rules_folder() -> Path:
    """Where the rules of the program stand."""
    import doctor.rules

    return Path(doctor.rules.__file__).parent


def rule_paths(folder: Path) -> list[Path]:
    """Every rule file under a folder; `tables` and hidden files hold no rules."""
    if folder.is_file():
        return [folder]
    return sorted(
        path
        for path in folder.rglob("*.yaml")
        if "tables" not in path.relative_to(folder).parts and not path.name.startswith(".")
    )


def read_files(folders: Iterable[Path]) -> list[RuleFile]:
    """Reads all rule files; a rule of a later folder replaces one of the same id in an earlier folder.

    Raises RuleError when a file is wrong or two files of one folder share an id or a name.
    """
    found: dict[str, RuleFile] = {}
    for folder in folders:
        here: dict[str, str] = {}
        for path in rule_paths(folder):
            item = read_rule(path)
            for key in (item.rule.id, item.rule.rule.name):
                other = here.setdefault(key, str(path))
                if other != str(path):
                    raise RuleError(str(path), "id" if key == item.rule.id else "name", f"{key} is taken by {other}")
            found[item.rule.id] = item
    return [found[key] for key in sorted(found)]


def load_pack(extra: Sequence[Path] = ()) -> Pack:
    """The rules of the program and of the `extra` folders. Raises RuleError when one cannot be used."""
    return Pack.of(item.rule for item in read_files([rules_folder(), *extra]))
