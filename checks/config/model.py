"""Sizes of the model against each other: heads, sequence, vocabulary, layers of prediction."""

from __future__ import annotations

import math
from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.config.judge import (
    GRAPH,
    MINDFORMERS,
    MODELS,
    applies,
    because,
    change,
    closest,
    divisors,
    listed,
    multiples,
    near,
    need,
    seen,
    shown,
    unknown,
)
from doctor.checks.config.sharding import multi_latent, repeats_kv_heads
from doctor.finding import Finding, Severity, Text
from doctor.plan.plan import Dialect, Plan
from doctor.rule import Rule

TRANSFORMER_CONFIG = "mindformers/parallel_core/transformer_config.py __post_init__"


@check(
    Rule(
        id="CFG-MOD-001",
        name="hidden-size-not-divisible-by-heads",
        severity=Severity.ERROR,
        category="config",
        title=Text("The heads do not divide the hidden size", "注意力头数不能整除 hidden_size"),
        why=Text(
            "A head is hidden_size / heads wide, unless head_dim says otherwise.",
            "每个头的宽度为 hidden_size / 头数，除非另设 head_dim。",
        ),
        fix=Text("Choose a number of heads that divides hidden_size.", "选择能整除 hidden_size 的头数。"),
        references=("mindformers/models/llama/llama_transformer.py LLamaAttention",),
    )
)
@applies(MODELS)
def hidden_by_heads(plan: Plan) -> Iterator[Finding]:
    model = plan.model
    if model.field("kv_channels").given or multi_latent(plan):
        raise Skip(Text("the head size is set by itself", "单独设置了每个头的宽度"))
    hidden, heads = need(model.hidden, model.heads)
    if hidden % heads:
        legal = [item for item in divisors(hidden) if item <= 4 * heads]
        yield hidden_by_heads.finding(
            because(
                hidden_by_heads,
                f"hidden_size {hidden} % {model.heads.name} {heads} = {hidden % heads}.",
                f"hidden_size {hidden} % {model.heads.name} {heads} = {hidden % heads}。",
            ),
            evidence=seen(plan, model.heads, model.hidden, expected=listed(near(legal, heads))),
            fixes=[change(plan, model.heads, option) for option in closest(legal, heads, 2)],
        )


@check(
    Rule(
        id="CFG-MOD-002",
        name="heads-not-divisible-by-kv-heads",
        severity=Severity.ERROR,
        category="config",
        title=Text("The key/value heads do not divide the heads", "KV 头数不能整除注意力头数"),
        why=Text(
            "In grouped-query attention each key/value head serves the same number of heads.",
            "GQA 中每个 KV 头服务相同数量的注意力头。",
        ),
        fix=Text("Choose a divisor of the heads.", "选择头数的约数。"),
    )
)
@applies(MODELS)
def heads_by_kv_heads(plan: Plan) -> Iterator[Finding]:
    model = plan.model
    if not model.kv_heads.given:
        raise unknown("n_kv_heads")
    if multi_latent(plan):
        raise Skip(Text("multi-latent attention has no key/value heads", "MLA 没有 KV 头"))
    heads, kv_heads = need(model.heads, model.kv_heads)
    if kv_heads <= heads and heads % kv_heads:
        tensor = plan.parallel.tensor.count or 1
        legal = near([option for option in divisors(heads) if option % tensor == 0], kv_heads)
        # heads that tensor parallel does not divide either are the fault themselves
        fits = math.lcm(kv_heads, tensor)
        yield heads_by_kv_heads.finding(
            because(
                heads_by_kv_heads,
                f"{model.heads.name} {heads} % {model.kv_heads.name} {kv_heads} = {heads % kv_heads}.",
                f"{model.heads.name} {heads} % {model.kv_heads.name} {kv_heads} = {heads % kv_heads}。",
            ),
            evidence=seen(plan, model.kv_heads, model.heads, expected=listed(legal)),
            fixes=[change(plan, model.kv_heads, option) for option in closest(legal, kv_heads, 2)]
            or [change(plan, model.heads, option) for option in multiples(fits, heads)],
        )


