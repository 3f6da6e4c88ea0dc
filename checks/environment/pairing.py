"""The table of versions that belong together (rules/tables/version-pairing.yaml), and questions to it."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Optional

from doctor.checks.environment.versions import Key, numbers, package_key, release, release_key, same_release, satisfies

TABLE = "tables/version-pairing.yaml"
CONFIDENCES = ("high", "medium", "low")


@dataclass(frozen=True)
class Row:
    """One row of one section: its `values`, and where they come from. Raises ValueError without a source."""

    section: str
    values: Mapping[str, Any]

    def __post_init__(self) -> None:
        for key in ("source", "date", "confidence"):
            if not str(self.values.get(key) or "").strip():
                raise ValueError(f"{TABLE}: {self.section}: a row without {key}: {dict(self.values)}")
        if self.values["confidence"] not in CONFIDENCES:
            raise ValueError(f"{TABLE}: {self.section}: confidence {self.values['confidence']!r}")

    def text(self, key: str) -> Optional[str]:
        value = self.values.get(key)
        return None if value is None else str(value)

    def texts(self, key: str) -> tuple[str, ...]:
        return tuple(str(item) for item in self.values.get(key) or ())

    @property
    def source(self) -> str:
        return str(self.values["source"])

    @property
    def confidence(self) -> str:
        return str(self.values["confidence"])


@dataclass(frozen=True)
class Card:
    """What is known of a chip family. `kernels` is the folder of its operator kernels, `ops` the package's name part."""

    family: str
    title: str
    title_zh: str
    kernels: str
    ops: str
    trains: bool
    bf16: bool
    idle_mb: int


@dataclass(frozen=True)
class Table:
    snapshot: str
    sections: Mapping[str, tuple[Row, ...]]

    def rows(self, section: str) -> tuple[Row, ...]:
        return self.sections.get(section, ())

    # ------------------------------------------------------------------ MindSpore

    def mindspore(self, version: str) -> Optional[Row]:
        """The row of a MindSpore version: itself, its release without ``.post1`` or ``.dev…``, or its ``1.10.x`` series."""
        key = package_key(version)
        series = ".".join(map(str, numbers(version)[:2])) + ".x"
        plain = package_key(re.sub(r"(\.post\d+|\.dev\d+|\+.*)+$", "", version, flags=re.I))
        candidates = {row.text("version") or "": row for row in self.rows("mindspore")}
        exact = next((row for name, row in candidates.items() if package_key(name) == key is not None), None)
        if exact is None and plain is not None:
            exact = next((row for name, row in candidates.items() if package_key(name) == plain), None)
        return exact or candidates.get(series)

    def newest_mindspore(self) -> str:
        return max(
            (row.text("version") or "" for row in self.rows("mindspore")),
            key=lambda version: package_key(version) or (0, (0,), (0, 0), 0, 0),
        )

    def is_newer_mindspore(self, version: str) -> bool:
        """Whether a version is past the last row: newer than this table, which says nothing against it."""
        key, last = package_key(version), package_key(self.newest_mindspore())
        return key is not None and last is not None and key > last

    def mindspore_for(self, cann: str) -> tuple[Row, ...]:
        """MindSpore releases whose paired CANN is `cann`, the newest first."""
        rows = [row for row in self.rows("mindspore") if any(same_release(one, cann) for one in row.texts("cann"))]
        return tuple(
            sorted(
                rows, key=lambda row: package_key(row.text("version") or "") or (0, (0,), (0, 0), 0, 0), reverse=True
            )
        )

    def accepted_cann(self, row: Row) -> tuple[str, ...]:
        """CANN releases of this table that a MindSpore row takes: its paired ones, those it also lists, and those whose
        internal number its own start-up check accepts."""
        named = [*row.texts("cann"), *row.texts("also")]
        shown = set(row.texts("accepted"))
        for public in self.known_cann():
            if self.shown(public) in shown:
                named.append(public)
        return tuple(dict.fromkeys(release(name) for name in named))

    # ----------------------------------------------------------------------- CANN

    def known_cann(self) -> tuple[str, ...]:
        """Every CANN release that any section names, oldest first."""
        return self._known_cann

    @cached_property
    def _known_cann(self) -> tuple[str, ...]:
        named = {
            release(name)
            for section in ("mindspore", "mindformers", "cann_driver", "torch_npu")
            for row in self.rows(section)
            for name in (row.texts("cann") if isinstance(row.values.get("cann"), list) else (row.text("cann") or "",))
        }
        keyed = [(release_key(name), name) for name in named]
        return tuple(name for key, name in sorted((key, name) for key, name in keyed if key is not None))

    def newest_cann(self) -> str:
        return self.known_cann()[-1]

    def is_newer_cann(self, version: str) -> bool:
        key, last = release_key(version), release_key(self.newest_cann())
        return key is not None and last is not None and key > last

    def public_cann(self, internal: str) -> Optional[str]:
        """The public name of an internal CANN number: ``7.6.0.1.220`` and ``7.6`` are 8.0.0.

        From 8.2 on the internal number starts like the public one; a build not in the table gives its first two parts."""
        rows = self.rows("cann_internal")
        for row in rows:
            if row.text("internal") == internal.strip():
                return row.text("public")
        parts = internal.strip().split(".")[:2]
        shown = ".".join(parts)
        hits = [row.text("public") or "" for row in rows if row.text("shown") == shown]
        whole = [name for name in hits if "ALPHA" not in name.upper()]
        if whole or hits:
            return (whole or hits)[0]
        key = release_key(internal)
        return shown if key is not None and key >= (8, 2, 0, 0, 0, ()) else None

    def shown(self, public: str) -> Optional[str]:
        """The number MindSpore's check shows for a public CANN version: 8.0.0 gives 7.6."""
        for row in self.rows("cann_internal"):
            if same_release(row.text("public") or "", public):
                return row.text("shown")
        key = release_key(public)
        return f"{key[0]}.{key[1]}" if key is not None and key >= (8, 2, 0, 0, 0, ()) else None

    # --------------------------------------------------------- driver, MindFormers

    def driver_row(self, cann: str) -> Optional[Row]:
        """The row of a CANN release; a later patch or candidate of a release (8.5.1, 8.2.RC2) takes that one's."""
        rows = [(release_key(row.text("cann") or ""), row) for row in self.rows("cann_driver")]
        mine = release_key(release(cann))
        if mine is None:
            return None
        same = [(key, row) for key, row in rows if key is not None and key[:2] == mine[:2] and key <= mine]
        return max(same, key=lambda pair: pair[0])[1] if same else None

    def oldest_driver(self, row: Row) -> Key:
        """Sort key of the oldest driver that a CANN row admits (``25.0.X`` counts from 25.0.0's first candidate)."""
        keys = []
        for name in (row.text("driver") or "", *row.texts("also")):
            key = release_key(re.sub(r"\.X$", ".0", name, flags=re.I))
            if key is not None:
                keys.append((*key[:3], 0, 0, ()) if name.upper().endswith(".X") else key)
        return min(keys)

    def mindformers(self, version: str) -> Optional[Row]:
        """The row of a MindFormers version; patch releases fall back on their minor release's last row."""
        key = package_key(version)
        for row in self.rows("mindformers"):
            if key is not None and package_key(row.text("version") or "") == key:
                return row
        return None

    def mindformers_for(self, mindspore: str) -> tuple[Row, ...]:
        """MindFormers releases that take a MindSpore version: paired with it, or declaring a range that holds it; the newest
        first."""
        rows = [row for row in self.rows("mindformers") if is_paired(row, mindspore) or declares(row, mindspore)]
        return tuple(reversed(rows))

    def newest_mindformers(self) -> str:
        return self.rows("mindformers")[-1].text("version") or ""

    # ----------------------------------------------------------------------- cards

    def card(self, name: str, memory_mb: Optional[int] = None, has_physical_id: bool = False) -> Optional[Card]:
        """The chip family of a name in npu-smi. "910B" without a digit is the first generation; "Ascend910" is an A3
        die when the table has a Phy-ID column or 64 GB, else the first generation."""
        wanted = re.sub(r"\s+", "", name.upper())
        bare = wanted[len("ASCEND") :] if wanted.startswith("ASCEND") and wanted != "ASCEND910" else wanted
        large = memory_mb is not None and memory_mb > 49152
        if wanted in {"ASCEND910", "910"}:
            return self._family("A3" if has_physical_id or large else "910")
        if bare == "910B" and large:
            return self._family("A2")
        for row in self.rows("cards"):
            if bare in row.texts("names"):
                return _card(row)
        return None

    def _family(self, family: str) -> Optional[Card]:
        return next((_card(row) for row in self.rows("cards") if row.text("family") == family), None)


