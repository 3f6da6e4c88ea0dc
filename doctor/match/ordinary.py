"""Lines that healthy runs print thousands of times: a literal that stands in them finds nothing and costs much.

Shapes of MindFormers, MindSpore, Hugging Face and Megatron logs, in lower case, numbers as zeros.
"""

from __future__ import annotations

_LINES = """
0000-00-00 00:00:00,000 - mindformers[mindformers/core/callback/callback.py:000] - info - { epoch:[  0/  0], step:[    0/  000],
 loss: 0.000, per_step_time: 000ms, lr: 0.0e-00, overflow cond: false, loss_scale: 00000.0, global_norm: [0.0000],
 train_throughput_per_npu: 000.000t, lm_loss: 0.0, load_balancing_loss: 0.0, mtp_loss: 0.0
  0.0% |██████████                    | 0.00000 samples/s/p  0:00:00 }
train epoch time: 0000.000 ms, per step time: 00.000 ms, avg loss: 0.00000
epoch: 0 step: 000, loss is 0.00000
[warning] device(000000,0000000000,python):0000-00-00-00:00:00.000.000 [mindspore/ccsrc/plugin/device/ascend/hal/device/a.cc:000] run]
[info] me(000000:0000000000,mainprocess):0000-00-00-00:00:00.000.000 [mindspore/train/serialization.py:000] checkpoint saving
[warning] core pre_act ge_adpt kernel hccl md distributed debug runtime_framework parser analyzer optimizer pipeline
{'loss': 0.0000, 'grad_norm': 0.0, 'learning_rate': 0.0e-00, 'epoch': 0.00}
 iteration     00000/  000000 | consumed samples:   000 | elapsed time per iteration (ms): 000.0 | learning rate: 0.0e-00 |
 global batch size:   000 | lm loss: 0.0e+00 | loss scale: 0.0 | grad norm: 0.000 | number of skipped iterations:   0 |
 number of nan iterations:   0 | tokens per second per device | throughput
 00%|███████   | 00/000 [00:00<00:00,  0.00it/s] s/it
rank_0 worker_0 rank:0 local_rank device_id: 0 device id: 0 card npu npu:0 training train eval model checkpoint ckpt dataset
info - error - debug - warning - save checkpoint of rank 0 finished. current sample position time cost step_time tokens/s
[error] the type of a:float00 in 'parameter_dict' is different from the type of it in 'net':float00, then the type convert from float00
 to float00 in the network. the environment variable is not set, use default. will be deprecated and removed in a future version
file "/usr/lib/python0.00/site-packages/x.py", line 00, in run traceback
"""

#: one text, lower case, without line breaks that matter
ORDINARY = _LINES.encode("utf-8").lower()


def is_ordinary(literal: bytes) -> bool:
    """Whether a literal stands in ordinary lines, with any digits. Four digits and more are a code, not a word."""
    if literal.isdigit():
        return len(literal) < 4
    shape = literal.lower().translate(_ZEROS)
    return shape in ORDINARY


_ZEROS = bytes.maketrans(b"123456789", b"000000000")
