"""What the weight checks judge: the files behind a path, the model they hold and the config beside them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from doctor.check import Options
from doctor.errors import UsageError
from doctor.finding import Text
from doctor.formats.sniff import INDEX_SUFFIX, list_folder, looks_like_weights

if TYPE_CHECKING:
    from doctor.formats.weightset import WeightSet


@dataclass(frozen=True)
class Weights:
    """One set of weights to judge."""

    path: Path
    set: WeightSet
    options: Options


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
        return any(
            name.endswith(INDEX_SUFFIX) or name == "param_name_map.json" or looks_like_weights(path / name)
            for name in sorted(names)
        )
    except OSError:
        return False


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
    return Weights(path, found, options)


def facts(subject: Weights) -> dict[str, Any]:
    """`weights` of the contract: format, tensors, parameters, bytes, family, layout, dtypes."""
    tensors = subject.set.tensors
    return {
        "weights": {
            "format": subject.set.format,
            "files": len(subject.set.files),
            "tensors": len(tensors),
            "parameters": sum(tensor.elements for tensor in tensors.values()),
            "bytes": sum(tensor.bytes for tensor in tensors.values()),
            "family": None,
            "layout": None,
            "dtypes": dict(sorted(Counter(tensor.dtype for tensor in tensors.values()).items())),
        }
    }
