"""A run's config: the YAML sections model, trainer, train_dataset and training_args, read and checked at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Optional

from doctor.errors import UsageError
from doctor.examples import examples
from doctor.finding import Text
from doctor.plan.reader import Document, parse, read_document
from doctor.trainer.arguments import TrainingArguments
from doctor.trainer.data.settings import DatasetSettings
from doctor.trainer.fields import Choice, Place, nearest, unknown_key, wrong
from doctor.trainer.mindformers import is_mindformers, of_another_model, refuse_others, translate
from doctor.trainer.models.config import ModelConfig
from doctor.trainer.models.families import named

SECTIONS = ("model", "trainer", "train_dataset", "eval_dataset", "training_args", "versions")
TASKS = ("text_generation", "causal_lm", "pretrain", "finetune")
_TRAINER = ("type", "task", "model_name", "output_dir", "run_name", "seed", "load_checkpoint")
_MODEL_WORDS = ("type", "name", "model_config", "arch", "checkpoint")
#: what `doctor.plan.reader` may find wrong with the text itself
_PROBLEMS = {
    "conflict": Text("a merge conflict is left in the file", "文件中留有合并冲突标记"),
    "tab": Text("a tab indents this line; YAML wants blanks", "该行用制表符缩进，YAML 只允许空格"),
    "duplicate": Text("a key stands twice", "键重复"),
    "recursion": Text("an alias contains itself", "别名包含自身"),
    "tag": Text("a tag that is not read for safety", "出于安全不读取的标签"),
    "key": Text("a key that is not a text", "键不是字符串"),
}
_RULES_OF_PROBLEMS = {
    "conflict": "CFG-YML-001",
    "tab": "CFG-YML-002",
    "duplicate": "CFG-YML-003",
    "recursion": "CFG-YML-004",
    "tag": "CFG-YML-005",
    "key": "CFG-YML-006",
}


@dataclass(frozen=True)
class RunConfig:
    """Everything a run needs. `name` is for its folder, `source` the file it came from."""

    name: str
    source: str
    model: ModelConfig
    dataset: DatasetSettings
    args: TrainingArguments
    eval_dataset: Optional[DatasetSettings] = None
    load_checkpoint: Optional[str] = None
    #: the sections as they were written (of a MindFormers file: as they were translated)
    raw: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    #: the file's own text, comments and all; None for MindFormers' dialect, whose keys are not ours
    text: Optional[str] = field(default=None, compare=False, repr=False)
    #: settings of a MindFormers file that the trainer has no use for
    left_out: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def spelled(self, name: str) -> str:
        """The key under which training_args holds that setting, or would."""
        also = TrainingArguments.__dataclass_fields__[name].metadata["also"]
        said = self.raw.get("training_args") or {}
        return next((key for key in (name, *also) if key in said), name)

    def said(self, name: str) -> Any:
        """What training_args holds for that setting, as written; None when it is not there."""
        return (self.raw.get("training_args") or {}).get(self.spelled(name))

    @property
    def length(self) -> int:
        """Positions a sample has: the data set's max_length, else the model's."""
        return self.dataset.max_length or self.model.max_position_embeddings

    def effective(self) -> dict[str, Any]:
        """The config as used, in the same sections, so that it can be run again as it is."""
        args = self.args.effective()
        row: dict[str, Any] = {
            "model": self.model.effective(),
            "trainer": {"task": "text_generation", "load_checkpoint": self.load_checkpoint},
            "train_dataset": {**self.dataset.effective(), "max_length": self.length},
            "training_args": args,
        }
        if self.eval_dataset is not None:
            row["eval_dataset"] = self.eval_dataset.effective()
        return row


def load_config(word: str) -> RunConfig:
    """A path, a run folder, or the name of a packaged example. Raises UsageError with file, line and key of what is
    wrong."""
    path = Path(word)
    found = examples()
    if word in found and not path.is_file():
        return parse_config(found[word].read_bytes(), word, word)
    if path.is_dir():
        path = path / "config.yaml"
    if not path.exists():
        listed = ", ".join(sorted(found))
        hint = nearest(word, found) or Text(f"Packaged examples: {listed}.", f"内置示例：{listed}。")
        raise UsageError(Text(f"{word}: there is no such file.", f"{word}：文件不存在。"), hint)
    return _from_document(read_document(path), str(path), path.stem)


def parse_config(raw: bytes, source: str, name: str) -> RunConfig:
    """As `load_config`, on bytes that are already there."""
    return _from_document(parse(raw, Path(source)), source, name)


def _from_document(document: Document, source: str, name: str) -> RunConfig:
    raw = document.root.plain()
    # MindFormers' own files repeat keys here and there, and its loader takes the last one.
    harmless = {"encoding", "duplicate"} if is_mindformers(raw) else {"encoding"}
    for problem in document.problems:
        if problem.kind not in harmless:
            line = problem.location.line
            raise UsageError(
                Text(
                    f"{source}:{line}: {_PROBLEMS[problem.kind].en}: {problem.text}",
                    f"{source}:{line}：{_PROBLEMS[problem.kind].zh}：{problem.text}",
                ),
                rule=_RULES_OF_PROBLEMS[problem.kind],
            )
    refuse_others(document.root, raw, source)
    lines = {item.key: (item.named or item.location).line or 0 for item in document.root.walk()}
    config = build_config(raw, Place(source, "", lines), name)
    return config if is_mindformers(raw) else replace(config, text=document.text)


def build_config(raw: Mapping[str, Any], place: Place, name: str) -> RunConfig:
    """The config of sections that are read already, ours or MindFormers'. Raises UsageError."""
    if is_mindformers(raw):
        translated, left_out = translate(raw)
        try:
            return replace(build_config(translated, place, name), left_out=left_out)
        except UsageError as error:
            raise of_another_model(error, translated, place) from None
    for key, value in raw.items():
        if key not in SECTIONS:
            raise unknown_key(place.at(str(key)), str(key), SECTIONS)
        if value is not None and not isinstance(value, Mapping) and key != "model":
            raise wrong(place.at(key), value, Text("a section of settings", "一个配置段"), rule="CFG-TYP-009")
    trainer = dict(raw.get("trainer") or {})
    for key in trainer:
        if key not in _TRAINER:
            raise unknown_key(place.at("trainer").at(str(key)), str(key), _TRAINER)
    if trainer.get("task") is not None:
        Choice(TASKS).read(trainer["task"], place.at("trainer").at("task"))
    said = dict(raw.get("training_args") or {})
    for key in ("output_dir", "run_name", "seed"):
        if trainer.get(key) is not None:
            said.setdefault(key, trainer[key])
    dataset_place = place.at("train_dataset")
    dataset = DatasetSettings.read(raw.get("train_dataset") or {}, dataset_place)
    arguments_place = place.at("training_args")
    args = TrainingArguments.read(said, arguments_place)
    args.check_together(arguments_place)
    args = _one_batch_size(args, dataset, said, dataset_place)
    model = read_model(raw.get("model"), trainer.get("model_name"), place.at("model"))
    eval_raw = raw.get("eval_dataset")
    evaluation = DatasetSettings.read(eval_raw, place.at("eval_dataset")) if eval_raw else None
    config = RunConfig(
        name=args.run_name or name,
        source=place.source,
        model=model,
        dataset=dataset,
        args=args,
        eval_dataset=evaluation,
        load_checkpoint=trainer.get("load_checkpoint") or None,
        raw=raw,
    )
    if config.length > model.max_position_embeddings and model.position == "learned":
        raise wrong(
            dataset_place.at("max_length"),
            config.length,
            Text(
                f"at most max_position_embeddings ({model.max_position_embeddings})",
                f"不大于 max_position_embeddings（{model.max_position_embeddings}）的值",
            ),
            rule="CFG-MOD-003",
        )
    return config


