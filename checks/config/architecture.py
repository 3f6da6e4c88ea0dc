"""Choices of the model: dropout, norms, positions, activation, sparse attention, adapters."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.config.judge import (
    MINDFORMERS,
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

_DROPOUTS = (
    "hidden_dropout",
    "attention_dropout",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "attention_dropout_prob",
    "hidden_dropout_rate",
    "attention_dropout_rate",
    "embedding_dropout_prob",
    "embed_dropout_prob",
    "emb_dropout_prob",
    "dropout_prob",
    "ffn_dropout_rate",
)


@check(
    Rule(
        id="CFG-MOD-008",
        name="dropout-out-of-range",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} is not in [0, 1)", "{key} 不在 [0, 1) 范围内"),
        why=Text("A dropout is the share of values that is set to zero.", "dropout 是置零元素的比例。"),
        fix=Text("Use 0.0 for pre-training.", "预训练一般用 0.0。"),
        references=(TRANSFORMER_CONFIG,),
    )
)
@applies(MODELS)
def dropout_range(plan: Plan) -> Iterator[Finding]:
    for value in _dropouts(plan):
        if value.number is not None and not 0 <= value.number < 1:
            yield dropout_range.finding(
                because(dropout_range, f"{value.key} is {shown(value)}.", f"{value.key} 为 {shown(value)}。"),
                evidence=seen(plan, value, expected="0.0 <= value < 1.0"),
                fixes=(change(plan, value, 0.0),),
                key=value.key,
            )


def _dropouts(plan: Plan) -> Iterator[Value]:
    for name in _DROPOUTS:
        value = plan.model.section.get(name)
        if value.given:
            yield value
    value = plan.model.adapter.get("lora_dropout")
    if value.given:
        yield value


@check(
    Rule(
        id="CFG-MOD-009",
        name="dropout-is-an-integer",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key}: 0 must be written 0.0", "{key}: 0 必须写成 0.0"),
        why=Text(
            "mcore checks the type: an integer dropout is refused (`hidden_dropout should be a float`).",
            "mcore 会检查类型：整数 dropout 会报错（`hidden_dropout should be a float`）。",
        ),
        fix=Text("Write 0.0.", "写成 0.0。"),
        references=(TRANSFORMER_CONFIG,),
    )
)
@applies((Dialect.MCORE, Dialect.PYNATIVE))
def dropout_integer(plan: Plan) -> Iterator[Finding]:
    for name in ("hidden_dropout", "attention_dropout"):
        value = plan.model.section.get(name)
        number = value.number
        if isinstance(value.value, int) and number is not None:
            yield dropout_integer.finding(
                evidence=seen(plan, value, expected="0.0"),
                fixes=(change(plan, value, float(number), safe=True),),
                key=name,
            )


@check(
    Rule(
        id="CFG-MOD-010",
        name="norm-epsilon-out-of-range",
        severity=Severity.WARNING,
        category="nan-overflow",
        title=Text("{key} {value} is no usual epsilon", "{key} 为 {value}，不是常见的 epsilon"),
        why=Text(
            "It keeps a division from failing: zero or less divides by zero, a large one flattens the norm. Usual: 1e-5, 1e-6.",
            "它用来防止除零：≤ 0 会除零，过大则归一化失效。常用 1e-5、1e-6。",
        ),
        fix=Text("Use the value of the model's config.", "使用模型官方配置的值。"),
    )
)
@applies(MODELS)
def norm_epsilon(plan: Plan) -> Iterator[Finding]:
    value = plan.model.field("layernorm_epsilon")
    number = value.number
    if number is not None and value.given and not 0 < number <= 1e-3:
        yield norm_epsilon.finding(
            evidence=seen(plan, value, expected="1e-5 or 1e-6"),
            fixes=(change(plan, value, 1e-5),),
            severity=Severity.ERROR if number <= 0 else None,
            key=value.name,
            value=shown(value),
        )


@check(
    Rule(
        id="CFG-MOD-012",
        name="cache-in-training",
        severity=Severity.WARNING,
        category="config",
        title=Text("use_past is on in training", "训练时打开了 use_past"),
        why=Text(
            "The key/value cache belongs to prediction; MindFormers turns it off or refuses it.",
            "KV 缓存用于推理；训练时 MindFormers 会关闭它或报错。",
        ),
        fix=Text("Set use_past: False.", "设置 use_past: False。"),
        references=("mindformers/tools/check_rules.py _check_mode",),
    )
)
@applies((Dialect.LEGACY,), training=True)
def cache_in_training(plan: Plan) -> Iterator[Finding]:
    value = plan.model.section.get("use_past")
    if value.on and plan.run_mode.words in {"train", "finetune"}:
        yield cache_in_training.finding(
            evidence=seen(plan, value, plan.run_mode, expected=False), fixes=(change(plan, value, False, safe=True),)
        )


@check(
    Rule(
        id="CFG-MOD-013",
        name="slice-recompute-in-mcore",
        severity=Severity.ERROR,
        category="config",
        title=Text("recompute_slice_activation is not for mcore models", "mcore 模型不支持 recompute_slice_activation"),
        why=Text(
            "From 1.7 MindFormers refuses it with use_legacy: False.",
            "1.7 起，use_legacy: False 时 MindFormers 会报错。",
        ),
        fix=Text("Set recompute_slice_activation: False.", "设置 recompute_slice_activation: False。"),
        references=(TRANSFORMER_CONFIG,),
    )
)
@applies((Dialect.MCORE,), training=True)
def slice_recompute_in_mcore(plan: Plan) -> Iterator[Finding]:
    value = plan.recompute.slice_activation
    if value.on and not plan.release.before("1.7.0"):
        yield slice_recompute_in_mcore.finding(
            severity=None if plan.release.certain else Severity.WARNING,
            evidence=seen(plan, value, expected=False),
            fixes=(change(plan, value, False, safe=True),),
        )


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
        id="CFG-MOD-016",
        name="fused-swiglu-needs-swiglu",
        severity=Severity.ERROR,
        category="config",
        title=Text("bias_swiglu_fusion with hidden_act {value}", "hidden_act 为 {value} 时不能使用 bias_swiglu_fusion"),
        why=Text(
            "The fused kernel computes SwiGLU; mcore refuses another activation.",
            "融合算子只计算 SwiGLU，mcore 不允许其他激活函数。",
        ),
        fix=Text("Set hidden_act: swiglu, or switch the fusion off.", "设置 hidden_act: swiglu，或关闭融合。"),
        references=(TRANSFORMER_CONFIG,),
    )
)
@applies((Dialect.MCORE,), training=True)
def fused_swiglu(plan: Plan) -> Iterator[Finding]:
    fusion, act = plan.model.field("bias_swiglu_fusion"), plan.model.section.get("hidden_act")
    if fusion.on and act.given and act.words not in {"swiglu", "fusedswiglu"}:
        yield fused_swiglu.finding(
            evidence=seen(plan, act, fusion, expected="swiglu"),
            fixes=(change(plan, fusion, False), change(plan, act, "swiglu")),
            value=shown(act),
        )


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
    own = model.field("kv_channels")
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


@check(
    Rule(
        id="CFG-MOD-021",
        name="adapter-setting-out-of-range",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} {value} is out of range", "{key} 为 {value}，超出取值范围"),
        why=Text(
            "A LoRA rank and alpha are above zero, its dropout is in [0, 1), its target_modules name something.",
            "LoRA 的 rank 与 alpha 应大于 0，dropout 取 [0, 1)，target_modules 不能为空。",
        ),
        fix=Text("Usual: rank 8, alpha 16.", "常用 rank 8、alpha 16。"),
        references=("mindformers/pynative/config/config.py LoraConfig",),
    )
)
@applies(MINDFORMERS)
def adapter_range(plan: Plan) -> Iterator[Finding]:
    adapter = plan.model.adapter
    for name in ("lora_rank", "lora_alpha"):
        value = adapter.get(name)
        if value.number is not None and value.number <= 0:
            yield adapter_range.finding(
                evidence=seen(plan, value, expected="> 0"),
                fixes=(change(plan, value, 8 if name == "lora_rank" else 16),),
                key=value.key,
                value=shown(value),
            )
    target = adapter.get("target_modules")
    if target.given and target.text is not None and not target.words:
        yield adapter_range.finding(
            evidence=seen(plan, target, expected=".*wq|.*wv"), key=target.key, value=shown(target)
        )


_STYLES = (
    "silu",
    "swiglu",
    "fusedswiglu",
    "gelu",
    "fast_gelu",
    "quick_gelu",
    "relu",
    "geglu",
    "gelu_new",
    "gelu_pytorch_tanh",
)


#: transformers' ACT2FN beyond those
_TRANSFORMERS_STYLES = (
    "gelu_10",
    "gelu_accurate",
    "gelu_fast",
    "gelu_python",
    "gelu_python_tanh",
    "hardswish",
    "laplace",
    "leaky_relu",
    "linear",
    "prelu",
    "relu2",
    "swish",
    "xielu",
)


@check(
    Rule(
        id="CFG-MOD-022",
        name="activation-unknown",
        severity=Severity.ERROR,
        category="config",
        title=Text("hidden_act {value} does not exist", "不存在的 hidden_act：{value}"),
        why=Text(
            "No activation of that name is built; the network fails when it is made.",
            "没有该名称的激活函数，网络构建时会失败。",
        ),
        fix=Text("Use the activation of the model's config.", "使用模型官方配置的激活函数。"),
    )
)
@applies(MODELS)
def activation_unknown(plan: Plan) -> Iterator[Finding]:
    from doctor.plan.names import nearest

    value = plan.model.section.get("hidden_act")
    known: tuple[str, ...] = (
        *_STYLES,
        "leakyrelu",
        "tanh",
        "sigmoid",
        "elu",
        "selu",
        "mish",
        "hswish",
        "hsigmoid",
        "relu6",
        "softmax",
        "logsigmoid",
        "softplus",
        "squared_relu",
    )
    if plan.dialect is Dialect.HUGGINGFACE:
        known = (*known, *_TRANSFORMERS_STYLES)
    word = value.words.lower()
    if not word or word in known:
        return
    hint = nearest(word, known)
    yield activation_unknown.finding(
        evidence=seen(plan, value, expected=hint or listed(_STYLES[:4])),
        fixes=(change(plan, value, hint),) if hint else None,
        severity=None if hint else Severity.WARNING,
        value=shown(value),
    )
