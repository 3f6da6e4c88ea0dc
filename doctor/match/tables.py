"""The tables of codes under ``rules/tables``: what a code means and what to do first, in both languages."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Optional

from doctor.escape import visible
from doctor.finding import Text
from doctor.match.cache import cached_table

#: kinds of codes: the values that a rule's `table` may have
KINDS = ("acl", "hccl", "message", "torch_npu", "dcmi", "exit", "event", "aicore")


@dataclass(frozen=True)
class Code:
    """One code: `kind` is one of KINDS, `category` one of the contract's."""

    code: str
    kind: str
    category: str
    meaning: Text
    action: Text
    command: str = ""


def lookup(kind: str, word: str) -> Optional[Code]:
    """What a code of that kind means, or None when it is in no table."""
    word = word.strip()
    if kind == "acl":
        return _row("acl", word, kind)
    if kind == "hccl":
        return _hccl(word)
    if kind == "dcmi":
        return _row("dcmi", word if word.startswith("-") else f"-{word}", kind)
    if kind == "message":
        return _message(word.upper())
    if kind == "torch_npu":
        return _torch_npu(word.upper())
    if kind == "exit":
        return _exit(word)
    if kind == "event":
        return _event(word.lower())
    if kind == "aicore":
        return _aicore(word)
    raise ValueError(f"no table {kind!r}")


def guess(word: str) -> Iterator[Code]:
    """All codes that a bare word may be: ``507011``, ``EI0006``, ``137``, ``-9``, ``SIGKILL``, ``0x80fa4e00``."""
    word = word.strip()
    kinds: tuple[str, ...] = ()
    if re.fullmatch(r"[1-5]\d{5}", word):
        kinds = ("acl",)
    elif re.fullmatch(r"ERR\d{5}", word, re.IGNORECASE):
        kinds = ("torch_npu",)
    elif re.fullmatch(r"[EW][1-9A-Z][0-9A-F]{4}", word.upper()):
        kinds = ("message",)
    elif re.fullmatch(r"0x[0-9a-fA-F]{8}", word):
        kinds = ("event",)
    elif re.fullmatch(r"-?80\d\d", word):
        kinds = ("dcmi",)
    elif re.fullmatch(r"\(?0x[0-9a-fA-F]+,? ?(0x)?[0-9a-fA-F]+,? ?(0x)?[0-9a-fA-F]+\)?", word):
        kinds = ("aicore",)
    elif re.fullmatch(r"-?\d{1,3}|SIG[A-Z0-9]+|HCCL_E_\w+", word, re.IGNORECASE):
        kinds = ("exit", "hccl")
    for kind in kinds:
        found = lookup(kind, word)
        if found is not None:
            yield found


def _row(section: str, key: str, kind: str, shown: Optional[str] = None) -> Optional[Code]:
    row = _tables()[section].get(key)
    return None if row is None else _code(shown or key, kind, row)


def _code(code: str, kind: str, row: Any) -> Code:
    action = _tables()["actions"][row[3]]
    return Code(code, kind, row[0], Text(row[1], row[2]), Text(action[0], action[1]), action[2])


def _hccl(word: str) -> Optional[Code]:
    """By number or by name (HCCL_E_TIMEOUT, which begins the meaning)."""
    if word.isdigit():
        return _row("hccl", word, "hccl")
    for number, row in _tables()["hccl"].items():
        if row[1].split(":")[0] == word.upper():
            return _code(number, "hccl", row)
    return None


def _message(word: str) -> Optional[Code]:
    if not re.fullmatch(r"[EW][1-9A-Z][0-9A-F]{4}", word):
        return None
    found = _row("message", word, "message")
    if found is not None:
        return found
    module = _tables()["module"].get(f"E{word[1]}")  # a warning has the letter of its module in the same place
    if module is None:
        return None
    printed = installed_messages().get(word)
    internal = word[2:].startswith("9") and word[2:].isdigit()
    if printed is not None:
        told = f"{printed.title}. {printed.cause}" if printed.cause else printed.title
        meaning = Text(f"{module[1]}: {told}", f"{module[2]}：{told}")
    elif word.startswith("W"):
        meaning = Text(f"{module[1]}: a warning, after which the run goes on", f"{module[2]}：告警，任务会继续运行")
    elif internal:
        meaning = Text(f"{module[1]}: an internal error", f"{module[2]}：内部错误")
    else:
        meaning = Text(f"{module[1]}: an error of its own numbering", f"{module[2]}：该模块的错误")
    code = _code(word, "message", [module[0], meaning.en, meaning.zh, module[3]])
    if printed is None or not printed.solution:
        return code
    action = Text(f"{printed.solution} {code.action.en}", f"{printed.solution} {code.action.zh}")
    return replace(code, action=action)


