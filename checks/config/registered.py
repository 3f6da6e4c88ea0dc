"""Names of classes: unknown, misspelt, not in this release, of another kind; and what their constructors refuse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from doctor.check import check
from doctor.checks.config.judge import (
    GRAPH,
    MINDFORMERS,
    advice,
    applies,
    because,
    change,
    quote,
    remove,
    rename,
    seen,
    shown,
    worded,
)
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.plan.infer import named_values
from doctor.plan.names import Name, arguments, nearest, registered
from doctor.plan.plan import Dialect, Plan
from doctor.plan.value import Value
from doctor.rule import Rule

_WORDS = {
    "trainer": Text("trainer", "trainer"),
    "optimizer": Text("optimizer", "优化器"),
    "lr": Text("learning-rate schedule", "学习率策略"),
    "callback": Text("callback", "callback"),
    "wrapper": Text("wrapper", "wrapper"),
    "dataset": Text("data set", "数据集"),
    "dataset_loader": Text("data loader", "data loader"),
    "config": Text("model config", "模型配置类"),
    "models": Text("model", "模型"),
    "metric": Text("metric", "metric"),
    "model_type": Text("model_type", "model_type"),
    "tokenizer": Text("tokenizer", "tokenizer"),
    "processor": Text("processor", "processor"),
}

#: what takes the place of names that went
_SUCCESSORS = {
    "CheckpointMointor": "CheckpointMonitor",
    "CheckpointMonitor": "CheckpointMointor",
    "ColdHotExpertMointor": "ColdHotExpertMonitor",
    "FP32StateAdamWeightDecay": "AdamW",
    "FusedAdamWeightDecay": "AdamW",
    "adamw": "AdamW",
    "AdamW": "FP32StateAdamWeightDecay",
    "WarmUpDecayLR": "CosineWithWarmUpLR",
    "IndexedDataLoader": "BlendedMegatronDatasetDataLoader",
    "CommonDataLoader": "HFDataLoader",
}


def _named(plan: Plan) -> Iterator[tuple[Value, str]]:
    """The class names of the file that the run will look up."""
    if plan.dialect is Dialect.PYNATIVE:
        for value, kind in (
            (plan.schedule.type, "lr"),
            (plan.data.loader_type, "dataset_loader"),
        ):
            if value.given:
                yield value, kind
        return
    for value, kind in named_values(plan.root):
        if kind in {"config", "models"} and _registers_itself(plan):
            continue
        if not plan.trains and value.key.split(".")[0].split("[")[0] in _TRAINING_SECTIONS:
            continue
        yield value, kind
    if not plan.trains:
        for path, kind in ((("processor", "tokenizer", "type"), "tokenizer"), (("processor", "type"), "processor")):
            value = plan.root.get(*path)
            if value.given and not plan.root.get(*path[:-1], "auto_register").given:
                yield value, kind


_TRAINING_SECTIONS = frozenset(
    (
        "optimizer",
        "lr_schedule",
        "callbacks",
        "eval_callbacks",
        "runner_wrapper",
        "train_dataset",
        "train_dataset_task",
        "metric",
    )
)


def _idle(plan: Plan, value: Value) -> bool:
    """Whether the part is built only once somebody asks for an evaluation."""
    return value.key.startswith("eval") and plan.trains and not plan.root.get("do_eval").on


def _registers_itself(plan: Plan) -> bool:
    """A research folder registers its own model: auto_register, or a class that only the file's author knows."""
    return plan.model.section.get("auto_register").given or plan.root.get("model", "arch", "auto_register").given


def _lookup(value: Value, kind: str) -> Optional[Name]:
    name = registered(kind).get(value.words)
    if name is None and kind == "config":
        return registered("models").get(value.words)
    return name


@check(
    Rule(
        id="CFG-REG-001",
        name="unknown-class-name",
        severity=Severity.ERROR,
        category="config",
        title=Text("No {kind} is called {name}", "没有名为 {name} 的{kind}"),
        why=Text(
            "MindFormers looks the name up in its registry and stops: `Can't find class type ... in class registry`.",
            "MindFormers 在注册表中查找该名称，找不到即报错：`Can't find class type ... in class registry`。",
        ),
        fix=Text(
            "Correct the spelling, or register your class (--register_path, auto_register).",
            "改正拼写，或注册自己的类（--register_path、auto_register）。",
        ),
        references=("mindformers/tools/register/register.py get_cls",),
        false_positives=Text("A class of your own that your launcher registers.", "由启动脚本自行注册的类。"),
    )
)
@applies(MINDFORMERS)
def unknown_class(plan: Plan) -> Iterator[Finding]:
    unknown = [(value, kind) for value, kind in _named(plan) if value.words and _lookup(value, kind) is None]
    # Nobody misspells every second name: such a file is for a program that registers its own.
    of_their_own = len(unknown) >= _TOO_MANY_SLIPS
    for value, kind in unknown:
        word = value.words
        names = registered(kind)
        here = [text for text, known in names.items() if not known.releases or plan.release.has(known.releases)]
        hint = nearest(word, here, 0.8) or nearest(word, names, 0.8)
        other = None if hint else _other_kind(word, kind)
        words = _WORDS[kind]
        ask = Text("", "")
        if hint:
            ask = Text(f" Did you mean {hint}?", f"是否想写 {hint}？")
        elif other:
            ask = Text(f" It is a {_WORDS[other].en}.", f"它是{_WORDS[other].zh}。")
        else:
            ask = Text(" Perhaps your own code registers it.", "也可能由自己的代码注册。")
        fixes = (change(plan, value, hint),) if hint else None
        found = unknown_class.finding(
            Text(f"{unknown_class.rule.why.en}{ask.en}", f"{unknown_class.rule.why.zh}{ask.zh}"),
            evidence=seen(plan, value, expected=hint),
            fixes=fixes,
            severity=None
            if hint and kind != "processor" and not of_their_own and not _idle(plan, value)
            else Severity.WARNING,
            name=shown(value),
        )
        yield worded(found, kind=words)


