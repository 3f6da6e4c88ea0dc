"""`Trainer` and `build_dataset`: a run from a script instead of a YAML file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional, Union

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.trainer import runtime
from doctor.trainer.arguments import TrainingArguments
from doctor.trainer.assemble import Ended, train
from doctor.trainer.auto import LanguageModel, ModelLike, model_config
from doctor.trainer.callbacks import Callback
from doctor.trainer.config import TASKS, RunConfig
from doctor.trainer.data.batches import Batches
from doctor.trainer.data.samples import SampleSource, load_samples
from doctor.trainer.data.settings import DatasetSettings
from doctor.trainer.data.tokenizer import Tokenizer
from doctor.trainer.fields import Choice, Place
from doctor.trainer.runfolder import RunFolder, default_root


@dataclass(frozen=True)
class Dataset:
    """What `build_dataset` gives: batches of the settings, for a model's vocabulary and length."""

    settings: DatasetSettings
    samples: SampleSource
    batches: Batches

    def __len__(self) -> int:
        """Batches in an epoch."""
        return self.batches.per_epoch

    get_dataset_size = __len__

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """One epoch of {"input_ids", "labels"}, arrays (batch, max_length) int32."""
        stream = self.batches.start()
        for _ in range(len(self)):
            batch = next(stream)
            yield {"input_ids": batch.ids, "labels": batch.labels}


DatasetLike = Union[str, Path, Mapping[str, Any], DatasetSettings, Dataset]


def build_dataset(
    config: Union[Mapping[str, Any], DatasetSettings], vocab_size: int = 1 << 31, seed: int = 42
) -> Dataset:
    """Builds ``{data_loader: {type: MindDataset, dataset_dir: …}, input_columns, num_parallel_workers, batch_size,
    drop_remainder, max_length}``. Raises UsageError for settings or data that cannot be used."""
    settings = _settings(config)
    if settings.max_length is None:
        raise UsageError(
            Text("build_dataset: max_length is needed.", "build_dataset：需要 max_length。"),
            Text("It is the number of positions the model sees.", "即模型输入的序列长度。"),
        )
    samples = load_samples(settings, settings.max_length, vocab_size, seed, "dataset")
    shuffle = settings.data_loader.shuffle
    batches = Batches(samples, settings.batch_size or 1, seed, shuffle, "dataset", settings.drop_remainder)
    return Dataset(settings, samples, batches)


class Trainer:
    """`Trainer(task, model, args, train_dataset, tokenizer).train(callbacks=[…])`.

    `model` is a registered name, sizes, a config or a loaded model; `train_dataset` a file, settings or what
    `build_dataset` gave. Raises UsageError for a task or a setting that is not known.
    """

    def __init__(
        self,
        task: str = "text_generation",
        model: ModelLike = "llama",
        args: Union[TrainingArguments, Mapping[str, Any], None] = None,
        train_dataset: Optional[DatasetLike] = None,
        tokenizer: Union[str, Tokenizer] = "byte",
        eval_dataset: Optional[DatasetLike] = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.task = Choice(TASKS).read(task, Place(key="task"))
        self.model = model
        if isinstance(args, Mapping):
            args = TrainingArguments.read(args, Place(key="args"))
        self.args = args or TrainingArguments()
        self.args.check_together(Place(key="args"))
        self.tokenizer = tokenizer
        self.train_dataset = train_dataset
        self.eval_dataset = eval_dataset
        self.callbacks = tuple(callbacks)

    def train(
        self, callbacks: Sequence[Callback] = (), resume_from_checkpoint: Union[bool, str, Path, None] = None
    ) -> Ended:
        """Trains to the last step, in this process. `resume_from_checkpoint` is true for the newest of `output_dir`, or a
        path. Returns how it ended; raises UsageError for bad input and whatever the framework raises."""
        if self.train_dataset is None:
            raise UsageError(Text("Trainer: train_dataset is not given.", "Trainer：未给出 train_dataset。"))
        runtime.require_mindspore()
        config = self._config()
        name = config.args.run_name or config.model.family
        folder = RunFolder(Path(config.args.output_dir or default_root(name)))
        resume = "newest" if resume_from_checkpoint is True else resume_from_checkpoint
        folder.create(resume is not None and resume is not False)
        weights = self.model.weights if isinstance(self.model, LanguageModel) else None
        heard = (*self.callbacks, *callbacks)
        with folder.lock():
            return train(config, folder, str(resume) if resume else None, sys.stdout, weights=weights, callbacks=heard)

    def _config(self) -> RunConfig:
        model = model_config(self.model)
        dataset = self._dataset(self.train_dataset)
        batch = dataset.batch_size
        args = self.args if batch is None else replace(self.args, per_device_train_batch_size=batch)
        evaluation = self._dataset(self.eval_dataset) if self.eval_dataset is not None else None
        return RunConfig(model.family, "script", model, dataset, args, evaluation)

    def _dataset(self, like: Optional[DatasetLike]) -> DatasetSettings:
        settings = _settings(like)
        tokenizer = self.tokenizer if isinstance(self.tokenizer, str) else getattr(self.tokenizer, "source", "byte")
        return settings if settings.tokenizer != "byte" else replace(settings, tokenizer=tokenizer)


def _settings(like: Optional[DatasetLike]) -> DatasetSettings:
    if isinstance(like, Dataset):
        return like.settings
    if isinstance(like, DatasetSettings):
        return like
    if isinstance(like, (str, Path)):
        kind = {".jsonl": "Json", ".json": "Json", ".txt": "Text", ".mindrecord": "MindDataset"}
        suffix = Path(like).suffix
        if suffix not in kind:
            raise UsageError(
                Text(
                    f"{like}: a data set is a .jsonl, .txt or .mindrecord file.",
                    f"{like}：数据集应为 .jsonl、.txt 或 .mindrecord 文件。",
                ),
                Text("Or give its settings as a mapping.", "也可以用映射给出其设置。"),
            )
        like = {"data_loader": {"type": kind[suffix], "dataset_dir": str(like)}}
    return DatasetSettings.read(like or {}, Place(key="train_dataset"))
