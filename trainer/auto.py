"""Models and tokenizers by name or folder, the way Hugging Face's and MindFormers' auto classes give them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.trainer.data.tokenizer import Tokenizer, load_tokenizer
from doctor.trainer.fields import Place
from doctor.trainer.models.config import ModelConfig
from doctor.trainer.models.families import named
from doctor.trainer.models.pretrained import from_config_json

ModelLike = Union[str, ModelConfig, Mapping[str, Any], "LanguageModel"]


class LanguageModel:
    """A model's config with its weights, or without (random ones then). Call it with ids for logits."""

    def __init__(self, config: ModelConfig, weights: Optional[Mapping[str, Any]] = None, source: str = "") -> None:
        self.config, self.weights, self.source = config, weights, source
        self._networks: dict[tuple[int, int], Any] = {}

    @property
    def parameters(self) -> int:
        return self.config.parameters

    def __call__(self, input_ids: Any) -> Any:
        """Logits (batch, sequence, vocabulary) float32 of ids (batch, sequence)."""
        from doctor.trainer import runtime

        ids = np.asarray(input_ids, np.int32)
        ids = ids[None] if ids.ndim == 1 else ids
        if ids.min() < 0 or ids.max() >= self.config.vocab_size:
            raise UsageError(
                Text(
                    f"ids from {ids.min()} to {ids.max()}: vocab_size is {self.config.vocab_size}.",
                    f"id 范围 {ids.min()} 到 {ids.max()}，而 vocab_size 为 {self.config.vocab_size}。",
                )
            )
        runtime.start()
        from mindspore import Tensor

        shape = (int(ids.shape[0]), int(ids.shape[1]))
        if shape not in self._networks:
            self._networks[shape] = self._build(*shape)
        return self._networks[shape](Tensor(ids)).asnumpy()

    def _build(self, batch: int, length: int) -> Any:
        from doctor.trainer.models.decoder import CausalLM, initialise
        from doctor.trainer.models.weights import fill

        network = CausalLM(self.config, batch, length)
        network.set_train(False)
        if self.weights is None:
            initialise(network, self.config, 0)
        else:
            fill(network.get_parameters(), self.weights, Path(self.source))
        return network

    def save_pretrained(self, folder: Union[str, Path]) -> None:
        """Writes config.json and model.safetensors (the trainer's names, FP32)."""
        from safetensors.numpy import save_file

        from doctor.trainer.runfolder import write_atomically

        root = Path(folder)
        root.mkdir(parents=True, exist_ok=True)
        write_atomically(root / "config.json", json.dumps({"doctor": self.config.effective()}, indent=1) + "\n")
        if self.weights is not None:
            save_file(
                {name: np.ascontiguousarray(item) for name, item in self.weights.items()}, root / "model.safetensors"
            )


class AutoModelForCausalLM:
    """`from_pretrained(folder)` reads config and weights; `from_config` takes a name or a config and no weights."""

    @staticmethod
    def from_pretrained(name_or_path: Union[str, Path], config: Optional[ModelLike] = None) -> LanguageModel:
        """A folder of Hugging Face or of this trainer (also a checkpoint ``step-N``), or a weight file with `config`.
        Raises UsageError; nothing is downloaded."""
        from doctor.trainer.models.weights import read_weights

        path = Path(name_or_path)
        if not path.exists():
            raise UsageError(
                Text(
                    f"{name_or_path}: there is no such folder; nothing is downloaded.",
                    f"{name_or_path}：目录不存在；不会下载。",
                ),
                Text(
                    "Give the folder with config.json and the weights; for random weights: from_config(name).",
                    "请给出含 config.json 与权重的目录；随机权重请用 from_config(name)。",
                ),
            )
        chosen = model_config(config) if config is not None else _config_beside(path)
        file = path / "model.safetensors" if (path / "state.json").is_file() and path.is_dir() else path
        return LanguageModel(chosen, read_weights(file, chosen), str(path))

    @staticmethod
    def from_config(config: ModelLike) -> LanguageModel:
        return LanguageModel(model_config(config))


