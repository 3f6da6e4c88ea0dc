"""Which setting cures which finding, and what one intervention leaves on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Optional

import numpy as np
import pytest
import yaml

from doctor.finding import Evidence, Finding, Severity, Text
from doctor.supervisor.care import intervene
from doctor.supervisor.cures.remedy import BEST, NEWEST, START, Remedy
from doctor.supervisor.remedies import remedy_for
from doctor.trainer import checkpoint as checkpoints
from doctor.trainer.config import RunConfig, load_config
from doctor.trainer.runfolder import RunFolder


def finding(rule: str, step: Optional[int] = 12) -> Finding:
    words = Text("it happened", "出现了")
    proof = Evidence("metric", "metrics/rank_0.jsonl", line=12, step=step)
    return Finding(rule, "some-fault", Severity.ERROR, "nan-overflow", words, words, evidence=(proof,))


def config(tmp_path: Path, training: dict[str, Any], dataset: Optional[dict[str, Any]] = None) -> RunConfig:
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({"model": "llama", "train_dataset": dataset or {}, "training_args": training}))
    return load_config(str(path))


def cure(rule: str, tmp_path: Path, training: dict[str, Any], dataset: Optional[dict[str, Any]] = None) -> Any:
    return remedy_for(finding(rule), config(tmp_path, training, dataset), cores=2)


FIXED = {"type": "FixedLossScaleUpdateCell", "loss_scale_value": 2**20, "drop_overflow_update": False}


@pytest.mark.parametrize(
    ("rule", "training", "edits", "safe"),
    [
        (
            "RUN-NAN-001",
            {"mixed_precision": "O2", "loss_scale": FIXED},
            {
                "training_args.loss_scale.type": "dynamic",
                "training_args.loss_scale.drop_overflow_update": True,
                "training_args.loss_scale.loss_scale_value": 65536,
            },
            True,
        ),
        (
            "RUN-OVF-003",
            {"mixed_precision": "fp16", "scale_sense": 2**24},
            {"training_args.scale_sense": "dynamic"},
            True,
        ),
        (
            "RUN-NAN-001",
            {"mixed_precision": "fp16"},
            {"training_args.mixed_precision": "O0", "training_args.loss_scale": None},
            True,
        ),
        ("RUN-NAN-001", {"max_grad_norm": 0}, {"training_args.max_grad_norm": 1.0}, False),
        ("RUN-NAN-001", {"learning_rate": 1.0e6}, {"training_args.learning_rate": 0.001}, False),
        (
            "RUN-LOSS-003",
            {"learning_rate": 0.003, "lr_end": 0.001},
            {"training_args.learning_rate": 0.0003, "training_args.lr_end": pytest.approx(0.00003)},
            False,
        ),
        ("RUN-LOSS-001", {}, {"training_args.skip_steps": [12]}, False),
        ("RUN-LOSS-001", {"skip_steps": [12], "max_grad_norm": 0}, {"training_args.max_grad_norm": 1.0}, False),
    ],
)
def test_cure(rule: str, training: dict[str, Any], edits: dict[str, Any], safe: bool, tmp_path: Path) -> None:
    found = cure(rule, tmp_path, training)
    assert (dict(found.edits), found.safe) == (edits, safe)


def test_labels_and_workers(tmp_path: Path) -> None:
    shifted = cure("RUN-LOSS-009", tmp_path, {}, {"shift_labels": "never"})
    assert dict(shifted.edits) == {"train_dataset.shift_labels": "auto"}
    fewer = cure("RUN-HOST-003", tmp_path, {}, {"num_parallel_workers": 32})
    assert (dict(fewer.edits), fewer.back) == ({"train_dataset.num_parallel_workers": 2}, NEWEST)


@pytest.mark.parametrize(
    ("rule", "training"),
    [
        ("RUN-LOSS-009", {}),
        ("RUN-HOST-003", {}),
        ("RUN-OVF-001", {"mixed_precision": "fp16"}),
        ("RUN-NAN-001", {"learning_rate": 1.0e-7}),
        ("RUN-TIME-001", {}),
        ("LOG-HCCL-001", {}),
    ],
)
def test_no_cure_is_better_than_a_guess(rule: str, training: dict[str, Any], tmp_path: Path) -> None:
    assert cure(rule, tmp_path, training) is None


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run folder with checkpoints of steps 5, 10 (not finite) and 15."""
    made = RunFolder(tmp_path / "out")
    made.create(False)
    for step in (5, 10, 15):
        value = np.nan if step == 10 else 1.0
        checkpoints.save(made.checkpoints, step, {"w": np.full(3, value, np.float32)}, {}, {})
    return made


