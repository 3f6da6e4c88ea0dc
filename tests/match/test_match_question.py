"""Questions and complaints in words are answered; sentences that a healthy program or a content person writes are not."""

from __future__ import annotations

import pytest

from doctor.finding import Severity
from doctor.match.pack import load_pack
from doctor.match.question import answers

#: what people ask, and the categories that are right
ASKED = """
刚开始训练就爆显存了 | oom-device
out of memory at the first step | oom-device
how can I reduce device memory | oom-device
跑了几个小时后OOM | oom-device
memory keeps growing during training | oom-device memory-host
loss为nan怎么排查 | nan-overflow
my loss becomes NaN after 200 steps | nan-overflow
loss doesn't go down | loss-not-converging
the loss isn't decreasing | loss-not-converging
loss突然飙升 | loss-not-converging
training hangs | stall-hang
程序卡死无输出 | stall-hang
the job is stuck, no output | stall-hang
训练卡住不动了，没有报错 | stall-hang
hangs at loading checkpoint | stall-hang
throughput is low | performance
why is training so slow? | performance
第一步特别慢 | performance
进程被杀掉 | oom-host
process exits without any error | oom-host
npu-smi fails | device-unavailable
卡被占用 | device-unavailable
端口被占用 | distributed-launch hccl-config
how do I start a multi node training | distributed-launch
多机通信超时 | hccl-timeout
which cann version for mindspore 2.5 | version-pairing
权重加载不上 | weights-mismatch ckpt-format
missing keys when loading weights | weights-mismatch
cannot load the checkpoint | ckpt-format
断点续训后loss变大 | loss-not-converging
保存ckpt时卡住 | stall-hang
磁盘满了 | disk-io
permission denied for normal user | permissions
每步都溢出 | nan-overflow
loss scale keeps dropping | nan-overflow
rank table怎么写 | hccl-config
"""

#: what goes well, in words that complaints have too
CONTENT = """
The tokenizer class you load from this checkpoint is not the same type as the class this function is called from.
Loading checkpoint shards
Weights will be loaded from the checkpoint in safetensors format
Start compiling the graph, this may take several minutes
The first step is slow because the graph is compiled
Loss scale was adjusted because an overflow was found in this step
The model has been loaded and training resumes from the last checkpoint
Memory pool grows on demand
Load checkpoint takes a while
loss is decreasing well
hang detection is enabled
out of memory killer is not involved
killed processes are restarted by the agent automatically
driver version matches the firmware
loss spikes are skipped by design
the nan check is enabled
nan values in the csv are dropped by the reader
slow samples are logged
第一个 step 包含编译时间，会比较慢
图编译中，请耐心等待
loss 正常下降
断点续训开始
"""


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


@pytest.mark.parametrize("row", lines(ASKED))
def test_a_question_or_complaint_is_answered(row: str) -> None:
    question, right = row.split(" | ")
    found = answers(question, load_pack())
    assert found and found[0].category in right.split(), [item.rule for item in found]


@pytest.mark.parametrize("text", lines(CONTENT))
def test_word_of_what_goes_well_is_no_question(text: str) -> None:
    found = [item.rule for item in answers(text, load_pack()) if item.severity.at_least(Severity.WARNING)]
    assert found == []