def is_paired(mindformers: Row, mindspore: str) -> bool:
    """Whether a MindFormers row was released with that MindSpore."""
    wanted = package_key(mindspore)
    return any(package_key(one) == wanted for one in mindformers.texts("mindspore"))


def declares(mindformers: Row, mindspore: str) -> bool:
    """Whether the wheel of a MindFormers row declares a range that holds that MindSpore (``mindspore~=2.7.1`` takes 2.7.2)."""
    parts = (mindformers.text("requires") or "").split(";")
    ranges = [part.strip()[len("mindspore") :] for part in parts if part.strip().startswith("mindspore")]
    return any(bool(one) and satisfies(mindspore, one) is True for one in ranges)


def _card(row: Row) -> Card:
    return Card(
        family=row.text("family") or "",
        title=row.text("title") or "",
        title_zh=row.text("title_zh") or "",
        kernels=row.text("kernels") or "",
        ops=row.text("ops") or "",
        trains=bool(row.values.get("trains")),
        bf16=bool(row.values.get("bf16")),
        idle_mb=int(row.values.get("idle_mb") or 0),
    )


def parse_table(text: str) -> Table:
    """The table from its text: sections at the margin, a row a line, each row a JSON object. That is a part of YAML;
    the parser of all of it would cost more time than every check. Raises ValueError when a row cannot be read, or has
    no source, date or confidence."""
    sections: dict[str, list[Row]] = {}
    section = snapshot = ""
    for number, line in enumerate(text.splitlines(), 1):
        body = line.strip()
        if not body or body.startswith("#"):
            continue
        if body.startswith("- "):
            try:
                values = json.loads(body[2:])
            except ValueError as error:
                raise ValueError(f"{TABLE}:{number}: not a JSON object: {error}") from error
            sections.setdefault(section, []).append(Row(section, values))
        elif body.startswith("snapshot:"):
            snapshot = body.partition(":")[2].strip().strip("\"'")
        elif body.endswith(":") and not line[:1].isspace():
            section = body[:-1]
        else:
            raise ValueError(f"{TABLE}:{number}: neither a section nor a row: {body[:60]}")
    return Table(snapshot, {name: tuple(rows) for name, rows in sections.items()})


@lru_cache(maxsize=1)
def table() -> Table:
    # get_data alone would load the package without making it an attribute of `doctor`.
    raw = pkgutil.get_data(importlib.import_module("doctor.rules").__name__, TABLE)
    if raw is None:
        raise ValueError(f"{TABLE} is missing from the installed package")
    return parse_table(raw.decode("utf-8"))
