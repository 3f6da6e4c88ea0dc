"""Step lines of every maker as metrics; what is not a step line stays none."""

from __future__ import annotations

import math
from typing import Any

import pytest

from doctor.records.metrics import MetricReader
from doctor.records.record import Chunk, Metric


def metrics(text: str, rank: Any = None) -> list[Metric]:
    return MetricReader().feed(Chunk("run.log", text.encode(), 0, 1, rank))


def one(text: str) -> Metric:
    found = metrics(text + "\n")
    assert len(found) == 1
    return found[0]


HEAD = "2026-03-14 09:27:06,000 - mindformers/job/output/log[mindformers/core/callback/callback.py:747] - INFO - "

LINES: dict[str, tuple[str, dict[str, Any]]] = {
    "mindformers 0.3": (
        "2026-03-14 09:27:09,000 - mindformers - INFO - Epoch:[  2/  3], step:[    4/   37], loss:[9.660/10.125],"
        " time:218.300 ms, lr:1.6666667e-05, overflow cond: True, loss_scale: [65536.]",
        {
            "epoch": 2,
            "epochs": 3,
            "step": 4,
            "steps": 37,
            "global_step": 41,
            "loss": 9.66,
            "step_time_ms": 218.3,
            "lr": 1.6666667e-05,
            "overflow": True,
            "loss_scale": 65536.0,
        },
    ),
    "mindformers 0.3 without a scale": (
        "2026-03-14 09:27:18,000 - mindformers - INFO - Epoch:[  1/  1], step:[   13/   37], loss:[6.900/7.100],"
        " time:211.900 ms, overflow cond: False, loss_scale: unavailable",
        {"step": 13, "loss": 6.9, "lr": None, "loss_scale": None, "overflow": False, "step_time_ms": 211.9},
    ),
    "mindformers 1.2 in sink mode": (
        HEAD + "{ Epoch:[  1/  2], step:[    6/ 1562], loss: 9.940, per_step_time: 1240ms, lr: 5e-06,"
        " overflow cond: [ True], loss_scale: 32768.0",
        {
            "step": 6,
            "global_step": 6,
            "loss": 9.94,
            "step_time_ms": 1240,
            "lr": 5e-06,
            "overflow": True,
            "grad_norm": None,
        },
    ),
    "mindformers 1.8": (
        HEAD
        + "{ Epoch:[  2/  2], step:[    5/ 1024], loss: 9.612345, per_step_time: 1750ms, lr: 9.96e-06, overflow cond:"
        " False, loss_scale: 65536.0, global_norm: [1.512], train_throughput_per_npu: 170.125T",
        {
            "global_step": 1029,
            "loss": 9.612345,
            "grad_norm": 1.512,
            "throughput": 170.125,
            "throughput_unit": "TFLOP/s",
        },
    ),
    "mindformers 2.1 with separate losses": (
        HEAD
        + "{ Epoch:[  1/  2], step:[    3/ 1000], loss:[  3.100000/3.200000], lm_loss: 3.000000, load_balancing_loss:"
        " 0.012300, mtp_loss: 0.300000, indexer_loss: 0.100000, per_step_time: 214ms, lr: 1e-05, overflow cond: False,"
        " loss_scale: None, global_norm: None",
        {"loss": 3.1, "grad_norm": None, "loss_scale": None, "step_time_ms": 214},
    ),
    "mindformers pynative": (
        HEAD
        + "{ step:[    9/ 1000], consumed_samples: 72, global_batch_size: 8, loss:  10.370000, per_step_time:   2219ms,"
        " load_balancing_loss:   0.012300, mtp_1_loss:   3.200000, lr: 1.000000e-05, grad_norm: NaN, throughput:  31.72T }",
        {"epoch": None, "step": 9, "steps": 1000, "loss": 10.37, "grad_norm": None, "throughput": 31.72},
    ),
    "mindformers pynative, numeric nan": (
        HEAD
        + "{ step:[    9/ 1000], loss:        nan, per_step_time:   2219ms, lr: 1.000000e-05, grad_norm:        nan,"
        " throughput:  31.72T }",
        {"step": 9, "loss": math.nan, "grad_norm": math.nan},
    ),
    "mindformers pynative, not the last stage": (
        HEAD
        + "{ step:[   13/ 1000], consumed_samples: None, global_batch_size: None, loss: N/A (non-last PP stage, refer to"
        " last stage for real loss), per_step_time:   2231ms, grad_norm: NaN }",
        {"step": 13, "loss": None, "grad_norm": None, "step_time_ms": 2231},
    ),
    "mindformers file handler, nan": (
        "[INFO] 2026-03-14 09:27:21,000 [mindformers/core/callback/callback.py:747] print_output_info: { Epoch:[  1/  1],"
        " step:[    7/   64], loss:[  nan/  nan], per_step_time: 94ms, lr: 0.0001, overflow cond: True, loss_scale: 1.0,"
        " global_norm: [inf]",
        {"step": 7, "loss": math.nan, "grad_norm": math.inf, "overflow": True},
    ),
    "a norm broken in two": (
        HEAD
        + "{ Epoch:[  1/  2], step:[    2/   19], loss: 10.633, per_step_time: 1752ms, lr: 1e-05, overflow cond: False,"
        " loss_scale: 1.0, global_norm: [1 508834], train_throughput_per_npu: 170.738T",
        {"step": 2, "grad_norm": None, "throughput": 170.738},
    ),
    "LossMonitor": (
        "epoch: 3 step: 12, loss is 5.057495594024658",
        {"epoch": 3, "step": 12, "loss": 5.057495594024658},
    ),
    "LossMonitor, old": ("epcoh:3 step:12, loss is -1.5", {"epoch": 3, "step": 12, "loss": -1.5}),
    "TimeMonitor": (
        "Train epoch time: 1648.109 ms, per step time: 412.027 ms",
        {"step": None, "loss": None, "step_time_ms": 412.027, "summary": True},
    ),
    "Megatron": (
        " iteration     6930/  159576 | consumed samples:       254192 | elapsed time per iteration (ms): 18564.1 |"
        " learning rate: 6.000E-05 | global batch size:    96 | lm loss: 9.121927E+00 | loss scale: 4096.0 |"
        " grad norm: 283384.130 | num zeros: 0.0 | number of skipped iterations:   0 | number of nan iterations:   0 |",
        {"step": 6930, "loss": 9.121927, "grad_norm": 283384.13, "loss_scale": 4096.0, "overflow": False},
    ),
    "Megatron in seconds, torchrun prefix": (
        "[default7]: iteration       12/     100 | elapsed time per iteration (s): 10.5 | learning rate: 6.000E-05 |"
        " lm loss: 2.5E+00 | grad norm: 0.2 | max_memory_allocated(GB): 2.5",
        {"rank": 7, "step": 12, "step_time_ms": 10500.0, "memory_mb": 2560.0},
    ),
    "Megatron, all skipped": (
        " iteration       10/     100 | elapsed time per iteration (ms): 318.5 | learning rate: 0.000E+00 | loss scale:"
        " 8388608.0 | number of skipped iterations:  10 | number of nan iterations:   0 |",
        {"step": 10, "loss": None, "overflow": True, "loss_scale": 8388608.0},
    ),
    "Megatron validation": (
        " validation loss at iteration 100 | lm loss value: 2.345E+00 | lm loss PPL: 1.043E+01 | ",
        {"step": 100, "loss": 2.345, "evaluation": True},
    ),
    "Hugging Face": (
        "{'loss': 1.6693, 'grad_norm': 0.5, 'learning_rate': 2e-05, 'epoch': 0.23}",
        {"epoch": 0.23, "loss": 1.6693, "grad_norm": 0.5, "lr": 2e-05, "step": None},
    ),
    "Hugging Face, numbers as strings": (
        "{'loss': '1.6693', 'grad_norm': 'nan', 'learning_rate': '2e-05', 'epoch': '1'}",
        {"epoch": 1, "loss": 1.6693, "grad_norm": math.nan, "lr": 2e-05},
    ),
    "Hugging Face evaluation": (
        "{'eval_loss': 0.2645, 'eval_runtime': 21.6, 'eval_samples_per_second': 10.8, 'epoch': 1.0}",
        {"loss": 0.2645, "evaluation": True},
    ),
    "Hugging Face summary": (
        "{'train_runtime': 882.0, 'train_samples_per_second': 59.5, 'train_loss': 0.2, 'epoch': 3.0}",
        {"loss": 0.2, "summary": True},
    ),
    "tqdm with a loss": (
        "Epoch 0:  15%|█▌        | 1688/10950 [10:15<56:15,  2.5it/s, loss=9.61]",
        {"epoch": 0, "step": 1688, "steps": 10950, "loss": 9.61, "step_time_ms": 400.0},
    ),
    "nanoGPT": ("iter 100: loss 2.5, time 123.45ms, mfu 3.10%", {"step": 100, "loss": 2.5, "step_time_ms": 123.45}),
    "torchtitan": (
        "[titan] 2025-01-01 00:00:00,000 - root - INFO - step: 10  loss:  7.81  grad_norm:  1.25  memory: 30.00GiB(31.5%)"
        "  tps: 2,345  tflops: 123.4  mfu: 12.0%",
        {"step": 10, "loss": 7.81, "grad_norm": 1.25, "memory_mb": 30720.0},
    ),
    "mmengine": (
        "01/02 10:00:00 - mmengine - INFO - Epoch(train)  [2][ 50/7330]  lr: 2.0000e-05  eta: 8:35:38  time: 0.7042"
        "  data_time: 0.0246  memory: 3918  loss: 1.5000  loss_cls: 0.9",
        {"epoch": 2, "step": 50, "steps": 7330, "loss": 1.5, "lr": 2e-05, "memory_mb": 3918.0, "step_time_ms": None},
    ),
    "llm.c": (
        "step 1/19560 | loss 11.009100 (+nanz)| norm 15.3720 (+nanz)| lr 8.57e-07 | 2543.21 ms | 206147 tok/s",
        {"step": 1, "steps": 19560, "loss": 11.0091, "grad_norm": 15.372, "lr": 8.57e-07},
    ),
    "modded-nanogpt, before its first average": (
        "step:5/5100 train_loss:4.5123 train_time:8199ms step_avg:nanms",
        {"step": 5, "loss": 4.5123, "step_time_ms": None, "evaluation": False},
    ),
    "modded-nanogpt validation": (
        "step:125/5100 val_loss:4.3210 train_time:10199ms step_avg:80.12ms",
        {"step": 125, "loss": 4.321, "evaluation": True},
    ),
    "fairseq": (
        "2024-01-01 00:00:00 | INFO | train_inner | epoch 002:    100 / 1000 loss=10.123, ppl=724.1, num_updates=1100,"
        " lr=1.25e-05, gnorm=2.5, loss_scale=64, train_wall=20",
        {
            "epoch": 2,
            "step": 100,
            "steps": 1000,
            "global_step": 1100,
            "loss": 10.123,
            "grad_norm": 2.5,
            "loss_scale": 64.0,
        },
    ),
    "swift": (
        "{'loss': 1.2345, 'grad_norm': 1.1, 'learning_rate': 1e-05, 'memory(GiB)': 45.5, 'epoch': 0.1,"
        " 'global_step/max_steps': '10/100', 'percentage': '10.00%'}",
        {"step": 10, "steps": 100, "epoch": 0.1, "memory_mb": 46592.0},
    ),
    "ranks in other senses": (
        "iteration: 100/1000 | DP rank: 3 | lm_loss: 2.34 | grad_norm: 1.0",
        {"step": 100, "loss": 2.34, "rank": None},
    ),
    "rank in the middle": ("rank[5], iter[7], loss[3.5], overflow:False", {"rank": 5, "step": 7, "loss": 3.5}),
    "thousands": ("step: 10 loss: 2.5 tps: 12,345", {"throughput": 12345.0, "throughput_unit": "tokens/s"}),
    "torch tensor": ("step 7, training loss: tensor(2.25, device='npu:0')", {"step": 7, "loss": 2.25}),
    "MindSpore tensors": (
        "epoch[0], iter[100], loss:(Tensor(shape=[], dtype=Float32, value= 50.25), Tensor(shape=[], dtype=Bool, value="
        " True), Tensor(shape=[], dtype=Float32, value= 32768)), cur_lr:0.000660",
        {"epoch": 0, "step": 100, "loss": 50.25, "overflow": True, "loss_scale": 32768.0, "lr": 0.00066},
    ),
    "colours": (
        "\x1b[32m2025-05-06 10:00:01\x1b[0m | INFO - step: \x1b[33m120\x1b[0m, loss: \x1b[31m2.5\x1b[0m, lr: 1.2e-4",
        {"step": 120, "loss": 2.5, "lr": 1.2e-4},
    ),
    "loss behind its step": ("Average loss at step 100: 2.5", {"step": 100, "loss": 2.5}),
    "time per step without a name": ("step 200 loss 2.5 9.8 s/step", {"step": 200, "step_time_ms": 9800.0}),
    "an overflow flag in digits": ("step: 3, loss: 2.5, overflow: 1.000000", {"overflow": True}),
    "srun": ("3: step 5 loss 9.25", {"rank": 3, "step": 5, "loss": 9.25}),
    "Chinese": (
        "[训练] 第 120 步 损失值：2.345 学习率：0.0001 梯度溢出，损失缩放降为：1024",
        {"step": 120, "loss": 2.345, "lr": 0.0001, "overflow": True, "loss_scale": 1024.0},
    ),
}