def _torch_npu(word: str) -> Optional[Code]:
    found = re.fullmatch(r"(?:ERR)?(\d\d)(\d{3})", word)
    if found is None:
        return None
    module, row = _tables()["torch_npu_module"].get(found.group(1)), _tables()["torch_npu"].get(found.group(2))
    if module is None or row is None:
        return None
    category = row[0] if row[0] != "other" else module[0]
    return _code(
        f"ERR{found.group(1)}{found.group(2)}",
        "torch_npu",
        [category, f"{module[1]}: {row[1]}", f"{module[2]}：{row[2]}", row[3]],
    )


def _exit(word: str) -> Optional[Code]:
    number: Optional[int] = None
    if re.fullmatch(r"-?\d{1,3}", word):
        number = int(word)
    elif word.upper().startswith("SIG"):
        import signal

        value = getattr(signal, word.upper(), None)
        number = -int(value) if isinstance(value, int) else None
    if number is None:
        return None
    if number < 0 or 128 < number < 160:
        return _row("signal", str(-number if number < 0 else number - 128), "exit", shown=word)
    return _row("exit", word, "exit")


def _event(word: str) -> Optional[Code]:
    if not word.startswith("0x"):
        word = f"0x{word}"
    row = _tables()["events"].get(word)
    if row is not None:
        return _code(word, "event", row)
    action = _tables()["levels"].get(word)
    if action is None:
        return None
    return _code(word, "event", ["hardware-fault", "an event of the NPU or its server", "NPU 或服务器事件", action])


def _aicore(word: str) -> Optional[Code]:
    """``(0x800000, 0, 0)``: the highest bit that is set in the first word that is not zero."""
    try:
        words = [int(part, 0) for part in re.split(r"[,\s]+", word.strip("() ")) if part]
    except ValueError:
        return None
    key = "none"
    for index, value in enumerate(words[:3]):
        if value:
            key = f"{index}:{value.bit_length() - 1}"
            break
    return _row("aicore", key, "aicore", shown=word)


@dataclass(frozen=True)
class Message:
    """A row of error_code.json, as CANN words it (English); `cause` and `solution` are empty where it names none."""

    title: str
    cause: str = ""
    solution: str = ""


@lru_cache(maxsize=1)
def installed_messages() -> dict[str, Message]:
    """Code -> what the error_code.json of a CANN on this machine says of it; empty when there is none."""
    for variable in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"):
        base = os.environ.get(variable)
        if not base:
            continue
        path = Path(base) / "conf" / "error_manager" / "error_code.json"
        if not path.is_file():
            path = Path(base) / "runtime" / "conf" / "error_manager" / "error_code.json"
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            rows = json.loads(path.read_text(encoding="utf-8"))["error_info_list"]
            return dict(pair for pair in map(_installed, rows) if pair is not None)
    return {}


def _installed(row: Any) -> Optional[tuple[str, Message]]:
    """The code and the message of one row, or None when it has no code or says nothing of it."""
    if not isinstance(row, dict):
        return None
    title = _said(row.get("errTitle")) or _said(row.get("ErrMessage"))
    hints = row.get("suggestion")
    hints = hints if isinstance(hints, dict) else {}
    if not title or not isinstance(row.get("ErrCode"), str):
        return None
    return row["ErrCode"], Message(title, _said(hints.get("Possible Cause")), _said(hints.get("Solution")))


def _said(value: Any) -> str:
    """A text of error_code.json on one line; its "N/A" is none."""
    text = visible(" ".join(value.split())) if isinstance(value, str) else ""
    return "" if text.upper().strip(".") in ("N/A", "NA", "NONE") else text


#: the files of the tables, under the folder of the rules
_FILES = ("codes.yaml", "npu-events.yaml", "aicore-bits.yaml")


@lru_cache(maxsize=1)
def _tables() -> dict[str, Any]:
    import doctor.rules

    folder = Path(doctor.rules.__file__).parent

    def read() -> dict[str, Any]:
        from doctor.match.shipped import shipped_tables

        return shipped_tables(folder) or read_tables(folder)

    return cached_table("codes", [folder / "tables" / name for name in _FILES], read)


def read_tables(folder: Path) -> dict[str, Any]:
    """The tables of all kinds, from the YAML files under the folder of the rules."""
    import yaml

    data: dict[str, Any] = {}
    for name in _FILES:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        data.update(yaml.load((folder / "tables" / name).read_bytes(), Loader=loader))
    levels = {code: action for action, rows in data["levels"].items() for row in rows for code in row}
    return {**data, "levels": levels}