def test_goes_back_to_the_last_sound_checkpoint_and_writes_it_down(folder: RunFolder, tmp_path: Path) -> None:
    run = config(tmp_path, {"mixed_precision": "O2", "loss_scale": FIXED})
    before = (tmp_path / "run.yaml").read_text()
    remedy = remedy_for(finding("RUN-NAN-001"), run, 2)
    assert remedy is not None
    done = intervene(1, finding("RUN-NAN-001"), remedy, run, folder, "safe")

    assert done.checkpoint is not None
    assert done.checkpoint.step == 5
    assert [item.step for item in checkpoints.whole(folder.checkpoints)] == [5]
    assert (tmp_path / "run.yaml").read_text() == before
    assert done.config.args.loss_scale is not None
    assert done.config.args.loss_scale.dynamic
    assert "-    type: FixedLossScaleUpdateCell" in done.diff
    assert "+    type: dynamic" in done.diff

    row = json.loads(folder.interventions.read_text())
    assert (row["step"], row["checkpoint"], row["config"]) == (12, "checkpoints/step-5", "config.fix-1.yaml")
    assert row["finding"]["rule"] == "RUN-NAN-001"
    assert row["edits"][1] == {"key": "training_args.loss_scale.drop_overflow_update", "old": False, "new": True}
    assert row["checkpoints_removed"] == [10, 15]


def test_without_a_sound_checkpoint_it_starts_again(folder: RunFolder, tmp_path: Path) -> None:
    run = config(tmp_path, {"max_grad_norm": 0})
    early = finding("RUN-NAN-001", step=3)
    remedy = remedy_for(early, run, 2)
    assert remedy is not None
    done = intervene(1, early, remedy, run, folder, "yes")
    assert (done.checkpoint, done.resume) == (None, "start")
    assert not checkpoints.whole(folder.checkpoints)
    assert not (folder.checkpoints / "latest").exists()


def test_a_remedy_that_spoils_nothing_goes_on_from_the_newest(folder: RunFolder, tmp_path: Path) -> None:
    remedy = Remedy(Text("", ""), {"train_dataset.num_parallel_workers": 2}, safe=True, back=NEWEST)
    done = intervene(1, finding("RUN-HOST-003"), remedy, config(tmp_path, {}), folder, "safe")
    assert done.checkpoint is not None
    assert done.checkpoint.step == 15


def test_the_users_own_text_is_edited_and_its_comments_stay(folder: RunFolder, tmp_path: Path) -> None:
    text = (
        "# our run\nmodel: llama  # small\ntraining_args:\n  mixed_precision: O2\n"
        "  loss_scale:  # by experience\n    type: fixed\n    loss_scale_value: 1048576\n    drop_overflow_update: false\n"
    )
    (tmp_path / "run.yaml").write_text(text)
    run = load_config(str(tmp_path / "run.yaml"))
    remedy = remedy_for(finding("RUN-NAN-001"), run, 2)
    assert remedy is not None
    intervene(1, finding("RUN-NAN-001"), remedy, run, folder, "safe")
    expected = text.replace("type: fixed", "type: dynamic").replace("update: false", "update: true")
    expected = expected.replace("1048576", "65536")
    assert (folder.root / "config.fix-1.yaml").read_text() == expected


