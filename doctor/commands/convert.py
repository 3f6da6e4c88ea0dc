"""`doctor convert SRC DST`: weights between Hugging Face, Meta, MindFormers and mcore names and layouts."""

from __future__ import annotations

import argparse
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

from doctor.checks.words import amount, some
from doctor.checks.words import size as in_words
from doctor.commands.check import size
from doctor.errors import UsageError
from doctor.finding import Text
from doctor.formats import modelconfig
from doctor.formats.convert import Conversion, ConversionError, plan
from doctor.formats.deliver import Delivered, Target, copy_side_files, deliver, files_of, refuse
from doctor.formats.families.family import Family, Layout
from doctor.formats.layers import by_pattern
from doctor.formats.modelconfig import ModelConfig
from doctor.formats.recognise import Model, recognise
from doctor.formats.weightset import WeightSet, open_set
from doctor.language import Help
from doctor.report.model import Report
from doctor.report.write import emit

DESCRIPTION = Text(
    "Converts weights between Hugging Face, Meta, MindFormers and mcore layouts, as a stream.",
    "在 Hugging Face、Meta、MindFormers、mcore 命名之间流式转换权重。",
)
EPILOG = Text(
    "examples:\n  doctor convert llama-2-7b-hf/ llama_7b.ckpt --dry-run\n  doctor convert llama-2-7b-hf/ llama_7b.ckpt\n"
    "  doctor convert llama_7b.ckpt back/ --to huggingface --dtype bfloat16 --shard-size 5GB",
    "示例：\n  doctor convert llama-2-7b-hf/ llama_7b.ckpt --dry-run\n  doctor convert llama-2-7b-hf/ llama_7b.ckpt\n"
    "  doctor convert llama_7b.ckpt back/ --to huggingface --dtype bfloat16 --shard-size 5GB",
)
LAYOUTS = ("huggingface", "mindformers", "mcore", "meta")
DTYPES = {
    "bfloat16": "bfloat16", "bf16": "bfloat16", "float16": "float16", "fp16": "float16", "float32": "float32",
    "fp32": "float32", "keep": None,
}  # fmt: skip
DEFAULT_SHARD = 5 * 10**9


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="SRC", help=Help("weights: file, shard index or folder", "权重：文件、分片索引或目录")
    )
    parser.add_argument(
        "target",
        metavar="DST",
        help=Help("a file (.safetensors, .ckpt) or a folder", "目标文件（.safetensors、.ckpt）或目录"),
    )
    parser.add_argument(
        "--to",
        choices=LAYOUTS,
        help=Help("layout of the target (default: the other side)", "目标权重的命名格式（默认为另一方）"),
    )
    parser.add_argument(
        "--variant",
        metavar="NAME",
        help=Help("variant of the layout, such as qkv_concat or split", "命名格式的变体，如 qkv_concat 或 split"),
    )
    parser.add_argument(
        "--form",
        choices=("safetensors", "ckpt"),
        help=Help("file format (default: by the name of DST)", "文件格式（默认由 DST 的名称决定）"),
    )
    parser.add_argument(
        "--dtype",
        choices=tuple(DTYPES),
        default="keep",
        help=Help("type of the target (default: keep)", "目标的数据类型（默认不变）"),
    )
    parser.add_argument(
        "--shard-size",
        type=size,
        metavar="5GB",
        help=Help("largest file of a folder (default 5GB)", "目录中单个文件的上限（默认 5GB）"),
    )
    parser.add_argument(
        "--model-config",
        metavar="FILE",
        help=Help("config.json of the model when it is not beside SRC", "模型的 config.json（不在 SRC 旁边时）"),
    )
    parser.add_argument(
        "--untie",
        action="store_true",
        help=Help("store the output layer of a tied model too", "共享词嵌入的模型也单独保存输出层"),
    )
    parser.add_argument(
        "--dry-run", action="store_true", help=Help("show the mapping and write nothing", "只显示映射，不写文件")
    )
    parser.add_argument("--overwrite", action="store_true", help=Help("replace files that are there", "覆盖已有文件"))


def run(args: argparse.Namespace) -> int:
    source, target = Path(args.source), Path(args.target)
    found = _open(source)
    config = _config(args.model_config, source)
    model = _recognised(found, source, config)
    layout = _layout(model, args.to, args.variant)
    where = _target(args, target)
    try:
        conversion = plan(found, model, layout, _sizes(model, config), DTYPES[args.dtype], args.untie)
        refuse(conversion, where, source)
        with _ended_by_signal():
            done = None if args.dry_run else deliver(conversion, found, where, _progress(args))
    except ConversionError as error:
        raise UsageError(error.what + Text(".", "。"), error.hint) from None
    except OSError as error:
        raise UsageError(Text(f"{source} -> {target}: {error}.", f"{source} -> {target}：{error}。")) from None
    copied: tuple[str, ...] = ()
    if done is not None and where.folder and source.is_dir():
        copied = copy_side_files(source, target)
    return emit(_report(args, conversion, where, done, copied), args)