def equal(a: Any, b: Any) -> bool:
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


@pytest.mark.parametrize("name", LINES)
def test_step_lines(name: str) -> None:
    line, expected = LINES[name]
    metric = one(line)
    got = {key: getattr(metric, key) for key in expected}
    assert all(equal(got[key], expected[key]) for key in expected), got


@pytest.mark.parametrize(
    "line",
    [
        "# epoch: 1 step: 1, loss is greater than 500 and less than 5000",
        "In epoch: 1 step: 1, loss is NAN or INF, training process cannot continue, terminating training.",
        "number of skipped iterations:   0 | number of nan iterations:   0 |",
        "Best loss: 2.31 at step 500, checkpoint saved",
        "loss_scale ...................................... None",
        "{'epochs': 3, 'loss_scale': 65536, 'warmup_steps': 10, 'save_checkpoint_steps': 100, 'raise_on_nan': True}",
        "runner_wrapper: loss_scale_value: 65536, scale_factor: 2, scale_window: 1000, step: 5",
        "Finish saving ckpt of epoch 1 step 16 using 3.5 seconds",
        "Epoch:[  1/  2], step:[    3/ 1000] micro_local_lm_loss: 3.4",
        "time (ms) | forward-compute: 265.42 | optimizer: 82.95",
        "[SkipStepOnNaN] Global gradient norm is nan at step 14, skipping the optimizer update",
        "Will be Training epochs:1, sink_size:1",
        "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0",
        "    loss = self.network(*inputs)/",
        '{"event": "opened", "finding": {"rule": "RUN-NAN-001", "evidence": [{"text": "epoch: 1 step: 5, loss is nan"}]}}',
        "Best val loss at step 100: 2.5",
        "| Loss | 0.3-1.5, average loss for last epoch is in 0.8-1.0 |",
        "scale_window                    steps for once updatation of loss scale: N, default is 1000",
        "Loading checkpoint shards: 100%|##########| 3/3 [00:05<00:00,  1.70s/it]",
    ],
)
def test_prose_settings_and_errors_are_no_metrics(line: str) -> None:
    assert metrics(line + "\n") == []


