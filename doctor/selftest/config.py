"""Mistakes that people make in training configs, put into healthy ones: the rule and the line must be named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Optional

from doctor.check import Options
from doctor.examples import example
from doctor.finding import Finding
from doctor.runner import judge_path
from doctor.selftest.bases import LEGACY, MCORE, PYNATIVE
from doctor.selftest.trial import HEALTHY, Raised, Result, Room, Trial, worth_telling


@dataclass(frozen=True)
class Base:
    """A healthy config, the devices that it is written for and the release."""

    text: str
    devices: int
    release: Optional[str] = None


@dataclass(frozen=True)
class Slip:
    """One mistake: `line` stands once in the base, each of `instead` is a way to get it wrong. The evidence must name the
    line, or the one `below` it where a slip takes several."""

    kind: str
    base: str
    rules: tuple[str, ...]
    line: str
    instead: tuple[str, ...]
    below: int = 0


def bases() -> dict[str, Base]:
    """By name. The example that comes with the program is read from where it is installed."""
    packaged = example("tiny-llama")
    found = {
        "graph-1.3": Base(LEGACY, 8, "1.3.2"),
        "graph-1.8": Base(MCORE, 64, "1.8.0"),
        "pynative-2.1": Base(PYNATIVE, 16, "2.1.0"),
    }
    if packaged is not None:
        found["tiny-llama"] = Base(packaged.read_text(encoding="utf-8"), 1)
    return found


def _slip(kind: str, base: str, rules: str, line: str, *instead: str, below: int = 0) -> Slip:
    return Slip(kind, base, tuple(rules.split()), line, instead, below)


_OLD, _NEW, _LAZY, _OWN = "graph-1.3", "graph-1.8", "pynative-2.1", "tiny-llama"
_LOADED = "load_checkpoint: '/data/llama2_7b'"
_STRATEGY = "  dataset_strategy: [[4, 1], [4, 1], [4, 1], [4, 1]]"
SLIPS = (
    # sizes that must multiply and divide
    _slip("parallel-product", _OLD, "CFG-PAR-001", "  data_parallel: 2", *(f"  data_parallel: {n}" for n in (3, 4, 8))),
    _slip("heads", _OLD, "CFG-MOD-001 CFG-PAR-003", "    num_heads: 32", "    num_heads: 31", "    num_heads: 33"),
    _slip("kv-heads", _OLD, "CFG-MOD-002", "    n_kv_heads: 8", "    n_kv_heads: 6", "    n_kv_heads: 12"),
    _slip("layers-by-stages", _OLD, "CFG-PIP-003", "    num_layers: 32", "    num_layers: 31", "    num_layers: 33"),
    _slip("micro-batches", _OLD, "CFG-PIP-001", "  micro_batch_num: 8", "  micro_batch_num: 1"),
    _slip("stage-offsets", _OLD, "CFG-PIP-004", "    offset: 0", "    offset: [1, 2]", "    offset: [3, -1]"),
    _slip("sequence-by-context", _OLD, "CFG-SEQ-005", "  use_seq_parallel: True", "  context_parallel: 3"),
    _slip("experts", _NEW, "CFG-MOE-001 CFG-MOE-002", "  expert_parallel: 8", "  expert_parallel: 7"),
    _slip("chosen-experts", _NEW, "CFG-MOE-003", "    num_experts_per_tok: 8", "    num_experts_per_tok: 300"),
    _slip("batch-arithmetic", _LAZY, "CFG-BAT-005", "  global_batch_size: 32", *(f"  global_batch_size: {n}" for n in (7, 30, 33))),
    _slip("data-strategy", _NEW, "CFG-DAT-002", _STRATEGY, _STRATEGY.replace("4, 1", "8, 1")),
    _slip("data-strategy-length", _NEW, "CFG-DAT-001", _STRATEGY, "  dataset_strategy: [[4, 1], [4, 1]]"),
    _slip("own-heads", _OWN, "CFG-MOD-001", "  num_attention_heads: 4", "  num_attention_heads: 3", "  num_attention_heads: 5"),
    # kinds of values
    _slip("rate-is-text", _OLD, "CFG-TYP-001", "  learning_rate: 1.e-5", "  learning_rate: 1e-5", "  learning_rate: 3e-4"),
    _slip("epsilon-is-text", _OLD, "CFG-TYP-001", "  eps: 1.e-8", "  eps: 1e-8", "  eps: 1E-6"),
    _slip("own-rate-is-text", _OWN, "CFG-TYP-001", "  learning_rate: 3.0e-3", "  learning_rate: 3e-3"),
    _slip("flag-is-text", _OLD, "CFG-TYP-004", "  recompute: False", "  recompute: 'False'", '  recompute: "True"'),
    _slip("count-is-word", _OLD, "CFG-TYP-002", "  epochs: 2", "  epochs: two"),
    # names
    _slip("unknown-key", _OLD, "CFG-KEY-001", "  micro_batch_num: 8", "  micro_batch_nums: 8", "  micro_bath_num: 8"),
    _slip("unknown-section", _OLD, "CFG-KEY-002", "runner_config:", "runer_config:", "runner_confg:"),
    _slip("unknown-model-key", _OLD, "CFG-KEY-004", "    num_layers: 32", "    num_layer: 32"),
    _slip("unknown-pynative-key", _LAZY, "CFG-KEY-009", "  local_batch_size: 1", "  local_batchsize: 1"),
    _slip("unknown-own-key", _OWN, "CFG-KEY-014", "  per_device_train_batch_size: 8", "  per_device_train_batchsize: 8"),
    _slip("unknown-own-model", _OWN, "CFG-KEY-015", "  type: llama", "  type: lama"),
    _slip("unknown-optimizer", _OLD, "CFG-REG-001", "  type: AdamW", "  type: AdmaW"),
    _slip("unknown-schedule", _OLD, "CFG-REG-001", "  type: CosineWithWarmUpLR", "  type: CosineWithWarmupLR"),
    _slip("unknown-callback", _OLD, "CFG-REG-001", "  - type: MFLossMonitor", "  - type: MFLosMonitor"),
    # the text itself
    _slip("duplicate-key", _OLD, "CFG-YML-003", "  model_parallel: 2", "  model_parallel: 2\n  data_parallel: 2", below=1),
    _slip("indentation", _OLD, "CFG-YML-010", "  pipeline_stage: 2", "   pipeline_stage: 2", " pipeline_stage: 2"),
    _slip("tab", _OLD, "CFG-YML-002", "  pipeline_stage: 2", "\tpipeline_stage: 2"),
    _slip("no-blank-after-colon", _OLD, "CFG-YML-010", "  pipeline_stage: 2", "  pipeline_stage:2"),
    # words of closed sets
    _slip("run-mode", _OLD, "CFG-RUN-002", "run_mode: 'finetune'", "run_mode: 'finetun'", "run_mode: 'trian'"),
    _slip("parallel-mode", _OLD, "CFG-PAR-009", "  parallel_mode: 1", "  parallel_mode: 5"),
    _slip("device-target", _OLD, "CFG-CTX-002", '  device_target: "Ascend"', '  device_target: "NPU"', '  device_target: "ascend"'),
    _slip("device-memory", _OLD, "CFG-CTX-005", '  max_device_memory: "58GB"', '  max_device_memory: "58G"'),
    _slip("compile-level", _OLD, "CFG-CTX-009", '    jit_level: "O1"', '    jit_level: "O9"', '    jit_level: "01"'),
    _slip("activation", _NEW, "CFG-MOD-022", '    hidden_act: "silu"', '    hidden_act: "sliu"'),
    # precision
    _slip("unknown-precision", _OLD, "CFG-PRC-001", '    compute_dtype: "bfloat16"', '    compute_dtype: "flaot16"'),
    _slip("fp16-without-scale", _OLD, "CFG-PRC-004", '    compute_dtype: "bfloat16"', '    compute_dtype: "float16"'),
    _slip("own-precision-level", _OWN, "CFG-PRC-011", "  mixed_precision: O0", "  mixed_precision: O5"),
    # ranges
    _slip("learning-rate", _OLD, "CFG-OPT-007", "  learning_rate: 1.e-5", "  learning_rate: 1.0", "  learning_rate: 0.5"),
    _slip("end-rate", _OLD, "CFG-LRS-001", "  lr_end: 0.0", "  lr_end: 1.e-4"),
    _slip("warm-up", _OLD, "CFG-LRS-003", "  warmup_ratio: 0.03", "  warmup_ratio: 30", "  warmup_ratio: -0.1"),
    _slip("beta", _OLD, "CFG-OPT-001", "  betas: [0.9, 0.95]", "  betas: [0.9, 1.5]", "  betas: [0.9, 1.0]"),
    _slip("workers", _OLD, "CFG-DAT-005", "  num_parallel_workers: 8", "  num_parallel_workers: 0"),
    _slip("sink-size", _OLD, "CFG-DAT-010", "  sink_size: 2", "  sink_size: 0", "  sink_size: -2"),
    _slip("own-steps", _OWN, "CFG-RUN-001", "  max_steps: 100", "  max_steps: -100"),
    _slip("model-size", _LAZY, "CFG-MOD-005", "  num_hidden_layers: 16", "  num_hidden_layers: 0"),
    # tokens, lengths, weights, checkpoints
    _slip("token-id", _OLD, "CFG-MOD-006", "    eos_token_id: 2", "    eos_token_id: 32002"),
    _slip("positions", _OLD, "CFG-MOD-003", "    max_position_embedding: 4096", "    max_position_embedding: 2048"),
    _slip("missing-weights", _OLD, "CFG-CKP-003", _LOADED, "load_checkpoint: ''"),
    _slip("save-every-step", _OLD, "CFG-CKP-005", "    save_checkpoint_steps: 500", "    save_checkpoint_steps: 1"),
    _slip("kept-checkpoints", _OLD, "CFG-CKP-006", "    keep_checkpoint_max: 3", "    keep_checkpoint_max: 0"),
    _slip("checkpoint-form", _NEW, "CFG-CKP-011", '    checkpoint_format: "safetensors"', '    checkpoint_format: "ckpt"'),
)  # fmt: skip
_BY_KIND = {slip.kind: slip for slip in SLIPS}


def trials(seed: int, runs: int = 1) -> Iterator[Trial]:
    """Each way of each mistake, and each base as it is. Nothing is drawn."""
    known = bases()
    for slip in SLIPS:
        yield from (Trial("config", slip.kind, str(number), seed) for number in range(len(slip.instead)))
    yield from (Trial("config", HEALTHY, name, seed) for name in known)


def perform(trial: Trial, room: Room) -> list[Result]:
    """Checks one config as ``doctor check CONFIG`` does."""
    if trial.kind == HEALTHY:
        raised = _judge(bases()[trial.case], None, room)
        return [Result(trial, alarms=tuple(Raised.of(finding) for finding in raised if worth_telling(finding)))]
    slip = _BY_KIND[trial.kind]
    base = bases().get(slip.base)
    if base is None:
        return [Result(trial, slip.rules, False, instead=(f"the example {slip.base} is not installed",))]
    before, found, after = f"\n{base.text}".partition(f"\n{slip.line}\n")
    assert found, f"{slip.line!r} stands in {slip.base}"
    line = before.count("\n") + 1 + slip.below
    raised = _judge(base, f"{before[1:]}\n{slip.instead[int(trial.case)]}\n{after}", room)
    hits = [finding for finding in raised if finding.rule in slip.rules and worth_telling(finding)]
    named = any(item.line == line for finding in hits for item in finding.evidence)
    instead = () if named else tuple(f"{item.rule} at line {item.place and item.place.line}" for item in raised)
    return [Result(trial, slip.rules, named, instead=instead)]


def _judge(base: Base, text: Optional[str], room: Room) -> list[Finding]:
    path = room.folder / "train.yaml"
    path.write_text(base.text if text is None else text, encoding="utf-8")
    judged = judge_path(path, Options(devices=base.devices, mindformers=base.release))
    for outcome in judged.outcomes:
        if outcome.state == "crashed" and outcome.reason is not None:
            raise RuntimeError(f"{outcome.rule}: {outcome.reason.en}")
    return [finding for outcome in judged.outcomes for finding in outcome.findings]
