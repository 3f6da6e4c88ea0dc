"""Step lines of many makes with the values that were put into them: what the reading of any of them must give back."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

Values = dict[str, Any]


@dataclass(frozen=True)
class Make:
    """`write` gives a line and the fields that it holds, from drawn values."""

    name: str
    write: Callable[[Values], tuple[str, Values]]


def float32_text(value: float) -> str:
    """A number as numpy and MindSpore print a float32."""
    import numpy as np

    return str(np.float32(value))


def number(text: str) -> float:
    return float(text.strip("[] "))


def _stamp(step: int) -> str:
    return f"2026-03-14 {9 + step // 3600 % 12:02d}:{step // 60 % 60:02d}:{step % 60:02d},{step * 7 % 1000:03d}"


def mindformers(v: Values) -> tuple[str, Values]:
    loss, rate = f"{v['loss']:5.6f}", float32_text(v["lr"])
    norm = f"[{float32_text(v['norm'])}]"
    line = (
        f"{_stamp(v['step'])} - mindformers/job/output/log[mindformers/core/callback/callback.py:747] - INFO - "
        f"{{ Epoch:[{v['epoch']:3d}/{v['epochs']:3d}], step:[{v['step']:5d}/{v['steps']:5d}], loss: {loss}, "
        f"per_step_time: {v['time']:d}ms, lr: {rate}, overflow cond: {v['flag']}, loss_scale: {v['scale']}, "
        f"global_norm: {norm}, train_throughput_per_npu: {v['work']:.3f}T"
    )
    return line, {
        "epoch": v["epoch"],
        "epochs": v["epochs"],
        "step": v["step"],
        "steps": v["steps"],
        "loss": float(loss),
        "step_time_ms": float(v["time"]),
        "lr": float(rate),
        "overflow": v["flag"],
        "loss_scale": float(v["scale"]),
        "grad_norm": number(norm),
        "throughput": float(f"{v['work']:.3f}"),
        "throughput_unit": "TFLOP/s",
    }


def mindformers_old(v: Values) -> tuple[str, Values]:
    line = (
        f"[INFO] {_stamp(v['step'])} [/job/mindformers/core/callback/callback.py:228] print_output_info: "
        f"Epoch:[{v['epoch']:3d}/{v['epochs']:3d}], step:[{v['step']:5d}/{v['steps']:5d}], "
        f"loss:[{v['loss']:5.3f}/{v['norm']:5.3f}], time:{v['time']:5.3f} ms, lr:[{float32_text(v['lr'])}], "
        f"overflow cond: {v['flag']}, loss_scale: unavailable"
    )
    return line, {
        "epoch": v["epoch"],
        "step": v["step"],
        "loss": float(f"{v['loss']:5.3f}"),
        "step_time_ms": float(f"{v['time']:5.3f}"),
        "lr": float(float32_text(v["lr"])),
        "overflow": v["flag"],
        "loss_scale": None,
    }


def pynative(v: Values) -> tuple[str, Values]:
    line = (
        f"{_stamp(v['step'])} - mindformers/job/output/log[mindformers/pynative/callback/loss_callback.py:341] - INFO - "
        f"{{ step:[{v['step']:5d}/{v['steps']:5d}], consumed_samples: {v['step'] * 8}, global_batch_size: 8, "
        f"loss: {v['loss']:10.6f}, per_step_time: {v['time']:6d}ms, lr: {v['lr']:10.6e}, grad_norm: {v['norm']:10.6f}, "
        f"throughput: {v['work']:6.2f}T }}"
    )
    return line, {
        "epoch": None,
        "step": v["step"],
        "steps": v["steps"],
        "loss": float(f"{v['loss']:10.6f}"),
        "lr": float(f"{v['lr']:10.6e}"),
        "grad_norm": float(f"{v['norm']:10.6f}"),
        "throughput": float(f"{v['work']:6.2f}"),
    }


def loss_monitor(v: Values) -> tuple[str, Values]:
    return f"epoch: {v['epoch']} step: {v['step']}, loss is {v['loss']!r}", {
        "epoch": v["epoch"],
        "step": v["step"],
        "loss": v["loss"],
        "lr": None,
    }


def megatron(v: Values) -> tuple[str, Values]:
    line = (
        f" [2026-03-14 09:27:06] iteration {v['step']:8d}/{v['steps']:8d} | consumed samples: {v['step'] * 8:12d} | "
        f"elapsed time per iteration (ms): {v['time']:.1f} | learning rate: {v['lr']:.6E} | global batch size: {8:5d} | "
        f"lm loss: {v['loss']:.6E} | loss scale: {float(v['scale']):.1f} | grad norm: {v['norm']:.3f} | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |"
    )
    return line, {
        "step": v["step"],
        "steps": v["steps"],
        "loss": float(f"{v['loss']:.6E}"),
        "lr": float(f"{v['lr']:.6E}"),
        "loss_scale": float(v["scale"]),
        "grad_norm": float(f"{v['norm']:.3f}"),
        "overflow": False,
    }


def torchrun(v: Values) -> tuple[str, Values]:
    line = f"[rank{v['rank']}]: step {v['step']} | loss {v['loss']:.4f} | lr {v['lr']:.2e} | norm: {v['norm']:.2f} | dt: {v['time']}ms"
    return line, {
        "rank": v["rank"],
        "step": v["step"],
        "loss": float(f"{v['loss']:.4f}"),
        "lr": float(f"{v['lr']:.2e}"),
        "grad_norm": float(f"{v['norm']:.2f}"),
        "step_time_ms": float(v["time"]),
    }


def hugging_face(v: Values) -> tuple[str, Values]:
    epoch = v["step"] / 97
    return (
        f"{{'loss': {v['loss']:.4f}, 'grad_norm': {v['norm']!r}, 'learning_rate': {v['lr']!r}, 'epoch': {epoch:.2f}}}",
        {
            "epoch": float(f"{epoch:.2f}"),
            "loss": float(f"{v['loss']:.4f}"),
            "grad_norm": v["norm"],
            "lr": v["lr"],
            "step": None,
        },
    )


def model_zoo(v: Values) -> tuple[str, Values]:
    line = f"2021-08-06 15:30:15,798:INFO:epoch[{v['epoch']}], iter[{v['step']}], loss:{v['loss']:.6f}, fps:{v['work']:.2f} imgs/sec, lr:{v['lr']!r}"
    return line, {
        "epoch": v["epoch"],
        "step": v["step"],
        "loss": float(f"{v['loss']:.6f}"),
        "lr": v["lr"],
        "throughput": float(f"{v['work']:.2f}"),
        "throughput_unit": "imgs/sec",
    }


def chinese(v: Values) -> tuple[str, Values]:
    return f"[训练] 第 {v['step']} 步 损失值: {v['loss']:.4f} 学习率: {v['lr']!r}", {
        "step": v["step"],
        "loss": float(f"{v['loss']:.4f}"),
        "lr": v["lr"],
    }


MAKES = [
    Make(write.__name__, write)
    for write in (
        mindformers,
        mindformers_old,
        pynative,
        loss_monitor,
        megatron,
        torchrun,
        hugging_face,
        model_zoo,
        chinese,
    )
]


def values(finite: bool = False) -> st.SearchStrategy[Values]:
    """Values as training prints them, not finite ones and extremes among them."""
    small = st.floats(0, 20, allow_nan=False)
    any_float = small | st.floats(1e-12, 1e12, allow_nan=False)
    loss = any_float if finite else any_float | st.floats(-5, 0) | st.sampled_from([math.nan, math.inf])
    return st.fixed_dictionaries(
        {
            "epoch": st.integers(1, 300),
            "epochs": st.integers(1, 999),
            "step": st.integers(1, 20_000),
            "steps": st.integers(20_000, 200_000),
            "loss": loss,
            "lr": st.floats(0, 1e-2, allow_nan=False) | st.sampled_from([0.0, 1e-5]),
            "norm": any_float if finite else any_float | st.sampled_from([math.nan, math.inf]),
            "time": st.integers(1, 10**6),
            "flag": st.booleans(),
            "scale": st.sampled_from(["1.0", "65536.0", "2048.0", "134217730.0"]),
            "work": st.floats(0, 500, allow_nan=False),
            "rank": st.integers(0, 1023),
        }
    )


def equal(a: Any, b: Any) -> bool:
    """Also for nan, and for True only with True."""
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return True
    return bool(a == b) and (a is None) == (b is None) and isinstance(a, bool) == isinstance(b, bool)
