"""From a run to its bundle: look, cover, cut until it fits, and replay what was made before it is called done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from doctor import __version__
from doctor.bundle.archive import packed
from doctor.bundle.cover import Coverer
from doctor.bundle.cut import LEVELS, Level, Seen, extract, look, ranges
from doctor.bundle.gather import Gathered, Wanted
from doctor.bundle.replay import Outline, diagnosis_of, outline, outline_of
from doctor.bundled import MANIFEST, SCHEMA, Piece
from doctor.finding import Finding
from doctor.match.pack import Pack
from doctor.records.reader import read
from doctor.records.record import Chunk, Notice

#: bytes of logs in all up to which all of them are covered and compared; of more only what rules and detectors look at
WHOLE = 24 << 20
LIMIT = 1_000_000
#: and up to which `doctor explain` is replayed too: it reads the same lines by the same rules
EXPLAINED = 8 << 20


@dataclass(frozen=True)
class Bundle:
    """`level` is how much was kept (0: everything). `same` says that the archive gives the diagnosis of all lines, `unchanged`
    that covering names did not change it: `lost` are rules that only the run shows, `added` those that only the bundle does."""

    archive: bytes
    manifest: dict[str, Any]
    top: str
    level: int
    same: bool
    unchanged: bool
    lost: tuple[str, ...]
    added: tuple[str, ...]
    counts: dict[str, int]

    @property
    def proven(self) -> bool:
        return self.same and self.unchanged


class Maker:
    """Makes a bundle of what was gathered. `findings` are those of the run as it stands, for the lines that they point to."""

    def __init__(self, gathered: Gathered, pack: Pack, findings: tuple[Finding, ...], coverer: Coverer) -> None:
        self.gathered = gathered
        self.pack = pack
        self.findings = findings
        self.coverer = coverer
        self.notices: list[Notice] = []
        self._seen: dict[str, Seen] = {}
        self.top = coverer.cover_name(gathered.name) or "run"

    def make(self, limit: int = LIMIT) -> Bundle:
        """The bundle with the most in it that is smaller than `limit` and gives the same diagnosis; where none does, the
        one with the most that fits, or the smallest."""
        original = outline_of(self.findings)
        self._learn()
        total = sum(item.size for item in self.gathered.wanted)
        first = 0 if total <= WHOLE else 1
        expected: Optional[bytes] = None
        best: Optional[Bundle] = None
        for number in range(first, len(LEVELS)):
            files, manifest = self._files(LEVELS[number])
            archive = packed(self.top, files)
            fits = len(archive) <= limit or number + 1 == len(LEVELS)
            found = diagnosis_of(self.top, files, self.pack, total <= EXPLAINED) if expected is None or fits else None
            if expected is None:
                expected = found
            if found is None or not fits:
                continue
            bundle = self._judged(archive, manifest, number, found, expected, original)
            if bundle.same:
                return bundle
            best = best or bundle
        assert best is not None
        return best

    def _judged(
        self,
        archive: bytes,
        manifest: dict[str, Any],
        level: int,
        found: bytes,
        expected: Optional[bytes],
        was: Outline,
    ) -> Bundle:
        now = outline(found)
        lost = tuple(sorted({row[0] for row in was if row not in now}))
        added = tuple(sorted({row[0] for row in now if row not in was}))
        return Bundle(
            archive,
            manifest,
            self.top,
            level,
            found == expected,
            expected is not None and outline(expected) == was,
            lost,
            added,
            dict(sorted((kind, count) for kind, count in self.coverer.counts.items() if count)),
        )

    def _learn(self) -> None:
        for item in self.gathered.wanted:
            if item.log is None:
                self.coverer.learn(_raw(item))
                continue
            self._seen[item.name] = look(self._chunks(item), self.pack, self.findings, str(item.path))
        budget = WHOLE
        for item in self.gathered.wanted:
            if item.log is None:
                continue
            level = LEVELS[0] if budget > 0 and item.size <= budget else LEVELS[4]
            budget -= item.size
            for data in self._kept(item, level):
                self.coverer.learn(data)

    def _kept(self, item: Wanted, level: Level) -> Iterator[bytes]:
        raw, _ = extract(self._chunks(item), ranges(self._seen[item.name], level), lambda data: data)
        yield raw

    def _chunks(self, item: Wanted) -> Iterator[Chunk]:
        return read(item.path, item.rank, on_notice=self.notices.append)

    def _files(self, level: Level) -> tuple[dict[str, bytes], dict[str, Any]]:
        """The files of the bundle by their names in it, and its manifest, which is one of them."""
        self.coverer.counts.clear()
        files: dict[str, bytes] = {}
        rows: list[dict[str, Any]] = []
        for item in self.gathered.wanted:
            name = self._name(item.name, files)
            if item.log is None:
                files[name] = self.coverer.cover(_raw(item))
                rows.append({"path": name, "bytes": item.size})
                continue
            seen = self._seen[item.name]
            raw, pieces = extract(self._chunks(item), ranges(seen, level), self.coverer.cover)
            files[name] = raw
            rows.append(_row(name, seen, pieces))
        manifest = {
            "schema": SCHEMA,
            "doctor": __version__,
            "run": self.top,
            "covered": {kind: count for kind, count in sorted(self.coverer.counts.items()) if count},
            "files": rows,
            "left_out": [
                {"path": self.coverer.cover_name(name), "bytes": size, "why": why}
                for name, size, why in self.gathered.left
            ],
            "left_out_more": self.gathered.more,
        }
        files[MANIFEST] = (json.dumps(manifest, ensure_ascii=False, indent=1) + "\n").encode()
        return files, manifest

    def _name(self, name: str, taken: dict[str, bytes]) -> str:
        """The name in the bundle; two that became the same are told apart by a number."""
        covered = self.coverer.cover_name(name)
        number, free = 1, covered
        while free in taken or free == MANIFEST:
            number += 1
            stem, dot, suffix = covered.rpartition(".")
            free = f"{stem}-{number}{dot}{suffix}" if dot else f"{covered}-{number}"
        return free


def _row(name: str, seen: Seen, pieces: Optional[list[Piece]]) -> dict[str, Any]:
    row: dict[str, Any] = {"path": name, "bytes": seen.size, "lines": seen.lines}
    if pieces is not None:
        row["pieces"] = [list(piece) for piece in pieces]
    return row


def _raw(item: Wanted) -> bytes:
    try:
        return Path(item.path).read_bytes()
    except OSError:
        return b""