@contextmanager
def _ended_by_signal() -> Iterator[None]:
    """A polite kill leaves no half file behind either, as Ctrl-C does; the exit code is the usual 128 + 15."""

    def stop(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, usual)


def _open(source: Path) -> WeightSet:
    if not source.exists():
        raise UsageError(Text(f"{source}: there is no such file or folder.", f"{source}：文件或目录不存在。"))
    try:
        found = open_set(source)
    except FileNotFoundError:
        raise UsageError(Text(f"{source}: no weight files here.", f"{source}：没有权重文件。")) from None
    hint = Text(f"See: doctor check {source}", f"请查看：doctor check {source}")
    broken = next((problem for file in found.files for problem in file.problems), None)
    if broken is not None:
        what = Text(
            f"{broken.path}: {broken.detail.en or broken.kind.value}.",
            f"{broken.path}：{broken.detail.zh or broken.kind.value}。",
        )
        raise UsageError(what, hint)
    if found.missing:
        raise UsageError(
            Text(f"{source}: {found.missing[0]} is missing.", f"{source}：缺少 {found.missing[0]}。"), hint
        )
    if found.sliced and found.iteration is not None:
        raise UsageError(
            Text(f"{source}: slices without metadata.json.", f"{source}：切片缺少 metadata.json。"),
            Text("Copy metadata.json from where it was saved.", "请从保存处拷贝 metadata.json。"),
        )
    if found.sliced:
        raise UsageError(
            Text(f"{source}: slices without strategy files.", f"{source}：切片缺少策略文件。"),
            Text(
                "Put the run's strategy folder beside the rank folders: output/strategy.",
                "请将该次训练的 strategy 目录放到 rank 目录旁：output/strategy。",
            ),
        )
    return found


def _config(asked: Optional[str], source: Path) -> Optional[ModelConfig]:
    config = modelconfig.beside(source if source.is_dir() else source.parent)
    if asked is not None:
        config = modelconfig.read(Path(asked))
        if config.error is not None:
            raise UsageError(Text(f"{asked}: {config.error.en}.", f"{asked}：{config.error.zh}。"))
    return config if config is not None and config.error is None else None


def _recognised(found: WeightSet, source: Path, config: Optional[ModelConfig]) -> Model:
    family = config.family if config is not None else None
    named = config.model_type if config is not None and family is None else None
    model = recognise(found.tensors, family, named)
    if model is None:
        raise UsageError(
            Text(f"{source}: no known model family has these names.", f"{source}：参数名不属于已知的模型家族。"),
            Text(
                "Known: LLaMA, Qwen, Qwen2, Qwen3, ChatGLM, GLM-4, Bloom, GPT-2, DeepSeek-V3.",
                "支持：LLaMA、Qwen、Qwen2、Qwen3、ChatGLM、GLM-4、Bloom、GPT-2、DeepSeek-V3。",
            ),
        )
    return model


def _layout(model: Model, to: Optional[str], variant: Optional[str]) -> Layout:
    family = model.family
    if to is None:
        to = _other_side(family) if model.layout.id in {"huggingface", "meta"} else "huggingface"
    candidates = [layout for layout in family.layouts if layout.id == to]
    if variant is not None:
        candidates = [layout for layout in candidates if layout.variant == variant]
    if not candidates:
        offered = ", ".join(dict.fromkeys(layout.title for layout in family.layouts))
        asked = f"{to} ({variant})" if variant else to
        raise UsageError(
            Text(f"{family.title} has no layout {asked}.", f"{family.title} 没有 {asked} 布局。"),
            Text(f"It has: {offered}.", f"可选：{offered}。"),
        )
    return candidates[0]


def _other_side(family: Family) -> str:
    names = {layout.id for layout in family.layouts}
    return "mindformers" if "mindformers" in names else "mcore"


def _sizes(model: Model, config: Optional[ModelConfig]) -> dict[str, int]:
    """What shapes cannot tell: the head size, from the config or from the published model."""
    if config is not None:
        found = config.sizes_as(model.family)
        if found is not None:
            return dict(found.symbols)
    known = model.known
    return {"D": known.head} if known is not None else {}


def _target(args: argparse.Namespace, target: Path) -> Target:
    suffix = target.suffix.lower()
    folder = target.is_dir() or suffix not in {".safetensors", ".ckpt"}
    form = args.form or ("ckpt" if suffix == ".ckpt" else "safetensors")
    if not folder and form != suffix[1:]:
        raise UsageError(
            Text(
                f"{target}: the name says {suffix[1:]}, --form {form}.",
                f"{target}：扩展名为 {suffix[1:]}，--form 却是 {form}。",
            )
        )
    shard = args.shard_size or (DEFAULT_SHARD if folder and form == "safetensors" else None)
    return Target(target, folder, form, shard, args.overwrite)