class AutoTokenizer:
    """`from_pretrained` of a tokenizer.json, a sentencepiece file, their folder, or ``byte``."""

    @staticmethod
    def from_pretrained(name_or_path: Union[str, Path]) -> Tokenizer:
        return load_tokenizer(str(name_or_path))


class ModelLoader:
    """`ModelLoader(model_name, model_type, model_path, config=…).load_model()`.

    `model_name` is a registered name or any name of one's own; `model_type` the family, needed for a name of one's own;
    `config` a YAML or JSON file, a mapping or a `ModelConfig` for a structure that differs from the named one.
    """

    def __init__(
        self,
        model_name: str,
        model_type: Optional[str] = None,
        model_path: Optional[Union[str, Path]] = None,
        config: Optional[Union[ModelLike, Path]] = None,
    ) -> None:
        self.model_name, self.model_type, self.model_path, self.config = model_name, model_type, model_path, config

    def load_model(self) -> LanguageModel:
        """Raises UsageError when the name is not known and neither type nor config says what it is, or when weights
        and config do not fit."""
        config = self._config()
        if self.model_path is None:
            return LanguageModel(config)
        return AutoModelForCausalLM.from_pretrained(self.model_path, config)

    def _config(self) -> ModelConfig:
        if self.config is not None:
            if isinstance(self.config, (str, Path)) and Path(self.config).suffix in {".yaml", ".yml", ".json"}:
                return _config_file(Path(self.config))
            return model_config(self.config)  # type: ignore[arg-type]
        path = Path(self.model_path) if self.model_path is not None else None
        if path is not None and (path / "config.json").is_file():
            return _config_beside(path)
        try:
            return named(self.model_name, Place(key="model_name"))
        except UsageError:
            if self.model_type is None:
                raise
            raise UsageError(
                Text(
                    f"model_name {self.model_name!r} is not registered: the sizes of a {self.model_type} of your own are needed.",
                    f"model_name {self.model_name!r} 未注册：自定义的 {self.model_type} 需要给出尺寸。",
                ),
                Text("Pass config=<YAML, JSON or mapping>.", "请传入 config=<YAML、JSON 或映射>。"),
            ) from None


def model_config(like: ModelLike) -> ModelConfig:
    """A config from a name, a mapping of sizes (with ``type``), a config or a model. Raises UsageError."""
    if isinstance(like, LanguageModel):
        return like.config
    if isinstance(like, ModelConfig):
        return like
    place = Place(key="model")
    if isinstance(like, str):
        return named(like, place.at("type"))
    return _sizes(dict(like), place)


def _sizes(raw: dict[str, Any], place: Place) -> ModelConfig:
    from doctor.trainer.config import read_model

    if "model_type" in raw and "type" not in raw:
        return from_config_json(raw, place)
    return read_model(raw, None, place)


def _config_file(path: Path) -> ModelConfig:
    from doctor.plan.reader import read_document

    if path.suffix == ".json":
        # Not as YAML, although JSON is: YAML 1.1 reads 1e-06 as a string.
        raw = _json(path)
    else:
        raw = read_document(path).root.plain()
    place = Place(str(path))
    if "doctor" in raw:
        return _sizes(dict(raw["doctor"]), place.at("doctor"))
    return _sizes(dict(raw["model"]) if isinstance(raw.get("model"), Mapping) else raw, place)


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(Text(f"{path}: not JSON: {error}.", f"{path}：不是合法 JSON：{error}。")) from None
    if not isinstance(value, dict):
        raise UsageError(Text(f"{path}: not a config.", f"{path}：不是配置。"))
    return value


def _config_beside(path: Path) -> ModelConfig:
    folder = path if path.is_dir() else path.parent
    if (folder / "state.json").is_file():
        state = _json(folder / "state.json")
        return _sizes(dict(state.get("model") or {}), Place(str(folder / "state.json")))
    if not (folder / "config.json").is_file():
        raise UsageError(
            Text(f"{folder}: no config.json beside the weights.", f"{folder}：权重旁没有 config.json。"),
            Text("Pass config=<name or sizes of the model>.", "请传入 config=<模型名或尺寸>。"),
        )
    return _config_file(folder / "config.json")
