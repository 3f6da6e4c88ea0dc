"""Do the labels teach the next token, exactly once shifted?"""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.data.consumer import Shift
from doctor.checks.data.drawn import at
from doctor.checks.data.measure import Measured, Relation
from doctor.checks.data.subject import LABELS, Data
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule


def labelled(subject: Data) -> Measured:
    """The measures of a set with labels beside token ids. Raises Skip when it has none."""
    found = subject.measured
    if subject.set.unread is not None:
        raise Skip(subject.set.unread)
    if found.ids_column is None or found.labels_column is None:
        raise Skip(Text("there are no columns of token ids and labels", "没有 token id 与 labels 列"))
    if subject.consumer.shift is Shift.UNUSED:
        raise Skip(Text("this model takes input_ids alone", "该模型只使用 input_ids"))
    return found


def _sample(subject: Data, found: Measured) -> Evidence:
    from doctor.checks.data.measure import vector

    for row in subject.rows:
        ids, labels = vector(row.values.get(found.ids_column or "")), vector(row.values.get(found.labels_column or ""))
        if ids is not None and labels is not None and ids.size > 3 and labels.size > 3:
            return Evidence(
                "value",
                str(row.file),
                key=f"row {row.number}",
                text=f"input_ids {ids[:6].tolist()} labels {labels[:6].tolist()}",
                observed=LABELS[found.relation.value] if found.relation else None,
            )
    return Evidence("value", str(subject.path))


_MODEL = {
    Shift.INSIDE: Text("{model} shifts labels itself", "{model} 会在模型内部移位 labels"),
    Shift.NOT: Text("{model} compares labels position by position", "{model} 逐位置比较 labels，不再移位"),
    Shift.EITHER: Text("the built-in trainer shifts what needs it", "内置训练器会自动处理移位"),
    Shift.UNKNOWN: Text(
        "what the model does with labels is not known without its config", "没有配置，无法得知模型如何处理 labels"
    ),
}


def _model(subject: Data) -> Text:
    consumer = subject.consumer
    return _MODEL.get(consumer.shift, Text("", "")).format(model=consumer.model or "the model")


@check(
    Rule(
        id="DAT-LBL-001",
        name="labels-not-shifted",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("Labels equal input_ids: nobody shifts them", "labels 与 input_ids 相同：没有移位"),
        why=Text(
            "In {share:.0%} of the samples labels are the very tokens of input_ids, and {model_does}. {effect}",
            "{share:.0%} 的样本中 labels 就是 input_ids 本身，而{model_does_zh}。{effect_zh}",
        ),
        fix=Text(
            "Shift them once when the data set is made: labels = input_ids[1:] + [ignore].",
            "生成数据集时移位一次：labels = input_ids[1:] + [忽略值]。",
        ),
        verify="doctor check {path}",
    )
)
def not_shifted(subject: Data) -> Iterator[Finding]:
    found = labelled(subject)
    shift = subject.consumer.shift
    if found.relation is not Relation.EQUAL or shift in {Shift.INSIDE, Shift.EITHER}:
        return
    sure = shift is Shift.NOT
    model = _model(subject)
    yield not_shifted.finding(
        severity=Severity.ERROR if sure else Severity.INFO,
        confidence=0.95 if sure else 0.5,
        evidence=[_sample(subject, found), *_because(subject, shift)],
        fixes=None if sure else (_ask_for_the_config(subject),),
        share=found.agreement,
        model_does=model.en,
        model_does_zh=model.zh,
        effect="The model learns to copy its input: the loss falls to nearly 0 within a few hundred steps and the model is of no use."
        if sure
        else "That is right for MindFormers' legacy LLaMA and for Hugging Face models, which shift inside, and wrong for mcore, "
        "ChatGLM and loops of your own: name the config with doctor check CONFIG.yaml --data PATH.",
        effect_zh="模型会学成复制输入：loss 在几百步内降到接近 0，模型却毫无用处。"
        if sure
        else "对 MindFormers 旧版 LLaMA 与 Hugging Face 模型（内部移位）这是正确的，对 mcore、ChatGLM 或自写训练循环则是错误的："
        "请用 doctor check CONFIG.yaml --data PATH 指明配置。",
        path=subject.path,
    )


