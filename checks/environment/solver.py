"""The version solver: the smallest set of changes that makes the installed versions a legal combination.

Every combination of the table's rows is a candidate: a MindSpore release, a CANN that it takes, a driver
that this CANN takes, a MindFormers release where one is installed. What differs from the machine is a
change with a cost: a pip package 1, an interpreter 2, CANN with its operator package 4, driver and firmware
(root, a reboot, and every other user of the machine) 12. Going back costs a little more, and so do parts that
take each other without having been released together, and a release more than two away, for which code
and configs must be rewritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Optional

from doctor.checks.environment.compatibility import OK, mindspore_cann
from doctor.checks.environment.host import Host
from doctor.checks.environment.pairing import Card, Row, Table, is_paired
from doctor.checks.environment.versions import FINAL, numbers, package_key, release, release_key, same_release
from doctor.finding import Fix, Text

COSTS = {"MindSpore": 1.0, "MindFormers": 1.0, "Python": 2.0, "CANN": 4.0, "driver": 12.0}
#: going back; not released together; another generation than code and configs were written for
_BACK, _UNPAIRED = 0.5, 0.6
#: a release candidate, while a final release will do
_CANDIDATE = 0.3
_FAR = {"MindSpore": 1.0, "MindFormers": 3.0}
_DOUBT = {"high": 0.0, "medium": 0.1, "low": 0.4}
_WHEELS = "https://ms-release.obs.cn-north-4.myhuaweicloud.com"


@dataclass(frozen=True)
class Installed:
    """What a machine has; None is not known or not there (and then not solved for)."""

    mindspore: Optional[str] = None
    mindformers: Optional[str] = None
    cann: Optional[str] = None
    driver: Optional[str] = None
    python: Optional[str] = None
    machine: str = "aarch64"
    card: Optional[Card] = None
    #: CANN numbers that the installed MindSpore's own check takes
    accepted: tuple[str, ...] = ()
    cann_shown: Optional[str] = None
    #: pip of the examined interpreter
    pip: str = "pip"
    #: parts that may not be changed, by their names in `COSTS`
    fixed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Change:
    part: str
    old: Optional[str]
    new: str


@dataclass(frozen=True)
class Solution:
    """`changes` in the order of installing; `rows` are what makes it legal."""

    changes: tuple[Change, ...]
    rows: tuple[Row, ...]
    cost: float
    versions: tuple[tuple[str, str], ...]


def installed(host: Host, fixed: frozenset[str] = frozenset()) -> Installed:
    return Installed(
        mindspore=host.mindspore,
        mindformers=host.mindformers,
        cann=host.cann_version,
        driver=host.driver_version,
        python=host.python,
        machine=host.system.text("machine") or "aarch64",
        card=host.card,
        accepted=host.facts.texts("mindspore", "accepted_cann"),
        cann_shown=host.cann_shown,
        pip=host.pip,
        fixed=fixed | {part for part in COSTS if part.lower() in host.keep},
    )


def solve(table: Table, machine: Installed, most: int = 3) -> tuple[Solution, ...]:
    """Solutions in the order of cost, each changing another set of parts; empty when the table has none."""
    found: dict[frozenset[str], Solution] = {}
    for solution in _candidates(table, machine):
        if any(change.part in machine.fixed for change in solution.changes):
            continue
        parts = frozenset(change.part for change in solution.changes)
        best = found.get(parts)
        if best is None or _order(table, solution) < _order(table, best):
            found[parts] = solution
    useful = [
        solution
        for parts, solution in found.items()
        # a solution that changes strictly more than another one is of no use
        if not any(other < parts for other in found)
    ]
    return tuple(sorted(useful, key=lambda solution: _order(table, solution))[:most])


def _candidates(table: Table, machine: Installed) -> Iterator[Solution]:
    for mindspore_row in table.rows("mindspore"):
        mindspore = mindspore_row.text("version") or ""
        if mindspore.endswith(".x"):
            continue
        keeps_mindspore = machine.mindspore is not None and package_key(machine.mindspore) == package_key(mindspore)
        if not keeps_mindspore and not _obtainable(mindspore_row):
            continue
        for cann in _cann_choices(table, machine, mindspore_row, keeps_mindspore):
            driver_row = table.driver_row(cann)
            for mindformers_row in _mindformers_choices(table, machine, mindspore):
                yield _solution(table, machine, mindspore_row, cann, driver_row, mindformers_row)


def _obtainable(row: Row) -> bool:
    return "not on PyPI" not in row.source or bool(row.values.get("on_pypi"))


def _cann_choices(table: Table, machine: Installed, row: Row, keeps_mindspore: bool) -> Iterator[str]:
    names = [release(name) for name in row.texts("cann")]
    if machine.cann is not None:
        accepted = machine.accepted if keeps_mindspore else ()
        shown = machine.cann_shown
        if mindspore_cann(table, row.text("version") or "", machine.cann, shown, accepted).state == OK:
            yield machine.cann
    # Then the paired releases, and those that its own start-up check takes.
    names += [name for name in table.accepted_cann(row) if name not in names]
    yield from (name for name in names if machine.cann is None or not same_release(name, machine.cann))


def _mindformers_choices(table: Table, machine: Installed, mindspore: str) -> list[Optional[Row]]:
    if machine.mindformers is None:
        return [None]
    return list(table.mindformers_for(mindspore))


def _solution(
    table: Table,
    machine: Installed,
    mindspore_row: Row,
    cann: str,
    driver_row: Optional[Row],
    mindformers_row: Optional[Row],
) -> Solution:
    mindspore = mindspore_row.text("version") or ""
    changes: list[Change] = []
    rows = [mindspore_row]
    driver = machine.driver
    if machine.driver is not None and driver_row is not None:
        key = release_key(machine.driver)
        if key is not None and key < table.oldest_driver(driver_row):
            driver = driver_row.text("driver") or ""
            changes.append(Change("driver", machine.driver, driver))
            rows.append(driver_row)
    if machine.cann is not None and not same_release(cann, machine.cann):
        changes.append(Change("CANN", machine.cann, cann))
    if machine.python is not None and not python_fits(machine.python, mindspore_row.text("python")):
        wanted = nearest_python(machine.python, mindspore_row.text("python") or "")
        changes.append(Change("Python", machine.python, wanted))
    if machine.mindspore is not None and package_key(mindspore) != package_key(machine.mindspore):
        changes.append(Change("MindSpore", machine.mindspore, mindspore))
    if mindformers_row is not None:
        rows.append(mindformers_row)
        mindformers = mindformers_row.text("version") or ""
        if machine.mindformers is not None and package_key(mindformers) != package_key(machine.mindformers):
            changes.append(Change("MindFormers", machine.mindformers, mindformers))
    doubt = sum(_DOUBT[row.confidence] for row in rows)
    doubt += 0.0 if any(same_release(name, cann) for name in mindspore_row.texts("cann")) else _UNPAIRED
    if mindformers_row is not None and not is_paired(mindformers_row, mindspore):
        doubt += _UNPAIRED
    doubt += _CANDIDATE * sum(_is_candidate(change.new) for change in changes if change.part in _FAR)
    versions = [("MindSpore", mindspore), ("CANN", cann), ("driver", driver or "")]
    if mindformers_row is not None:
        versions.insert(0, ("MindFormers", mindformers_row.text("version") or ""))
    return Solution(
        changes=tuple(changes),
        rows=tuple(rows),
        cost=sum(COSTS[change.part] for change in changes) + _burden(changes) + doubt,
        versions=tuple((part, version) for part, version in versions if version),
    )


def _is_candidate(version: str) -> bool:
    key = package_key(version)
    return key is not None and key[2] != FINAL


def _burden(changes: Sequence[Change]) -> float:
    """What going back costs, once for the framework and its kit, and what a far release of either does."""
    pairs = {
        change.part: (numbers(change.old or ""), numbers(change.new))
        for change in changes
        if change.part in {"MindSpore", "MindFormers"}
    }
    back = any(old and new and new < old for old, new in pairs.values())
    far = sum(
        _FAR[part]
        for part, (old, new) in pairs.items()
        if old and new and (old[0] != new[0] or abs((*old, 0)[1] - (*new, 0)[1]) > 2)
    )
    return (_BACK if back else 0.0) + far


def _order(table: Table, solution: Solution) -> tuple[float, float, tuple[object, ...]]:
    """Cost, then the distance from what is installed, then the newest version."""
    distance = sum(_distance(table, change) for change in solution.changes)
    newest = tuple(-number for _, version in solution.versions for number in numbers(version)[:3])
    return (solution.cost, round(distance, 3), newest)


def _distance(table: Table, change: Change) -> float:
    """How far a change goes: in releases for CANN, else by the numbers of the versions."""
    if not change.old:
        return 0.0
    if change.part in {"MindSpore", "MindFormers"}:
        old, new = (*numbers(change.old), 0, 0), (*numbers(change.new), 0, 0)
        return sum(abs(a - b) * weight for a, b, weight in zip(old, new, (100, 1, 0.01)))
    first, second = release_key(change.old), release_key(change.new)
    if first is None or second is None:
        return 0.0
    # Going back to an older release is the lesser good of two equal ways.
    back = 0.5 if second < first else 0.0
    if change.part == "CANN":
        low, high = min(first, second), max(first, second)
        keys = [release_key(name) for name in table.known_cann()]
        return back + sum(key is not None and low < key <= high for key in keys)
    return back + sum(abs(a - b) * weight for a, b, weight in zip(first[:3], second[:3], (10, 1, 0.1)))


def python_fits(python: str, bounds: Optional[str]) -> bool:
    """Whether a Python version lies in a range such as ``3.9-3.11``; an unknown range takes all."""
    low, dash, high = (bounds or "").partition("-")
    mine, first, last = numbers(python)[:2], numbers(low)[:2], numbers(high if dash else low)[:2]
    return not mine or not first or first <= mine <= last


def nearest_python(python: str, bounds: str) -> str:
    low, dash, high = bounds.partition("-")
    return low if numbers(python)[:2] < numbers(low)[:2] else (high if dash else low)


# ------------------------------------------------------------------------- in words


def fixes(host: Host, verify: str, fixed: frozenset[str] = frozenset()) -> tuple[Fix, ...]:
    """The solutions as fixes: what changes, what stays, the commands, and the rows with their sources."""
    machine = installed(host, fixed)
    return tuple(_fix(machine, solution, verify) for solution in solve(host.pairing, machine) if solution.changes)


def _fix(machine: Installed, solution: Solution, verify: str) -> Fix:
    changed = {change.part for change in solution.changes}
    changes = ", ".join(f"{change.part} {change.old} -> {change.new}" for change in solution.changes)
    here = {
        "MindSpore": machine.mindspore,
        "MindFormers": machine.mindformers,
        "CANN": machine.cann,
        "driver": machine.driver,
    }
    kept = ", ".join(
        f"{part} {version}" for part, version in solution.versions if part not in changed and here[part] is not None
    )
    sources = "; ".join(dict.fromkeys(f"{row.source} ({row.confidence})" for row in solution.rows))
    summary = Text(
        f"Change {changes}" + (f"; keep {kept}" if kept else "") + f". Source: {sources}.",
        (f"变更 {changes}" + (f"；保留 {kept}" if kept else "")).replace("driver ", "驱动 ") + f"。依据：{sources}。",
    )
    return Fix(summary, command=" && ".join(_commands(machine, solution)), verify=verify)


def _commands(machine: Installed, solution: Solution) -> Iterator[str]:
    arch = machine.machine
    target = dict(solution.versions)
    python = next((change.new for change in solution.changes if change.part == "Python"), machine.python or "3.11")
    for change in solution.changes:
        if change.part == "driver":
            yield from driver_commands(machine.card, change.new, arch)
        elif change.part == "CANN":
            yield from cann_commands(machine.card, change.new, arch)
        elif change.part == "Python":
            yield f"conda create -n mindspore python={'.'.join(map(str, numbers(change.new)[:2]))} -y && conda activate mindspore"
    # A new environment has its own pip, which is active by then.
    pip = "pip" if any(change.part == "Python" for change in solution.changes) else machine.pip
    packages = [name for name in ("MindSpore", "MindFormers") if any(c.part == name for c in solution.changes)]
    if "MindSpore" in packages or any(change.part == "Python" for change in solution.changes):
        row = solution.rows[0]
        if row.values.get("on_pypi"):
            yield f"{pip} install mindspore=={target['MindSpore']}"
        else:
            tag = "cp" + "".join(map(str, numbers(python)[:2]))
            version = target["MindSpore"]
            yield (
                f"{pip} install {_WHEELS}/{version}/MindSpore/unified/{arch}/"
                f"mindspore-{version}-{tag}-{tag}-linux_{arch}.whl"
            )
    if "MindFormers" in packages:
        yield f"{pip} install mindformers=={target['MindFormers']}"


def cann_commands(card: Optional[Card], version: str, arch: str) -> Iterator[str]:
    """Toolkit, then the operator package of the card: kernels before 8.5, ops from then on."""
    chip = card.ops if card is not None else "910b"
    yield f"./Ascend-cann-toolkit_{version}_linux-{arch}.run --install"
    yield f"./{ops_package(chip, version)}_{version}_linux-{arch}.run --install"


def ops_package(chip: str, version: str) -> str:
    key = release_key(version)
    if key is not None and key >= (8, 5, 0, 0, 0, ()):
        return f"Ascend-cann-{chip}-ops"
    if chip == "A3":
        return "Atlas-A3-cann-kernels"
    return f"Ascend-cann-kernels-{chip}"


def driver_commands(card: Optional[Card], version: str, arch: str) -> Iterator[str]:
    """Upgrading takes the firmware first, then the driver, then a reboot."""
    stem = (
        "Atlas-A3-hdk-npu"
        if card is not None and card.family == "A3"
        else f"Ascend-hdk-{card.ops if card else '910b'}-npu"
    )
    yield f"sudo ./{stem}-firmware_*.run --full"
    yield f"sudo ./{stem}-driver_{version}_linux-{arch}.run --full --install-for-all"
    yield "sudo reboot"