#: unknown names in one file from which on they are no slips
_TOO_MANY_SLIPS = 5


@check(
    Rule(
        id="CFG-REG-008",
        name="registered-class-differs",
        severity=Severity.ERROR,
        category="config",
        title=Text(
            "auto_register brings {brought}, but type asks for {name}",
            "auto_register 注册的是 {brought}，而 type 为 {name}",
        ),
        why=Text(
            "auto_register imports one class and registers it under its own name; `type` is then looked up, and nothing has that name.",
            "auto_register 导入一个类并以类名注册，随后按 `type` 查找，没有该名称即报错。",
        ),
        fix=Text(
            "Write the same class in both: auto_register: module.Class, type: Class.",
            "两处写同一个类：auto_register: 模块.类名，type: 类名。",
        ),
        references=("mindformers/tools/register/register.py auto_register, get_instance_from_cfg",),
    )
)
@applies(GRAPH)
def registered_class_differs(plan: Plan) -> Iterator[Finding]:
    known = {name for kind in _WORDS for name in registered(kind)}
    for part in plan.root.walk():
        source, name = part.get("auto_register"), part.get("type")
        brought = source.words.rpartition(".")[2]
        if not part.is_mapping or not source.words or not name.words or name.words in {brought, *known}:
            continue
        yield registered_class_differs.finding(
            evidence=seen(plan, name, source, expected=brought),
            fixes=(change(plan, name, brought),),
            brought=brought,
            name=shown(name),
        )


def _other_kind(word: str, kind: str) -> Optional[str]:
    return next((other for other in _WORDS if other not in (kind, "model_type") and word in registered(other)), None)


@check(
    Rule(
        id="CFG-REG-002",
        name="class-not-in-release",
        severity=Severity.ERROR,
        category="config",
        title=Text("{name} is not in {release}", "{release} 中没有 {name}"),
        why=Text(
            "The name exists in other releases only; the run stops when it is looked up.",
            "该名称只存在于其他版本，查找时会报错退出。",
        ),
        fix=Text("Use the name of this release.", "使用本版本的名称。"),
        references=("mindformers/tools/register/register.py get_cls",),
    )
)
@applies(MINDFORMERS)
def not_in_release(plan: Plan) -> Iterator[Finding]:
    for value, kind in _named(plan):
        name = _lookup(value, kind)
        if name is None or name.origin != "mindformers" or plan.release.has(name.releases):
            continue
        successor = _SUCCESSORS.get(name.text)
        known = registered(kind).get(successor or "")
        fits = known is not None and plan.release.has(known.releases)
        hint = Text(f" Use {successor}.", f"请改用 {successor}。") if fits else Text("", "")
        described = plan.release.describe()
        dropped = kind == "callback" and not fits
        fixes: tuple[Fix, ...] = ()
        if fits and successor:
            fixes = (change(plan, value, successor),)
        elif dropped:
            fixes = (advice(plan, f"Remove the callback {name.text}.", f"删除 callback {name.text}。"),)
        found = not_in_release.finding(
            because(
                not_in_release,
                f"{name.text} is in {name.spans()}.{hint.en}",
                f"{name.text} 存在于 {name.spans()}。{hint.zh}",
            ),
            evidence=seen(plan, value, expected=successor if fits else None),
            fixes=fixes or None,
            severity=None if plan.release.certain and not _idle(plan, value) else Severity.WARNING,
            name=name.text,
        )
        yield worded(found, release=described)


