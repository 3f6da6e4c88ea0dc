"""Covers what must not leave the house, byte for byte: secrets, users, hosts, addresses, serial numbers, mail, paths.

Nothing moves: what is covered has as many bytes as before and no line end is touched, so that the line and offset of every
quotation keep their meaning. First `learn` looks at all texts for names, then `cover` takes them out wherever they stand.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple, Optional

from doctor.bundle.stand_ins import StandIns
from doctor.bundle.words import COMMON_NAMES, PACKAGES, PUBLIC_HOSTS, SYSTEM, is_public

# Every pattern below starts at an edge or has a bound: a line of megabytes must not take quadratic time.
_KEY_WORD = (
    rb"(?:password|passwd|passphrase|pwd|secret|api[_-]?key|apikey|access[_-]?key(?:[_-]?id)?|private[_-]?key|credentials?|"
    rb"authorization|cookie|auth[_-]?token|access[_-]?token|refresh[_-]?token|security[_-]?token|session[_-]?(?:id|token|key)|"
    rb"bearer[_-]?token|(?<=[a-z0-9]_)token|hub[_-]?token|ak|sk|access[_-]?code|license[_-]?key|sas[_-]?token|signature|client[_-]?secret)"
)
_SECRET = re.compile(
    rb"(?P<name>(?<![A-Za-z0-9])" + _KEY_WORD + rb"(?:[_.-][A-Za-z0-9]{1,20}){0,2})"
    rb"(?P<join>\\?[\"']?[ \t]*(?:=>|[=:])[ \t]*(?:b?\\?[\"'])?)"
    rb"(?P<value>(?:(?:bearer|basic|token)[ \t]+)?[^\s\"',;&|<>(){}\[\]\\]{1,4096})",
    re.IGNORECASE,
)
_TOKEN = re.compile(
    rb"(?<![A-Za-z0-9_.-])(?P<name>token[\"']?[ \t]*[=:][ \t]*[\"']?)(?P<value>[A-Za-z0-9_./+=-]{12,4096})",
    re.IGNORECASE,
)
_CHINESE = re.compile(
    "(?P<name>(?:密码|口令|密钥|令牌|访问密钥)[ \t]{0,4}(?:[:=]|：|为|是)[ \t]{0,4}[\"'“”]{0,3})(?P<value>[^\\s\"'，。；,;]{1,200})".encode().replace(
        "“”".encode(), b""
    )
)
_OPTION = re.compile(
    rb"(?P<name>--?" + _KEY_WORD + rb"(?:-[a-z]{1,20})?[ \t]+[\"']?)(?P<value>[^\s\"'-][^\s\"']{0,4095})", re.IGNORECASE
)
_BEARER = re.compile(rb"(?P<name>\b(?:bearer|basic)[ \t]+)(?P<value>[A-Za-z0-9+/=._~-]{8,4096})", re.IGNORECASE)
_LOGIN = re.compile(
    rb"(?P<name>(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,20}://)"
    rb"(?P<value>[^/\s:@\"'<>]{1,256}(?::[^\s@\"'<>]{0,256})?)(?=@)"
)
_KNOWN_KEYS = re.compile(
    rb"(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|"
    rb"A[KS]IA[0-9A-Z]{16}|AIza[A-Za-z0-9_-]{30,}|xox[abprs]-[A-Za-z0-9-]{10,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|"
    rb"eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)?)"
)
_PEM = re.compile(rb"^[ \t\"'+-]{0,8}(?:[A-Za-z0-9+/]{56,76}={0,2})(?=[ \t\"'\\]{0,4}\r?$)", re.MULTILINE)
_HEX = re.compile(rb"(?<![A-Za-z0-9])(?:[0-9a-f]{32,128}|[0-9A-F]{32,128})(?![A-Za-z0-9])")
_UUID = re.compile(rb"(?<![A-Za-z0-9-])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![A-Za-z0-9-])")
_SERIAL = re.compile(
    rb"(?P<name>(?<![A-Za-z])(?:serial[ _-]?(?:number|num|no)?|sn|v?die[ _-]?id|board[ _-]?id|machine[ _-]?id|asset[ _-]?tag|chip[ _-]?sn|elabel|uuid)"
    rb"[\"']?[ \t]*[:=][ \t]*[\"']?)(?P<value>[A-Za-z0-9][A-Za-z0-9-]{5,63}(?: [0-9A-Fa-f]{8}){0,4})",
    re.IGNORECASE,
)
_MAIL = re.compile(rb"(?<![A-Za-z0-9_.+-])[A-Za-z0-9_.+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,4}")
_MAC = re.compile(rb"(?<![0-9A-Za-z:-])(?:[0-9a-fA-F]{2}([:-]))(?:[0-9a-fA-F]{2}\1){4}[0-9a-fA-F]{2}(?![0-9A-Za-z:-])")
_IPV6 = re.compile(
    rb"(?<![0-9A-Za-z:.])(?:(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|(?:[0-9a-fA-F]{1,4}:){1,6}(?::[0-9a-fA-F]{1,4}){1,6})(?![0-9A-Za-z:])"
)
_IPV4 = re.compile(rb"(?<![A-Za-z0-9_.])(?:\d{1,3}\.){3}\d{1,3}(?![A-Za-z0-9_]|\.\d)")
_VERSION_BEFORE = re.compile(
    rb"(?:version|ver|driver|firmware|cann|toolkit)[\"']?[ \t]*(?:is|[:=])?[ \t]*[\"'\[v]{0,2}\Z", re.IGNORECASE
)
_HOST_KEY = re.compile(
    rb"(?P<name>(?<![A-Za-z])(?:host_?name|node_?name|server_id|(?:MASTER_ADDR|MS_SCHED_HOST|HOSTNAME|SLURMD_NODENAME|SLURM_NODELIST|NODE_NAME)|host)"
    rb"[\"']?[ \t]*[:=][ \t]*[\"']?)(?P<value>[A-Za-z0-9](?:[A-Za-z0-9.-]{0,62}[A-Za-z0-9])?)(?![A-Za-z0-9_(/])",
    re.IGNORECASE,
)
_USER_KEY = re.compile(
    rb"(?P<name>(?<![A-Za-z])(?:user_?name|login_?name|logname|sudo_user|user|owner|account)[\"']?[ \t]*[:=][ \t]*[\"']?)"
    rb"(?P<value>[A-Za-z_][A-Za-z0-9_.-]{1,31})(?![A-Za-z0-9_(/:])",
    re.IGNORECASE,
)
_USER_SAID = re.compile(
    "(?:用户名|用户)[ \t]{0,2}(?:[:=]|：)[ \t]{0,2}(?P<value>[A-Za-z_][A-Za-z0-9_.-]{1,31})".encode()
)
_UID = re.compile(rb"\b[ug]id=\d+\((?P<value>[A-Za-z_][A-Za-z0-9_.-]{0,31})\)")
_PROMPT = re.compile(
    rb"^[ \t]*(?:\([^()\n]{1,40}\)[ \t]?)?\[?(?P<user>[A-Za-z_][A-Za-z0-9_.-]{0,31})@(?P<host>[A-Za-z0-9][A-Za-z0-9.-]{0,62})(?=[: \]~])",
    re.MULTILINE,
)
_HOME = re.compile(rb"(?:/home|/Users|/root/home|\\Users)[/\\]{1,2}(?P<value>[^/\\\s:'\",;()<>|\]\[]{1,64})")
_URL_HOST = re.compile(
    rb"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}://(?:[^/\s@\"'<>]{1,600}@)?(?P<value>[A-Za-z0-9][A-Za-z0-9.-]{0,250})"
)
_PART = rb"[^\x00-\x20/\"'<>|:;,()\[\]{}=*?`\\]"
#: an absolute path; not the rest of a rate (samples/s/p), of a relative path or of an address
_PATH = re.compile(rb"(?<![A-Za-z0-9_.~/\x80-\xff<-])(?:/" + _PART + rb"{1,255}){1,64}")
_WINDOWS = re.compile(rb"(?<![A-Za-z0-9])[A-Za-z]:(?:\\{1,2}[^\x00-\x1f\\/\"'<>|:;,()\[\]{}=*?`]{1,255}){1,64}")
_RELATIVE = re.compile(
    rb"(?<=[A-Za-z0-9_.~\x80-\xff-])/" + _PART + rb"{2,255}|(?<![A-Za-z0-9_./\x80-\xff])" + _PART + rb"{3,255}(?=/)"
)
_WORD = re.compile(rb"[A-Za-z0-9\x80-\xff]+")

#: what a line must hold for the slower patterns to be tried on it
_SECRET_HINTS = (
    *(
        b"pass",
        b"pwd",
        b"secret",
        b"key",
        b"credential",
        b"authoriz",
        b"cookie",
        b"_token",
        b"-token",
        b"token=",
        b"token:",
        b"token ",
        b'token"',
        b"token'",
        b"bearer",
        b"basic ",
    ),
    *(
        b"ak=",
        b"ak:",
        b'ak"',
        b"ak'",
        b"ak ",
        b"sk=",
        b"sk:",
        b'sk"',
        b"sk'",
        b"sk ",
        b"access",
        b"signature",
        b"session",
    ),
    *(word.encode() for word in ("密", "口令", "令牌")),
)
_SERIAL_HINTS = (b"serial", b"sn", b"die", b"board", b"machine", b"asset", b"elabel", b"uuid")
_USER_HINTS = (b"user", b"log_name", b"login", b"logname", b"owner", b"account", b"id=", b"/home", "用户".encode())
_HOST_HINTS = (b"host", b"node", b"server_id", b"addr", b"://")
#: what a token is that is none of a secret
_TOKENS = re.compile(
    rb"(?:pad|eos|bos|unk|sep|cls|mask|special|image|num|per|max|min|next|start|end|stop|new|text|id|avg|each|prompt|input|output)_\Z",
    re.IGNORECASE,
)


_NUMBER = re.compile(rb"[0-9]+")
#: lines that differ in their numbers only are covered alike, unless the numbers themselves may be what has to be covered:
#: tokens of letters and digits by turns, addresses, hashes (numbers are written as 0 here)
_DEPENDS = re.compile(
    rb"[A-Za-z]0[A-Za-z]+0|0[A-Za-z]+0[A-Za-z]|0\.0\.0\.0|(?:[0-9A-Fa-f]{1,8}[:-]){4}|::|[A-Za-z_+/=-]{16,}0|0[A-Za-z_+/=-]{16,}"
)
_DEPENDS_HINTS = (
    *(*_SECRET_HINTS, *_SERIAL_HINTS, b"@", b"hf_", b"sk-", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat"),
    *(b"glpat", b"akia", b"asia", b"aiza", b"xox", b"npm_", b"pypi-", b"eyj"),
)
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
            key = _NUMBER.sub(b"0", line)
            if key not in self._learnt and not self._learn(line, line.lower()) and len(self._learnt) < _MOST_ALIKE:
                self._learnt.add(key)

    def _learn(self, line: bytes, lowered: bytes) -> bool:
        """Whether a name in the line has a number in it, so that a line that is alike may tell another one."""
        found: list[bytes] = []
        if _hinted(lowered, _USER_HINTS):
            for pattern in (_USER_KEY, _USER_SAID, _UID, _HOME):
                for match in pattern.finditer(line):
                    found.append(match["value"])
                    self._user(match["value"])
        if _hinted(lowered, _HOST_HINTS):
            for pattern in (_HOST_KEY, _URL_HOST):
                for match in pattern.finditer(line):
                    found.append(match["value"])
                    self._host(match["value"])
        if b"@" in line:
            for match in _PROMPT.finditer(line):
                found += (match["user"], match["host"])
                self._user(match["user"])
                self._host(match["host"])
        if b"/" in line:
            for match in _PATH.finditer(line):
                found.append(match.group())
                for part in _private_parts(match.group()):
                    self._parts.update(word for word in _WORD.findall(part) if _tells(word))
        return any(_NUMBER.search(name) for name in found)

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
            parts = _NUMBER.split(line)
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
                numbers = _NUMBER.findall(line)
                out.append(b"".join([piece for pair in zip(parts, [*numbers, b""]) for piece in pair]))
                self.counts.update(known.counts)
        if len(self._alike) > _MOST_ALIKE:
            self._alike.clear()
        return b"\n".join(out)

    def _as_known(self, line: bytes, covered: bytes, key: bytes, parts: list[bytes], counts: Counter[str]) -> _Known:
        """What was done to a line, as it can be done to others that differ from it in their numbers only; nothing where
        what is covered may depend on the numbers."""
        if _DEPENDS.search(key) or _hinted(key.lower(), _DEPENDS_HINTS) or self._numbered_names().search(key):
            return _Known(None, counts)
        changes, at = [], 0
        for index, part in enumerate(parts):
            now = covered[at : at + len(part)]
            if now != part:
                changes.append((index, now))
            at += len(part)
            number = _NUMBER.match(line, at)
            if number is not None:
                if covered[at : number.end()] != number.group():
                    return _Known(None, counts)
                at = number.end()
        return _Known(tuple(changes), counts)

    def _numbered_names(self) -> re.Pattern[bytes]:
        """Names with numbers in them, any numbers."""
        if self._numbered is None:
            names = {
                _NUMBER.sub(b"0", name) for name in (*self._users, *self._hosts, *self._parts) if _NUMBER.search(name)
            }
            listed = b"|".join(re.escape(name) for name in sorted(names)) or rb"(?!)"
            self._numbered = re.compile(listed, re.IGNORECASE)
        return self._numbered

    def _cover(self, text: bytes, lowered: bytes) -> bytes:
        text = _KNOWN_KEYS.sub(self._secret_whole, text)
        if b"://" in text:
            text = _LOGIN.sub(self._secret, text)
        if _hinted(lowered, _SECRET_HINTS):
            for pattern in (_SECRET, _TOKEN, _CHINESE, _OPTION, _BEARER):
                text = pattern.sub(self._secret, text)
        text = _PEM.sub(self._secret_whole, text)
        if _hinted(lowered, _SERIAL_HINTS):
            text = _SERIAL.sub(self._serial, text)
        text = _UUID.sub(lambda found: self._hexed("id", found.group()), text)
        text = _HEX.sub(lambda found: self._hexed("id", found.group()), text)
        if b"@" in text:
            text = _MAIL.sub(lambda found: self._named("mail", found.group()), text)
        text = _MAC.sub(lambda found: self._hexed("hardware address", found.group()), text)
        text = _IPV6.sub(self._ipv6, text)
        text = _IPV4.sub(self._ipv4, text)
        if b":\\" in text:
            text = _WINDOWS.sub(lambda found: self._path(found.group(), b"\\"), text)
        if b"/" in text:
            text = _PATH.sub(lambda found: self._path(found.group(), b"/"), text)
        if self._parts and b"/" in text:
            text = _RELATIVE.sub(self._relative, text)
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
        if _harmless(value) or _TOKENS.search(found.string[max(0, found.start() - 12) : found.start()]):
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
        if _VERSION_BEFORE.search(found.string[max(0, found.start() - 24) : found.start()]):
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
        return _WORD.sub(self._part_word, part)

    def _part_word(self, found: re.Match[bytes]) -> bytes:
        word = found.group()
        return word if is_public(word.decode("latin-1")) else self._named("path", word)

    def _relative(self, found: re.Match[bytes]) -> bytes:
        """A part of a relative path, whose words were met in absolute ones."""
        return _WORD.sub(
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
