"""From a plan to what the arithmetic needs: the shape of the model, the layout of the run, the size of the card."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Optional

from doctor.escape import visible
from doctor.finding import Text
from doctor.plan.arithmetic import data_parallel, rows
from doctor.plan.memory.advise import Keys
from doctor.plan.memory.families import traits
from doctor.plan.memory.layout import BYTES, Layout
from doctor.plan.memory.shape import Experts, Latent, ModelShape, llama_ffn
from doctor.plan.plan import Dialect, Plan
from doctor.plan.value import Value

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(MB|GB|M|G)\s*", re.IGNORECASE)


#: no model or cluster comes near these; beyond them the arithmetic would count for hours
_MOST_LAYERS = 10_000
_MOST = 10**9
_CORRECT = Text("Correct that line.", "请改正该行。")


class NotKnown(Exception):
    """A size that the file does not hold and nothing implies, or that is no size; `reason` names it."""

    def __init__(self, reason: Text, todo: Optional[Text] = None) -> None:
        super().__init__(reason.en)
        self.reason = reason
        self.todo = todo or Text("Give it in the file.", "请在文件中给出。")


def shape_of(plan: Plan) -> ModelShape:
    """The model of a plan. Raises NotKnown naming what is missing."""
    model = plan.model
    known = traits(_kind(plan))
    if known is None:
        family = model.family
        if not family:
            raise NotKnown(
                Text("the file names no model", "文件中没有写明模型"),
                Text("Give model_config.type or model_type.", "请写出 model_config.type 或 model_type。"),
            )
        raise NotKnown(
            Text(f"the structure of model family {family!r} is not known here", f"不了解模型系列 {family!r} 的结构")
        )
    layers, hidden, heads, vocabulary = (
        _needed(model.layers, _MOST_LAYERS),
        _needed(model.hidden),
        _needed(model.heads),
        _needed(model.vocabulary),
    )
    details = dict(known)
    learned = details.pop("learned_positions", False)
    tied = model.field("tie_word_embeddings").flag
    if tied is not None:
        details["tied"] = tied
    if model.field("add_qkv_bias").flag is not None:
        details["qkv_bias"] = model.field("add_qkv_bias").on
        if plan.dialect is Dialect.HUGGINGFACE and model.family.startswith(_BIAS_ON_ALL):
            details["output_bias"] = model.field("add_qkv_bias").on
    if model.family == "glm4" and plan.dialect is not Dialect.LEGACY:
        details["norms_per_layer"] = 4  # GLM-4-0414 normalises what attention and MLP give, too
    if model.field("qk_layernorm").flag is not None:
        details["qk_norm"] = model.field("qk_layernorm").on
    sequence = model.sequence.count or model.positions.count or 1024
    return ModelShape(
        layers=layers,
        hidden=hidden,
        heads=heads,
        vocabulary=vocabulary,
        ffn=_ffn(plan, hidden, bool(details.get("gated", True))),
        family=model.family,
        kv_heads=_kv_heads(plan),
        head_size=model.field("kv_channels").count,
        positions=(model.positions.count or sequence) if learned else 0,
        experts=_experts(plan, hidden),
        latent=_latent(plan),
        mtp_layers=max(0, model.field("mtp_num_layers").whole or 0),
        **details,
    )


#: families whose attention_bias is one for the output projection as well (transformers)
_BIAS_ON_ALL = ("llama", "qwen3")


def _kind(plan: Plan) -> str:
    """The name under which the structure is known. Hugging Face calls all generations of ChatGLM "chatglm"; from the
    second on the queries share key and value heads, and its GLM-4 is a "glm" that does so too."""
    model = plan.model
    if model.family == "chatglm" and model.section.get("multi_query_attention").given:
        return "chatglm2"
    return "glm4" if model.family == "glm" and model.kv_heads.given else model.family


def _needed(value: Value, most: int = _MOST) -> int:
    count = _sound(value, most).count
    if count is None:
        raise NotKnown(Text(f"{value.key or value.name} is not in the file", f"文件中没有 {value.key or value.name}"))
    return count


def _sound(value: Value, most: int = _MOST) -> Value:
    """The value itself. Raises NotKnown with its line when it stands in the file and is no number above zero (with
    a default in its place the figures would be those of another run) or larger than `most`."""
    line = value.location.line
    if (value.count or 0) > most:
        raise NotKnown(
            Text(
                f"line {line}: {value.key} is larger than {most:,}, which no run has",
                f"第 {line} 行：{value.key} 大于 {most:,}，不合常理",
            ),
            _CORRECT,
        )
    if value.given and value.value is not None and value.count is None:
        raw = "" if value.raw is None else visible(value.raw, 40)
        shown = Text(raw or "a section", raw or "一个配置段")
        raise NotKnown(
            Text(
                f"line {line}: {value.key} is {shown.en}, not a whole number above zero",
                f"第 {line} 行：{value.key} 是 {shown.zh}，不是正整数",
            ),
            _CORRECT,
        )
    return value


def _kv_heads(plan: Plan) -> Optional[int]:
    groups = plan.model.kv_heads.count
    if plan.model.field("multi_query_attention").on or plan.model.field("multi_query_group_num").given:
        return plan.model.field("multi_query_group_num").count or groups
    return groups


def _ffn(plan: Plan, hidden: int, gated: bool) -> int:
    stated = plan.model.ffn.count
    if stated is not None:
        # the first Qwen writes the size of gate and up together
        return stated // 2 if plan.model.family == "qwen" and stated > 4 * hidden else stated
    if not gated:
        return hidden * (plan.model.field("expand_ratio").count or 4)
    multiplier = plan.model.field("ffn_dim_multiplier").number
    return llama_ffn(hidden, plan.model.field("multiple_of").count or 256, float(multiplier) if multiplier else None)


def _experts(plan: Plan, hidden: int) -> Optional[Experts]:
    model = plan.model
    total = model.experts.count
    if total is None or total < 2:
        return None
    ffn = model.field("moe_ffn_hidden_size").count or model.ffn.count or 4 * hidden
    # Qwen2-MoE's own name, with a gate on the shared expert
    qwen = model.section.get("shared_expert_intermediate_size").count
    return Experts(
        total=total,
        chosen=model.field("moe_router_topk").count or 1,
        ffn=ffn,
        shared=model.field("shared_expert_num").count or 0,
        shared_ffn=model.field("moe_shared_expert_intermediate_size").count or qwen,
        dense_layers=model.field("first_k_dense_replace").count or 0,
        bias=model.field("moe_router_enable_expert_bias").on,
        shared_gate=model.field("use_shared_expert_gating").on or qwen is not None,
    )


def _latent(plan: Plan) -> Optional[Latent]:
    model = plan.model
    rank = model.field("kv_lora_rank").count
    if rank is None:
        return None
    return Latent(
        kv_rank=rank,
        nope_dim=model.field("qk_head_dim").count or 128,
        rope_dim=model.field("qk_pos_emb_head_dim").count or 64,
        value_dim=model.field("v_head_dim").count or 128,
        q_rank=model.field("q_lora_rank").count,
    )


def layout_of(plan: Plan, shape: ModelShape, *, batch: Optional[int] = None, sequence: Optional[int] = None) -> Layout:
    """How the plan spreads the model, with `batch` (sequences a device) and `sequence` (tokens) in place of the
    file's. Raises NotKnown when they are missing in both."""
    sequence = sequence or plan.model.sequence.count or plan.data.sequence.count or plan.model.positions.count
    if sequence is None:
        raise NotKnown(Text("the sequence length is not in the file", "文件中没有序列长度"))
    micro = batch or _sound(plan.batch.per_device).count
    if micro is None:
        raise NotKnown(Text("the batch size is not in the file", "文件中没有 batch size"))
    parallel = plan.parallel
    sizes = [
        plan.batch.accumulation,
        parallel.interleave,
        parallel.tensor,
        parallel.pipeline,
        parallel.context,
        parallel.expert,
        parallel.micro_batches,
    ]
    if plan.dialect is not Dialect.PYNATIVE:  # there -1 stands for all that is left
        sizes.append(parallel.data)
    for size in sizes:
        _sound(size)
    stages = parallel.pipeline.count or 1
    accumulation = plan.batch.accumulation.count or 1
    recompute, recomputed = _recompute(plan)
    compute = _bytes_of(plan.precision.compute, 2)
    offset = rows(parallel.offset)
    return Layout(
        sequence=sequence,
        micro_batch=micro,
        micro_batches=(parallel.micro_batches.count or 1) if stages > 1 else 1,
        accumulation=accumulation if stages == 1 else 1,
        data_parallel=data_parallel(plan) or 1,
        tensor_parallel=parallel.tensor.count or 1,
        pipeline_stages=min(stages, shape.layers),
        context_parallel=parallel.context.count or 1,
        expert_parallel=parallel.expert.count or 1,
        sequence_parallel=parallel.sequence.on,
        interleave=parallel.interleave.count or 1,
        offset=tuple(sum(column) for column in zip(*offset)) if offset else (),
        compute_bytes=compute,
        parameter_bytes=max(compute, _bytes_of(plan.precision.parameters, 4)),
        optimizer=_optimizer(plan),
        shard_optimizer=parallel.optimizer.on,
        shard_limit=parallel.optimizer_shard_size.count,
        offload_optimizer=plan.optimizer.offload.on,
        trained_parameters=_trained(plan, shape),
        flash_attention=plan.model.flash_attention.on or not plan.model.flash_attention.given,
        recompute=recompute,
        recomputed_layers=recomputed,
    )


