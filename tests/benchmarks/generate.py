"""Writes a training log of any size: 45 % step lines, framework chatter, one problem in ten thousand lines."""

from __future__ import annotations

import random
from pathlib import Path

_CHATTER = (
    "2026-03-01 10:{m:02d}:{s:02d},{ms:03d} - /job/output/log[mindformers/core/callback/callback.py:{n}] - INFO - Save checkpoint of rank {r} finished.",
    "[WARNING] ME({p}:140233,MainProcess):2026-03-01-10:{m:02d}:{s:02d}.{ms:03d}.000 [mindspore/train/serialization.py:{n}] The type of parameter {r} is cast.",
    "[INFO] DEVICE({p},fffe,python):2026-03-01-10:{m:02d}:{s:02d}.{ms:03d}.100 [mindspore/ccsrc/runtime/pynative/op_runner.cc:{n}] UpdateStreams] stream {r}",
    "2026-03-01 10:{m:02d}:{s:02d},{ms:03d} - /job/output/log[mindformers/trainer/base_trainer.py:{n}] - INFO - current sample position {p} of rank {r}",
    "  {r:.1f}% |{bar}| {n} samples/s/p  0:{m:02d}:{s:02d} }}",
)
_PROBLEMS = (
    "[ERROR] GE_ADPT({p},fffe,python):2026-03-01-10:{m:02d}:{s:02d}.{ms:03d}.100 [mindspore/ccsrc/x.cc:{n}] Run] E39999: Inner Error!",
    "RuntimeError: Call aclrtSetDevice failed, ret[107001]. Got device count[8] and device id[{r}]",
    "[ERROR] HCCL({p},python):2026-03-01-10:{m:02d}:{s:02d}.{ms:03d}.100 [transport.cc:{n}] EI0006: Getting socket times out.",
)
_STEP = (
    "2026-03-01 10:{m:02d}:{s:02d},{ms:03d} - /job/output/log[mindformers/core/callback/callback.py:523] - INFO - "
    "{{ Epoch:[  1/  2], step:[{step:5d}/100000], loss: {loss:.3f}, per_step_time: {t:d}ms, lr: {lr:.6e}, overflow cond: False,"
    " loss_scale: 65536.0, global_norm: [{g:.4f}], train_throughput_per_npu: {tp:.3f}T"
)


def write_log(path: Path, size: int, seed: int = 7) -> int:
    """Writes about `size` bytes and returns how many."""
    rng = random.Random(seed)
    written = step = 0
    with path.open("wb") as out:
        while written < size:
            lines = []
            for _ in range(5000):
                values = {
                    "m": rng.randrange(60),
                    "s": rng.randrange(60),
                    "ms": rng.randrange(1000),
                    "p": rng.randrange(10**6),
                    "n": rng.randrange(2000),
                    "r": rng.randrange(8),
                    "bar": "█" * rng.randrange(40),
                }
                pick = rng.random()
                if pick < 0.45:
                    step += 1
                    loss = 2 + 8 / (1 + step / 2000) + rng.gauss(0, 0.02)
                    lines.append(
                        _STEP.format(
                            step=step,
                            loss=loss,
                            t=rng.randrange(990, 1010),
                            lr=1e-4,
                            g=rng.uniform(0.8, 1.2),
                            tp=rng.uniform(150, 160),
                            **values,
                        )
                    )
                elif pick < 0.4501:
                    lines.append(rng.choice(_PROBLEMS).format(**values))
                else:
                    lines.append(rng.choice(_CHATTER).format(**values))
            block = ("\n".join(lines) + "\n").encode()
            out.write(block)
            written += len(block)
    return written
