"""Two configurations compared by what they mean: the fields of their training plans, then what else they hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

from doctor.compare.meanings import MEANINGS, Meaning, of_model_field
from doctor.compare.row import FAILURE, LOSS, MEMORY, SPEED, Row
from doctor.finding import Text
from doctor.plan.arithmetic import global_batch
from doctor.plan.plan import Plan
from doctor.plan.value import Value

#: settings that change nothing of a run: where it writes, what it is called, what it prints
_ASIDE = re.compile(
    r"(?:^|\.)(?:output_dir|run_name|summary_dir|save_graphs_path|logging_steps|log_\w+|\w*_log|per_print_times|print_\w+"
    r"|(?:save|checkpoint|ckpt|output)_(?:path|dir|directory|prefix)|prefix|directory|versions|profile\w*|remote_\w+|"
    r"auto_tune|filepath_prefix|autotune_per_step|only_save_strategy|train_precision_sync|infer_precision_sync)(?:\.|$)"
)
_TYPES = {
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "float": "float32",
    "mstype.float16": "float16",
    "mstype.bfloat16": "bfloat16",
    "mstype.float32": "float32",
}
#: differences of settings that have no meaning of their own, at most
_MOST_OTHER = 200


class Shared(NamedTuple):
    """The differences, and how many settings were compared, for a reader who sees none that differs."""

    rows: tuple[Row, ...]
    compared: int


def compare_plans(a: Plan, b: Plan) -> Shared:
    """The settings that differ. A setting that a file leaves out counts with the default of its release; one that only the
    other dialect knows is none of a difference."""
    rows = [*_arithmetic(a, b)]
    whole = (_is_whole(a), _is_whole(b))
    seen: set[str] = set()
    compared = 0
    for meaning in MEANINGS:
        left, right = meaning.of(a), meaning.of(b)
        seen.update((left.key, right.key))
        compared += left.given or right.given
        if not _written_out(left, right, whole) and not _same_rate(meaning, a, b):
            rows += _rows(meaning, left, right)
    for name in sorted(set(a.model.fields) | set(b.model.fields)):
        left, right = a.model.field(name), b.model.field(name)
        seen.update((left.key, right.key))
        compared += 1
        bears_on, weight = of_model_field(name)
        named = Meaning(f"model.{name}", Text(name, name), bears_on, weight, lambda plan: plan.model.section)
        if not _written_out(left, right, whole):
            rows += [row for row in _rows(named, left, right) if not _known_already(rows, row)]
    if a.dialect is b.dialect:
        others = list(_others(a, b, seen, whole))
        rows += [row for row in others if not _known_already(rows, row)][:_MOST_OTHER]
    return Shared(tuple(rows), compared)


def _arithmetic(a: Plan, b: Plan) -> Iterator[Row]:
    """What no single setting says: the batch of an update, and its tokens."""
    left, right = global_batch(a), global_batch(b)
    if left.total is not None and right.total is not None and left.total != right.total:
        note = Text(f"A {left.equation}; B {right.equation}", f"A {left.equation}；B {right.equation}")
        yield Row(
            "config",
            "global_batch",
            Text("global batch", "全局 batch"),
            left.total,
            right.total,
            (LOSS, SPEED),
            0.9,
            note,
        )
    if left.tokens is not None and right.tokens is not None and left.tokens != right.tokens:
        label = Text("tokens a step", "每步 tokens")
        yield Row("config", "tokens_per_step", label, left.tokens, right.tokens, (LOSS, SPEED), 0.6)


def _is_whole(plan: Plan) -> bool:
    """Whether a run wrote every setting out, its defaults too."""
    return plan.root.get("versions").given


def _written_out(left: Optional[Value], right: Optional[Value], whole: tuple[bool, bool]) -> bool:
    """Whether only a config that has every default in it holds the setting: the other one leaves it at that default."""
    given = (left is not None and left.given, right is not None and right.given)
    return whole[0] != whole[1] and given == whole


def _rows(meaning: Meaning, left: Value, right: Value) -> Iterator[Row]:
    """The difference of a setting; of two that have settings of their own, theirs."""
    one, other = meant(left), meant(right)
    if one == other or not (left.given or right.given) or _ASIDE.search(meaning.key):
        return
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted(set(one) | set(other)):
            label = Text(f"{meaning.label.en}: {name}", f"{meaning.label.zh}：{name}")
            inner = Meaning(f"{meaning.key}.{name}", label, meaning.bears_on, meaning.weight, meaning.of)
            yield from _rows(inner, left.get(name), right.get(name))
        return
    yield Row(
        "config",
        meaning.key,
        meaning.label,
        one,
        other,
        meaning.bears_on,
        meaning.weight,
        place_a=place(left),
        place_b=place(right),
    )


def _same_rate(meaning: Meaning, a: Plan, b: Plan) -> bool:
    """Whether a missing setting says nothing: betas in one file as a list and in the other one by one."""
    if meaning.key == "optimizer.betas":
        return _betas(a) == _betas(b)
    if meaning.key in ("optimizer.beta1", "optimizer.beta2"):
        return _betas(a) == _betas(b) or a.optimizer.betas.given != b.optimizer.betas.given
    return False


def _betas(plan: Plan) -> tuple[Any, ...]:
    listed = plan.optimizer.betas.sequence
    values = listed or (plan.optimizer.beta1, plan.optimizer.beta2)
    return tuple(meant(item) for item in values)


def _known_already(rows: list[Row], row: Row) -> bool:
    """A setting that the plan has under another name, at the same place."""
    places = {(known.place_a, known.place_b) for known in rows if known.place_a or known.place_b}
    return (row.place_a, row.place_b) in places


def _others(a: Plan, b: Plan, seen: set[str], whole: tuple[bool, bool]) -> Iterator[Row]:
    left, right = dict(_leaves(a.root)), dict(_leaves(b.root))
    for key in (*left, *(key for key in right if key not in left)):
        if _ASIDE.search(key) or key in seen or any(key.startswith(f"{known}.") for known in seen if known):
            continue
        one, other = left.get(key), right.get(key)
        if _written_out(one, other, whole):
            continue
        was, now = meant(one), meant(other)
        if was != now:
            bears_on = _bears_on(key)
            yield Row(
                "config",
                key,
                Text(key, key),
                was,
                now,
                bears_on,
                0.3 if bears_on else 0.1,
                place_a=place(one),
                place_b=place(other),
            )


def _bears_on(key: str) -> tuple[str, ...]:
    """What a setting without a meaning of its own may bear on, by the section that it stands in."""
    section = key.partition(".")[0]
    if section in ("train_dataset", "train_dataset_task", "optimizer", "lr_schedule", "runner_wrapper", "training"):
        return (LOSS,)
    if section in ("model", "moe_config", "processor", "trainer", "training_args"):
        return (LOSS, SPEED, MEMORY)
    if section in ("parallel", "parallel_config", "parallelism", "recompute_config", "swap_config", "context"):
        return (SPEED, MEMORY, FAILURE)
    return (SPEED,) if section in ("callbacks", "runner_config") else ()


def _leaves(root: Value) -> Iterator[tuple[str, Value]]:
    for value in root.walk():
        is_leaf = value.is_scalar or (value.is_sequence and all(item.is_scalar for item in value.sequence))
        if is_leaf and value.given and value.key and "[" not in value.key:
            yield value.key, value


def meant(value: Optional[Value]) -> Any:
    """A setting as it is compared: numbers as numbers, types of numbers under one name, nothing as None."""
    return _meant(value.plain()) if value is not None else None


def _meant(value: Any) -> Any:
    if isinstance(value, str):
        word = value.strip()
        return _TYPES.get(word.lower(), word) or None
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    if isinstance(value, (list, tuple)):
        return [_meant(item) for item in value] or None
    if isinstance(value, dict):
        kept = {name: _meant(item) for name, item in value.items()}
        return {name: item for name, item in kept.items() if item is not None} or None
    return value


def place(value: Optional[Value]) -> Optional[str]:
    """file:line of a setting that a file holds."""
    if value is None or not value.given or value.location.line is None:
        return None
    return f"{value.location.source}:{value.location.line}"