@check(
    Rule(
        id="CFG-MOD-003",
        name="sequence-longer-than-positions",
        severity=Severity.ERROR,
        category="config",
        title=Text("The sequence is longer than the model's positions", "序列长度超过模型的位置编码长度"),
        why=Text(
            "Positions beyond the table are out of range, or (legacy LLaMA) silently of poor quality without rope scaling.",
            "超出部分的位置会越界，或（legacy LLaMA）在没有 rope 缩放时质量悄悄变差。",
        ),
        fix=Text(
            "Shorten the sequence, or extend the positions with rope scaling.", "缩短序列，或用 rope 缩放扩展位置。"
        ),
        references=("mindformers/models/llama/llama_config.py",),
    )
)
@applies(MODELS)
def sequence_by_positions(plan: Plan) -> Iterator[Finding]:
    model = plan.model
    if not model.positions.given or model.positions.name == "original_max_position_embeddings":
        raise unknown("max_position_embeddings")
    if scaled_rope(plan):
        raise Skip(Text("rope scaling extends the positions", "rope 缩放扩展了位置"))
    # a model that states no length of its own takes the rows as the data set cuts them
    sequence = model.sequence if model.sequence.given or not plan.data.sequence.given else plan.data.sequence
    length, positions = need(sequence, model.positions)
    if length > positions:
        yield sequence_by_positions.finding(
            because(
                sequence_by_positions,
                f"seq_length {length} > {model.positions.name} {positions}.",
                f"seq_length {length} > {model.positions.name} {positions}。",
            ),
            evidence=seen(plan, sequence, model.positions, expected=f"at most {positions}"),
            fixes=(change(plan, sequence, positions), change(plan, model.positions, length)),
            severity=None if plan.trains else Severity.INFO,
        )


def scaled_rope(plan: Plan) -> bool:
    """Whether positions are stretched beyond what the model was trained on."""
    field = plan.model.field
    kind, scaling = field("position_embedding_type").words.lower(), plan.model.section.get("rope_scaling")
    factor = field("rotary_scaling_factor")
    stretched = (factor.number or 1) > 1 or factor.is_mapping
    return kind in {"pi", "ntk", "yarn", "llama3"} or scaling.is_mapping or stretched


@check(
    Rule(
        id="CFG-MOD-004",
        name="data-sequence-differs-from-model",
        severity=Severity.ERROR,
        category="shape",
        title=Text("Data and model disagree about the sequence length", "数据与模型的序列长度不一致"),
        why=Text(
            "Rows of another length fail in the attention mask or reshape at compilation.",
            "行长度不一致会在编译期的注意力掩码或 reshape 处报错。",
        ),
        fix=Text("Give both the same length.", "两处使用相同长度。"),
    )
)
@applies(MINDFORMERS, training=True)
def data_sequence(plan: Plan) -> Iterator[Finding]:
    model, data = plan.model.sequence, plan.data.sequence
    if not data.given:
        raise unknown("train_dataset.data_loader.config.seq_length")
    ours, theirs = need(model, data)
    if ours != theirs:
        yield data_sequence.finding(
            because(
                data_sequence,
                f"The data has rows of {theirs}, the model takes {ours}.",
                f"数据每行长度 {theirs}，模型长度 {ours}。",
            ),
            evidence=seen(plan, data, model, expected=ours),
            fixes=(change(plan, data, ours), change(plan, model, theirs)),
        )


@check(
    Rule(
        id="CFG-MOD-005",
        name="model-size-not-positive",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} is not a whole number above zero", "{key} 不是正整数"),
        why=Text("Sizes of the network are counts.", "网络的各个尺寸都是计数。"),
        fix=Text("Use the number of the model's own config.", "使用模型官方配置中的数值。"),
    )
)
@applies(MODELS)
def model_sizes(plan: Plan) -> Iterator[Finding]:
    names = (
        "num_layers",
        "hidden_size",
        "num_attention_heads",
        "num_query_groups",
        "ffn_hidden_size",
        "kv_channels",
        "vocab_size",
        "seq_length",
        "max_position_embeddings",
        "multiple_of",
        "expand_ratio",
        "max_decode_length",
        "batch_size",
        "q_lora_rank",
        "kv_lora_rank",
        "qk_head_dim",
        "qk_pos_emb_head_dim",
        "v_head_dim",
        "type_vocab_size",
        "block_size",
        "num_blocks",
        "patch_size",
        "image_size",
        "moe_ffn_hidden_size",
        "moe_shared_expert_intermediate_size",
        "fine_grain_interleave",
        "num_residual_streams",
    )
    for name in (*names, ""):
        value = plan.model.field(name) if name else plan.data.sequence
        number = value.number
        if number == 0 and plan.dialect is Dialect.HUGGINGFACE and name in _MAY_BE_ABSENT:
            # config.json writes 0 for a part that the model does not have
            continue
        if value.given and number is not None and (number < 1 or value.whole is None):
            yield model_sizes.finding(
                because(model_sizes, f"{value.key} is {shown(value)}.", f"{value.key} 为 {shown(value)}。"),
                evidence=seen(plan, value, expected=">= 1"),
                key=value.key,
            )


_MAY_BE_ABSENT = frozenset(("kv_channels", "qk_pos_emb_head_dim", "q_lora_rank", "kv_lora_rank", "type_vocab_size"))


