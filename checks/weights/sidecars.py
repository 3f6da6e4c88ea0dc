"""The files beside the weights: config.json and the tokenizer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

from doctor.check import Skip, check
from doctor.checks.weights.compared import diagnosed
from doctor.checks.weights.subject import Weights
from doctor.checks.words import NOT_THERE
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.rule import Rule

MAX_TOKENIZER = 64_000_000


@check(
    Rule(
        id="WGT-CFG-001",
        name="model-config-missing",
        severity=Severity.WARNING,
        category="config",
        title=Text("There is no config.json beside the weights", "权重旁没有 config.json"),
        why=Text(
            "Hugging Face weights are loaded through config.json (from_pretrained, pretrained_model_dir); without it the "
            "model's sizes have to be given by hand, and shapes cannot be checked here.",
            "Hugging Face 权重通过 config.json 加载（from_pretrained、pretrained_model_dir）；缺少时只能手工给出模型尺寸，此处也无法核对形状。",
        ),
        fix=Text(
            "Copy config.json from the source of the model into {path}.", "从模型来源处将 config.json 拷贝到 {path}。"
        ),
        verify="doctor check {path}",
    )
)
def config_missing(subject: Weights) -> Iterator[Finding]:
    if not subject.path.is_dir() or subject.beside is not None or subject.training is not None:
        return
    model = subject.model
    if model is None or model.layout.id != "huggingface":
        raise Skip(Text("these are no Hugging Face weights of a known family", "不是已知家族的 Hugging Face 权重"))
    yield config_missing.finding(
        evidence=(Evidence("file", str(subject.path / "config.json"), observed=NOT_THERE),), path=subject.path
    )


@check(
    Rule(
        id="WGT-CFG-002",
        name="model-config-unreadable",
        severity=Severity.ERROR,
        category="config",
        title=Text("{name} cannot be read", "{name} 无法读取"),
        why=Text("{name}: {detail}.", "{name}：{detail_zh}。"),
        fix=Text("Copy {name} again from the source of the model.", "从模型来源处重新拷贝 {name}。"),
        verify="doctor check {path}",
    )
)
def config_unreadable(subject: Weights) -> Iterator[Finding]:
    beside = subject.beside
    if beside is not None and beside.error is not None:
        yield config_unreadable.finding(
            evidence=(Evidence("file", str(beside.source), text=beside.error.en),),
            name=beside.source.name,
            detail=beside.error.en,
            detail_zh=beside.error.zh,
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-CFG-003",
        name="model-config-incomplete",
        severity=Severity.ERROR,
        category="config",
        title=Text("{name} does not say how large the model is", "{name} 没有给出完整的模型尺寸"),
        why=Text(
            "For {family} it needs a sensible {fields}; without it the program that loads uses the default of another "
            "size.",
            "{family} 需要有效的 {fields}；缺少时加载程序会采用另一种尺寸的默认值。",
        ),
        fix=Text("Copy {name} again from the source of the model.", "从模型来源处重新拷贝 {name}。"),
        verify="doctor check {path}",
    )
)
def config_incomplete(subject: Weights) -> Iterator[Finding]:
    beside = subject.beside
    if beside is None or beside.error is not None or beside.family is None or beside.sizes is not None:
        return
    yield config_incomplete.finding(
        evidence=(Evidence("file", str(beside.source), key=beside.lacking, observed=NOT_THERE),),
        name=beside.source.name,
        family=beside.family.title,
        fields=beside.lacking,
        path=subject.path,
    )


@check(
    Rule(
        id="WGT-TOK-001",
        name="tokenizer-larger-than-embedding",
        severity=Severity.ERROR,
        category="tokenizer",
        title=Text(
            "The tokenizer has ids up to {top}, the embedding {rows} rows",
            "分词器的 id 最大为 {top}，而词嵌入只有 {rows} 行",
        ),
        why=Text(
            "Token {token} (id {top}) in {name} has no row: the lookup reads out of range, which on Ascend gives wrong "
            "values or an aicore error, not a clear message.",
            "{name} 中的 token {token}（id {top}）没有对应的行：查表越界，在昇腾上表现为错误结果或 aicore error，而非清晰的报错。",
        ),
        fix=Text(
            "Use the tokenizer that came with the weights, or resize the embedding to at least {needed} rows.",
            "使用与权重配套的分词器，或将词嵌入扩展到至少 {needed} 行。",
        ),
        verify="doctor check {path}",
    )
)
def tokenizer(subject: Weights) -> Iterator[Finding]:
    if not subject.path.is_dir():
        raise Skip(Text("a single file has no tokenizer", "单个文件没有分词器"))
    found = diagnosed(subject)
    rows = found.model.symbols.get("V")
    if rows is None:
        raise Skip(Text("there is no embedding in these files", "这些文件中没有词嵌入"))
    if subject.set.sliced:
        raise Skip(Text("each file holds a slice of the embedding", "每个文件只含词嵌入的一个切片"))
    highest = highest_token(subject.path)
    if highest is None:
        raise Skip(
            Text(
                "no readable tokenizer.json or vocab.json beside the weights",
                "权重旁没有可读的 tokenizer.json 或 vocab.json",
            )
        )
    name, token, top = highest
    if top >= rows:
        yield tokenizer.finding(
            evidence=(
                Evidence(
                    "file",
                    str(subject.path / name),
                    key=token,
                    observed=top,
                    expected=Text(f"below {rows}", f"小于 {rows}"),
                ),
            ),
            top=top,
            rows=rows,
            token=token,
            name=name,
            needed=top + 1,
            path=subject.path,
        )


def highest_token(folder: Path) -> Optional[tuple[str, str, int]]:
    """File, token and id of the highest id that the tokenizer gives out, or None when no vocabulary is readable."""
    best: Optional[tuple[str, str, int]] = None
    for name in ("tokenizer.json", "vocab.json", "added_tokens.json", "tokenizer_config.json"):
        data = _json(folder / name)
        for token, number in _ids(name, data):
            if best is None or number > best[2]:
                best = (name, token, number)
    return best


def _json(path: Path) -> Any:
    try:
        if not path.is_file() or path.stat().st_size > MAX_TOKENIZER:
            return None
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def _ids(name: str, data: Any) -> Iterator[tuple[str, int]]:
    if not isinstance(data, dict):
        return
    if name in {"vocab.json", "added_tokens.json"}:
        yield from _pairs(data)
        return
    if name == "tokenizer_config.json":
        decoder = data.get("added_tokens_decoder")
        for key, value in decoder.items() if isinstance(decoder, dict) else ():
            if key.isdigit() and isinstance(value, dict):
                yield str(value.get("content")), int(key[:12])
        return
    model = data.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, dict):
        yield from _pairs(vocabulary)
    elif isinstance(vocabulary, list) and vocabulary:
        last = vocabulary[-1]
        yield str(last[0] if isinstance(last, list) and last else last), len(vocabulary) - 1
    added = data.get("added_tokens")
    for item in added if isinstance(added, list) else ():
        if isinstance(item, dict) and type(item.get("id")) is int:
            yield str(item.get("content")), item["id"]


def _pairs(table: dict[str, Any]) -> Iterator[tuple[str, int]]:
    numbers = {token: value for token, value in table.items() if type(value) is int}
    if numbers:
        token = max(numbers, key=lambda key: numbers[key])
        yield token, numbers[token]


@check(
    Rule(
        id="WGT-TOK-002",
        name="tokenizer-unreadable",
        severity=Severity.ERROR,
        category="tokenizer",
        title=Text("{name} cannot be read", "{name} 无法读取"),
        why=Text(
            "{name}: {detail}. The tokenizer fails to load, or a slower one is built from other files without a word.",
            "{name}：{detail_zh}。分词器加载失败，或悄悄改用其他文件构建。",
        ),
        fix=Text(
            "Copy {name} again from the source of the model (git lfs pull for a pointer).",
            "从模型来源处重新拷贝 {name}（LFS 指针请执行 git lfs pull）。",
        ),
        verify="doctor check {path}",
    )
)
def tokenizer_unreadable(subject: Weights) -> Iterator[Finding]:
    if not subject.path.is_dir():
        raise Skip(Text("a single file has no tokenizer", "单个文件没有分词器"))
    for name in _TOKENIZER_FILES:
        detail = _broken(subject.path / name)
        if detail is not None:
            yield tokenizer_unreadable.finding(
                evidence=(Evidence("file", str(subject.path / name), note=detail),),
                name=name,
                detail=detail.en,
                detail_zh=detail.zh,
                path=subject.path,
            )


_TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt", "added_tokens.json", "special_tokens_map.json",
    "tokenizer_config.json",
)  # fmt: skip


def _broken(path: Path) -> Optional[Text]:
    """What is wrong with a file of a tokenizer; None when it is sound, absent, or not to be judged."""
    from doctor.formats.sniff import sniff_path

    try:
        if not path.is_file():
            return None
        size = path.stat().st_size
        kind = sniff_path(path)
        if kind in _WORDS:
            return _WORDS[kind]
        if path.suffix != ".json" or size > MAX_TOKENIZER:
            return None
        data = json.loads(path.read_bytes())
    except OSError as error:
        word = error.strerror or "cannot be read"
        return Text(word, word)
    except json.JSONDecodeError as error:
        return Text(
            f"not JSON: {error.msg} at line {error.lineno}", f"不是合法的 JSON：第 {error.lineno} 行 {error.msg}"
        )
    except (ValueError, RecursionError):
        return Text("not JSON in UTF-8", "不是 UTF-8 编码的 JSON")
    return None if isinstance(data, dict) else Text("not a JSON object", "不是 JSON 对象")


_WORDS = {
    "empty": Text("it is empty", "文件为空"),
    "lfs-pointer": Text("a pointer of Git LFS, not the file itself", "只是 Git LFS 指针，不是文件本身"),
    "web-page": Text("a web page was saved in its place", "保存下来的是网页"),
    "zeroed": Text("nothing but zero bytes", "全是零字节"),
}
