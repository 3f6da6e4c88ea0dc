"""Which cures there are for which finding, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

from doctor.finding import Finding
from doctor.supervisor.cures import data, device, optimizer, precision
from doctor.supervisor.cures.remedy import Cure, Remedy
from doctor.trainer.config import RunConfig

#: what `check` says of a config that is worth a change before the first step: nothing of such a run is worth having
BEFORE = (
    "CFG-LRS-002",
    "CFG-LRS-004",
    "CFG-MOD-017",
    "CFG-OPT-003",
    "CFG-OPT-004",
    "CFG-OPT-005",
    "CFG-OPT-007",
    "CFG-OPT-011",
    "CFG-OPT-017",
    "CFG-OPT-018",
    "CFG-PRC-004",
)


def remedy_for(finding: Finding, config: RunConfig, cores: int) -> Optional[Remedy]:
    """The first cure that the config leaves room for, or None."""
    for cure in _CURES.get(finding.rule) or _CURES_OF_CATEGORY.get(finding.category, ()):
        found = cure(config, finding)
        if found is not None:
            return found
    if finding.rule == "RUN-HOST-003":
        return data.fewer_workers(config, cores)
    return None


_NOT_FINITE: tuple[Cure, ...] = (
    precision.adaptive_scale,
    precision.master_weights,
    precision.full_precision,
    optimizer.usual_betas,
    optimizer.usual_spread,
    optimizer.clip,
    optimizer.lower_rate,
)
_NOT_LEARNING: tuple[Cure, ...] = (
    precision.adaptive_scale,
    precision.master_weights,
    optimizer.usual_spread,
    optimizer.usual_rate,
    optimizer.usual_betas,
    optimizer.usual_epsilon,
    optimizer.usual_clip,
    optimizer.usual_decay,
    optimizer.lower_absurd_rate,
)
_OUT_OF_MEMORY: tuple[Cure, ...] = (device.recompute, device.smaller_batch)
_CURES: Mapping[str, tuple[Cure, ...]] = {
    "RUN-NAN-001": _NOT_FINITE,
    "RUN-NAN-002": _NOT_FINITE,
    "RUN-NAN-003": _NOT_FINITE,
    "RUN-OVF-001": (precision.adaptive_scale,),
    "RUN-OVF-002": (precision.full_precision,),
    "RUN-OVF-003": (precision.adaptive_scale, precision.full_precision),
    "RUN-LOSS-001": (optimizer.usual_betas, data.skip_batch, optimizer.clip, optimizer.lower_rate),
    "RUN-LOSS-003": (optimizer.usual_betas, optimizer.clip, optimizer.lower_rate),
    "RUN-LOSS-005": (data.shift_labels,),
    "RUN-LOSS-006": _NOT_LEARNING,
    "RUN-LOSS-007": _NOT_LEARNING,
    "RUN-LOSS-008": (optimizer.usual_betas, optimizer.lower_rate),
    "RUN-LOSS-009": (data.shift_labels,),
    "RUN-GRAD-002": (optimizer.usual_betas, optimizer.clip, optimizer.lower_rate),
    "RUN-GRAD-003": (optimizer.usual_betas, optimizer.clip, optimizer.lower_rate),
    "RUN-GRAD-001": (optimizer.usual_clip,),
    "RUN-GRAD-004": (optimizer.usual_clip,),
    "RUN-LR-001": (optimizer.usual_rate,),
    "RUN-MON-001": (precision.adaptive_scale, precision.higher_start, precision.master_weights, optimizer.usual_spread),
    "RUN-MON-005": (data.shift_labels,),
    "RUN-MON-002": (optimizer.usual_betas, precision.master_weights),
    "CFG-LRS-001": (optimizer.lower_end,),
    "CFG-LRS-002": (optimizer.usual_warmup,),
    "CFG-LRS-004": (optimizer.usual_warmup,),
    "CFG-MOD-017": (optimizer.usual_spread,),
    "CFG-OPT-015": (
        device.turned_off(
            "optimizer_offload",
            False,
            "Do not offload the optimizer: there is no device to take it from.",
            "不卸载优化器：本机没有需要卸载的设备。",
        ),
    ),
    "CFG-OPT-017": (optimizer.usual_betas,),
    "CFG-OPT-018": (optimizer.usual_betas,),
    "CFG-PRC-002": (precision.no_bfloat16,),
    "CFG-PRC-004": (precision.adaptive_scale,),
    "CFG-RUN-004": (
        device.turned_off(
            "eval_steps", 0, "Do not evaluate: there is no eval_dataset.", "不做评估：没有 eval_dataset。"
        ),
    ),
    "DAT-COL-001": (data.skip_rows,),
    "DAT-FILE-007": (data.skip_rows,),
    "DAT-LBL-002": (data.set_back,),
    "DAT-ROW-002": (data.skip_rows,),
    "DAT-TOK-001": (data.skip_rows,),
    "DAT-TOK-002": (data.skip_rows,),
    "WGT-TOK-001": (data.room_for_tokens,),
    "CFG-OPT-003": (optimizer.usual_betas,),
    "CFG-OPT-005": (optimizer.usual_epsilon,),
    "CFG-OPT-004": (optimizer.usual_decay,),
    "CFG-OPT-007": (optimizer.lower_absurd_rate,),
    "CFG-OPT-011": (optimizer.usual_clip,),
    "RUN-LR-005": (optimizer.lower_rate,),
}
#: what a log says of memory is many rules; the cure is the same
_CURES_OF_CATEGORY: Mapping[str, tuple[Cure, ...]] = {
    "oom-device": _OUT_OF_MEMORY,
    "oom-host": _OUT_OF_MEMORY,
    "memory-host": _OUT_OF_MEMORY,
}
