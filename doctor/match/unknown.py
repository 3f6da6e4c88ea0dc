"""What to say when no rule fits: the rules that come nearest, what to collect, and a rule to start from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Optional

from doctor.escape import visible
from doctor.finding import Text
from doctor.match.pack import Pack, patterns_of

_WORD = re.compile(r"[A-Za-z_]{3,}|[\u4e00-\u9fff]{2,}|[A-Z]{1,3}\d{4,6}")
_ERROR = re.compile(
    r"(\b[A-Z]\w*(?:Error|Exception|Interrupt)\b:|\b(?:error|failed|failure|fatal|critical|exception|abort\w*|cannot|can't|"
    r"unable|not found|timed? ?out|invalid)\b|错误|失败|异常|无法)",
    re.IGNORECASE,
)
_COMMON = frozenset(
    (
        *(
            "the",
            "and",
            "for",
            "that",
            "this",
            "with",
            "from",
            "not",
            "but",
            "was",
            "are",
            "should",
            "when",
            "has",
            "have",
        ),
        *(
            "line",
            "file",
            "error",
            "failed",
            "python",
            "packages",
            "site",
            "lib",
            "usr",
            "local",
            "home",
            "run",
            "call",
        ),
        *("most", "recent", "last", "traceback", "info", "warning", "device", "rank"),
    )
)


@dataclass(frozen=True)
class Nearest:
    """A rule that shares words with the text, and how many of its own."""

    rule: str
    title: Text
    likeness: float


@dataclass(frozen=True)
class Wanted:
    """What to gather, and the command that does."""

    what: Text
    command: str


def looks_wrong(text: str) -> bool:
    """Whether any line speaks of a failure at all."""
    return any(_ERROR.search(line) for line in text.splitlines())


def telling_line(text: str) -> str:
    """The line that most looks like the error: the last exception, else the first line with a word of failure."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    exceptions = [line for line in lines if re.search(r"\b[A-Z]\w*(?:Error|Exception): ?\S", line)]
    if exceptions:
        return exceptions[-1]
    return next((line for line in lines if _ERROR.search(line)), lines[-1] if lines else "")


def nearest_rules(text: str, pack: Pack, most: int = 3) -> tuple[Nearest, ...]:
    """The rules whose patterns share the largest part of their words with the text."""
    words = _words(text[-20_000:])
    scored = []
    for rule in pack.rules:
        best = 0.0
        for pattern in patterns_of(rule.match)[:8]:
            own = _words(re.sub(r"\\[a-zA-Z]|\(\?P<\w+>", " ", pattern.regex))
            if len(own) >= 2:
                best = max(best, len(own & words) / (len(own) + 1))
        if best >= 0.4:
            scored.append((-round(best, 2), rule.id, rule))
    scored.sort(key=lambda item: item[:2])
    return tuple(Nearest(rule.id, rule.rule.title, -likeness) for likeness, _, rule in scored[:most])


def _words(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(text)) - _COMMON


def what_to_collect(text: str) -> tuple[Wanted, ...]:
    """Commands that bring what is missing, the most telling first."""
    wanted = []
    if re.search(r"\bE[A-Z1-9]\w{4}\b|aclnn|acl[A-Z]|\b(?:107|207|507)\d{3}\b|Inner Error|Ascend", text):
        wanted.append(
            Wanted(
                Text("the first errors in the device logs (plog)", "plog 中最早的 ERROR 行"),
                "grep -rn ERROR ~/ascend/log/debug/plog | sort -t: -k3 | head -40",
            )
        )
    if re.search(r"HCCL|hccl|EI\d{4}|EJ\d{4}|rank|worker|msrun|Distributed", text):
        wanted.append(
            Wanted(
                Text("the first error of every rank", "每个 rank 最早的报错"),
                "grep -nE -m1 'Error|ERROR|Killed' output/msrun_log/worker_*.log",
            )
        )
    wanted.append(
        Wanted(
            Text("the whole log of the rank that failed first, from its start", "最先失败的 rank 从头开始的完整日志"),
            "doctor explain output/msrun_log",
        )
    )
    wanted.append(
        Wanted(Text("versions and devices of this machine", "本机的版本与设备信息"), "doctor collect > facts.json")
    )
    wanted.append(
        Wanted(
            Text("what the kernel said (killed processes, PCIe, ECC)", "内核日志（被杀进程、PCIe、ECC）"),
            "dmesg -T | tail -50",
        )
    )
    return tuple(wanted)


def skeleton(text: str) -> Optional[str]:
    """A rule file for the telling line, to be completed by a person; None for an empty text."""
    line = telling_line(text)
    if not line:
        return None
    example = visible(line, 200)
    pattern = generalised(example)
    return (
        "id: LOG-XX-000\nname: what-is-wrong\nseverity: error\ncategory: other\nconfidence: 0.8\n"
        'title: {en: "…", zh: "…"}\nwhy: {en: "…", zh: "…"}\nfix: {en: "…", zh: "…"}\nverify: "…"\n'
        f"match:\n  line:\n    - regex: {_quoted(pattern)}\n"
        f'examples:\n  match:\n    - {_quoted(example)}\n  no_match:\n    - "…"\n'
    )


def generalised(line: str) -> str:
    """An expression for a line in which paths, numbers and quoted names may vary."""
    parts = []
    for piece in re.split(r"(/[\w./-]{4,}|0x[0-9a-fA-F]+|\d+|'[^']{1,80}'|\"[^\"]{1,80}\")", line[:160]):
        if re.fullmatch(r"/[\w./-]{4,}", piece):
            parts.append(r"\S+")
        elif re.fullmatch(r"0x[0-9a-fA-F]+", piece):
            parts.append(r"0x[0-9a-fA-F]+")
        elif piece.isdigit():
            parts.append(r"\d+")
        elif re.fullmatch(r"'[^']+'|\"[^\"]+\"", piece):
            parts.append(f"{piece[0]}[^{piece[0]}]+{piece[0]}")
        else:
            parts.append(re.sub(r"([\\.^$*+?{}\[\]|()])", r"\\\1", piece))
    return "".join(parts)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
