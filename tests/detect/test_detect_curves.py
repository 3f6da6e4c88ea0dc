"""Public and lab curves with known onsets: silent on the healthy, right and early on the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from curves import SHARED, drive, from_csv, opened

pytestmark = [pytest.mark.shared, pytest.mark.skipif(not SHARED.exists(), reason="no shared curves here")]

HEALTHY = sorted(
    path
    for pattern in ("healthy_*.csv", "lab_healthy_*.csv", "lab_fp16_scaler_normal.csv", "lab_desync_rank*.csv")
    for path in SHARED.glob(pattern)
)

#: file -> (a rule that must be opened, first step of the fault, most steps until it is said)
FAULTS = {
    "lab_nan_forever": ("RUN-NAN-001", 1200, 0),
    "lab_bad_batch_spike_recover": ("RUN-LOSS-002", 900, 3),
    "lab_loss_zero_mask": ("RUN-LOSS-005", 500, 3),
    "lab_lr_zero_plateau": ("RUN-LR-001", 700, 12),
    "lab_lr_x12_step_change": ("RUN-LR-002", 1100, 0),
    "lab_lr_runaway_diverge": ("RUN-LR-005", 800, 30),
    "lab_resume_lost_optimizer_state": ("RUN-LR-002", 1000, 0),
    "lab_fp16_overflow_scale_collapse": ("RUN-OVF-002", 703, 10),
    "lab_sgd_no_clip_unstable": ("RUN-LOSS-002", 39, 30),
    "lab_tiny_data_memorise": ("RUN-LOSS-009", 100, 200),
    "public_bloom176b_first_loss_spike": ("RUN-GRAD-003", 31214, 3),
    "public_tr8_104b_divergence_7000": ("RUN-GRAD-002", 7000, 10),
}


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: path.stem)
def test_healthy_curves_are_silent(path: Path) -> None:
    assert opened(drive(from_csv(path))) == []


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_faults_are_found_where_they_begin(name: str) -> None:
    rule, onset, delay = FAULTS[name]
    said_at = None
    metrics = []
    for metric in from_csv(SHARED / f"{name}.csv"):
        metrics.append(metric)
    alarms = [alarm for alarm in drive(metrics) if alarm.rule == rule and alarm.kind == "opened"]
    assert alarms, f"{rule} was not raised"
    said_at = max(item.step or 0 for item in alarms[0].evidence)
    assert said_at >= onset - 1
    assert said_at <= onset + delay
