"""What the planted faults share: tiny models of every family in several forms, and what counts as right.

A case is a fault that a user could have, with the rules that may name it, written down before anything was run.
Right: one of these rules is raised as a warning or an error, and none besides them and `also` (consequences that may
be said too). Silent: nothing is raised. Wrong: anything else. A healthy case must raise nothing.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import numpy as np
from safetensors.numpy import save_file

TESTS = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "formats"), str(TESTS / "checks" / "weights")]

from official import (  # noqa: E402
    Shapes,
    bloom_hf,
    bloom_mindformers,
    chatglm,
    chatglm2,
    deepseek_hf,
    gpt2_hf,
    gpt2_mindformers,
    llama_hf,
    llama_mindformers,
    mcore,
    mcore_moe,
    qwen_hf,
    qwen_mindformers,
)
from weight_files import ckpt_value  # noqa: E402

from doctor.check import Options  # noqa: E402
from doctor.errors import UsageError  # noqa: E402
from doctor.runner import judge_path  # noqa: E402

Tensors = dict[str, np.ndarray]
LAYERS = 5
_USUAL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": LAYERS, "num_attention_heads": 4,
          "num_key_value_heads": 2, "vocab_size": 61, "tie_word_embeddings": False}  # fmt: skip
_S = (61, 32, 48, 4, 2, 8, LAYERS)
_DEEPSEEK = {
    "v": 61,
    "h": 32,
    "f": 40,
    "m": 12,
    "a": 4,
    "dense": 1,
    "q": 10,
    "kv": 14,
    "rope": 4,
    "nope": 6,
    "value": 5,
}

#: Hugging Face models: config.json, names and shapes.
HUGGINGFACE: dict[str, tuple[dict[str, Any], Shapes]] = {
    "llama": ({"model_type": "llama", **_USUAL}, llama_hf(*_S)),
    "qwen2": ({"model_type": "qwen2", **_USUAL}, llama_hf(*_S, bias=True)),
    "qwen3": ({"model_type": "qwen3", **_USUAL, "head_dim": 16}, llama_hf(61, 32, 48, 4, 2, 16, LAYERS, norm=True)),
    "qwen": (
        {"model_type": "qwen", "hidden_size": 32, "intermediate_size": 96, "num_hidden_layers": LAYERS,
         "num_attention_heads": 4, "kv_channels": 8, "vocab_size": 61},
        qwen_hf(61, 32, 48, LAYERS),
    ),
    "chatglm2": (
        {"model_type": "chatglm", "hidden_size": 32, "num_layers": LAYERS, "num_attention_heads": 4, "kv_channels": 8,
         "multi_query_group_num": 2, "multi_query_attention": True, "ffn_hidden_size": 48, "padded_vocab_size": 64},
        chatglm2(64, 32, 48, 4, 2, 8, LAYERS),
    ),
    "chatglm": (
        {"model_type": "chatglm", "hidden_size": 32, "num_layers": LAYERS, "num_attention_heads": 4,
         "inner_hidden_size": 128, "vocab_size": 64, "position_encoding_2d": True},
        chatglm(64, 32, 128, LAYERS),
    ),
    "bloom": (
        {"model_type": "bloom", "hidden_size": 32, "n_layer": LAYERS, "n_head": 4, "vocab_size": 61},
        bloom_hf(61, 32, LAYERS),
    ),
    "gpt2": (
        {"model_type": "gpt2", "n_embd": 32, "n_layer": LAYERS, "n_head": 4, "vocab_size": 61, "n_positions": 40},
        gpt2_hf(61, 40, 32, LAYERS),
    ),
    "deepseek_v3": (
        {"model_type": "deepseek_v3", **_USUAL, "intermediate_size": 40, "moe_intermediate_size": 12,
         "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1, "q_lora_rank": 10,
         "kv_lora_rank": 14, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6, "v_head_dim": 5,
         "num_nextn_predict_layers": 1, "topk_method": "noaux_tc"},
        deepseek_hf(LAYERS, 1, 4, _DEEPSEEK),
    ),
}  # fmt: skip
#: MindFormers' own names, for training configs.
MINDFORMERS: dict[str, Shapes] = {
    "llama": llama_mindformers(*_S),
    "qwen2": llama_mindformers(*_S, bias=True),
    "qwen": qwen_mindformers(61, 32, 48, LAYERS),
    "chatglm2": chatglm2(64, 32, 48, 4, 2, 8, LAYERS, True),
    "chatglm": chatglm(64, 32, 128, LAYERS, True),
    "bloom": bloom_mindformers(61, 32, LAYERS),
    "gpt2": gpt2_mindformers(61, 40, 32, LAYERS),
}
MCORE: dict[str, Shapes] = {
    "llama": mcore(*_S),
    "qwen2": mcore(*_S, bias=True),
    "qwen3": mcore(61, 32, 48, 4, 2, 16, LAYERS, norm=True),
    "qwen3_moe": mcore_moe(61, 32, 48, 4, 2, 8, LAYERS, 4),
}
LEGACY_YAML = """\
use_legacy: True
trainer: {{type: CausalLanguageModelingTrainer, model_name: llama2_7b}}
runner_config: {{epochs: 1, batch_size: 1, sink_mode: False}}
parallel_config: {{data_parallel: 1, model_parallel: 1, pipeline_stage: 1}}
model:
  model_config: {{type: LlamaConfig, seq_length: 64, hidden_size: {hidden}, num_layers: {layers}, num_heads: 4, n_kv_heads: {groups}, intermediate_size: {feed}, vocab_size: {vocabulary}{extra}}}
  arch: {{type: LlamaForCausalLM}}
