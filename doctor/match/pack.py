"""The pack: all text rules of the program and of the user, loaded, checked for double ids, and indexed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Optional

from doctor.match.textrule import Match, Pattern, RuleFile, TextRule


class Pack:
    """Rules in the order of their ids. `atoms` are the distinct patterns of all rules, numbered by their place."""

    def __init__(self, rules: Iterable[TextRule], key: str = "") -> None:
        self.rules = tuple(sorted(rules, key=lambda item: item.id))
        #: names the content, for what is compiled from it and kept; empty when it is made on the fly
        self.key = key
        self._by_id = {rule.id: rule for rule in self.rules}
        self._numbers: dict[str, int] = {}
        self._rules_of: dict[int, list[TextRule]] = {}
        atoms: list[Pattern] = []
        watched: set[int] = set()
        for rule in self.rules:
            for pattern in patterns_of(rule.match):
                number = self._numbers.setdefault(pattern.regex, len(atoms))
                if number == len(atoms):
                    atoms.append(pattern)
                elif not atoms[number].literals:
                    atoms[number] = pattern
            if rule.match is not None:
                for pattern in rule.match.line:
                    self._rules_of.setdefault(self.atom(pattern), []).append(rule)
                for condition in (*rule.match.all, *rule.match.any, *rule.match.none):
                    watched.add(self.atom(condition.pattern))
        self.atoms = tuple(atoms)
        #: atoms that conditions ask for
        self.watched = frozenset(watched)

    def atom(self, pattern: Pattern) -> int:
        return self._numbers[pattern.regex]

    def rules_of(self, atom: int) -> Sequence[TextRule]:
        """The rules that have this pattern among their lines."""
        return self._rules_of.get(atom, ())

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


def read_files(folder: Path, strict: bool = True) -> list[RuleFile]:
    """Reads all rule files of a folder, in the order of ids.

    Raises RuleError when a file is wrong or two share an id or a name. Not `strict`, such a file is left out: one
    broken rule does not take the others with it.
    """
    from doctor.match.rulefile import RuleError, read_rule

    found: dict[str, RuleFile] = {}
    owners: dict[str, str] = {}
    for path in rule_paths(folder):
        try:
            item = read_rule(path)
            for key in (item.rule.id, item.rule.rule.name):
                if owners.setdefault(key, str(path)) != str(path):
                    raise RuleError(
                        str(path), "id" if key == item.rule.id else "name", f"{key} is taken by {owners[key]}"
                    )
        except RuleError:
            if strict:
                raise
        else:
            found[item.rule.id] = item
    return [found[key] for key in sorted(found)]


def load_pack(extra: Sequence[Path] = ()) -> Pack:
    """The rules of the program, of installed packages (`doctor.match.installed`) and of the `extra` folders, from the
    cache when it is fresh; a rule of a later folder replaces one with the same id before it. Of an installed package a
    file that is wrong is left out.

    Raises RuleError when a file of an extra folder cannot be used or a folder is not there.
    """
    from doctor.match.cache import cached_rules
    from doctor.match.installed import installed_packs

    for folder in extra:
        if not folder.exists():
            from doctor.match.rulefile import RuleError

            raise RuleError(str(folder), "", "there is no such file or folder")
    own = rules_folder()
    installed = installed_packs()

    def read() -> list[TextRule]:
        from doctor.match.shipped import shipped_rules

        shipped = shipped_rules(own)
        if shipped is None:
            shipped = [item.rule for item in read_files(own, strict=False)]
        rules = {rule.id: rule for rule in shipped}
        for folder in installed:
            rules.update((item.rule.id, item.rule) for item in read_files(folder, strict=False))
        for folder in extra:
            rules.update((item.rule.id, item.rule) for item in read_files(folder))
        return list(rules.values())

    rules, key = cached_rules([own, *installed, *extra], read)
    return Pack(rules, key)