def _ask_for_the_config(subject: Data) -> Fix:
    return Fix(
        Text("Name the config that will read it.", "请指明读取它的训练配置。"),
        verify=f"doctor check CONFIG.yaml --data {subject.path}",
    )


def _because(subject: Data, shift: Shift) -> list[Evidence]:
    if subject.consumer.source is None:
        return []
    return [subject.consumer.evidence("model", subject.consumer.model, f"shift: {shift.value}")]


@check(
    Rule(
        id="DAT-LBL-002",
        name="labels-shifted-twice",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("Labels are shifted twice", "labels 被移位两次"),
        why=Text(
            "{what}. The model learns to predict the token after the next: the loss stays far above that of the same model "
            "shifted once.",
            "{what_zh}。模型学习的是预测下下个 token：loss 明显高于只移位一次的同一模型。",
        ),
        fix=Text("{cure}", "{cure_zh}"),
        verify="doctor check {path}",
    )
)
def shifted_twice(subject: Data) -> Iterator[Finding]:
    found = labelled(subject)
    shift = subject.consumer.shift
    model = _model(subject)
    if found.relation is Relation.TWICE:
        what = Text(
            f"In {found.agreement:.0%} of the samples labels[i] is input_ids[i+2]",
            f"{found.agreement:.0%} 的样本中 labels[i] 等于 input_ids[i+2]",
        )
        cure = Text("Shift once only when the data set is made.", "生成数据集时只移位一次。")
    elif found.relation is Relation.ONCE and shift is Shift.INSIDE:
        what = Text(
            f"The data set has shifted labels already (labels[i] is input_ids[i+1]), and {model.en}",
            f"数据集中的 labels 已移位（labels[i] 等于 input_ids[i+1]），而{model.zh}",
        )
        cure = Text(
            "Leave labels equal to input_ids, or set model_config.input_sliced_sig: True if input_ids and labels are both cut "
            "already.",
            "令 labels 与 input_ids 相同；若 input_ids 与 labels 都已切好，则设 model_config.input_sliced_sig: True。",
        )
    else:
        return
    yield shifted_twice.finding(
        confidence=0.95,
        evidence=[_sample(subject, found), *_because(subject, shift)],
        what=what.en,
        what_zh=what.zh,
        cure=cure.en,
        cure_zh=cure.zh,
        path=subject.path,
    )


@check(
    Rule(
        id="DAT-LBL-003",
        name="labels-shifted-backwards",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("Labels are shifted the wrong way", "labels 移位方向相反"),
        why=Text(
            "In {share:.0%} of the samples labels[i] is input_ids[i-1], the token before: a pad or start token was put in front of "
            "the labels instead of cutting their first. The model learns to repeat what it has just read.",
            "{share:.0%} 的样本中 labels[i] 等于 input_ids[i-1]，即前一个 token：在 labels 前补了 pad 或起始 token，而不是去掉首个。"
            "模型学到的是复述刚读过的内容。",
        ),
        fix=Text("labels = input_ids[1:] + [ignore].", "labels = input_ids[1:] + [忽略值]。"),
        verify="doctor check {path}",
    )
)
def backwards(subject: Data) -> Iterator[Finding]:
    found = labelled(subject)
    if found.relation is Relation.BACK:
        yield backwards.finding(
            confidence=0.95, evidence=(_sample(subject, found),), share=found.agreement, path=subject.path
        )