def _bytes_of(value: Value, default: int) -> int:
    return BYTES.get(value.words.lower().replace("mstype.", ""), default)


def _recompute(plan: Plan) -> tuple[str, Optional[int]]:
    """full, select or none, and how many layers of a stage when the file lists them (the fewest count)."""
    full, select = plan.recompute.full, plan.recompute.select
    if full.on or full.words.lower() == "full":
        return "full", None
    counts = [item.whole for item in full.sequence if item.whole is not None]
    if counts and any(counts):
        return "full", min(counts)
    if select.on or select.is_mapping or any(item.on or item.count for item in select.sequence):
        return "select", None
    return "none", None


def _optimizer(plan: Plan) -> str:
    word = plan.optimizer.type.words.lower()
    if "sgd" in word:
        return "sgd"
    return "momentum" if word in {"momentum", "muon", "lion"} else "adamw"


def _trained(plan: Plan, shape: ModelShape) -> Optional[int]:
    """Parameters that an adapter trains: rank x (in + out) for each of four projections a layer; None without one."""
    adapter = plan.model.adapter
    if not adapter.given:
        return None
    rank = adapter.get("lora_rank").count or adapter.get("reduction_factor").count or 8
    return shape.layers * 4 * rank * 2 * shape.hidden


def keys_of(plan: Plan) -> Keys:
    """The names that the file at hand has for the settings that save memory."""
    if plan.dialect is Dialect.HUGGINGFACE:  # a model alone: the names of a training YAML
        return Keys()
    batch, parallel = plan.batch, plan.parallel
    pynative = plan.dialect is Dialect.PYNATIVE
    sequence = plan.model.sequence if plan.model.sequence.given or not plan.data.sequence.given else plan.data.sequence
    return Keys(
        recompute=f"{plan.recompute.full.key}: {'full' if pynative else 'True'}",
        batch=batch.per_device.key,
        accumulation=None if pynative else batch.accumulation.key,
        micro_batches=parallel.micro_batches.key,
        sequence=sequence.key,
        shard=f"{parallel.optimizer.key}: True",
    )


