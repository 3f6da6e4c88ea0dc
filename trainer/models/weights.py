"""Weights from files into a network: any format that `doctor.formats` reads, nothing executed, nothing missing in silence."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.formats.arrays import read_array, to_float32
from doctor.formats.weightset import open_set
from doctor.trainer.models.config import ModelConfig
from doctor.trainer.models.huggingface import from_huggingface

Arrays = dict[str, npt.NDArray[Any]]
#: names that are listed before the rest is only counted
_LISTED = 3


def read_weights(path: Path, config: ModelConfig) -> Arrays:
    """FP32 weights by the trainer's names. Raises UsageError when nothing can be read there or a file is torn."""
    try:
        found = open_set(path)
    except OSError as error:
        raise UsageError(
            Text(
                f"{path}: no weights there: {error.strerror or error}.",
                f"{path}：没有权重：{error.strerror or error}。",
            ),
            Text(
                "Give a .safetensors, .ckpt or .bin file, or their folder.",
                "请给出 .safetensors、.ckpt、.bin 文件或其目录。",
            ),
        ) from None
    if found.missing or not found.tensors:
        if not path.exists():
            raise UsageError(
                Text(f"{path}: there is no such file or folder.", f"{path}：文件或目录不存在。"),
                Text("A relative path starts where the command runs.", "相对路径从命令运行目录算起。"),
            )
        gone = ", ".join(found.missing[:_LISTED]) or "no tensor"
        raise UsageError(
            Text(f"{path}: incomplete: {gone}.", f"{path}：不完整：{gone}。"),
            Text(f"Look at it: doctor check {path}", f"请检查：doctor check {path}"),
        )
    arrays: Arrays = {}
    with ExitStack() as stack:
        for file in found.files:
            opened = stack.enter_context(file.path.open("rb"))
            for tensor in file.tensors:
                if tensor.name in arrays or "float" not in tensor.dtype:
                    continue
                try:
                    arrays[tensor.name] = to_float32(read_array(opened, tensor))
                except (OSError, KeyError, ValueError) as error:
                    raise UsageError(
                        Text(f"{file.path}: {tensor.name}: {error}", f"{file.path}：{tensor.name}：{error}"),
                        Text(f"Look at it: doctor check {path}", f"请检查：doctor check {path}"),
                    ) from None
    return from_huggingface(arrays, config)


def fill(parameters: Any, arrays: Mapping[str, Any], source: Path) -> tuple[str, ...]:
    """Sets every parameter of a network from `arrays`. Returns the names that it had no use for.

    Raises UsageError when a parameter is missing or has another shape: a model that trains on with random matrices in
    it is the worst of all outcomes.
    """
    from mindspore import Tensor

    wanted = {item.name: item for item in parameters}
    missing = sorted(set(wanted) - set(arrays))
    if missing:
        listed, names = ", ".join(missing[:_LISTED]), sorted(arrays)[:_LISTED]
        raise UsageError(
            Text(
                f"{source}: {len(missing)} of {len(wanted)} weights are not there ({listed}, …); it holds {', '.join(names)}, …",
                f"{source}：缺少 {len(wanted)} 个权重中的 {len(missing)} 个（{listed}……）；文件中有 {', '.join(names)}……",
            ),
            Text(
                f"Is it the model of the config? Compare: doctor check {source}. MindFormers' names: doctor convert.",
                f"权重与配置是否同一模型？请用 doctor check {source} 核对；MindFormers 命名请先 doctor convert。",
            ),
        )
    for name, parameter in wanted.items():
        values = np.asarray(arrays[name])
        if tuple(values.shape) != tuple(parameter.shape):
            raise UsageError(
                Text(
                    f"{source}: {name} has shape {tuple(values.shape)}, the model {tuple(parameter.shape)}.",
                    f"{source}：{name} 形状为 {tuple(values.shape)}，模型为 {tuple(parameter.shape)}。",
                ),
                Text("Change the sizes of the config, or the weights.", "请修改配置中的尺寸，或更换权重。"),
            )
        parameter.set_data(Tensor(np.ascontiguousarray(values), parameter.dtype))
    return tuple(sorted(set(arrays) - set(wanted)))
