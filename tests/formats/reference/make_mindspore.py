"""Makes ``mindspore/`` and ``mindrecord/`` beside it: small files as MindSpore 2.10 itself writes them. Run it where MindSpore is."""

from __future__ import annotations

from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor
from mindspore.mindrecord import FileWriter
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
    records()


def records() -> None:
    """A MindRecord of small header and pages, with every kind of field."""
    folder = HERE.parent / "mindrecord"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    writer = FileWriter(str(folder / "one.mindrecord"), 1)
    writer.set_header_size(1 << 14)
    writer.set_page_size(1 << 15)
    schema = {
        "id": {"type": "int32"},
        "input_ids": {"type": "int32", "shape": [-1]},
        "labels": {"type": "int64", "shape": [-1]},
        "weights": {"type": "float32", "shape": [-1]},
        "text": {"type": "string"},
        "raw": {"type": "bytes"},
        "score": {"type": "float32"},
    }
    writer.add_schema(schema, "reference")
    writer.add_index(["id"])
    writer.write_raw_data(
        [
            {
                "id": i,
                "input_ids": np.arange(i, i + 9, dtype=np.int32),
                "labels": np.array([-100, *range(i * 70000, i * 70000 + 8)], np.int64),
                "weights": np.array([1.5, i], np.float32),
                "text": f"héllo {i}",
                "raw": b"\x01\x02" * i,
                "score": i / 2,
            }
            for i in range(50)
        ]
    )
    writer.commit()
    for file in folder.iterdir():
        file.chmod(0o644)


if __name__ == "__main__":
    main()
