"""Positions and attention shapes: embeddings, rope, sparse attention, head sizes."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.config.judge import (
    MODELS,
    applies,
    because,
    change,
    listed,
    seen,
    shown,
)
from doctor.checks.config.model import TRANSFORMER_CONFIG
from doctor.checks.config.sharding import multi_latent
from doctor.finding import Finding, Severity, Text
from doctor.plan.plan import Dialect, Plan
from doctor.plan.value import Value
from doctor.rule import Rule

_POSITIONS = ("rope", "yarn", "none", "relative", "learned_absolute", "partial_rope")


@check(
    Rule(
        id="CFG-MOD-014",
        name="position-embedding-unknown",
        severity=Severity.ERROR,
        category="config",
        title=Text("position_embedding_type {value} does not exist", "不存在的 position_embedding_type：{value}"),
        why=Text(
            "mcore knows rope, yarn, none, relative, learned_absolute and partial_rope.",
            "mcore 支持 rope、yarn、none、relative、learned_absolute、partial_rope。",
        ),
        fix=Text("Use rope.", "使用 rope。"),
        references=(TRANSFORMER_CONFIG,),
    )
)
@applies((Dialect.MCORE, Dialect.PYNATIVE))
def position_embedding(plan: Plan) -> Iterator[Finding]:
    value = plan.model.section.get("position_embedding_type")
    if value.given and value.value is not None and value.value not in _POSITIONS:
        yield position_embedding.finding(
            evidence=seen(plan, value, expected=listed(_POSITIONS)),
            fixes=(change(plan, value, "rope"),),
            value=shown(value),
        )


@check(
    Rule(
        id="CFG-MOD-015",
        name="extend-method-unknown",
        severity=Severity.ERROR,
        category="config",
        title=Text("extend_method {value} does not exist", "不存在的 extend_method：{value}"),
        why=Text("Legacy models know None, PI, NTK, YARN and LLAMA3.", "legacy 模型支持 None、PI、NTK、YARN、LLAMA3。"),
        fix=Text('Use "None" or one of them.', '使用 "None" 或其中之一。'),
        references=("mindformers/modules/layers.py SeqExtendMethod",),
    )
)
@applies((Dialect.LEGACY,))
def extend_method(plan: Plan) -> Iterator[Finding]:
    value = plan.model.section.get("extend_method")
    known = ("None", "PI", "NTK", "YARN", "LLAMA3", "DYNMAIC_NTK", "DYNAMIC_NTK")
    if value.given and value.text is not None and value.words not in known and not _multimodal(plan):
        yield extend_method.finding(
            evidence=seen(plan, value, expected=listed(known[:5])),
            fixes=(change(plan, value, "None"),),
            value=shown(value),
        )


def _multimodal(plan: Plan) -> bool:
    keys = plan.model.section.mapping.keys()
    return bool(keys & {"vision_config", "vision_model", "text_config", "llm_model", "text_model"})


@check(
    Rule(
        id="CFG-MOD-017",
        name="rope-setting-out-of-range",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} {value} is out of range", "{key} 为 {value}，超出取值范围"),
        why=Text(
            "The base of rotary embedding is above 1 (10000, 500000, …), its scaling factor above 0, its share in (0, 1].",
            "旋转位置编码的底数应大于 1（10000、500000……），缩放因子大于 0，旋转比例取 (0, 1]。",
        ),
        fix=Text("Use the value of the model's config.", "使用模型官方配置的值。"),
    )
)
@applies(MODELS)
def rope_range(plan: Plan) -> Iterator[Finding]:
    field, section = plan.model.field, plan.model.section
    limits = (
        (field("rotary_base"), 1.000001, 1e12, "> 1"),
        (field("rotary_scaling_factor"), 1e-9, 1e6, "> 0"),
        (section.get("partial_rotary_factor"), 1e-9, 1.0, "(0, 1]"),
        (section.get("rotary_pct"), 1e-9, 1.0, "(0, 1]"),
        (field("init_method_std"), 1e-12, 1.0, "(0, 1], usually 0.02"),
        (section.get("initializer_range"), 1e-12, 1.0, "(0, 1], usually 0.02"),
        (field("mtp_loss_scaling_factor"), 0.0, 100.0, ">= 0"),
        (field("ffn_dim_multiplier"), 1e-9, 1e9, "> 0"),
    )
    for value, low, high, words in limits:
        if value.given and value.number is not None and not low <= value.number <= high:
            yield rope_range.finding(
                because(rope_range, f"{value.key} is {shown(value)}.", f"{value.key} 为 {shown(value)}。"),
                evidence=seen(plan, value, expected=words),
                key=value.name,
                value=shown(value),
            )


@check(
    Rule(
        id="CFG-MOD-018",
        name="sparse-attention-sizes",
        severity=Severity.ERROR,
        category="config",
        title=Text("The settings of {variant} do not fit each other", "{variant} 的设置互相不匹配"),
        why=Text(
            "DeepSeek's hybrid attention needs multi-latent attention, v_head_dim = nope + rope dimensions, heads x v_head_dim divisible by o_groups, and one compression ratio "
            "(0, 4 or 128) a layer; its sparse attention needs flash attention.",
            "DeepSeek 混合注意力要求：MLA；v_head_dim = nope + rope 维度；头数 × v_head_dim 能被 o_groups 整除；每层一个压缩率（0、4、128）。稀疏注意力要求 flash attention。",
        ),
        fix=Text("Use the numbers of the model's config.", "使用模型官方配置的数值。"),
        references=("mindformers/parallel_core/transformer_config.py MLATransformerConfig.__post_init__",),
    )
)
@applies((Dialect.MCORE, Dialect.PYNATIVE), training=True)
def sparse_attention(plan: Plan) -> Iterator[Finding]:
    model = plan.model
    variant = model.section.get("experimental_attention_variant")
    if variant.words not in {"dsv4_hybrid", "dsa"}:
        return
    latent = model.section.get("multi_latent_attention")
    broken: list[tuple[Text, tuple[Value, ...]]] = []
    if latent.value is not True:
        broken.append(
            (Text("multi_latent_attention must be True.", "multi_latent_attention 必须为 True。"), (latent, variant))
        )
    if variant.words == "dsa" and model.flash_attention.value is False:
        broken.append(
            (
                Text("use_flash_attention must be True.", "use_flash_attention 必须为 True。"),
                (model.flash_attention, variant),
            )
        )
    if variant.words == "dsv4_hybrid":
        broken.extend(_hybrid_faults(plan))
    for text, values in broken:
        yield sparse_attention.finding(
            because(sparse_attention, text.en, text.zh), evidence=seen(plan, *values), variant=variant.words
        )


def _hybrid_faults(plan: Plan) -> Iterator[tuple[Text, tuple[Value, ...]]]:
    model = plan.model
    nope, rope, width = model.field("qk_head_dim"), model.field("qk_pos_emb_head_dim"), model.field("v_head_dim")
    a, b, c = nope.count, rope.count, width.count
    if a and b and c and a + b != c:
        yield (
            Text(
                f"{nope.name} {a} + {rope.name} {b} = {a + b}, but v_head_dim is {c}.",
                f"{nope.name} {a} + {rope.name} {b} = {a + b}，而 v_head_dim 为 {c}。",
            ),
            (width, nope, rope),
        )
    groups, heads = model.field("o_groups"), model.heads
    if groups.count and heads.count and c and (heads.count * c) % groups.count:
        rest = (heads.count * c) % groups.count
        yield (
            Text(
                f"heads {heads.count} x v_head_dim {c} % o_groups {groups.count} = {rest}.",
                f"头数 {heads.count} × v_head_dim {c} % o_groups {groups.count} = {rest}。",
            ),
            (groups, heads, width),
        )
    ratios, layers = model.section.get("compress_ratios"), model.layers.count
    extra = model.field("mtp_num_layers").whole or 0
    if ratios.is_sequence and layers:
        if len(ratios.sequence) != layers + extra:
            yield (
                Text(
                    f"compress_ratios has {len(ratios.sequence)} entries for {layers} + {extra} layers.",
                    f"compress_ratios 共 {len(ratios.sequence)} 项，而层数为 {layers} + {extra}。",
                ),
                (ratios, model.layers),
            )
        odd = [item for item in ratios.sequence if item.value not in (0, 4, 128)]
        if odd:
            yield Text(f"A compression ratio is {shown(odd[0])}.", f"存在压缩率 {shown(odd[0])}。"), (odd[0],)


#: the part of a head that rotary embedding turns, where the model says so itself
_ROTARY = ("qk_pos_emb_head_dim", "rotary_dim")


@check(
    Rule(
        id="CFG-MOD-020",
        name="odd-head-size",
        severity=Severity.ERROR,
        category="config",
        title=Text("The head size {width} is odd", "头宽度 {width} 为奇数"),
        why=Text(
            "Rotary embedding turns pairs of values: a head needs an even size.",
            "旋转位置编码按两个一组旋转，头宽度必须为偶数。",
        ),
        fix=Text("Choose heads so that hidden_size / heads is even.", "选择头数使 hidden_size / 头数 为偶数。"),
    )
)
@applies(MODELS)
def odd_head(plan: Plan) -> Iterator[Finding]:
    model = plan.model
    turned = [model.field(name) for name in _ROTARY]
    for value in turned:
        if value.count is not None and value.count % 2:
            yield odd_head.finding(evidence=seen(plan, value, expected="an even number"), width=value.count)
    own = model.field("kv_channels")
    if any(value.given for value in turned) and own.count is None and multi_latent(plan):
        return
    if own.count is None and (model.hidden.count is None or model.heads.count is None or multi_latent(plan)):
        raise Skip(Text("the head size is not known here", "此处不知道头宽度"))
    if own.count is None and (model.hidden.count or 0) % (model.heads.count or 1):
        return
    width = own.count or (model.hidden.count or 0) // (model.heads.count or 1)
    rotary = any(
        word in model.family for word in ("llama", "qwen", "glm", "baichuan", "internlm", "mixtral", "yi", "telechat")
    )
    if rotary and width % 2 and width > 1:
        yield odd_head.finding(
            evidence=seen(plan, *([own] if own.given else [model.heads, model.hidden]), expected="an even number"),
            width=width,
        )
