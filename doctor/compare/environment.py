"""Two machines, or the surroundings of two runs: versions first, then devices, variables, packages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from doctor.compare.row import FAILURE, LOSS, MEMORY, SPEED, Row
from doctor.finding import Text

_ALL = (LOSS, SPEED, MEMORY, FAILURE)
#: what a part bears on, and its weight; others are packages
_PARTS: dict[str, tuple[Text, tuple[str, ...], float]] = {
    "mindspore": (Text("MindSpore", "MindSpore"), _ALL, 0.9),
    "mindformers": (Text("MindFormers", "MindFormers"), _ALL, 0.88),
    "cann": (Text("CANN", "CANN"), _ALL, 0.87),
    "driver": (Text("driver", "驱动"), (SPEED, FAILURE), 0.8),
    "firmware": (Text("firmware", "固件"), (SPEED, FAILURE), 0.7),
    "python": (Text("Python", "Python"), (FAILURE,), 0.5),
    "device": (Text("device", "设备"), _ALL, 0.85),
    "card": (Text("card", "卡型号"), _ALL, 0.85),
    "devices": (Text("devices", "设备数"), (LOSS, SPEED, MEMORY, FAILURE), 0.8),
    "cores": (Text("CPU cores", "CPU 核数"), (SPEED,), 0.4),
    "host": (Text("host", "主机"), (SPEED, FAILURE), 0.2),
    "os": (Text("system", "操作系统"), (FAILURE,), 0.3),
    "kernel": (Text("kernel", "内核"), (FAILURE,), 0.25),
    "architecture": (Text("architecture", "架构"), _ALL, 0.6),
    "memory": (Text("host memory", "主机内存"), (FAILURE,), 0.3),
    "mindspore_doctor": (Text("doctor", "doctor"), (), 0.1),
}
_FRAMEWORK = (
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "numpy",
    "te",
    "hccl",
    "auto-tune",
    "op-compile-tool",
)
#: variables that say who started a process rather than how it computes
_ASIDE_VARIABLES = frozenset(
    ("HOME", "PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "VIRTUAL_ENV", "TMPDIR")
)


def compare_surroundings(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[Row]:
    """What two runs say of where they ran. A part that one of them does not tell is no difference: it is not known."""
    for name in (*_PARTS, *sorted((set(a) & set(b)) - set(_PARTS))):
        one, other = a.get(name), b.get(name)
        if one is not None and other is not None and not _same_version(one, other):
            label, bears_on, weight = _part(name)
            yield Row("environment", name, label, one, other, bears_on, weight)


def _same_version(one: str, other: str) -> bool:
    """Equal, or one is the other cut short: 3.11 and 3.11.7."""
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")


def _part(name: str) -> tuple[Text, tuple[str, ...], float]:
    known = _PARTS.get(name)
    return known if known is not None else (Text(name, name), (LOSS, SPEED, FAILURE), 0.4)


def compare_hosts(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Row]:
    """Two documents of `doctor collect` (or their bare facts)."""
    from doctor.checks.environment.host import from_document
    from doctor.session.surroundings import versions_of

    left, right = dict(versions_of(a)), dict(versions_of(b))
    for facts, found in ((a, left), (b, right)):
        host = from_document(facts, "")
        if host is not None:
            for name, key in (("os", "os"), ("kernel", "kernel"), ("architecture", "machine")):
                value = host.system.text(key)
                if value:
                    found[name] = value
    for name in _PARTS:
        one, other = left.get(name), right.get(name)
        if one != other:
            label, bears_on, weight = _part(name)
            yield Row("environment", name, label, one, other, bears_on, weight)
    yield from _pairs("variable", _facts(a).get("env"), _facts(b).get("env"), 0.5)
    yield from _pairs("package", _facts(a).get("packages"), _facts(b).get("packages"), 0.3)


def _facts(document: Mapping[str, Any]) -> Mapping[str, Any]:
    facts = document.get("facts")
    return facts if isinstance(facts, dict) else document


def _pairs(kind: str, one: Any, other: Any, weight: float) -> Iterator[Row]:
    left, right = (value if isinstance(value, dict) else {} for value in (one, other))
    for name in sorted(set(left) | set(right)):
        if kind == "package" and name.lower() in ("mindspore", "mindformers"):
            continue
        if left.get(name) != right.get(name):
            aside = name in _ASIDE_VARIABLES
            near = kind == "variable" or name.lower() in _FRAMEWORK
            bears_on = () if aside else ((LOSS, SPEED, FAILURE) if near else (FAILURE,))
            shown = Text(name, name)
            yield Row(
                "environment",
                f"{kind}.{name}",
                shown,
                _text(left.get(name)),
                _text(right.get(name)),
                bears_on,
                0.05 if aside else weight if near else 0.15,
            )


def _text(value: Any) -> Any:
    return value if value is None or isinstance(value, (str, int, float)) else str(value)