@check(
    Rule(
        id="CFG-REG-003",
        name="constructor-refuses-argument",
        severity=Severity.ERROR,
        category="config",
        title=Text("{owner} takes no {argument}", "{owner} 不接受参数 {argument}"),
        why=Text(
            "The settings of this part are passed to the constructor: an unknown one is a TypeError.",
            "该部分的设置会传给构造函数，未知参数会报 TypeError。",
        ),
        fix=Text("Rename or remove it.", "改名或删除。"),
    )
)
@applies(GRAPH, training=True)
def refused_argument(plan: Plan) -> Iterator[Finding]:
    sections = [("optimizer", plan.root.get("optimizer"), plan.optimizer.type)]
    sections += [("callback", item, item.get("type")) for item in plan.context.callbacks.sequence if item.is_mapping]
    for kind, section, name in sections:
        taken = arguments(kind, name.words)
        if taken is None or taken[1]:
            continue
        known = taken[0] | {
            "type",
            "learning_rate",
            "weight_decay",
            "params",
            "auto_register",
            "layer_scale",
            "layer_decay",
        }
        for key, value in section.mapping.items():
            if key not in known:
                yield _refused(plan, name.words, key, value, known)


def _refused(plan: Plan, owner: str, key: str, value: Value, known: frozenset[str]) -> Finding:
    hint = {"beta1": "betas", "beta2": "betas", "betas": "beta1 and beta2"}.get(key) or nearest(key, known)
    place = value.named or value.location
    fixes: list[Fix] = []
    if hint in known and hint != "betas":
        fixes.append(rename(plan, value, str(hint)))
    elif key in {"beta1", "beta2"}:
        fixes.append(advice(plan, "Write betas: [beta1, beta2].", "写成 betas: [beta1, beta2]。"))
    fixes.append(remove(plan, value, safe=False))
    return refused_argument.finding(
        because(
            refused_argument,
            f"{owner} does not take {key}" + (f"; it takes {hint}." if hint else "."),
            f"{owner} 不接受 {key}" + (f"，应使用 {hint}。" if hint else "。"),
        ),
        evidence=(Evidence.at(place, "value", text=quote(plan, place), observed=key, expected=hint),),
        fixes=fixes,
        owner=owner,
        argument=key,
    )


@check(
    Rule(
        id="CFG-REG-004",
        name="unknown-model-type",
        severity=Severity.ERROR,
        category="config",
        title=Text("No model has the model_type {name}", "没有 model_type 为 {name} 的模型"),
        why=Text(
            "mcore and PyNative find the network by model_type; an unknown one stops the run.",
            "mcore 与 PyNative 按 model_type 查找网络，未知类型会报错退出。",
        ),
        fix=Text("Use the model_type of the model's config.json.", "使用模型 config.json 中的 model_type。"),
    )
)
@applies((Dialect.MCORE, Dialect.PYNATIVE))
def unknown_model_type(plan: Plan) -> Iterator[Finding]:
    value = plan.model.section.get("model_type")
    known = registered("model_type")
    if not value.words or value.words in known:
        return
    hint = nearest(value.words, known, 0.7)
    yield unknown_model_type.finding(
        evidence=seen(plan, value, expected=hint),
        fixes=(change(plan, value, hint),) if hint else None,
        severity=None if hint else Severity.WARNING,
        name=shown(value),
    )


@check(
    Rule(
        id="CFG-REG-005",
        name="unknown-architecture",
        severity=Severity.ERROR,
        category="config",
        title=Text("No network is called {name}", "没有名为 {name} 的网络"),
        why=Text(
            "architectures names the class of the network; mcore and PyNative look it up.",
            "architectures 指定网络类名，mcore 与 PyNative 会查找它。",
        ),
        fix=Text("Use the architecture of the model's config.json.", "使用模型 config.json 中的 architectures。"),
    )
)
@applies((Dialect.MCORE, Dialect.PYNATIVE))
def unknown_architecture(plan: Plan) -> Iterator[Finding]:
    value = plan.model.section.get("architectures")
    names = registered("models")
    for item in value.sequence or (value,):
        if item.words and item.words not in names:
            hint = nearest(item.words, names, 0.75)
            yield unknown_architecture.finding(
                evidence=seen(plan, item, *((value,) if item is not value else ()), expected=hint),
                fixes=(change(plan, item, hint),) if hint else None,
                severity=None if hint else Severity.WARNING,
                name=shown(item),
            )


@check(
    Rule(
        id="CFG-REG-006",
        name="pynative-name-unknown",
        severity=Severity.WARNING,
        category="config",
        title=Text("PyNative has no {what} {name}", "PyNative 没有{what} {name}"),
        why=Text("PyNative has its own few optimizers: AdamW and Muon.", "PyNative 自带的优化器只有 AdamW 和 Muon。"),
        fix=Text("Use AdamW or Muon.", "使用 AdamW 或 Muon。"),
    )
)
@applies((Dialect.PYNATIVE,))
def pynative_name(plan: Plan) -> Iterator[Finding]:
    value = plan.optimizer.type
    if value.words and value.words not in {"AdamW", "Muon", "FusedAdamW"}:
        hint = nearest(value.words, ("AdamW", "Muon"), 0.5)
        yield pynative_name.finding(
            evidence=seen(plan, value, expected=hint or "AdamW"),
            fixes=(change(plan, value, hint),) if hint else None,
            severity=Severity.ERROR if hint else None,
            what="optimizer",
            name=shown(value),
        )