@check(
    Rule(
        id="DAT-LBL-004",
        name="labels-all-masked",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("{share} of the samples have no label to learn", "{share} 的样本没有可学习的 label"),
        why=Text(
            "In {count} of {total} samples every label is the ignored value. A batch of such samples has a loss of 0 or NaN (0/0); "
            "prompts that fill max_length leave no answer to learn.",
            "{total} 个样本中有 {count} 个的 labels 全为忽略值。这样的 batch loss 为 0 或 NaN（0/0）；提示词占满 max_length 就没有答案可学。",
        ),
        fix=Text(
            "Drop such samples, or lengthen the sequence; check that the mask covers the prompt and not the answer.",
            "丢弃这类样本或增大序列长度；检查掩码遮住的是提示词而不是答案。",
        ),
        verify="doctor check {path}",
    )
)
def all_masked(subject: Data) -> Iterator[Finding]:
    found = labelled(subject)
    count = len(found.masked)
    if not count:
        return
    share = count / found.samples
    yield all_masked.finding(
        severity=Severity.ERROR if share >= 0.05 else Severity.WARNING,
        evidence=[at(subject, place, found.labels_column or "") for place in found.masked[:5]],
        share=f"{share:.0%}" if share >= 0.01 else f"{share:.1%}",
        count=count,
        total=found.samples,
        path=subject.path,
    )


@check(
    Rule(
        id="DAT-LBL-005",
        name="labels-of-another-length",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("Labels and input_ids have different lengths", "labels 与 input_ids 长度不同"),
        why=Text(
            "{count} of {total} samples, such as row {row}: {observed}. The loss cannot be computed, or compares the wrong places.",
            "{total} 个样本中有 {count} 个，例如第 {row} 行：{observed_zh}。无法计算 loss，或比较了错误的位置。",
        ),
        fix=Text("Give both columns one length.", "令两列长度一致。"),
        verify="doctor check {path}",
    )
)
def uneven(subject: Data) -> Iterator[Finding]:
    found = labelled(subject)
    if found.uneven:
        yield uneven.finding(
            evidence=[at(subject, place, found.labels_column or "") for place in found.uneven[:5]],
            count=len(found.uneven),
            total=found.samples,
            row=found.uneven[0].row.number,
            observed=found.uneven[0].observed.en,
            observed_zh=found.uneven[0].observed.zh,
            path=subject.path,
        )


@check(
    Rule(
        id="DAT-LBL-006",
        name="labels-not-from-tokens",
        severity=Severity.WARNING,
        category="dataset",
        title=Text("Labels have nothing to do with input_ids", "labels 与 input_ids 无对应关系"),
        why=Text(
            "At no offset do labels agree with input_ids: they are of another sample order or another tokenizer, or the task is no "
            "language modelling.",
            "任何偏移下 labels 都与 input_ids 对不上：样本顺序或分词器不同，或任务并非语言建模。",
        ),
        fix=Text("Make both columns from the same tokens of the same sample.", "两列应取自同一样本的同一组 token。"),
        verify="doctor check {path}",
        confidence=0.7,
    )
)
def unrelated(subject: Data) -> Iterator[Finding]:
    found = labelled(subject)
    if found.relation is Relation.UNRELATED and found.agreement >= 0.5:
        yield unrelated.finding(evidence=(_sample(subject, found),), path=subject.path)