def test_a_setting_that_is_not_there_yet_is_added(folder: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("# ours\nmodel: llama\ntraining_args:\n  seed: 1\n")
    run = load_config(str(tmp_path / "run.yaml"))
    remedy = remedy_for(finding("RUN-LOSS-001"), run, 2)
    assert remedy is not None
    done = intervene(1, finding("RUN-LOSS-001"), remedy, run, folder, "yes")
    assert done.config.args.skip_steps == (12,)
    assert done.config.args.seed == 1


@pytest.mark.parametrize(
    ("rule", "training", "edits"),
    [
        ("RUN-LR-001", {"learning_rate": 0}, {"training_args.learning_rate": 3e-4}),
        ("RUN-LOSS-007", {"lr_end": 0, "learning_rate": 1e-9}, {"training_args.learning_rate": 3e-4}),
        ("RUN-LOSS-007", {"max_grad_norm": 1e-9}, {"training_args.max_grad_norm": 1.0}),
        ("RUN-LOSS-006", {"weight_decay": 10}, {"training_args.weight_decay": 0.1}),
        ("RUN-LOSS-007", {"learning_rate": 0.3}, {"training_args.learning_rate": 1e-3}),
        ("RUN-LOSS-003", {"adam_beta2": 0.0}, {"training_args.adam_beta2": 0.95}),
        ("CFG-OPT-003", {"adam_beta2": 0.9999999}, {"training_args.adam_beta2": 0.95}),
        ("RUN-LOSS-007", {"adam_beta1": 0.9999}, {"training_args.adam_beta1": 0.9}),
        ("CFG-OPT-005", {"adam_epsilon": 0.5}, {"training_args.adam_epsilon": 1e-8}),
        ("CFG-LRS-002", {"warmup_steps": 900, "max_steps": 100}, {"training_args.warmup_steps": 5}),
        # no clipping saves a rate at which Adam moves every weight by a tenth
        (
            "RUN-GRAD-002",
            {"learning_rate": 0.1, "max_grad_norm": 0},
            {"training_args.learning_rate": 1e-3, "training_args.max_grad_norm": 1.0},
        ),
    ],
)
def test_a_run_that_cannot_learn_gets_what_is_usual(
    rule: str, training: dict[str, Any], edits: dict[str, Any], tmp_path: Path
) -> None:
    remedy = cure(rule, tmp_path, training)
    assert (dict(remedy.edits), remedy.safe) == (edits, False)


@pytest.mark.parametrize("rule", ["CFG-OPT-003", "CFG-OPT-005", "CFG-LRS-002", "RUN-MON-002"])
def test_settings_that_are_only_unusual_stay(rule: str, tmp_path: Path) -> None:
    unusual = {"adam_beta1": 0.95, "adam_beta2": 0.999, "adam_epsilon": 1e-5, "warmup_steps": 50, "max_steps": 100}
    assert cure(rule, tmp_path, unusual) is None


JSON = {"data_loader": {"type": "Json", "path": "a.jsonl"}}


@pytest.mark.parametrize(
    ("rule", "training", "dataset", "edits", "safe"),
    [
        ("DAT-LBL-002", {}, {}, {"train_dataset.shift_labels": "back"}, True),
        ("DAT-LBL-002", {}, {"shift_labels": "back"}, None, True),
        ("RUN-LOSS-007", {"mixed_precision": "O3"}, {}, {"training_args.mixed_precision": "O2"}, True),
        ("DAT-COL-001", {}, JSON, {"train_dataset.data_loader.bad_rows": "skip"}, False),
        ("DAT-COL-001", {}, {"data_loader": {"type": "Text", "path": "a.txt"}}, None, False),
        ("CFG-PRC-002", {"mixed_precision": "bf16"}, {}, {"training_args.mixed_precision": "O0"}, True),
        ("CFG-RUN-004", {"eval_steps": 5}, {}, {"training_args.eval_steps": 0}, True),
        ("CFG-OPT-015", {"optimizer_offload": True}, {}, {"training_args.optimizer_offload": False}, True),
        ("CFG-LRS-004", {"warmup_ratio": 1.0}, {}, {"training_args.warmup_ratio": 0.05}, False),
        ("CFG-LRS-004", {"warmup_ratio": 0.4}, {}, None, False),
        (
            "CFG-LRS-002",
            {"warmup_steps": 900},
            {},
            {"training_args.warmup_steps": 0, "training_args.warmup_ratio": 0.05},
            False,
        ),
        (
            "RUN-MON-001",
            {"mixed_precision": "O2", "loss_scale": 1e-4},
            {},
            {"training_args.loss_scale": "dynamic"},
            True,
        ),
        (
            "RUN-MON-001",
            {"mixed_precision": "O2", "loss_scale": {"type": "dynamic", "init_loss_scale": 1e-4}},
            {},
            {"training_args.loss_scale.init_loss_scale": 65536},
            True,
        ),
        (
            "RUN-MON-001",
            {"mixed_precision": "O2", "loss_scale": {"type": "fixed", "loss_scale_value": 1e-4}},
            {},
            {"training_args.loss_scale.type": "dynamic", "training_args.loss_scale.loss_scale_value": 65536},
            True,
        ),
        (
            "CFG-PRC-004",
            {"mixed_precision": "O2", "loss_scale": 1.0},
            {},
            {"training_args.loss_scale": "dynamic"},
            True,
        ),
    ],
)
def test_what_is_refused_or_lost_before_it_begins_has_a_cure_too(
    rule: str,
    training: dict[str, Any],
    dataset: dict[str, Any],
    edits: Optional[dict[str, Any]],
    safe: bool,
    tmp_path: Path,
) -> None:
    remedy = cure(rule, tmp_path, training, dataset)
    assert (remedy and (dict(remedy.edits), remedy.safe)) == (edits and (edits, safe))


@pytest.mark.parametrize(("spread", "expected"), [(0.0, 0.02), (5.0, 0.02), (0.02, None), (0.1, None)])
def test_weights_that_begin_nowhere_or_too_far_away(spread: float, expected: Optional[float], tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({"model": {"type": "llama", "initializer_range": spread}}))
    remedy = remedy_for(finding("CFG-MOD-017"), load_config(str(path)), 2)
    narrow = {"type": "llama", "hidden_size": 64, "num_attention_heads": 2, "initializer_range": spread}
    path.write_text(yaml.safe_dump({"model": narrow}))
    wider = remedy_for(finding("CFG-MOD-017"), load_config(str(path)), 2)
    assert (wider and dict(wider.edits)) == (expected and {"model.initializer_range": 0.079})
    assert (remedy and dict(remedy.edits)) == (expected and {"model.initializer_range": expected})


def test_a_loss_that_never_falls_at_usual_settings_has_no_cure(tmp_path: Path) -> None:
    assert cure("RUN-LOSS-007", tmp_path, {}) is None


@pytest.mark.parametrize("category", ["oom-device", "oom-host", "memory-host"])
def test_whatever_rule_tells_of_memory_it_is_recompute_then_half_the_batch(category: str, tmp_path: Path) -> None:
    told = finding("LOG-XYZ-001").with_(category=category)
    first = remedy_for(told, config(tmp_path, {}), cores=2)
    then = remedy_for(told, config(tmp_path, {"recompute": True, "batch_size": 8}), cores=2)
    assert first is not None and then is not None
    assert dict(first.edits) == {"training_args.recompute": True}
    assert dict(then.edits) == {"training_args.batch_size": 4, "training_args.gradient_accumulation_steps": 2}


def learnt(folder: RunFolder, losses: list[float]) -> None:
    """Checkpoints at every tenth step of a run with these losses."""
    rows = [{"event": "metric", "global_step": step, "loss": loss} for step, loss in enumerate(losses, 1)]
    folder.metrics().write_text("".join(json.dumps(row) + "\n" for row in rows))
    for step in range(10, len(losses) + 1, 10):
        weights = {"w": np.ones(2, np.float32)}
        checkpoints.save(folder.checkpoints, step, weights, {"m.w": np.zeros(2, np.float32)}, {})


def gone_back_to(tmp_path: Path, losses: list[float], back: str, onset: int) -> Optional[int]:
    folder = RunFolder(tmp_path / "out")
    folder.create(False)
    learnt(folder, losses)
    remedy = Remedy(Text("", ""), {"training_args.learning_rate": 1e-3}, safe=False, back=back)
    done = intervene(1, finding("RUN-LOSS-003", onset), remedy, config(tmp_path, {}), folder, "yes")
    return done.checkpoint.step if done.checkpoint is not None else None


FELL_THEN_ROSE = [4 - 0.04 * step for step in range(60)] + [1.6 + 0.05 * step for step in range(40)]
NEVER_FELL = [4.0] * 10 + [3.2] * 10 + [3.3] * 80


@pytest.mark.parametrize(
    ("losses", "back", "step"),
    [
        (FELL_THEN_ROSE, "sound", 80),
        (FELL_THEN_ROSE, BEST, 60),
        # at its best in the first fifth: what was learnt at that rate is not worth going back to
        (NEVER_FELL, BEST, None),
        (FELL_THEN_ROSE, NEWEST, 100),
        (FELL_THEN_ROSE, START, None),
    ],
)
def test_a_run_goes_back_to_where_its_weights_were_still_good(
    losses: list[float], back: str, step: Optional[int], tmp_path: Path
) -> None:
    assert gone_back_to(tmp_path, losses, back, onset=90) == step


def test_a_vocabulary_too_small_for_the_tokenizer_grows_to_hold_it(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    sizes = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 100}
    content = {"model": {"type": "llama", **sizes}, "train_dataset": {"tokenizer": "byte"}}
    path.write_text(yaml.safe_dump(content))
    remedy = remedy_for(finding("WGT-TOK-001"), load_config(str(path)), cores=2)
    assert remedy is not None
    assert (remedy.edits, remedy.safe, remedy.back) == ({"model.vocab_size": 320}, False, START)
    path.write_text(yaml.safe_dump({**content, "trainer": {"load_checkpoint": "weights"}}))
    assert remedy_for(finding("WGT-TOK-001"), load_config(str(path)), cores=2) is None, "its weights have a vocabulary"
    path.write_text(yaml.safe_dump({**content, "train_dataset": {"tokenizer": "not-there.json"}}))
    assert remedy_for(finding("WGT-TOK-001"), load_config(str(path)), cores=2) is None
