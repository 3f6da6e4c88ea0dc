"""What the weight checks judge: the files behind a path, the model they hold and the model they are meant for."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from doctor.check import Options
from doctor.errors import UsageError
from doctor.finding import Text
from doctor.formats.sniff import INDEX_SUFFIX, list_folder, looks_like_weights

if TYPE_CHECKING:
    from doctor.checks.weights.diagnosis import Diagnosis
    from doctor.checks.weights.expected import Expected
    from doctor.formats.recognise import Model
    from doctor.formats.tensor import WeightFile
    from doctor.formats.values import Statistics
    from doctor.formats.weightset import WeightSet


@dataclass(frozen=True)
class Weights:
    """One set of weights to judge."""

    path: Path
    set: WeightSet
    options: Options
    #: from a training config, when one was named
    training: Optional[Expected] = None

    @property
    def folder(self) -> Path:
        """Where the files stand."""
        return self.path if self.path.is_dir() else self.path.parent

    @cached_property
    def beside(self) -> Optional[Expected]:
        """What the config.json beside the weights asks for."""
        from doctor.checks.weights.expected import of_folder

        return of_folder(self.folder)

    @cached_property
    def expected(self) -> Optional[Expected]:
        """The model that the weights are meant for: the training config first, then the config beside them."""
        usable = [item for item in (self.training, self.beside) if item is not None and item.error is None]
        return usable[0] if usable else None

    @cached_property
    def model(self) -> Optional[Model]:
        """The model that the tensors make up."""
        from doctor.formats.recognise import recognise

        prefer = self.beside.family if self.beside is not None else None
        if prefer is None and self.expected is not None:
            prefer = self.expected.family
        kind = self.beside.data.get("model_type") if self.beside is not None and prefer is None else None
        named = kind if isinstance(kind, str) else None
        found = recognise(self.set.tensors, prefer, named, self.set.complete)
        if found is not None:
            return found
        from doctor.formats.generic import generic_model

        return generic_model(self.set.tensors, named)

    @cached_property
    def statistics(self) -> Mapping[str, Statistics]:
        """Of the values of every tensor, by name; with the file's name where several hold one of that name."""
        merged: dict[str, Statistics] = {}
        for file, rows in self.scanned:
            for row in rows:
                key = f"{row.name} ({file.path.name})" if row.name in merged else row.name
                merged[key] = row
        return merged

    @cached_property
    def scanned(self) -> tuple[tuple[WeightFile, tuple[Statistics, ...]], ...]:
        """The statistics of each file; reads all of them once, several side by side."""
        from concurrent.futures import ThreadPoolExecutor

        from doctor.formats.values import scan

        def one(file: WeightFile) -> tuple[Statistics, ...]:
            try:
                return tuple(scan(file.path, file.tensors))
            except OSError:
                return ()

        with ThreadPoolExecutor(min(os.cpu_count() or 1, 4)) as pool:
            return tuple(zip(self.set.files, pool.map(one, self.set.files)))

    @cached_property
    def diagnosis(self) -> Optional[Diagnosis]:
        """What differs from the model that the weights are meant for, by cause."""
        from doctor.checks.weights.diagnosis import diagnose

        return diagnose(self)


#: Folders in which each device, or each iteration, keeps its part.
_PARALLEL = re.compile(r"rank_\d{1,6}|iteration_\d{1,12}")
#: A folder with one of these is a run folder or a source tree; its weights are judged by their own path.
_RUN_MARKS = frozenset({"metrics", "log", "end.json"})


def recognises(path: Path) -> bool:
    """A weight file, a shard index or a folder with either. Reads a few bytes; never raises."""
    try:
        if not path.is_dir():
            return path.is_file() and (path.name == "param_name_map.json" or looks_like_weights(path))
        entries = list_folder(path)
        names = {entry.name for entry in entries}
        if names & _RUN_MARKS and "config.yaml" in names:
            return False
        if any(
            name.endswith(INDEX_SUFFIX) or name == "param_name_map.json" or looks_like_weights(path / name)
            for name in sorted(names)
        ):
            return True
        return any(_PARALLEL.fullmatch(entry.name) and _holds_weights(path / entry.name) for entry in entries)
    except OSError:
        return False


