"""The comparison with the model that the weights are meant for, and when it cannot be made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from doctor.check import Skip
from doctor.checks.weights.subject import Weights
from doctor.finding import Edit, Fix, Text

if TYPE_CHECKING:
    from doctor.checks.weights.diagnosis import Diagnosis
    from doctor.formats.recognise import Model


_UNKNOWN = Text("no known model family has these parameter names", "参数名不属于任何已知的模型家族")


_PARTIAL = Text(
    "one shard of several was given; give the folder to judge the whole model",
    "只给出了其中一个分片；请给出整个目录以判断完整模型",
)


_PACKED = Text(
    "the weights are packed by a quantisation, whose names and shapes are its own",
    "权重经量化打包，参数名和形状由量化方法决定",
)
_MIXED = Text(
    "the index and the shards are of different saves, which its own finding says",
    "索引与分片不是同一次保存的结果，已在对应条目中报告",
)
_LOST = Text(
    "a file of the set is missing or broken, which its own finding says", "有分片缺失或损坏，已在对应条目中报告"
)


def diagnosed(subject: Weights) -> Diagnosis:
    """The diagnosis of a model of a known family. Raises Skip when there is none."""
    from doctor.checks.weights.types import PACKED

    packed = [name for name in subject.set.tensors if name.endswith(PACKED)]
    if not all(_is_scale(name, subject) for name in packed):
        raise Skip(_PACKED)
    found = subject.diagnosis
    if found is None:
        raise Skip(_UNKNOWN)
    return found


def _is_scale(name: str, subject: Weights) -> bool:
    """Whether it is a factor beside weights of the usual name and shape (block-scaled FP8)."""
    return name.endswith("_scale_inv") and name[: -len("_scale_inv")] in subject.set.tensors


def whole(subject: Weights) -> Diagnosis:
    """The diagnosis of a set whose files are all there: only then can something be called missing."""
    found = diagnosed(subject)
    if subject.set.partial:
        raise Skip(_PARTIAL)
    if not subject.set.complete:
        raise Skip(_LOST)
    if subject.set.disagreeing:
        raise Skip(_MIXED)
    return found


def source(found: Diagnosis) -> str:
    """The config's name, for messages."""
    return found.expected.source.name if found.expected is not None else "config.json"


def set_field(found: Diagnosis, fields: tuple[str, ...], old: int, new: int, subject: Weights) -> Fix:
    """The edit that makes the config say what the weights are."""
    assert found.expected is not None
    key = found.expected.key(fields)
    return Fix(
        Text(f"Set {key} to {new}.", f"将 {key} 设为 {new}。"),
        edits=(Edit(str(found.expected.source), key, old, new),),
        applicability="unsafe",
        verify=f"doctor check {subject.path}",
    )


def head_size(subject: Weights, model: Model) -> Optional[int]:
    """Rows of one head: by the shapes, the config, or the published model of these sizes; None when nothing tells."""
    if "D" in model.symbols:
        return model.symbols["D"]
    expected = subject.expected
    if expected is not None and expected.sizes is not None and "D" in expected.sizes.symbols:
        return expected.sizes.symbols["D"]
    return model.known.head if model.known is not None else None
