"""Do the shapes agree with the config, and with each other?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from doctor.check import Skip, check
from doctor.checks.weights.compared import diagnosed, source
from doctor.checks.weights.fields import FIELDS
from doctor.checks.weights.subject import Weights
from doctor.checks.words import shape, some
from doctor.finding import Edit, Evidence, Finding, Fix, Severity, Text
from doctor.formats.layers import by_pattern
from doctor.rule import Rule

if TYPE_CHECKING:
    from doctor.checks.weights.diagnosis import Diagnosis, Difference
    from doctor.formats.recognise import Odd

_NO_CONFIG = Text(
    "there is no config to compare with; name one: doctor check CONFIG.yaml --weights PATH",
    "没有可对照的配置；可指定：doctor check CONFIG.yaml --weights PATH",
)
_SLICED = Text("each file holds a slice of the tensors (tensor parallelism)", "每个文件只含张量的一个切片（张量并行）")


def compared(subject: Weights) -> Diagnosis:
    """The diagnosis against a config that says something about sizes. Raises Skip otherwise."""
    found = diagnosed(subject)
    if found.sizes is None:
        raise Skip(_NO_CONFIG)
    if subject.set.sliced:
        raise Skip(_SLICED)
    return found


def _single(subject: Weights, symbol: str) -> Iterator[tuple[Diagnosis, Difference]]:
    """The difference in this one size, unless the whole model is another one."""
    found = compared(subject)
    difference = found.difference(symbol)
    if difference is not None and not found.other_size and not found.other_family:
        yield found, difference


def _fix(found: Diagnosis, difference: Difference, subject: Weights) -> Fix:
    assert found.expected is not None
    names = FIELDS[difference.symbol]
    key = found.expected.key(names)
    return Fix(
        Text(
            f"Set {key} to {difference.observed}, or use weights of {difference.expected}.",
            f"将 {key} 设为 {difference.observed}，或换用 {difference.expected} 的权重。",
        ),
        edits=(Edit(str(found.expected.source), key, difference.expected, difference.observed),),
        applicability="unsafe",
        verify=f"doctor check {subject.path}",
    )


@check(
    Rule(
        id="WGT-SHP-001",
        name="weight-shape-mismatch",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text("{count} tensors have a shape that does not fit", "有 {count} 个张量的形状不符"),
        why=Text(
            "{names}: {observed} where the other tensors and the model need {expected}. Loading stops with 'should have "
            "the same shape'.",
            "{names_zh}：形状为 {observed}，而按其余张量与模型应为 {expected}。加载会报 should have the same shape 并中止。",
        ),
        fix=Text(
            "These tensors are of another model or were cut wrongly: take the weights from one source.",
            "这些张量来自别的模型或切分有误：请使用同一来源的权重。",
        ),
        verify="doctor check {path}",
    )
)
def mismatch(subject: Weights) -> Iterator[Finding]:
    found = diagnosed(subject)
    if subject.set.sliced:
        raise Skip(_SLICED)
    rest = list(found.odd)
    if rest:
        yield _odd_finding(mismatch.rule.finding, subject, rest)
        return
    # Sizes that the config says otherwise, and that no check of its own stands for.
    left = [item for item in found.differences if item.symbol not in _OWN_RULES]
    if found.difference("M") is not None:  # the shared experts follow from it
        left = [item for item in left if item.symbol != "S"]
    if not left or found.other_size or found.other_family or found.expected is None:
        return
    for difference in left:
        member = next(
            (m for m in found.model.members if any(difference.symbol in axis for axis in m.param.shape)), None
        )
        name = member.tensor.name if member is not None else difference.symbol
        yield mismatch.finding(
            _BY_FIELD if difference.symbol in _FIELDS_ALONE else _BY_FIELDS,
            field=found.expected.key(FIELDS.get(difference.symbol, (difference.symbol,))).rpartition(".")[2],
            source=source(found),
            size=difference.observed,
            evidence=(found.expected.evidence(FIELDS.get(difference.symbol, (difference.symbol,)),
                                              difference.observed, difference.expected),),
            count=sum(any(difference.symbol in axis for axis in m.param.shape) for m in found.model.members),
            names=name,
            names_zh=name,
            expected=difference.expected,
            path=subject.path,
        )  # fmt: skip


#: Sizes that are one field of the config; others are products of several.
_FIELDS_ALONE = {"E", "M", "D", "QL", "KL", "RP"}
_BY_FIELD = Text(
    "{field} is {expected} in {source}, the weights have {size} ({names} and those like it). Loading stops with 'should "
    "have the same shape'.",
    "{source} 中 {field} 为 {expected}，而权重中是 {size}（{names_zh} 等）。加载会报 should have the same shape 并中止。",
)
_BY_FIELDS = Text(
    "By {field} in {source} the size is {expected}, the weights have {size} ({names} and those like it). Loading stops "
    "with 'should have the same shape'.",
    "按 {source} 中的 {field} 计算应为 {expected}，而权重中是 {size}（{names_zh} 等）。加载会报 should have the same shape 并中止。",
)
_OWN_RULES = {"V", "H", "F", "K", "P", "L"}


def _odd_finding(make: object, subject: Weights, odd: list[Odd]) -> Finding:
    patterns = by_pattern(item.tensor.name for item in odd)
    names = some([members[0][1] if len(members) == 1 else pattern for pattern, members in patterns.items()])
    first = odd[0]
    assert callable(make)
    finding = make(
        evidence=[
            Evidence(
                "value",
                str(subject.path),
                key=item.tensor.name,
                observed=shape(item.tensor.shape),
                expected=_wanted(item),
            )
            for item in odd[:5]
        ],
        count=len(odd),
        names=names.en,
        names_zh=names.zh,
        observed=shape(first.tensor.shape),
        expected=_wanted(first),
        path=subject.path,
    )
    assert isinstance(finding, Finding)
    return finding


def _wanted(odd: Odd) -> str:
    return "[" + ", ".join("?" if size is None else str(size) for size in odd.expected) + "]"


@check(
    Rule(
        id="WGT-SHP-002",
        name="checkpoint-of-another-size",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text(
            "These are weights of {observed}, {source} describes {expected}",
            "权重是 {observed}，而 {source} 描述的是 {expected}",
        ),
        why=Text(
            "{table}. Loading stops at the first tensor, or leaves most of the model random.",
            "{table_zh}。加载会在第一个张量处中止，或使模型大部分保持随机。",
        ),
        fix=Text(
            "Use the weights of {expected}, or the config of {observed}.",
            "换用 {expected} 的权重，或 {observed} 的配置。",
        ),
        verify="doctor check {path}",
    )
)
def another_size(subject: Weights) -> Iterator[Finding]:
    found = compared(subject)
    if not found.other_size or found.other_family or found.expected is None or found.sizes is None:
        return
    from doctor.formats.families import known as known_models

    sizes = found.sizes
    observed = found.model.known
    expected = known_models.lookup(found.model.family.id, sizes.layers, sizes.symbols)
    rows = [
        (FIELDS.get(item.symbol, (item.symbol,))[0], item.observed, item.expected)
        for item in sorted(found.differences, key=lambda item: _ORDER.find(item.symbol[0]))
        if item.symbol in {"L", "H", "F", "V", "M", "E", "K"}
    ]
    table = ", ".join(f"{name} {have} against {want}" for name, have, want in rows)
    table_zh = "，".join(f"{name} 为 {have}，配置为 {want}" for name, have, want in rows)
    yield another_size.finding(
        evidence=[
            found.expected.evidence(FIELDS.get(item.symbol, (item.symbol,)), item.observed, item.expected)
            for item in found.differences
        ],
        observed=observed.name if observed else _plain(found.model.depth, found.model.symbols.get("H")),
        expected=expected.name if expected else _plain(sizes.layers, sizes.symbols.get("H")),
        source=source(found),
        table=table,
        table_zh=table_zh,
        path=subject.path,
    )


_ORDER = "LHFMEKV"


def _plain(layers: int, hidden: object) -> str:
    return f"{layers} x {hidden}"


@check(
    Rule(
        id="WGT-SHP-003",
        name="vocabulary-size-mismatch",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text(
            "The vocabulary is {observed} in the weights, {expected} in {source}",
            "权重的词表大小为 {observed}，{source} 中为 {expected}",
        ),
        why=Text(
            "{reason}. Embedding and head cannot be loaded.",
            "{reason_zh}。词嵌入和输出层无法加载。",
        ),
        fix=Text("Set {key} to {observed}.", "将 {key} 设为 {observed}。"),
        verify="doctor check {path}",
    )
)
def vocabulary(subject: Weights) -> Iterator[Finding]:
    for found, difference in _single(subject, "V"):
        assert found.expected is not None
        reason = _vocabulary_reason(difference.observed, difference.expected)
        yield vocabulary.finding(
            evidence=(found.expected.evidence(FIELDS["V"], difference.observed, difference.expected),),
            fixes=(_fix(found, difference, subject),),
            observed=difference.observed,
            expected=difference.expected,
            source=source(found),
            reason=reason.en,
            reason_zh=reason.zh,
            key=found.expected.key(FIELDS["V"]),
            path=subject.path,
        )


def _vocabulary_reason(observed: int, expected: int) -> Text:
    more = observed - expected
    if 0 < more <= 8:
        what = "a pad token was" if more == 1 else f"{more} tokens were"
        return Text(
            f"{what} added to the model after the config was written",
            f"写好配置之后模型又增加了 {more} 个 token（如 pad）",
        )
    if -8 <= more < 0:
        return Text(
            f"the config counts {-more} added token{'s' if more < -1 else ''} (such as a pad token) that these weights "
            "were not resized for",
            f"配置计入了 {-more} 个新增 token（如 pad），而权重没有相应扩展",
        )
    for large, small, en, zh in (
        (observed, expected, "the weights were padded", "权重被补齐"),
        (expected, observed, "the config was padded", "配置被补齐"),
    ):
        if small < large < small * 1.1:
            for unit in (1024, 512, 256, 128, 64, 32, 16):
                if large == -(-small // unit) * unit:
                    return Text(f"{en} to a multiple of {unit} for sharding", f"为便于切分，{zh}到 {unit} 的倍数")
    return Text(
        "the two are of models with different tokenizers, or the vocabulary was extended",
        "两者属于分词器不同的模型，或词表被扩展过",
    )


@check(
    Rule(
        id="WGT-SHP-004",
        name="feed-forward-size-mismatch",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text(
            "The feed-forward width is {observed} in the weights, {expected} in {source}",
            "权重的前馈层宽度为 {observed}，{source} 中为 {expected}",
        ),
        why=Text(
            "In MindFormers the width follows from intermediate_size, or from multiple_of and ffn_dim_multiplier when it "
            "is not set; the weights have {observed}.",
            "MindFormers 中前馈宽度取 intermediate_size，未设置时由 multiple_of 与 ffn_dim_multiplier 推出；权重中为 {observed}。",
        ),
        fix=Text("Set intermediate_size to {observed}.", "将 intermediate_size 设为 {observed}。"),
        verify="doctor check {path}",
    )
)
def feed_forward(subject: Weights) -> Iterator[Finding]:
    for found, difference in _single(subject, "F"):
        assert found.expected is not None
        yield feed_forward.finding(
            evidence=(found.expected.evidence(FIELDS["F"], difference.observed, difference.expected),),
            fixes=(_fix(found, difference, subject),),
            observed=difference.observed,
            expected=difference.expected,
            source=source(found),
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-SHP-005",
        name="kv-heads-mismatch",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text(
            "k and v have {observed} rows in the weights, {expected} by {source}",
            "权重中 k、v 为 {observed} 行，按 {source} 应为 {expected} 行",
        ),
        why=Text(
            "With heads of {head} that is {heads} KV heads instead of {wanted}: {key} is missing or that of another model.",
            "按每头 {head} 计算是 {heads} 个 KV 头，而不是 {wanted} 个：{key} 未设置或属于别的模型。",
        ),
        fix=Text("Set {key} to {heads}.", "将 {key} 设为 {heads}。"),
        verify="doctor check {path}",
    )
)
def kv_heads(subject: Weights) -> Iterator[Finding]:
    for found, difference in _single(subject, "K"):
        assert found.expected is not None and found.sizes is not None
        head = found.sizes.symbols.get("D", 0) or 1
        names = FIELDS["K"]
        key = found.expected.key(names)
        heads, wanted = difference.observed // head, difference.expected // head
        yield kv_heads.finding(
            evidence=(found.expected.evidence(names, heads, wanted),),
            fixes=(
                Fix(
                    Text(f"Set {key} to {heads}.", f"将 {key} 设为 {heads}。"),
                    edits=(Edit(str(found.expected.source), key, wanted, heads),),
                    applicability="unsafe",
                    verify=f"doctor check {subject.path}",
                ),
            ),
            observed=difference.observed,
            expected=difference.expected,
            head=head,
            heads=heads,
            wanted=wanted,
            key=key,
            source=source(found),
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-SHP-006",
        name="position-table-mismatch",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text(
            "The position table has {observed} rows, {source} asks for {expected}",
            "位置编码表为 {observed} 行，而 {source} 要求 {expected} 行",
        ),
        why=Text(
            "Learned positions are part of the weights: changing the sequence length of such a model changes the table.",
            "可学习的位置编码属于权重：修改序列长度会改变该表的大小。",
        ),
        fix=Text("Set {key} to {observed}.", "将 {key} 设为 {observed}。"),
        verify="doctor check {path}",
    )
)
def positions(subject: Weights) -> Iterator[Finding]:
    for found, difference in _single(subject, "P"):
        assert found.expected is not None
        yield positions.finding(
            evidence=(found.expected.evidence(FIELDS["P"], difference.observed, difference.expected),),
            fixes=(_fix(found, difference, subject),),
            observed=difference.observed,
            expected=difference.expected,
            source=source(found),
            key=found.expected.key(FIELDS["P"]),
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-SHP-007",
        name="weight-transposed",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text("{count} weights are transposed", "有 {count} 个权重被转置"),
        why=Text(
            "{names}: {observed} where {expected} is needed. Some layouts keep [in, out] (GPT-2's Conv1D, Bloom and GPT-2 "
            "in MindFormers), most [out, in]; square matrices of the same checkpoint are then turned too, and no shape "
            "shows it.",
            "{names_zh}：形状为 {observed}，应为 {expected}。有的命名体系按 [in, out] 保存（GPT-2 的 Conv1D、MindFormers 的 Bloom/GPT-2），"
            "多数按 [out, in]；同一权重中的方阵很可能也被转置，而形状上看不出来。",
        ),
        fix=Text(
            "Convert again from the original: doctor convert SRC DST", "从原始权重重新转换：doctor convert SRC DST"
        ),
        verify="doctor check {path}",
    )
)
def transposed(subject: Weights) -> Iterator[Finding]:
    found = diagnosed(subject)
    if found.transposed:
        yield _odd_finding(transposed.rule.finding, subject, list(found.transposed))


@check(
    Rule(
        id="WGT-SHP-008",
        name="embedding-and-head-disagree",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text("Embedding and output layer have different vocabularies", "词嵌入与输出层的词表大小不同"),
        why=Text(
            "{names} has {observed}, the other {expected}: one was resized and the other was not.",
            "{names_zh} 为 {observed}，另一个为 {expected}：只扩展了其中一个。",
        ),
        fix=Text("Resize both to one vocabulary and save again.", "将两者扩展到相同的词表大小后重新保存。"),
        verify="doctor check {path}",
    )
)
def vocabularies(subject: Weights) -> Iterator[Finding]:
    found = diagnosed(subject)
    if found.vocabulary_split:
        yield _odd_finding(vocabularies.rule.finding, subject, list(found.vocabulary_split))
