"""Writes training logs of any size: the healthy lines of the self-test, and a problem now and then."""

from __future__ import annotations

import random
from pathlib import Path

from doctor.selftest.logs import KINDS, STEPS, chatter

#: share of lines that tell of a problem or of a checkpoint
RARE = 0.00013
_RARE = (
    "2026-03-01 10:{m:02d}:{s:02d},{ms:03d} - mindformers[callback.py:{n}] - INFO - Finish saving ckpt of epoch 1 step {p} using {s}.{ms:03d} seconds",
    "[ERROR] GE_ADPT({p},fffe,python):2026-03-01-10:{m:02d}:{s:02d}.{ms:03d}.100 [mindspore/ccsrc/x.cc:{n}] Run] E39999: Inner Error!",
    "RuntimeError: Call aclrtSetDevice failed, ret[107001]. Got device count[8] and device id[{r}]",
    "[ERROR] HCCL({p},python):2026-03-01-10:{m:02d}:{s:02d}.{ms:03d}.100 [transport.cc:{n}] EI0006: Getting socket times out.",
)


def write_log(path: Path, size: int, seed: int = 7, kind: str = "graph") -> int:
    """Writes about `size` bytes and returns how many."""
    rng = random.Random(seed)
    step_line, shapes = KINDS[kind]
    written = step = 0
    with path.open("wb") as out:
        while written < size:
            lines = []
            for _ in range(5000):
                pick = rng.random()
                if pick < STEPS:
                    step += 1
                    lines.append(step_line(rng, step))
                else:
                    lines.append(chatter(rng, _RARE if pick < STEPS + RARE else shapes))
            block = ("\n".join(lines) + "\n").encode()
            out.write(block)
            written += len(block)
    return written