def _holds_weights(folder: Path) -> bool:
    return folder.is_dir() and any(
        entry.name.endswith((".ckpt", ".safetensors")) for entry in list_folder(folder, 1000)
    )


def load(path: Optional[Path], options: Options) -> Weights:
    """Reads the headers of every file. Raises UsageError when there is nothing to read."""
    from doctor.formats.weightset import open_set

    if path is None:
        raise UsageError(Text("No weights were given.", "没有给出权重路径。"))
    try:
        found = open_set(path)
    except FileNotFoundError:
        raise UsageError(
            Text(f"{path}: there are no weight files in this folder.", f"{path}：目录中没有权重文件。"),
            Text(
                "Give the folder that holds *.safetensors, *.ckpt or *.bin.",
                "请给出含 *.safetensors、*.ckpt 或 *.bin 的目录。",
            ),
        ) from None
    except OSError as error:
        raise UsageError(
            Text(f"{path}: cannot be read ({error.strerror}).", f"{path}：无法读取（{error.strerror}）。")
        ) from None
    return Weights(path, found, options, _training(options))


def _training(options: Options) -> Optional[Expected]:
    if options.against is None:
        return None
    from doctor.checks.weights.expected import of_training

    return of_training(Path(options.against))


def facts(subject: Weights) -> dict[str, Any]:
    """`weights` of the contract: format, tensors, parameters, bytes, family, layout, dtypes."""
    tensors = subject.set.tensors
    model = subject.model
    states = {*model.states, *model.buffers} if model is not None else set()
    beside = subject.beside
    named = None if beside is None else beside.data.get("model_type")
    known = model is not None and model.family.id != UNKNOWN
    return {
        "weights": {
            "format": subject.set.format,
            "files": len(subject.set.files),
            "tensors": len(tensors),
            "parameters": sum(tensor.elements for name, tensor in tensors.items() if name not in states),
            "bytes": subject.set.bytes,
            "family": model.family.id if model is not None and known else named if isinstance(named, str) else None,
            "layout": model.layout.id if model is not None and known else None,
            "variant": (model.layout.variant or None) if model is not None else None,
            "model": model.known.name if model is not None and model.known is not None else None,
            "layers": model.depth if model is not None else None,
            "sizes": _sizes(model),
            "dtypes": dict(sorted(Counter(tensor.dtype for tensor in tensors.values()).items())),
        }
    }


#: The id of a family that was made up from the tensors (formats.generic).
UNKNOWN = "unknown"
_WORDS = {
    "H": "hidden_size",
    "V": "vocab_size",
    "F": "intermediate_size",
    "Q": "attention_width",
    "K": "kv_width",
    "D": "head_dim",
    "E": "num_experts",
    "M": "moe_intermediate_size",
    "P": "max_position_embeddings",
}


def _sizes(model: Optional[Model]) -> Optional[dict[str, int]]:
    if model is None:
        return None
    return {word: model.symbols[symbol] for symbol, word in _WORDS.items() if symbol in model.symbols}


def headline(subject: Weights) -> Iterator[Text]:
    """One line: what the weights are."""
    from doctor.checks.words import amount, size

    row = facts(subject)["weights"]
    name = row["model"] or row["family"]
    what = Text(f"{name}, {row['layout']} names" if row["layout"] else str(name), "")
    what = Text(what.en, f"{name}，{row['layout']} 命名" if row["layout"] else str(name))
    if name is None:
        what = Text("unknown model", "未知模型")
    types = ", ".join(row["dtypes"])
    yield Text(
        f"{what.en}: {amount(row['parameters'])} parameters in {row['tensors']} tensors, {row['files']} "
        f"{row['format']} file{'s' if row['files'] != 1 else ''}, {size(row['bytes'])}, {types}",
        f"{what.zh}：{row['tensors']} 个张量共 {amount(row['parameters'])} 参数，{row['files']} 个 {row['format']} 文件，"
        f"{size(row['bytes'])}，{types}",
    )
