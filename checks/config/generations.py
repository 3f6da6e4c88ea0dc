"""What PyNative, the built-in trainer and Hugging Face's config.json need, and what of other generations they ignore."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import check
from doctor.checks.config.judge import advice, applies, change, quote, rename, seen, shown
from doctor.checks.config.keys import at_name
from doctor.checks.config.spelling import one_slip
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.plan.fields import CANONICAL, SPELLINGS
from doctor.plan.names import arguments
from doctor.plan.plan import Dialect, Plan
from doctor.plan.schema import section_specs
from doctor.plan.value import Value
from doctor.rule import Rule

_PYNATIVE = "mindformers/pynative/config/config.py"


@check(
    Rule(
        id="CFG-KEY-019",
        name="pynative-part-missing",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} is missing", "缺少 {key}"),
        why=Text(
            "It has no default: the part cannot be built from nothing.", "该项没有默认值，缺少它无法构建对应部分。"
        ),
        fix=Text("Add it.", "补上该项。"),
        references=(f"{_PYNATIVE} LrSchedulerConfig, DataloaderConfig, ModelConfig",),
    )
)
@applies((Dialect.PYNATIVE,), training=True)
def pynative_part(plan: Plan) -> Iterator[Finding]:
    root = plan.root
    wanted = [("lr_scheduler", "type"), ("train_dataset", "dataloader"), ("train_dataset.dataloader", "type")]
    if not plan.model.pretrained.words:
        wanted.append(("model", "model_type"))
    for path, name in wanted:
        section = root.get(*path.split("."))
        if section.mapping and not section.get(name).given:
            yield _missing(plan, section, name)
    for name in ("model", "train_dataset", "lr_scheduler"):
        if not root.get(name).given and not (name == "model" and plan.model.pretrained.words):
            yield _missing(plan, root, name)
    optimizer = plan.optimizer.section
    adam, muon = arguments("optimizer", "AdamW"), arguments("optimizer", "Muon")
    if optimizer.mapping and not plan.optimizer.type.given and adam and muon:
        foreign = [value for name, value in optimizer.mapping.items() if name in muon[0] - adam[0]]
        if foreign:
            yield pynative_part.finding(
                Text(
                    f"Without a type the optimizer is AdamW, which takes no {foreign[0].name}.",
                    f"未写 type 时优化器为 AdamW，它不接受 {foreign[0].name}。",
                ),
                evidence=(*_at(plan, optimizer, "type"), *at_name(plan, foreign[0], None)),
                fixes=(change(plan, plan.optimizer.type, "Muon"),),
                key="optimizer.type",
            )


def _missing(plan: Plan, section: Value, name: str) -> Finding:
    absent = section.absent(name)
    return pynative_part.finding(
        evidence=_at(plan, section, name),
        fixes=(advice(plan, f"Add {absent.key}.", f"补上 {absent.key}。"),),
        key=absent.key,
    )


def _at(plan: Plan, section: Value, name: str) -> tuple[Evidence, ...]:
    place = section.named or section.location
    return (Evidence.at(section.absent(name).location, "value", text=quote(plan, place), expected=name),)


@check(
    Rule(
        id="CFG-KEY-020",
        name="pynative-setting-in-other-section",
        severity=Severity.WARNING,
        category="config",
        title=Text("PyNative does not read {key}", "PyNative 不读取 {key}"),
        why=Text(
            "The section keeps it and nothing looks at it: {home} stays at its default.",
            "该段会保留它但没有代码读取：{home} 仍为默认值。",
        ),
        fix=Text("Move it to {home}.", "移到 {home}。"),
        references=(_PYNATIVE,),
    )
)
@applies((Dialect.PYNATIVE,), training=True)
def pynative_place(plan: Plan) -> Iterator[Finding]:
    root = plan.root
    moved = [
        (root.get("seed"), "training.seed"),
        (root.get("output_dir"), "checkpoint.save_path"),
        (root.get("optimizer", "learning_rate"), "lr_scheduler.learning_rate"),
    ]
    own = section_specs(Dialect.PYNATIVE, "parallelism").keys() | section_specs(Dialect.PYNATIVE, "training").keys()
    moved += [(value, f"parallelism.{name}") for name, value in root.get("model").mapping.items() if name in own]
    for value, home in moved:
        if value.given and not root.get(*home.split(".")).given:
            yield pynative_place.finding(evidence=at_name(plan, value, home), key=value.key, home=home)


@check(
    Rule(
        id="CFG-KEY-021",
        name="trainer-part-missing",
        severity=Severity.ERROR,
        category="config",
        title=Text("The section {key} is missing", "缺少配置段 {key}"),
        why=Text(
            "The built-in trainer does not guess the model: `no model is named`.",
            "内置训练器不会猜测模型：未指定模型会报错。",
        ),
        fix=Text("Add model.type, for example llama.", "补上 model.type，例如 llama。"),
    )
)
@applies((Dialect.TRAINER,))
def trainer_part(plan: Plan) -> Iterator[Finding]:
    model = plan.root.get("model")
    named = any(
        model.get(name).given for name in ("type", "checkpoint", "name", "model_type", "family", "architectures")
    )
    nested = model.get("model_config").given or model.get("arch").given
    if model.text is None and not named and not nested:
        yield trainer_part.finding(
            evidence=_at(plan, model if model.given else plan.root, "model.type"),
            fixes=(advice(plan, "Add model: {type: llama, …}.", "补上 model: {type: llama, …}。"),),
            key="model",
        )


#: what a config.json must be right about, or another model is built without a word
_SIZES = frozenset(
    (
        *(word for name in ("num_layers", "hidden_size", "num_attention_heads") for word in SPELLINGS[name]),
        "num_key_value_heads",
        "intermediate_size",
        "vocab_size",
        "max_position_embeddings",
        "rms_norm_eps",
        "rope_theta",
        "rope_scaling",
        "tie_word_embeddings",
        "num_experts",
        "num_experts_per_tok",
        "n_routed_experts",
        "moe_intermediate_size",
        "num_nextn_predict_layers",
        "head_dim",
        "hidden_act",
        "torch_dtype",
    )
)


@check(
    Rule(
        id="CFG-KEY-022",
        name="huggingface-name-misspelt",
        severity=Severity.WARNING,
        category="config",
        title=Text("{key} is probably misspelt", "{key} 可能拼写有误"),
        why=Text(
            "transformers keeps unknown names and builds the model with its default.",
            "transformers 会保留未知名称，并按默认值构建模型。",
        ),
        fix=Text("Write {meant}.", "写成 {meant}。"),
    )
)
@applies((Dialect.HUGGINGFACE,))
def huggingface_name(plan: Plan) -> Iterator[Finding]:
    here = plan.root.mapping
    known = section_specs(Dialect.HUGGINGFACE, "").keys() | CANONICAL.keys()
    # A name that the model has under another spelling is not lacking.
    given = {CANONICAL.get(name, name) for name in here}
    lacking = [name for name in sorted(_SIZES) if CANONICAL.get(name, name) not in given]
    for name, value in here.items():
        hint = next((word for word in lacking if one_slip(name, word) and name != f"{word}s"), None)
        if name not in known and hint is not None:
            yield huggingface_name.finding(
                evidence=at_name(plan, value, hint), fixes=(rename(plan, value, hint),), key=value.key, meant=hint
            )


_HEADS = (
    "ForCausalLM",
    "ForConditionalGeneration",
    "LMHeadModel",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMaskedLM",
    "Model",
)


@check(
    Rule(
        id="CFG-REG-007",
        name="huggingface-class-misspelt",
        severity=Severity.WARNING,
        category="config",
        title=Text("{key} {value} is probably misspelt", "{key} {value} 可能拼写有误"),
        why=Text(
            "model_type and architectures name the same model; this one is a letter away from what the other says.",
            "model_type 与 architectures 指同一个模型；此处与另一项只差一两个字母。",
        ),
        fix=Text("Write {meant}.", "写成 {meant}。"),
    )
)
@applies((Dialect.HUGGINGFACE,))
def huggingface_class(plan: Plan) -> Iterator[Finding]:
    architectures, kind = plan.root.get("architectures"), plan.root.get("model_type")
    first = architectures.sequence[0] if architectures.sequence else architectures
    if not first.words or not kind.words:
        return
    stem, head = _parted(first.words)
    if head not in _HEADS and not first.words.endswith(_HEADS):
        meant = next((known for known in _HEADS if one_slip(head, known)), None)
        if meant is not None:
            yield _misspelt(plan, first, stem + meant)
    model, said = _bare(stem), _bare(kind.words)
    if one_slip(model, said) and model.rstrip("0123456789") != said.rstrip("0123456789"):
        yield _misspelt(plan, kind, stem.lower())


def _bare(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").replace(".", "")


def _parted(name: str) -> tuple[str, str]:
    """LlamaForCausalLM as Llama and ForCausalLM."""
    at = name.find("For", 1)
    if at > 0:
        return name[:at], name[at:]
    known = next((head for head in _HEADS if name.endswith(head)), "")
    return (name[: -len(known)], known) if known else (name, "")


def _misspelt(plan: Plan, value: Value, meant: str) -> Finding:
    return huggingface_class.finding(
        evidence=seen(plan, value, expected=meant),
        fixes=(change(plan, value, meant),),
        key=value.key,
        value=shown(value),
        meant=meant,
    )