def _one_batch_size(
    args: TrainingArguments, dataset: DatasetSettings, said: Mapping[str, Any], place: Place
) -> TrainingArguments:
    if dataset.batch_size is None:
        return args
    given = {"per_device_train_batch_size", "batch_size"} & set(said)
    if given and args.per_device_train_batch_size != dataset.batch_size:
        raise UsageError(
            Text(
                f"{place.at('batch_size')}: {dataset.batch_size} contradicts per_device_train_batch_size "
                f"{args.per_device_train_batch_size}.",
                f"{place.at('batch_size')}：{dataset.batch_size} 与 per_device_train_batch_size "
                f"{args.per_device_train_batch_size} 矛盾。",
            ),
            Text("Keep one of the two.", "请只保留其中一个。"),
            "CFG-KEY-006",
        )
    return replace(args, per_device_train_batch_size=dataset.batch_size)


def read_model(raw: Any, model_name: Any, here: Place) -> ModelConfig:
    """The section `model`: a name, or sizes over those of a named family. Raises UsageError."""
    if raw is None:
        raw = {}
    if isinstance(raw, str):
        raw = {"type": raw}
    if not isinstance(raw, Mapping):
        raise wrong(here, raw, Text("a model's name or a section of sizes", "模型名或一组尺寸"), rule="CFG-TYP-009")
    sizes = {key: value for key, value in raw.items() if key not in _MODEL_WORDS}
    inner = raw.get("model_config") or {}
    if not isinstance(inner, Mapping):
        raise wrong(here.at("model_config"), inner, Text("a section of sizes", "一组尺寸"), rule="CFG-TYP-009")
    sizes.update({key: value for key, value in inner.items() if key != "type"})
    arch = raw.get("arch")
    arch = arch.get("type") if isinstance(arch, Mapping) else arch
    name = raw.get("type") or raw.get("name") or arch or model_name
    if not isinstance(name, str):
        raise UsageError(
            Text(f"{here}: no model is named.", f"{here}：未指定模型。"),
            Text("Give model.type, for example llama or llama2_7b.", "请给出 model.type，例如 llama 或 llama2_7b。"),
            "CFG-KEY-019",
        )
    config = ModelConfig.read(sizes, here, named(name, here.at("type")))
    config.check(here)
    return config
