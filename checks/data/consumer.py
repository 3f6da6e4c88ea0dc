"""Who will read the data: what the model does with its labels, and how long, how large and how many things must be.

Read in the models' construct methods: MindFormers' legacy LLaMA (and those that share its class) cuts the last
token off input_ids and the first off labels itself, so labels must equal input_ids and samples hold one token
more than seq_length, unless ``input_sliced_sig`` says that this was done before. Its mcore models, ChatGLM and
PyNative models compare position by position: labels must have been shifted once. GPT-2 and Bloom take
input_ids alone. Hugging Face models shift inside. The built-in trainer accepts both and shifts once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from doctor.finding import Evidence, Location

if TYPE_CHECKING:
    from doctor.plan.plan import Plan
    from doctor.plan.value import Value


class Shift(str, Enum):
    """What happens to labels between the file and the loss."""

    #: the model shifts: labels must equal input_ids
    INSIDE = "inside"
    #: nobody shifts: labels must be the next tokens
    NOT = "not"
    #: either is recognised and made right
    EITHER = "either"
    #: labels are not read
    UNUSED = "unused"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Consumer:
    """From a training config; unknown sizes are None."""

    source: Optional[Path] = None
    shift: Shift = Shift.UNKNOWN
    model: str = ""
    vocabulary: Optional[int] = None
    #: tokens of a sample that the model takes, with the extra one where it cuts one off
    length: Optional[int] = None
    columns: tuple[str, ...] = ()
    #: samples of one step over all devices
    batch: Optional[int] = None
    pad: Optional[int] = None
    ignore: int = -100
    places: Mapping[str, Location] = field(default_factory=dict)

    def evidence(self, name: str, observed: object, expected: object) -> Evidence:
        """That the config says so."""
        if name in self.places:
            return Evidence.at(self.places[name], observed=observed, expected=expected)
        return Evidence("value", str(self.source or "-"), key=name, observed=observed, expected=expected)


def consumer_of(path: Path) -> Consumer:
    """Of a training config. Raises UsageError when it cannot be read."""
    from doctor.plan.build import load_plan
    from doctor.plan.plan import Dialect

    plan = load_plan(path)
    shift = _shift(plan)
    sequence = plan.model.sequence.count or plan.data.sequence.count
    length = sequence
    if sequence is not None and shift is Shift.INSIDE and plan.dialect is Dialect.LEGACY:
        length = sequence + 1
    places: dict[str, Location] = {}
    for name, value in (
        ("vocab_size", plan.model.vocabulary),
        ("seq_length", plan.model.sequence if plan.model.sequence.given else plan.data.sequence),
        ("columns", plan.data.columns),
        ("batch_size", plan.batch.per_device),
        ("model", plan.model.type),
    ):
        if value.given:
            places[name] = value.location
    return Consumer(
        path,
        shift,
        plan.model.family or plan.dialect.value,
        plan.model.vocabulary.count,
        length,
        _words(plan.data.columns),
        _step(plan),
        plan.model.field("pad_token_id").whole,
        _ignored(plan.model.field("ignore_token_id").whole),
        places,
    )


_INSIDE = ("llama", "qwen", "baichuan", "internlm", "yi", "mixtral", "deepseek", "codellama", "telechat")


def _shift(plan: Plan) -> Shift:
    from doctor.plan.plan import Dialect

    if plan.dialect is Dialect.TRAINER:
        never = plan.root.get("train_dataset", "shift_labels").value
        return Shift.NOT if never in {"never", False} else Shift.EITHER
    if plan.dialect in {Dialect.MCORE, Dialect.PYNATIVE}:
        return Shift.NOT
    if plan.dialect is Dialect.HUGGINGFACE:
        return Shift.INSIDE
    if plan.dialect is not Dialect.LEGACY:
        return Shift.UNKNOWN
    words = f"{plan.model.type.words} {plan.model.architecture.words} {plan.model.family}".lower()
    if "gpt2" in words or "bloom" in words or "pangu" in words:
        return Shift.UNUSED
    if "glm" in words:
        return Shift.NOT
    if any(name in words for name in _INSIDE):
        return Shift.NOT if plan.model.field("input_sliced_sig").on else Shift.INSIDE
    return Shift.UNKNOWN


def _words(columns: Value) -> tuple[str, ...]:
    return tuple(item.words for item in columns.sequence if item.words)


def _ignored(value: Optional[int]) -> int:
    return -100 if value is None else value


def _step(plan: Plan) -> Optional[int]:
    """Samples that one step takes from the data set."""
    per = plan.batch.per_device.count
    data = plan.parallel.data.count
    if per is None or data is None:
        return None
    total = per * data * (plan.batch.interleave.count or 1)
    if plan.parallel.stages > 1:
        return total * (plan.parallel.micro_batches.count or 1)
    return total * (plan.batch.accumulation.count or 1)
