"""A training config as a subject of checks: how it is recognised, loaded, described and silenced."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Optional

from doctor.check import CheckOutcome, Options
from doctor.errors import UsageError
from doctor.finding import Text
from doctor.plan.arithmetic import global_batch
from doctor.plan.build import load_plan
from doctor.plan.dialect import looks_like_huggingface, looks_like_training
from doctor.plan.plan import Dialect, Plan

_HEAD = 256 << 10
_DIALECTS = {
    Dialect.LEGACY: Text("legacy config", "legacy 配置"),
    Dialect.MCORE: Text("mcore config", "mcore 配置"),
    Dialect.PYNATIVE: Text("PyNative config", "PyNative 配置"),
    Dialect.TRAINER: Text("config of the built-in trainer", "内置训练器配置"),
    Dialect.HUGGINGFACE: Text("Hugging Face model config", "Hugging Face 模型配置"),
    Dialect.OTHER: Text("YAML of no training program that is known here", "不属于已知训练程序的 YAML"),
}
_SILENCE = re.compile(r"#\s*doctor:\s*ignore(?:\s*=\s*([A-Za-z0-9_,\s-]+))?")


def recognises(path: Path) -> bool:
    """YAML by its suffix or by its sections, and a model's config.json."""
    try:
        if not path.is_file():
            return False
        if path.suffix.lower() in {".yaml", ".yml"}:
            return True
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
    except OSError:
        return False
    if b"\0" in head:
        return False
    if path.suffix.lower() == ".json":
        return looks_like_huggingface(head) or looks_like_training(head)
    return path.suffix.lower() not in {".log", ".txt", ".out", ".md"} and looks_like_training(head)


def load(path: Optional[Path], options: Options) -> Plan:
    """The plan of a file. Raises UsageError when it cannot be read."""
    if path is None:
        raise UsageError(Text("No config was given.", "未给出配置文件。"))
    return load_plan(
        path,
        devices=options.devices,
        device_memory=options.device_memory,
        mindformers=options.mindformers,
        # A slip in a training config is a finding with its line; other text is not ours to judge.
        forgiving=_looks_like_ours(path),
    )


def _looks_like_ours(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
    except OSError:
        return False
    return looks_like_training(head) or looks_like_huggingface(head)


def facts(plan: Plan) -> dict[str, Any]:
    """Dialect, release, model, batch and parallel sizes of the plan."""
    model, parallel = plan.model, plan.parallel
    release = plan.release
    return {
        "dialect": plan.dialect.value,
        "release": {"version": release.version, "how": release.how, "candidates": list(release.candidates)},
        "model": {
            "family": model.family or None,
            "layers": model.layers.count,
            "hidden_size": model.hidden.count,
            "heads": model.heads.count,
            "kv_heads": model.kv_heads.count or model.heads.count,
            "vocab_size": model.vocabulary.count,
            "sequence": model.sequence.count,
            "experts": model.experts.count,
        },
        "batch": global_batch(plan).to_dict(),
        "parallel": {
            "data": parallel.data.whole,
            "tensor": parallel.tensor.whole,
            "context": parallel.context.whole,
            "pipeline": parallel.pipeline.whole,
            "expert": parallel.expert.whole,
            "product": parallel.product,
            "devices": plan.devices,
        },
    }


def headline(plan: Plan) -> tuple[Text, ...]:
    """What was understood of the file, and the global batch, which is miscounted more often than anything else."""
    if not plan.document.readable:
        return (Text("a text that is not YAML yet", "尚不是合法 YAML 的文本"),)
    parts = [_DIALECTS[plan.dialect]]
    if plan.dialect.graph or plan.dialect is Dialect.PYNATIVE:
        parts.append(plan.release.describe())
    if plan.model.family:
        parts.append(Text(plan.model.family, plan.model.family))
    lines = [Text(", ".join(part.en for part in parts), "，".join(part.zh for part in parts))]
    batch = global_batch(plan)
    if batch.total is not None and plan.trains:
        tokens = f"{batch.tokens:,}" if batch.tokens else "?"
        lines.append(
            Text(
                f"global batch {batch.equation} (per device x data parallel x accumulation), {tokens} tokens a step",
                f"全局 batch {batch.equation}（单卡 × 数据并行 × 累积），每步 {tokens} tokens",
            )
        )
    return tuple(lines)


def silenced(plan: Plan, outcome: CheckOutcome) -> Optional[Text]:
    """The reason when every finding of an outcome stands on a line with `# doctor: ignore=RULE`."""
    if not outcome.findings:
        return None
    marks = _silences(plan.document.text)
    if not marks:
        return None
    lines = []
    for finding in outcome.findings:
        line = next(
            (
                item.line
                for item in finding.evidence
                if item.line in marks and _names(marks[item.line], finding.rule, finding.name)
            ),
            None,
        )
        if line is None:
            return None
        lines.append(str(line))
    listed = ", ".join(lines)
    return Text(f"silenced by a comment on line {listed}", f"被第 {listed} 行的注释屏蔽")


def _names(silences: frozenset[str], rule: str, name: str) -> bool:
    return not silences or any(
        item == name or rule.lower() == item or rule.lower().startswith(item + "-") for item in silences
    )


@lru_cache(maxsize=4)
def _silences(text: str) -> dict[int, frozenset[str]]:
    """Lines with the mark and the rules they name; none named means all."""
    if "doctor:" not in text:
        return {}
    marks: dict[int, frozenset[str]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        hit = _SILENCE.search(line)
        if hit:
            named = (hit.group(1) or "").replace(",", " ").lower().split()
            marks[number] = frozenset(named)
    return marks
