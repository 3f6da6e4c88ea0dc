"""Small data sets as people make them, whole and broken in one way each, with the config that trains on them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np

from doctor.check import Options
from doctor.errors import UsageError
from doctor.runner import judge_path
from doctor.selftest.datafiles import LEGACY, LM, MCORE, lm_rows, write_config, write_megatron, write_mindrecord
from doctor.selftest.trial import HEALTHY, Raised, Result, Room, Trial, worth_telling

Rows = list[dict[str, Any]]


@dataclass
class Made:
    """What is to be checked: the data, and the config that they are for."""

    path: Path
    against: Optional[str] = None


Make = Callable[[Path, random.Random], Made]
#: kind -> the rules that may name the fault, and what makes it
FAULTS: dict[str, tuple[tuple[str, ...], Make]] = {}
WHOLE: dict[str, Make] = {}


def _fault(kind: str, rules: str) -> Callable[[Make], Make]:
    def keep(make: Make) -> Make:
        FAULTS[kind] = (tuple(rules.split()), make)
        return make

    return keep


def _whole(make: Make) -> Make:
    WHOLE[make.__name__.strip("_").replace("_", "-")] = make
    return make


def trials(seed: int, runs: int = 1) -> Iterator[Trial]:
    """Two of each fault and of each healthy set for each run that is asked for; places and values are drawn."""
    for kind in FAULTS:
        yield from (
            Trial("data", kind, str(number), number) for number in range(2 * seed * runs, 2 * (seed + 1) * runs)
        )
    for name in WHOLE:
        yield from (
            Trial("data", HEALTHY, f"{name}-{number}", seed) for number in range(2 * seed * runs, 2 * (seed + 1) * runs)
        )


def perform(trial: Trial, room: Room) -> list[Result]:
    """Checks one data set as ``doctor check DATA`` does."""
    rng = random.Random(f"{trial.kind} {trial.case}")
    if trial.kind == HEALTHY:
        raised = _judge(WHOLE[trial.case.rpartition("-")[0]](room.folder, rng))
        return [Result(trial, alarms=tuple(Raised.of(finding) for finding in raised if worth_telling(finding)))]
    rules, make = FAULTS[trial.kind]
    try:
        found = {finding.rule for finding in _judge(make(room.folder, rng)) if worth_telling(finding)}
    except UsageError as error:
        found = {error.rule or error.what.en}
    hit = bool(found & set(rules))
    return [Result(trial, rules, hit, instead=() if hit else tuple(sorted(found)))]


def _judge(made: Made) -> list[Any]:
    judged = judge_path(made.path, Options(against=made.against))
    for outcome in judged.outcomes:
        if outcome.state == "crashed" and outcome.reason is not None:
            raise RuntimeError(f"{outcome.rule}: {outcome.reason.en}")
    return [finding for outcome in judged.outcomes for finding in outcome.findings]


def _tokens(rng: random.Random, offset: int = 0, length: int = 32, **more: Any) -> Rows:
    return lm_rows(length=length, offset=offset, seed=rng.randrange(1 << 30), **more)


def _record(folder: Path, rows: Rows, config: str = MCORE, **changes: Any) -> Made:
    path = write_mindrecord(folder / "data" / "lm.mindrecord", LM, rows)
    return Made(path, write_config(folder / "train.yaml", config, **changes))


def _chats(folder: Path, lines: list[str]) -> Made:
    path = folder / "train.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Made(path)


def _chat_lines(rng: random.Random) -> list[str]:
    words = ("memory", "rank", "gradient", "loss", "stage", "token", "layer")
    rows = []
    for number in range(60):
        asked = " ".join(rng.choices(words, k=8))
        rows.append(
            json.dumps(
                {"instruction": f"{number}: {asked}?", "input": "", "output": " ".join(rng.choices(words, k=12))}
            )
        )
    return rows


def _documents(rng: random.Random) -> list[Any]:
    wild = np.random.default_rng(rng.randrange(1 << 30))
    return [wild.integers(3, 400, int(wild.integers(50, 300))) for _ in range(20)]


# whole


@_whole
def _shifted_by_data(folder: Path, rng: random.Random) -> Made:
    return _record(folder, _tokens(rng, offset=1))


@_whole
def _shifted_by_model(folder: Path, rng: random.Random) -> Made:
    rows = [{"input_ids": row["input_ids"], "labels": row["input_ids"].copy()} for row in _tokens(rng, length=33)]
    return _record(folder, rows, LEGACY)


@_whole
def _padded(folder: Path, rng: random.Random) -> Made:
    return _record(folder, _tokens(rng, offset=1, padded=rng.randrange(1, 9)))


@_whole
def _chat(folder: Path, rng: random.Random) -> Made:
    return _chats(folder, _chat_lines(rng))


@_whole
def _megatron(folder: Path, rng: random.Random) -> Made:
    return Made(write_megatron(folder / "corpus", _documents(rng)).with_suffix(".idx"))


# labels


@_fault("labels-not-shifted", "DAT-LBL-001")
def _not_shifted(folder: Path, rng: random.Random) -> Made:
    return _record(folder, _tokens(rng, offset=0))


@_fault("labels-shifted-twice", "DAT-LBL-002")
def _shifted_twice(folder: Path, rng: random.Random) -> Made:
    return _record(folder, _tokens(rng, offset=2))


@_fault("labels-shifted-by-data-and-model", "DAT-LBL-002")
def _shifted_by_both(folder: Path, rng: random.Random) -> Made:
    return _record(folder, _tokens(rng, offset=1, length=33), LEGACY)


@_fault("labels-shifted-the-wrong-way", "DAT-LBL-003")
def _wrong_way(folder: Path, rng: random.Random) -> Made:
    return _record(folder, _tokens(rng, offset=-1))


@_fault("labels-masked", "DAT-LBL-004")
def _masked(folder: Path, rng: random.Random) -> Made:
    rows = _tokens(rng, offset=1)
    for row in rows:
        row["labels"][:] = -100
    return _record(folder, rows)


@_fault("labels-of-other-rows", "DAT-LBL-006")
def _other_rows(folder: Path, rng: random.Random) -> Made:
    rows = _tokens(rng, offset=1)
    turned = rows[1:] + rows[:1]
    return _record(folder, [{"input_ids": a["input_ids"], "labels": b["labels"]} for a, b in zip(rows, turned)])


@_fault("padding-in-the-loss", "DAT-LBL-007")
def _padding(folder: Path, rng: random.Random) -> Made:
    rows = _tokens(rng, offset=1, padded=rng.randrange(8, 14))
    for row in rows:
        row["labels"][row["labels"] == -100] = 0
    return Made(_record(folder, rows).path)  # models that are known mask their padding themselves


# tokens and lengths


@_fault("token-beyond-vocabulary", "DAT-TOK-001")
def _beyond(folder: Path, rng: random.Random) -> Made:
    rows = _tokens(rng, offset=1)
    rows[rng.randrange(len(rows))]["input_ids"][rng.randrange(20)] = 500 + rng.randrange(200)
    return _record(folder, rows)


@_fault("negative-token", "DAT-TOK-002 DAT-TOK-001")
def _negative(folder: Path, rng: random.Random) -> Made:
    rows = _tokens(rng, offset=1)
    rows[rng.randrange(len(rows))]["input_ids"][rng.randrange(20)] = -1
    return _record(folder, rows)


@_fault("other-sequence-length", "DAT-SEQ-001 DAT-SEQ-002")
def _length(folder: Path, rng: random.Random) -> Made:
    return _record(folder, _tokens(rng, offset=1), length=rng.choice((16, 64)))


@_fault("column-missing", "DAT-COL-001")
def _column(folder: Path, rng: random.Random) -> Made:
    return _record(folder, _tokens(rng, offset=1), columns='["input_ids", "target"]')


# files


@_fault("torn-mindrecord", "DAT-FILE-002")
def _torn(folder: Path, rng: random.Random) -> Made:
    made = _record(folder, _tokens(rng, offset=1))
    data = made.path.read_bytes()
    made.path.write_bytes(data[: int(len(data) * rng.uniform(0.2, 0.6))])
    return made


@_fault("index-missing", "DAT-FILE-004")
def _index(folder: Path, rng: random.Random) -> Made:
    made = _record(folder, _tokens(rng, offset=1))
    made.path.with_name(made.path.name + ".db").unlink()
    return made


@_fault("broken-json-line", "DAT-FILE-003")
def _json(folder: Path, rng: random.Random) -> Made:
    lines = _chat_lines(rng)
    at = rng.randrange(5, 50)
    lines[at] = lines[at][: rng.randrange(10, len(lines[at]) - 2)]
    return _chats(folder, lines)


@_fault("torn-megatron", "DAT-FILE-002")
def _torn_megatron(folder: Path, rng: random.Random) -> Made:
    stem = write_megatron(folder / "corpus", _documents(rng))
    path = stem.with_suffix(".bin")
    path.write_bytes(path.read_bytes()[: -rng.randrange(100, 1000)])
    return Made(stem.with_suffix(".idx"))
