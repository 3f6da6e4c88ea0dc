"""Comments of configs and code are no metrics; marks in logs are no comments."""

from __future__ import annotations

import pytest

from doctor.diagnosis import diagnose_text
from doctor.records.comment import without_comment
from doctor.records.metrics import MetricReader
from doctor.records.record import Chunk

COMMENTED = (
    "learning_rate: 1.0e-5   # if the loss is nan, lower it",
    "  - lr: 1e-4  # loss nan with 1e-3",
    "lr = 1e-4  # loss: nan when lr: 1e-3",
    "opt = nn.Adam(net.trainable_params(), learning_rate=1e-4)  # loss is nan with lr=1e-3",
    "# if the loss is nan, set lr: 1e-5",
    "    // loss nan: lower lr 1e-4",
    "--lr 1e-4 \\  # loss nan otherwise, epoch 3",
    "train(net, lr=1e-4)  # loss: nan, step: 3",
    "    epochs,  # loss nan after epoch 3",
    '{"lr": 1e-4, // loss: nan, step: 3',
    'compute_dtype: "bfloat16"  # float16: loss nan, step: 100',
    "lr: 1e-5   # step: 3, loss: nan 时调低",
    "; loss = nan was seen with lr: 1e-3",
    "  ; step: 3, loss: nan",
)
PRINTED = (
    "## Epoch 3, step 5, loss: nan, lr: 1e-4",
    "# step: 3 loss: nan",
    "epoch: 1 step: 3, loss is nan # rank 0",
    "2024-10-18 10:02:57,241 [INFO] Epoch 1/500, Step 1200/1516, loss: nan, cur_lr: 0.07 # node-3",
    "see http://host:80/log, step: 3, loss: nan",
)


def _records(line: str) -> int:
    return len(MetricReader().feed(Chunk("-", (line + "\n").encode(), 0, 1)))


@pytest.mark.parametrize("line", COMMENTED)
def test_a_comment_is_no_metric(line: str) -> None:
    assert _records(line) == 0
    assert diagnose_text(line).findings == ()


@pytest.mark.parametrize("line", PRINTED)
def test_a_mark_in_a_log_is_no_comment(line: str) -> None:
    assert without_comment(line) == line
    assert _records(line) == 1


@pytest.mark.parametrize(
    "line",
    (
        "batch_size: 4  # RuntimeError: NPU out of memory. Tried to allocate 22.00 MiB with 8",
        "loss = loss_fn(logits)  # ValueError: Total number of attention heads (52) must be divisible by tensor parallel size (8).",
    ),
)
def test_an_error_in_a_comment_is_none_of_this_run(line: str) -> None:
    assert diagnose_text(line).findings == ()
    assert diagnose_text(line.split("# ")[1]).findings