"""


def legacy_yaml(folder: Path, extra: str = "", **sizes: int) -> str:
    fields: dict[str, Any] = {"hidden": 32, "layers": LAYERS, "groups": 2, "feed": 48, "vocabulary": 61, **sizes}
    path = folder.parent / f"{folder.name}.yaml"
    path.write_text(LEGACY_YAML.format(extra=extra, **fields))
    return str(path)


@dataclass
class Case:
    """`rules` are those that may name the fault; empty for a healthy case."""

    kind: str
    build: Callable[[Path, random.Random], Optional[dict[str, Any]]]
    rules: frozenset[str]
    also: frozenset[str] = frozenset()
    times: int = 1


@dataclass
class Outcome:
    """right, silent, wrong; and what was raised."""

    case: Case
    verdict: str
    raised: tuple[str, ...]


@dataclass
class Collection:
    """Cases of one round, gathered by decorators."""

    cases: list[Case] = field(default_factory=list)

    def fault(self, kind: str, *rules: str, also: Sequence[str] = (), times: int = 1) -> Callable[[Any], Any]:
        def keep(build: Any) -> Any:
            self.cases.append(Case(kind, build, frozenset(rules), frozenset(also), times))
            return build

        return keep

    def healthy(self, kind: str, times: int = 1) -> Callable[[Any], Any]:
        return self.fault(kind, times=times)


def judge(case: Case, folder: Path, rng: random.Random) -> Outcome:
    """Builds a case and looks at what is raised. `build` gives {"path": …} or options when others than usual."""
    folder.mkdir(parents=True)
    said = case.build(folder, rng) or {}
    path = Path(said.pop("path", folder))
    try:
        judged = judge_path(path, Options(**said))
    except UsageError as error:
        return Outcome(case, "silent", (f"refused: {error}",))
    crashed = [outcome for outcome in judged.outcomes if outcome.state == "crashed"]
    assert not crashed, (case.kind, crashed)
    raised = sorted({f.rule for outcome in judged.outcomes for f in outcome.findings if f.severity.rank >= 1})
    if not raised:
        verdict = "silent" if case.rules else "right"
    elif case.rules & set(raised) and set(raised) <= case.rules | case.also:
        verdict = "right"
    else:
        verdict = "wrong"
    return Outcome(case, verdict, tuple(raised))


def run(cases: Sequence[Case], folder: Path, seed: int) -> list[Outcome]:
    """Every case as often as it says, each with numbers of its own."""
    found = []
    for order, case in enumerate(cases):
        for turn in range(case.times):
            rng = random.Random(f"{seed}/{case.kind}/{turn}")
            found.append(judge(case, folder / f"{order:03d}-{turn}", rng))
    return found


# Models ---------------------------------------------------------------------------------------------------


def values_of(shapes: Shapes, seed: int = 0, dtype: str = "float32") -> Tensors:
    """Values as trained models have them: norms near 1, matrices of slowly changing sizes."""
    rng = np.random.default_rng(seed)
    found: Tensors = {}
    for order, (name, shape) in enumerate(shapes.items()):
        array = rng.standard_normal(shape) * (0.03 + 0.02 * np.sin(order))
        if len(shape) == 1 and name.endswith(("weight", "gamma")) and ("norm" in name or "ln_" in name):
            array = 1 + array
        found[name] = array.astype(dtype)
    for name in found:
        if name.endswith("shared_head.head.weight"):
            found[name] = found["lm_head.weight"].copy()
        elif name.startswith("model.layers.") and name.endswith("embed_tokens.weight"):
            found[name] = found["model.embed_tokens.weight"].copy()
    return found


def pick(rng: random.Random, *families: str) -> tuple[dict[str, Any], Tensors]:
    """The config and the tensors of one of these families (of all when none is named)."""
    family = rng.choice(families or tuple(HUGGINGFACE))
    config, shapes = HUGGINGFACE[family]
    return dict(config), values_of(shapes, rng.randrange(1000))


def matrices(tensors: Tensors, layer: Optional[int] = None) -> list[str]:
    """Names of rectangular matrices inside a layer (all layers when none is given)."""
    return [
        name
        for name, array in tensors.items()
        if array.ndim == 2 and array.shape[0] != array.shape[1] and is_in_layer(name, layer)
    ]


def is_in_layer(name: str, layer: Optional[int] = None) -> bool:
    from doctor.formats.layers import is_buffer, place

    at = place(name).layer
    return at is not None and (layer is None or at == layer) and not is_buffer(name)


def write(folder: Path, config: Optional[dict[str, Any]], tensors: Tensors, name: str = "model.safetensors") -> Path:
    """config.json (unless None) and the weights, in the form that the name says."""
    folder.mkdir(parents=True, exist_ok=True)
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config, indent=2))
    path = folder / name
    if name.endswith(".ckpt"):
        path.write_bytes(ckpt_bytes(tensors))
    else:
        save_file({key: np.ascontiguousarray(array) for key, array in tensors.items()}, path, {"format": "pt"})
    return path


_MS = {"float32": "Float32", "float16": "Float16", "int32": "Int32", "int64": "Int64", "float64": "Float64",
       "int8": "Int8"}  # fmt: skip


def ckpt_bytes(tensors: Tensors) -> bytes:
    return b"".join(
        ckpt_value(name, _MS[str(array.dtype)], array.shape, np.ascontiguousarray(array).tobytes())
        for name, array in tensors.items()
    )


def sharded(
    folder: Path, config: Optional[dict[str, Any]], tensors: Tensors, count: int = 3
) -> tuple[list[Path], dict[str, Any]]:
    """Shards in the order of the names, and the index that was written."""
    names = list(tensors)
    per = -(-len(names) // count)
    files, table = [], {}
    for number in range(count):
        file = f"model-{number + 1:05d}-of-{count:05d}.safetensors"
        mine = names[number * per : (number + 1) * per]
        files.append(write(folder, config, {name: tensors[name] for name in mine}, file))
        table.update(dict.fromkeys(mine, file))
    index = {"metadata": {"total_size": sum(array.nbytes for array in tensors.values())}, "weight_map": table}
    write_index(folder, index)
    return files, index


def write_index(folder: Path, index: dict[str, Any]) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