@check(
    Rule(
        id="CFG-MOD-006",
        name="token-id-beyond-vocabulary",
        severity=Severity.ERROR,
        category="tokenizer",
        title=Text("A special token lies beyond the vocabulary", "特殊 token 超出词表范围"),
        why=Text(
            "Ids run from 0 to vocab_size - 1; a larger one reads outside the embedding.",
            "token id 取 0 到 vocab_size − 1，超出会越界访问 embedding。",
        ),
        fix=Text("Check the tokenizer and vocab_size.", "核对分词器与 vocab_size。"),
        false_positives=Text("ignore_token_id is -100 by design.", "ignore_token_id 为 -100 属正常。"),
    )
)
@applies(MODELS)
def token_ids(plan: Plan) -> Iterator[Finding]:
    model = plan.model
    (vocabulary,) = need(model.vocabulary)
    for name in ("pad_token_id", "bos_token_id", "eos_token_id", "mask_token_id", "gmask_token_id"):
        value = model.section.get(name)
        for item in value.sequence or (value,):
            if item.whole is not None and item.whole >= vocabulary:
                yield token_ids.finding(
                    because(
                        token_ids,
                        f"{value.name} {item.whole} >= {model.vocabulary.name} {vocabulary}.",
                        f"{value.name} {item.whole} ≥ {model.vocabulary.name} {vocabulary}。",
                    ),
                    evidence=seen(plan, item, model.vocabulary, expected=f"below {vocabulary}"),
                    severity=Severity.WARNING if name == "pad_token_id" and item.whole < vocabulary + 256 else None,
                )


@check(
    Rule(
        id="CFG-MOD-007",
        name="more-kv-heads-than-heads",
        severity=Severity.ERROR,
        category="config",
        title=Text("More key/value heads than heads", "KV 头数多于注意力头数"),
        why=Text(
            "Key/value heads are shared by heads, never the other way round.", "KV 头由多个注意力头共享，反之不成立。"
        ),
        fix=Text("Swap or lower them.", "交换或减小。"),
    )
)
@applies(MODELS)
def more_kv_heads(plan: Plan) -> Iterator[Finding]:
    model = plan.model
    if not model.kv_heads.given or multi_latent(plan):
        raise unknown("n_kv_heads")
    heads, kv_heads = need(model.heads, model.kv_heads)
    if kv_heads > heads:
        yield more_kv_heads.finding(
            because(
                more_kv_heads,
                f"{model.kv_heads.name} {kv_heads} > {model.heads.name} {heads}.",
                f"{model.kv_heads.name} {kv_heads} > {model.heads.name} {heads}。",
            ),
            evidence=seen(plan, model.kv_heads, model.heads, expected=f"at most {heads}"),
            fixes=(change(plan, model.kv_heads, heads),),
        )


@check(
    Rule(
        id="CFG-MOD-011",
        name="too-many-prediction-layers",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} {value} is not supported", "不支持 {key} {value}"),
        why=Text("mcore supports 0 or 1 multi-token prediction layer.", "mcore 只支持 0 或 1 个多 token 预测层。"),
        fix=Text("Use 1 or 0.", "使用 1 或 0。"),
        references=(TRANSFORMER_CONFIG,),
    )
)
@applies((Dialect.MCORE, Dialect.PYNATIVE), training=True)
def prediction_layers(plan: Plan) -> Iterator[Finding]:
    value = plan.model.field("mtp_num_layers")
    if value.number is not None and value.given and value.value not in (0, 1):
        yield prediction_layers.finding(
            evidence=seen(plan, value, expected="0 or 1"),
            fixes=(change(plan, value, 1),),
            key=value.name,
            value=shown(value),
        )


@check(
    Rule(
        id="CFG-MOD-019",
        name="groups-replicated-to-devices",
        severity=Severity.INFO,
        category="performance",
        title=Text("{groups} key/value groups are copied to {size} devices", "{groups} 个 KV 组会复制到 {size} 个设备"),
        why=Text(
            "ChatGLM2 and its successors repeat key/value groups up to the tensor-parallel size: right, but each copy costs memory.",
            "ChatGLM2 及后续模型会把 KV 组复制到张量并行度：结果正确，但每份副本占显存。",
        ),
        fix=Text("Nothing to do.", "无需处理。"),
    )
)
@applies(GRAPH)
def groups_replicated(plan: Plan) -> Iterator[Finding]:
    groups, size = plan.model.kv_heads.count, plan.parallel.tensor.count
    if repeats_kv_heads(plan) and groups and size and size > groups:
        yield groups_replicated.finding(
            evidence=seen(plan, plan.model.kv_heads, plan.parallel.tensor), groups=groups, size=size
        )
