"""Measures drawn samples: lengths, ids, padding, duplicates, and how labels relate to tokens."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Optional

from doctor.checks.data.consumer import Consumer
from doctor.finding import Text
from doctor.formats.datasets.dataset import Row
from doctor.formats.datasets.extremes import Extremes, Seen

IDS = ("input_ids", "tokens", "text", "source_ids", "input_id", "ids")
LABELS = ("labels", "target_ids", "label_ids", "label", "targets")
MASKS = ("attention_mask", "loss_mask", "input_mask")
IGNORED = (-100, -1)


class Relation(str, Enum):
    """Of labels to input_ids."""

    EQUAL = "equal"
    ONCE = "shifted-once"
    TWICE = "shifted-twice"
    BACK = "shifted-back"
    MASKED = "masked"
    UNRELATED = "unrelated"


class Place(NamedTuple):
    """A sample that shows something, and what."""

    row: Row
    observed: Any


@dataclass
class Measured:
    """Over the samples drawn. Empty where there are no token columns."""

    ids_column: Optional[str] = None
    labels_column: Optional[str] = None
    dtype: Optional[str] = None
    lengths: Optional[dict[str, Any]] = None
    span: Optional[dict[str, int]] = None
    padding: Optional[float] = None
    pad: Optional[int] = None
    relation: Optional[Relation] = None
    #: share of the samples that agree with the relation
    agreement: float = 0.0
    samples: int = 0
    highest: Optional[Place] = None
    lowest: Optional[Place] = None
    empty: list[Place] = field(default_factory=list)
    masked: list[Place] = field(default_factory=list)
    uneven: list[Place] = field(default_factory=list)
    wrong_length: dict[int, int] = field(default_factory=dict)
    duplicates: list[tuple[Row, Row]] = field(default_factory=list)
    highest_label: Optional[Place] = None
    #: samples with a single label to learn from
    single: list[Place] = field(default_factory=list)
    #: samples whose mask of the loss, or of attention, lets nothing through
    hidden: dict[str, list[Place]] = field(default_factory=dict)
    #: answers of instruction data without a word in them
    unanswered: list[Place] = field(default_factory=list)
    #: a column that is called token ids and holds text
    spelt: Optional[Place] = None
    constant: list[Place] = field(default_factory=list)
    padded_labels: list[Place] = field(default_factory=list)
    unreadable: list[Place] = field(default_factory=list)
    #: the share of all token ids that was looked at for the lowest and the highest; None: those of the samples
    read: Optional[float] = None

    def widen(self, extremes: Mapping[str, Extremes]) -> None:
        """Takes the lowest and highest numbers of whole columns in."""
        ids = extremes.get(self.ids_column or "")
        if ids is not None and self.lowest is not None and self.highest is not None:
            self.read = ids.share
            self.lowest = _further(self.lowest, ids.lowest, ids.lowest.value < self.lowest.observed)
            self.highest = _further(self.highest, ids.highest, ids.highest.value > self.highest.observed)
            self.span = {"min": self.lowest.observed, "max": self.highest.observed}
        labels = extremes.get(self.labels_column or "")
        if labels is not None and self.highest_label is not None:
            top = labels.highest
            self.highest_label = _further(self.highest_label, top, top.value > self.highest_label.observed)


def _further(place: Place, seen: Seen, beyond: bool) -> Place:
    return Place(Row(seen.file, seen.row, {}), seen.value) if beyond else place


def measure(rows: Sequence[Row], consumer: Consumer) -> Measured:
    """All of it in one pass over the samples."""
    found = Measured(samples=len(rows))
    if not rows:
        return found
    found.ids_column = _column(rows, IDS)
    found.labels_column = _column(rows, LABELS)
    if found.ids_column is None:
        _texts(found, rows)
        found.unanswered = [Place(row, answer) for row in rows if (answer := unanswered(row.values)) is not None]
        found.spelt = _spelt(rows)
        _duplicates(found, rows)
        return found
    lengths: Counter[int] = Counter()
    relations: Counter[Relation] = Counter()
    guess = _guess_pad(rows, found.ids_column)
    pad = guess if guess is not None else consumer.pad
    found.pad = pad
    padded = total = 0
    for row in rows:
        ids = vector(row.values.get(found.ids_column))
        if ids is None:
            found.unreadable.append(Place(row, found.ids_column))
            continue
        if found.dtype is None:
            found.dtype = str(ids.dtype)
        lengths[int(ids.size)] += 1
        if not ids.size:
            found.empty.append(Place(row, Text("no tokens", "没有 token")))
            continue
        _span(found, row, ids)
        tail = _tail(ids, pad)
        padded += tail
        total += int(ids.size)
        body = ids[: ids.size - tail]
        if not body.size:
            found.empty.append(Place(row, Text("only padding", "只有 padding")))
            continue  # that nothing is left to learn follows from it
        if body.size > 8 and int(body.min()) == int(body.max()):
            found.constant.append(Place(row, int(body[0])))
        _masks(found, row, ids)
        if found.labels_column is not None:
            _labels(found, row, ids, tail, consumer, relations)
    _duplicates(found, rows)
    found.lengths = _lengths(lengths)
    found.padding = round(padded / total, 4) if total else None
    if consumer.length is not None:
        found.wrong_length = {length: count for length, count in sorted(lengths.items()) if length != consumer.length}
    if relations:
        usual = min(relations, key=lambda relation: (-relations[relation], relation.value))
        judged = sum(relations.values()) - (relations[Relation.MASKED] if usual is not Relation.MASKED else 0)
        if usual is Relation.MASKED and len(relations) > 1:
            del relations[Relation.MASKED]
            usual = min(relations, key=lambda relation: (-relations[relation], relation.value))
            judged = sum(relations.values())
        found.relation = usual
        found.agreement = relations[usual] / judged
    return found


def vector(value: Any) -> Any:
    """A flat integer array, or None when the value is none."""
    import numpy as np

    if value is None or isinstance(value, (str, bytes, bool, dict)):
        return None
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):
        return None
    if array.size == 0:
        return array.reshape(-1).astype(np.int64)
    if array.dtype.kind == "f" and bool((array == np.floor(array)).all()):
        return array.reshape(-1)
    return array.reshape(-1) if array.dtype.kind in "iu" else None


def _column(rows: Sequence[Row], names: Sequence[str]) -> Optional[str]:
    """The first of these columns that holds token ids."""
    for name in names:
        values = [row.values[name] for row in rows[:8] if name in row.values]
        if values and any(vector(value) is not None and not isinstance(value, (int, float)) for value in values):
            return name
    return None


def _duplicates(found: Measured, rows: Sequence[Row]) -> None:
    seen: dict[tuple[int, int], Row] = {}
    # Rows that are empty, of one token or unreadable are equal for a reason of their own.
    other = {id(place.row) for place in (*found.empty, *found.constant, *found.unreadable)}
    for row in rows:
        if id(row) in other:
            continue
        parts = [_bytes(row.values[name]) for name in sorted(row.values) if name != "id"]
        raw = b"\x00".join(parts)
        key = (zlib.crc32(raw), len(raw))
        if key in seen and len(raw) > 8:
            found.duplicates.append((seen[key], row))
        else:
            seen[key] = row


def _bytes(value: Any) -> bytes:
    if hasattr(value, "tobytes"):
        raw: bytes = value.tobytes()
        return raw
    return value if isinstance(value, bytes) else repr(value).encode("utf-8", "backslashreplace")


def _texts(found: Measured, rows: Sequence[Row]) -> None:
    """Samples of text: empty ones."""
    for row in rows:
        words = [value for value in row.values.values() if isinstance(value, (str, list, dict))]
        if words and not any(_holds_text(value) for value in words):
            found.empty.append(Place(row, Text("no text", "没有文本")))


#: Fields that instruction data keep the answer in, and who answers in conversations.
ANSWERS = ("output", "response", "answer", "completion", "chosen", "target")
TURNS = ("conversations", "messages", "conversation")
ANSWERERS = frozenset({"gpt", "assistant", "bot", "model", "chatglm", "function_call"})


def unanswered(values: Mapping[str, Any]) -> Optional[Text]:
    """What should hold an answer and holds none; None when there is one, or none is to be expected."""
    turns = next((values[name] for name in TURNS if isinstance(values.get(name), list)), None)
    if turns is not None:
        said = [turn for turn in turns if isinstance(turn, Mapping)]
        kinds = [str(turn.get("from", turn.get("role", ""))).lower() for turn in said]
        if not any(kinds):
            return None
        words = [turn.get("value", turn.get("content")) for turn, kind in zip(said, kinds) if kind in ANSWERERS]
        said_something = any(_holds_text(word) or isinstance(word, Mapping) for word in words)
        return None if said_something else Text("the turn of the assistant", "助手的回合")
    name = next((name for name in ANSWERS if isinstance(values.get(name), str)), None)
    if name is None or values[name].strip():
        return None
    asked = any(_holds_text(value) for key, value in values.items() if key != name)
    return Text(name, f" {name} ") if asked else None


def _is_number(word: object) -> bool:
    return isinstance(word, str) and word.strip("-").isdigit()


def _spelt(rows: Sequence[Row]) -> Optional[Place]:
    """Token ids written as text: a string of numbers, or a list of strings of digits."""
    for row in rows[:8]:
        for name in ("input_ids", "input_id", "source_ids", "labels"):
            value = row.values.get(name)
            words = value.replace(",", " ").strip("[] ").split() if isinstance(value, str) else value
            if isinstance(words, list) and words and all(map(_is_number, words[:64])):
                return Place(row, name)
    return None


def _holds_text(value: Any) -> bool:
    if isinstance(value, str):
        return bool(value.strip())
    if isinstance(value, Mapping):
        return any(_holds_text(item) for item in value.values())
    return isinstance(value, list) and any(
        _holds_text(item) if isinstance(item, (str, list, dict)) else True for item in value
    )


def _guess_pad(rows: Sequence[Row], column: str) -> Optional[int]:
    """The token that several samples of equal length end with in runs: padding."""
    ends: Counter[int] = Counter()
    for row in rows:
        ids = vector(row.values.get(column))
        if ids is not None and ids.size > 3 and int(ids[-1]) == int(ids[-2]) == int(ids[-3]) != int(ids[0]):
            ends[int(ids[-1])] += 1
    if not ends:
        return None
    token, count = ends.most_common(1)[0]
    return token if count >= max(2, len(rows) // 20) else None


def _tail(ids: Any, pad: Optional[int]) -> int:
    """How many padding tokens a sample ends with (a single one may be the end of the text)."""
    import numpy as np

    if pad is None:
        return 0
    other = np.flatnonzero(ids != pad)
    tail = int(ids.size) if not other.size else int(ids.size - 1 - other[-1])
    return tail if tail > 1 else 0


def _span(found: Measured, row: Row, ids: Any) -> None:
    low, high = int(ids.min()), int(ids.max())
    if found.highest is None or high > found.highest.observed:
        found.highest = Place(row, high)
    if found.lowest is None or low < found.lowest.observed:
        found.lowest = Place(row, low)
    found.span = {"min": found.lowest.observed, "max": found.highest.observed}


def _masks(found: Measured, row: Row, ids: Any) -> None:
    """Masks of one number a token that are zero throughout. Square attention masks mean other things."""
    for name in MASKS:
        mask = vector(row.values.get(name))
        if mask is not None and mask.size == ids.size and not mask.any():
            found.hidden.setdefault(name, []).append(Place(row, Text("0 throughout", "全为 0")))


def _labels(found: Measured, row: Row, ids: Any, tail: int, consumer: Consumer, relations: Counter[Relation]) -> None:
    labels = vector(row.values.get(found.labels_column or ""))
    if labels is None or not labels.size:
        return
    if labels.size != ids.size:
        found.uneven.append(
            Place(
                row,
                Text(f"{labels.size} labels for {ids.size} tokens", f"{ids.size} 个 token 对应 {labels.size} 个标签"),
            )
        )
        return
    top = int(labels.max())
    if found.highest_label is None or top > found.highest_label.observed:
        found.highest_label = Place(row, top)
    counted = labels != consumer.ignore
    for value in IGNORED:
        counted &= labels != value
    if int(counted.sum()) == 1 and labels.size > 8:
        found.single.append(Place(row, Text(f"1 of {labels.size} labels", f"{labels.size} 个标签中的 1 个")))
    relation = relation_of(ids[: ids.size - tail], labels[: labels.size - tail], consumer.ignore)
    if relation is None:
        return
    relations[relation] += 1
    if relation is Relation.MASKED:
        found.masked.append(Place(row, Text("all labels masked", "标签全部被屏蔽")))
    elif tail > 2 and found.pad is not None and int((labels[-tail + 1 : -1] == found.pad).sum()) == tail - 2:
        found.padded_labels.append(
            Place(row, Text(f"{tail} padding tokens in labels", f"标签中有 {tail} 个 padding token"))
        )


def relation_of(ids: Any, labels: Any, ignore: int = -100) -> Optional[Relation]:
    """How labels relate to tokens where they are not masked; None when the sample is too short or uniform to tell.

    Offsets 0, 1, 2 and -1 are tried; the best must explain 95 % of the labels and lead the others clearly, since
    repeated tokens agree at several.
    """
    import numpy as np

    counted = labels != ignore
    for other in IGNORED:
        counted &= labels != other
    if not counted.any():
        return Relation.MASKED
    shares = {}
    for relation, offset in ((Relation.EQUAL, 0), (Relation.ONCE, 1), (Relation.TWICE, 2), (Relation.BACK, -1)):
        left = labels[: labels.size - offset] if offset >= 0 else labels[-offset:]
        right = ids[offset:] if offset >= 0 else ids[:offset]
        mask = counted[: labels.size - offset] if offset >= 0 else counted[-offset:]
        # A handful of labels agree by chance.
        if int(mask.sum()) < 3:
            return None
        shares[relation] = float(np.mean(left[mask] == right[mask]))
    ordered = sorted(shares, key=lambda relation: -shares[relation])
    best, second = ordered[0], ordered[1]
    if shares[best] < 0.95:
        return Relation.UNRELATED if shares[best] < 0.5 else None
    return best if shares[best] - shares[second] > 0.05 else None


def _lengths(lengths: Counter[int]) -> Optional[dict[str, Any]]:
    if not lengths:
        return None
    total = sum(lengths.values())
    mean = sum(length * count for length, count in lengths.items()) / total
    return {"min": min(lengths), "max": max(lengths), "mean": round(mean, 1)}