def test_own_json_lines() -> None:
    metric = one(
        '{"event": "metric", "source": "x", "line": 1, "rank": 3, "epoch": 1, "step": 7, "global_step": 7, "loss": "nan",'
        ' "lr": 0.001, "grad_norm": "inf", "overflow": true, "step_time_ms": 12.5, "tokens_per_s": 1000.0, "memory_mb": 5.0}'
    )
    assert metric.source == "run.log" and metric.rank == 3 and metric.step == 7 and metric.overflow is True
    assert metric.loss is not None and math.isnan(metric.loss) and metric.grad_norm == math.inf
    assert metric.throughput == 1000.0 and metric.throughput_unit == "tokens/s" and metric.memory_mb == 5.0


def test_a_dict_takes_its_step_from_the_bar_before_it() -> None:
    found = metrics(
        " 11%|█ | 319/2724 [1:00<2:00, 1.5s/it]\r 12%|█ | 320/2724 [1:00<2:00, 1.5s/it]\r   \r{'loss': 1.5, 'epoch': 0.2}\n"
    )
    assert [(m.step, m.steps, m.loss) for m in found] == [(320, 2724, 1.5)]


def test_glued_lines_are_two_records() -> None:
    found = metrics("epoch: 50 step: 1171, loss is -16.5epoch: 50 step: 1172, loss is -11.5\n")
    assert [(m.step, m.loss) for m in found] == [(1171, -16.5), (1172, -11.5)]


