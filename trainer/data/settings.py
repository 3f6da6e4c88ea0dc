"""The section `train_dataset` (and `eval_dataset`): where samples come from and how they become batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from doctor.trainer.fields import Choice, Flag, Kind, Many, Maybe, Number, Place, Words, read_section, setting

_COUNT = Number(1, 10**9, integer=True)

#: a loader of MindFormers that reads raw data sets of its own; only a smoke test goes on without it
FOREIGN = "Foreign"
SOURCES = Choice(
    ("Generated", "Json", "Text", "MindDataset", FOREIGN),
    {
        "jsonl": "Json",
        "jsondataset": "Json",
        "jsonlines": "Json",
        "textfiledataset": "Text",
        "mindrecord": "MindDataset",
    },
)


@dataclass(frozen=True)
class Source:
    """`data_loader`: kind and place of the raw data. `Generated` is a learnable corpus made from the seed."""

    type: str = setting("Generated", SOURCES)
    dataset_dir: tuple[str, ...] = setting((), Many(Words()), "dataset_files", "path", "path_or_name")
    shuffle: bool = setting(True, Flag())
    #: of a JSON line: the field with the text (or with ids)
    field: str = setting("text", Words(), "text_column")
    #: of JSON lines: what cannot be read ends the run before it begins, or is left out, up to `MOST_BAD` of the lines
    bad_rows: str = setting("refuse", Choice(("refuse", "skip")))
    #: of the generated corpus: how many sequences, and the share of tokens replaced by noise
    samples: int = setting(512, _COUNT)
    noise: float = setting(0.05, Number(0, 1))


class _SourceKind(Kind):
    def read(self, value: Any, place: Place) -> Source:
        if isinstance(value, Source):
            return value
        if isinstance(value, str):
            value = {"type": value}
        if not isinstance(value, Mapping):
            value = {"type": value}
        return read_section(Source, value, place)


@dataclass(frozen=True)
class DatasetSettings:
    """`max_length` is the number of positions the model sees; a sample holds one token more, for the last label."""

    data_loader: Source = setting(Source(), _SourceKind(), "loader", "source")  # noqa: RUF009 - both are frozen
    input_columns: tuple[str, ...] = setting(("input_ids",), Many(Words()))
    tokenizer: str = setting("byte", Words())
    max_length: Optional[int] = setting(None, Maybe(Number(1, 10**9, integer=True, rule="CFG-MOD-005")), "seq_length")
    batch_size: Optional[int] = setting(None, Maybe(Number(1, 10**9, integer=True, rule="CFG-BAT-001")))
    drop_remainder: bool = setting(True, Flag())
    packing: bool = setting(True, Flag())
    num_parallel_workers: Optional[int] = setting(None, Maybe(Number(1, 4096, integer=True, rule="CFG-DAT-005")))
    #: text becomes this MindRecord file once and is then read from it, whatever its size
    mindrecord: Optional[str] = setting(None, Maybe(Words()))
    #: auto: labels are shifted here when they arrive unshifted; never: taken as they are; back: they arrive shifted twice
    shift_labels: str = setting("auto", Choice(("auto", "never", "back"), {"true": "auto", "false": "never"}))
    seed: Optional[int] = setting(None, Maybe(Number(0, 2**32 - 1, integer=True)))

    @classmethod
    def read(cls, raw: Mapping[str, Any], place: Place) -> DatasetSettings:
        return read_section(cls, raw, place)

    def effective(self) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Source):
                value = {
                    entry.name: list(part) if isinstance(part := getattr(value, entry.name), tuple) else part
                    for entry in dataclasses.fields(value)
                }
            row[item.name] = list(value) if isinstance(value, tuple) else value
        return row