@dataclass(frozen=True)
class Card:
    """Bytes of one device, and how they are known: given, or implied by max_device_memory."""

    size: Optional[int]
    how: str
    #: the pool that max_device_memory allows
    pool: Optional[int] = None


def card_of(plan: Plan) -> Card:
    """The card of a plan: --device-memory, else the size that max_device_memory was chosen for (32 or 64 GB)."""
    pool = _parsed(plan.context.max_memory)
    if plan.device_memory is not None:
        return Card(plan.device_memory, "given", pool)
    if pool is not None and pool <= 64 << 30:
        return Card((32 if pool <= 32 << 30 else 64) << 30, "max_device_memory", pool)
    return Card(None, "unknown", pool)


def _parsed(value: Value) -> Optional[int]:
    match = _SIZE.fullmatch(value.words)
    if match is None:
        return None
    return int(float(match.group(1)) * (1 << (30 if match.group(2)[0].upper() == "G" else 20)))


def describe(plan: Plan, shape: ModelShape) -> dict[str, Any]:
    """`facts.model` of the contract."""
    return {
        "family": shape.family,
        "parameters": shape.parameters,
        "layers": shape.layers,
        "hidden_size": shape.hidden,
        "vocab_size": shape.vocabulary,
        "dialect": plan.dialect.value if plan.dialect is not Dialect.OTHER else None,
    }