def _progress(args: argparse.Namespace) -> Callable[[int, int], None]:
    if args.quiet or not sys.stderr.isatty():
        return lambda done, total: None
    last = [0.0]

    def show(done: int, total: int) -> None:
        now = time.monotonic()
        if now - last[0] > 0.2 or done == total:
            last[0] = now
            end = "\n" if done == total else ""
            sys.stderr.write(f"\r{in_words(done)} / {in_words(total)}{end}")
            sys.stderr.flush()

    return show


def _report(
    args: argparse.Namespace, conversion: Conversion, target: Target, done: Optional[Delivered], copied: tuple[str, ...]
) -> Report:
    rows = list(_rows(conversion))
    facts: dict[str, Any] = {
        "rows": rows,
        "family": conversion.model.family.id,
        "model": conversion.model.known.name if conversion.model.known is not None else None,
        "from": conversion.model.layout.title,
        "to": conversion.layout.title,
        "tensors": len(conversion.entries),
        "bytes": conversion.bytes,
        "files": [name for name, _ in files_of(conversion, target)],
        "left": list(conversion.left),
        "written": done is not None,
        "infinite": done.infinite if done is not None else None,
    }
    following = f"doctor check {args.target}" if done is not None else f"doctor convert {args.source} {args.target}"
    return Report(
        command="convert",
        facts=facts,
        headline=tuple(_headline(args, conversion, rows, done, copied)),
        next_command=following,
    )


def _rows(conversion: Conversion) -> Iterator[dict[str, Any]]:
    """One row for each kind of step, with the layer numbers taken out: what becomes what, how and how often."""
    kinds: dict[tuple[object, ...], dict[str, Any]] = {}
    for step in conversion.steps:
        source = tuple(dict.fromkeys(_pattern(name) for item in step.sources for name in item.names))
        target = tuple(dict.fromkeys(_pattern(name) for item in step.targets for name in item.names))
        names = {item.group.op.name for item in (*step.sources, *step.targets)} - {"same"}
        key = (source, target)
        row = kinds.setdefault(
            key,
            {
                "source": list(source),
                "target": list(target),
                "operation": "+".join(sorted(names)) or "rename" if source != target or names else "copy",
                "shapes": [list(entry.shape) for entry in step.entries][: len(target)],
                "dtype": step.entries[0].dtype,
                "count": 0,
            },
        )
        row["count"] += 1
    yield from kinds.values()


def _pattern(name: str) -> str:
    return re.sub(r"(?<=\.)\d+(?=\.)", "{i}", name)


def _headline(
    args: argparse.Namespace,
    conversion: Conversion,
    rows: list[dict[str, Any]],
    done: Optional[Delivered],
    copied: tuple[str, ...],
) -> Iterator[Text]:
    model = conversion.model
    title = model.known.name if model.known is not None else model.family.title
    total = sum(member.tensor.elements for member in model.members)
    yield Text(
        f"{title}, {amount(total)} parameters: {model.layout.title} -> {conversion.layout.title}, "
        f"{len(conversion.entries)} tensors, {in_words(conversion.bytes)}",
        f"{title}，{amount(total)} 参数：{model.layout.title} -> {conversion.layout.title}，{len(conversion.entries)} 个张量，"
        f"{in_words(conversion.bytes)}",
    )
    shown = rows if args.dry_run or args.verbose else []
    for row in shown:
        line = f"  {' + '.join(row['source'])} -> {' + '.join(row['target'])}  [{row['operation']}] x{row['count']}"
        yield Text(line, line)
    if conversion.left:
        names = some(by_pattern(conversion.left))
        yield Text(f"left out ({len(conversion.left)}): {names.en}", f"未转换（{len(conversion.left)} 个）：{names.zh}")
    if done is None:
        yield Text("dry run: nothing was written", "演练：没有写入任何文件")
        return
    yield Text(
        f"written: {some(str(path) for path in done.files).en}", f"已写入：{some(str(path) for path in done.files).zh}"
    )
    first = some([entry.name for entry in conversion.entries[:3]])
    yield Text(f"{done.tensors} keys, the first: {first.en}", f"共 {done.tensors} 个键，前几个：{first.zh}")
    if copied:
        yield Text(f"copied beside them: {', '.join(copied)}", f"一并拷贝：{'、'.join(copied)}")
    if done.infinite:
        yield Text(
            f"WARNING: {done.infinite} values are beyond float16 and became infinite; use --dtype bfloat16",
            f"警告：{done.infinite} 个值超出 float16 范围而变成无穷大；请使用 --dtype bfloat16",
        )
