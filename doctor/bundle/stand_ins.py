"""What takes the place of a name: characters of the same kinds, as many bytes, the same wherever the name stands.

Which stand-in a name gets depends on the order in which names were met, not on the name: nothing can be guessed back from
it. Letters come from a few consonants that make no word a rule could take for an error.
"""

from __future__ import annotations

import hashlib

_LETTERS = b"jkqvwxyz"
_HEX = b"0123456789abcdef"
#: other stand-ins that are tried before two names share one
_TRIES = 500


class StandIns:
    """Hands out stand-ins; `kind` keeps users, hosts and addresses apart in what is counted."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bytes], bytes] = {}
        self._taken: set[bytes] = set()
        self.counts: dict[str, int] = {}

    def of(self, kind: str, name: bytes) -> bytes:
        """The stand-in of a name, case kept: letters for letters, digits for digits, other bytes for themselves."""
        return self._find(kind, name, _lettered)

    def address(self, name: bytes) -> bytes:
        """An IPv4 address with as many digits in each part; loopback, wildcards and masks stay."""
        parts = name.split(b".")
        values = [int(part) for part in parts]
        if any(value > 255 for value in values) or values[0] in (0, 127, 255) or values == [8, 8, 8, 8]:
            return name
        return self._find("address", name, _dotted)

    def hexadecimal(self, kind: str, name: bytes) -> bytes:
        """Hexadecimal digits for those of an IPv6 or hardware address, a UUID, a digest."""
        return self._find(kind, name, _hexed)

    def _find(self, kind: str, name: bytes, make: object) -> bytes:
        key = (kind, name)
        found = self._known.get(key)
        if found is None:
            assert callable(make)
            number = len(self._known)
            for attempt in range(_TRIES):
                found = make(name, _stream(f"{number}.{attempt}", len(name)))
                if found not in self._taken and found != name:
                    break
            assert found is not None
            self._taken.add(found)
            self._known[key] = found
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return found


def _stream(seed: str, size: int) -> bytes:
    """As many bytes as are wanted, from a number."""
    found = b""
    while len(found) < size:
        found += hashlib.blake2b(f"{seed}.{len(found)}".encode(), digest_size=64).digest()
    return found


def _lettered(name: bytes, noise: bytes) -> bytes:
    out = bytearray()
    for byte, draw in zip(name, noise):
        if 0x30 <= byte <= 0x39:
            out.append(0x31 + draw % 9)
        elif 0x41 <= byte <= 0x5A:
            out.append(_LETTERS[draw % len(_LETTERS)] - 0x20)
        elif 0x61 <= byte <= 0x7A or byte >= 0x80:
            out.append(_LETTERS[draw % len(_LETTERS)])
        else:
            out.append(byte)
    return bytes(out)


def _dotted(name: bytes, noise: bytes) -> bytes:
    parts = []
    for part, draw in zip(name.split(b"."), noise):
        value = 1 + draw % 9 if len(part) == 1 else 10 + draw % 90 if len(part) == 2 else 128 + draw % 96
        parts.append(str(value).encode())
    return b".".join(parts)


def _hexed(name: bytes, noise: bytes) -> bytes:
    out = bytearray()
    for byte, draw in zip(name, noise):
        digit = _HEX[draw % 16]
        if 0x30 <= byte <= 0x39 or 0x61 <= byte <= 0x66:
            out.append(digit)
        elif 0x41 <= byte <= 0x46:
            out += bytes((digit,)).upper()
        else:
            out.append(byte)
    return bytes(out)
