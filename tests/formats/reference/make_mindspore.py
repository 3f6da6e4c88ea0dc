"""Makes ``mindspore/`` beside it: small files as MindSpore 2.10 itself writes them. Run it where MindSpore is."""

from __future__ import annotations

from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor
from mindspore.train import node_strategy_pb2

HERE = Path(__file__).parent / "mindspore"


def main() -> None:
    HERE.mkdir(exist_ok=True)
    for old in HERE.iterdir():
        old.unlink()
    parameters = [
        {"name": "d.weight", "data": Tensor(np.arange(4, dtype=np.int32).reshape(1, 4))},
        {"name": "b.bf16", "data": Tensor(np.full((3, 2), 1.5, np.float32)).astype(ms.bfloat16)},
        {"name": "f16", "data": Tensor(np.ones((3, 2), np.float16))},
        {"name": "scalar", "data": Tensor(2.5, ms.float32)},
        {"name": "flag", "data": Tensor([True, False])},
    ]
    counters = {"epoch_num": 3, "step_num": 7, "lr": 0.5, "done": True, "name": "héllo"}
    ms.save_checkpoint(parameters, str(HERE / "plain.ckpt"), append_dict=counters)
    ms.save_checkpoint(parameters, str(HERE / "crc.ckpt"), crc_check=True)
    ms.save_checkpoint(parameters, str(HERE / "encrypted.ckpt"), enc_key=b"0123456789abcdef", enc_mode="AES-GCM")
    ms.save_checkpoint(parameters, str(HERE / "plain.safetensors"), format="safetensors", append_dict={"epoch_num": 3})
    strategy = node_strategy_pb2.ParallelStrategyMap(current_stage=1)
    for name, devices, axes, shards in (
        ("d.weight", [2, 4], [0, -1], 0),
        ("f16", [2, 4], [-1, 1], 2),
    ):
        item = strategy.parallel_layout_item.add(param_name=name)
        layout = item.parallel_layouts
        layout.dev_matrix.add().dim.extend(devices)
        layout.tensor_map.add().dim.extend(axes)
        layout.field, layout.opt_weight_shard_step, layout.opt_weight_shard_size = 0, -1, shards
    (HERE / "ckpt_strategy_rank_0.ckpt").write_bytes(strategy.SerializeToString())
    for file in HERE.iterdir():
        file.chmod(0o644)


if __name__ == "__main__":
    main()
