"""Covers what must not leave the house, byte for byte: secrets, users, hosts, addresses, serial numbers, mail, paths.

Nothing moves: what is covered has as many bytes as before and no line end is touched, so that the line and offset of every
quotation keep their meaning. First `learn` looks at all texts for names, then `cover` takes them out wherever they stand.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple, Optional

from doctor.bundle import patterns
from doctor.bundle.stand_ins import StandIns
from doctor.bundle.words import COMMON_NAMES, PACKAGES, PUBLIC_HOSTS, SYSTEM, is_public

#: forms of lines that are remembered
_MOST_ALIKE = 20_000


class _Known(NamedTuple):
    """What is done to lines of one form: parts between numbers that are put in place, and what that counts. `changes` is
    None where each line has to be looked at."""

    changes: Optional[tuple[tuple[int, bytes], ...]]
    counts: Counter[str]


class Coverer:
    """`learn` all texts first; what `cover` does then depends on the order in which it is given them, and on nothing else."""

    def __init__(self, users: tuple[str, ...] = (), hosts: tuple[str, ...] = ()) -> None:
        self.stand_ins = StandIns()
        self.counts: Counter[str] = Counter()
        self._users: set[bytes] = set()
        self._hosts: set[bytes] = set()
        self._parts: set[bytes] = set()
        self._names: Optional[re.Pattern[bytes]] = None
        self._numbered: Optional[re.Pattern[bytes]] = None
        #: lines whose numbers are left out of account -> what is done to them
        self._alike: dict[bytes, _Known] = {}
        #: lines of that kind from which there is nothing more to learn
        self._learnt: set[bytes] = set()
        for name in users:
            self._user(name.encode())
        for name in hosts:
            self._host(name.encode())

    # what is to be covered

    def learn(self, text: bytes) -> None:
        """Notes the names of users, hosts and folders that the text tells."""
        self._names = self._numbered = None
        self._alike.clear()
        for line in text.split(b"\n"):
            key = patterns.NUMBER.sub(b"0", line)
            if key not in self._learnt and not self._learn(line, line.lower()) and len(self._learnt) < _MOST_ALIKE:
                self._learnt.add(key)

    def _learn(self, line: bytes, lowered: bytes) -> bool:
        """Whether a name in the line has a number in it, so that a line that is alike may tell another one."""
        found: list[bytes] = []
        if _hinted(lowered, patterns.USER_HINTS):
            for pattern in (patterns.USER_KEY, patterns.USER_SAID, patterns.UID, patterns.HOME):
                for match in pattern.finditer(line):
                    found.append(match["value"])
                    self._user(match["value"])
        if _hinted(lowered, patterns.HOST_HINTS):
            for pattern in (patterns.HOST_KEY, patterns.URL_HOST):
                for match in pattern.finditer(line):
                    found.append(match["value"])
                    self._host(match["value"])
        if b"@" in line:
            for match in patterns.PROMPT.finditer(line):
                found += (match["user"], match["host"])
                self._user(match["user"])
                self._host(match["host"])
        if b"/" in line:
            for match in patterns.PATH.finditer(line):
                found.append(match.group())
                for part in _private_parts(match.group()):
                    self._parts.update(word for word in patterns.WORD.findall(part) if _tells(word))
        return any(patterns.NUMBER.search(name) for name in found)

    def _user(self, name: bytes) -> None:
        word = name.rstrip(b".-")
        bare = word.lower().decode("latin-1")
        if len(word) >= 3 and bare not in COMMON_NAMES and not is_public(bare):
            self._users.add(word.lower())

    def _host(self, name: bytes) -> None:
        word = name.rstrip(b".-")
        if re.fullmatch(rb"[\d.]+", word) or PUBLIC_HOSTS.match(word):
            return
        for part in {word, word.split(b".")[0]}:
            bare = part.lower().decode("latin-1")
            if len(part) >= 2 and bare not in COMMON_NAMES and not bare.isdigit() and not is_public(bare):
                self._hosts.add(part.lower())

    # covering

    def cover(self, text: bytes) -> bytes:
        """The text with all that covered; as many bytes, line ends where they were."""
        out = []
        for line in text.split(b"\n"):
            parts = patterns.NUMBER.split(line)
            key = b"0".join(parts)
            known = self._alike.get(key)
            if known is None:
                before = self.counts.copy()
                covered = self._cover(line, line.lower())
                known = self._alike[key] = self._as_known(line, covered, key, parts, self.counts - before)
                out.append(covered)
            elif known.changes is None:
                out.append(self._cover(line, line.lower()))
            elif not known.changes:
                out.append(line)
            else:
                for at, part in known.changes:
                    parts[at] = part
                numbers = patterns.NUMBER.findall(line)
                out.append(b"".join([piece for pair in zip(parts, [*numbers, b""]) for piece in pair]))
                self.counts.update(known.counts)
        if len(self._alike) > _MOST_ALIKE:
            self._alike.clear()
        return b"\n".join(out)

    def _as_known(self, line: bytes, covered: bytes, key: bytes, parts: list[bytes], counts: Counter[str]) -> _Known:
        """What was done to a line, as it can be done to others that differ from it in their numbers only; nothing where
        what is covered may depend on the numbers."""
        if (
            patterns.DEPENDS.search(key)
            or _hinted(key.lower(), patterns.DEPENDS_HINTS)
            or self._numbered_names().search(key)
        ):
            return _Known(None, counts)
        changes, at = [], 0
        for index, part in enumerate(parts):
            now = covered[at : at + len(part)]
            if now != part:
                changes.append((index, now))
            at += len(part)
            number = patterns.NUMBER.match(line, at)
            if number is not None:
                if covered[at : number.end()] != number.group():
                    return _Known(None, counts)
                at = number.end()
        return _Known(tuple(changes), counts)

    def _numbered_names(self) -> re.Pattern[bytes]:
        """Names with numbers in them, any numbers."""
        if self._numbered is None:
            names = {
                patterns.NUMBER.sub(b"0", name)
                for name in (*self._users, *self._hosts, *self._parts)
                if patterns.NUMBER.search(name)
            }
            listed = b"|".join(re.escape(name) for name in sorted(names)) or rb"(?!)"
            self._numbered = re.compile(listed, re.IGNORECASE)
        return self._numbered

    def _cover(self, text: bytes, lowered: bytes) -> bytes:
        text = patterns.KNOWN_KEYS.sub(self._secret_whole, text)
        if b"://" in text:
            text = patterns.LOGIN.sub(self._secret, text)
        if _hinted(lowered, patterns.SECRET_HINTS):
            for pattern in (patterns.SECRET, patterns.TOKEN, patterns.CHINESE, patterns.OPTION, patterns.BEARER):
                text = pattern.sub(self._secret, text)
        text = patterns.PEM.sub(self._secret_whole, text)
        if _hinted(lowered, patterns.SERIAL_HINTS):
            text = patterns.SERIAL.sub(self._serial, text)
        text = patterns.UUID.sub(lambda found: self._hexed("id", found.group()), text)
        text = patterns.HEX.sub(lambda found: self._hexed("id", found.group()), text)
        if b"@" in text:
            text = patterns.MAIL.sub(lambda found: self._named("mail", found.group()), text)
        text = patterns.MAC.sub(lambda found: self._hexed("hardware address", found.group()), text)
        text = patterns.IPV6.sub(self._ipv6, text)
        text = patterns.IPV4.sub(self._ipv4, text)
        if b":\\" in text:
            text = patterns.WINDOWS.sub(lambda found: self._path(found.group(), b"\\"), text)
        if b"/" in text:
            text = patterns.PATH.sub(lambda found: self._path(found.group(), b"/"), text)
        if self._parts and b"/" in text:
            text = patterns.RELATIVE.sub(self._relative, text)
        return self._known_names().sub(self._person, text)

    def cover_name(self, name: str) -> str:
        """A path within the run, covered in the same way; its words about ranks and kinds of logs stay."""
        parts = name.split("/")
        return "/".join(
            self._part(part.encode("utf-8", "surrogateescape")).decode("utf-8", "replace") for part in parts
        )

    def _known_names(self) -> re.Pattern[bytes]:
        if self._names is None:
            names = sorted(self._users | self._hosts, key=lambda name: (-len(name), name))
            listed = b"|".join(re.escape(name) for name in names) or rb"(?!)"
            self._names = re.compile(rb"(?<![A-Za-z0-9])(?:" + listed + rb")(?![A-Za-z0-9])", re.IGNORECASE)
        return self._names

    def _person(self, found: re.Match[bytes]) -> bytes:
        name = found.group()
        return self._named("user" if name.lower() in self._users else "host", name)

    def _named(self, kind: str, name: bytes) -> bytes:
        self.counts[kind] += 1
        return self.stand_ins.of("name" if kind in ("user", "host", "path") else kind, name)

    def _hexed(self, kind: str, name: bytes) -> bytes:
        if len(set(name)) <= 2:  # zeros, a rule of dashes
            return name
        self.counts[kind] += 1
        return self.stand_ins.hexadecimal(kind, name)

    def _secret(self, found: re.Match[bytes]) -> bytes:
        value = found["value"]
        if value.startswith(b"/") and found["name"].upper() == b"PWD":
            return found.group()  # a folder, covered as one
        if _harmless(value) or patterns.TOKENS.search(found.string[max(0, found.start() - 12) : found.start()]):
            return found.group()
        self.counts["secret"] += 1
        begin, end = found.start("value") - found.start(), found.end("value") - found.start()
        return found.group()[:begin] + _hidden(value) + found.group()[end:]

    def _secret_whole(self, found: re.Match[bytes]) -> bytes:
        self.counts["secret"] += 1
        return _hidden(found.group())

    def _serial(self, found: re.Match[bytes]) -> bytes:
        if not any(0x30 <= byte <= 0x39 for byte in found["value"]):
            return found.group()
        self.counts["serial number"] += 1
        return found["name"] + self.stand_ins.of("serial number", found["value"])

    def _ipv4(self, found: re.Match[bytes]) -> bytes:
        before = found.string[max(0, found.start() - 64) : found.start()]
        if patterns.VERSION_BEFORE.search(before):
            return found.group()
        key = patterns.KEY_BEFORE.search(before)
        if key is not None and not patterns.ADDRESS_KEY.search(key["key"]):
            return found.group()
        covered = self.stand_ins.address(found.group())
        self.counts["address"] += covered != found.group()
        return covered

    def _ipv6(self, found: re.Match[bytes]) -> bytes:
        name = found.group()
        if name == b"::1" or not (b"::" in name or name.count(b":") == 7) or name.replace(b":", b"").isdigit():
            return name
        return self._hexed("address", name)

    def _path(self, path: bytes, between: bytes) -> bytes:
        parts = path.split(between)
        if _is_system(parts):
            return path
        out, kept = [], False
        for index, part in enumerate(parts):
            kept = kept or (_before_packages(parts, index) and part.decode("latin-1").lower().split("-")[0] in PACKAGES)
            out.append(part if kept or not part or (not index and between == b"\\") else self._part(part))
        return between.join(out)

    def _part(self, part: bytes) -> bytes:
        return patterns.WORD.sub(self._part_word, part)

    def _part_word(self, found: re.Match[bytes]) -> bytes:
        word = found.group()
        return word if is_public(word.decode("latin-1")) else self._named("path", word)

    def _relative(self, found: re.Match[bytes]) -> bytes:
        """A part of a relative path, whose words were met in absolute ones."""
        return patterns.WORD.sub(
            lambda word: self._named("path", word.group()) if word.group() in self._parts else word.group(),
            found.group(),
        )


def _hinted(lowered: bytes, hints: tuple[bytes, ...]) -> bool:
    return any(hint in lowered for hint in hints)


def _private_parts(path: bytes) -> list[bytes]:
    parts = path.split(b"/")
    if _is_system(parts):
        return []
    for index in range(len(parts)):
        if _before_packages(parts, index) and parts[index].decode("latin-1").lower().split("-")[0] in PACKAGES:
            return parts[:index]
    return parts


def _is_system(parts: list[bytes]) -> bool:
    """Whether a path lies in a tree that is the same on all machines."""
    return parts[1:4] == [b"usr", b"local", b"Ascend"] or (len(parts) > 1 and parts[1].decode("latin-1") in SYSTEM)


def _before_packages(parts: list[bytes], index: int) -> bool:
    """Whether a part stands where packages of Python stand."""
    before = parts[index - 1] if index else b""
    return before in (b"site-packages", b"dist-packages") or bool(re.fullmatch(rb"python3(?:\.\d+)?", before))


def _tells(word: bytes) -> bool:
    return len(word) >= 3 and not word.isdigit() and not is_public(word.decode("latin-1"))


def _harmless(value: bytes) -> bool:
    """What is no secret though its name sounds like one: nothing, a flag, a small number, a placeholder."""
    bare = value.strip(b"*xX.<>").lower()
    return bare in (b"", b"none", b"null", b"true", b"false", b"unset", b"required", b"required.", b"redacted") or bool(
        re.fullmatch(rb"-?\d{1,4}(?:\.\d*)?", bare)
    )


def _hidden(value: bytes) -> bytes:
    return re.sub(rb"[^\s]", b"x", value)
