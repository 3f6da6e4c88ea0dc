"""Whether two installed parts belong together, and how that is known: the installed files first, then the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from doctor.checks.environment.host import Host
from doctor.checks.environment.pairing import Row, Table, declares
from doctor.checks.environment.requirements import parse
from doctor.checks.environment.versions import package_key, release, release_key, same_release, satisfies

OK, OLDER, NEWER, MISMATCH, BEYOND, UNKNOWN = "ok", "older", "newer", "mismatch", "beyond the table", "unknown"


#: from this release on the internal number begins like the public one
_PUBLIC = (8, 2, 0, 0, 0, ())


@dataclass(frozen=True)
class Verdict:
    """`state` is OK, OLDER or NEWER (than what belongs there), MISMATCH, BEYOND or UNKNOWN; `expected` in public
    names; `source` says what it was judged by; `exact` when that was a list and not only the released pair."""

    state: str
    expected: tuple[str, ...] = ()
    source: str = ""
    exact: bool = False
    row: Optional[Row] = None


def mindspore_cann(
    table: Table, mindspore: str, cann: str, shown: Optional[str] = None, accepted: tuple[str, ...] = ()
) -> Verdict:
    """MindSpore against CANN. `accepted` is the list in the installed MindSpore's own check, in internal numbers;
    `shown` the installed CANN's internal number (first two parts)."""
    row = table.mindspore(mindspore)
    shown = shown or table.shown(cann)
    if accepted and shown is not None:
        names = tuple(_public_names(table, accepted))
        source = "run_check/_check_version.py of the installed MindSpore"
        paired = row is not None and any(same_release(name, cann) for name in row.texts("cann"))
        if shown in accepted or paired:
            return Verdict(OK, names, source, True, row)
        if table.is_newer_cann(cann):
            return Verdict(BEYOND, names, source, True, row)
        return Verdict(_direction(cann, names), names, source, True, row)
    if row is None:
        beyond = table.is_newer_mindspore(mindspore)
        return Verdict(BEYOND if beyond else UNKNOWN, (), f"{table.snapshot}", False, None)
    names = table.accepted_cann(row)
    if any(_stands_for(cann, name) for name in names) or shown in row.texts("accepted"):
        return Verdict(OK, names, row.source, bool(row.texts("accepted")), row)
    if table.is_newer_cann(cann):
        return Verdict(BEYOND, names, row.source, False, row)
    return Verdict(_direction(cann, names), names, row.source, bool(row.texts("accepted")), row)


def _public_names(table: Table, accepted: tuple[str, ...]) -> list[str]:
    names: list[str] = []
    for number in accepted:
        public = [name for name in table.known_cann() if table.shown(name) == number]
        # A number below 8.2 without a public name belongs to test builds only: no release is called so.
        before = (release_key(number) or _PUBLIC) < _PUBLIC
        names += public or ([] if before else [table.public_cann(number) or number])
    return list(dict.fromkeys(names))


def _stands_for(installed: str, listed: str) -> bool:
    """8.5.2 counts as 8.5.0, and 9.0.0-beta.2 as 9.0.0: a later patch or a build of the same release."""
    if same_release(installed, listed):
        return True
    mine, other = release_key(release(installed)), release_key(release(listed))
    return (
        mine is not None and other is not None and mine[:2] == other[:2] and mine[3] == other[3] == 4 and mine >= other
    )


def _direction(cann: str, names: tuple[str, ...]) -> str:
    keys = [key for key in map(release_key, names) if key is not None]
    mine = release_key(cann)
    if mine is None or not keys:
        return UNKNOWN
    if mine < min(keys):
        return OLDER
    return NEWER if mine > max(keys) else MISMATCH


def host_mindspore_cann(host: Host) -> Optional[Verdict]:
    """The verdict for a host; None when one of the two is not known."""
    if host.mindspore is None or host.cann_version is None:
        return None
    accepted = host.facts.texts("mindspore", "accepted_cann")
    installed = host.facts.text("mindspore", "version")
    if installed is not None and installed != host.mindspore:
        accepted = ()
    return mindspore_cann(host.pairing, host.mindspore, host.cann_version, host.cann_shown, accepted)


def mindformers_mindspore(host: Host) -> Optional[Verdict]:
    """MindFormers against MindSpore: its declared requirement, its own VERSION_MAP.json, then the table."""
    if host.mindformers is None or host.mindspore is None:
        return None
    for line in host.facts.texts("distributions", "mindformers", "requires"):
        requirement = parse(line)
        if requirement is not None and requirement.name == "mindspore" and requirement.specifier:
            held = satisfies(host.mindspore, requirement.specifier)
            if held is not None:
                state = OK if held else _package_direction(host.mindspore, requirement.specifier)
                return Verdict(
                    state, (f"mindspore{requirement.specifier}",), f"METADATA of mindformers {host.mindformers}", True
                )
    own = _version_map(host.facts.at("mindformers", "version_map").value, host.mindformers)
    row = host.pairing.mindformers(host.mindformers)
    names = own or (row.texts("mindspore") if row is not None else ())
    source = "VERSION_MAP.json of the installed MindFormers" if own else (row.source if row is not None else "")
    if not names:
        newest = package_key(host.pairing.newest_mindformers())
        mine = package_key(host.mindformers)
        beyond = mine is not None and newest is not None and mine > newest
        return Verdict(BEYOND if beyond else UNKNOWN)
    mine = package_key(host.mindspore)
    if any(_same_series(host.mindspore, name) for name in names) or (row is not None and declares(row, host.mindspore)):
        return Verdict(OK, names, source, bool(own), row)
    keys = [key for key in map(package_key, names) if key is not None]
    if mine is None or not keys:
        return Verdict(UNKNOWN, names, source, False, row)
    return Verdict(OLDER if mine < min(keys) else NEWER, names, source, bool(own), row)


def _version_map(value: Any, version: str) -> tuple[str, ...]:
    """``{"mf": {"1.8.0": {"prefer": "2.7.2", "support": ["2.7.2"]}}}``"""
    pairs = value.get("mf") if isinstance(value, Mapping) else None
    entry = pairs.get(version) if isinstance(pairs, Mapping) else None
    if not isinstance(entry, Mapping):
        return ()
    support = entry.get("support")
    names = [entry.get("prefer"), *(support if isinstance(support, list) else [])]
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))


def _same_series(installed: str, listed: str) -> bool:
    """2.7.1.post1 is 2.7.1; patch releases before 2.7 are released with their own MindFormers."""
    mine, other = package_key(installed), package_key(listed)
    return mine is not None and other is not None and mine[:3] == other[:3]


def _package_direction(version: str, specifier: str) -> str:
    bound = specifier.lstrip("~=<>! ").split(",")[0]
    mine, other = package_key(version), package_key(bound)
    if mine is None or other is None:
        return MISMATCH
    return OLDER if mine < other else NEWER


def cann_driver(host: Host) -> Optional[Verdict]:
    """The driver against CANN: OLDER when it is before every driver that CANN's row admits."""
    if host.cann_version is None or host.driver_version is None:
        return None
    mine = release_key(host.driver_version)
    row = host.pairing.driver_row(host.cann_version)
    if mine is None or row is None:
        return Verdict(BEYOND if host.pairing.is_newer_cann(host.cann_version) else UNKNOWN)
    expected = (row.text("driver") or "", *row.texts("also"))
    state = OLDER if mine < host.pairing.oldest_driver(row) else OK
    return Verdict(state, expected, row.source, bool(row.texts("also")), row)
