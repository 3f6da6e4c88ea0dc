"""Takes names out of collected facts and texts: host names, users, home folders, addresses, secrets.

The same name gives the same stand-in, here and in the document of another node, so that comparing nodes
still works: equal names stay equal, different ones different. Addresses keep their form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Optional

from doctor.checks.environment.fields import Fields

_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)")
_IPV6 = re.compile(r"(?<![\w:])(?:[0-9a-f]{1,4}:){3,7}[0-9a-f]{1,4}(?![\w:])|\bfe80::[0-9a-f:]+", re.I)
_MAC = re.compile(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b", re.I)
_HOME = re.compile(r"/(home|Users)/([^/\s:'\",]+)")
# Every run of characters below starts at its edge or has a bound: a long line must not take quadratic time.
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+")
_URL_LOGIN = re.compile(
    r"(?P<scheme>(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,20}://)[^/\s:@]{1,256}(?::[^/\s@]{0,256})?@", re.I
)
_SECRET_NAME = r"[\w.-]{0,40}(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|credential|private[_-]?key|authorization|cookie)[\w.-]{0,40}"
_SECRET_PAIR = re.compile(
    rf"(?P<name>\b{_SECRET_NAME})(?P<join>[\"']?\s*[=:]\s*[\"']?)(?P<value>(?:bearer\s+)?[^\s\"',;&|]+)", re.I
)
_SECRET_OPTION = re.compile(rf"(?P<name>--{_SECRET_NAME})\s+(?P<value>[^\s-]\S*)", re.I)
_KEY = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)"
)
_SECRET_FIELD = re.compile(_SECRET_NAME, re.I)
#: names that identify nobody
_COMMON = frozenset(
    {
        "root",
        "localhost",
        "user",
        "users",
        "home",
        "hwhiaiuser",
        "python",
        "work",
        "data",
        "admin",
        "nobody",
        "ubuntu",
        "none",
    }
)
HIDDEN = "<redacted>"


def stand_in(kind: str, name: str) -> str:
    """``host-1f3a9c`` for a name: the same everywhere, and not the name."""
    return f"{kind}-{_digest(name.lower()).hex()[:6]}"


def _digest(text: str) -> bytes:
    import hashlib  # here: discovery loads this module, and only redacting needs it

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True)
class Redactor:
    """Replaces known names and whatever looks like an address, a mail address, a home folder or a secret.

    `hosts` and `users` are names to take out wherever they stand as a word of their own."""

    hosts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    #: off where dotted numbers are versions
    addresses: bool = True

    @cached_property
    def _names(self) -> dict[str, str]:
        names = [(name, "host") for name in self.hosts] + [(name, "user") for name in self.users]
        return {name: stand_in(kind, name) for name, kind in names if len(name) > 1 and name.lower() not in _COMMON}

    @cached_property
    def _known(self) -> Optional[re.Pattern[str]]:
        longest = sorted(self._names, key=len, reverse=True)
        pattern = "|".join(re.escape(name) for name in longest)
        return re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])") if longest else None

    def text(self, value: str) -> str:
        value = _URL_LOGIN.sub(rf"\g<scheme>{HIDDEN}@", value)
        value = _KEY.sub(HIDDEN, value)
        value = _SECRET_PAIR.sub(lambda match: f"{match['name']}{match['join']}{HIDDEN}", value)
        value = _SECRET_OPTION.sub(lambda match: f"{match['name']} {HIDDEN}", value)
        value = _MAIL.sub("<mail>", value)
        value = _MAC.sub("<mac>", value)
        value = _IPV6.sub(lambda match: stand_in("ipv6", match[0]), value)
        if self.addresses:
            value = _IPV4.sub(lambda match: address(match[0]), value)
        if self._known is not None:
            value = self._known.sub(lambda match: self._names[match[0]], value)
        return _HOME.sub(lambda match: f"/{match[1]}/{self._folder(match[2])}", value)

    def _folder(self, name: str) -> str:
        if name.lower() in _COMMON or name.startswith("user-"):
            return name
        return stand_in("user", name)

    def value(self, value: Any, key: str = "") -> Any:
        """Any JSON value with its texts redacted; keys stay, except where they are addresses or paths."""
        if isinstance(value, str):
            if _SECRET_FIELD.fullmatch(key) and value:
                return HIDDEN
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(name)): self.value(item, str(name)) for name, item in value.items()}
        if isinstance(value, list):
            return [self.value(item, key) for item in value]
        return value


def address(text: str) -> str:
    """A private address in place of a real one; loopback, wildcard and masks stay as they are."""
    parts = [int(part) for part in text.split(".")]
    if any(part > 255 for part in parts) or parts[0] in (0, 127, 255):
        return text
    digest = _digest(text)
    return f"10.{digest[0]}.{digest[1]}.{digest[2]}"


#: places in the facts whose dotted numbers are versions and not addresses
_VERSIONS = ("packages", "distributions", "npu", "driver", "cann", "mindspore", "mindformers", "modules", "deep")


def redact(document: dict[str, Any]) -> dict[str, Any]:
    """A collected document without names, addresses and secrets; it is judged as before."""
    facts = document["facts"] if isinstance(document.get("facts"), dict) else document
    redactor = Redactor(tuple(_hosts(facts)), tuple(_users(facts)))
    plain = replace(redactor, addresses=False)
    clean = {key: (plain if key in _VERSIONS else redactor).value(value, key) for key, value in facts.items()}
    return {**document, "facts": clean} if facts is not document else clean


def _hosts(facts: Mapping[str, Any]) -> list[str]:
    host = facts.get("host")
    name = host.get("hostname") if isinstance(host, Mapping) else None
    names = [name] if isinstance(name, str) and name else []
    environ = facts.get("env")
    if isinstance(environ, Mapping):
        names += [value for value in map(environ.get, ("MS_SCHED_HOST", "MASTER_ADDR")) if isinstance(value, str)]
    launch = facts.get("launch")
    if isinstance(launch, Mapping):
        master = launch.get("master")
        if isinstance(master, Mapping) and isinstance(master.get("host"), str):
            names.append(master["host"])
        table = launch.get("host_file")
        rows = table.get("hosts") if isinstance(table, Mapping) else None
        names += [row["host"] for row in rows or [] if isinstance(row, Mapping) and isinstance(row.get("host"), str)]
        servers = Fields(launch).rows("rank_table", "servers")
        names += [name for name in (server.text("server_id") for server in servers) if name and not name.isdecimal()]
    names += [name.split(".")[0] for name in names if "." in name and not _IPV4.fullmatch(name)]
    return [name for name in dict.fromkeys(names) if not _IPV4.fullmatch(name)]


def _users(facts: Mapping[str, Any]) -> list[str]:
    host = facts.get("host")
    user = host.get("user") if isinstance(host, Mapping) else None
    names = []
    if isinstance(user, Mapping):
        if isinstance(user.get("name"), str):
            names.append(user["name"])
        home = user.get("home")
        if isinstance(home, str) and home.startswith(("/home/", "/Users/")):
            names.append(home.split("/")[2])
    return [name for name in dict.fromkeys(names) if name]
