"""Writes ``iteration/metadata.json`` beside it with MindFormers' own functions: how 2.x describes sliced parameters.

Run it in an environment that has MindFormers 1.8.0 and MindSpore 2.7.2 (the tests need neither):

    python -P make_iteration.py

Four devices, two of data parallel and two of tensor parallel. The tests write the slices themselves.
"""

from __future__ import annotations

from pathlib import Path

import mindspore
from mindformers.checkpoint.metadata import save_metadata
from mindformers.checkpoint.sharded_tensor import get_sharded_tensor_from_strategy_metadata
from mindspore.parallel import Layout

HERE = Path(__file__).parent
LAYOUT = Layout((2, 2), ("dp", "tp"), [0, 1, 2, 3])
PARAMETERS = {
    "rows.weight": (("tp", "None"), (8, 4)),
    "columns.weight": (("None", "tp"), (4, 8)),
    "rows_and_columns.weight": (("tp", "dp"), (6, 4)),
    "rows_twice.weight": ((("tp", "dp"), "None"), (8, 4)),
    "rows_twice_turned.weight": ((("dp", "tp"), "None"), (8, 4)),
    "copied.weight": (("None",), (4,)),
}


def main() -> None:
    table = {name: [LAYOUT(*cut), mindspore.float32, shape] for name, (cut, shape) in PARAMETERS.items()}
    by_rank = {rank: get_sharded_tensor_from_strategy_metadata(table, rank) for rank in range(4)}
    files = [
        (f"tiny-model-{rank:07d}-0000004.safetensors", rank, (name, piece.global_offset))
        for rank, pieces in by_rank.items()
        for name, piece in pieces.items()
    ]
    save_metadata(by_rank, files, str(HERE / "iteration" / "metadata.json"))


if __name__ == "__main__":
    main()