@check(
    Rule(
        id="DAT-LBL-007",
        name="padding-not-masked",
        severity=Severity.WARNING,
        category="dataset",
        title=Text("Padding counts in the labels", "padding 计入了 labels"),
        why=Text(
            "In {count} of {total} samples the labels of padding are the pad token {pad} and not the ignored value: the model learns "
            "to predict padding, and the loss looks better than it is.",
            "{total} 个样本中有 {count} 个的 padding 位置 labels 为 pad token {pad}，而不是忽略值：模型会学着预测 padding，loss 看起来偏低。",
        ),
        fix=Text(
            "Set labels of padding to the ignored value (-100), unless the model masks pad_token_id itself.",
            "将 padding 位置的 labels 设为忽略值（-100），除非模型自己屏蔽 pad_token_id。",
        ),
        verify="doctor check {path}",
        confidence=0.6,
        false_positives=Text(
            "MindFormers' models mask input_ids equal to pad_token_id themselves.",
            "MindFormers 模型会自行屏蔽等于 pad_token_id 的位置。",
        ),
    )
)
def padded(subject: Data) -> Iterator[Finding]:
    found = labelled(subject)
    masks_itself = subject.consumer.pad is not None and subject.consumer.pad == found.pad
    if found.padded_labels and not masks_itself and len(found.padded_labels) >= 0.05 * found.samples:
        yield padded.finding(
            evidence=[at(subject, place, found.labels_column or "") for place in found.padded_labels[:5]],
            count=len(found.padded_labels),
            total=found.samples,
            pad=found.pad,
            path=subject.path,
        )


@check(
    Rule(
        id="DAT-LBL-008",
        name="one-label-a-sample",
        severity=Severity.WARNING,
        category="dataset",
        title=Text("{share:.0%} of the samples have a single label", "{share:.0%} 的样本只有一个标签"),
        why=Text(
            "In {count} of {total} samples all labels but one are masked: the mask covers the answer and not the prompt, or answers were "
            "cut off. The model learns from one token of {length}.",
            "{total} 个样本中有 {count} 个只剩一个未屏蔽的标签：掩码遮住了答案而不是提示词，或答案被截断。模型从 {length} 个 token 中只学习一个。",
        ),
        fix=Text(
            "Mask the prompt and keep the answer; put the end token after it.",
            "屏蔽提示词、保留答案，并在其后加结束符。",
        ),
        verify="doctor check {path}",
        confidence=0.6,
        false_positives=Text("Multiple choice answered by one letter.", "只用一个字母作答的选择题。"),
    )
)
def single(subject: Data) -> Iterator[Finding]:
    found = labelled(subject)
    share = len(found.single) / max(found.samples, 1)
    if share >= 0.9:
        yield single.finding(
            evidence=[at(subject, place, found.labels_column or "") for place in found.single[:5]],
            share=share,
            count=len(found.single),
            total=found.samples,
            length=found.lengths["max"] if found.lengths else 0,
            path=subject.path,
        )


@check(
    Rule(
        id="DAT-MSK-001",
        name="mask-lets-nothing-through",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("{column} is 0 throughout in {share:.0%} of the samples", "{share:.0%} 的样本中 {column} 全为 0"),
        why=Text("{count} of {total} samples: {effect}", "{total} 个样本中有 {count} 个：{effect_zh}"),
        fix=Text(
            "Write 1 where a token counts and 0 where it does not; if the mask was inverted, turn it round.",
            "有效位置写 1，无效位置写 0；若掩码写反，请取反。",
        ),
        verify="doctor check {path}",
    )
)
def nothing_through(subject: Data) -> Iterator[Finding]:
    found = subject.measured
    if subject.set.unread is not None or found.ids_column is None:
        raise Skip(Text("there are no columns of token ids and masks", "没有 token id 与掩码列"))
    for column, places in found.hidden.items():
        share = len(places) / found.samples
        if share < 0.05:
            continue
        effect = _EFFECTS["loss" if "loss" in column else "attention"]
        yield nothing_through.finding(
            evidence=[at(subject, place, column) for place in places[:5]],
            column=column,
            share=share,
            count=len(places),
            total=found.samples,
            effect=effect.en,
            effect_zh=effect.zh,
            path=subject.path,
        )


_EFFECTS = {
    "loss": Text(
        "no token of them counts, the loss is 0 or NaN (0/0).", "没有任何 token 计入，loss 为 0 或 NaN（0/0）。"
    ),
    "attention": Text(
        "every token is taken for padding, the model sees nothing.", "所有 token 都被视为 padding，模型看不到任何内容。"
    ),
}
