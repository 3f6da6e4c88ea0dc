"""Which release of MindFormers a config is meant for: given, else installed, else inferred from what it says."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Optional

from doctor.finding import Text
from doctor.plan.names import releases, version_key

_BETA = re.compile(r"\d[.-]?(?:a|b|alpha|beta|dev)\d*", re.IGNORECASE)


@dataclass(frozen=True)
class Release:
    """`candidates` are the known releases that the config may be read by, oldest first; one when it is certain.
    `how`: given, installed or inferred. `version` is the one to name: as given, or the newest candidate."""

    version: str
    candidates: tuple[str, ...]
    how: str

    @property
    def certain(self) -> bool:
        return self.how != "inferred"

    def since(self, version: str) -> bool:
        """True when every candidate is `version` or later."""
        wanted = version_key(version)
        return all(version_key(item) >= wanted for item in self.bounds)

    def before(self, version: str) -> bool:
        """True when every candidate is earlier than `version`."""
        wanted = version_key(version)
        return all(version_key(item) < wanted for item in self.bounds)

    @property
    def bounds(self) -> tuple[str, ...]:
        """The versions to compare with: the given one itself, else all candidates (also of a beta, which may lack what
        its release brought)."""
        return (self.version,) if self.certain and not _BETA.search(self.version) else self.candidates

    def has(self, versions: Iterable[str]) -> bool:
        """Whether some candidate is among `versions`."""
        return not set(self.candidates).isdisjoint(versions)

    def describe(self) -> Text:
        if self.how == "given":
            return Text(f"MindFormers {self.version}", f"MindFormers {self.version}")
        if self.how == "installed":
            return Text(f"MindFormers {self.version} (installed)", f"MindFormers {self.version}（已安装）")
        if len(self.candidates) == 1:
            return Text(f"MindFormers {self.version} (inferred)", f"MindFormers {self.version}（推断）")
        span = f"{self.candidates[0]}-{self.candidates[-1]}"
        return Text(f"MindFormers {span} (inferred)", f"MindFormers {span}（推断）")


def named(version: str, how: str) -> Release:
    """The release of a version string; between two known releases both are candidates (their names are joined)."""
    known = releases()
    wanted = version_key(version)
    if _BETA.search(version) and wanted in map(version_key, known):
        # 1.6.0-beta1 still has what 1.6.0 removed
        return Release(version, tuple(item for item in known if version_key(item) <= wanted)[-2:], how)
    if version in known:
        return Release(version, (version,), how)
    same = [item for item in known if version_key(item) == wanted]
    if same:
        return Release(version, tuple(same), how)
    older = [item for item in known if version_key(item) < wanted]
    newer = [item for item in known if version_key(item) > wanted]
    return Release(version, (*older[-1:], *newer[:1]), how)


def inferred(candidates: Iterable[str]) -> Release:
    ordered = tuple(sorted(set(candidates), key=version_key)) or releases()
    return Release(ordered[-1], ordered, "inferred")


def valid_version(version: str) -> bool:
    return bool(version_key(version))


@cache
def installed_version() -> Optional[str]:
    """The version of mindformers on this interpreter's path, from the name of its metadata folder."""
    for entry in sys.path:
        try:
            for path in Path(entry or ".").glob("mindformers-*.dist-info"):
                return path.name[len("mindformers-") : -len(".dist-info")]
        except OSError:
            continue
    return None