def test_epochs_from_zero_count_global_steps_from_the_first() -> None:
    found = metrics("Epoch:[  0/ 10], step:[ 5/ 5], loss:[1.0/1.0]\nEpoch:[  1/ 10], step:[ 1/ 5], loss:[0.9/1.0]\n")
    assert [m.global_step for m in found] == [5, 6]


def test_a_line_cut_at_the_end_of_the_file_is_not_believed() -> None:
    whole = "{ Epoch:[  1/  2], step:[    3/ 1024], loss: 9.800, per_step_time: 1750ms, lr: 9.98e-06\n"
    found = metrics(whole + "{ Epoch:[  1/  2], step:[    4/ 1024], loss: 9.")
    assert [m.step for m in found] == [3]


def test_steps_that_go_on_over_the_end_of_an_epoch_are_global_already() -> None:
    text = "".join(
        f"epoch: {epoch}, iter: {step}/90, loss: 2.5\n" for epoch, step in [(1, 10), (1, 20), (2, 30), (2, 40), (3, 50)]
    )
    assert [m.global_step for m in metrics(text)] == [10, 20, 30, 40, 50]
    again = "".join(
        f"epoch: {epoch}, iter: {step}/20, loss: 2.5\n" for epoch, step in [(1, 10), (1, 20), (2, 10), (2, 20)]
    )
    assert [m.global_step for m in metrics(again)] == [10, 20, 30, 40]


