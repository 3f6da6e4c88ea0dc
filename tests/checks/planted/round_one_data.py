"""Planted faults in data sets, first round; the expectations were written before `doctor check` saw any of them."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
from planting import Collection

from doctor.selftest.datafiles import LEGACY, LM, MCORE, lm_rows, write_config, write_megatron, write_mindrecord

Said = Any
ROUND = Collection()
fault, healthy = ROUND.fault, ROUND.healthy


def config(folder: Path, text: str, **changes: Any) -> str:
    return write_config(folder / "train.yaml", text, **changes)


def record(folder: Path, rows: Any, schema: Any = LM) -> Path:
    return write_mindrecord(folder / "data" / "lm.mindrecord", schema, rows)


def seed(rng: random.Random) -> int:
    return rng.randrange(1000)


# Labels ---------------------------------------------------------------------------------------------------


@fault("nobody shifts", "DAT-LBL-001", times=3)
def _(folder: Path, rng: random.Random) -> Said:
    rows = lm_rows(length=32, offset=0, seed=seed(rng), padded=rng.choice([0, 7]))
    return {"path": record(folder, rows), "against": config(folder, MCORE)}


@fault("shifted by data and model", "DAT-LBL-002", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    rows = lm_rows(length=33, offset=1, seed=seed(rng), padded=rng.choice([0, 5]))
    return {"path": record(folder, rows), "against": config(folder, LEGACY)}


@fault("shifted twice in the data", "DAT-LBL-002", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    rows = lm_rows(length=32, offset=2, seed=seed(rng))
    return {"path": record(folder, rows), "against": config(folder, MCORE)}


@fault("shifted the wrong way", "DAT-LBL-003", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    rows = lm_rows(length=32, offset=-1, seed=seed(rng))
    return {"path": record(folder, rows), "against": config(folder, MCORE)}


@fault("off by a begin token: labels lack it", "DAT-LBL-001", "DAT-LBL-002", "DAT-LBL-003")
def _(folder: Path, rng: random.Random) -> Said:
    # ids = [bos] + text, labels = text shifted once more than ids
    rows = []
    wild = np.random.default_rng(seed(rng))
    for _ in range(40):
        text = wild.integers(3, 400, 33).astype("int32")
        rows.append({"input_ids": np.concatenate([[1], text[:31]]).astype("int32"), "labels": text[1:33]})
    return {"path": record(folder, rows), "against": config(folder, MCORE)}


@fault("off by padding on the left", "DAT-LBL-001", "DAT-LBL-003", "DAT-LBL-006")
def _(folder: Path, rng: random.Random) -> Said:
    # labels padded on the left, tokens on the right
    rows = []
    wild = np.random.default_rng(seed(rng))
    for _ in range(40):
        text = wild.integers(3, 400, 25).astype("int32")
        pad = np.zeros(7, "int32")
        rows.append({"input_ids": np.concatenate([text, pad]), "labels": np.concatenate([pad - 100, text])})
    return {"path": record(folder, rows), "against": config(folder, MCORE)}


@fault("labels masked throughout", "DAT-LBL-004", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    rows = lm_rows(length=32, seed=seed(rng))
    for row in rows:
        row["labels"][:] = -100
    return {"path": record(folder, rows), "against": config(folder, MCORE)}


@fault("a fifth of the labels masked throughout", "DAT-LBL-004")
def _(folder: Path, rng: random.Random) -> Said:
    rows = lm_rows(length=32, seed=seed(rng))
    for row in rows[::5]:
        row["labels"][:] = -100
    return {"path": record(folder, rows), "against": config(folder, MCORE)}


@fault("labels shorter than tokens", "DAT-LBL-005")
def _(folder: Path, rng: random.Random) -> Said:
    rows = [{"input_ids": row["input_ids"], "labels": row["labels"][:-1]} for row in lm_rows(length=32, seed=seed(rng))]
    return {"path": record(folder, rows), "against": config(folder, MCORE)}


@fault("labels of other rows", "DAT-LBL-006", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    rows = lm_rows(length=32, seed=seed(rng))
    turned = [{"input_ids": a["input_ids"], "labels": b["labels"]} for a, b in zip(rows, rows[1:] + rows[:1])]
    return {"path": record(folder, turned), "against": config(folder, MCORE)}


@fault("padding counted in the loss", "DAT-LBL-007")
def _(folder: Path, rng: random.Random) -> Said:
    rows = lm_rows(length=32, padded=12, seed=seed(rng))
    for row in rows:
        row["labels"][row["labels"] == -100] = 0
    return {"path": record(folder, rows)}


# Tokens ---------------------------------------------------------------------------------------------------


@fault("ids beyond the vocabulary", "DAT-TOK-001", times=3)
def _(folder: Path, rng: random.Random) -> Said:
    rows = lm_rows(length=32, seed=seed(rng), vocabulary=490)
    rng.choice(rows)["input_ids"][rng.randrange(32)] = rng.choice([500, 501, 32000])
    return {"path": record(folder, rows), "against": config(folder, MCORE)}


@fault("labels beyond the vocabulary", "DAT-TOK-001", "DAT-TOK-004", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    rows = lm_rows(length=32, seed=seed(rng), vocabulary=490)
    rng.choice(rows)["labels"][rng.randrange(30)] = 700
    return {"path": record(folder, rows), "against": config(folder, MCORE)}


@fault("the ignored value among the tokens", "DAT-TOK-002", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    rows = lm_rows(length=32, seed=seed(rng))
    for row in rows:
        row["input_ids"][-4:] = -100
    return {"path": record(folder, rows), "against": config(folder, MCORE)}


@fault("samples of one token", "DAT-TOK-003")
def _(folder: Path, rng: random.Random) -> Said:
    rows = lm_rows(length=32, seed=seed(rng))
    for row in rows[::8]:
        row["input_ids"][:] = 7
        row["labels"][:] = 7
    return {"path": record(folder, rows), "against": config(folder, MCORE)}


@fault("token ids as floats", "DAT-COL-002")
def _(folder: Path, rng: random.Random) -> Said:
    schema = {name: {"type": "float32", "shape": [-1]} for name in ("input_ids", "labels")}
    return {"path": record(folder, lm_rows(length=32, seed=seed(rng)), schema), "against": config(folder, MCORE)}


@fault("token ids as strings", "DAT-COL-002", "DAT-COL-004", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    path = folder / "data.jsonl"
    one = rng.random() < 0.5
    with path.open("w") as file:
        for row in lm_rows(count=40, length=32, seed=seed(rng)):
            words = [str(number) for number in row["input_ids"]]
            file.write(
                json.dumps({"input_ids": " ".join(words) if one else words, "labels": row["labels"].tolist()}) + "\n"
            )
    return {"path": path}


# Samples --------------------------------------------------------------------------------------------------


@fault("samples of another length", "DAT-SEQ-001", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    rows = lm_rows(length=rng.choice([31, 33, 64]), seed=seed(rng))
    return {"path": record(folder, rows), "against": config(folder, MCORE)}


@fault("one token short for a model that shifts", "DAT-SEQ-001")
def _(folder: Path, rng: random.Random) -> Said:
    return {"path": record(folder, lm_rows(length=32, offset=0, seed=seed(rng))), "against": config(folder, LEGACY)}


@fault("lengths that vary", "DAT-SEQ-002")
def _(folder: Path, rng: random.Random) -> Said:
    rows = [lm_rows(count=1, length=rng.randrange(10, 40), seed=number)[0] for number in range(30)]
    return {"path": record(folder, rows)}


@fault("mostly padding", "DAT-SEQ-003")
def _(folder: Path, rng: random.Random) -> Said:
    return {"path": record(folder, lm_rows(length=32, padded=24, seed=seed(rng)))}


@fault("empty samples", "DAT-SEQ-004", also=["DAT-SEQ-002"])
def _(folder: Path, rng: random.Random) -> Said:
    rows = lm_rows(length=32, seed=seed(rng))
    for row in rows[::9]:
        row["input_ids"], row["labels"] = np.zeros(0, "int32"), np.zeros(0, "int32")
    return {"path": record(folder, rows)}


@fault("the same samples twice", "DAT-SEQ-005", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    rows = lm_rows(count=30, length=32, seed=seed(rng))
    return {"path": record(folder, rows + rows[: rng.randrange(5, 30)]), "against": config(folder, MCORE)}


@fault("a column that the config reads is not there", "DAT-COL-001", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    names = rng.choice(['["input_ids", "target_ids"]', '["text", "labels"]'])
    return {"path": record(folder, lm_rows(length=32, seed=seed(rng))), "against": config(folder, MCORE, columns=names)}


@fault("columns in another order", "DAT-COL-001", "DAT-COL-004", "DAT-COL-005", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    names = '["labels", "input_ids"]'
    return {"path": record(folder, lm_rows(length=32, seed=seed(rng))), "against": config(folder, MCORE, columns=names)}


@fault("fewer rows than a step takes", "DAT-ROW-001", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    path = record(folder, lm_rows(count=12, length=32, seed=seed(rng)))
    return {"path": path, "against": config(folder, MCORE, batch=rng.choice([4, 16]), data=8)}


# MindRecord -----------------------------------------------------------------------------------------------


@fault("a torn MindRecord", "DAT-FILE-002", "DAT-FILE-003", also=["DAT-ROW-002"], times=4)
def _(folder: Path, rng: random.Random) -> Said:
    path = record(folder, lm_rows(count=400, length=64, seed=seed(rng)))
    raw = path.read_bytes()
    path.write_bytes(raw[: rng.randrange(20, len(raw) - 50)])
    return {"path": path}


@fault("a MindRecord without its index", "DAT-FILE-004")
def _(folder: Path, rng: random.Random) -> Said:
    path = record(folder, lm_rows(seed=seed(rng)))
    path.with_name(path.name + ".db").unlink()
    return {"path": path}


@fault("a torn index", "DAT-FILE-002", "DAT-FILE-003", "DAT-FILE-008", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    path = record(folder, lm_rows(count=300, seed=seed(rng)))
    index = path.with_name(path.name + ".db")
    raw = index.read_bytes()
    index.write_bytes(raw[: rng.randrange(100, len(raw) - 1)])
    return {"path": path}


@fault("a MindRecord renamed", "DAT-FILE-005")
def _(folder: Path, rng: random.Random) -> Said:
    path = record(folder, lm_rows(seed=seed(rng)))
    path.with_name(path.name + ".db").rename(path.with_name("train.mindrecord.db"))
    return {"path": path.rename(path.with_name("train.mindrecord"))}


@fault("one of several MindRecords lost", "DAT-FILE-006")
def _(folder: Path, rng: random.Random) -> Said:
    names = [f"lm.mindrecord{number}" for number in range(3)]
    for number, name in enumerate(names):
        write_mindrecord(folder / name, LM, lm_rows(seed=number), names, number)
    gone = folder / names[rng.randrange(3)]
    gone.unlink()
    gone.with_name(gone.name + ".db").unlink()


@fault("the index of another MindRecord", "DAT-FILE-003", "DAT-FILE-008", "DAT-FILE-002", "DAT-ROW-002", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    path = record(folder, lm_rows(count=40, length=32, seed=seed(rng)))
    other = write_mindrecord(folder / "other" / "lm.mindrecord", LM, lm_rows(count=90, length=50, seed=seed(rng)))
    path.with_name(path.name + ".db").write_bytes(other.with_name(other.name + ".db").read_bytes())
    return {"path": path}


@fault("pages overwritten", "DAT-ROW-002", "DAT-FILE-003")
def _(folder: Path, rng: random.Random) -> Said:
    path = record(folder, lm_rows(count=300, length=64, seed=seed(rng)))
    raw = bytearray(path.read_bytes())
    at = (1 << 14) + rng.randrange(2000)
    raw[at : at + 4000] = bytes(4000)
    path.write_bytes(raw)
    return {"path": path}


# Megatron -------------------------------------------------------------------------------------------------


def corpus(folder: Path, rng: random.Random, code: int = 8) -> Path:
    wild = np.random.default_rng(seed(rng))
    return write_megatron(folder / "corpus", [wild.integers(0, 490, rng.randrange(20, 80)) for _ in range(50)], code)


def index_of(stem: Path) -> tuple[Path, bytearray]:
    path = stem.with_name(stem.name + ".idx")
    return path, bytearray(path.read_bytes())


@fault("tokens cut off", "DAT-FILE-002", "DAT-FILE-008", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    path = corpus(folder, rng).with_suffix(".bin")
    raw = path.read_bytes()
    path.write_bytes(raw[: rng.randrange(1, len(raw) - 1)])
    return {"path": path}


@fault("tokens of a longer corpus", "DAT-FILE-008")
def _(folder: Path, rng: random.Random) -> Said:
    path = corpus(folder, rng).with_suffix(".bin")
    path.write_bytes(path.read_bytes() + bytes(rng.randrange(2, 4000)))
    return {"path": path}


@fault("the index cut off", "DAT-FILE-002", "DAT-FILE-003", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    stem = corpus(folder, rng)
    path, raw = index_of(stem)
    path.write_bytes(raw[: rng.randrange(12, len(raw) - 1)])
    return {"path": stem.with_suffix(".bin")}


@fault("the tokens lost", "DAT-FILE-006")
def _(folder: Path, rng: random.Random) -> Said:
    stem = corpus(folder, rng)
    stem.with_suffix(".bin").unlink()
    return {"path": stem.with_suffix(".idx")}


@fault("document borders wrong", "DAT-FILE-003", "DAT-FILE-008", times=4)
def _(folder: Path, rng: random.Random) -> Said:
    stem = corpus(folder, rng)
    path, raw = index_of(stem)
    at = len(raw) - 51 * 8
    change = rng.randrange(4)
    if change == 0:
        raw[at : at + 8] = struct.pack("<q", 5)
    elif change == 1:
        raw[-8:] = struct.pack("<q", 49)
    elif change == 2:
        raw[at + 80 : at + 88] = struct.pack("<q", 3)
    else:
        raw[-8:] = struct.pack("<q", 1 << 40)
    path.write_bytes(raw)
    return {"path": stem.with_suffix(".bin")}


@fault("places that jump", "DAT-FILE-003", "DAT-FILE-008", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    stem = corpus(folder, rng)
    path, raw = index_of(stem)
    at = 34 + 50 * 4 + 8 * 20
    raw[at : at + 8] = struct.pack("<q", rng.choice([0, 3]))
    path.write_bytes(raw)
    return {"path": stem.with_suffix(".bin")}


@fault("written in 16 bits, listed as 32", "DAT-FILE-002", "DAT-FILE-003", "DAT-FILE-008")
def _(folder: Path, rng: random.Random) -> Said:
    stem = corpus(folder, rng)
    path, raw = index_of(stem)
    raw[17] = 4
    path.write_bytes(raw)
    return {"path": stem.with_suffix(".bin")}


@fault("tokens beyond the vocabulary in Megatron", "DAT-TOK-001")
def _(folder: Path, rng: random.Random) -> Said:
    stem = corpus(folder, rng)
    return {"path": stem.with_suffix(".bin"), "against": config(folder, MCORE, vocabulary=300)}


# JSON lines and text --------------------------------------------------------------------------------------


def lines(folder: Path, rng: random.Random, count: int = 60) -> tuple[Path, list[dict[str, Any]]]:
    rows = [
        {"instruction": f"question {number}", "input": "", "output": f"answer {rng.randrange(10**6)}"}
        for number in range(count)
    ]
    return folder / "train.jsonl", rows


def dump(path: Path, rows: list[dict[str, Any]]) -> dict[str, Any]:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"path": path}


@fault("a line that is no JSON", "DAT-FILE-003", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    path, rows = lines(folder, rng)
    dump(path, rows)
    text = path.read_text().splitlines()
    text[rng.randrange(1, 59)] = rng.choice(['{"instruction": "cut', "{'single': 'quotes'}", '{"a": 1,}'])
    path.write_text("\n".join(text) + "\n")
    return {"path": path}


@fault("the last line cut off", "DAT-FILE-002", "DAT-FILE-003")
def _(folder: Path, rng: random.Random) -> Said:
    path, rows = lines(folder, rng)
    dump(path, rows)
    path.write_bytes(path.read_bytes()[: -rng.randrange(3, 30)])
    return {"path": path}


@fault("text in GBK", "DAT-FILE-007")
def _(folder: Path, rng: random.Random) -> Said:
    path, rows = lines(folder, rng)
    for row in rows:
        row["output"] = "昇腾训练"
    path.write_bytes("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("gbk"))
    return {"path": path}


@fault("fields lost in some lines", "DAT-COL-003")
def _(folder: Path, rng: random.Random) -> Said:
    path, rows = lines(folder, rng)
    for row in rows[::11]:
        del row["output"]
    return dump(path, rows)


@fault("answers that are empty", "DAT-SEQ-004", "DAT-SEQ-006", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    path, rows = lines(folder, rng)
    for row in rows[::4]:
        row["output"] = rng.choice(["", "  ", "\n"])
    return dump(path, rows)


@fault("an export joined to itself", "DAT-SEQ-005")
def _(folder: Path, rng: random.Random) -> Said:
    path, rows = lines(folder, rng)
    return dump(path, rows + rows)


@fault("conversations without an answer", "DAT-SEQ-004", "DAT-SEQ-006")
def _(folder: Path, rng: random.Random) -> Said:
    rows = []
    for number in range(50):
        turns = [{"from": "human", "value": f"question {number}"}, {"from": "gpt", "value": f"answer {number}"}]
        rows.append({"id": str(number), "conversations": turns if number % 5 else turns[:1]})
    return dump(folder / "chat.jsonl", rows)


@fault("an empty file", "DAT-FILE-001")
def _(folder: Path, rng: random.Random) -> Said:
    path = folder / rng.choice(["train.jsonl", "train.mindrecord"])
    path.write_bytes(b"")
    return {"path": path}


# Healthy --------------------------------------------------------------------------------------------------


@healthy("equal labels for a model that shifts", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    rows = lm_rows(length=33, offset=0, seed=seed(rng), padded=rng.choice([0, 6]))
    return {"path": record(folder, rows), "against": config(folder, LEGACY)}


@healthy("shifted labels for one that does not", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    rows = lm_rows(length=32, offset=1, seed=seed(rng), padded=rng.choice([0, 6]))
    return {"path": record(folder, rows), "against": config(folder, MCORE)}


@healthy("prompts masked", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    rows = lm_rows(length=32, seed=seed(rng))
    for row in rows:
        row["labels"][: rng.randrange(4, 26)] = -100
    return {"path": record(folder, rows), "against": config(folder, MCORE)}


@healthy("more columns than the config reads")
def _(folder: Path, rng: random.Random) -> Said:
    schema = {**LM, "position_ids": {"type": "int32", "shape": [-1]}}
    rows = [{**row, "position_ids": np.arange(32, dtype="int32")} for row in lm_rows(length=32, seed=seed(rng))]
    return {"path": record(folder, rows, schema), "against": config(folder, MCORE)}


@healthy("tokens alone")
def _(folder: Path, rng: random.Random) -> Said:
    rows = [{"input_ids": row["input_ids"]} for row in lm_rows(length=33, seed=seed(rng))]
    schema = {"input_ids": LM["input_ids"]}
    return {"path": record(folder, rows, schema), "against": config(folder, LEGACY, columns='["input_ids"]')}


@healthy("int64 columns")
def _(folder: Path, rng: random.Random) -> Said:
    schema = {name: {"type": "int64", "shape": [-1]} for name in ("input_ids", "labels")}
    return {"path": record(folder, lm_rows(length=32, seed=seed(rng)), schema), "against": config(folder, MCORE)}


@healthy("many pages")
def _(folder: Path, rng: random.Random) -> Said:
    return {"path": record(folder, lm_rows(count=900, length=32, seed=seed(rng))), "against": config(folder, MCORE)}


@healthy("several MindRecords")
def _(folder: Path, rng: random.Random) -> Said:
    names = [f"lm.mindrecord{number}" for number in range(3)]
    for number, name in enumerate(names):
        write_mindrecord(folder / name, LM, lm_rows(length=32, seed=number), names, number)


@healthy("a few equal samples in many")
def _(folder: Path, rng: random.Random) -> Said:
    rows = lm_rows(count=300, length=32, seed=seed(rng))
    return {"path": record(folder, rows + rows[:1]), "against": config(folder, MCORE)}


@healthy("a Megatron corpus", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    stem = corpus(folder, rng, rng.choice([4, 8]))
    return {"path": stem.with_suffix(".bin"), "against": config(folder, MCORE)}


@healthy("several sequences to a document")
def _(folder: Path, rng: random.Random) -> Said:
    stem = corpus(folder, rng)
    path, raw = index_of(stem)
    head, borders = raw[: len(raw) - 51 * 8], struct.pack("<6q", 0, 10, 20, 30, 40, 50)
    head[26:34] = struct.pack("<Q", 6)
    path.write_bytes(head + borders)
    return {"path": stem.with_suffix(".bin")}


@healthy("instructions", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    return dump(*lines(folder, rng))


@healthy("an optional field")
def _(folder: Path, rng: random.Random) -> Said:
    path, rows = lines(folder, rng)
    for row in rows[::3]:
        row["history"] = [["a", "b"]]
    return dump(path, rows)


@healthy("a byte order mark and Windows line ends")
def _(folder: Path, rng: random.Random) -> Said:
    path, rows = lines(folder, rng)
    path.write_bytes(b"\xef\xbb\xbf" + "".join(json.dumps(row) + "\r\n" for row in rows).encode())
    return {"path": path}


@healthy("conversations")
def _(folder: Path, rng: random.Random) -> Said:
    rows = [
        {"id": str(n), "conversations": [{"from": "human", "value": f"q {n}"}, {"from": "gpt", "value": f"a {n}"}]}
        for n in range(50)
    ]
    return dump(folder / "chat.jsonl", rows)


@healthy("text of one line each")
def _(folder: Path, rng: random.Random) -> Said:
    path = folder / "wiki.train.txt"
    path.write_text("".join(f" = Title {n} = \n\n Some words about number {n} .\n" for n in range(100)))
    return {"path": path}


@healthy("tokens of JSON lines")
def _(folder: Path, rng: random.Random) -> Said:
    path = folder / "tokens.jsonl"
    path.write_text("".join(json.dumps({"input_ids": r["input_ids"].tolist(), "labels": r["labels"].tolist()}) + "\n"
                            for r in lm_rows(count=40, length=32, seed=seed(rng))))  # fmt: skip
    return {"path": path}
