"""Orders version numbers: those of CANN and of drivers, which have a spelling of their own, and Python's (PEP 440)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Optional

#: major, minor, patch, stage, number of the stage, what follows
Key = tuple[int, int, int, int, int, tuple[int, ...]]

_STAGES = {"t": 0, "alpha": 1, "beta": 2, "rc": 3}
_FINAL = 4
_RELEASE = re.compile(r"(\d+)\.(\d+)((?:\.\d+)*)((?:[.-]?(?:rc|alpha|beta|t)[.-]?\d+(?:\.b?\d+)*)*)(?![\d])", re.I)
_STAGE = re.compile(r"(rc|alpha|beta|t)[.-]?(\d+)((?:\.b?\d+)*)", re.I)
_COMMUNITY = re.compile(r"[.-](alpha|beta)[.-]?\d+.*$", re.I)


@lru_cache(maxsize=512)
def release_key(text: str) -> Optional[Key]:
    """Sort key of a CANN or driver version; None when it does not start like one (``8.5``, ``24.1.rc3.7``).

    ``8.0.T63 < 8.0.RC2.alpha001 < 8.0.RC2 < 8.0.RC3.beta1 < 8.0.RC3 < 8.0.0 < 8.1.RC1``, any case, with a dot or
    a dash before the stage, and a fourth number as drivers have it (``24.1.0.3``).
    """
    match = _RELEASE.match(text.strip().strip("[]()"))
    if match is None:
        return None
    more = [int(part[:9]) for part in match.group(3).split(".")[1:9]]
    stages = _STAGE.findall(match.group(4))
    stage, number, rest = _FINAL, 0, (0, *more[1:])
    if stages:
        stage, number = _STAGES[stages[0][0].lower()], int(stages[0][1][:9])
        if len(stages) > 1:  # RC2.alpha001 comes before RC2 itself
            rest = (_STAGES[stages[1][0].lower()] - _FINAL, int(stages[1][1][:9]))
        else:
            rest = (0, *(int(part.lstrip("bB")[:9]) for part in stages[0][2].split(".")[1:5]))
    return (int(match.group(1)[:9]), int(match.group(2)[:9]), more[0] if more else 0, stage, number, rest)


def release(text: str) -> str:
    """The release a community build belongs to: ``8.0.RC3.beta1`` is 8.0.RC3, ``7.0.0.beta1`` is 7.0.0.
    Spelled as the vendor does (``8.1.RC1``)."""
    return _COMMUNITY.sub("", text.strip()).upper()


def same_release(a: str, b: str) -> bool:
    """Whether two spellings name one CANN or driver release. ``8.5`` alone stands for 8.5.0."""
    first, second = release_key(release(a)), release_key(release(b))
    return first is not None and first == second


# ---------------------------------------------------------------------------- Python packages

_PEP440 = re.compile(
    r"v?(?:(\d+)!)?(\d+(?:\.\d+)*)"
    r"(?:[-_.]?(a|alpha|b|beta|c|rc|pre|preview)[-_.]?(\d*))?"
    r"(?:-(\d+)|[-_.]?(post|rev|r)[-_.]?(\d*))?"
    r"(?:[-_.]?(dev)[-_.]?(\d*))?"
    r"(?:\+([a-z0-9]+(?:[-_.][a-z0-9]+)*))?",
    re.I,
)
_PRE = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}

#: the third part of the key of a version that is no pre-release
FINAL = (3, 0)

PackageKey = tuple[int, tuple[int, ...], tuple[int, int], int, int]


@lru_cache(maxsize=1024)
def package_key(text: str) -> Optional[PackageKey]:
    """Sort key of a Python package version after PEP 440, without its local part; None when it is not one."""
    match = _PEP440.fullmatch(text.strip())
    if match is None:
        return None
    epoch, numbers, pre, pre_number, dash, post, post_number, dev, dev_number, _ = match.groups()
    release_numbers = [int(part[:9]) for part in numbers.split(".")]
    while len(release_numbers) > 1 and release_numbers[-1] == 0:
        release_numbers.pop()
    has_post = dash is not None or post is not None
    post_key = int((dash or post_number or "0")[:9]) if has_post else -1
    dev_key = int((dev_number or "0")[:9]) if dev else 1 << 30
    if pre:
        pre_key = (_PRE[pre.lower()], int((pre_number or "0")[:9]))
    elif dev and not has_post:
        pre_key = (-1, 0)  # 1.0.dev1 comes before 1.0a1
    else:
        pre_key = FINAL
    return (int((epoch or "0")[:9]), tuple(release_numbers), pre_key, post_key, dev_key)


def numbers(text: str) -> tuple[int, ...]:
    """The release numbers of a package version: ``2.7.1.post1`` gives (2, 7, 1); empty when it is not one."""
    match = _PEP440.fullmatch(text.strip())
    return tuple(int(part[:9]) for part in match.group(2).split(".")) if match else ()


_CLAUSE = re.compile(r"\s*(===|==|!=|~=|>=|<=|>|<)\s*([^\s,;()]+)\s*")


def satisfies(version: str, specifier: str) -> Optional[bool]:
    """Whether a version meets a specifier set such as ``>=1.20.0,<2.0.0``; None when either cannot be read.

    A pre-release that is installed is compared by its order, as pip's check does."""
    key = package_key(version)
    if key is None:
        return None
    for clause in specifier.strip().strip("()").split(","):
        if not clause.strip():
            continue
        match = _CLAUSE.fullmatch(clause)
        if match is None:
            return None
        held = _holds(version, key, match.group(1), match.group(2))
        if not held:
            return held
    return True


def _holds(version: str, key: PackageKey, operator: str, wanted: str) -> Optional[bool]:
    if operator == "===":
        return version.strip().lower() == wanted.lower()
    if wanted.endswith(".*"):
        prefix = numbers(wanted[:-2])
        if not prefix or operator not in {"==", "!="}:
            return None
        mine = (*numbers(version), *([0] * len(prefix)))[: len(prefix)]
        return (mine == prefix) == (operator == "==")
    other = package_key(wanted)
    if other is None:
        return None
    if operator == "~=":
        prefix = numbers(wanted)[:-1]
        mine = (*numbers(version), *([0] * len(prefix)))[: len(prefix)]
        return bool(prefix) and key >= other and mine == prefix
    if operator == "<":
        # PEP 440: <2.0 does not admit 2.0rc1, a pre-release of the bound itself
        same_base = key[:2] == other[:2] and other[3] == -1
        return key < other and not (same_base and other[2] == FINAL and key[2] != FINAL)
    if operator == ">":
        # and >1.7 does not admit 1.7.post1
        return key > other and not (key[:3] == other[:3] and other[3] == -1 and key[3] != -1)
    return {"==": key == other, "!=": key != other, ">=": key >= other, "<=": key <= other}[operator]