def test_another_rank_of_the_same_make_is_read_from_its_prefix() -> None:
    found = metrics("".join(f"[rank{rank}]: step {step} loss 2.5\n" for step in range(3) for rank in (1, 12)))
    assert [(m.rank, m.step) for m in found] == [(1, 0), (12, 0), (1, 1), (12, 1), (1, 2), (12, 2)]


def test_lines_that_are_never_alike_are_read_all_the_same() -> None:
    names = ["".join(chr(97 + number // 26**place % 26) for place in range(3)) for number in range(400)]
    found = metrics("".join(f"sample {name} step: {number} loss: 2.5\n" for number, name in enumerate(names)))
    assert [m.step for m in found] == list(range(400))


def test_a_regular_make_is_learnt_also_after_many_that_were_not() -> None:
    strange = [f"sample x{chr(97 + n % 26)}{chr(97 + n // 26)}x step: {n} loss: 2.5\n" for n in range(300)]
    regular = [f"epoch: 1 step: {n}, loss is 2.5\n" for n in range(300)]
    reader = MetricReader()
    found = reader.feed(Chunk("run.log", "".join(strange + regular).encode(), 0, 1))
    assert len(found) == 600
    assert sum(reader._streams["run.log"].used.values()) > 200


def test_places_are_those_of_the_line() -> None:
    data = b"first\nepoch: 1 step: 1, loss is 2.5\r\n\nepoch: 1 step: 2, loss is 2.4\n"
    found = MetricReader().feed(Chunk("a", data, 100, 11, 4))
    assert [(m.line, m.offset, m.rank) for m in found] == [(12, 106, 4), (14, 100 + data.rindex(b"epoch"), 4)]
